"""Reads xlsx and xlsm files into the canonical model."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from envkit.office.macros import macro_sources
from envkit.office.package import Package, parse_xml
from envkit.office.problem import Problem, Unreadable
from envkit.office.workbook.cells import NotPlain, Source, read_cells, rich_text, unescaped
from envkit.office.workbook.model import Name, Sheet, Workbook
from envkit.office.workbook.parts import read_comments, read_drawing, read_objects, read_pivots, read_tables
from envkit.office.workbook.sheets import page_facts, sheet_facts
from envkit.office.workbook.styles import number, read_styles

__all__ = ["read_workbook"]

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_REL = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_ITEM = re.compile(r'\s*+<si><t(?: xml:space="preserve")?+>([^<]*+)</t></si>')


def read_workbook(data: bytes, only: int | str | None = None) -> Workbook:
    """Reads an xlsx or xlsm file. Raises `Unreadable`.

    Args:
        only: The place (from 0) or name of the one sheet whose contents are wanted. The others are listed and empty
            then, unless it holds formulas, whose values may come from anywhere: then all are read. A sheet that is
            not there leaves all empty.
    """
    package = Package(data, "spreadsheetml")
    root = package.xml(package.main)
    relations = package.relations(package.main)
    properties = root.find(f"{_MAIN}workbookPr")
    date1904 = properties is not None and properties.get("date1904") in ("1", "true")
    source = Source(_shared_strings(package), read_styles(package), date1904)
    listed = list(root.iterfind(f"{_MAIN}sheets/{_MAIN}sheet"))
    names = _names(root, [e.get("name", "") for e in listed])
    sheets: list[Sheet] = []
    wanted = None if only is None else _place(only, [e.get("name", "") for e in listed])
    first: Sheet | None = None
    for number_of, element in sorted(enumerate(listed), key=lambda item: item[0] != wanted):
        kind, target = relations.get(element.get(f"{_REL}id", ""), ("", ""))
        kind = kind.rsplit("/", 1)[-1]
        alone = only is not None and (first is None or all(c.formula is None for c in first.cells.values()))
        if alone and number_of != wanted:
            read = Sheet(element.get("name", ""), element.get("state", "visible"), {}, kind=kind or "lost")
        else:
            read = _sheet(package, kind, target, element, source, names)
        if number_of == wanted:
            first = read
        sheets.append(read)
    if first is not None and wanted:
        sheets.insert(wanted, sheets.pop(0))
    if not sheets:
        raise Unreadable(Problem.CORRUPT, "the workbook has no sheets")
    protection = root.find(f"{_MAIN}workbookProtection")
    project = next(package.related(package.main, "vbaProject"), None)
    macros = b"" if project is None else package.read(project)
    return Workbook(
        tuple(sheets),
        {n.name.upper(): n.refers_to for n in names if n.sheet is None},
        date1904,
        data,
        all_names=tuple(n for n in names if not n.name.startswith("_xlnm.")),
        structure_locked=protection is not None and protection.get("lockStructure") in ("1", "true"),
        macros="" if project is None else hashlib.sha256(macros).hexdigest(),
        macro_code={} if project is None else macro_sources(macros),
        links=_links(package),
    )


def _place(only: int | str, names: list[str]) -> int:
    """The place of the sheet that is wanted, -1 where there is none."""
    if isinstance(only, int):
        return only
    folded = only.strip().casefold()
    near = [i for i, name in enumerate(names) if name.strip().casefold() == folded]
    return names.index(only) if only in names else near[0] if near else -1


def _shared_strings(package: Package) -> list[str]:
    part = next(package.related(package.main, "sharedStrings"), None)
    if part is None:
        return []
    data = package.read(part)
    return _plain_strings(data) or [rich_text(e) for e in parse_xml(data, f"part {part!r}").iterfind(f"{_MAIN}si")]


def _plain_strings(data: bytes) -> list[str]:
    """The strings of a part in which none has formatted runs; empty where it is not in that shape."""
    if b"<!" in data or not data.startswith((b"<?xml", b"<sst")) or b"_x" in data:
        return []
    try:
        text = data.decode("utf-8")
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")  # as parsers do
        start = text.find("<si>")
        out: list[str] = []
        position = start
        for match in _ITEM.finditer(text, max(start, 0)):
            if match.start() != position:
                return []
            position = match.end()
            item = match[1]
            out.append(unescaped(item) if "&" in item else item)
        return out if text[position:].strip() == "</sst>" and start > 0 else []
    except (UnicodeDecodeError, NotPlain):
        return []


def _names(root: Any, sheets: list[str]) -> list[Name]:
    out: list[Name] = []
    for element in root.iterfind(f"{_MAIN}definedNames/{_MAIN}definedName"):
        local = element.get("localSheetId")
        index = -1 if local is None else number(local, -1)
        sheet = sheets[index] if 0 <= index < len(sheets) else None
        hidden = element.get("hidden") in ("1", "true")
        out.append(Name(element.get("name", ""), (element.text or "").strip().lstrip("="), sheet, hidden))
    return out


def _sheet(package: Package, kind: str, target: str, element: Any, source: Source, names: list[Name]) -> Sheet:
    name, state = element.get("name", ""), element.get("state", "visible")
    if not package.has(target):
        return Sheet(name, state, {}, kind=kind or "lost")  # its part is lost
    charts, pictures, shapes = read_drawing(package, target)
    if kind != "worksheet":
        page = page_facts(package.xml(target)) if kind == "chartsheet" else {}
        return Sheet(name, state, {}, kind=kind, charts=charts, pictures=pictures, shapes=shapes, **page)
    cells, rest = read_cells(package.read(target), target, name, source)
    root = parse_xml(rest, f"part {target!r}")
    facts = sheet_facts(root, package, target, source.styles)
    own = {n.name: n.refers_to for n in names if n.sheet == name}
    return Sheet(
        name,
        state,
        cells.cells,
        hidden_rows=frozenset(cells.hidden_rows),
        arrays=cells.arrays,
        print_area=own.get("_xlnm.Print_Area", ""),
        print_titles=own.get("_xlnm.Print_Titles", ""),
        tables=read_tables(package, target),
        comments=read_comments(package, target),
        charts=charts,
        pictures=pictures,
        shapes=shapes,
        pivots=read_pivots(package, target),
        objects=read_objects(package, target, root),
        **facts,
    )


def _links(package: Package) -> tuple[str, ...]:
    out: list[str] = []
    for part in package.related(package.main, "externalLink"):
        out += sorted(package.external(part).values())
    return tuple(out)
