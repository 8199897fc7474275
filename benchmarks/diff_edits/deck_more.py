"""More single edits of decks: sections, looks of tables, what stands inside of embedded objects. Used by `deck.py`."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import openpyxl
from lxml import etree

from diff_edits.deck_changes import in_part, shown_edit
from diff_edits.edit import Edit, Expected
from diff_edits.zipped import edit_part, part_names

__all__ = ["banding_edit", "embedded_edit", "regroup_edit", "section_edit", "style_edit"]

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
P14 = "{http://schemas.microsoft.com/office/powerpoint/2010/main}"
#: Medium Style 3 - Accent 2 and Light Style 2 - Accent 4, neither of which decks are made with.
_STYLES = ("{85BE263C-DBD7-4A20-BB59-AAB30ACAA65A}", "{17292A2E-F333-43FB-9621-5CBBE7FDCDCB}")


def section_edit(name: str | None) -> Edit:
    """Renames the second section of a deck, or (None) takes it away, its slides going to the first."""

    def change(root: Any) -> str | None:
        sections = list(root.iter(f"{P14}section"))
        if len(sections) < 2:
            return None
        if name is not None:
            sections[1].set("name", name)
            return "section.name"
        first = sections[0].find(f"{P14}sldIdLst")
        first.extend(list(sections[1].iter(f"{P14}sldId")))
        sections[1].getparent().remove(sections[1])
        return "section"

    return in_part("ppt/presentation.xml", change)


def _regrouped(root: Any) -> str | None:
    sections = list(root.iter(f"{P14}section"))
    if len(sections) < 2 or len(list(sections[1].iter(f"{P14}sldId"))) < 2:
        return None
    slide = next(sections[1].iter(f"{P14}sldId"))
    sections[0].find(f"{P14}sldIdLst").append(slide)
    return "slide.section"


regroup_edit: Edit = in_part("ppt/presentation.xml", _regrouped)


def _tables(data: bytes, change: Callable[[Any], str | None]) -> tuple[bytes, Expected] | None:
    for name in sorted(shown_edit(data)):
        done = in_part(name, change)(data) if name in part_names(data) else None
        if done is not None:
            return done
    return None


def style_edit(data: bytes) -> tuple[bytes, Expected] | None:
    def change(root: Any) -> str | None:
        for element in root.iter(f"{A}tableStyleId"):
            element.text = next(s for s in _STYLES if s != element.text)
            return "table.style"
        return None

    return _tables(data, change)


def banding_edit(flag: str) -> Edit:
    def change(root: Any) -> str | None:
        for properties in root.iter(f"{A}tblPr"):
            if properties.find(f"{A}tableStyleId") is not None:
                properties.set(flag, "0" if properties.get(flag) in ("1", "true") else "1")
                return "table.look"
        return None

    return lambda data: _tables(data, change)


def embedded_edit(folder: str, where: str | None = None) -> Edit:
    """Changes a cell of the first embedded workbook in `folder`; the finding is one of the cell."""

    def edit(data: bytes) -> tuple[bytes, Expected] | None:
        for name in part_names(data):
            if name.startswith(folder) and name.endswith(".xlsx") and _shown(data, name):
                out = edit_part(data, name, _cell_changed)
                if out is not None:
                    return out, [("cell.value", where)]
        return None

    return edit


def _shown(data: bytes, part: str) -> bool:
    """Whether a slide or the document shows the workbook as an object, and not a chart as its data."""
    from diff_edits.zipped import read_part

    target = part.rpartition("/")[2]
    for name in part_names(data):
        if name.endswith(".rels") and ("slides/_rels/slide" in name or name.endswith("word/_rels/document.xml.rels")):
            for element in etree.fromstring(read_part(data, name)):
                if element.get("Target", "").endswith(target):
                    return True
    return False


def _cell_changed(content: bytes) -> bytes:
    book = openpyxl.load_workbook(io.BytesIO(content))
    if not isinstance(book.worksheets[0]["B2"].value, int | float):
        return content
    book.worksheets[0]["B2"] = 8642.5
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()
