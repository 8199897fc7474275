"""Watching: from the loop's events to files, alarms and what is shown; across a crash, nothing twice."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from envkit.backend import Rollout, RolloutRequest, Run
from envkit.backends.data.group import Group
from envkit.backends.loop.events import (
    CheckpointDone,
    EvaluationDone,
    EvaluationStarted,
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
from envkit.backends.run.live import Board, Lines, Live, display_of, sparkline
from envkit.backends.run.log import read_log
from envkit.backends.run.metrics import Labels
from envkit.backends.run.plan import Plan, make_plan
from envkit.backends.run.watch import GROUPS, METRICS, REPORT, Watch
from envkit.failure import Boundary, Failure, FailureKind
from envkit.messages import StopReason
from envkit.tokens.export import Sample

LABELS = {"a": Labels("law", "memo")}


def plan(**changes: Any) -> Plan:
    watching = {"live": "off", "tensorboard": False, "report_every_s": 1e9, **changes}
    return make_plan(
        {"tasks": {"include": ["x/*"]}, "loop": {"steps": 9}, "trainer": {"model": "m"}, "watching": watching}
    )


def rollout(group: str, attempt: int, reward: float | None) -> Rollout:
    failure = None if reward is not None else Failure.of(FailureKind.TRIAL_DIED, Boundary.ENVKIT, "gone")
    ids = np.zeros(50_000, np.int32)
    sample = Sample(ids, ids > 0, ids.astype(np.float32), ids, "main", (0,), "stop")
    return Rollout(
        RolloutRequest("a", group, attempt, 0, 0, ()),
        reward,
        stop=StopReason.ANSWERED if reward is not None else None,
        failure=failure,
        samples=(sample,),
        sampled_tokens=100,
        metrics={"turns": 4.0, "tool_calls": 3.0},
        folder="/somewhere" if attempt == 0 else None,
    )


def group(name: str, *rewards: float | None) -> Group:
    return Group(name, "a", tuple(rollout(name, n, r) for n, r in enumerate(rewards)))


def finish(watch: Watch, step: int, found: Group, at: float = 0.0) -> None:
    watch(GroupStarted(at, step, found.id, found.task, 0))
    for each in found.rollouts:
        watch(RolloutFinished(at, step, each))
    watch(GroupFinished(at, step, found, started_step=step, seconds=1.0, short=False))


def step(watch: Watch, number: int, *groups: Group, gap: float = 0.01, replayed: bool = False) -> None:
    metrics = {"loss": 0.1, "gap_sum": gap * 100, "gap_tokens": 100.0, "loop/staleness_mean": 1.0}
    watch(StepDone(60.0 * number, number, metrics, tuple(groups), replayed))


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [record for record in read_log(folder / METRICS) if record["kind"] == kind]


async def test_a_step_is_written_with_what_finished_since_the_one_before(tmp_path: Path) -> None:
    watch = Watch(plan(), tmp_path, labels=LABELS)
    watch(RunStarted(0.0, 1, 0, 0, 0))
    first, still = group("g1", 1.0, 0.0, None), group("g2", 0.5, 0.5)
    finish(watch, 1, first)
    for each in still.rollouts:  # a group that is dropped: its rollouts count for the figures all the same
        watch(RolloutFinished(1.0, 1, each))
    watch(GroupFinished(1.0, 1, still, started_step=1, seconds=1.0, short=False))
    watch(GroupDropped(1.0, 1, "g2", "a", "zero_variance", (0.5, 0.5)))
    watch(SyncDone(2.0, 1, 1, 0.5, {"bytes": 10.0}))
    step(watch, 1, first)
    finish(watch, 2, group("g3", 0.25, 0.75))
    step(watch, 2)
    await watch.close()
    one, two = (record["metrics"] for record in records(tmp_path, "step"))
    assert one["reward/mean"] == 0.5
    assert one["rollouts/scored"] == 4
    assert one["faults/trial_died"] == 1
    assert one["reward/zero_variance_share"] == 0.5
    assert one["train/logprob_gap"] == pytest.approx(0.01)
    assert one["sync/seconds"] == 0.5
    assert one["domain/law/reward"] == 0.5
    assert two["reward/mean"] == 0.5
    assert two["rollouts/scored"] == 2, "each rollout counts in one step"
    assert two["time/step_s"] == 60
    lines = list(read_log(tmp_path / GROUPS))
    assert [line["group"] for line in lines] == ["g1", "g2", "g2", "g3"]
    assert lines[0]["rewards"] == [1.0, 0.0, None]
    assert lines[0]["folders"] == ["/somewhere", None, None]
    assert lines[2]["dropped"] == "zero_variance"
    assert sum("rewards" in line for line in lines) == 3, "each group's rewards stand once"
    assert (tmp_path / REPORT).stat().st_size > 5000


async def test_a_step_that_is_replayed_after_a_crash_is_not_written_twice(tmp_path: Path) -> None:
    for life in range(2):
        watch = Watch(plan(), tmp_path, labels=LABELS)
        watch(RunStarted(0.0, 1, 0, 0, 0))
        for number in (1, 2, 3 + life):
            replayed = life == 1 and number < 3
            finish(watch, number, group(f"g{number}", 0.2, 0.4))
            step(watch, number, replayed=replayed)
        # The process dies here: nothing is closed.
    assert [r["step"] for r in records(tmp_path, "step")] == [1, 2, 3, 4]
    assert len(records(tmp_path, "life")) == 2


async def test_alarms_remember_the_lives_before(tmp_path: Path) -> None:
    watch = Watch(plan(), tmp_path, labels=LABELS)
    for number in range(1, 8):
        finish(watch, number, group(f"g{number}", *([0.1, 0.3] * 8)))
        step(watch, number)
    assert not records(tmp_path, "alarm")
    watch = Watch(plan(), tmp_path, labels=LABELS)
    finish(watch, 8, group("g8", *([0.7, 0.9] * 8)))
    step(watch, 8)
    (alarm,) = records(tmp_path, "alarm")
    assert alarm["alarm"] == "jump"
    assert alarm["hacking"] is True
    assert watch.board.alarms[0].step == 8
    await watch.close()


async def test_a_gap_above_its_gate_asks_for_an_end_once(tmp_path: Path) -> None:
    asked: list[str] = []
    watch = Watch(plan(alarms={"gap_stops": True}), tmp_path, labels=LABELS, on_stop=asked.append)
    for number, gap in enumerate((0.01, 0.05, 0.05, 0.06), start=1):
        step(watch, number, gap=gap)
    assert len(asked) == 1
    quiet = Watch(plan(), tmp_path / "other", labels=LABELS, on_stop=asked.append)
    for number in range(1, 5):
        step(quiet, number, gap=0.5)
    assert len(asked) == 1
    await watch.close()
    await quiet.close()


async def test_everything_else_that_happens_is_written(tmp_path: Path) -> None:
    watch = Watch(plan(), tmp_path, labels=LABELS)
    failure = Failure.of(FailureKind.SANDBOX_DIED, Boundary.SANDBOX, "gone")
    watch(Fault(1.0, 1, "rollout", failure, "it is tried again", "g1"))
    watch(EvaluationStarted(1.0, 1, 0))
    watch(EvaluationDone(9.0, 1, 0, 8.0, {"eval/reward/mean": 0.3, "eval/odd": float("inf")}))
    watch(CheckpointDone(10.0, 5, 4, tmp_path / "checkpoints" / "step-000004", 0.5))
    watch(RunEnded(11.0, 5, Run(tmp_path, 4, None, failure=failure)))
    await watch.close()
    (fault,), (evaluation,) = records(tmp_path, "fault"), records(tmp_path, "evaluation")
    assert fault["failure"]["kind"] == "sandbox_died"
    assert evaluation["metrics"] == {"eval/reward/mean": 0.3}
    assert records(tmp_path, "ended")[0]["failure"]["message"] == "gone"
    report = (tmp_path / REPORT).read_text()
    assert "failed: gone" in report
    assert "it is tried again" in report


async def test_rows_are_not_held_in_memory(tmp_path: Path) -> None:
    watch = Watch(plan(), tmp_path, labels=LABELS)
    for number in range(50):
        watch(RolloutFinished(0.0, 1, rollout("never-finished", number, 0.5)))
    assert all(not each.samples for held in watch._pending.values() for each in held)
    await watch.close()


# -- what is shown -----------------------------------------------------------------------------------------------------


def a_board() -> Board:
    board = Board(steps=20, group_size=8)
    board.started(0)
    for number in range(1, 6):
        board.step(number, {"reward/mean": number / 10, "agent/turns": 9.0, "train/logprob_gap": 0.01})
    board.evaluation(0, {"eval/reward/mean": 0.125})
    board.fault("rollout", "sandbox_died: [red]gone[/red]")
    return board


def test_lines_say_each_step_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines, board = Lines(), a_board()
    for _ in range(3):
        lines.update(board)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 2
    assert "step 5/20" in said.err
    assert "evaluation at step 0: reward 0.125" in said.err
    board.evaluation(
        5, {"eval/reward/mean": 0.25, "eval/rollouts/scored": 16.0}
    )  # after the last step: no step follows
    lines.update(board)
    assert capsys.readouterr().err == "evaluation at step 5: reward 0.250, 16 rollouts\n"
    assert "reward 0.500" in said.err
    assert "eval@0 0.125" in said.err


def test_the_panel_shows_what_the_board_holds() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=140, height=40)
    live = Live("first-run", console)
    live.update(a_board())
    live.say("step 5: gap: [bold] look")
    live.stop()
    shown = out.getvalue()
    for part in (
        "first-run",
        "step 5 of 20",
        "reward",
        "0.500",
        "evaluations",
        "0.125",
        "[red]gone[/red]",
        "[bold] look",
    ):
        assert part in shown


def test_a_sparkline_spans_its_values() -> None:
    assert sparkline([0, 1, 2, 3]) == "▁▃▆█"
    assert sparkline([2.0, 2.0]) == "▄▄"
    assert sparkline([]) == ""
    assert len(sparkline(list(range(100)), width=10)) == 10


def test_where_there_is_no_terminal_lines_are_said() -> None:
    assert isinstance(display_of("auto", "x"), Lines)
    assert type(display_of("off", "x")).__name__ == "Silent"
