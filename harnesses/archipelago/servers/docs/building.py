"""From typed blocks to the XML of a document, in its own styles and numbering. Used to create documents and to fill
headers and footers."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.docs.blocks import (
    BulletList,
    Heading,
    NumberedList,
    PageBreak,
    Paragraph,
    SectionBreak,
    Table,
)
from envkit.harnesses.archipelago.servers.docs.edited import Edited
from envkit.harnesses.archipelago.servers.docs.names import SECTPR_ORDER, W, element, placed, run_content, value

__all__ = ["Builder"]

_NUMBERING_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.numbering+xml"
_STARTS = {"new_page": "nextPage", "continuous": "continuous", "odd_page": "oddPage", "even_page": "evenPage"}
#: How headings look where a document has no styles for them: size in points.
_SIZES = {1: 16, 2: 13, 3: 12, 4: 11}
_MAX_COLUMNS = 63
_MAX_CELLS = 50_000


class Builder:
    """Builds for one document.

    Attributes:
        notes: What should be told, such as rows that were filled.
    """

    def __init__(self, edited: Edited, width: int, plain: str = "") -> None:
        """`width` is that of the text, in twentieths of a point; `plain` names the style of paragraphs without one."""
        self.edited = edited
        self.width = width
        self.notes: list[str] = []
        part = edited.related(edited.main, "styles")
        styles = edited.xml(part).findall(f"{W}style") if part is not None else []
        self._styles = {(s.get(f"{W}type", ""), value(s, "name").lower()): s for s in styles}
        self._names = {kind: [value(s, "name") for s in styles if s.get(f"{W}type") == kind and value(s, "name")]
                       for kind in ("paragraph", "table")}  # fmt: skip
        usual = self._styles.get(("paragraph", plain))
        self._plain = None if usual is None else str(usual.get(f"{W}styleId"))

    def build(self, blocks: Sequence[Any], section: Any = None) -> list[Any]:
        """The elements of blocks. `section`: the `w:sectPr` that sections ended by a break take after."""
        out: list[Any] = []
        cells = 0
        for number, block in enumerate(blocks):
            where = f"content[{number}]"
            match block:
                case Paragraph():
                    style = self._style("paragraph", block.style, where) or self._plain
                    out.append(self._paragraph(block.text, style, block.bold, block.italic))
                case Heading():
                    out.append(self._heading(block, where))
                case BulletList() | NumberedList():
                    out += self._list(block, where)
                case Table():
                    cells += len(block.rows) * max(len(row) for row in block.rows)
                    if cells > _MAX_CELLS:
                        raise ToolError(f"{where}: the tables have more than {_MAX_CELLS:,} cells")
                    if out and out[-1].tag == f"{W}tbl":
                        out.append(element("p"))  # else Word makes one table of two
                    out.append(self._table(block, where))
                case PageBreak():
                    out.append(element("p", element("r", element("br", type="page"))))
                case SectionBreak():
                    out.append(self._section_break(section))
        if section is not None:
            self._starts(blocks, [p for p in out if p.find(f"{W}pPr/{W}sectPr") is not None], section)
        return out

    # -- paragraphs

    def _paragraph(self, text: str, style: str | None, bold: bool = False, italic: bool = False) -> Any:
        made = element("p")
        if style:
            made.append(element("pPr", element("pStyle", val=style)))
        run = element("r")
        if bold or italic:
            run.append(element("rPr", *([element("b")] if bold else []), *([element("i")] if italic else [])))
        run.extend(run_content(text))
        made.append(run)
        return made

    def _heading(self, block: Heading, where: str) -> Any:
        if block.style is not None:
            return self._paragraph(block.text, self._style("paragraph", block.style, where))
        found = self._styles.get(("paragraph", f"heading {block.level}"))
        if found is not None:
            return self._paragraph(block.text, str(found.get(f"{W}styleId")))
        made = self._paragraph(block.text, None, bold=True)
        made.insert(0, element("pPr", element("keepNext"), element("outlineLvl", val=block.level - 1)))
        size = str(2 * _SIZES[block.level])
        made.find(f"{W}r/{W}rPr").extend([element("sz", val=size), element("szCs", val=size)])
        return made

    def _style(self, kind: str, name: str | None, where: str) -> str | None:
        """The id of a style by its name. Raises `ToolError` naming those there are."""
        if name is None or not name.strip():
            return None
        wanted = name.strip().lower()
        found = self._styles.get((kind, wanted))
        if found is None:
            found = next((s for (k, _), s in self._styles.items() if k == kind and s.get(f"{W}styleId", "").lower()
                          == wanted.replace(" ", "")), None)  # fmt: skip
        if found is None:
            known = self._names[kind]
            some = ", ".join(known[:25]) + (f" and {len(known) - 25} more" if len(known) > 25 else "")
            raise ToolError(f"{where}: there is no {kind} style {name!r}{did_you_mean(name, known)}; there are "
                            f"{some or 'none'}")  # fmt: skip
        return str(found.get(f"{W}styleId"))

    # -- lists

    def _list(self, block: BulletList | NumberedList, where: str) -> list[Any]:
        numbered = isinstance(block, NumberedList)
        if block.style is not None:
            style = self._style("paragraph", block.style, where)
        else:
            found = self._styles.get(("paragraph", "list number" if numbered else "list bullet"))
            style = None if found is None else str(found.get(f"{W}styleId"))
        number = self._numbering(numbered, style)
        out = []
        for item in block.items:
            made = self._paragraph(item, style)
            if number is not None:
                properties = made.find(f"{W}pPr")
                if properties is None:
                    properties = element("pPr")
                    made.insert(0, properties)
                properties.append(element("numPr", element("ilvl", val=0), element("numId", val=number)))
            out.append(made)
        return out

    def _numbering(self, numbered: bool, style: str | None) -> str | None:
        """The numbering that a list's items need besides their style: a counter of its own for a numbered one; None
        where the style says it all."""
        held = next((s for s in self._styles.values() if s.get(f"{W}styleId") == style), None) if style else None
        of_style = value(held, "pPr/numPr/numId")
        if of_style and not numbered:
            return None
        root, part = self._numbering_part()
        abstract = None
        if of_style:
            holder = next((n for n in root.iterfind(f"{W}num") if n.get(f"{W}numId") == of_style), None)
            abstract = value(holder, "abstractNumId") or None
        if abstract is None:
            abstract = self._abstract(root, numbered)
        number = str(max((int(n.get(f"{W}numId", "0")) for n in root.iterfind(f"{W}num")), default=0) + 1)
        made = element("num", element("abstractNumId", val=abstract), numId=number)
        if numbered:
            made.append(element("lvlOverride", element("startOverride", val=1), ilvl=0))
        last = root.findall(f"{W}num")
        if last:
            last[-1].addnext(made)
        else:
            root.append(made)
        self.edited.changed(part)
        return number

    def _abstract(self, root: Any, numbered: bool) -> str:
        known = [int(a.get(f"{W}abstractNumId", "0")) for a in root.iterfind(f"{W}abstractNum")]
        name = str(max(known, default=-1) + 1)
        level = element(
            "lvl", element("start", val=1), element("numFmt", val="decimal" if numbered else "bullet"),
            element("lvlText", val="%1." if numbered else "\u2022"), element("lvlJc", val="left"),
            element("pPr", element("ind", left=360, hanging=360)), ilvl=0,
        )  # fmt: skip
        made = element("abstractNum", element("multiLevelType", val="singleLevel"), level, abstractNumId=name)
        abstracts = root.findall(f"{W}abstractNum")
        if abstracts:
            abstracts[-1].addnext(made)
        else:
            root.insert(0, made)
        return name

    def _numbering_part(self) -> tuple[Any, str]:
        part = self.edited.related(self.edited.main, "numbering")
        if part is None:
            folder = self.edited.main.rpartition("/")[0]
            part = f"{folder}/numbering.xml".lstrip("/")
            if self.edited.has(part):
                part = self.edited.free_name(f"{folder}/numbering{{}}.xml".lstrip("/"))
            self.edited.put(part, f'<w:numbering xmlns:w="{W[1:-1]}"/>'.encode(), _NUMBERING_TYPE)
            self.edited.relate(self.edited.main, "numbering", part)
        return self.edited.xml(part), part

    # -- tables

    def _table(self, block: Table, where: str) -> Any:
        columns = max(len(row) for row in block.rows)
        if not columns:
            raise ToolError(f"{where}: the table's rows are empty; give at least one cell")
        if columns > _MAX_COLUMNS:
            raise ToolError(f"{where}: the table has {columns} columns; Word knows at most {_MAX_COLUMNS}")
        if any(len(row) != columns for row in block.rows):
            self.notes.append(f"Rows of unequal length were filled with blank cells in {where}.")
        width = round(block.width * 1440) if block.width is not None else self.width
        each = [width // columns] * columns
        properties = element("tblPr")
        style = self._style("table", block.style, where)
        if style is None and (grid := self._styles.get(("table", "table grid"))) is not None:
            style = str(grid.get(f"{W}styleId"))
        if style is not None:
            properties.append(element("tblStyle", val=style))
        properties.append(element("tblW", w=width, type="dxa"))
        if style is None:
            edges = ("top", "left", "bottom", "right", "insideH", "insideV")
            drawn = [element(e, val="single", sz=4, space=0, color="auto") for e in edges]
            properties.append(element("tblBorders", *drawn))
        look: dict[str, Any] = {"firstRow": int(block.header), "lastRow": 0, "firstColumn": 1, "lastColumn": 0}
        properties.append(element("tblLook", val="04A0" if block.header else "0480", **look, noHBand=0, noVBand=1))
        table = element("tbl", properties, element("tblGrid", *(element("gridCol", w=w) for w in each)))
        for number, row in enumerate(block.rows):
            heads = block.header and number == 0
            made = element("tr")
            if heads:
                made.append(element("trPr", element("cantSplit"), element("tblHeader")))
            for index in range(columns):
                text = row[index] if index < len(row) else ""
                paragraph = self._paragraph(text, None, bold=heads) if text else element("p")
                made.append(element("tc", element("tcPr", element("tcW", w=each[index], type="dxa")), paragraph))
            table.append(made)
        return table

    # -- sections

    def _section_break(self, section: Any) -> Any:
        if section is None:
            raise ToolError("a header or footer can't hold a section break")
        copied = deepcopy(section)
        for item in copied.findall(f"{W}type"):
            copied.remove(item)
        return element("p", element("pPr", copied))

    def _starts(self, blocks: Sequence[Any], ends: Sequence[Any], section: Any) -> None:
        """A break says how the section after it starts; a file writes that into that section's own properties."""
        breaks = [b for b in blocks if isinstance(b, SectionBreak)]
        after = [p.find(f"{W}pPr/{W}sectPr") for p in ends[1:]] + [section]
        for block, properties in zip(breaks, after, strict=False):
            for item in properties.findall(f"{W}type"):
                properties.remove(item)
            placed(properties, element("type", val=_STARTS[block.start_type]), SECTPR_ORDER)
