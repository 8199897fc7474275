"""The self-test of tasks: proof that a task is sound before anybody trains on it.

For every task: the oracle scores 1.0 and doing nothing scores less, each twice with equal verdicts; an attempt to
forge the verdict scores exactly what doing nothing scores; and criteria in words are decided as their examples say.
`plan` says which trials that takes, `examine` does what takes no trial, `judge` reads the results; the job in between
is like any other. `packs` sums up by pack, `report` writes it down for people.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from envkit import episode, registry
from envkit.deadline import Deadline
from envkit.failure import capture
from envkit.task import harbor_problems
from envkit.trial.result import Plugin, TrialResult, TrialSpec
from envkit.verifier import SelfTesting

__all__ = ["POLICIES", "Examined", "PackCheck", "TaskCheck", "examine", "judge", "packs", "plan", "report"]

#: Policy and how often it is run.
POLICIES: dict[str, int] = {"oracle": 2, "noop": 2, "envkit.policy.forge:ForgePolicy": 1}
FORGE = "envkit.policy.forge:ForgePolicy"

#: Rewards closer than this are equal.
EQUAL = 1e-9


class TaskCheck(BaseModel):
    """What the self-test says of one task.

    Attributes:
        task, pack: Its reference, and the name of its pack.
        oracle, noop, forged: The rewards of the trials.
        examples: How many examples of criteria in words were tried.
        problems: Empty for a sound task.
        harbor: What keeps Harbor from running its directory; no fault where only envkit is to run it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    pack: str = ""
    examples: int = 0
    harbor: tuple[str, ...] = ()
    oracle: tuple[float | None, ...]
    noop: tuple[float | None, ...]
    forged: tuple[float | None, ...]
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        return not self.problems


def plan(tasks: Iterable[str], base: TrialSpec) -> list[TrialSpec]:
    """The trials that check these tasks; `base` gives harness, sandbox, limits and budget."""
    return [
        base.model_copy(update={"task": task, "policy": Plugin(name=policy), "sample": sample})
        for task in tasks
        for policy, times in POLICIES.items()
        for sample in range(times)
    ]


@dataclass(frozen=True, slots=True)
class Examined:
    """What is said of a task without any trial: see `TaskCheck`."""

    pack: str = ""
    examples: int = 0
    problems: tuple[str, ...] = ()
    harbor: tuple[str, ...] = ()


async def examine(task_id: str, timeout_s: float = 900.0) -> Examined:
    """Puts the checks themselves to the test: criteria in words by their examples, the directory by Harbor's rules.
    What goes wrong is a problem of the task, and raised by nobody."""
    # A task that can't be loaded still belongs to the pack, or the folder, that its reference names.
    name = task_id.partition("/")[0] or Path(task_id).parent.name
    tried, problems, harbor = 0, list[str](), list[str]()
    try:
        pack, task = registry.find(task_id)
        name, harbor = pack.name, harbor_problems(task)
        deadline = Deadline.after(timeout_s, "the self-test's time")
        for step in task.steps:
            verifier = episode.pick_verifier(task, step)
            if not isinstance(verifier, SelfTesting):
                continue
            with tempfile.TemporaryDirectory(prefix="envkit-self-test-") as scratch:
                count, found = await verifier.self_test(step, lambda: pack.world(task), Path(scratch), deadline)
            tried += count
            problems += [f"step {step.name!r}: {text}" if step.name else text for text in found]
    except Exception as error:  # noqa: BLE001 the capture point: one task's fault costs no other its check
        failure = capture(error)
        problems.append(f"it can't be examined: {failure.kind}: {failure.message[:300]}")
    return Examined(name, tried, tuple(problems), tuple(harbor))


def judge(
    tasks: Sequence[str], results: Iterable[TrialResult], examined: Mapping[str, Examined] | None = None
) -> list[TaskCheck]:
    """One `TaskCheck` per task, in the order given. `examined` is what `examine` said of each, where it was asked."""
    by_task: dict[str, dict[str, list[TrialResult]]] = {task: {p: [] for p in POLICIES} for task in tasks}
    for result in results:
        policies = by_task.get(result.spec.task)
        if policies is not None and result.spec.policy.name in policies:
            policies[result.spec.policy.name].append(result)
    return [_judge(task, by_task[task], (examined or {}).get(task, Examined())) for task in tasks]


