"""The cells of one sheet as XML, open for editing: rows and cells in order, formulas kept whole, nothing else moved.

Values are written the way Excel writes them: numbers as numbers, texts as shared strings, formulas with their cached
value beside them. Overwriting the first cell of a shared formula hands each other cell its own formula; part of a
multi-cell array formula can't be overwritten, as in Excel. Used by `book.py` and the operations.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lxml import etree

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.sheets.parts import MAIN
from envkit.office.workbook import Address, Area, parse_address, parse_area, show_address
from envkit.office.workbook.formulas import shifted
from envkit.office.workbook.styles import number as whole

if TYPE_CHECKING:
    from envkit.harnesses.archipelago.servers.sheets.book import Book

__all__ = ["Grid", "insert", "merged", "place", "plain_text"]

#: The children of a worksheet in the order that the format demands.
_ORDER = {
    tag: index
    for index, tag in enumerate(
        [
            "sheetPr",
            "dimension",
            "sheetViews",
            "sheetFormatPr",
            "cols",
            "sheetData",
            "sheetCalcPr",
            "sheetProtection",
            "protectedRanges",
            "scenarios",
            "autoFilter",
            "sortState",
            "dataConsolidate",
            "customSheetViews",
            "mergeCells",
            "phoneticPr",
            "conditionalFormatting",
            "dataValidations",
            "hyperlinks",
            "printOptions",
            "pageMargins",
            "pageSetup",
            "headerFooter",
            "rowBreaks",
            "colBreaks",
            "customProperties",
            "cellWatches",
            "ignoredErrors",
            "smartTags",
            "drawing",
            "legacyDrawing",
            "legacyDrawingHF",
            "drawingHF",
            "picture",
            "oleObjects",
            "controls",
            "webPublishItems",
            "tableParts",
            "extLst",
        ]
    )
}
_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]|_(?=x[0-9A-Fa-f]{4}_)")
_XML_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


def place(root: Any, tag: str) -> Any:
    """The child of a worksheet of this kind; made at its place in the order where there is none."""
    found = root.find(f"{MAIN}{tag}")
    if found is not None:
        return found
    element = etree.Element(f"{MAIN}{tag}")
    insert(root, element)
    return element


def merged(root: Any) -> list[tuple[Any, Area]]:
    """The merged blocks of a sheet."""
    out = []
    for element in root.iterfind(f"{MAIN}mergeCells/{MAIN}mergeCell"):
        try:
            out.append((element, parse_area(element.get("ref", ""))))
        except ValueError:
            continue
    return out


def insert(root: Any, element: Any) -> None:
    """Puts a child into a worksheet behind all that come before it in the order."""
    rank = _rank(element)
    for index, child in enumerate(root):
        if isinstance(child.tag, str) and _rank(child) > rank:
            root.insert(index, element)
            return
    root.append(element)


def _rank(element: Any) -> int:
    name = etree.QName(element).localname
    if name == "AlternateContent":  # stands where what it holds would stand
        inner = next((e for e in element.iter() if isinstance(e.tag, str) and e.tag.startswith(MAIN)), None)
        return len(_ORDER) if inner is None else _ORDER.get(etree.QName(inner).localname, len(_ORDER))
    return _ORDER.get(name, len(_ORDER))


def plain_text(text: str) -> str:
    """A text as the format writes it: what XML can't hold becomes `_x0007_`, and what looks like that is escaped."""
    return _UNSAFE.sub(lambda m: f"_x{ord(m[0]):04X}_", text)


