"""The progress display: the mean says over how many, failures are named, and a log file gets plain lines."""

from __future__ import annotations

import datetime as dt

import pytest

from envkit.failure import Boundary, Failure, FailureKind
from envkit.trial.progress import Bar, Tally
from envkit.trial.result import AttemptResult, Plugin, Status, TrialResult, TrialSpec

NOW = dt.datetime(2026, 1, 15, 9, 0, tzinfo=dt.UTC)
SPEC = TrialSpec(task="pack/a", policy=Plugin(name="noop"))


def result(reward: float | None) -> TrialResult:
    failure = None if reward is not None else Failure.of(FailureKind.SANDBOX_DIED, Boundary.SANDBOX, "gone")
    status = Status.FAILED if reward is None else Status.SCORED
    attempt = AttemptResult(
        trial_id="t",
        attempt=1,
        task="t",
        status=status,
        reward=reward,
        failure=failure,
        started_at=NOW,
        finished_at=NOW,
    )
    return TrialResult.of(SPEC, [attempt])


def test_failures_are_named_and_do_not_pull_the_mean_down() -> None:
    tally = Tally(total=4)
    assert tally.mean is None
    for reward in (1.0, 0.5, None):
        tally.finished(result(reward))
    assert tally.text() == "mean 0.750 over 2, 1 sandbox_died"


def test_without_a_terminal_the_end_is_a_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally(total=1)
    bar = Bar("eval")
    bar.start(tally)
    tally.finished(result(1.0))
    bar.update(tally)
    bar.say("stopping [not markup]")
    bar.stop()
    err = capsys.readouterr().err
    assert "eval: 1/1, mean 1.000 over 1" in err
    assert "stopping [not markup]" in err
    assert "\x1b" not in err
