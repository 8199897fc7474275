"""Evaluating while training: held-out tasks under the weights of a step, the nudge off, with a context of its own.

Called by the loop when an evaluation is due. Every finished trial is a line in `evaluations/step-<n>.jsonl`, so that
an evaluation that a crash cut short goes on where it was. A failed trial is tried again by the rule of jobs; one that
stays without a verdict is counted beside the mean, never in it. The same seeds come back in every evaluation, task by
task, so that curves compare like with like.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.backend import Rollout, RolloutRequest, StepMetrics
from envkit.backends.loop import EvaluationCall
from envkit.backends.loop.order import seed_of
from envkit.backends.run.log import Log, read_log
from envkit.backends.run.metrics import Labels, Tally
from envkit.backends.run.plan import EvaluationPlan
from envkit.failure import RETRIES, Boundary, Failure, FailureKind
from envkit.messages import StopReason

__all__ = ["Evaluator"]

#: Pause before a failed trial is tried again; doubled each time.
_PAUSE_S = 1.0
_NO_ENGINE_S = 1.0
_TELL_S = 15.0


@dataclass(frozen=True, slots=True)
class _Trial:
    task: str
    sample: int


class Evaluator:
    """Runs the evaluations of one training run.

    Args:
        tasks: Their ids.
        labels: By task.
        seed: The run's.
    """

    def __init__(
        self, plan: EvaluationPlan, *, folder: Path, tasks: Sequence[str], labels: Mapping[str, Labels], seed: int
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._tasks = tuple(tasks)
        self._labels = labels
        self._seed = seed

    async def __call__(self, call: EvaluationCall) -> StepMetrics:
        """One evaluation; its figures, under `eval/`. Trials that are not back at the deadline count as failed."""
        path = self._folder / "evaluations" / f"step-{call.trained:06d}.jsonl"
        done = {(_Trial(r["task"], r["sample"])): _rollout(r) for r in read_log(path) if r.get("reward") is not None}
        # Sample by sample over all tasks: cut short, it has seen every task.
        wanted = [_Trial(task, sample) for sample in range(self._plan.samples) for task in self._tasks]
        rollouts = {trial: done[trial] for trial in wanted if trial in done}
        log = Log(path)
        places = asyncio.Semaphore(max(1, call.places))

        async def one(trial: _Trial) -> None:
            async with places:
                rollout = await self._trial(call, trial)
            rollouts[trial] = rollout
            log.append(_line(trial, rollout))

        running = [asyncio.ensure_future(one(trial)) for trial in wanted if trial not in rollouts]
        try:
            if running:
                # A little before the loop would cancel everything: what is there by then is worth telling.
                await asyncio.wait(running, timeout=call.deadline.less(_TELL_S).timeout_s)
        finally:
            late = [task for task in running if not task.done()]
            for task in late:
                task.cancel()
            ended = await asyncio.gather(*running, return_exceptions=True)
            log.close()
        for problem in ended:
            if isinstance(problem, Exception):
                raise problem
        return self._figures(wanted, rollouts, late=len(late))

    async def _trial(self, call: EvaluationCall, trial: _Trial) -> Rollout:
        """One trial to its end, tried again by rule."""
        seen: dict[FailureKind, int] = {}
        while True:
            if not (urls := call.engines.urls):  # it is the loop's to end a run without engines
                await asyncio.sleep(_NO_ENGINE_S)
                continue
            request = RolloutRequest(
                task=trial.task,
                group=f"evaluation-{call.trained}-{self._tasks.index(trial.task)}",
                attempt=trial.sample,
                seed=seed_of(self._seed, "evaluation", trial.task, trial.sample),
                version=call.trained,
                engine_urls=urls,
                train=False,
            )
            rollout = await call.trials.submit(request, call.deadline)
            if rollout.failure is None or call.deadline.expired:
                return rollout
            kind = rollout.failure.kind
            seen[kind] = seen.get(kind, 0) + 1
            if seen[kind] > RETRIES[kind]:
                return rollout
            await asyncio.sleep(_PAUSE_S * 2.0 ** (sum(seen.values()) - 1))

    def _figures(self, wanted: Sequence[_Trial], rollouts: Mapping[_Trial, Rollout], *, late: int) -> StepMetrics:
        tally = Tally(self._labels, self._plan.solved_at)
        for task in self._tasks:
            tally.add_group([rollouts[t] for t in wanted if t.task == task and t in rollouts])
        out = {f"eval/{name}": value for name, value in tally.figures().items()}
        out["eval/trials"] = float(len(wanted))
        out["eval/late"] = float(late)
        means = [math.fsum(rewards) / len(rewards) for rewards in tally.by_task.values()]
        if means:
            # Each task counts once, however many of its trials have a verdict; the error is that of the tasks' means.
            mean = math.fsum(means) / len(means)
            out["eval/reward/mean"] = mean
            if len(means) > 1:
                spread = math.fsum((m - mean) ** 2 for m in means) / (len(means) - 1)
                out["eval/reward/mean_se"] = math.sqrt(spread / len(means))
        return out


def _line(trial: _Trial, rollout: Rollout) -> dict[str, Any]:
    return {
        "task": trial.task,
        "sample": trial.sample,
        "reward": rollout.reward,
        "stop": str(rollout.stop) if rollout.stop else None,
        "failure": None if rollout.failure is None else rollout.failure.model_dump(mode="json", exclude={"traceback"}),
        "metrics": dict(rollout.metrics),
        "sampled_tokens": rollout.sampled_tokens,
        "context_tokens": rollout.context_tokens,
        "seconds": round(rollout.finished_s - rollout.started_s, 3),
        "folder": rollout.folder,
    }


def _rollout(line: Mapping[str, Any]) -> Rollout:
    """A stored line as the rollout it was, without its tokens."""
    failure = None
    if line["reward"] is None:
        failure = Failure.of(FailureKind.UNKNOWN, Boundary.ENVKIT, "from a stored evaluation")
    return Rollout(
        request=RolloutRequest(line["task"], "stored", int(line["sample"]), 0, 0, (), False),
        reward=line["reward"],
        stop=StopReason(line["stop"]) if line.get("stop") else None,
        failure=failure,
        sampled_tokens=int(line.get("sampled_tokens") or 0),
        context_tokens=int(line.get("context_tokens") or 0),
        finished_s=float(line.get("seconds") or 0.0),
        metrics={k: float(v) for k, v in (line.get("metrics") or {}).items()},
        folder=line.get("folder"),
    )
