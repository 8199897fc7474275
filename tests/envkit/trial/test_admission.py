"""Admission: every bound holds at every moment, nobody waits for ever, and tasks get their turns evenly."""

from __future__ import annotations

import json
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.trial.admission import Admission, AdmissionLimits, Hold, Observed, Staleness


def drain(admission: Admission, seen: Observed) -> list[str]:
    """Starts and finishes one by one until nobody may start; returns the order."""
    order: list[str] = []
    while True:
        decision = admission.admit(seen)
        if not decision.start:
            return order
        for key in decision.start:
            order.append(key)
            admission.finished(key)


def test_the_concurrency_limit_holds_and_frees_with_each_end() -> None:
    admission = Admission(AdmissionLimits(max_running=2))
    for i in range(5):
        admission.add(f"t{i}", "task")
    first = admission.admit(Observed(0.0))
    assert first.start == ("t0", "t1")
    assert first.held_by is Hold.RUNNING
    assert first.ask_again_s is None
    admission.finished("t0")
    assert admission.admit(Observed(0.0)).start == ("t2",)


def test_every_task_is_seen_once_before_any_is_seen_twice() -> None:
    admission = Admission(AdmissionLimits(max_running=1))
    for task in ("a", "b", "c"):
        for sample in range(3):
            admission.add(f"{task}{sample}", task)
    assert drain(admission, Observed(0.0)) == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


def test_the_start_rate_allows_a_burst_of_one_second_and_says_when_to_ask_again() -> None:
    admission = Admission(AdmissionLimits(max_running=100, starts_per_s=3))
    for i in range(10):
        admission.add(f"t{i}", f"task{i}")
    first = admission.admit(Observed(10.0))
    assert len(first.start) == 3
    assert first.held_by is Hold.RATE
    assert first.ask_again_s == pytest.approx(1 / 3)
    assert len(admission.admit(Observed(10.1)).start) == 0
    assert len(admission.admit(Observed(10.0 + 1 / 3)).start) == 1


def test_a_starting_trial_keeps_the_memory_it_has_not_taken_yet() -> None:
    limits = AdmissionLimits(max_running=100, trial_memory_mb=100, memory_reserve_mb=500, settle_s=10)
    admission = Admission(limits)
    for i in range(10):
        admission.add(f"t{i}", f"task{i}")
    first = admission.admit(Observed(0.0, memory_available_mb=860))
    assert len(first.start) == 3
    assert first.held_by is Hold.MEMORY
    assert first.ask_again_s is not None
    # Nothing was taken yet: the same figure must not admit three more.
    assert admission.admit(Observed(0.0, memory_available_mb=860)).start == ()
    # After the settling time the observed figure is believed.
    assert len(admission.admit(Observed(11.0, memory_available_mb=860)).start) == 3


def test_with_nothing_running_one_trial_goes_whatever_the_memory() -> None:
    admission = Admission(AdmissionLimits(max_running=4))
    admission.add("a", "x")
    admission.add("b", "y")
    assert admission.admit(Observed(0.0, memory_available_mb=1)).start == ("a",)


def test_kv_room_divided_by_mean_length_bounds_the_trajectories() -> None:
    admission = Admission(AdmissionLimits(max_running=100))
    for i in range(10):
        admission.add(f"t{i}", f"task{i}")
    decision = admission.admit(Observed(0.0, kv_capacity_tokens=100_000, mean_trajectory_tokens=30_000))
    assert len(decision.start) == 3
    assert decision.held_by is Hold.KV


@pytest.mark.parametrize("pressure", ["queue", "kv"])
def test_engines_that_have_enough_to_do_hold_new_trials_back(pressure: str) -> None:
    admission = Admission(AdmissionLimits(max_running=100, max_engine_waiting=8, max_kv_used=0.9))
    for i in range(10):
        admission.add(f"t{i}", f"task{i}")
    pressed = Observed(0.0, engine_waiting=9) if pressure == "queue" else Observed(0.0, kv_used=0.91)
    one = admission.admit(pressed)
    assert one.start == ("t0",)  # with nothing running there is nobody to wait for
    assert one.held_by is Hold.ENGINE
    assert one.ask_again_s is not None
    assert admission.admit(Observed(1.0, engine_waiting=8, kv_used=0.9)).start == tuple(f"t{i}" for i in range(1, 10))


def test_an_executors_places_bound_what_runs_and_may_grow_and_shrink() -> None:
    admission = Admission(AdmissionLimits(max_running=100))
    for i in range(10):
        admission.add(f"t{i}", "task")
    assert admission.admit(Observed(0.0, places=0)).held_by is Hold.PLACES
    assert len(admission.admit(Observed(1.0, places=3)).start) == 3
    shrunk = admission.admit(Observed(2.0, places=1))  # a node was lost
    assert (shrunk.start, shrunk.held_by) == ((), Hold.PLACES)
    assert shrunk.ask_again_s is not None
    assert len(admission.admit(Observed(3.0, places=5)).start) == 2


