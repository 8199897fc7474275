"""Watching a run: an observer of the loop's events that writes, counts, warns and shows.

    run/
      metrics.jsonl     a line per step, evaluation, sync, checkpoint, fault, alarm and life of the run
      groups.jsonl      a line per finished or dropped group: rewards, stops, lengths
      report.html       the curves, in one file that opens without a network
      tensorboard/      event files

The files are appended to and survive a crash; a step that is replayed after one is not written twice. Nothing here
changes the run, except that a gap between engine and trainer stops it where the plan says so (`on_stop`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from envkit.backend import Rollout
from envkit.backends.loop.events import (
    CheckpointDone,
    EvaluationDone,
    EvaluationStarted,
    Event,
    Fault,
    GroupDropped,
    GroupFinished,
    GroupStarted,
    RolloutFinished,
    RunEnded,
    RunStarted,
    StepDone,
    SyncDone,
)
from envkit.backends.run.alarms import Alarm, Alarms
from envkit.backends.run.live import Board, Display
from envkit.backends.run.log import Log, read_log
from envkit.backends.run.metrics import Labels, Tally, finite, trainer_figures
from envkit.backends.run.plan import Plan
from envkit.backends.run.report import write_report
from envkit.backends.run.sinks import Sink
from envkit.failure import EnvkitError

__all__ = ["GROUPS", "METRICS", "REPORT", "Watch"]

METRICS = "metrics.jsonl"
GROUPS = "groups.jsonl"
REPORT = "report.html"


class Watch:
    """One life of one run. Call it with events; `close` writes the last report.

    Args:
        labels: Of the tasks that are trained on.
        on_stop: Called with a reason where watching asks for an end.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        *,
        labels: Mapping[str, Labels],
        sinks: Sequence[Sink] = (),
        display: Display | None = None,
        on_stop: Callable[[str], None] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._labels = labels
        self._sinks = tuple(sinks)
        self._display = display
        self._on_stop = on_stop or (lambda reason: None)
        self.board = Board(steps=plan.loop.steps, group_size=plan.loop.group_size)
        self.alarms = Alarms(plan.watching.alarms)
        self._steps_seen: set[int] = set()
        self._remember(folder)
        self._metrics = Log(folder / METRICS)
        self._groups = Log(folder / GROUPS)
        self._tally = Tally(labels)
        self._pending: dict[str, list[Rollout]] = {}
        self._counted: dict[str, None] = {}
        self._sync: dict[str, float] = {}
        self._step_at_s: float | None = None
        self._reported_at_s = time.monotonic()
        self._report_took_s = 0.0
        self._reporting: asyncio.Future[None] | None = None
        self._stopped = False
        self._write("life", about=dict(about or {}))

    def _remember(self, folder: Path) -> None:
        """Feeds the alarms and the board with the lives before this one."""
        for record in read_log(folder / METRICS):
            if record.get("kind") == "step" and record.get("step") not in self._steps_seen:
                step = int(record["step"])
                self._steps_seen.add(step)
                figures = {k: v for k, v in record["metrics"].items() if isinstance(v, int | float)}
                self.alarms.step(step, figures, record.get("rewards", ()), record.get("families", {}))
                self.board.step(step, figures)
            elif record.get("kind") == "evaluation":
                self.board.evaluation(int(record["step"]), record["metrics"])

    # -- events -------------------------------------------------------------------------------------------------------

    def __call__(self, event: Event) -> None:
        """Takes one event; returns at once."""
        match event:
            case StepDone():
                self._on_step(event)
            case RolloutFinished():
                self._on_rollout(event.rollout)
            case GroupFinished():
                self._on_group(event)
            case GroupDropped():
                self._on_dropped(event)
            case GroupStarted():
                self.board.groups_out += 1
            case SyncDone():
                self._sync = {"sync/seconds": event.seconds, **{f"sync/{k}": v for k, v in event.metrics.items()}}
                self._write("sync", version=event.version, seconds=event.seconds, metrics=_finite(event.metrics))
            case EvaluationStarted():
                self.board.evaluating = True
            case EvaluationDone():
                self._on_evaluation(event)
            case CheckpointDone():
                self._write(
                    "checkpoint", step=event.checkpoint_step, path=str(event.path), seconds=round(event.seconds, 3)
                )
                self.board.checkpoint = event.checkpoint_step
            case Fault():
                self._on_fault(event)
            case RunStarted():
                self._step_at_s = event.at_s
                self.board.started(event.checkpoint_step)
                self._write(
                    "started", step=event.checkpoint_step, replay=event.replay, finished_rollouts=event.finished
                )
            case RunEnded():
                run = event.run
                failure = run.failure.model_dump(mode="json", exclude={"traceback"}) if run.failure else None
                self._write("ended", step=run.step, interrupted=run.interrupted, failure=failure)
            case _:
                pass
        if self._display is not None:
            self._display.update(self.board)

    def _on_rollout(self, rollout: Rollout) -> None:
        # Rows of a hundred thousand tokens are the loop's to keep, not ours.
        self._pending.setdefault(rollout.request.group, []).append(replace(rollout, samples=()))
        self.board.rollouts += 1

    def _on_group(self, event: GroupFinished) -> None:
        group = event.group
        self._pending.pop(group.id, None)
        if not self._count(group.id):
            return
        rollouts = [replace(rollout, samples=()) for rollout in group.rollouts]
        self._tally.add_group(rollouts)
        self.board.groups_out = max(0, self.board.groups_out - 1)
        self._groups.append(
            {
                **_group_line(group.id, group.task, rollouts),
                "started_step": event.started_step,
                "step": event.step,
                "seconds": round(event.seconds, 3),
                "short": event.short,
            }
        )

    def _on_dropped(self, event: GroupDropped) -> None:
        rollouts = self._pending.pop(event.group, [])
        self.board.dropped += 1
        line: dict[str, Any] = {"group": event.group, "task": event.task}
        if self._count(event.group):  # else its rewards stand in the line of when it finished
            self._tally.add_group(rollouts)
            self.board.groups_out = max(0, self.board.groups_out - 1)
            line["rewards"] = list(event.rewards)
            line = _group_line(event.group, event.task, rollouts) if rollouts else line
        self._groups.append({**line, "step": event.step, "dropped": event.reason})

    def _count(self, group: str) -> bool:
        """Whether a group is new; each counts once, whether it is finished, dropped or both."""
        if group in self._counted:
            return False
        self._counted[group] = None
        while len(self._counted) > 20_000:
            del self._counted[next(iter(self._counted))]
        return True

    def _on_step(self, event: StepDone) -> None:
        step = event.step
        if event.replayed and step in self._steps_seen:
            self._step_at_s = event.at_s
            return
        figures = {**self._tally.figures(), **trainer_figures(event.metrics), **self._sync}
        if self._step_at_s is not None:
            figures["time/step_s"] = event.at_s - self._step_at_s
        self._step_at_s = event.at_s
        rewards = [round(r, 6) for r in self._tally.rewards]
        families = {name: [round(r, 6) for r in values] for name, values in self._tally.families.items()}
        self._tally, self._sync = Tally(self._labels), {}
        self._steps_seen.add(step)
        clean = _finite(figures)
        self._write("step", step=step, replayed=event.replayed, metrics=clean, rewards=rewards, families=families)
        shown = {name: value for name, value in clean.items() if value is not None}
        for sink in self._sinks:
            sink.scalars(step, shown)
        self.board.step(step, shown)
        for alarm in self.alarms.step(step, figures, rewards, families):
            self._alarm(alarm)
        if self.alarms.gap_says_stop and not self._stopped:
            self._stopped = True
            self._on_stop("the gap between engine and trainer is above its gate in two steps in a row")
        self._report()

    def _on_evaluation(self, event: EvaluationDone) -> None:
        figures = {name: value for name, value in _finite(event.metrics).items() if value is not None}
        self._write("evaluation", step=event.trained, seconds=round(event.seconds, 3), metrics=figures)
        for sink in self._sinks:
            sink.scalars(event.trained, figures)
        self.board.evaluation(event.trained, figures)
        self._report()

    def _on_fault(self, event: Fault) -> None:
        failure = event.failure.model_dump(mode="json", exclude={"traceback"})
        self._write("fault", step=event.step, where=event.where, failure=failure, then=event.then, group=event.group)
        self.board.fault(event.where, f"{event.failure.kind}: {event.failure.message} ({event.then})")

    def _alarm(self, alarm: Alarm) -> None:
        self._write("alarm", step=alarm.step, alarm=alarm.kind, hacking=alarm.hacking, message=alarm.message)
        self.board.alarm(alarm)
        if self._display is not None:
            self._display.say(f"step {alarm.step}: {alarm.kind}: {alarm.message}")

    # -- files --------------------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """A word for people: in the log, and where the run is shown."""
        self._write("note", message=text)
        if self._display is not None:
            self._display.say(text)

    def _write(self, kind: str, **fields: Any) -> None:
        self._metrics.append({"kind": kind, "at": round(time.time(), 3), **fields})

    def _report(self) -> None:
        """Writes the report in a thread, if one is due and none is being written."""
        now_s = time.monotonic()
        busy = self._reporting is not None and not self._reporting.done()
        # The files of a long run take seconds to read: never more than a twentieth of the time.
        if busy or now_s - self._reported_at_s < max(self._plan.watching.report_every_s, 20 * self._report_took_s):
            return
        self._reported_at_s = now_s
        self._reporting = asyncio.get_running_loop().run_in_executor(None, self._write_report)

    def _write_report(self) -> None:
        began_s = time.monotonic()
        try:
            write_report(self._folder)
        except (OSError, EnvkitError) as error:  # the disk is full, or the folder is gone
            self._write("note", message=f"the report could not be written: {error}")
        self._report_took_s = time.monotonic() - began_s

    async def close(self) -> None:
        """Writes the last report and closes everything. Bounded by the disk."""
        if self._reporting is not None:
            await asyncio.wait([self._reporting])
        await asyncio.to_thread(self._write_report)
        for sink in self._sinks:
            await asyncio.to_thread(sink.close)
        if self._display is not None:
            self._display.stop()
        self._metrics.close()
        self._groups.close()


def _group_line(group: str, task: str, rollouts: Sequence[Rollout]) -> dict[str, Any]:
    return {
        "group": group,
        "task": task,
        "rewards": [r.reward for r in rollouts],
        "stops": [str(r.stop) if r.stop else None for r in rollouts],
        "failures": [str(r.failure.kind) if r.failure else None for r in rollouts],
        "turns": [int(r.metrics.get("turns", 0)) for r in rollouts],
        "tokens": [r.sampled_tokens for r in rollouts],
        "folders": [r.folder for r in rollouts],
    }


def _finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    return {name: finite(value) for name, value in metrics.items()}
