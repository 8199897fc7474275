"""No secret survives in what a run writes down, in whatever form it travelled and wherever a stream was cut."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.scrub import REPLACEMENT, Scrubber, ScrubWarning

SECRET = 'sk-π/"a+b&c=\\n%9'
PLAIN = "sk-live-0123456789abcdef"


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        json.dumps({"arguments": json.dumps({"key": SECRET})}),
        json.dumps(SECRET).replace("/", "\\/"),
        quote(SECRET, safe=""),
        quote(SECRET),
        re.sub("%..", lambda hexes: hexes[0].lower(), quote(SECRET, safe="")),
        quote_plus(SECRET),
        html.escape(SECRET),
    ],
)
def test_a_secret_is_found_in_every_written_form(form: str) -> None:
    clean = Scrubber([SECRET]).scrub_text(f"before {form} after")
    assert REPLACEMENT in clean
    assert "a+b" not in clean
    assert "a%2" not in clean
    assert clean.startswith("before ")
    assert clean.endswith(" after")


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize(
    ("before", "after"), [(b"", b""), (b"user:", b""), (b"u:", b"@host"), (b"x" * 7, b"tail"), (b"xyz" * 3, b"y")]
)
def test_a_secret_inside_base64_is_found_at_every_alignment(
    encode: Callable[[bytes], bytes], before: bytes, after: bytes
) -> None:
    text = "Authorization: Basic " + encode(before + PLAIN.encode() + after).decode()
    clean = Scrubber([PLAIN]).scrub_text(text)
    assert REPLACEMENT in clean
    left = clean.removeprefix("Authorization: Basic ").replace(REPLACEMENT, "")
    assert len(left) <= len(text) - len("Authorization: Basic ") - (len(PLAIN) * 8 // 6 - 2)


def test_text_without_a_secret_is_the_same_object() -> None:
    text = "nothing here"
    assert Scrubber([PLAIN]).scrub_text(text) is text
    assert not Scrubber([])
    assert Scrubber([]).scrub_text(PLAIN) == PLAIN


def test_overlapping_secrets_leave_nothing_of_either() -> None:
    assert Scrubber(["abcdefgh", "efghijkl"]).scrub_text("<abcdefghijkl>") == f"<{REPLACEMENT}>"


@pytest.mark.parametrize("short", ["a", "12345"])
def test_a_short_value_is_refused_with_a_warning_that_does_not_repeat_it(short: str) -> None:
    with pytest.warns(ScrubWarning) as caught:
        scrubber = Scrubber([short, PLAIN])
    assert scrubber.refused == 1
    assert short not in str(caught[0].message) or short == "a"
    assert scrubber.scrub_text(f"12345 a {PLAIN}") == f"12345 a {REPLACEMENT}"


def test_the_repr_shows_no_secret() -> None:
    assert PLAIN not in repr(Scrubber([PLAIN]))


def test_json_values_are_scrubbed_keys_included() -> None:
    value = {"k" + PLAIN: [1, None, {"x": f"y{PLAIN}"}], "n": 1.5}
    assert Scrubber([PLAIN]).scrub_json(value) == {f"k{REPLACEMENT}": [1, None, {"x": f"y{REPLACEMENT}"}], "n": 1.5}


@settings(max_examples=300, deadline=None)
@given(
    text=st.lists(st.sampled_from(["abcabc", "bcabcd", "abc", "a", "b", "x", "\n"]), max_size=40).map("".join),
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=60),
)
def test_a_stream_is_scrubbed_alike_however_it_is_cut(text: str, cuts: list[int]) -> None:
    scrubber = Scrubber(["abcabc", "bcabcd"])
    data, pieces, at = text.encode(), [], 0
    for size in cuts:
        pieces.append(data[at : at + size])
        at += size
    pieces.append(data[at:])
    assert b"".join(scrubber.scrub_stream(pieces)) == scrubber.scrub_bytes(data)


def test_a_large_file_is_scrubbed_in_bounded_memory_across_chunk_borders(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    filler = b"0123456789\n" * 100_000
    border = (1 << 20) - 5
    with path.open("wb") as sink:
        sink.write(filler[:border] + PLAIN.encode())
        for _ in range(20):
            sink.write(filler)
        sink.write(PLAIN.encode())
    path.chmod(0o640)
    size = path.stat().st_size
    tracemalloc.start()
    assert Scrubber([PLAIN]).scrub_file(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
    assert path.stat().st_mode & 0o777 == 0o640
    data = path.read_bytes()
    assert PLAIN.encode() not in data
    assert data.count(REPLACEMENT.encode()) == 2
    assert len(data) == size - 2 * len(PLAIN) + 2 * len(REPLACEMENT)
    assert not Scrubber([PLAIN]).scrub_file(path)


def test_a_tree_is_scrubbed_without_following_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text(PLAIN)
    root = tmp_path / "trial"
    (root / "agent").mkdir(parents=True)
    (root / "agent" / "log.txt").write_text(f"key={PLAIN}")
    (root / "clean.txt").write_text("clean")
    (root / "link.txt").symlink_to(outside)
    (root / "folder").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    assert Scrubber([PLAIN]).scrub_tree(root) == [root / "agent" / "log.txt"]
    assert (root / "agent" / "log.txt").read_text() == f"key={REPLACEMENT}"
    assert outside.read_text() == PLAIN
    assert sorted(p.name for p in root.iterdir()) == ["agent", "clean.txt", "folder", "link.txt", "pipe"]
