"""One vote: asking the endpoint until it gives a verdict, or there is no point in asking on.

What an HTTP answer means is the chat policy's table; what is done about it here is a short loop under one budget of
requests and seconds per criterion. A limited key rests and another is taken; a refused one is out; a broken connection,
an overloaded server or an answer without a verdict is tried again after a jittered pause; a refusal of the request's
form makes it simpler. Nothing here ever becomes a score.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from envkit.failure import FailureKind, UserError
from envkit.messages import well_formed
from envkit.policy import chat_wire
from envkit.policy.backoff import delay_s, retry_after_s
from envkit.policy.chat_client import Meaning, meaning
from envkit.policy.keys import Quarantine
from envkit.policy.transport import Broken, Reply
from envkit.scrub import Scrubber
from envkit.verifiers.judge.cache import Vote
from envkit.verifiers.judge.config import JudgeConfig
from envkit.verifiers.judge.connection import Connections
from envkit.verifiers.judge.lanes import Lane, Lanes, NoKeyLeft, NoKeyReady
from envkit.verifiers.judge.verdict import Scale, Unparsable, answer_schema, parse_ballot

__all__ = ["Asker", "Budget", "Lost", "Spent", "TooLong"]

#: What `structured = "auto"` tries, in order.
_FORMS: tuple[Literal["json_schema", "json_object", "none"], ...] = ("json_schema", "json_object", "none")
#: Answers without a verdict that are paid for before a vote is given up.
_MAX_UNREAD = 4
_ABOUT_FORM = ("response_format", "json_schema", "json_object", "structured output", "guided")


class Lost(Exception):
    """No verdict came: the endpoint is unreachable, or what it says can't be read."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class TooLong(Exception):
    """The request does not fit the model's context."""


