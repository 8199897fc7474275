"""What a sheet refers to: tables, comments and threads, charts, pictures, shapes with text, pivot tables.

Each stands in a part of its own that the sheet's relations name; a part that is lost is left out. Used by `read.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from envkit.office.chart import read_chart
from envkit.office.drawing import Part
from envkit.office.package import Package
from envkit.office.workbook.cells import rich_text
from envkit.office.workbook.model import Comment, Picture, Pivot, Shape, SheetChart, SheetObject, Table
from envkit.office.workbook.styles import number
from envkit.office.workbook.values import Address, parse_address, parse_area

__all__ = ["read_comments", "read_drawing", "read_objects", "read_pivots", "read_tables"]

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_REL = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_XDR = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_TC = "{http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"


def read_tables(package: Package, part: str) -> tuple[Table, ...]:
    out: list[Table] = []
    for target in package.related(part, "table"):
        root = package.xml(target)
        try:
            area = parse_area(root.get("ref", ""))
        except ValueError:
            continue
        columns = tuple(e.get("name", "") for e in root.iterfind(f"{_MAIN}tableColumns/{_MAIN}tableColumn"))
        name = root.get("displayName") or root.get("name") or ""
        out.append(Table(name, area, columns, number(root.get("totalsRowCount"))))
    return tuple(sorted(out, key=lambda t: (t.area, t.name)))


def read_comments(package: Package, part: str) -> tuple[Comment, ...]:
    """Notes and threads. Beside a thread, files keep a note with its text for old programs, which is left out."""
    threads = _threads(package, part)
    out = dict(threads)
    for target in package.related(part, "comments"):
        root = package.xml(target)
        authors = [(e.text or "").strip() for e in root.iterfind(f"{_MAIN}authors/{_MAIN}author")]
        for element in root.iterfind(f"{_MAIN}commentList/{_MAIN}comment"):
            at = _at(element.get("ref"))
            if at is None or at in threads:
                continue
            index = number(element.get("authorId"), -1)
            author = authors[index] if 0 <= index < len(authors) else ""
            text = element.find(f"{_MAIN}text")
            out[at] = Comment(at, author, "" if text is None else _without_author(rich_text(text), author))
    return tuple(out[at] for at in sorted(out))


def _without_author(text: str, author: str) -> str:
    """Programs put the author's name as a first line into the note."""
    clean = text.replace("\r\n", "\n").strip()
    return clean.removeprefix(f"{author}:\n").strip() if author else clean


def _at(text: str | None) -> Address | None:
    try:
        return parse_address(text or "")
    except ValueError:
        return None


def _threads(package: Package, part: str) -> dict[Address, Comment]:
    people: dict[str, str] = {}
    for target in package.related(package.main, "person"):
        for element in package.xml(target).iterfind(f"{_TC}person"):
            people[element.get("id", "")] = element.get("displayName", "")
    heads: dict[str, Comment] = {}
    replies: dict[str, list[str]] = {}
    for target in package.related(part, "threadedComment"):
        for element in package.xml(target).iterfind(f"{_TC}threadedComment"):
            author = people.get(element.get("personId", ""), "")
            text = (element.findtext(f"{_TC}text") or "").strip()
            parent = element.get("parentId")
            at = _at(element.get("ref"))
            if parent:
                replies.setdefault(parent, []).append(f"{author}: {text}")
            elif at is not None:
                done = element.get("done") in ("1", "true")
                heads[element.get("id", "")] = Comment(at, author, text, done=done)
    return {
        head.at: Comment(head.at, head.author, head.text, tuple(replies.get(key, ())), head.done)
        for key, head in heads.items()
    }


