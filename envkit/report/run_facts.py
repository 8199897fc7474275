"""What a report shows of a run, read from its records in one pass: a small row per trial, sums over the rest.

A record may hold megabytes of evidence; of each only the figures stay, so that memory grows with the number of trials
and not with what they said. Used by `run_page`.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from envkit.report.stored import StoredRun
from envkit.report.summary import group_key
from envkit.trial.result import TrialResult
from envkit.verifier import Outcome

__all__ = ["CriterionTally", "Row", "RunFacts", "read_run"]

#: Criteria that are told apart, and characters of what is kept of a text.
_CRITERIA, _TEXT = 5_000, 400


@dataclass(frozen=True, slots=True)
class Row:
    """One trial. `tokens` are those sampled, `context` the largest one, 0 where nobody said."""

    trial_id: str
    task: str
    sample: int
    status: str
    reward: float | None
    failure: str | None
    message: str
    stop: str | None
    turns: int
    calls: int
    tokens: int
    context: int
    seconds: float

    @property
    def said(self) -> str:
        what = (
            f"reward {self.reward:.3g}" if self.reward is not None else (self.failure or self.status).replace("_", " ")
        )
        return f"attempt {self.sample}: {what}, {self.turns} turns"


@dataclass(slots=True)
class CriterionTally:
    id: str
    description: str
    message: str = ""
    judged: int = 0
    failed: int = 0
    tasks: set[str] = field(default_factory=set)


@dataclass
class RunFacts:
    """A run as a report needs it.

    Attributes:
        light: The results without verdicts, answers and attempts, for statistics.
        by_group: Rows by policy and harness, in order of first appearance.
        stops: Stop reasons by policy and harness.
        damaged: Files that could not be read.
        regrading: What is to be told where the newest verdicts of `envkit regrade` are taken.
    """

    folder: Path
    planned: int | None = None
    rows: list[Row] = field(default_factory=list)
    light: list[TrialResult] = field(default_factory=list)
    by_group: dict[tuple[str, str], list[Row]] = field(default_factory=dict)
    stops: dict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    criteria: dict[str, CriterionTally] = field(default_factory=dict)
    timings: dict[str, tuple[float, int]] = field(default_factory=dict)
    first: dt.datetime | None = None
    last: dt.datetime | None = None
    damaged: list[str] = field(default_factory=list)
    regrading: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @cached_property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(row.task for row in self.rows))

    def slowest(self) -> list[tuple[str, tuple[float, int]]]:
        """Stages of a trial with the seconds spent in them and in how many trials, the longest first."""
        return sorted(self.timings.items(), key=lambda item: -item[1][0])[:12]

    def add(self, result: TrialResult) -> None:
        row = Row(
            trial_id=result.trial_id,
            task=result.spec.task,
            sample=result.spec.sample,
            status=str(result.status),
            reward=result.reward,
            failure=str(result.failure.kind) if result.failure else None,
            message=result.failure.message.strip()[:_TEXT] if result.failure else "",
            stop=str(result.stop) if result.stop else None,
            turns=result.turns,
            calls=result.tool_calls,
            tokens=result.usage.completion_tokens or 0,
            context=result.usage.max_context_tokens or 0,
            seconds=(result.finished_at - result.started_at).total_seconds(),
        )
        key = group_key(result)
        self.rows.append(row)
        self.by_group.setdefault(key, []).append(row)
        if row.stop is not None:
            self.stops[key][row.stop] += 1
        for stage, spent_s in result.timings.items():
            total, count = self.timings.get(stage, (0.0, 0))
            self.timings[stage] = (total + spent_s, count + 1)
        self.first = result.started_at if self.first is None else min(self.first, result.started_at)
        self.last = result.finished_at if self.last is None else max(self.last, result.finished_at)
        self._count_criteria(result)
        nothing: dict[str, object] = {
            "verdict": None,
            "steps": (),
            "missing": (),
            "final_answer": None,
            "attempts": (),
            "timings": {},
        }
        self.light.append(result.model_copy(update=nothing))

    def _count_criteria(self, result: TrialResult) -> None:
        for criterion in result.verdict.criteria if result.verdict else ():
            tally = self.criteria.get(criterion.id)
            if tally is None:
                if len(self.criteria) >= _CRITERIA:
                    continue
                tally = self.criteria[criterion.id] = CriterionTally(criterion.id, criterion.description[:_TEXT])
            if criterion.outcome is Outcome.MISSING:
                continue
            tally.judged += 1
            if criterion.outcome is Outcome.FAILED:
                tally.failed += 1
                tally.tasks.add(result.spec.task)
                tally.message = tally.message or (criterion.message or criterion.actual or "")[:_TEXT]


def read_run(folder: Path, results: Iterable[TrialResult] | None = None, *, regraded: bool = False) -> RunFacts:
    """Reads a run's finished trials, or takes those that the caller has read already. Raises `UserError` where the
    folder holds no run, or a newer envkit's."""
    stored = StoredRun(folder, regraded=regraded)
    run = RunFacts(folder, planned=stored.planned)
    for result in stored.results() if results is None else results:
        run.add(result)
    run.damaged = stored.damaged
    run.regrading = stored.regrading(len(run.rows))
    return run