@dataclass(slots=True)
class Spent:
    """What one criterion cost so far, failed requests included. `cost_usd` is None while nobody states a price."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None

    def add(self, prompt: int | None, completion: int | None, cost_usd: float | None) -> None:
        self.prompt_tokens += prompt or 0
        self.completion_tokens += completion or 0
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd


@dataclass(slots=True)
class Budget:
    """What one criterion may still use, over all its votes and retries; what it spent, and what last went wrong."""

    ends_s: float
    requests: int
    why: str = "the criterion's time is up"
    spent: Spent = field(default_factory=Spent)
    kind: FailureKind = FailureKind.JUDGE_UNREACHABLE
    problem: str = "no request was sent"

    def note(self, kind: FailureKind, problem: str) -> None:
        self.kind, self.problem = kind, problem

    def lost(self, why: str) -> Lost:
        return Lost(self.kind, f"{why}; the last answer: {self.problem}")


class Asker:
    """Asks one endpoint; for many votes at once, in one event loop."""

    def __init__(
        self,
        config: JudgeConfig,
        lanes: Lanes,
        transport: Connections,
        *,
        scrubber: Scrubber,
        headers: Mapping[str, str],
        rng: random.Random,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._config, self._lanes, self._transport = config, lanes, transport
        self._scrubber, self._rng, self._clock, self._sleep = scrubber, rng, clock, sleep
        self._headers = {
            "content-type": "application/json",
            "accept": "application/json",
            **{name.lower(): text for name, text in headers.items()},
        }
        self._form = "json_schema" if config.structured == "auto" else config.structured
        self._cold = True  # whether a temperature is still sent

    async def vote(self, prompt: Callable[[str], list[dict[str, Any]]], scale: Scale, budget: Budget) -> Vote:
        """Gets one verdict.

        Args:
            prompt: Makes the messages, with a boundary of their own each time; takes what was wrong with the answer
                before.

        Raises:
            Lost: JUDGE_UNREACHABLE or JUDGE_UNPARSABLE.
            TooLong: The prompt does not fit.
        """
        unread, sent, failures, babble = "", 0, 0, 0
        while True:
            if budget.requests <= 0:
                raise budget.lost("no verdict within the attempts that are allowed")
            lane = await self._lane(budget)
            sent_s = self._clock()
            budget.requests -= 1
            budget.spent.requests += 1
            sent += 1
            form, cold = self._form, self._cold
            try:
                reply = await self._transport.post(
                    self._body(prompt(unread), scale),
                    self._with_key(lane),
                    timeout_s=max(0.001, min(self._config.request_timeout_s, budget.ends_s - sent_s)),
                )
            except Broken as error:
                budget.note(FailureKind.JUDGE_UNREACHABLE, str(error))
                failures += 1
                await self._pause(failures, None, budget)
                continue
            except UserError as error:
                raise Lost(FailureKind.JUDGE_UNREACHABLE, str(error)) from error
            finally:
                self._lanes.release(lane)
            meant, asked_s = meaning(reply.status, reply.body), retry_after_s(reply.headers, dt.datetime.now(dt.UTC))
            if meant is Meaning.ANSWER:
                try:
                    return self._read(reply, lane, sent_s, scale, budget.spent, sent)
                except chat_wire.NotAnAnswer as error:
                    problem = f"HTTP {reply.status}, but no chat completion: {self._clean(str(error))}"
                    budget.note(FailureKind.JUDGE_UNREACHABLE, problem)
                    meant = meaning(error.status or 502, reply.body)
                except Unparsable as error:
                    unread = "it was not one JSON object with a rationale and a verdict"
                    budget.note(FailureKind.JUDGE_UNPARSABLE, self._clean(str(error)))
                    meant = Meaning.AGAIN
                    babble += 1
                    if babble >= _MAX_UNREAD:
                        raise budget.lost(f"{babble} answers without a verdict") from None
            else:
                problem = f"HTTP {reply.status}: {self._clean(chat_wire.error_text(reply.body))}"
                budget.note(FailureKind.JUDGE_UNREACHABLE, problem)
            match meant:
                case Meaning.LIMITED:
                    self._lanes.limited(lane, sent_s, asked_s)
                case Meaning.REFUSED | Meaning.EXHAUSTED:
                    why = Quarantine.REFUSED if meant is Meaning.REFUSED else Quarantine.EXHAUSTED
                    self._lanes.refused(lane, why)
                case Meaning.CONTEXT:
                    raise TooLong(budget.problem)
                case Meaning.REJECTED:
                    self._simplify(reply, form, cold, budget)
                case _:
                    failures += 1
                    await self._pause(failures, asked_s, budget)

    async def _lane(self, budget: Budget) -> Lane:
        try:
            return await self._lanes.take(budget.ends_s)
        except NoKeyLeft as error:
            raise Lost(
                FailureKind.JUDGE_UNREACHABLE,
                f"the judge's endpoint accepts none of the keys ({error}); check api_key_env or api_key_file. "
                f"It said: {budget.problem}",
            ) from None
        except NoKeyReady as error:
            raise budget.lost(f"{budget.why}: {error}") from None

    def _body(self, messages: list[dict[str, Any]], scale: Scale) -> bytes:
        body = chat_wire.request_body(self._config, messages, ())
        if not self._cold:
            body.pop("temperature", None)
        if self._form == "json_schema":
            schema = {"name": "verdict", "strict": True, "schema": answer_schema(scale)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif self._form == "json_object":
            body["response_format"] = {"type": "json_object"}
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()

    def _with_key(self, lane: Lane) -> dict[str, str]:
        if lane.key.value is None:
            return self._headers
        return {**self._headers, "authorization": f"Bearer {lane.key.value}"}

    def _read(self, reply: Reply, lane: Lane, sent_s: float, scale: Scale, spent: Spent, sent: int) -> Vote:
        """The vote in an answer. Raises `NotAnAnswer`, `Unparsable`."""
        message = chat_wire.parse_answer(reply.body, self._config, 0)
        self._lanes.worked(lane, sent_s)
        usage = message.usage
        spent.add(usage.prompt_tokens, usage.completion_tokens, usage.cost_usd)
        try:
            ballot = parse_ballot(message.text, scale)
        except Unparsable as error:
            if message.finish in ("length", "context"):
                raise Unparsable(f"the judge's answer was cut off at max_tokens ({error})") from None
            raise
        return Vote(
            score=ballot.score,
            rationale=self._clean(ballot.rationale),
            requests=sent,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost_usd=usage.cost_usd,
            model=self._clean(message.model or ""),
            key=lane.key.label,
        )

    def _simplify(self, reply: Reply, form: str, cold: bool, budget: Budget) -> None:
        """Makes the request's form simpler where that is what the endpoint refuses; else gives up."""
        said = reply.body[:20_000].decode("utf-8", "replace").lower()
        if reply.status in (400, 404, 415, 422, 501):
            if self._config.structured == "auto" and form != "none" and any(word in said for word in _ABOUT_FORM):
                if self._form == form:  # another request in flight may have been faster
                    self._form = _FORMS[_FORMS.index(form) + 1]
                return
            if cold and "temperature" in said and self._config.temperature is not None:
                self._cold = False
                return
        raise Lost(FailureKind.JUDGE_UNREACHABLE, f"the judge's endpoint rejects the request: {budget.problem}")

    async def _pause(self, failures: int, asked_s: float | None, budget: Budget) -> None:
        if budget.requests <= 0:
            return
        config = self._config
        pause_s = delay_s(failures, self._rng, first_s=config.first_delay_s, longest_s=config.longest_delay_s)
        pause_s = max(pause_s, asked_s or 0.0)
        if self._clock() + pause_s >= budget.ends_s:
            raise budget.lost(f"{budget.why}, with no time left for another attempt")
        await self._sleep(pause_s)

    def _clean(self, text: str) -> str:
        return self._scrubber.scrub_text(well_formed(text))
