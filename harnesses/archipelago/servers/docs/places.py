"""Identifiers: what `body.p.3`, `body.tbl.0.r.1.c.2`, `header.s.0.p.0` and their like name in a document's XML.

    body.p.N                    the N-th paragraph of the body (from 0; those in tables are counted in their cell)
    body.p.N.r.M                its M-th stretch of one look
    body.tbl.T                  the T-th table; .r.R its row; .c.C its cell in grid column C; .p.N a paragraph of that
    body.p.N.box.K              the K-th text box anchored in a paragraph; what it holds is named as in the body
    header.s.S, footer.s.S      what shows in section S (its own or inherited); .first and .even for those pages
    footnote.N, endnote.N       notes in the order of their references, from 1

Order and counting are those of `envkit.office.document`, so that reading can show an identifier beside each block
of the model, and every tool that writes takes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.docs.edited import Edited
from envkit.harnesses.archipelago.servers.docs.names import MC, R, V, W, local
from envkit.harnesses.archipelago.servers.docs.words import Group, groups
from envkit.office.document.pieces import children, children_through, grid_span

__all__ = [
    "Cell", "Place", "Places", "blocks_of", "body_of", "boxes_of", "grid_of", "is_table", "sections_of", "side_part",
]  # fmt: skip

_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_TEXTPATH = f"{V}textpath"
_PROPERTIES = (
    "sectPr", "tblPr", "tblGrid", "tblPrEx", "tcPr", "trPr", "sdtPr", "sdtEndPr", "pPr", "rPr", "customXmlPr",
)  # fmt: skip
_SYNTAX = "body.p.3, body.p.3.r.0, body.tbl.0.r.1.c.2, body.tbl.0.r.1.c.2.p.0, header.s.0.p.0 or footnote.1.p.0"


@dataclass(frozen=True)
class Cell:
    """A cell: its grid column, how many it spans, its element, and the row of the merged cell that it continues."""

    column: int
    span: int
    node: Any
    top: int | None = None


@dataclass(frozen=True)
class Place:
    """What an identifier names.

    Attributes:
        label: The identifier in its usual form.
        kind: `paragraph`, `run`, `table`, `row`, `cell` or `area` (the body, a header, a text box ...).
        node: The element; a run's is its paragraph, an area's holds its blocks.
        part: The part that it is in.
        group: Of a run: its stretch.
        notes: What should be told about it (merged cells, inherited headers).
    """

    label: str
    kind: str
    node: Any
    part: str
    group: Group | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def area(self) -> str:
        """The label without its last step: where its like are counted."""
        return self.label.rsplit(".", 2)[0]

    @property
    def number(self) -> int:
        return int(self.label.rsplit(".", 1)[1])


def blocks_of(node: Any) -> Iterator[Any]:
    """Paragraphs and tables below an element, in reading order, through content controls and tracked insertions. Of
    letters drawn as a picture, these themselves: they read as a paragraph."""
    if node.tag == _TEXTPATH:
        yield node
    for item in children(node):
        tag = local(item)
        if tag in ("p", "tbl") or item.tag == f"{_M}oMathPara":
            yield item
        elif tag not in _PROPERTIES:
            yield from blocks_of(item)


def is_table(node: Any) -> bool:
    return local(node) == "tbl"


def grid_of(table: Any) -> list[tuple[Any, list[Cell]]]:
    """A table's rows: their elements, and their cells by grid column."""
    out: list[tuple[Any, list[Cell]]] = []
    open_merges: dict[int, int] = {}
    for number, row in enumerate(children_through(table, f"{W}tr")):
        column = grid_span(row.find(f"{W}trPr/{W}gridBefore"))
        cells: list[Cell] = []
        for node in children_through(row, f"{W}tc"):
            span = grid_span(node.find(f"{W}tcPr/{W}gridSpan"), 1)
            merge = node.find(f"{W}tcPr/{W}vMerge")
            continued = merge is not None and merge.get(f"{W}val", "continue") == "continue"
            if continued and column in open_merges:
                cells.append(Cell(column, span, node, open_merges[column]))
            else:
                open_merges.pop(column, None)
                if merge is not None:
                    open_merges[column] = number
                cells.append(Cell(column, span, node))
            column += span
        out.append((row, cells))
    return out


