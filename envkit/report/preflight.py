"""Preflight: how often trials of a set break by what is not the model's doing, at the concurrency of training.

The first rule of a training run is that the whole set runs once at training's concurrency and its error rate is about
0, because every trial that breaks is a hard task lost or, worse, scored 0. An *error* is a trial of which any attempt
ended in a fault (`envkit.failure`: everything there is a fault, a model's mistakes are results), also where a retry
cured it; and one that ran the task's own solution to its end and was scored below 1, which no model is to blame for.
The rate is held against a gate with an exact interval, so that a few clean trials are not taken for proof. Used by
`envkit preflight`; reads what any run recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from envkit.failure import FailureKind
from envkit.report.interval import interval, trials_needed
from envkit.trial.result import AttemptResult, Status, TrialResult

__all__ = ["BELOW_FULL", "Ending", "Fault", "Preflight", "Rate", "Stage", "Verdict", "preflight"]

#: The kind of an error that is none of `FailureKind`: the solution was played to its end and did not get the reward.
BELOW_FULL = "oracle_below_full"

#: Stages of a trial in the order in which they come; `agent` is the sum of two others, hence left out.
STAGES = {
    "load": "task and plug-ins",
    "world": "world at hand",
    "start": "sandbox start",
    "setup": "world upload, set-up",
    "open": "session open",
    "policy": "the model, or who plays",
    "tools": "tool calls",
    "close": "session close",
    "snapshot": "final state",
    "stop": "sandbox stop",
    "verify": "verification",
    "artifacts": "what changed, kept",
}
_MESSAGE_CHARS = 400


class Verdict(StrEnum):
    """What the rate says against the gate."""

    PASS = "pass"  # the whole interval is below it
    FAIL = "fail"  # the rate is above it
    TOO_FEW = "too_few"  # the rate is below it, but so few trials would show that by chance too often
    INCOMPLETE = "incomplete"  # the set was not run to its end


class Ending(StrEnum):
    """Which errors the gate counts."""

    ANY = "any"  # trials that met a fault, also those that a retry cured
    LOST = "lost"  # trials that ended without a verdict, or with the solution scored below 1


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rate(_Record):
    """A share of trials with its interval; None where there is no trial."""

    count: int
    trials: int
    rate: float | None
    lower: float
    upper: float


class Fault(_Record):
    """Errors of one kind at one boundary (or of one task), with the first one found.

    Attributes:
        trials: Trials that met it.
        attempts: Attempts that ended with it.
        cured: Trials that met it and have a verdict all the same.
    """

    kind: str
    boundary: str
    trials: int
    attempts: int
    cured: int
    tasks: int
    trial_id: str
    attempt: int
    message: str


class TaskErrors(_Record):
    """A task with errors."""

    task: str
    trials: int
    errors: int
    lost: int
    kinds: dict[str, int]


class Stage(_Record):
    """Seconds that one stage of an attempt took, over all attempts that came so far.

    Attributes:
        share: Of all attempts' time together.
        slowest: The trial of the maximum.
    """

    stage: str
    about: str
    attempts: int
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float
    share: float
    slowest: str


class Preflight(_Record):
    """The whole report.

    Attributes:
        trials: Finished ones, without those that somebody cancelled.
        error: Trials that met an error; `lost`: that ended without a usable verdict.
        retries: Attempts beyond each trial's first.
        needed: With how many trials, and as many errors as now, the rate clears the gate; None where it is above it.
        peak: The most trials that ran at the same time; `asked` is the concurrency that was asked for.
        notes: Faults of the clean-up, which cost no verdict, by text.
    """

    schema_version: int = 1
    folder: str
    verdict: Verdict
    why: str
    gate: float
    confidence: float
    counted: Ending
    planned: int
    trials: int
    cancelled: int
    missing: int
    attempts: int
    retries: int
    error: Rate
    lost: Rate
    needed: int | None
    boundaries: dict[str, int]
    faults: tuple[Fault, ...]
    tasks: tuple[TaskErrors, ...]
    stages: tuple[Stage, ...]
    asked: int | None
    peak: int
    mean_running: float
    wall_s: float
    notes: dict[str, int]

    @property
    def exit_code(self) -> int:
        """0: passed; 1: failed, or not run to its end; 3: too few trials to say."""
        return {Verdict.PASS: 0, Verdict.TOO_FEW: 3}.get(self.verdict, 1)


@dataclass(slots=True)
class _FaultCount:
    trials: int = 0
    attempts: int = 0
    cured: int = 0
    tasks: set[str] = field(default_factory=set)
    first: tuple[str, int, str] = ("", 0, "")


@dataclass(slots=True)
class _TaskCount:
    trials: int = 0
    errors: int = 0
    lost: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


class _Counting:
    """Takes trials one by one; what it keeps of each is a dozen numbers."""

    def __init__(self) -> None:
        self.trials = self.cancelled = self.attempts = self.retries = self.errors = self.lost = 0
        self.boundaries: Counter[str] = Counter()
        self.faults: dict[tuple[str, str], _FaultCount] = {}
        self.tasks: dict[str, _TaskCount] = {}
        self.times: dict[str, list[tuple[float, str]]] = {}
        self.spans: list[tuple[float, float]] = []
        self.notes: Counter[str] = Counter()

    def add(self, result: TrialResult, attempts: Sequence[AttemptResult]) -> None:
        finished = [a for a in attempts if a.status is not Status.CANCELLED]
        if result.status is Status.CANCELLED:
            self.cancelled += 1
            return
        self.trials += 1
        self.attempts += len(finished)
        self.retries += max(0, len(finished) - 1)
        for attempt in finished:
            self._times(attempt)
            self.notes.update(note[:200] for note in attempt.notes)
        task = result.spec.task  # a trial that died early knows no other name
        count = self.tasks.setdefault(task, _TaskCount())
        count.trials += 1
        found = list(_faults(result, finished))
        lost = result.reward is None or any(kind == BELOW_FULL for kind, *_ in found)
        self.lost += lost
        count.lost += lost
        if not found:
            return
        self.errors += 1
        count.errors += 1
        self.boundaries.update({boundary for _, boundary, *_ in found})
        count.kinds.update({kind for kind, *_ in found})
        for kind, boundary, number, message in found:
            fault = self.faults.setdefault((kind, boundary), _FaultCount())
            fault.attempts += 1
            fault.first = fault.first if fault.trials else (result.trial_id, number, message[:_MESSAGE_CHARS])
        for key in {(kind, boundary) for kind, boundary, *_ in found}:
            fault = self.faults[key]
            fault.trials += 1
            fault.cured += not lost
            fault.tasks.add(task)

    def _times(self, attempt: AttemptResult) -> None:
        self.spans.append((attempt.started_at.timestamp(), attempt.finished_at.timestamp()))
        parts = {name: took for name, took in attempt.timings.items() if name != "agent"}
        whole_s = max(0.0, attempt.duration_s)
        parts["other"] = max(0.0, whole_s - sum(parts.values()))
        parts["whole"] = whole_s
        for name, took_s in parts.items():
            self.times.setdefault(name, []).append((took_s, attempt.trial_id))


def preflight(
    results: Iterable[TrialResult],
    attempts: Callable[[str], Sequence[AttemptResult]],
    *,
    folder: str,
    planned: int | None,
    gate: float = 0.005,
    confidence: float = 0.95,
    counted: Ending = Ending.ANY,
    asked: int | None = None,
    stopped: str | None = None,
) -> Preflight:
    """Reads the results of a run, one by one, and holds its error rate against the gate.

    Args:
        attempts: The records of a trial's attempts, by its id.
        planned: How many trials the run was to have; None where nobody knows: those that are there.
        gate: The highest share of trials with errors that is let through.
        asked: The concurrency that the run was given, where known.
        stopped: Why the run came to no end, in words, where that is so.
    """
    count = _Counting()
    for result in results:
        count.add(result, attempts(result.trial_id))
    planned = count.trials + count.cancelled if planned is None else planned
    missing = planned - count.trials - count.cancelled
    error = _rate(count.errors, count.trials, confidence)
    lost = _rate(count.lost, count.trials, confidence)
    held = error if counted is Ending.ANY else lost
    needed = None
    if held.rate is not None and held.rate <= gate:
        needed = trials_needed(gate, held.count, confidence)
    if stopped is None and missing + count.cancelled:
        stopped = f"{missing + count.cancelled} of {planned} trials have no result"
    verdict, why = _judge(held, gate, confidence, needed, stopped)
    peak, mean, wall_s = _running(count.spans)
    if asked is not None and peak < min(asked, planned):
        why += f". At most {peak} trials ran at the same time, of {asked} asked for: this was not yet that load"
    elif asked is not None and planned < asked:
        why += f". The set has only {planned} trials, so {asked} never ran at the same time; give -n to run each often"
    return Preflight(
        folder=folder,
        verdict=verdict,
        why=why,
        gate=gate,
        confidence=confidence,
        counted=counted,
        planned=planned,
        trials=count.trials,
        cancelled=count.cancelled,
        missing=missing,
        attempts=count.attempts,
        retries=count.retries,
        error=error,
        lost=lost,
        needed=needed,
        boundaries=dict(count.boundaries.most_common()),
        faults=tuple(_fault_rows(count)),
        tasks=tuple(_task_rows(count)),
        stages=tuple(_stage_rows(count.times)),
        asked=asked,
        peak=peak,
        mean_running=round(mean, 2),
        wall_s=round(wall_s, 3),
        notes=dict(count.notes.most_common(20)),
    )


def _faults(result: TrialResult, attempts: Sequence[AttemptResult]) -> Iterator[tuple[str, str, int, str]]:
    """Kind, boundary, attempt and message of everything in a trial that broke. Of missing outcomes, each kind once."""
    for attempt in attempts:
        causes = [*attempt.missing, *([attempt.failure] if attempt.failure is not None else [])]
        seen: set[tuple[str, str]] = set()
        for failure in causes:
            key = (str(failure.kind), str(failure.boundary))
            if failure.kind is not FailureKind.CANCELLED and key not in seen:
                seen.add(key)
                yield *key, attempt.attempt, failure.message
    if not attempts and result.failure is not None:  # their own records are gone
        yield str(result.failure.kind), str(result.failure.boundary), 1, result.failure.message
    if result.spec.policy.name == "oracle" and result.reward is not None and result.reward < 1.0:
        verdict = result.verdict
        failed = [c.id for c in verdict.criteria if c.score is not None and c.score < 1.0] if verdict else []
        number = attempts[-1].attempt if attempts else 1
        yield BELOW_FULL, "task", number, f"the solution was scored {result.reward:.3f}; failed: {', '.join(failed)}"


def _judge(held: Rate, gate: float, confidence: float, needed: int | None, stopped: str | None) -> tuple[Verdict, str]:
    if held.rate is None:
        return Verdict.INCOMPLETE, stopped or "no trial was finished"
    share = f"{held.count} of {held.trials} trials ({held.rate:.2%}), with {confidence:.0%} confidence between "
    share += f"{held.lower:.2%} and {held.upper:.2%}, against a gate of {gate:.2%}"
    if held.rate > gate:
        chance = "" if held.lower > gate else "; chance could do that too, but something did break: mend it"
        return Verdict.FAIL, share + chance + (f". And {stopped}" if stopped else "")
    if stopped is not None:
        return Verdict.INCOMPLETE, f"{stopped}; so far {share}"
    if held.upper <= gate:
        return Verdict.PASS, share
    more = f"; with no further error it takes {needed} trials" if needed is not None else ""
    return Verdict.TOO_FEW, f"too few trials to say: {share}{more}"


def _rate(count: int, trials: int, confidence: float) -> Rate:
    lower, upper = interval(count, trials, confidence)
    return Rate(count=count, trials=trials, rate=count / trials if trials else None, lower=lower, upper=upper)


def _running(spans: Sequence[tuple[float, float]]) -> tuple[int, float, float]:
    """The most at the same time, the mean over time, and the seconds from first start to last end."""
    if not spans:
        return 0, 0.0, 0.0
    steps = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    running = peak = 0
    for _, change in steps:
        running += change
        peak = max(peak, running)
    wall_s = steps[-1][0] - steps[0][0]
    busy_s = sum(end - start for start, end in spans)
    return peak, (busy_s / wall_s if wall_s > 0 else float(len(spans))), wall_s


def _fault_rows(count: _Counting) -> Iterator[Fault]:
    for (kind, boundary), fault in sorted(count.faults.items(), key=lambda item: (-item[1].trials, item[0])):
        trial_id, attempt, message = fault.first
        yield Fault(
            kind=kind,
            boundary=boundary,
            trials=fault.trials,
            attempts=fault.attempts,
            cured=fault.cured,
            tasks=len(fault.tasks),
            trial_id=trial_id,
            attempt=attempt,
            message=message,
        )


def _task_rows(count: _Counting) -> Iterator[TaskErrors]:
    """Tasks with errors, those first of which the largest share of trials had some."""
    bad = [(name, task) for name, task in count.tasks.items() if task.errors]
    for name, task in sorted(bad, key=lambda item: (-item[1].errors / item[1].trials, -item[1].errors, item[0])):
        kinds = dict(task.kinds.most_common())
        yield TaskErrors(task=name, trials=task.trials, errors=task.errors, lost=task.lost, kinds=kinds)


def _stage_rows(times: dict[str, list[tuple[float, str]]]) -> Iterator[Stage]:
    """The stages, the one first whose slow end is the longest; the whole attempt above them."""
    whole_s = sum(took for took, _ in times.get("whole", ())) or 1.0
    about = {**STAGES, "whole": "the whole attempt", "other": "between the stages"}
    rows = [_stage(name, about.get(name, name), sorted(took), whole_s) for name, took in times.items()]
    yield from sorted(rows, key=lambda row: (row.stage != "whole", -row.p90_s, row.stage))


def _stage(name: str, about: str, took: list[tuple[float, str]], whole_s: float) -> Stage:
    def at(share: float) -> float:
        return round(took[min(len(took) - 1, int(share * len(took)))][0], 4)

    total_s = sum(seconds for seconds, _ in took)
    values: dict[str, Any] = {"p50_s": at(0.5), "p90_s": at(0.9), "p99_s": at(0.99), "max_s": round(took[-1][0], 4)}
    return Stage(
        stage=name, about=about, attempts=len(took), share=round(total_s / whole_s, 4), slowest=took[-1][1], **values
    )
