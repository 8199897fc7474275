"""The single edits of `workbook_files.py` of whole workbooks, and of charts, tables, pivots and threads."""

from __future__ import annotations

from typing import Any

from lxml import etree

from diff_edits.workbook_changes import TC, A, C, Expected, M, part_edit

# --- the book ---


def _sheets(root: Any) -> list[Any]:
    return list(root.iterfind(f"{M}sheets/{M}sheet"))


def sheet_hidden(root: Any) -> str | None:
    shown = [s for s in _sheets(root) if s.get("state", "visible") == "visible"]
    if len(shown) < 2:
        return None
    shown[-1].set("state", "hidden")
    return "sheet.visibility"


def sheets_swapped(root: Any) -> str | None:
    sheets = _sheets(root)
    names = root.find(f"{M}definedNames")
    if len(sheets) < 2 or (names is not None and any(n.get("localSheetId") for n in names)):
        return None
    sheets[1].addnext(sheets[0])
    return "sheet.order"


def name_added(root: Any) -> str | None:
    names, sheets = root.find(f"{M}definedNames"), root.find(f"{M}sheets")
    if names is None:
        names = etree.Element(f"{M}definedNames")
        following = [e for e in root if e.tag in (f"{M}functionGroups", f"{M}externalReferences")]
        (following[-1] if following else sheets).addnext(names)
    etree.SubElement(names, f"{M}definedName", name="ZebraCount").text = "4711"
    return "name"


def structure_locked(root: Any) -> str | None:
    if root.find(f"{M}workbookProtection") is not None:
        return None
    root.find(f"{M}bookViews" if root.find(f"{M}bookViews") is not None else f"{M}sheets").addprevious(
        etree.Element(f"{M}workbookProtection", lockStructure="1")
    )
    return "workbook.protection"


# --- charts, tables, pivots, threads ---


def chart_title(root: Any) -> str | None:
    texts = list(root.iterfind(f"{C}chart/{C}title/{C}tx//{A}t"))
    if len(texts) != 1:
        return None
    texts[0].text = "Zebras per zoo"
    return "chart.title"


def series_removed(root: Any) -> str | None:
    found = list(root.iter(f"{C}ser"))
    if len(found) < 2:
        return None
    found[-1].getparent().remove(found[-1])
    return "chart.series"


def table_renamed(root: Any) -> str | None:
    root.set("displayName", "Zebras")
    return "table.name"


def pivot_source(root: Any) -> str | None:
    source = root.find(f"{M}cacheSource/{M}worksheetSource")
    source.set("ref", "A1:C5")
    return "pivot.source"


def pivot_rows(root: Any) -> list[str] | None:
    rows, columns = root.find(f"{M}rowFields/{M}field"), root.find(f"{M}colFields/{M}field")
    row, column = rows.get("x"), columns.get("x")
    rows.set("x", column)
    columns.set("x", row)
    return ["pivot.rows", "pivot.columns"]


def pivot_function(root: Any) -> str | None:
    root.find(f"{M}dataFields/{M}dataField").set("subtotal", "average")
    return "pivot.values"


def pivot_gone(data: bytes) -> tuple[bytes, Expected] | None:
    def change(root: Any) -> str | None:
        for element in root:
            if element.get("Type", "").endswith("/pivotTable"):
                root.remove(element)
                return "pivot"
        return None

    return part_edit(r"xl/worksheets/_rels/sheet\d*\.xml\.rels", change)(data)


def thread_text(root: Any) -> str | None:
    root[0].find(f"{TC}text").text = "Is this without tax?"
    return "comment.text"


def thread_reply(root: Any) -> str | None:
    reply = next((e for e in root if e.get("parentId")), None)
    if reply is None:
        return None
    reply.find(f"{TC}text").text = "Yes, with it."
    return "comment.replies"


def thread_resolved(root: Any) -> str | None:
    root[0].set("done", "1")
    return "comment.resolved"


def reply_gone(root: Any) -> str | None:
    reply = next((e for e in root if e.get("parentId")), None)
    if reply is None:
        return None
    root.remove(reply)
    return "comment.replies"
