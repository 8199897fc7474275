"""The operations on names: sheets renamed with all that refers to them, defined names made and deleted.

Used by `editing.py` and `tabs.py`.
"""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.sheets.areas import absolute, area_of
from envkit.harnesses.archipelago.servers.sheets.book import Book
from envkit.harnesses.archipelago.servers.sheets.formulas import quoted, renamed_sheet, shown
from envkit.harnesses.archipelago.servers.sheets.operations import AddNamedRange, DeleteNamedRange, RenameSheet
from envkit.harnesses.archipelago.servers.sheets.parts import MAIN
from envkit.office.workbook.styles import number as whole
from envkit.office.workbook.values import MAX_COLUMN, MAX_ROW, column_number

__all__ = ["add_named_range", "check_sheet_name", "delete_named_range", "rename_sheet", "retitle"]

_NAME = re.compile(r"[^\W\d\\]?[\\_]?[\w.\\?]*$")
_ADDRESS = re.compile(r"([A-Za-z]{1,3})([0-9]+)$")
_ROW_COLUMN = re.compile(r"[Rr][0-9]*(?:[Cc][0-9]*)?$|[Cc][0-9]*$")


def check_sheet_name(book: Book | None, name: str, own: str | None = None, taken: list[str] | None = None) -> str:
    """A name that a sheet can have. Raises `ToolError`, with the rule that it breaks."""
    plain = name.strip()
    problem = ""
    if not plain:
        problem = "a sheet's name can't be empty"
    elif len(plain) > 31:
        problem = f"it has {len(plain)} characters; at most 31 are allowed, such as {plain[:31]!r}"
    elif found := re.search(r"[:\\/?*\[\]\x00-\x1f]", plain):
        problem = f"it holds {found[0]!r}; none of : \\ / ? * [ ] is allowed"
    elif plain.startswith("'") or plain.endswith("'"):
        problem = "it can't begin or end with an apostrophe"
    elif plain.casefold() == "history":
        problem = "Excel keeps the name History for itself"
    if problem:
        raise ToolError(f"{name!r} can't be the name of a sheet: {problem}")
    others = taken if taken is not None else [entry.name for entry in book.sheets] if book is not None else []
    if any(other.casefold() == plain.casefold() and other != own for other in others):
        raise ToolError(f"there is a sheet {plain!r} already; names of sheets differ in more than case")
    return plain


def rename_sheet(book: Book, op: RenameSheet) -> str:
    entry = book.find(op.sheet)
    old = entry.name
    new = check_sheet_name(book, op.new_name, old)
    if new == old:
        return f"{old!r} has that name already"
    book.check_unlocked("renaming a sheet")

    def change(text: str) -> str:
        return renamed_sheet(text, old, new)

    count = book.rewrite_formulas(change, old)
    entry.element.set("name", new)
    if book.dirty.get(old) is not None:
        book.dirty[new] = book.dirty.pop(old)
    book.report.cells = {(new if s == old else s, at): v for (s, at), v in book.report.cells.items()}
    book.shown_now = {(new if s == old else s, at): v for (s, at), v in book.shown_now.items()}
    count += _links(book, change)
    _pivots(book, old, new)
    retitle(book)
    if count:
        book.touched = True
    follow = f"; {count} formulas, names, charts and links follow" if count else ""
    return f"renamed {old!r} to {new!r}{follow}"


def _links(book: Book, change: Any) -> int:
    """Links within the workbook: `location` of hyperlinks in sheets, `#Sheet!A1` of those in drawings."""
    count = 0
    for entry in book.sheets:
        if entry.kind != "worksheet" or b"location=" not in book.parts.read(entry.part):
            continue
        for element in book.parts.xml(entry.part).iterfind(f"{MAIN}hyperlinks/{MAIN}hyperlink"):
            place = element.get("location")
            if place:
                new = change(place)
                if new != place:
                    book.parts.edit(entry.part)
                    element.set("location", new)
                    count += 1
    for name in book.parts.names():
        if "/_rels/" not in name or b'Target="#' not in book.parts.read(name):
            continue
        for element in book.parts.xml(name):
            target = element.get("Target", "")
            if target.startswith("#"):
                new = "#" + change(target[1:])
                if new != target:
                    book.parts.edit(name)
                    element.set("Target", new)
                    count += 1
    return count


def _pivots(book: Book, old: str, new: str) -> None:
    for name in book.parts.names():
        lower = name.lower()
        if not lower.startswith("xl/pivotcache/pivotcachedefinition") or not lower.endswith(".xml"):
            continue
        root = book.parts.xml(name)
        for element in root.iter(f"{MAIN}worksheetSource", f"{MAIN}rangeSet"):
            if (element.get("sheet") or "").casefold() == old.casefold():
                book.parts.edit(name)
                element.set("sheet", new)
    for entry in book.sheets:
        if entry.kind == "worksheet" and b"dataRef" in book.parts.read(entry.part):
            for element in book.parts.xml(entry.part).iter(f"{MAIN}dataRef"):
                if (element.get("sheet") or "").casefold() == old.casefold():
                    book.parts.edit(entry.part)
                    element.set("sheet", new)


