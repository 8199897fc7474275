"""Frames and values: they come back as they went, and damage is an error, never a crash or a wrong value."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.sandbox.supervisor import wire

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary(max_size=50)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=60)
@given(values)
def test_values_survive(value):
    back = wire.decode(wire.encode(value))
    assert back == value
    assert type(back) is type(value)


@settings(max_examples=60)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_an_error(data):
    try:
        value = wire.decode(data)
    except wire.WireError:
        return
    assert wire.decode(wire.encode(value)) == value or value != value


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2**32 - 1), st.binary(max_size=300)), max_size=10),
    st.integers(1, 50),
)
def test_frames_survive_any_cut(frames, cut):
    raw = b"".join(wire.frame(*frame) for frame in frames)
    reader = wire.FrameReader()
    got = [frame for at in range(0, len(raw), cut) for frame in reader.feed(raw[at : at + cut])]
    assert got == frames


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"NN",
        b"?",
        b"i\x00",
        b"s\xff\xff\xff\xff",
        b"s\x00\x00\x00\x01\xff",
        b"l\xff\xff\xff\xff",
        b"l\x00\x00\x00\x01" * 5000,
        b"m\x00\x00\x00\x01NN",
    ],
)
def test_damage_is_an_error(data):
    with pytest.raises(wire.WireError):
        wire.decode(data)


@pytest.mark.parametrize("value", [{1: 2}, {1}, object(), 2**63, 1j])
def test_what_can_not_be_carried_is_refused(value):
    with pytest.raises(wire.WireError):
        wire.encode(value)


def test_nesting_has_an_end():
    value: list[object] = []
    value.append(value)
    with pytest.raises(wire.WireError, match="deeper"):
        wire.encode(value)


def test_a_giant_frame_is_refused_before_it_is_collected():
    with pytest.raises(wire.WireError, match="announced"):
        list(wire.FrameReader().feed(wire.HEADER.pack(1 << 30, 1, wire.DATA)))
