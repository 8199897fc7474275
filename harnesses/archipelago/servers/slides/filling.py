"""Putting content on slides: titles, bullets, tables, each where its layout has a place and no larger than it.

Used by create_deck, add_slide, and the edit operations that place tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lxml import etree
from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.shapes.base import BaseShape
from pptx.slide import Slide
from pptx.util import Emu

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.slides import placeholders, texts
from envkit.harnesses.archipelago.servers.slides.fields import SlideBlock
from envkit.harnesses.archipelago.servers.slides.fitting import fit_body, fit_table, lines_needed
from envkit.harnesses.archipelago.servers.slides.placeholders import Area
from envkit.harnesses.archipelago.servers.slides.slides import notes_body

__all__ = ["add_table", "fill_slide", "number_new_shape", "place_table", "take_place"]

_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_EMU_POINT = 12_700


def fill_slide(slide: Slide, block: SlideBlock, *, sizes: tuple[float, float, float]) -> list[str]:
    """Fills a new slide and returns what there is to say about it.

    Args:
        sizes: Sizes (points) that titles, subtitles and body text have in this deck unless they must shrink.

    Raises:
        ToolError: Its layout has no place for something.
    """
    said: list[str] = []
    title_size, subtitle_size, body_size = sizes
    if block.title is not None:
        _text(slide, "title", [block.title], title_size, said, block)
    if block.subtitle is not None:
        if block.layout not in ("title", "section_header"):
            raise ToolError(f"layout {block.layout!r} has no subtitle; use layout title or section_header, or bullets")
        _text(slide, "subtitle", [block.subtitle], subtitle_size, said, block)
    if block.bullets is not None:
        if block.layout not in ("title_and_content", "two_content"):
            raise ToolError(f"layout {block.layout!r} has no bullets; use layout title_and_content or two_content")
        if block.columns is not None and block.columns.left is not None:
            raise ToolError("bullets and columns.left go into the same place; give one of them")
        where = "left" if block.layout == "two_content" else "body"
        _text(slide, where, block.bullets.items, body_size, said, block)
    if block.columns is not None:
        if block.layout != "two_content":
            raise ToolError(f"columns need layout two_content; found layout {block.layout!r}")
        for where in ("left", "right"):
            column = getattr(block.columns, where)
            if column is not None:
                _text(slide, where, column.items, body_size, said, block)
    if block.table is not None:
        if block.layout in ("title", "section_header"):
            raise ToolError(f"layout {block.layout!r} has no place for a table; use title_and_content or title_only")
        two = block.layout == "two_content"
        where = ("right" if block.bullets or (block.columns and block.columns.left) else "left") if two else "body"
        said += place_table(slide, where, block.table.rows, block.table.header)
    if block.notes:
        texts.set_paragraphs(notes_body(slide), block.notes.split("\n"))
    return said


def _text(slide: Slide, where: str, items: Sequence[str], size: float, said: list[str], block: SlideBlock) -> None:
    if where == "title" and block.layout == "blank":
        raise ToolError("layout 'blank' has no title; use layout title_only, or leave the title out")
    shape = placeholders.find(slide, where)
    if shape is None:
        shape = _text_box(slide, where, size)
        said.append(f"the deck has no layout with a place for {where}; it stands in a shape of its own")
    body = placeholders.body_of(shape, where)
    texts.set_paragraphs(body, items, levels=where not in ("title", "subtitle"))
    points = where not in ("title", "subtitle")
    if (
        shape.width
        and shape.height
        and not fit_body(
            body,
            size,
            int(shape.width),
            int(shape.height),
            spacing=0.3 if points else 0.0,
            indent=20.0 if points else 0.0,
        )
    ):
        said.append(f"the {where} is longer than its place even in small type; spread it over several slides")


def _text_box(slide: Slide, where: str, size: float) -> Any:
    """A shape for text that the layout has no place for; a title is one all the same, so that the slide has a name."""
    presentation = slide.part.package.presentation_part.presentation
    width, height = int(presentation.slide_width or 9_144_000), int(presentation.slide_height or 6_858_000)
    margin = width // 20
    if where == "title":
        tree = slide.shapes._spTree
        number = 1 + max((int(e.get("id", "0")) for e in tree.iter(f"{_P}cNvPr")), default=1)
        tree.add_placeholder(number, f"Title {number}", PP_PLACEHOLDER.TITLE, "horz", "full", 0)
        shape: Any = slide.shapes.title
        shape.left, shape.top, shape.width, shape.height = margin, height // 20, width - 2 * margin, height // 8
        return shape
    area, _ = placeholders.content_area(slide, where if where in ("left", "right") else "body")
    shape = slide.shapes.add_textbox(Emu(area.left), Emu(area.top), Emu(area.width), Emu(area.height))
    shape.text_frame.word_wrap = True
    paragraph = shape.text_frame.paragraphs[0]._p
    properties = paragraph.get_or_add_pPr()
    end = etree.SubElement(paragraph, f"{texts.A}endParaRPr")
    end.set("sz", str(round(size * 100)))
    if where != "subtitle":
        properties.set("marL", "285750")
        properties.set("indent", "-285750")
        etree.SubElement(properties, f"{texts.A}buFont", typeface="Arial")
        etree.SubElement(properties, f"{texts.A}buChar", char="•")
    return shape


# --- tables ---


def place_table(slide: Slide, where: str, rows: Sequence[Sequence[str]], header: bool) -> list[str]:
    """A table in the place of an empty placeholder, below the text of a full one, or in the free area."""
    area, empty = placeholders.content_area(slide, where)
    full = placeholders.find_existing(slide, where) if empty is None else None
    if full is not None and placeholders.holding(full):
        area = _below(full, area)
    frame, fits = add_table(slide, rows, header, area)
    if empty is not None:
        take_place(frame, empty)
    return [] if fits else [f"the table's {len(rows)} rows reach beyond their place; use fewer rows or another slide"]


def _below(shape: Any, area: Area) -> Area:
    """What is free of a placeholder's area below its text; its lower half where that is little."""
    if not shape.has_text_frame:
        return Area(area.left, area.top + area.height // 2, area.width, area.height // 2)
    width = area.width / _EMU_POINT - 34
    lines = sum(lines_needed(p.text, 20.0, max(width, 20.0)) for p in shape.text_frame.paragraphs)
    used = min(int((lines * 30 + 12) * _EMU_POINT), area.height // 2)
    return Area(area.left, area.top + used, area.width, area.height - used)


def add_table(
    slide: Slide, rows: Sequence[Sequence[str]], header: bool, area: Area, *, exact: bool = False
) -> tuple[Any, bool]:
    """Adds a table and returns its frame, and whether it fits its area. With `exact` its rows share all the height."""
    size, natural, fits = fit_table(rows, area.width, area.height)
    tall = area.height // len(rows) if exact else natural
    frame: Any = slide.shapes.add_table(
        len(rows), len(rows[0]), Emu(area.left), Emu(area.top), Emu(area.width), Emu(tall * len(rows))
    )
    table = frame.table
    table.first_row = header
    table.horz_banding = True
    data = rows[1:] if header and len(rows) > 1 else rows
    right = [c > 0 and all(_number(row[c]) or not row[c].strip() for row in data) for c in range(len(rows[0]))]
    for r, row in enumerate(rows):
        for c, text in enumerate(row):
            body = table.cell(r, c)._tc.get_or_add_txBody()
            texts.set_paragraphs(body, text.split("\n"))
            texts.format_runs(body, size=size, bold=True if header and r == 0 else None)
            if right[c]:
                texts.format_runs(body, align="right")
    number_new_shape(slide, frame)
    return frame, fits


def _number(text: str) -> bool:
    plain = text.strip().strip("()%$€£+-").replace(",", "").replace(".", "").replace(" ", "")
    return plain.isdecimal()


def number_new_shape(slide: Slide, shape: Any) -> None:
    """Gives a new shape an id that nothing on the slide has, copies for old programs included."""
    named = next(shape._element.iter(f"{_P}cNvPr"))
    ids = [
        int(e.get("id", "0")) for e in slide.element.iter(f"{_P}cNvPr") if e is not named and e.get("id", "").isdigit()
    ]
    if int(named.get("id")) in ids:
        named.set("id", str(max(ids, default=1) + 1))


def take_place(frame: Any, empty: BaseShape) -> None:
    """Lets a table, chart or picture take an empty placeholder's role and place in the drawing order."""
    old: Any = empty.element
    holder = old.find(f".//{_P}nvPr/{_P}ph")
    properties = next(frame._element.iter(f"{_P}nvPr"))
    copy = etree.fromstring(etree.tostring(holder))
    copy.attrib.pop("hasCustomPrompt", None)
    properties.insert(0, copy)
    old.addprevious(frame._element)
    old.getparent().remove(old)
