"""Putting trials into groups by primary cause, in one pass, keeping of each trial a handful of numbers.

What grows with the run is a count per task and cause, and one line per example shown; five thousand trials with long
conversations need no more memory than the longest of them.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from envkit.failure import UserError
from envkit.report.stored import StoredRun
from envkit.report.triage import faults, model, tools, work
from envkit.report.triage.case import Case, Evidence, Sign, read_case, shorten
from envkit.report.triage.causes import BY_ID, CAUSES, Cause, Family
from envkit.report.triage.training import Training, TrainingLog, as_result, read_training
from envkit.trial.kept import is_training_run, kept_rollouts
from envkit.trial.result import Status, TrialResult
from envkit.trial.store import Damage

__all__ = ["Triage", "signs_of", "triage"]

_ORDER = {cause.id: number for number, cause in enumerate(CAUSES)}
#: Tasks named in a group, and criteria in the list of those that fail most.
_TASKS = 5
_CRITERIA = 20
#: Criteria that are told apart; a verifier that gives each of its trials others would fill the memory.
_KNOWN = 10_000
#: Details of one task that are told apart; a task with more fails in many ways.
_DETAILS = 16


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Example(_Record):
    """A trial of a group, and where to look."""

    trial_id: str
    task: str
    attempt: int
    reward: float | None
    turn: int | None
    excerpt: str
    folder: str
    also: tuple[str, ...] = ()


class Group(_Record):
    """Trials with the same primary cause.

    Attributes:
        share: Of the trials that were looked into.
        mean: Mean reward of those that have one.
        also: Trials of other groups that show the cause too.
        tasks: The tasks with most of them; `per_task_max` is how many the first has.
        details: What varies within the cause (packages, tools, criteria), with counts.
    """

    cause: str
    title: str
    family: Family
    todo: str
    trials: int
    share: float
    mean: float | None
    also: int
    task_count: int
    per_task_median: float
    per_task_max: int
    tasks: dict[str, int]
    details: dict[str, int]
    examples: tuple[Example, ...]


class Suspect(_Record):
    """A task of which every attempt got little reward for the same reason."""

    task: str
    trials: int
    mean: float | None
    cause: str
    title: str
    detail: str
    environment: bool
    todo: str
    example: Example


class CriterionCount(_Record):
    """A criterion (by id) that failed: in how many of the trials looked into, and in how many tasks."""

    id: str
    description: str
    failed: int
    tasks: int
    message: str
    trial_id: str


class Triage(_Record):
    """The whole report.

    Attributes:
        low: Trials that were looked into: no reward, or one below `below`.
        unreadable: Trials whose trajectory could not be read; they are grouped by what is left.
        suspects: Tasks that are likely at fault themselves, the surest first.
        single: Whether no task was tried twice, so that nothing can be said of "every attempt".
        training: Of a training run, what its log says of all rollouts; all else is of those whose files were kept.
    """

    schema_version: int = 1
    folder: str
    below: float
    trials: int
    low: int
    scored_low: int
    without_verdict: int
    cancelled: int
    mean: float | None
    unreadable: int
    single: bool
    training: Training | None = None
    suspects: tuple[Suspect, ...]
    groups: tuple[Group, ...]
    criteria: tuple[CriterionCount, ...]
    notes: tuple[str, ...]


def signs_of(case: Case) -> list[Sign]:
    """Everything that a trial shows, its primary cause first; never empty."""
    found = list(faults.signs(case))
    if not found:
        for look in (tools.signs, model.signs, work.signs):
            found.extend(look(case))
    if not found:
        verdict = case.result.verdict
        said = f"scored {case.result.reward} by {verdict.verifier if verdict else 'nobody'}; answer: {case.final_text}"
        found = [Sign("wrong_result", False, Evidence(case.last_turn, shorten(said)))]
    return sorted(found, key=lambda sign: (not sign.strong, _ORDER[sign.cause]))


@dataclass(slots=True)
class _GroupCount:
    trials: int = 0
    reward_sum: float = 0.0
    rewards: int = 0
    also: int = 0
    tasks: Counter[str] = field(default_factory=Counter)
    details: Counter[str] = field(default_factory=Counter)
    examples: list[Example] = field(default_factory=list)


@dataclass(slots=True)
class _TaskCount:
    trials: int = 0
    low: int = 0
    reward_sum: float = 0.0
    rewards: int = 0
    ways: Counter[tuple[str, str]] = field(default_factory=Counter)
    example: Example | None = None


@dataclass(slots=True)
class _CriterionTally:
    description: str
    message: str
    trial_id: str
    failed: int = 0
    tasks: set[str] = field(default_factory=set)


class _Grouping:
    def __init__(self, below: float, examples: int) -> None:
        self.below = below
        self._examples = examples
        self.trials = self.low = self.without = self.cancelled = self.unreadable = 0
        self.reward_sum, self.rewards = 0.0, 0
        self.groups: dict[str, _GroupCount] = {}
        self.tasks: dict[str, _TaskCount] = {}
        self.criteria: dict[str, _CriterionTally] = {}
        self.notes: list[str] = []

    def add(self, result: TrialResult, read: Callable[[], Case]) -> None:
        if result.status is Status.CANCELLED:
            self.cancelled += 1
            return
        self.trials += 1
        task = self.tasks.setdefault(result.spec.task, _TaskCount())
        task.trials += 1
        if result.reward is not None:
            self.reward_sum, self.rewards = self.reward_sum + result.reward, self.rewards + 1
            task.reward_sum, task.rewards = task.reward_sum + result.reward, task.rewards + 1
            if result.reward >= self.below:
                return
        else:
            self.without += 1
        self.low += 1
        task.low += 1
        case = read()
        self.unreadable += not case.readable
        if len(self.notes) < 20:
            self.notes.extend(case.notes)
        self._file(case, signs_of(case), task)

    def _file(self, case: Case, signs: list[Sign], task: _TaskCount) -> None:
        primary, name = signs[0], case.task
        detail = shorten(primary.detail, 160)
        group = self.groups.setdefault(primary.cause, _GroupCount())
        group.trials += 1
        if case.result.reward is not None:
            group.reward_sum, group.rewards = group.reward_sum + case.result.reward, group.rewards + 1
        group.tasks[name] += 1
        if detail and (detail in group.details or len(group.details) < 200):
            group.details[detail] += 1
        others = {sign.cause for sign in signs[1:]} - {primary.cause}
        for cause in others:
            self.groups.setdefault(cause, _GroupCount()).also += 1
        example = Example(
            trial_id=case.result.trial_id,
            task=name,
            attempt=case.attempt,
            reward=case.result.reward,
            turn=primary.evidence.turn,
            excerpt=primary.evidence.excerpt,
            folder=f"trials/{case.result.trial_id}/attempt-{case.attempt}",
            also=tuple(sorted(others, key=_ORDER.__getitem__)),
        )
        self._keep(group.examples, example)
        task.example = task.example or example
        way = (primary.cause, detail)
        if way in task.ways or len(task.ways) < _DETAILS:
            task.ways[way] += 1
        for criterion in case.failed:
            if criterion.id not in self.criteria and len(self.criteria) >= _KNOWN:
                continue
            tally = self.criteria.setdefault(
                criterion.id,
                _CriterionTally(criterion.description[:200], shorten(criterion.message, 200), case.result.trial_id),
            )
            tally.failed += 1
            tally.tasks.add(name)

    def _keep(self, examples: list[Example], example: Example) -> None:
        """Examples of different tasks are worth more than of one."""
        if len(examples) < self._examples:
            examples.append(example)
        elif example.task not in {kept.task for kept in examples}:
            seen: set[str] = set()
            for number, kept in enumerate(examples):
                if kept.task in seen:
                    examples[number] = example
                    return
                seen.add(kept.task)


def triage(
    folder: Path,
    *,
    below: float = 1.0,
    examples: int = 3,
    task: Callable[[str], bool] | None = None,
    regraded: bool = False,
) -> Triage:
    """Looks into the trials of a run that got less than `below`, or no reward.

    Args:
        examples: How many trials each group names.
        task: Only tasks whose id it takes.
        regraded: Take the newest verdicts of `envkit regrade`.

    Raises:
        UserError: The folder holds no run, a record was written by a newer envkit, or `below` is no number.
    """
    if not math.isfinite(below):
        raise UserError(f"expected a reward below which trials are looked into, found {below}")
    grouping = _Grouping(below, examples)
    if is_training_run(folder) and not regraded:
        damaged: list[Damage] = []
        kept = 0
        for rollout in kept_rollouts(folder, damaged):
            kept += 1
            if task is None or task(rollout.record.task):
                number, place = rollout.record.attempt, rollout.folder
                result = as_result(rollout)
                grouping.add(result, lambda: read_case(result, number, place))  # noqa: B023
        log = read_training(folder, kept)
        return _report(grouping, str(folder), below, map(str, damaged), log)
    run = StoredRun(folder, regraded=regraded)
    ended = 0
    for result in run.results():
        ended += result.status is not Status.CANCELLED
        if task is None or task(result.spec.task):
            attempt = _decided_by(result)
            grouping.add(result, lambda: read_case(result, attempt, run.attempt_folder(result.trial_id, attempt)))  # noqa: B023
    return _report(grouping, str(folder), below, [*run.incomplete(ended), *run.regrading(ended), *run.damaged])


def _decided_by(result: TrialResult) -> int:
    """The attempt whose outcome is the trial's (`TrialResult.of`)."""
    same = [a.attempt for a in result.attempts if a.status is result.status]
    return same[-1] if same else result.attempts[-1].attempt if result.attempts else 1


