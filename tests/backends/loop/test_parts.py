"""The loop's parts by themselves: rollouts as bytes, buffer, order, figures, configuration."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from envkit.backend import EngineLoad, Rollout, RolloutRequest
from envkit.backends.loop import (
    LocalStorage,
    LoopConfig,
    MemoryStorage,
    RealClock,
    Shuffled,
    Storage,
    VirtualClock,
)
from envkit.backends.loop.buffer import Buffer
from envkit.backends.loop.capacity import Capacity
from envkit.backends.loop.clock import run_real, run_virtual
from envkit.backends.loop.codec import Damaged, decode, digest_of, encode
from envkit.backends.loop.measure import measure
from envkit.backends.loop.order import seed_of
from envkit.failure import Boundary, EnvkitError, Failure, FailureKind, UserError
from envkit.messages import StopReason
from envkit.tokens.export import Sample


def sample_of(length: int, seed: int = 0, share: float = 0.25) -> Sample:
    """Sampled stretches of varying versions between tool results."""
    dice = np.random.default_rng(seed)
    mask = np.repeat(dice.random(length // 50 + 1) < share, 50)[:length]
    mask[0] = False
    versions = np.where(mask, np.sort(dice.integers(3, 6, length)), -1).astype(np.int32)
    logprobs = np.where(mask, -dice.exponential(0.3, length), 0.0).astype(np.float32)
    ids = dice.integers(0, 150_000, length).astype(np.int32)
    return Sample(ids, mask, logprobs, versions, "main", (0, 3, 5), "stop", ((3, 10, 20), (5, 30, 40)))


def rollout_of(*samples: Sample, group: str = "g0000000", attempt: int = 1, **changes: Any) -> Rollout:
    request = RolloutRequest("office/memo", group, attempt, 2**62 + 1, 4, ("http://a:1", "http://b:2"))
    given: dict[str, Any] = {
        "request": request,
        "reward": 0.1 + 0.2,
        "stop": StopReason.ANSWERED,
        "samples": samples,
        "sampled_tokens": 17,
        "dropped": {"too_long": 3},
        "context_tokens": 90_000,
        "started_s": 1.25,
        "finished_s": 7.5,
        "metrics": {"turns": 3.0},
        "signals": {"invalid": {3: -0.25, 5: 0.0}},
        "folder": "trials/a\ud800b",
    }
    return Rollout(**{**given, **changes})


def assert_same(one: Any, other: Any) -> None:
    """Every field, arrays by type and bytes: a field that is added to the types later must survive too."""
    if dataclasses.is_dataclass(one) and not isinstance(one, type):
        assert type(one) is type(other)
        for field in dataclasses.fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    elif isinstance(one, dict):
        assert_same(tuple(one.items()), tuple(other.items()))
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        assert one == other
        assert type(one) is type(other)


# ---- codec ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 1_000, 160_000])
def test_a_rollout_survives_to_the_bit(length: int) -> None:
    rollout = rollout_of(sample_of(length), sample_of(max(1, length // 3), seed=1))
    assert_same(decode(encode(rollout)), rollout)


def test_failures_and_missing_values_survive() -> None:
    failure = Failure.of(FailureKind.SANDBOX_DIED, Boundary.SANDBOX, "gone", cause=("a", "b"))
    rollout = rollout_of(reward=None, stop=None, failure=failure, folder=None, dropped={}, metrics={})
    assert_same(decode(encode(rollout)), rollout)


def test_a_long_row_is_stored_compactly() -> None:
    sample = sample_of(160_000, share=0.2)
    size = len(encode(rollout_of(sample)))
    plain = sum(a.nbytes for a in (sample.ids, sample.mask, sample.logprobs, sample.versions))
    assert size < 0.42 * plain
    assert size < 5.2 * 160_000


def test_a_file_that_was_cut_or_changed_is_no_rollout() -> None:
    data = encode(rollout_of(sample_of(300)))
    dice = random.Random(0)
    for cut in [0, 1, 4, 20, len(data) - 1, *(dice.randrange(len(data)) for _ in range(30))]:
        with pytest.raises(Damaged):
            decode(data[:cut])
    for _ in range(60):
        at = dice.randrange(len(data))
        with pytest.raises(Damaged):
            decode(data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :])


# ---- buffer ---------------------------------------------------------------------------------------------------------

FINGERPRINT = {"seed": 0}


def buffer_over(storage: Storage, *, clock: Any = None, failures: list[BaseException] | None = None) -> Buffer:
    return Buffer(storage, clock or VirtualClock(), failed=(failures if failures is not None else []).append)


async def filled(storage: Storage, *, groups: int = 3, clock: Any = None) -> Buffer:
    buffer = buffer_over(storage, clock=clock)
    await buffer.open(FINGERPRINT)
    for ordinal in range(groups):
        buffer.begin(ordinal, f"task-{ordinal}", 1 + ordinal // 2)
        for slot in range(2):
            name = f"g{ordinal:07d}"
            buffer.done(ordinal, slot, rollout_of(sample_of(40, seed=ordinal * 2 + slot), group=name, attempt=slot))
        buffer.ready(ordinal)
    buffer.retry(groups - 1, 1, FailureKind.SANDBOX_DIED)
    await buffer.flush()
    return buffer


def test_the_buffer_knows_after_a_crash_what_it_knew_before() -> None:
    async def main() -> None:
        storage = MemoryStorage()
        buffer = await filled(storage)
        buffer.consume(1, [0, 2])
        buffer.evaluated(0)
        await buffer.flush()
        again = buffer_over(MemoryStorage(storage.survivors()))
        await again.open(FINGERPRINT)
        assert again.state.dump() == buffer.state.dump()
        before, after = await buffer.load([0, 1, 2]), await again.load([0, 1, 2])
        assert_same(tuple(before), tuple(after))

    run_virtual(main())


def test_covered_and_dropped_groups_leave_the_storage() -> None:
    async def main() -> None:
        storage = MemoryStorage()
        buffer = await filled(storage)
        buffer.drop(1)
        buffer.consume(1, [0])
        await buffer.flush()
        assert len(storage.keys("buffer/groups/")) == 4
        buffer.covered(1)
        await buffer.flush()
        assert {key.split("/")[2] for key in storage.keys("buffer/groups/")} == {"g0000002"}
        assert len(storage.keys("buffer/journal/")) == 1, "the journal did not start afresh"

    run_virtual(main())


def test_many_changes_at_once_are_one_commit() -> None:
    async def main() -> None:
        storage = MemoryStorage()
        await filled(storage, groups=20)
        assert len(storage.keys("buffer/journal/")) <= 3

    run_virtual(main())


def test_a_damaged_commit_ends_the_journal_there_and_is_reported() -> None:
    async def main() -> None:
        storage = MemoryStorage()
        buffer = await filled(storage)
        for step in (1, 2, 3):
            buffer.consume(step, [step - 1])
            await buffer.flush()
        objects = storage.survivors()
        commits = [key for key in sorted(objects) if key.startswith("buffer/journal/")]
        objects[commits[-2]] = objects[commits[-2]][:-3]
        said: list[str] = []
        again = Buffer(MemoryStorage(objects), VirtualClock(), failed=lambda error: None, report=said.append)
        await again.open(FINGERPRINT)
        assert again.state.consumed == 1
        assert len(said) == 1
        assert commits[-2] in said[0]

    run_virtual(main())


def test_a_rollout_whose_commit_was_lost_is_taken_in() -> None:
    async def main() -> None:
        storage = MemoryStorage()
        buffer = buffer_over(storage)
        await buffer.open(FINGERPRINT)
        buffer.begin(0, "a", 1)
        await buffer.flush()
        objects = storage.survivors()
        objects["buffer/groups/g0000000/01"] = encode(rollout_of(sample_of(9)))
        objects["buffer/groups/g0000000/00"] = encode(rollout_of(sample_of(9)))[:-1]
        objects["buffer/groups/g0000009/00"] = encode(rollout_of(sample_of(9)))
        storage = MemoryStorage(objects)
        again = buffer_over(storage)
        await again.open(FINGERPRINT)
        assert list(again.state.groups[0].done) == [1]
        assert storage.keys("buffer/groups/") == ["buffer/groups/g0000000/01"]

    run_virtual(main())


def test_a_storage_that_fails_fails_the_buffer_and_nobody_waits_for_ever() -> None:
    async def main() -> None:
        failures: list[BaseException] = []
        buffer = buffer_over(MemoryStorage(dies_at=5), failures=failures)
        await buffer.open(FINGERPRINT)
        buffer.begin(0, "a", 1)
        for slot in range(8):
            buffer.done(0, slot, rollout_of(sample_of(9)))
        with pytest.raises(EnvkitError, match="died"):
            await buffer.flush()
        with pytest.raises(EnvkitError, match="died"):
            await buffer.flush()
        assert len(failures) == 1

    run_virtual(main())


@pytest.mark.slow
def test_ready_groups_do_not_stay_in_memory(tmp_path: Path) -> None:
    """What is ready is on disk only: after a flush the buffer holds no array."""
    import gc

    def samples() -> list[Sample]:
        gc.collect()
        return [held for held in gc.get_objects() if isinstance(held, Sample)]

    async def main() -> None:
        buffer = await filled(LocalStorage(tmp_path, durable=False), groups=8, clock=RealClock())
        assert [held for held in samples() if id(held) not in others] == []
        assert len(await buffer.load(range(7))) == 7

    # What other tests of this process still hold; kept alive here, so that no new sample gets the address of one.
    before = samples()
    others = {id(held) for held in before}
    run_real(main())


# ---- order, figures -------------------------------------------------------------------------------------------------


def test_every_epoch_has_every_task_once_in_its_own_order() -> None:
    tasks = [f"t{n}" for n in range(7)]
    order = Shuffled(tasks, seed=3)
    epochs = [[order.task(epoch * 7 + place) for place in range(7)] for epoch in range(4)]
    assert all(sorted(epoch) == tasks for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4
    again = Shuffled(list(reversed(tasks)), seed=3)
    assert [again.task(n) for n in range(27, -1, -1)] == [order.task(n) for n in range(27, -1, -1)]
    assert again.fingerprint == order.fingerprint != Shuffled(tasks, seed=4).fingerprint
    assert [Shuffled(tasks, shuffle=False).task(n) for n in range(9)] == [*tasks, "t0", "t1"]
    for wrong in ([], ["a", "a"]):
        with pytest.raises(UserError):
            Shuffled(wrong)


def test_seeds_differ_with_every_part() -> None:
    seeds = [seed_of(a, b) for a in range(40) for b in range(40)]
    assert len(set(seeds)) == 1_600
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_of("epoch", 1) == seed_of("epoch", 1)


def test_the_mean_length_follows_what_comes_back() -> None:
    capacity = Capacity(window=4, expected_tokens=None, prior=2)
    assert capacity.mean_tokens is None
    for tokens in (0, 100):
        capacity.saw(tokens)
    assert capacity.mean_tokens is None, "one trajectory is no mean"
    for tokens in (200, 300, 400, 500):
        capacity.saw(tokens)
    assert capacity.mean_tokens == 350
    expecting = Capacity(window=4, expected_tokens=1_000, prior=4)
    assert expecting.mean_tokens == 1_000
    expecting.saw(200)
    assert expecting.mean_tokens == 800
    expecting.load = EngineLoad(kv_capacity_tokens=4_000, kv_used_tokens=1_000)
    assert (expecting.kv_tokens(0.5), expecting.kv_used) == (2_000, 0.25)


def test_token_lag_is_taken_per_token() -> None:
    from envkit.backends.data.group import Group

    ids = np.arange(4, dtype=np.int32)
    mask = np.array([False, True, True, True])
    sample = Sample(ids, mask, np.zeros(4, np.float32), np.array([-1, 2, 4, 4], np.int32), "main", (0,), "stop")
    found = measure([Group("g", "t", (rollout_of(sample, context_tokens=4),))], 6)
    assert found["loop/token_lag_sum"] == 3 + 1 + 1
    assert found["loop/token_lag_max"] == 3
    assert found["loop/rollout_versions_max"] == 3
    assert found["loop/sampled_tokens"] == 3


# ---- configuration --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"steps": 1, "group_sise": 4}, "group_sise"),
        ({"steps": 0}, "steps"),
        ({"steps": 1, "group_size": 1}, "min_valid_rows"),
        ({"steps": 1, "deadline": {"rollout_s": float("inf")}}, "rollout_s"),
        ({"steps": 1, "deadline": {"rollout_s": 0}}, "rollout_s"),
        ({"steps": 1, "retry": {"rollouts": {"sandbox_dyed": 1}}}, "sandbox_d"),
    ],
)
def test_a_wrong_table_is_refused(table: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        LoopConfig.model_validate(table)


def test_every_setting_is_documented() -> None:
    def check(model: type[Any]) -> None:
        for name, field in model.model_fields.items():
            inner = field.annotation
            nested = [t for t in (inner, *getattr(inner, "__args__", ())) if hasattr(t, "model_fields")]
            for one in nested:
                check(one)
            assert field.description or nested, f"{model.__name__}.{name} has no description"

    check(LoopConfig)


def test_digests_name_contents() -> None:
    seen = Counter(digest_of(encode(rollout_of(sample_of(50, seed=n)))) for n in range(20))
    assert len(seen) == 20
