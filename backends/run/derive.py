"""What follows from a plan, before anything is started: the numbers behind `envkit train --dry-run`.

How many trajectories a step takes, how many may be out, and which of the bounds binds; how often each task comes up;
what an evaluation costs. Figures that only a running engine knows are said to be measured then. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.backends.run.plan import Plan
from envkit.trial.admission import AdmissionLimits

__all__ = ["Bound", "Derived", "derive"]


@dataclass(frozen=True, slots=True)
class Bound:
    """One ceiling on the trials that run at once; None where only the running system knows it."""

    name: str
    trials: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Derived:
    """Attributes:
    binds: The least of the bounds that are known.
    notes: What a person should know before they start.
    """

    figures: Mapping[str, Any]
    bounds: tuple[Bound, ...]
    binds: Bound
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            **self.figures,
            "bounds": [{"name": b.name, "trials": b.trials, "why": b.why} for b in self.bounds],
            "binds": self.binds.name,
            "notes": list(self.notes),
        }


def derive(
    plan: Plan,
    tasks: int,
    evaluated: int,
    backend: Mapping[str, Any] | None = None,
    *,
    memory_available_mb: float | None = None,
) -> Derived:
    """Derives a plan's numbers.

    Args:
        tasks, evaluated: How many tasks are trained on and evaluated.
        backend: The backend's own numbers; `kv_capacity_tokens` bounds the trials.
        memory_available_mb: This host's, where trials run on it.
    """
    loop, own = plan.loop, dict(backend or {})
    per_step = loop.groups_per_step * loop.group_size
    groups_out = (loop.max_staleness + 1) * loop.groups_per_step
    figures: dict[str, Any] = {
        "trajectories per step": per_step,
        "trajectories in all": per_step * loop.steps,
        "groups that may be untrained": groups_out,
        "tasks": tasks,
        "epochs": round(loop.steps * loop.groups_per_step / tasks, 2),
        **own,
    }
    if plan.evaluation is not None:
        every = plan.evaluation
        times = loop.steps // every.every + bool(every.first) + bool(every.last and loop.steps % every.every)
        figures["evaluations"] = times
        figures["trials per evaluation"] = evaluated * every.samples
    bounds = _bounds(plan, own, groups_out * loop.group_size, memory_available_mb)
    known = [b for b in bounds if b.trials is not None]
    binds = min(known, key=lambda b: b.trials or 0)
    return Derived(figures, tuple(bounds), binds, tuple(_notes(plan, tasks, binds)))


def _bounds(plan: Plan, backend: Mapping[str, Any], out: int, memory_mb: float | None) -> list[Bound]:
    loop, admission = plan.loop, plan.loop.admission
    bounds = [
        Bound("staleness", out, f"({loop.max_staleness} + 1) x {loop.groups_per_step} groups x {loop.group_size}"),
        Bound("max_running", admission.max_running, "loop.admission.max_running"),
    ]
    room, mean = backend.get("kv_capacity_tokens"), admission.expected_tokens or plan.policy.context
    if room is not None and mean:
        what = "expected_tokens" if admission.expected_tokens else "the whole context"
        trials = max(1, int(room * admission.kv_share / mean))
        bounds.append(
            Bound("kv", trials, f"{room:,} tokens of KV room / {mean:,} a trajectory ({what}); measured later")
        )
    else:
        bounds.append(Bound("kv", None, "measured from the engines and the mean trajectory while the run goes on"))
    if plan.trial.executor == "process" and memory_mb is not None:
        limits = AdmissionLimits(max_running=1)
        free = memory_mb - limits.memory_reserve_mb
        trials = max(1, int(free / limits.trial_memory_mb))
        bounds.append(Bound("memory", trials, f"{free:,.0f} MiB free / {limits.trial_memory_mb:g} MiB a trial"))
    elif plan.trial.executor != "process":
        bounds.append(Bound("places", None, f"the {plan.trial.executor} executor says when it is up"))
    return bounds


def _notes(plan: Plan, tasks: int, binds: Bound) -> list[str]:
    loop = plan.loop
    notes = []
    model = plan.model_folder
    if model is not None and not Path(model).is_dir():
        notes.append(
            f"{model} is no folder here (a relative path is of the folder that the command runs in, {Path.cwd()}): "
            "unless the backend knows it by that name, a run from here can't load it"
        )
    if loop.groups_per_step > tasks:
        notes.append(f"a step has {loop.groups_per_step} groups and there are {tasks} tasks: some come twice in a step")
    context = plan.policy.context
    if context is not None and context > plan.batch.tokens_per_micro_batch:
        notes.append(
            f"rows may be {context:,} tokens long, a micro-batch holds {plan.batch.tokens_per_micro_batch:,}: longer "
            "rows stand alone, and memory must do for the longest"
        )
    if plan.trial.timeout_s > loop.deadline.rollout_s:
        notes.append(
            f"loop.deadline.rollout_s ({loop.deadline.rollout_s:g}) cuts trial.timeout_s ({plan.trial.timeout_s:g})"
        )
    if loop.max_staleness == 0:
        notes.append("max_staleness is 0: synchronous, trials and trainer take turns")
    if binds.trials is not None and binds.trials < loop.group_size:
        notes.append(f"{binds.name} lets {binds.trials} trials run at once, fewer than one group has")
    if plan.evaluation is None:
        notes.append("there is no [evaluation]: nothing measures tasks that are not trained on")
    return notes
