"""The walk through one part of a Word document (body, header, note, comment), in the XML's own order.

Content controls, smart tags, hyperlinks, fields, text boxes and nested tables are part of the text; of alternative
contents only the first is read. Work is bounded: depth, paragraphs and grid cells.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field, replace
from typing import Any

from envkit.office.document.drawn import Drawn
from envkit.office.document.model import (
    Block,
    Bookmark,
    Cell,
    Control,
    ListItem,
    Paragraph,
    ParagraphFormat,
    Run,
    Table,
    Tracked,
)
from envkit.office.document.numbering import Numbering
from envkit.office.document.pieces import (
    attribute_of,
    cell_conditions,
    children,
    children_through,
    displayed,
    folded_instruction,
    grid_span,
    instruction_target,
    is_framed,
    look_of,
    merged_runs,
    table_look,
    without_label,
)
from envkit.office.document.styles import Styles, W, value
from envkit.office.drawing import Part, linear_maths
from envkit.office.problem import Problem, Unreadable
from envkit.office.rich import PLAIN, Format

__all__ = ["MAX_CELLS", "MAX_PARAGRAPHS", "Budget", "Walk"]

MAX_PARAGRAPHS = 200_000
MAX_CELLS = 500_000
_MAX_DEPTH = 60

_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_KINDS = {"ins": "inserted", "del": "deleted", "moveTo": "moved to", "moveFrom": "moved from"}
_SKIPPED = {
    f"{W}{name}"
    for name in (
        "sectPr",
        "tblPr",
        "tblGrid",
        "tblPrEx",
        "tcPr",
        "trPr",
        "sdtPr",
        "sdtEndPr",
        "pPr",
        "rPr",
        "customXmlPr",
    )
}


@dataclass
class Budget:
    """What one document may still hold."""

    paragraphs: int = MAX_PARAGRAPHS
    cells: int = MAX_CELLS

    def spend(self, paragraphs: int = 0, cells: int = 0) -> None:
        self.paragraphs -= paragraphs
        self.cells -= cells
        if self.paragraphs < 0 or self.cells < 0:
            what = f"{MAX_PARAGRAPHS} paragraphs" if self.paragraphs < 0 else f"{MAX_CELLS} table cells"
            raise Unreadable(Problem.TOO_BIG, f"it has more than {what}; no more are read")


@dataclass
class _Field:
    instruction: str = ""
    result: bool = False
    tracked: tuple[Tracked, ...] = ()


@dataclass
class _Paragraph:
    """A paragraph in the making."""

    base: Format
    table: Format
    runs: list[Run] = field(default_factory=list)
    drawn: Drawn = field(default_factory=Drawn)
    changes: list[Tracked] = field(default_factory=list)
    numbered: bool = False


@dataclass
class Walk:
    """Reads one part. What it meets besides blocks is in `notes`, `anchors`, `bookmarks`, `controls`, `sections`."""

    part: Part
    styles: Styles
    numbering: Numbering
    budget: Budget = field(default_factory=Budget)
    count: int = 0
    paragraphs: list[Paragraph] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[tuple[str, str, int]] = field(default_factory=list)
    anchors: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    bookmarks: list[Bookmark] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    sections: list[tuple[Any, int]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    pictures: int = 0
    _layout: ParagraphFormat | None = None
    _fields: list[_Field] = field(default_factory=list)
    _comments: dict[str, tuple[list[str], int]] = field(default_factory=dict)
    _marks: dict[str, tuple[str, list[str], int]] = field(default_factory=dict)

    def blocks(
        self, element: Any, depth: int = 0, table_depth: int = 0, base: Format | None = None,
        tracked: tuple[Tracked, ...] = (),
    ) -> tuple[Block, ...]:  # fmt: skip
        """The blocks below `element` in order."""
        out: list[Block] = []
        if depth > _MAX_DEPTH:
            return ()
        for child in children(element):
            if child.tag == f"{W}p":
                out.append(self._paragraph(child, depth, table_depth, base, tracked))
            elif child.tag == f"{W}tbl":
                out.append(self._table(child, depth, table_depth, base))
            elif child.tag == f"{W}sectPr":
                self.sections.append((child, self.count))
            elif child.tag in (f"{W}bookmarkStart", f"{W}bookmarkEnd", f"{W}commentRangeStart", f"{W}commentRangeEnd"):
                self._range(child)
            elif child.tag == f"{_M}oMathPara":
                out.append(self._paragraph(child, depth, table_depth, base, tracked))
            elif child.tag not in _SKIPPED:
                inner = (*tracked, _tracked(child)) if child.tag.removeprefix(W) in _KINDS else tracked
                found = self.blocks(child, depth + 1, table_depth, base, inner)
                if child.tag == f"{W}sdt":
                    self._control(child, "\n".join(b.text for b in found))
                out += found
        return tuple(out)

    # --- paragraphs ---

    def _paragraph(
        self, element: Any, depth: int, table_depth: int, base: Format | None, tracked: tuple[Tracked, ...]
    ) -> Paragraph:
        self.budget.spend(paragraphs=1)
        self.count += 1
        number = self.count
        properties = element.find(f"{W}pPr")
        style_id = value(properties, f"{W}pStyle", self.styles.default)
        self.used.add(style_id)
        level = self.styles.level(style_id)
        outline = value(properties, f"{W}outlineLvl")
        if outline.isdecimal() and int(outline) < 9:
            level = int(outline) + 1
        item, layout = self._list(properties, style_id)
        table = base if base is not None else PLAIN
        made = _Paragraph(self.styles.of_paragraph(style_id, base), table)
        self._inline(element, made, depth, "", tracked)
        mark: tuple[Tracked, ...] = tracked
        if properties is not None:
            marks = properties.find(f"{W}rPr")
            for child in marks if marks is not None else ():
                if isinstance(child.tag, str) and child.tag.removeprefix(W) in _KINDS:
                    mark = (*mark, _tracked(child))
            for child in properties.iterfind(f"{W}pPrChange"):
                made.changes.append(Tracked("formatted", child.get(f"{W}author", ""), child.get(f"{W}date", "")))
            section = properties.find(f"{W}sectPr")
            if section is not None:
                self.sections.append((section, number))
        runs = merged_runs(made.runs)
        if made.numbered:
            runs = without_label(runs)
        drawn = made.drawn
        self.pictures += len(drawn.images)
        boxes = tuple(
            (Paragraph(box, runs=(Run(box),), number=number),)
            if isinstance(box, str)
            else self.blocks(box, depth + 1, table_depth, base)
            for box in drawn.boxes
        )
        out = Paragraph(
            text="".join(r.text for r in runs if r.shown("final")),
            style=self.styles.name(style_id),
            level=level,
            in_table=table_depth > 0,
            runs=runs,
            list=item,
            format=displayed(element, layout),
            mark=mark,
            images=tuple(drawn.images),
            charts=tuple(drawn.charts),
            diagrams=tuple(drawn.diagrams),
            objects=tuple(drawn.objects),
            insides=tuple(drawn.insides),
            boxes=boxes,
            framed=is_framed(properties),
            ends_section=properties is not None and properties.find(f"{W}sectPr") is not None,
            format_changes=tuple(dict.fromkeys(made.changes)),
            number=number,
        )
        self.paragraphs.append(out)
        return out

    def _list(self, properties: Any, style_id: str) -> tuple[ListItem | None, ParagraphFormat]:
        layout = self.styles.layout(style_id, self._layout)
        own = properties.find(f"{W}numPr") if properties is not None else None
        inherited = self.styles.numbering(style_id)
        item = None
        num_id = value(own, f"{W}numId") or value(inherited, f"{W}numId")
        at = value(own, f"{W}ilvl") or value(inherited, f"{W}ilvl")
        if num_id and num_id != "0":
            level = int(at) if at.isdecimal() and len(at) < 3 else self.numbering.level_of_style(style_id)
            item = self.numbering.item(num_id, level)
            if own is not None:
                layout = self.styles.direct_layout(layout, self.numbering.layout(num_id, level))
        return item, self.styles.direct_layout(layout, properties)

    def _inline(self, element: Any, made: _Paragraph, depth: int, link: str, tracked: tuple[Tracked, ...]) -> None:
        if depth > _MAX_DEPTH:
            return
        for child in children(element):
            tag = child.tag.removeprefix(W)
            if tag == "r":
                self._run(child, made, depth, link, tracked)
            elif tag in ("bookmarkStart", "bookmarkEnd", "commentRangeStart", "commentRangeEnd"):
                self._range(child)
            elif tag in _KINDS:
                self._inline(child, made, depth + 1, link, (*tracked, _tracked(child)))
            elif tag == "hyperlink":
                anchor = child.get(f"{W}anchor")
                outside = self.part.external(child.get(f"{_R}id"))
                target = outside + (f"#{anchor}" if anchor else "")
                self._inline(child, made, depth + 1, target or link, tracked)
            elif tag == "fldSimple":
                self._fields.append(_Field(str(child.get(f"{W}instr", "")), True))
                self._inline(child, made, depth + 1, link, tracked)
                if self._fields:
                    self._fields.pop()
            elif tag == "sdt":
                before = len(made.runs)
                self._inline(child, made, depth + 1, link, tracked)
                self._control(child, "".join(r.text for r in made.runs[before:] if r.shown("final")))
            elif child.tag == f"{_M}oMath":
                self._add(made, linear_maths(child), made.base, link, tracked)
            elif child.tag not in _SKIPPED:
                self._inline(child, made, depth + 1, link, tracked)

    def _run(self, element: Any, made: _Paragraph, depth: int, link: str, tracked: tuple[Tracked, ...]) -> None:
        properties = element.find(f"{W}rPr")
        look = self.styles.of_run(made.base, made.table, properties)
        if properties is not None:
            for change in properties.iterfind(f"{W}rPrChange"):
                made.changes.append(Tracked("formatted", change.get(f"{W}author", ""), change.get(f"{W}date", "")))
        self._content(element, made, depth, look, link, tracked)

    def _content(
        self, element: Any, made: _Paragraph, depth: int, look: Format, link: str, tracked: tuple[Tracked, ...]
    ) -> None:
        if depth > _MAX_DEPTH:
            return
        for child in children(element):
            match child.tag.removeprefix(W):
                case "t" | "delText":
                    self._add(made, child.text or "", look, link, tracked)
                case "tab" | "ptab":
                    self._add(made, "\t", look, link, tracked)
                case "br" | "cr":
                    paged = child.get(f"{W}type") in ("page", "column")
                    self._add(made, "\f" if paged else "\n", look, link, tracked)
                case "noBreakHyphen":
                    self._add(made, "-", look, link, tracked)
                case "sym":
                    code = str(child.get(f"{W}char", ""))
                    if len(code) == 4 and all(c in "0123456789abcdefABCDEF" for c in code):
                        point = int(code, 16)
                        if not 0xD800 <= point < 0xE000 and point >= 0x20:
                            font = str(child.get(f"{W}font", "")) or look.font
                            self._add(made, chr(point), replace(look, font=font), link, tracked)
                case "instrText" | "delInstrText":
                    if self._fields and not self._fields[-1].result:
                        self._fields[-1].instruction += child.text or ""
                case "fldChar":
                    self._field(child, tracked)
                case "footnoteReference" | "endnoteReference":
                    kind = child.tag.removeprefix(W).removesuffix("Reference")
                    if all(t.adds for t in tracked):
                        self.notes.append((kind, str(child.get(f"{W}id", "")), self.count))
                case "commentReference":
                    self.anchors.setdefault(str(child.get(f"{W}id", "")), ("", self.count, self.count))
                case "rPr" | "softHyphen" | "lastRenderedPageBreak" | "annotationRef":
                    pass
                case "footnoteRef" | "endnoteRef":
                    made.numbered = True
                case "drawing" | "pict" | "object":
                    made.drawn.add(self.part, child, depth)
                case _:
                    self._content(child, made, depth + 1, look, link, tracked)

    def _field(self, element: Any, tracked: tuple[Tracked, ...]) -> None:
        match element.get(f"{W}fldCharType"):
            case "begin":
                if len(self._fields) < _MAX_DEPTH:
                    self._fields.append(_Field(tracked=tracked))
            case "separate":
                if self._fields:
                    self._fields[-1].result = True
            case "end":
                if self._fields:
                    self._fields.pop()

    def _add(self, made: _Paragraph, text: str, look: Format, link: str, tracked: tuple[Tracked, ...]) -> None:
        # A field nested in the instruction of another shows nothing.
        if not text or not all(f.result for f in self._fields):
            return
        text = unicodedata.normalize("NFC", text).replace("\u2011", "-").replace("\u00ad", "")
        name = ""
        for item in self._fields:
            # A field whose beginning is tracked is tracked as a whole.
            tracked = (*tracked, *(t for t in item.tracked if t not in tracked))
            instruction = folded_instruction(item.instruction)
            if instruction.upper().startswith("HYPERLINK"):
                link = link or instruction_target(instruction)
            else:
                name = instruction
        made.runs.append(Run(text, look, link, name, tracked))
        if all(t.adds for t in tracked):
            for pieces, _ in self._comments.values():
                pieces.append(text)
            for _, pieces, _ in self._marks.values():
                pieces.append(text)

    def _range(self, element: Any) -> None:
        name = str(element.get(f"{W}id", ""))
        match element.tag.removeprefix(W):
            case "commentRangeStart":
                if len(self._comments) < 1000:
                    self._comments[name] = ([], self.count + (element.getparent().tag != f"{W}p"))
            case "commentRangeEnd":
                pieces, first = self._comments.pop(name, ([], self.count))
                self.anchors[name] = ("".join(pieces), first, self.count)
            case "bookmarkStart":
                title = str(element.get(f"{W}name", ""))
                if title and not title.startswith("_") and len(self._marks) < 1000:
                    self._marks[name] = (title, [], self.count)
            case "bookmarkEnd":
                if name in self._marks:
                    title, pieces, first = self._marks.pop(name)
                    self.bookmarks.append(Bookmark(title, "".join(pieces), first, self.count))

    def _control(self, element: Any, text: str) -> None:
        properties = element.find(f"{W}sdtPr")
        if properties is None or properties.find(f"{W}docPartObj") is not None:
            return
        kind, checked = "text", None
        for child in properties:
            match str(child.tag):
                case name if name == f"{_W14}checkbox":
                    kind = "checkbox"
                    state = child.find(f"{_W14}checked")
                    checked = state is not None and state.get(f"{_W14}val", "1") in ("1", "true")
                case name if name in (f"{W}date", f"{W}picture", f"{W}dropDownList", f"{W}comboBox"):
                    kind = {"dropDownList": "dropdown", "comboBox": "combo"}.get(k := name.removeprefix(W), k)
        title, tag = value(properties, f"{W}alias"), value(properties, f"{W}tag")
        self.controls.append(Control(kind, title, tag, text, checked, self.count))

    # --- tables ---

    def _table(self, element: Any, depth: int, table_depth: int, outer: Format | None) -> Table:
        place = len(self.tables)
        self.tables.append(Table((), table_depth, number=place + 1))
        properties = element.find(f"{W}tblPr")
        style = value(properties, f"{W}tblStyle")
        look = table_look(properties)
        plain = self.styles.of_table("")
        outside, layout = self._layout, self.styles.layout_of_table(style)
        elements = list(children_through(element, f"{W}tr"))
        rows: list[tuple[str, ...]] = []
        grid: list[tuple[Cell, ...]] = []
        tracked: list[tuple[Tracked, ...]] = []
        open_merges: dict[int, tuple[int, int]] = {}
        for number, row in enumerate(elements):
            cells: list[Cell] = []
            texts = [""] * grid_span(row.find(f"{W}trPr/{W}gridBefore"))
            holders = list(children_through(row, f"{W}tc"))
            for order, holder in enumerate(holders):
                cell_properties = holder.find(f"{W}tcPr")
                span = grid_span(cell_properties.find(f"{W}gridSpan"), 1) if cell_properties is not None else 1
                self.budget.spend(cells=span)
                conditions = cell_conditions(look, number, len(elements), order, len(holders))
                base = self.styles.of_table(style, conditions)
                self._layout = layout
                found = self.blocks(holder, depth + 1, table_depth + 1, base)
                self._layout = outside
                merge = cell_properties.find(f"{W}vMerge") if cell_properties is not None else None
                column = len(texts)
                texts += [""] * span
                continued = merge is not None and merge.get(f"{W}val", "continue") == "continue"
                if continued and column in open_merges:
                    at, index = open_merges[column]
                    top = (cells if at == number else grid[at])[index]
                    if at < number:
                        grown = replace(top, rows=number - at + 1)
                        grid[at] = (*grid[at][:index], grown, *grid[at][index + 1 :])
                    continue
                given = self.styles.fill_of_table(style, conditions)
                fill = str(attribute_of(cell_properties, f"{W}shd", f"{W}fill"))
                fill = ("" if fill in ("auto", "FFFFFF") else fill.upper()) if fill else given
                cell = Cell(found, number, column, span, 1, fill, (("fill", given), *look_of(base, plain)))
                texts[column] = cell.text
                open_merges.pop(column, None)
                if merge is not None:
                    open_merges[column] = (number, len(cells))
                cells.append(cell)
            after = grid_span(row.find(f"{W}trPr/{W}gridAfter"))
            self.budget.spend(cells=after)
            grid.append(tuple(cells))
            rows.append(tuple(texts))
            row_properties = row.find(f"{W}trPr")
            changes = [c for c in (row_properties if row_properties is not None else ()) if isinstance(c.tag, str)]
            tracked.append(tuple(_tracked(c) for c in changes if c.tag in (f"{W}ins", f"{W}del")))
        # A row whose deletion is tracked is no row of the final view.
        kept = tuple(r for r, t in zip(rows, tracked, strict=True) if all(c.adds for c in t))
        name = self.styles.name(style) if style else ""
        table = Table(kept, table_depth, tuple(grid), name, tuple(tracked), look, place + 1)
        self.tables[place] = table
        return table


def _tracked(element: Any) -> Tracked:
    kind = _KINDS[element.tag.removeprefix(W)]
    return Tracked(kind, element.get(f"{W}author", ""), element.get(f"{W}date", ""))