def _report(
    grouping: _Grouping, folder: str, below: float, damaged: Iterable[str], log: TrainingLog | None = None
) -> Triage:
    return Triage(
        folder=folder,
        below=below,
        trials=grouping.trials,
        low=grouping.low,
        scored_low=grouping.low - grouping.without,
        without_verdict=grouping.without,
        cancelled=grouping.cancelled,
        mean=grouping.reward_sum / grouping.rewards if grouping.rewards else None,
        unreadable=grouping.unreadable,
        single=bool(grouping.tasks) and max(task.trials for task in grouping.tasks.values()) < 2,
        training=log.figures if log is not None else None,
        suspects=tuple(_suspects(grouping, log.best if log is not None else {})),
        groups=tuple(_group_rows(grouping)),
        criteria=tuple(_criteria_rows(grouping)),
        notes=(*damaged, *grouping.notes),
    )


def _group_rows(grouping: _Grouping) -> Iterator[Group]:
    """The largest group first."""
    named = [(BY_ID[cause], group) for cause, group in grouping.groups.items() if group.trials]
    for cause, group in sorted(named, key=lambda item: (-item[1].trials, _ORDER[item[0].id])):
        per_task = list(group.tasks.values())
        yield Group(
            cause=cause.id,
            title=cause.title,
            family=cause.family,
            todo=cause.todo,
            trials=group.trials,
            share=group.trials / grouping.low,
            mean=group.reward_sum / group.rewards if group.rewards else None,
            also=group.also,
            task_count=len(per_task),
            per_task_median=float(statistics.median(per_task)),
            per_task_max=max(per_task),
            tasks=dict(group.tasks.most_common(_TASKS)),
            details=dict(group.details.most_common(_TASKS)),
            examples=tuple(group.examples),
        )


