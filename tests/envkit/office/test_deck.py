"""The model of decks: shapes through groups, effective looks, and limits."""

from __future__ import annotations

import io
import zipfile

import pptx
import pytest
from pptx.util import Inches, Pt

from envkit.office.deck import read_deck
from envkit.office.problem import Problem, Unreadable

A = "http://schemas.openxmlformats.org/drawingml/2006/main"


def saved(deck: pptx.presentation.Presentation) -> bytes:
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def test_shapes_in_groups_stand_where_they_are_seen() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    group = slide.shapes.add_group_shape()
    box = group.shapes.add_textbox(Inches(1), Inches(1), Inches(2), Inches(1))
    box.text_frame.text = "inside"
    frame = group._element.grpSpPr.get_or_add_xfrm()
    group.left, group.width = Inches(3), Inches(4)
    assert frame is not None
    (shape,) = read_deck(saved(deck)).slides[0].shapes
    assert (shape.text, shape.groups) == ("inside", 1)
    assert shape.box is not None
    assert (shape.box.x, shape.box.width) == (216.0, 288.0), "moved and stretched with its group"


def test_looks_come_from_layout_and_master() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Title"
    frame = slide.placeholders[1].text_frame
    frame.text = "first"
    second = frame.add_paragraph()
    second.text, second.level = "second", 1
    second.runs[0].font.size = Pt(9)
    title, body = read_deck(saved(deck)).slides[0].shapes
    assert title.paragraphs[0].runs[0].format.size == 44.0
    assert title.paragraphs[0].align == "center"
    assert [(p.level, p.bullet, p.runs[0].format.size) for p in body.paragraphs] == [(0, "•", 32.0), (1, "–", 9.0)]
    assert title.box is not None, "a placeholder stands where its layout says"


def test_hidden_slides_tables_and_merged_cells() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    slide._element.set("show", "0")
    table = slide.shapes.add_table(2, 2, 0, 0, Inches(3), Inches(1)).table
    table.cell(0, 0).merge(table.cell(0, 1))
    table.cell(0, 0).text, table.cell(1, 1).text = "wide", "low"
    read = read_deck(saved(deck))
    assert read.shown == ()
    assert read.slides[0].tables == ((("wide", ""), ("", "low")),)
    assert read.slides[0].shapes[0].table[0][0].columns == 2


def rewritten(data: bytes, part: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w", 8) as target:
        for info in source.infolist():
            target.writestr(info.filename, content if info.filename == part else source.read(info))
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["shapes", "cells"])
def test_too_much_is_refused(what: str) -> None:
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[6])
    p = "http://schemas.openxmlformats.org/presentationml/2006/main"
    many = b"<p:sp/>" * 20_100
    if what == "cells":
        row = b"<a:tr>" + b"<a:tc/>" * 500 + b"</a:tr>"
        many = (
            b"<p:graphicFrame><a:graphic><a:graphicData><a:tbl>" + row * 401
            + b"</a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
        )  # fmt: skip
    content = f'<p:sld xmlns:p="{p}" xmlns:a="{A}"><p:cSld><p:spTree>'.encode() + many
    data = rewritten(saved(deck), "ppt/slides/slide1.xml", content + b"</p:spTree></p:cSld></p:sld>")
    with pytest.raises(Unreadable) as caught:
        read_deck(data)
    assert caught.value.problem is Problem.TOO_BIG