class Grid:
    """The rows of a sheet.

    Args:
        book: The workbook, for its strings and styles.
        root: The tree of the sheet's part.
        name: The sheet's name, for messages.
    """

    def __init__(self, book: Book, root: Any, name: str) -> None:
        self._book, self.root, self.name = book, root, name
        self.data = place(root, "sheetData")
        self._rows: dict[int, Any] = {}
        self._cells: dict[int, dict[int, Any]] = {}
        number = 0
        for row in self.data.iterchildren(f"{MAIN}row"):
            given = row.get("r")
            number = int(given) if given and given.isdecimal() else number + 1
            if not given:
                row.set("r", str(number))
            self._rows[number] = row
        self._order = sorted(self._rows)
        self._shared: dict[str, list[Address]] | None = None
        self._arrays: list[tuple[Area, Address]] | None = None

    # Looking.

    def cells(self, number: int) -> dict[int, Any]:
        """The cells of a row: column -> element."""
        found = self._cells.get(number)
        if found is None:
            found = {}
            column = 0
            row = self._rows.get(number)
            for cell in row.iterchildren(f"{MAIN}c") if row is not None else ():
                reference = cell.get("r")
                if reference:
                    column = parse_address(reference)[1]
                else:
                    column += 1
                    cell.set("r", show_address((number, column)))
                found[column] = cell
            self._cells[number] = found
        return found

    def cell(self, at: Address) -> Any:
        """The element of a cell, None where there is none."""
        return self.cells(at[0]).get(at[1]) if at[0] in self._rows else None

    def row(self, number: int) -> Any:
        return self._rows.get(number)

    def every(self) -> Iterator[tuple[Address, Any]]:
        """All cells with their addresses, in reading order."""
        for number in self._order:
            for column, cell in sorted(self.cells(number).items()):
                yield (number, column), cell

    def within(self, area: Area) -> Iterator[tuple[Address, Any]]:
        """The cells that exist in an area, in reading order."""
        top, left, bottom, right = area
        for number in self._order[bisect.bisect_left(self._order, top) : bisect.bisect_right(self._order, bottom)]:
            for column, cell in sorted(self.cells(number).items()):
                if left <= column <= right:
                    yield (number, column), cell

    def rows_within(self, area: Area) -> list[int]:
        """The numbers of the rows that exist in an area."""
        return self._order[bisect.bisect_left(self._order, area[0]) : bisect.bisect_right(self._order, area[2])]

    @staticmethod
    def filled(cell: Any) -> bool:
        """Whether a cell holds a value or a formula."""
        return any(child.tag in (f"{MAIN}v", f"{MAIN}f", f"{MAIN}is") and (child.tag != f"{MAIN}v" or child.text)
                   for child in cell)  # fmt: skip

    def last_row(self) -> int:
        """The last row that holds a value, 0 in an empty sheet."""
        for number in reversed(self._order):
            if any(self.filled(cell) for cell in self.cells(number).values()):
                return number
        return 0

    def used(self) -> Area | None:
        """The area that holds values, None in an empty sheet."""
        places = [at for at, cell in self.every() if self.filled(cell)]
        if not places:
            return None
        columns = [column for _, column in places]
        return places[0][0], min(columns), places[-1][0], max(columns)

    def style(self, at: Address) -> int:
        """The index of the style that a cell has, or that a new one would have from its row or column."""
        cell = self.cell(at)
        if cell is not None:
            return whole(cell.get("s"))
        row = self._rows.get(at[0])
        if row is not None and row.get("customFormat") in ("1", "true") and row.get("s"):
            return whole(row.get("s"))
        return self.column_style(at[1])

    def column_style(self, column: int) -> int:
        for element in self.root.iterfind(f"{MAIN}cols/{MAIN}col"):
            if whole(element.get("min")) <= column <= whole(element.get("max")):
                return whole(element.get("style"))
        return 0

    # Changing.

    def make_row(self, number: int) -> Any:
        """The element of a row, made where there is none."""
        row = self._rows.get(number)
        if row is None:
            row = etree.Element(f"{MAIN}row", r=str(number))
            index = bisect.bisect_left(self._order, number)
            if index < len(self._order):
                self._rows[self._order[index]].addprevious(row)
            else:
                self.data.append(row)
            self._order.insert(index, number)
            self._rows[number] = row
            self._cells[number] = {}
        return row

    def make_cell(self, at: Address) -> Any:
        """The element of a cell, made where there is none, with the style of its row or column."""
        number, column = at
        cell = self.cell(at)
        if cell is not None:
            return cell
        style = self.style(at)
        row = self.make_row(number)
        cells = self.cells(number)
        cell = etree.Element(f"{MAIN}c", r=show_address(at))
        if style:
            cell.set("s", str(style))
        following = min((c for c in cells if c > column), default=None)
        if following is not None:
            cells[following].addprevious(cell)
        else:
            after = cells[max(cells)] if cells else None
            if after is not None:
                after.addnext(cell)
            else:
                row.insert(0, cell)
        cells[column] = cell
        row.attrib.pop("spans", None)  # a hint for loading that may not hold any more
        self._widen(at)
        return cell

    def _widen(self, at: Address) -> None:
        dimension = self.root.find(f"{MAIN}dimension")
        if dimension is None:
            return
        try:
            top, left, bottom, right = parse_area(dimension.get("ref", ""))
        except ValueError:
            return
        top, left, bottom, right = min(top, at[0]), min(left, at[1]), max(bottom, at[0]), max(right, at[1])
        dimension.set("ref", f"{show_address((top, left))}:{show_address((bottom, right))}")

    def clear(self, at: Address) -> None:
        """Empties a cell; its look stays. Raises `ToolError` within an array formula."""
        cell = self.cell(at)
        if cell is not None:
            self._empty(at, cell)

    def _empty(self, at: Address, cell: Any) -> None:
        self._release(at, cell)
        for child in list(cell):
            if child.tag in (f"{MAIN}f", f"{MAIN}v", f"{MAIN}is"):
                cell.remove(child)
        for name in ("t", "cm", "vm"):
            cell.attrib.pop(name, None)

    def set_number(self, at: Address, value: float | int) -> None:
        cell = self._ready(at)
        etree.SubElement(cell, f"{MAIN}v").text = repr(value)
        self._settle(cell)

    def set_bool(self, at: Address, value: bool) -> None:
        cell = self._ready(at)
        cell.set("t", "b")
        etree.SubElement(cell, f"{MAIN}v").text = "1" if value else "0"
        self._settle(cell)

    def set_text(self, at: Address, value: str) -> None:
        cell = self._ready(at)
        index = self._book.strings.index(value)
        if index is None:
            cell.set("t", "inlineStr")
            text = etree.SubElement(etree.SubElement(cell, f"{MAIN}is"), f"{MAIN}t")
            text.text = plain_text(value)
            if value != value.strip() or "\n" in value:
                text.set(_XML_SPACE, "preserve")
        else:
            cell.set("t", "s")
            etree.SubElement(cell, f"{MAIN}v").text = str(index)
        self._settle(cell)

    def set_formula(self, at: Address, formula: str, *, array: bool = False) -> None:
        """Writes a formula without its equals sign, in the file's spelling. Its value is to be written afterwards."""
        cell = self._ready(at)
        element = etree.SubElement(cell, f"{MAIN}f")
        element.text = formula
        if array:
            element.set("t", "array")
            element.set("ref", show_address(at))
            cell.set("cm", str(self._book.dynamic_array()))
        self._settle(cell)

    def _ready(self, at: Address) -> Any:
        cell = self.make_cell(at)
        self._empty(at, cell)
        return cell

    @staticmethod
    def _settle(cell: Any) -> None:
        """What a cell holds comes before its extensions."""
        extension = cell.find(f"{MAIN}extLst")
        if extension is not None:
            cell.append(extension)

    def _release(self, at: Address, cell: Any) -> None:
        """Makes a cell free to be overwritten: arrays refuse, shared formulas are handed out."""
        for area, first in self.arrays():
            top, left, bottom, right = area
            if top <= at[0] <= bottom and left <= at[1] <= right:
                if (top, left) == (bottom, right):
                    self._arrays = None
                    continue
                spilled = self.cell(first)
                if spilled is not None and spilled.get("cm") and at == first:
                    self._unspill(area, first)
                    self._arrays = None
                    continue
                raise ToolError(
                    f"{self.name}!{show_address(at)} is part of the array formula in {show_address(first)} that fills "
                    f"{show_address((top, left))}:{show_address((bottom, right))}; part of an array can't be changed. "
                    "Choose another cell"
                )
        formula = cell.find(f"{MAIN}f")
        if formula is not None and formula.get("t") == "shared" and formula.text:
            self._hand_out(formula.get("si", ""), at, formula.text)

    def _unspill(self, area: Area, first: Address) -> None:
        """Takes the values that a dynamic array spilled out of the cells round it."""
        for at, cell in list(self.within(area)):
            if at != first:
                for child in list(cell):
                    cell.remove(child)
                cell.attrib.pop("t", None)

    def arrays(self) -> list[tuple[Area, Address]]:
        """The array formulas (and data tables): the area each fills, and its first cell."""
        if self._arrays is None:
            self._arrays = []
            # A search through the whole tree is quick; one through every row's index is not.
            for formula in self.data.iter(f"{MAIN}f"):
                if formula.get("t") in ("array", "dataTable") and formula.get("ref"):
                    try:
                        first = parse_address(formula.getparent().get("r", ""))
                        self._arrays.append((parse_area(formula.get("ref")), first))
                    except ValueError:
                        continue
        return self._arrays

    def _hand_out(self, key: str, origin: Address, text: str) -> None:
        for formula in list(self.data.iter(f"{MAIN}f")):
            if formula.get("t") == "shared" and formula.get("si") == key and not formula.text:
                at = parse_address(formula.getparent().get("r"))
                formula.text = shifted(text, at[0] - origin[0], at[1] - origin[1])
                for name in ("t", "si", "ref"):
                    formula.attrib.pop(name, None)

    def set_style(self, at: Address, style: int) -> None:
        cell = self.make_cell(at)
        if style:
            cell.set("s", str(style))
        else:
            cell.attrib.pop("s", None)

    def set_column(self, first: int, last: int, **attributes: str) -> None:
        """Sets attributes of columns (`style`, `width`, `customWidth`); neighbours in the same element keep theirs."""
        columns = place(self.root, "cols")
        pieces: list[tuple[int, int, dict[str, str]]] = []
        covered: list[tuple[int, int]] = []
        for element in list(columns):
            low, high = whole(element.get("min"), 1), whole(element.get("max"), 1)
            own = {key: value for key, value in element.attrib.items() if key not in ("min", "max")}
            columns.remove(element)
            for a, b in ((low, min(high, first - 1)), (max(low, first), min(high, last)), (max(low, last + 1), high)):
                if a > b:
                    continue
                inside = first <= a <= last
                pieces.append((a, b, {**own, **attributes} if inside else own))
                if inside:
                    covered.append((a, b))
        start = first
        for a, b in [*sorted(covered), (last + 1, last + 1)]:
            if start < a:
                default = self.root.find(f"{MAIN}sheetFormatPr")
                width = (default.get("defaultColWidth") if default is not None else None) or "9.140625"
                pieces.append((start, a - 1, {"width": width, **attributes}))
            start = b + 1
        for a, b, own in sorted(pieces, key=lambda piece: piece[0]):
            etree.SubElement(columns, f"{MAIN}col", min=str(a), max=str(b), **own)