def test_only_so_many_are_starting_at_once() -> None:
    admission = Admission(AdmissionLimits(max_running=100, max_starting=2))
    for i in range(6):
        admission.add(f"t{i}", "task")
    first = admission.admit(Observed(0.0))
    assert (first.start, first.held_by) == (("t0", "t1"), Hold.STARTING)
    admission.ready("t0")
    admission.ready("t0")
    assert admission.admit(Observed(0.0)).start == ("t2",)
    admission.finished("t1")  # ended before it was ready
    assert admission.admit(Observed(0.0)).start == ("t3",)
    assert admission.starting == 2
    held = admission.admit(Observed(0.0))
    assert (held.held_by, held.ask_again_s) == (Hold.STARTING, 60.0)
    assert admission.admit(Observed(60.0)).start == ("t4", "t5")  # those that hang there hold nobody up for ever
    assert len(admission.admit(Observed(0.0, starting=5)).start) == 0  # the smaller bound counts
    with pytest.raises(ValueError, match="max_starting"):
        AdmissionLimits(max_running=1, max_starting=0)


def test_a_resumed_run_goes_on_in_the_order_of_the_one_before() -> None:
    def fill(admission: Admission, keys: list[str]) -> None:
        for key in keys:
            admission.add(key, key[0])

    keys = [f"{task}{sample}" for task in "cab" for sample in range(3)]
    whole = Admission(AdmissionLimits(max_running=1))
    fill(whole, keys)
    wanted = drain(whole, Observed(0.0))
    for cut in range(len(keys)):
        first = Admission(AdmissionLimits(max_running=1))
        fill(first, keys)
        done: list[str] = []
        while len(done) < cut:
            done += first.admit(Observed(0.0)).start
            first.finished(done[-1])
        resumed = Admission(AdmissionLimits(max_running=1), starts=json.loads(json.dumps(first.starts)))
        fill(resumed, [key for key in keys if key not in done])
        assert done + drain(resumed, Observed(0.0)) == wanted


def test_a_group_that_was_trained_on_stays_counted() -> None:
    admission = Admission(AdmissionLimits(max_running=10, staleness=Staleness(0, 1)))
    admission.add("a", "t", group=0)
    admission.add("b", "t", group=1)
    admission.finished(*admission.admit(Observed(0.0, step=1)).start)
    admission.forget_group(0)
    admission.drop_group(0)  # too late: it was trained on
    assert admission.admit(Observed(1.0, step=1)).held_by is Hold.STALENESS
    assert admission.admit(Observed(1.0, step=2)).start == ("b",)


def test_a_retry_waits_its_time_without_holding_a_place() -> None:
    admission = Admission(AdmissionLimits(max_running=1))
    admission.add("a", "x")
    assert admission.admit(Observed(0.0)).start == ("a",)
    admission.finished("a")
    admission.add("a", "x", not_before_s=5.0)
    admission.add("b", "y")
    assert admission.admit(Observed(1.0)).start == ("b",)
    admission.finished("b")
    waiting = admission.admit(Observed(2.0))
    assert waiting.start == ()
    assert waiting.held_by is Hold.RETRY_WAIT
    assert waiting.ask_again_s == pytest.approx(3.0)
    assert admission.admit(Observed(5.0)).start == ("a",)


def test_the_staleness_bound_counts_groups_and_finishes_what_has_begun() -> None:
    # B = 2, S = 2: six groups may begin while step 1 is trained.
    admission = Admission(AdmissionLimits(max_running=100, staleness=Staleness(2, 2)))
    for group in range(10):
        for row in range(4):
            admission.add(f"g{group}r{row}", f"task{group}", group=group)
    first = admission.admit(Observed(0.0, step=1))
    assert len(first.start) == 24
    assert first.held_by is Hold.STALENESS
    for key in first.start:
        admission.finished(key)
    assert admission.admit(Observed(1.0, step=1)).start == ()  # finished, but not trained on yet
    assert len(admission.admit(Observed(2.0, step=2)).start) == 8
    admission.drop_group(0)  # it will never be trained on: its place is free again
    assert len(admission.admit(Observed(3.0, step=2)).start) == 4


def test_a_retry_in_a_begun_group_is_not_held_by_staleness() -> None:
    admission = Admission(AdmissionLimits(max_running=10, staleness=Staleness(0, 1)))
    admission.add("g0r0", "t", group=0)
    assert admission.admit(Observed(0.0, step=1)).start == ("g0r0",)
    admission.finished("g0r0")
    admission.add("g0r0", "t", group=0)
    admission.add("g1r0", "t", group=1)
    assert admission.admit(Observed(1.0, step=1)).start == ("g0r0",)