def _suspects(grouping: _Grouping, best: Mapping[str, float]) -> Iterator[Suspect]:
    """Tasks tried at least twice, all of whose attempts got little for one reason. Those come first whose cause points
    at the task or its environment, then those with more attempts and less reward.

    Args:
        best: The best reward of a task's rollouts, kept or not: failures are kept beyond their share.
    """
    found: list[tuple[str, _TaskCount, Cause, str]] = []
    for name, task in grouping.tasks.items():
        if task.trials < 2 or task.low < task.trials or len(task.ways) != 1 or task.example is None:
            continue
        if best.get(name, -math.inf) >= grouping.below:
            continue
        (cause, detail), _ = task.ways.most_common(1)[0]
        found.append((name, task, BY_ID[cause], detail))

    def rank(item: tuple[str, _TaskCount, Cause, str]) -> tuple[bool, int, float, str]:
        name, task, cause, _ = item
        return not cause.blames_task, -task.trials, task.reward_sum / task.trials, name

    for name, task, known, detail in sorted(found, key=rank):
        assert task.example is not None
        yield Suspect(
            task=name,
            trials=task.trials,
            mean=task.reward_sum / task.rewards if task.rewards else None,
            cause=known.id,
            title=known.title,
            detail=detail,
            environment=known.blames_task,
            todo=known.todo,
            example=task.example,
        )


def _criteria_rows(grouping: _Grouping) -> Iterator[CriterionCount]:
    """Those that fail in most tasks first, then in most trials."""
    named = sorted(grouping.criteria.items(), key=lambda item: (-len(item[1].tasks), -item[1].failed, item[0]))
    for id, tally in named[:_CRITERIA]:
        yield CriterionCount(
            id=id,
            description=tally.description,
            failed=tally.failed,
            tasks=len(tally.tasks),
            message=tally.message,
            trial_id=tally.trial_id,
        )
