"""Compound files, macros, embedded objects, table styles and sections: what the readers take out of them."""

from __future__ import annotations

import contextlib
import io
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.office.compound import BrokenFile, content_digest, streams
from envkit.office.deck import Deck, Shape, read_deck
from envkit.office.macros import macro_sources
from envkit.office.workbook import read_workbook

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from diff_edits.workbook_extras import compound, project, with_macros, with_pivot, with_threads

pptx = pytest.importorskip("pptx")


def test_streams_are_read_however_the_file_is_laid_out() -> None:
    one, two = b"x" * 5000, bytes(range(256)) * 20
    first, second = compound({"A": one, "B": two}), compound({"B": two, "A": one})
    assert streams(first) == {"Root Entry/VBA/A": one, "Root Entry/VBA/B": two} == streams(second)
    assert first != second
    assert content_digest(first) == content_digest(second) != content_digest(compound({"A": one, "B": one}))


def test_a_digest_of_anything_else_is_that_of_its_bytes() -> None:
    assert content_digest(b"plain") != content_digest(b"plain2")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(24, 20_000), st.integers(0, 255)), max_size=12), st.integers(0, 20_000))
def test_a_broken_compound_file_is_broken_and_no_more(changes: list[tuple[int, int]], length: int) -> None:
    data = bytearray(project({"Module1": "Sub A()\r\nEnd Sub"}))
    for at, value in changes:
        if at < len(data):
            data[at] = value
    broken = bytes(data[: max(length, 512)])
    with contextlib.suppress(BrokenFile):
        assert sum(map(len, streams(broken).values())) <= 64 * len(broken)
    assert len(content_digest(broken)) == 64
    assert macro_sources(broken) is None or isinstance(macro_sources(broken), dict)


def test_sectors_that_lead_in_a_circle_end() -> None:
    data = bytearray(compound({"A": b"x" * 5000}))
    table = struct.unpack_from("<I", data, 76)[0]
    struct.pack_into("<I", data, (table + 1) * 512 + 4, 0)  # the second sector leads to the first
    with pytest.raises(BrokenFile):
        streams(bytes(data))


def test_macros_are_their_code() -> None:
    book = read_workbook(with_macros(code='Sub A()\r\n    x = "é"  \r\nEnd Sub\r\n', more="Sub B()\r\nEnd Sub"))
    assert book.macro_code == {"Module1": 'Sub A()\n    x = "é"\nEnd Sub', "Module2": "Sub B()\nEnd Sub"}
    assert read_workbook(with_pivot()).macro_code == {}


def test_pivots_and_threads_are_read() -> None:
    (pivot,) = read_workbook(with_pivot()).sheets[1].pivots
    assert (pivot.source, pivot.rows, pivot.columns, pivot.values) == (
        "Data!A1:C7", ("Region",), ("Quarter",), ("sum of Sales",))  # fmt: skip
    first, second = sorted(read_workbook(with_threads()).sheets[0].comments, key=lambda c: c.at)
    assert (first.text, first.replies, second.done) == ("Is this with tax?", ("Bo: No, without.",), True)


def _deck(table_look: dict[str, bool]) -> Deck:
    deck: Any = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    table = slide.shapes.add_table(4, 2, 0, 0, 900_000, 900_000).table
    for name, on in table_look.items():
        setattr(table, name, on)
    for r in range(4):
        table.cell(r, 0).text = f"row {r}"
    out = io.BytesIO()
    deck.save(out)
    return read_deck(out.getvalue())


def _table(deck: Deck) -> Shape:
    return next(s for s in deck.slides[0].shapes if s.kind == "table")


def test_a_style_that_only_the_program_knows_is_resolved() -> None:
    shape = _table(_deck({"first_row": True, "horz_banding": True}))
    assert (shape.table_style, shape.table_look) == ("Medium Style 2 - Accent 1", ("firstRow", "bandRow"))
    looks = [(row[0].fill, row[0].paragraphs[0].runs[0].format.bold) for row in shape.table]
    assert looks == [("4F81BD", True), ("D0D8E8", False), ("E9EDF4", False), ("D0D8E8", False)]
    assert shape.table[0][0].paragraphs[0].runs[0].format.colour == "FFFFFF"


def test_what_a_style_treats_apart_is_said_by_the_table() -> None:
    shape = _table(_deck({"first_row": False, "horz_banding": False}))
    assert shape.table_look == ()
    assert {row[0].fill for row in shape.table} == {"E9EDF4"}