def test_withdrawing_leaves_only_those_who_run() -> None:
    admission = Admission(AdmissionLimits(max_running=1))
    admission.add("a", "x")
    admission.add("b", "x")
    admission.add("c", "x", not_before_s=9.0)
    admission.admit(Observed(0.0))
    assert sorted(admission.withdraw_waiting()) == ["b", "c"]
    assert (admission.waiting, admission.running) == (0, 1)
    admission.finished("a")
    assert admission.admit(Observed(99.0)).start == ()


def test_the_same_trial_cannot_wait_twice() -> None:
    admission = Admission(AdmissionLimits(max_running=1))
    admission.add("a", "x")
    with pytest.raises(ValueError, match="waits or runs already"):
        admission.add("a", "x")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_bounds_hold_and_all_are_started_once(data: st.DataObject) -> None:
    max_running = data.draw(st.integers(1, 6), "max_running")
    rate = data.draw(st.none() | st.floats(0.5, 20), "rate")
    staleness = data.draw(st.none() | st.builds(Staleness, st.integers(0, 3), st.integers(1, 3)), "staleness")
    limits = AdmissionLimits(max_running=max_running, starts_per_s=rate, trial_memory_mb=50, staleness=staleness)
    admission = Admission(limits)
    n_groups = data.draw(st.integers(1, 12), "groups")
    keys = {}
    for group in range(n_groups):
        for row in range(data.draw(st.integers(1, 4), "rows")):
            key = f"g{group}r{row}"
            keys[key] = group
            admission.add(key, f"task{group % 3}", group=group if staleness else None)
    now, step, running = 0.0, 1, []
    started: Counter[str] = Counter()
    start_times: list[float] = []
    for _ in range(2000):
        memory = data.draw(st.sampled_from([100.0, 700.0, 5000.0]), "memory") if len(started) < 8 else 5000.0
        seen = Observed(
            now, memory_available_mb=memory, step=step, kv_capacity_tokens=9000, mean_trajectory_tokens=2000.0
        )
        was_running = len(running)
        decision = admission.admit(seen)
        for key in decision.start:
            started[key] += 1
            running.append(key)
            start_times.append(now)
        assert len(running) == admission.running <= min(max_running, 4)
        if len(decision.start) > (0 if was_running else 1):
            assert memory - limits.memory_reserve_mb >= limits.trial_memory_mb
        if staleness:
            assert len({keys[k] for k in started}) <= staleness.capacity(step)
        if rate:
            window = [t for t in start_times if t > now - 1.0]
            assert len(window) <= rate * 1.0 + max(1.0, rate) + 1
        if running:
            admission.finished(running.pop(data.draw(st.integers(0, len(running) - 1), "which")))
        elif decision.held_by is Hold.STALENESS:
            step += 1
        elif admission.waiting == 0:
            break
        else:
            assert decision.ask_again_s is not None, "nobody runs, somebody waits, and nobody will ask again"
            now += decision.ask_again_s + 1e-6
        now += 0.01
    assert started == Counter(keys.keys())


def test_a_group_of_an_earlier_run_is_counted_once_and_goes_first() -> None:
    limits = AdmissionLimits(max_running=8, staleness=Staleness(max_staleness=0, groups_per_step=2))
    admission = Admission(limits)
    admission.add("new/0", "t", group="new")
    admission.add("newer/0", "t", group="newer")
    admission.begin_group("old")
    admission.begin_group("old")
    admission.add("old/1", "t", group="old")
    assert admission.groups_begun == 1
    assert admission.admit(Observed(0.0, step=1)).start == ("old/1", "new/0")
    admission.finished("old/1")
    admission.drop_group("old")
    assert admission.admit(Observed(1.0, step=1)).start == ("newer/0",)


def test_a_decision_costs_as_much_with_ten_thousand_out_as_with_a_hundred() -> None:
    """It is asked at every event: going through all that run would make a run of n trials cost n squared."""

    def cost_s(out: int) -> float:
        admission = Admission(AdmissionLimits(max_running=out, settle_s=5.0))
        for number in range(out):
            admission.add(f"t{number}", f"task-{number % 50}")
        assert len(admission.admit(Observed(0.0, memory_available_mb=1e9)).start) == out
        begun_s = time.process_time()
        for number in range(2_000):
            admission.finished(f"t{number % out}" if number < out else f"n{number - out}")
            admission.add(f"n{number}", "task-0")
            assert admission.admit(Observed(100.0 + number, memory_available_mb=1e9)).start == (f"n{number}",)
        return time.process_time() - begun_s

    assert cost_s(10_000) < 25 * cost_s(100)