_PROPERTIES = "{http://schemas.openxmlformats.org/officeDocument/2006/extended-properties}"
_VECTOR = "{http://schemas.openxmlformats.org/officeDocument/2006/docPropsVTypes}"


def retitle(book: Book) -> None:
    """The list of sheets in the document's properties says the names that the sheets have now."""
    part = next(book.parts.related("", "extended-properties"), None)
    if part is None:
        return
    root = book.parts.edit(part)
    vector = root.find(f"{_PROPERTIES}TitlesOfParts/{_VECTOR}vector")
    counts = root.findall(f"{_PROPERTIES}HeadingPairs/{_VECTOR}vector/{_VECTOR}variant/{_VECTOR}i4")
    if vector is None:
        return
    titles = [child.text or "" for child in vector]
    known = {sheet.name for sheet in book.before.sheets}
    start = 0
    for count in counts:
        size = whole(count.text)
        piece = titles[start : start + size]
        kinds = {sheet.kind for sheet in book.before.sheets if sheet.name in piece}
        if piece and all(title in known for title in piece) and len(kinds) == 1:
            kind = kinds.pop()
            new = [entry.name for entry in book.sheets if entry.kind == kind]
            titles[start : start + size] = new
            count.text = str(len(new))
            start += len(new)
        else:
            start += size
    for child in list(vector):
        vector.remove(child)
    for title in titles:
        etree.SubElement(vector, f"{_VECTOR}lpstr").text = title
    vector.set("size", str(len(titles)))


def _check_name(name: str) -> str:
    plain = name.strip()
    address = _ADDRESS.match(plain)
    problem = ""
    if not plain or len(plain) > 255:
        problem = "it must have 1 to 255 characters"
    elif not re.match(r"[^\W\d]|\\", plain) or not re.fullmatch(r"[\w.\\?]+", plain):
        problem = "it must begin with a letter or _ and hold letters, digits, _ and . only, no spaces"
    elif address and column_number(address[1]) <= MAX_COLUMN and 1 <= int(address[2]) <= MAX_ROW:
        problem = "it looks like the address of a cell"
    elif _ROW_COLUMN.match(plain):
        problem = "Excel reads it as a row or column (R1C1)"
    elif plain.casefold() in ("true", "false"):
        problem = "it is a constant"
    if problem:
        raise ToolError(f"{name!r} can't be a name: {problem}")
    return plain


def add_named_range(book: Book, op: AddNamedRange) -> str:
    entry = book.find(op.sheet)
    name = _check_name(op.name)
    if entry.kind != "worksheet":
        raise ToolError(f"{entry.name!r} is a {entry.kind}, which has no cells")
    target = f"{quoted(entry.name)}!{absolute(area_of(op.range, entry.name))}"
    for table_name in (table.name for other in book.sheets for table in book.tables(other)):
        if table_name.casefold() == name.casefold():
            raise ToolError(f"there is a table {table_name!r}; names of tables and ranges differ")
    names = book.names(make=True)
    book.touched = True
    for element in names:
        if (element.get("name") or "").casefold() == name.casefold() and element.get("localSheetId") is None:
            old = element.text or ""
            element.text = target
            book.report.warn(f"the name {element.get('name')} stood for {old}; it stands for {target} now")
            return f"name {element.get('name')} = {target} (was {old})"
    element = etree.Element(f"{MAIN}definedName", name=name)
    element.text = target
    place = next((i for i, e in enumerate(names) if (e.get("name") or "").casefold() > name.casefold()), len(names))
    names.insert(place, element)
    return f"name {name} = {target}"


def delete_named_range(book: Book, op: DeleteNamedRange) -> str:
    wanted = op.name.strip().casefold()
    found = [e for e in book.name_list() if (e.get("name") or "").casefold() == wanted]
    found.sort(key=lambda e: e.get("localSheetId") is not None)
    if not found:
        known = [e.get("name") for e in book.name_list() if not (e.get("name") or "").startswith("_xlnm.")]
        hint = did_you_mean(op.name, known)
        listed = ", ".join(sorted(known)[:30]) or "none"
        raise ToolError(f"there is no name {op.name!r}{hint}; the workbook has: {listed}")
    if wanted.startswith("_xlnm."):
        raise ToolError(f"{op.name!r} is kept by Excel itself (a filter or print area) and is not deleted as a name")
    old = found[0].text or ""
    found[0].getparent().remove(found[0])
    book.prune_names()
    book.touched = True
    users = [
        f"{sheet.name}!{_address(at)}"
        for sheet in book.before.sheets
        for at, cell in sheet.cells.items()
        if cell.formula
        and re.search(rf"(?<![\w.!]){re.escape(op.name.strip())}(?![\w.(])", shown(cell.formula), re.IGNORECASE)
    ]
    if users:
        more = f" and {len(users) - 5} more" if len(users) > 5 else ""
        book.report.warn(f"formulas that use the deleted name yield #NAME? now: {', '.join(users[:5])}{more}")
    return f"deleted name {found[0].get('name')} ({old})"


def _address(at: tuple[int, int]) -> str:
    from envkit.office.workbook import show_address

    return show_address(at)