def _judge(task: str, runs: dict[str, list[TrialResult]], examined: Examined) -> TaskCheck:
    problems = list(examined.problems)
    rewards: dict[str, list[float | None]] = {}
    for policy, times in POLICIES.items():
        done = sorted(runs[policy], key=lambda r: r.spec.sample)
        label = "forged" if policy == FORGE else policy
        rewards[label] = [result.reward for result in done]
        if len(done) != times:
            problems.append(f"{label}: expected {times} trials, found {len(done)}")
        for result in done:
            if result.reward is None:
                why = f"{result.failure.kind}: {result.failure.message[:300]}" if result.failure else "no failure given"
                problems.append(f"{label}: no verdict ({result.status}, {why})")
        verdicts = [_essence(result) for result in done if result.verdict is not None]
        if any(verdict != verdicts[0] for verdict in verdicts[1:]):
            problems.append(f"{label}: two runs gave different verdicts: {_difference(verdicts)}")
    for result in runs["oracle"]:
        if result.reward is not None and result.reward < 1.0 - EQUAL:
            problems.append(f"the oracle scores {result.reward:g}, expected 1; {_failing(result)}")
            break
    noop = [reward for reward in rewards["noop"] if reward is not None]
    if noop and max(noop) >= 1.0 - EQUAL:
        problems.append("doing nothing scores 1: the checks do not test the work")
    for reward in rewards["forged"]:
        if reward is not None and noop and abs(reward - noop[0]) > EQUAL:
            problems.append(f"a forged verdict changes the score: {reward:g}, where doing nothing scores {noop[0]:g}")
    return TaskCheck(
        task=task,
        pack=examined.pack,
        examples=examined.examples,
        harbor=examined.harbor,
        oracle=tuple(rewards["oracle"]),
        noop=tuple(rewards["noop"]),
        forged=tuple(rewards["forged"]),
        problems=tuple(problems),
    )


def _essence(result: TrialResult) -> dict[str, Any]:
    """What must be equal from run to run: rewards and outcomes, not wording."""
    assert result.verdict is not None
    return {
        "reward": result.verdict.reward,
        "rewards": result.verdict.rewards,
        "criteria": {c.id: (str(c.outcome), c.score) for c in result.verdict.criteria},
    }


def _difference(verdicts: list[dict[str, Any]]) -> str:
    first, second = verdicts[0], next(v for v in verdicts[1:] if v != verdicts[0])
    changed = [id for id, value in first["criteria"].items() if second["criteria"].get(id) != value]
    return f"criteria {', '.join(changed)}" if changed else f"rewards {first['rewards']} and {second['rewards']}"


def _failing(result: TrialResult) -> str:
    assert result.verdict is not None
    failed = [c for c in result.verdict.criteria if c.score is not None and c.score < 1.0]
    shown = "; ".join(f"{c.id}: expected {c.expected}, found {c.actual} {c.message}".strip()[:200] for c in failed[:3])
    return f"failed criteria: {shown}" if shown else "no criterion failed"


class PackCheck(BaseModel):
    """The tasks of one pack: how many, how many are sound, how many Harbor can run, how many examples were tried."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pack: str
    tasks: int
    sound: int
    harbor: int
    examples: int


def packs(checks: Iterable[TaskCheck]) -> list[PackCheck]:
    """One line per pack, sorted by name."""
    by_pack: dict[str, list[TaskCheck]] = {}
    for check in checks:
        by_pack.setdefault(check.pack, []).append(check)
    return [
        PackCheck(
            pack=name,
            tasks=len(found),
            sound=sum(check.sound for check in found),
            harbor=sum(not check.harbor for check in found),
            examples=sum(check.examples for check in found),
        )
        for name, found in sorted(by_pack.items())
    ]


def report(checks: Sequence[TaskCheck]) -> str:
    """The self-test as Markdown: a table of packs, then for each pack its tasks with their rewards and problems."""
    lines = ["# Self-test", "", "| pack | tasks | sound | Harbor can run | examples judged |", "|---|---|---|---|---|"]
    lines += [f"| {p.pack} | {p.tasks} | {p.sound} | {p.harbor} | {p.examples} |" for p in packs(checks)]
    for pack in packs(checks):
        mine = [check for check in checks if check.pack == pack.pack]
        lines += ["", f"## {pack.pack}", "", "| task | oracle | noop | forged | |", "|---|---|---|---|---|"]
        for check in mine:
            rewards = (
                ", ".join("-" if r is None else f"{r:g}" for r in rs) for rs in (check.oracle, check.noop, check.forged)
            )
            lines.append(f"| {check.task} | {' | '.join(rewards)} | {'sound' if check.sound else '**unsound**'} |")
        for check in mine:
            told = [*check.problems, *(f"Harbor can't run it: {text}" for text in check.harbor)]
            lines += ["", f"### {check.task}", "", *(f"- {' '.join(text.split())}" for text in told)] if told else []
    return "\n".join(lines) + "\n"