def boxes_of(paragraph: Any) -> list[Any]:
    """The contents of the text boxes anchored in a paragraph, and letters drawn as a picture (WordArt)."""
    out: list[Any] = []

    def walk(node: Any, depth: int) -> None:
        for item in children(node):
            tag = local(item)
            if tag == "txbxContent" or (item.tag == _TEXTPATH and (item.get("string") or "").strip()):
                out.append(item)
            elif tag not in _PROPERTIES and depth < 60:
                walk(item, depth + 1)

    walk(paragraph, 0)
    return out


def sections_of(edited: Edited) -> list[Any]:
    """The `w:sectPr` of each section in order; the last section's may be missing."""
    body = body_of(edited)
    out = []
    for block in blocks_of(body):
        found = block.find(f"{W}pPr/{W}sectPr") if local(block) == "p" else None
        if found is not None:
            out.append(found)
    last = body.find(f"{W}sectPr")
    if last is not None:
        out.append(last)
    return out


def body_of(edited: Edited) -> Any:
    body = edited.xml(edited.main).find(f"{W}body")
    if body is None:
        raise ToolError("the document has no body")
    return body


def side_part(edited: Edited, side: str, section: int, pages: str = "default") -> tuple[str | None, int]:
    """The part of the header or footer that shows in a section, and the section that it belongs to."""
    for number in range(section, -1, -1):
        for reference in sections_of(edited)[number].iterfind(f"{W}{side}Reference"):
            if reference.get(f"{W}type", "default") == pages:
                target = edited.target(edited.main, reference.get(f"{R}id"))
                if target is not None:
                    return target, number
    return None, section


class Places:
    """Resolves identifiers in one document."""

    def __init__(self, edited: Edited) -> None:
        self.edited = edited

    def find(self, identifier: str) -> Place:
        """What an identifier names. Raises `ToolError` saying what there is instead."""
        steps = _steps(identifier)
        place, rest = self._root(identifier, steps)
        while rest:
            place, rest = self._step(identifier, place, rest)
        return place

    def _root(self, identifier: str, steps: list[str]) -> tuple[Place, list[str]]:
        first, rest = steps[0], steps[1:]
        if first == "body":
            return Place("body", "area", body_of(self.edited), self.edited.main), rest
        if first in ("header", "footer"):
            return self._side(identifier, first, rest)
        if first in ("footnote", "endnote"):
            return self._note(identifier, first, rest)
        raise ToolError(f"{identifier!r} is no identifier; read_document_content shows them: {_SYNTAX}")

    def _side(self, identifier: str, side: str, steps: list[str]) -> tuple[Place, list[str]]:
        if steps[:1] == ["s"]:
            steps = steps[1:]
        number = _number(identifier, steps[:1])
        count = len(sections_of(self.edited))
        if number >= max(count, 1):
            raise ToolError(f"there is no section {number}: the document has {count}, numbered from 0")
        rest = steps[1:]
        pages = "default"
        if rest[:1] in (["first"], ["even"], ["default"]):
            pages, rest = rest[0], rest[1:]
        part, owner = side_part(self.edited, side, number, pages) if count else (None, 0)
        if part is None:
            kind = "" if pages == "default" else f" for {pages} pages"
            raise ToolError(f"section {number} has no {side}{kind}; the header_footer tool with action set makes one")
        label = f"{side}.s.{number}" + ("" if pages == "default" else f".{pages}")
        notes = () if owner == number else (f"The {side} is section {owner}'s: the change shows there as well.",)
        return Place(label, "area", self.edited.xml(part), part, notes=notes), rest

    def _note(self, identifier: str, kind: str, steps: list[str]) -> tuple[Place, list[str]]:
        number = _number(identifier, steps[:1])
        notes = list(self.notes(kind))
        if not 1 <= number <= len(notes):
            raise ToolError(f"there is no {kind} {number}: the document has {len(notes)}, numbered from 1")
        part = self.edited.related(self.edited.main, f"{kind}s")
        assert part is not None
        return Place(f"{kind}.{number}", "area", notes[number - 1], part), steps[1:]

    def notes(self, kind: str) -> Iterator[Any]:
        """The elements of the notes of a kind, in the order of their references."""
        part = self.edited.related(self.edited.main, f"{kind}s")
        if part is None:
            return
        held = {n.get(f"{W}id"): n for n in self.edited.xml(part).iterfind(f"{W}{kind}")}
        for reference in body_of(self.edited).iter(f"{W}{kind}Reference"):
            if _shown(reference) and reference.get(f"{W}id") in held:
                yield held[reference.get(f"{W}id")]

    def _step(self, identifier: str, place: Place, rest: list[str]) -> tuple[Place, list[str]]:
        step, after = rest[0], rest[1:]
        wanted = {"area": ("p", "tbl"), "paragraph": ("r", "box"), "table": ("r",), "row": ("c",), "cell": ("p", "tbl"),
                  "run": ()}[place.kind]  # fmt: skip
        if step not in wanted:
            raise ToolError(
                f"{identifier!r}: after {place.label} comes "
                + (" or ".join(f".{w}.N" for w in wanted) if wanted else "nothing")
                + f", found .{step}"
            )
        number = _number(identifier, after[:1])
        label = f"{place.label}.{step}.{number}"
        match place.kind, step:
            case (("area" | "cell"), _):
                table = step == "tbl"
                found = [b for b in blocks_of(place.node) if is_table(b) == table]
                what = "table" if table else "paragraph"
                node = _pick(found, number, place.label, step, what)
                made = Place(label, what, node, place.part, notes=place.notes)
            case "paragraph", "r":
                stretch = _pick(groups(place.node), number, place.label, "r", "run")
                made = Place(label, "run", place.node, place.part, stretch, place.notes)
            case "paragraph", _:
                made = Place(label, "area", _pick(boxes_of(place.node), number, place.label, "box", "text box"),
                             place.part, notes=place.notes)  # fmt: skip
            case "table", _:
                row, _ = _pick(grid_of(place.node), number, place.label, "r", "row")
                made = Place(label, "row", row, place.part, notes=place.notes)
            case _:
                made = self._cell(place, number)
        return made, after[1:]

    def _cell(self, place: Place, column: int) -> Place:
        table = next(a for a in place.node.iterancestors(f"{W}tbl"))
        rows = grid_of(table)
        number = place.number
        while True:
            cells = rows[number][1]
            cell = next((c for c in cells if c.column <= column < c.column + c.span), None)
            if cell is None:
                last = max((c.column + c.span for c in cells), default=0) - 1
                raise ToolError(f"there is no {place.label}.c.{column}: the row's columns are 0 to {last}")
            if cell.top is None or cell.top >= number:
                break
            number = cell.top
        label = f"{place.area}.r.{number}.c.{cell.column}"
        notes = place.notes
        if (number, cell.column) != (place.number, column):
            notes = (*notes, f"{place.label}.c.{column} is part of the merged cell {label}.")
        return Place(label, "cell", cell.node, place.part, notes=notes)


