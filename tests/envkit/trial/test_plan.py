"""Resume: the same plan goes on exactly where no verdict is, another plan is refused by name."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import pytest

from envkit.failure import Boundary, Failure, FailureKind, UserError
from envkit.trial.plan import Rerun, check_plan, open_work
from envkit.trial.result import AttemptResult, Plugin, Status, TrialResult, TrialSpec
from envkit.trial.store import RunStore
from envkit.verifier import Criterion, Outcome, Verdict

NOW = dt.datetime(2026, 1, 15, 9, 0, tzinfo=dt.UTC)


def plan(**changes: Any) -> list[TrialSpec]:
    base = TrialSpec(task="-", policy=Plugin(name="noop")).model_copy(update=changes)
    return [base.model_copy(update={"task": f"pack/{name}"}) for name in ("a", "b", "c")]


def record(store: RunStore, spec: TrialSpec, *, trial: bool = True, **fields: Any) -> None:
    number = store.next_attempt(spec.trial_id)
    attempt = store.attempt(spec.trial_id, number)
    attempt.create()
    base = {"trial_id": spec.trial_id, "attempt": number, "task": spec.task, "started_at": NOW, "finished_at": NOW}
    attempt.write_result(AttemptResult(**{**base, **fields}))
    if trial:
        store.write_trial(TrialResult.of(spec, store.attempts(spec.trial_id)))


def missing(kind: FailureKind) -> dict[str, Any]:
    failure = Failure.of(kind, Boundary.JUDGE, "no answer")
    criterion = Criterion(id="c", outcome=Outcome.MISSING, failure=failure)
    verdict = Verdict(criteria=(criterion,), reward=None, lower=0.0, upper=1.0)
    return {"status": Status.UNSCORED, "verdict": verdict, "failure": failure, "missing": (failure,)}


SCORED = {"status": Status.SCORED, "reward": 0.0, "verdict": Verdict(reward=0.0)}


def test_the_same_plan_resumes_whatever_its_order(tmp_path: Path) -> None:
    assert check_plan(RunStore(tmp_path), plan(), {}) is False
    assert check_plan(RunStore(tmp_path), list(reversed(plan())), {}) is True


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"timeout_s": 60.0, "verify_reserve_s": 1.0}, "timeout_s: there 3600.0, here 60.0"),
        ({"seed": 7}, "seed: there 0, here 7"),
        ({"policy": Plugin(name="oracle")}, "policy 'oracle'"),
        ({"harness": Plugin(name="opencode", options={"x": 1})}, "harness: there"),
    ],
)
def test_another_plan_is_refused_and_the_difference_is_named(tmp_path: Path, changes: Any, words: str) -> None:
    check_plan(RunStore(tmp_path), plan(), {})
    with pytest.raises(UserError, match="started with a different plan") as caught:
        check_plan(RunStore(tmp_path), plan(**changes), {})
    assert words in str(caught.value)


def test_fewer_or_more_trials_are_another_plan(tmp_path: Path) -> None:
    check_plan(RunStore(tmp_path), plan(), {})
    with pytest.raises(UserError, match=r"it has 3 trials, this one 2 .*'pack/c'"):
        check_plan(RunStore(tmp_path), plan()[:2], {})


def test_two_policies_that_differ_in_options_only_are_one_plan(tmp_path: Path) -> None:
    both = [TrialSpec(task="pack/a", policy=Plugin(name="chat", options={"model": model})) for model in ("m", "n")]
    check_plan(RunStore(tmp_path), both, {})
    assert check_plan(RunStore(tmp_path), both[::-1], {}) is True


def test_a_trial_planned_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="planned twice"):
        check_plan(RunStore(tmp_path), [*plan(), plan()[0]], {})


def test_a_damaged_plan_or_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trials" / "x").mkdir(parents=True)
    with pytest.raises(UserError, match=r"no job\.json"):
        check_plan(RunStore(tmp_path), plan(), {})
    (tmp_path / "job.json").write_text("{")
    with pytest.raises(UserError, match="not valid JSON"):
        check_plan(RunStore(tmp_path), plan(), {})


def test_a_verdict_stays_even_a_zero_and_everything_else_runs_again(tmp_path: Path) -> None:
    store, specs = RunStore(tmp_path), plan()
    record(store, specs[0], **SCORED)
    record(store, specs[1], status=Status.FAILED, failure=Failure.of(FailureKind.POLICY_AUTH, Boundary.POLICY, "401"))
    kept, to_run = open_work(store, specs, Rerun.RETRIABLE)
    assert [r.trial_id for r in kept] == [specs[0].trial_id]
    assert to_run == specs[1:]


def test_an_attempt_scored_before_the_job_was_killed_is_not_run_again(tmp_path: Path) -> None:
    store, specs = RunStore(tmp_path), plan()[:1]
    record(store, specs[0], trial=False, **SCORED)
    kept, to_run = open_work(store, specs, Rerun.RETRIABLE)
    assert [r.reward for r in kept] == [0.0]
    assert to_run == []
    assert store.read_trial(specs[0].trial_id) is not None


@pytest.mark.parametrize(
    ("kind", "rule", "again"),
    [
        (FailureKind.JUDGE_UNREACHABLE, Rerun.RETRIABLE, True),
        (FailureKind.REWARD_MISSING, Rerun.RETRIABLE, False),
        (FailureKind.REWARD_MISSING, Rerun.ALWAYS, True),
        (FailureKind.JUDGE_UNREACHABLE, Rerun.NEVER, False),
    ],
)
def test_an_unscored_trial_runs_again_where_that_may_help(
    tmp_path: Path, kind: FailureKind, rule: Rerun, again: bool
) -> None:
    store, specs = RunStore(tmp_path), plan()[:1]
    record(store, specs[0], **missing(kind))
    _, to_run = open_work(store, specs, rule)
    assert bool(to_run) is again


def test_a_torn_record_is_reported_and_runs_again(tmp_path: Path) -> None:
    store, specs = RunStore(tmp_path), plan()[:1]
    record(store, specs[0], **SCORED)
    for path in tmp_path.rglob("result.json"):
        path.write_bytes(path.read_bytes()[:50])
    kept, to_run = open_work(store, specs, Rerun.RETRIABLE)
    assert (kept, to_run) == ([], specs)
    assert len(store.damaged) == 2


def test_a_record_copied_from_another_trial_is_damage_and_runs_again(tmp_path: Path) -> None:
    store, (first, second, *_) = RunStore(tmp_path), plan()
    record(store, first, **SCORED)
    record(store, second, **SCORED)
    for name in ("result.json", "attempt-1/result.json"):
        (store.trial_folder(second.trial_id) / name).write_bytes(
            (store.trial_folder(first.trial_id) / name).read_bytes()
        )
    again = RunStore(tmp_path)
    kept, to_run = open_work(again, [first, second], Rerun.RETRIABLE)
    assert [r.trial_id for r in kept] == [first.trial_id]
    assert to_run == [second]
    assert all("another trial" in str(damage) for damage in again.damaged)


def test_an_edited_reward_contradicts_its_verdict(tmp_path: Path) -> None:
    store, (spec, *_) = RunStore(tmp_path), plan()
    record(store, spec, **SCORED)
    path = store.trial_folder(spec.trial_id) / "result.json"
    path.write_text(path.read_text().replace('"reward":0.0,', '"reward":1.0,', 1))
    again = RunStore(tmp_path)
    (kept,), to_run = open_work(again, [spec], Rerun.RETRIABLE)
    assert (kept.reward, to_run) == (0.0, [])  # from the attempt's own record
    (damage,) = again.damaged
    assert str(damage).startswith(str(path))
    assert "its verdict says 0.0" in str(damage)


def test_folders_and_files_that_took_each_others_place_are_damage(tmp_path: Path) -> None:
    store, specs = RunStore(tmp_path), plan()
    for spec in specs:
        record(store, spec, **SCORED)
    one, two, three = (store.trial_folder(spec.trial_id) for spec in specs)
    (one / "result.json").unlink()
    (one / "result.json").mkdir()
    (two / "attempt-7").touch()
    (two / "result.json").unlink()
    shutil.rmtree(three)
    three.touch()
    again = RunStore(tmp_path)
    open_work(again, specs[1:], Rerun.RETRIABLE)
    assert again.read_trial(specs[0].trial_id) is None
    assert again.next_attempt(specs[1].trial_id) == 8
    again.drop_snapshots(specs[1].trial_id)
    assert {damage.path for damage in again.damaged} == {
        one / "result.json",
        two / "attempt-7" / "result.json",
        three / "result.json",
    }


@pytest.mark.parametrize("trials", ["[1, 2, 3]", '[{"task": "a"}]', "[null]"])
def test_a_plan_of_something_else_is_refused_in_words(tmp_path: Path, trials: str) -> None:
    (tmp_path / "job.json").write_text(f'{{"trials": {trials}}}')
    with pytest.raises(UserError, match="not a plan"):
        check_plan(RunStore(tmp_path), plan(), {})
