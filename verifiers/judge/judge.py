"""Judging criteria: the files are read once, the questions asked side by side, every criterion gets its own outcome.

A judge that is down, limited or babbling leaves its criterion `missing`, with the failure, and touches no other. What
each verdict cost is recorded, keys and prompts are not.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from envkit.deadline import Deadline
from envkit.failure import Boundary, Failure, FailureKind, capture
from envkit.policy.keys import ApiKey, read_keys
from envkit.scrub import MIN_SECRET_CHARS, Scrubber
from envkit.snapshot import Changes, Snapshot, changes
from envkit.task import resolve_headers
from envkit.verifier import Criterion, Outcome
from envkit.verifiers.judge.ask import Asker, Budget, Lost, Spent, TooLong
from envkit.verifiers.judge.cache import Vote, VoteCache, content_key
from envkit.verifiers.judge.config import JudgeConfig
from envkit.verifiers.judge.connection import Connections
from envkit.verifiers.judge.evidence import Choice, choose, material
from envkit.verifiers.judge.lanes import Lanes
from envkit.verifiers.judge.prompt import PROMPT_VERSION, Material, fresh_boundary, messages
from envkit.verifiers.judge.reading import Reading, Render, Source, read_sources
from envkit.verifiers.judge.render import render_file
from envkit.verifiers.judge.schema import JudgeCheck

__all__ = ["JudgeContext", "JudgeRecord", "Judged", "judge_all", "judge_criteria"]

#: Stands for the boundary where a question is named by its content.
_ANY_BOUNDARY = "-"
#: How often the evidence is cut in half because it does not fit the model's context.
_MAX_SHRINKS = 4
_MAX_MESSAGE = 2_000


@dataclass(frozen=True, slots=True)
class JudgeContext:
    """What is judged.

    Attributes:
        instruction: The task as the agent got it.
        final: The snapshot's archive.
        initial: The initial state's folder, None where the task has no world.
        answer: The final answer.
        render: Turns a file into text; runs in the confined child.
        logs: A folder for `judge.jsonl`, a line per criterion; None = nowhere.
    """

    instruction: str
    final: Path
    initial: Path | None = None
    answer: str | None = None
    render: Render = render_file
    logs: Path | None = None


class JudgeRecord(BaseModel):
    """How a criterion came to its verdict, and what it cost.

    Attributes:
        question: The digest of what was asked (rules, criterion, evidence, model).
        requests, prompt_tokens, completion_tokens, cost_usd: Spent now, failed requests included; cached votes cost
            nothing. `cost_usd` is None where neither the endpoint nor a price table says.
        shown, left_out: Pieces of evidence shown, and files that were not.
        cut: Pieces of which only a part was shown.
        shrinks: How often the evidence was halved to fit the model's context.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    outcome: Outcome
    model: str
    question: str = ""
    votes: tuple[Vote, ...] = ()
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    shown: int = 0
    cut: int = 0
    left_out: int = 0
    shrinks: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Judged:
    """A criterion and its record."""

    criterion: Criterion
    record: JudgeRecord


async def judge_criteria(
    checks: Sequence[JudgeCheck], context: JudgeContext, config: JudgeConfig, deadline: Deadline
) -> list[Criterion]:
    """Judges criteria and returns their outcomes, in order. See `judge_all`."""
    return [judged.criterion for judged in await judge_all(checks, context, config, deadline)]


async def judge_all(
    checks: Sequence[JudgeCheck],
    context: JudgeContext,
    config: JudgeConfig,
    deadline: Deadline,
    host: Mapping[str, str] = os.environ,
) -> list[Judged]:
    """Judges criteria side by side. Never raises for what the judge or the agent's files do.

    Args:
        host: Where keys and the variables of headers are read from.

    Raises:
        UserError: The configuration names a key or variable that isn't there.
        SnapshotError: The final state is broken, so that there is nothing to judge.
    """
    if not checks:
        return []
    keys = read_keys(config.key_names, config.api_key_file, host) or (ApiKey("no key", None),)
    headers = resolve_headers(config.headers, host, where="headers of the judge")
    values = {key.value for key in keys if key.value} | set(headers.secret_values)
    scrubber = Scrubber(value for value in values if len(value) >= MIN_SECRET_CHARS)
    choices, readings = await _read(checks, context, config, deadline)
    rng = random.Random()
    pace_s = 60.0 / config.requests_per_minute if config.requests_per_minute else 0.0
    lanes = Lanes(keys, width=config.max_concurrency, pace_s=pace_s, rng=rng, clock=time.monotonic)
    width = config.max_concurrency * len(keys)
    transport = Connections(config)
    asker = Asker(config, lanes, transport, scrubber=scrubber, headers=dict(headers), rng=rng)
    cache = VoteCache(config.cache_folder()) if config.cache else None
    room = asyncio.Semaphore(width)
    try:
        cases = [
            _Case(check, choice, readings, context, config, asker, cache)
            for check, choice in zip(checks, choices, strict=True)
        ]
        judged = list(await asyncio.gather(*(case.judged(room, deadline) for case in cases)))
    finally:
        await transport.close()
    if context.logs is not None:
        _log(context.logs, judged)
    return judged


