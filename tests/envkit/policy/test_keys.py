"""Keys in rotation: pure, driven by a clock of the test's own."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envkit.failure import Boundary, EnvkitError, FailureKind, UserError
from envkit.policy.backoff import delay_s, retry_after_s
from envkit.policy.keys import ApiKey, KeyPool, Quarantine, read_keys

KEYS = [ApiKey("A", "secret-a"), ApiKey("B", "secret-b"), ApiKey("C", "secret-c")]


def pool(**options: object) -> KeyPool:
    return KeyPool(KEYS, rng=random.Random(1), **options)  # type: ignore[arg-type]


def label(taken: ApiKey | float) -> str:
    assert isinstance(taken, ApiKey)
    return taken.label


def test_a_key_is_kept_until_it_is_limited_or_every_request_moves_on() -> None:
    sticky, moving = pool(), pool(every_request=True)
    assert [label(sticky.take(t)) for t in range(4)] == ["A", "A", "A", "A"]
    assert [label(moving.take(t)) for t in range(4)] == ["A", "B", "C", "A"]


def test_trials_start_at_keys_of_their_own() -> None:
    assert [label(pool(offset=n).take(0)) for n in range(5)] == ["A", "B", "C", "A", "B"]


def test_a_limited_key_rests_as_long_as_asked_and_the_others_go_on() -> None:
    keys = pool()
    rest = keys.limited(KEYS[0], 100.0, retry_after_s=30.0)
    assert 30.0 <= rest <= 31.0
    assert label(keys.take(100.0)) == "B"
    keys.limited(KEYS[1], 100.0, 5.0)
    keys.limited(KEYS[2], 100.0, 10.0)
    wait = keys.take(100.0)
    assert isinstance(wait, float)
    assert 5.0 <= wait <= 6.0
    assert label(keys.take(100.0 + wait)) == "B"


def test_without_retry_after_the_rest_grows_and_a_success_resets_it() -> None:
    keys = KeyPool(KEYS[:1], rng=random.Random(0))
    rests = [keys.limited(KEYS[0], 0.0, None) for _ in range(12)]
    for number, rest in enumerate(rests):
        whole = min(60.0, 2.0**number)
        assert whole / 2 <= rest <= whole
    keys.worked(KEYS[0])
    assert keys.limited(KEYS[0], 0.0, None) <= 1.0


def test_an_endpoint_that_always_says_at_once_is_not_hammered() -> None:
    keys = KeyPool(KEYS[:1], rng=random.Random(0))
    assert [keys.limited(KEYS[0], 0.0, 0.0) for _ in range(8)][-1] > 10.0


def test_refused_keys_are_out_for_good_and_all_refused_is_an_auth_failure() -> None:
    keys = pool()
    keys.refused(KEYS[0])
    keys.refused(KEYS[2], Quarantine.EXHAUSTED)
    assert label(keys.take(1e9)) == "B"
    keys.refused(KEYS[1])
    with pytest.raises(EnvkitError) as caught:
        keys.take(1e9)
    assert (caught.value.kind, caught.value.boundary) == (FailureKind.POLICY_AUTH, Boundary.POLICY)
    assert "C (out of quota)" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_no_repr_shows_a_key() -> None:
    assert "secret-a" not in repr(KEYS[0])


@given(
    events=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["limit", "ask", "ok"]), st.floats(0, 100))),
    every=st.booleans(),
)
def test_the_pool_never_hands_out_a_resting_key_and_never_loses_one(
    events: list[tuple[int, str, float]], every: bool
) -> None:
    keys, now, ready = pool(every_request=every), 0.0, {"A": 0.0, "B": 0.0, "C": 0.0}
    for index, event, amount in events:
        if event == "limit":
            ready[KEYS[index].label] = max(ready[KEYS[index].label], now + keys.limited(KEYS[index], now, amount))
        elif event == "ok":
            now += amount
        taken = keys.take(now)
        if isinstance(taken, ApiKey):
            assert ready[taken.label] <= now
        else:
            assert min(ready.values()) == pytest.approx(now + taken)


def test_keys_are_read_from_variables_and_files_once_each(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_text("# ours\n\nsecret-b\n  secret-c  \n")
    keys = read_keys(["K1", "K2"], file, {"K1": "secret-a\n", "K2": "secret-b"})
    assert [(key.label, key.value) for key in keys] == [
        ("K1", "secret-a"),
        ("K2", "secret-b"),
        ("keys.txt:4", "secret-c"),
    ]


@pytest.mark.parametrize(
    ("names", "content", "says"),
    [
        (["MISSING"], None, "MISSING is not set"),
        ([], "", "holds no key"),
        ([], "# only a comment", "holds no key"),
        ([], "two words", "characters that no API key has"),
        ([], "schlüssel", "characters that no API key has"),
    ],
)
def test_unusable_keys_are_errors_that_do_not_repeat_them(
    tmp_path: Path, names: list[str], content: str | None, says: str
) -> None:
    file = None
    if content is not None:
        file = tmp_path / "keys.txt"
        file.write_text(content)
    with pytest.raises(UserError, match=says) as caught:
        read_keys(names, file, {})
    assert "two words" not in str(caught.value)
    with pytest.raises(UserError, match="can't be read"):
        read_keys([], tmp_path / "none.txt", {})


NOW = dt.datetime(2026, 1, 15, 9, 0, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "Thu, 15 Jan 2026 09:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 15 Jan 2026 10:00:30 +0100"}, 30.0),
        ({"retry-after": "Thu, 15 Jan 2026 08:00:00 GMT"}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e30"}, 86_400.0),
        ({"retry-after": "Thu, 99 Jan 2026 99:00:00 GMT"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "?", "retry-after": "9"}, 9.0),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, NOW) == expected


def test_pauses_double_up_to_a_bound_with_jitter() -> None:
    for failures, whole in [(1, 0.5), (2, 1.0), (5, 8.0), (9, 30.0), (5000, 30.0)]:
        drawn = {delay_s(failures, random.Random(n), first_s=0.5, longest_s=30.0) for n in range(50)}
        assert all(whole / 2 <= pause <= whole for pause in drawn)
        assert len(drawn) == 50