def _steps(identifier: str) -> list[str]:
    identifier = identifier.strip()
    if listed := re.fullmatch(r"\[([a-z]+\.[^\s\]]*)[^\]]*\]?", identifier, re.I):
        identifier = listed[1]  # as the readers list it: `[body.p.3 heading 2]`
    plain = re.sub(r"\[(\d+)\]", r".\1", identifier.strip().lstrip("@").lower()).replace("_", ".")
    # `r1` and `p3` are `r.1` and `p.3`.
    plain = re.sub(r"(?<![a-z0-9])(p|r|c|s|tbl|box)(\d+)", r"\1.\2", plain)
    steps = [s for s in plain.split(".") if s]
    if len(steps) > 1 and steps[0] in ("p", "tbl") and steps[1].isdecimal():
        steps.insert(0, "body")
    if not steps:
        raise ToolError(f"the identifier is empty; they look like {_SYNTAX}")
    return steps


def _number(identifier: str, steps: list[str]) -> int:
    if not steps or not re.fullmatch(r"\d{1,7}", steps[0]):
        found = f"found {steps[0]!r}" if steps else "found nothing"
        raise ToolError(f"{identifier!r} is no identifier: a number was expected, {found}; they look like {_SYNTAX}")
    return int(steps[0])


def _pick(found: list[Any], number: int, area: str, step: str, what: str) -> Any:
    if number < len(found):
        return found[number]
    if not found:
        raise ToolError(f"there is no {area}.{step}.{number}: {area} has no {what}s")
    few = f"{len(found)} {what}{'s' * (len(found) != 1)}"
    last = f" to {area}.{step}.{len(found) - 1}" if len(found) > 1 else ""
    raise ToolError(f"there is no {area}.{step}.{number}: {area} has {few}, {area}.{step}.0{last}")


def _shown(node: Any) -> bool:
    """Whether something isn't tracked as deleted, nor in an alternative that isn't read."""
    for outer in node.iterancestors():
        if local(outer) in ("del", "moveFrom") or outer.tag == f"{MC}Fallback":
            return False
    return True