async def _read(
    checks: Sequence[JudgeCheck], context: JudgeContext, config: JudgeConfig, deadline: Deadline
) -> tuple[list[Choice], dict[Source, Reading]]:
    """What each check is to be shown, and all of it as text. Each file is read once."""

    def look() -> list[Choice]:
        initial = None if context.initial is None else Snapshot.from_folders(context.initial)
        with Snapshot.from_tar(context.final) as final:
            wanted = any(check.files == "changed" or check.changed_only for check in checks)
            changed = changes(initial, final) if wanted or initial is not None else Changes()
            return [choose(check, final, initial, changed, config.max_artifacts) for check in checks]

    choices = await asyncio.to_thread(look)
    sources = [source for choice in choices for source in choice.sources]
    readings = await read_sources(
        sources, context.final, context.initial, context.render, config.artifact_tokens * 4, deadline
    )
    return choices, readings


class _Case:
    """One criterion on its way to an outcome."""

    def __init__(
        self,
        check: JudgeCheck,
        choice: Choice,
        readings: Mapping[Source, Reading],
        context: JudgeContext,
        config: JudgeConfig,
        asker: Asker,
        cache: VoteCache | None,
    ) -> None:
        self._check, self._choice, self._readings = check, choice, readings
        self._context, self._config, self._asker, self._cache = context, config, asker, cache
        self._budget_tokens = config.artifact_tokens
        self._shrinks = 0
        self._votes: tuple[Vote, ...] = ()
        self._spent = Spent()
        self._material = Material()
        self._question = ""

    async def judged(self, room: asyncio.Semaphore, deadline: Deadline) -> Judged:
        """The outcome, whatever happens: the capture point of judging."""
        async with room:
            started_s = time.monotonic()
            try:
                criterion = await self._decide(deadline)
            except Lost as error:
                criterion = self._missing(error.kind, str(error))
            except Exception as error:  # noqa: BLE001 one criterion's mishap must not cost the others
                found = capture(error)
                criterion = self._missing(FailureKind.VERIFIER_ERROR, found.message, cause=found.cause)
        return Judged(criterion, self._record(criterion, time.monotonic() - started_s))

    async def _decide(self, deadline: Deadline) -> Criterion:
        check = self._check
        if check.answer is False and self._choice.nothing:
            return self._decided(0.0, "there is no file that the check names, so nobody was asked")
        if deadline.expired:
            return self._missing(FailureKind.VERIFIER_TIMEOUT, f"{deadline.what} had passed before a judge was asked")
        unread = [(s, self._readings[s]) for s in self._choice.sources if self._readings[s].system]
        if unread:
            source, reading = unread[0]
            kind = FailureKind.REFERENCE_INVALID if source.initial else FailureKind.VERIFIER_ERROR
            return self._missing(kind, f"/{source.path}: {reading.problem}")
        self._show()
        within = deadline.within(self._config.budget_s, f"{self._config.budget_s:.0f} s for one criterion are over")
        budget = Budget(within.at_s, self._config.max_attempts, why=within.what, spent=self._spent)
        for _ in range(_MAX_SHRINKS + 1):
            try:
                votes = await self._poll(budget)
            except TooLong as error:
                problem = str(error)
                self._budget_tokens //= 2
                self._shrinks += 1
                self._show()
                continue
            return self._tally(votes)
        raise Lost(FailureKind.JUDGE_UNREACHABLE, f"not even little evidence fits the judge's context: {problem}")

    def _show(self) -> None:
        answer = self._context.answer
        self._material = material(self._check, self._choice, self._readings, answer, self._budget_tokens)
        self._votes = ()
        config = self._config
        self._question = content_key(
            {
                "prompt": PROMPT_VERSION,
                "messages": messages(self._check, self._context.instruction, self._material, _ANY_BOUNDARY),
                "scale": self._check.scale,
                "model": config.model,
                "address": config.address,
                "sampling": [config.temperature, config.top_p, config.max_tokens, config.extra_body],
            }
        )

    async def _poll(self, budget: Budget) -> list[Vote]:
        """Asks for as many votes as it takes. Raises `Lost` where what is left can't decide, `TooLong`."""
        total = self._config.votes
        votes: list[Vote] = []
        lost: list[Lost] = []
        asked = 0
        while asked < total and not self._settled(votes, total) and self._open(votes, total, asked):
            more = total - asked if self._check.scale == "score" else self._least_more(votes, total, asked)
            found = await asyncio.gather(
                *(self._vote(number, budget) for number in range(asked, asked + more)), return_exceptions=True
            )
            asked += more
            for one in found:
                if isinstance(one, Vote):
                    votes.append(one)
                elif isinstance(one, Lost):
                    lost.append(one)
                elif isinstance(one, BaseException):
                    raise one
            self._votes = tuple(votes)
        if not self._settled(votes, total):
            last = lost[-1]
            got = f" ({len(votes)} of {total} votes came)" if votes else ""
            raise Lost(last.kind, f"{last}{got}")
        return votes

    def _settled(self, votes: Sequence[Vote], total: int) -> bool:
        """Whether the votes decide, whatever the others would be."""
        if self._check.scale == "score":
            return len(votes) == total
        passed = sum(vote.score >= 1.0 for vote in votes)
        return max(passed, len(votes) - passed) > total // 2

    def _open(self, votes: Sequence[Vote], total: int, asked: int) -> bool:
        """Whether the votes that are still to come can decide; not so when too many were lost."""
        if self._check.scale == "score":
            return len(votes) == asked
        return self._least_more(votes, total, 0) <= total - asked

    @staticmethod
    def _least_more(votes: Sequence[Vote], total: int, asked: int) -> int:
        """How many more votes could decide at the earliest: no vote is bought in vain."""
        passed = sum(vote.score >= 1.0 for vote in votes)
        return min(total - asked, total // 2 + 1 - max(passed, len(votes) - passed))

    async def _vote(self, number: int, budget: Budget) -> Vote:
        if self._cache is not None:
            kept = self._cache.get(self._question, number)
            if kept is not None:
                return kept
        check, shown = self._check, self._material

        def prompt(problem: str) -> list[dict[str, Any]]:
            return messages(check, self._context.instruction, shown, fresh_boundary(shown), problem=problem)

        vote = await self._asker.vote(prompt, check.scale, budget)
        return vote if self._cache is None else self._cache.put(self._question, number, vote)

    def _tally(self, votes: Sequence[Vote]) -> Criterion:
        if self._check.scale == "score":
            score = statistics.median(vote.score for vote in votes)
            near = min(votes, key=lambda vote: abs(vote.score - score))
            tally = "" if len(votes) == 1 else f"median of {', '.join(f'{vote.score:g}' for vote in votes)}: "
            return self._decided(score, tally + near.rationale)
        passed = sum(vote.score >= 1.0 for vote in votes)
        score = 1.0 if passed > len(votes) - passed else 0.0
        speaker = next(vote for vote in votes if vote.score == score)
        agreed = sum(vote.score == score for vote in votes)
        tally = "" if len(votes) == 1 else f"{agreed} of {len(votes)} votes: "
        return self._decided(score, tally + speaker.rationale)

    def _decided(self, score: float, message: str) -> Criterion:
        check = self._check
        passed = score >= (check.pass_at if check.scale == "score" else 1.0)
        return Criterion(
            id=check.id,
            description=check.description or check.criterion[:300],
            weight=check.weight,
            gate=check.gate,
            outcome=Outcome.PASSED if passed else Outcome.FAILED,
            score=score,
            expected=check.criterion[:500],
            message=message[:_MAX_MESSAGE],
        )

    def _missing(self, kind: FailureKind, message: str, *, cause: tuple[str, ...] = ()) -> Criterion:
        check = self._check
        ours = kind in (FailureKind.JUDGE_UNREACHABLE, FailureKind.JUDGE_UNPARSABLE)
        where = Boundary.JUDGE if ours else Boundary.VERIFIER
        text = f"check {check.id!r}: {message}"[:_MAX_MESSAGE]
        return Criterion(
            id=check.id,
            description=check.description or check.criterion[:300],
            weight=check.weight,
            gate=check.gate,
            outcome=Outcome.MISSING,
            message=message[:_MAX_MESSAGE],
            failure=Failure.of(kind, where, text, cause=cause),
        )

    def _record(self, criterion: Criterion, seconds: float) -> JudgeRecord:
        spent, shown = self._spent, self._material
        return JudgeRecord(
            id=criterion.id,
            outcome=criterion.outcome,
            model=self._config.model,
            question=self._question,
            votes=self._votes,
            requests=spent.requests,
            prompt_tokens=spent.prompt_tokens,
            completion_tokens=spent.completion_tokens,
            cost_usd=spent.cost_usd,
            shown=len(shown.exhibits),
            cut=sum(exhibit.shown_chars < exhibit.total_chars for exhibit in shown.exhibits),
            left_out=len(shown.left_out),
            shrinks=self._shrinks,
            seconds=round(seconds, 3),
        )


def total_cost(records: Sequence[JudgeRecord]) -> dict[str, Any]:
    """What a verification's judging cost, for the verdict's notes."""
    known = [record.cost_usd for record in records if record.cost_usd is not None]
    return {
        "requests": sum(record.requests for record in records),
        "prompt_tokens": sum(record.prompt_tokens for record in records),
        "completion_tokens": sum(record.completion_tokens for record in records),
        "cost_usd": math.fsum(known) if known else None,
        "cached_votes": sum(vote.cached for record in records for vote in record.votes),
    }


def _log(folder: Path, judged: Sequence[Judged]) -> None:
    # A full disk must not cost the verdicts; the records are in the results too.
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "judge.jsonl").open("a", encoding="utf-8") as sink:
            sink.writelines(one.record.model_dump_json() + "\n" for one in judged)
