"""Alarms: what must ring, rings once and says why; ordinary learning stays quiet."""

from __future__ import annotations

import random

import pytest

from envkit.backends.run.alarms import Alarm, Alarms, bimodality
from envkit.backends.run.plan import AlarmsPlan

QUIET = {"train/logprob_gap": 0.01, "faults/share": 0.02, "faults/rollouts": 2.0, "agent/turns": 12.0}


def graded(chance: random.Random, mean: float, n: int = 64) -> list[float]:
    return [min(1.0, max(0.0, chance.gauss(mean, 0.2))) for _ in range(n)]


def feed(alarms: Alarms, step: int, rewards: list[float], **families: list[float]) -> list[Alarm]:
    return alarms.step(step, QUIET, rewards, families)


def pooled(families: dict[str, list[float]]) -> list[float]:
    return [reward for rewards in families.values() for reward in rewards]


def kinds(found: list[Alarm]) -> list[str]:
    return [alarm.kind for alarm in found]


@pytest.mark.parametrize("seed", range(5))
def test_steady_learning_rings_nothing(seed: int) -> None:
    chance = random.Random(seed)
    alarms = Alarms(AlarmsPlan())
    for step in range(1, 200):
        mean = 0.2 + 0.6 * step / 200
        one, two = graded(chance, mean), graded(chance, mean - 0.1)
        assert not feed(alarms, step, one + two, memo=one, sheet=two)


def test_binary_rewards_that_were_always_so_ring_nothing() -> None:
    chance = random.Random(1)
    alarms = Alarms(AlarmsPlan())
    for step in range(1, 100):
        rewards = [float(chance.random() < 0.3 + step / 200) for _ in range(64)]
        assert not feed(alarms, step, rewards)


def test_a_sudden_rise_rings_once_and_points_at_hacking() -> None:
    chance = random.Random(2)
    alarms = Alarms(AlarmsPlan())
    for step in range(1, 11):
        assert not feed(alarms, step, graded(chance, 0.3))
    first = feed(alarms, 11, graded(chance, 0.75))
    assert kinds(first) == ["jump"]
    assert first[0].hacking
    assert "0.3" in first[0].message
    assert not feed(alarms, 12, graded(chance, 0.75)), "said once"


def test_sudden_saturation() -> None:
    chance = random.Random(3)
    alarms = Alarms(AlarmsPlan())
    for step in range(1, 11):
        feed(alarms, step, graded(chance, 0.4))
    found = feed(alarms, 11, [1.0] * 60 + [0.9] * 4)
    assert "saturation" in kinds(found)
    slowly = Alarms(AlarmsPlan())
    for step in range(1, 120):
        rewards = graded(chance, min(1.3, 0.3 + step / 100))
        assert "saturation" not in kinds(feed(slowly, step, rewards)), "solved step by step is learnt"


def test_rewards_that_part_into_all_and_nothing() -> None:
    chance = random.Random(4)
    alarms = Alarms(AlarmsPlan())
    for step in range(1, 11):
        assert not feed(alarms, step, graded(chance, 0.5))
    parted = [0.0] * 30 + [1.0] * 34
    found = feed(alarms, 11, parted)
    assert kinds(found) == ["bimodal"]
    assert found[0].hacking


def test_one_family_that_leaves_the_others_behind() -> None:
    chance = random.Random(5)
    alarms = Alarms(AlarmsPlan())
    for step in range(1, 11):
        families = {name: graded(chance, 0.3, 16) for name in ("memo", "sheet", "message")}
        assert not feed(alarms, step, pooled(families), **families)
    families = {"memo": graded(chance, 0.3, 16), "sheet": graded(chance, 0.3, 16), "message": [0.95] * 16}
    found = feed(alarms, 11, pooled(families), **families)
    assert "family_jump" in kinds(found)
    (alarm,) = [a for a in found if a.kind == "family_jump"]
    assert "'message'" in alarm.message
    together = Alarms(AlarmsPlan())
    for step in range(1, 11):
        families = {name: graded(chance, 0.3, 16) for name in ("memo", "sheet")}
        feed(together, step, pooled(families), **families)
    both = {name: graded(chance, 0.8, 16) for name in ("memo", "sheet")}
    assert "family_jump" not in kinds(feed(together, 11, pooled(both), **both)), "all of them rose"


def test_the_gap_rings_and_stops_only_where_asked() -> None:
    for stops in (False, True):
        alarms = Alarms(AlarmsPlan(gap_stops=stops))
        assert not alarms.step(1, {"train/logprob_gap": 0.029}, [], {})
        assert kinds(alarms.step(2, {"train/logprob_gap": 0.031}, [], {})) == ["gap"]
        assert not alarms.gap_says_stop, "one step may be chance"
        alarms.step(3, {"train/logprob_gap": 0.2}, [], {})
        assert alarms.gap_says_stop is stops
        alarms.step(4, {"train/logprob_gap": 0.01}, [], {})
        assert not alarms.gap_says_stop
    assert kinds(Alarms(AlarmsPlan()).step(1, {"train/logprob_gap": float("nan")}, [], {})) == ["gap"]


def test_signs_of_broken_machinery() -> None:
    zero = Alarms(AlarmsPlan())
    rung = [kind for step in range(1, 6) for kind in kinds(feed(zero, step, [0.0] * 16))]
    assert rung == ["all_zero"]
    chance = random.Random(6)
    alarms = Alarms(AlarmsPlan())
    for step in range(1, 9):
        feed(alarms, step, graded(chance, 0.6))
    assert kinds(feed(alarms, 9, [0.02] * 64)) == ["collapse"]
    dead = Alarms(AlarmsPlan()).step(1, {**QUIET, "agent/turns": 1.0, "stop/answered": 0.2}, graded(chance, 0.3), {})
    assert kinds(dead) == ["one_turn"]
    sick = Alarms(AlarmsPlan()).step(1, {**QUIET, "faults/share": 0.5, "faults/rollouts": 40.0}, [], {})
    assert kinds(sick) == ["faults"]


def test_bimodality_is_sarles_coefficient() -> None:
    assert bimodality([0.0, 1.0] * 50) == pytest.approx(1.0)
    assert bimodality([i / 999 for i in range(1000)]) == pytest.approx(5 / 9, abs=1e-3)
    chance = random.Random(7)
    assert bimodality([chance.gauss(0, 1) for _ in range(20_000)]) == pytest.approx(1 / 3, abs=0.02)
    assert bimodality([0.3] * 10) == 0.0
    assert bimodality([0.0, 1.0]) == 0.0
