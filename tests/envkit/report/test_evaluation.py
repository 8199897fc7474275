"""What an evaluation says of stored results: means by task, pass@k and pass^k, what is excluded, ties."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path

import pytest

from envkit.failure import Boundary, Failure, FailureKind
from envkit.report.evaluation import against_best, difference, evaluate, pass_at, pass_hat
from envkit.report.task_facts import TaskFacts, facts_of, read_facts, write_facts
from envkit.trial.result import AttemptSummary, Plugin, Status, TrialResult, TrialSpec, UsageTotals

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def trial(
    task: str,
    reward: float | None,
    sample: int = 0,
    *,
    policy: str = "noop",
    status: Status = Status.FAILED,
    bounds: tuple[float | None, float | None] = (None, None),
) -> TrialResult:
    spec = TrialSpec(task=task, policy=Plugin(name=policy), sample=sample)
    status = status if reward is None else Status.SCORED
    failure = Failure.of(FailureKind.SANDBOX_DIED, Boundary.SANDBOX, "gone") if reward is None else None
    usage = UsageTotals(prompt_tokens=100, completion_tokens=10, cost_usd=0.25)
    only = AttemptSummary(attempt=1, status=status, reward=reward, usage=usage, started_at=NOW, finished_at=NOW)
    return TrialResult(
        trial_id=spec.trial_id,
        spec=spec,
        status=status,
        reward=reward,
        lower=bounds[0],
        upper=bounds[1],
        failure=failure,
        turns=4,
        usage=usage,
        started_at=NOW,
        finished_at=NOW,
        attempts=(only,),
    )


def facts(tasks: int, worlds: int) -> dict[str, TaskFacts]:
    return {f"p/t{n}": TaskFacts(pack="p", world=f"p/w{n % worlds}") for n in range(tasks)}


@pytest.mark.parametrize(("passed", "attempts", "k"), [(0, 4, 2), (1, 4, 2), (3, 5, 2), (4, 4, 3), (2, 6, 5)])
def test_pass_at_and_pass_hat_count_all_sets_of_k(passed: int, attempts: int, k: int) -> None:
    outcomes = [1] * passed + [0] * (attempts - passed)
    sets = list(itertools.combinations(outcomes, k))
    assert pass_at(passed, attempts, k) == pytest.approx(sum(any(s) for s in sets) / len(sets))
    assert pass_hat(passed, attempts, k) == pytest.approx(sum(all(s) for s in sets) / len(sets))


def test_more_attempts_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="3 of 2"):
        pass_at(1, 2, 3)


def test_every_task_counts_the_same_and_what_is_excluded_has_both_bounds() -> None:
    results = [
        *(trial("p/t0", reward, n) for n, reward in enumerate([1.0, 1.0, 0.5, 0.0])),
        *(trial("p/t1", reward, n) for n, reward in enumerate([0.2, None, None, None])),
        *(trial("p/t2", None, n) for n in range(4)),
        trial("p/t3", None, 0, status=Status.UNSCORED, bounds=(0.25, 0.75)),
        trial("p/t0", None, 9, status=Status.CANCELLED),
    ]
    (row,) = evaluate(results, facts(4, 4))
    assert (row.tasks, row.trials, row.scored, row.excluded, row.cancelled) == (4, 13, 5, 8, 1)
    assert row.mean.estimate.value == pytest.approx((0.625 + 0.2) / 2)
    assert (row.mean.tasks, row.mean.left_out) == (2, 2)
    assert row.mean.lower_bound == pytest.approx((0.625 + 0.05 + 0.0 + 0.25) / 4)
    assert row.mean.upper_bound == pytest.approx((0.625 + 0.8 + 1.0 + 0.75) / 4)
    # of t0 two of four passed; t1 has one verdict only
    assert row.pass_at[1].estimate.value == pytest.approx((0.5 + 0.0) / 2)
    assert row.pass_at[4].estimate.value == 1.0
    assert row.pass_hat[4].estimate.value == 0.0
    assert row.pass_at[4].left_out == 3
    # t3 can't have passed: its best is 0.75
    assert row.pass_at[1].upper_bound == pytest.approx((0.5 + 0.75 + 1.0 + 0.0) / 4)
    assert row.failures == {"sandbox_died": 8}
    assert row.cost_usd == pytest.approx(0.25 * 14)
    assert row.prompt_tokens == 1400


def test_two_worlds_have_no_interval_however_many_tasks() -> None:
    (row,) = evaluate([trial(f"p/t{n}", n % 3 / 2) for n in range(40)], facts(40, 2))
    assert (row.worlds, row.mean.estimate.method) == (2, "too few worlds")
    assert row.mean.estimate.value is not None


def test_a_tie_is_called_a_tie_and_a_gain_a_gain() -> None:
    known = facts(60, 30)
    first = {task: (0.2 + 0.01 * (n % 7)) for n, task in enumerate(known)}
    better = {task: value + 0.3 + 0.01 * (n % 3) for n, (task, value) in enumerate(first.items())}
    wobbling = {task: value + (0.1 if n % 2 else -0.1) for n, (task, value) in enumerate(first.items())}
    gain = difference(first, better, known)
    assert (gain.verdict, gain.tasks, gain.unpaired) == ("better", 60, 0)
    assert difference(better, first, known).verdict == "worse"
    # worlds pair an even with an odd task number, so that the wobble is between worlds
    assert difference(first, wobbling, known).verdict == "tie"
    assert difference(first, {}, known).verdict == "no common task"


def test_rows_are_compared_with_the_best_by_task() -> None:
    known = facts(40, 20)
    results = [
        trial(task, value, policy=policy) for policy, value in (("noop", 0.1), ("oracle", 0.9)) for task in known
    ]
    found = against_best(results, known)
    assert found[1] is None
    assert found[0] is not None
    assert found[0].verdict == "worse"
    assert found[0].estimate.value == pytest.approx(-0.8)


def test_rewards_beyond_one_have_a_mean_and_bounds() -> None:
    (row,) = evaluate([trial(f"p/t{n}", 1.0 + n) for n in range(5)], facts(5, 5))
    assert row.mean.estimate.value == 3.0
    assert row.mean.estimate.method == "t"


def test_worlds_are_kept_with_the_run(tmp_path: Path) -> None:
    written = write_facts(tmp_path, ["office/nwc-peg-schedule", "office/no-such-task"])
    assert written["office/nwc-peg-schedule"] == TaskFacts(pack="office", world="office/calder-lane", split="train")
    lost = written["office/no-such-task"]
    assert lost.world == "office/no-such-task"
    assert "no task" in (lost.problem or "")
    assert read_facts(tmp_path, ["office/nwc-peg-schedule"]) == {
        "office/nwc-peg-schedule": written["office/nwc-peg-schedule"]
    }
    (tmp_path / "tasks.json").write_text("{broken")
    assert read_facts(tmp_path, ["office/nwc-peg-schedule"])["office/nwc-peg-schedule"].world == "office/calder-lane"
    assert facts_of("office/nwc-peg-schedule").pack == "office"