def read_drawing(package: Package, part: str) -> tuple[tuple[SheetChart, ...], tuple[Picture, ...], tuple[Shape, ...]]:
    """Charts, pictures and shapes with text, in the order in which they are drawn."""
    charts: list[SheetChart] = []
    pictures: list[Picture] = []
    shapes: list[Shape] = []
    for target in package.related(part, "drawing"):
        relations = package.relations(target)
        for anchor in package.xml(target):
            if not isinstance(anchor.tag, str) or not anchor.tag.endswith("Anchor"):
                continue
            at = _corner(anchor)
            for element in _drawn(anchor):
                about = element.find(f"./*/{_XDR}cNvPr")
                name = "" if about is None else about.get("name", "")
                if element.tag == f"{_XDR}pic":
                    blip = next(element.iter(f"{_A}blip"), None)
                    _, image = relations.get("" if blip is None else blip.get(f"{_REL}embed", ""), ("", ""))
                    if image and package.has(image):
                        digest = hashlib.sha256(package.read(image)).hexdigest()
                        pictures.append(Picture(digest, at, "" if about is None else about.get("descr", "")))
                elif element.tag == f"{_XDR}sp":
                    lines = ["".join(t.text or "" for t in p.iter(f"{_A}t")) for p in element.iter(f"{_A}p")]
                    text = "\n".join(lines).strip()
                    if text:
                        shapes.append(Shape(text, at, name))
                else:
                    for kind, chart in (relations.get(i, ("", "")) for i in _ids(element)):
                        if kind.rsplit("/", 1)[-1] in ("chart", "chartEx") and package.has(chart):
                            charts.append(SheetChart(read_chart(package.xml(chart)), at, name))
    return tuple(charts), tuple(pictures), tuple(shapes)


def _drawn(anchor: Any) -> Iterator[Any]:
    """Pictures, shapes and frames below an anchor, through groups; of alternatives the first choice."""
    wanted = {f"{_XDR}pic", f"{_XDR}sp", f"{_XDR}graphicFrame"}
    todo = [anchor]
    while todo:
        element = todo.pop()
        if element.tag in wanted:
            yield element
        elif element.tag != _FALLBACK:
            todo += reversed([child for child in element if isinstance(child.tag, str)])


def _ids(element: Any) -> Iterator[str]:
    for child in element.iter():
        found = child.get(f"{_REL}id")
        if found:
            yield found


def _corner(anchor: Any) -> Address | None:
    corner = anchor.find(f"{_XDR}from")
    if corner is None:
        return None
    return number(corner.findtext(f"{_XDR}row")) + 1, number(corner.findtext(f"{_XDR}col")) + 1


def read_objects(package: Package, part: str, root: Any) -> tuple[SheetObject, ...]:
    """Embedded objects of a sheet; of alternatives the first."""
    holder = Part(package, part)
    out: list[SheetObject] = []
    seen: set[str] = set()
    for element in root.iterfind(f"{_MAIN}oleObjects//{_MAIN}oleObject"):
        relation = element.get(f"{_REL}id", "")
        if relation and relation not in seen:
            seen.add(relation)
            digest, inside = holder.object(relation)
            out.append(SheetObject(element.get("progId", ""), digest or holder.external(relation), inside))
    return tuple(out)


def read_pivots(package: Package, part: str) -> tuple[Pivot, ...]:
    out: list[Pivot] = []
    for target in package.related(part, "pivotTable"):
        root = package.xml(target)
        source = ""
        names: list[str] = []
        for cache in package.related(target, "pivotCacheDefinition"):
            source, names = _cache(package.xml(cache))

        def fields(tag: str, root: Any = root, names: list[str] = names) -> tuple[str, ...]:
            indexes = [number(e.get("x", e.get("fld")), -99) for e in root.iterfind(f"{_MAIN}{tag}/*")]
            # Index -2 stands for the place of several value fields.
            return tuple(names[i] if 0 <= i < len(names) else f"field {i}" for i in indexes if i != -2)

        place = root.find(f"{_MAIN}location")
        values = tuple(
            f"{e.get('subtotal', 'sum')} of {names[i] if 0 <= (i := number(e.get('fld'), -1)) < len(names) else '?'}"
            for e in root.iterfind(f"{_MAIN}dataFields/{_MAIN}dataField")
        )
        try:
            area = parse_area(place.get("ref", "")) if place is not None else None
        except ValueError:
            area = None
        rows, columns, filters = fields("rowFields"), fields("colFields"), fields("pageFields")
        out.append(Pivot(root.get("name", ""), area, source, rows, columns, filters, values))
    return tuple(out)


def _cache(root: Any) -> tuple[str, list[str]]:
    sheet_source = root.find(f"{_MAIN}cacheSource/{_MAIN}worksheetSource")
    source = ""
    if sheet_source is not None:
        sheet, ref = sheet_source.get("sheet", ""), sheet_source.get("ref", "")
        source = sheet_source.get("name") or (f"{sheet}!{ref}" if sheet else ref)
    names = [e.get("name", "") for e in root.iterfind(f"{_MAIN}cacheFields/{_MAIN}cacheField")]
    return source, names
