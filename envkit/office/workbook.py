"""Workbooks (xlsx, xlsm) as values, formulas and formats, read from the XML in one pass.

Cells are kept sparsely, so that one cell in the far corner costs nothing. A formula cell has two values: the one that
the program which saved the file cached (often none), and the one that `recalc.py` computes from the inputs. `value()`
gives the recalculated one, else the cached one, else `UNKNOWN`, which is neither 0 nor blank. Hidden sheets, rows and
columns are read and flagged. Used by verifiers, the diff and the tool servers.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, Literal

from lxml import etree

from envkit.office.package import Package
from envkit.office.problem import Problem, Unreadable
from envkit.office.recalc import Engine, EngineError

__all__ = [
    "UNKNOWN",
    "Address",
    "Cell",
    "ErrorValue",
    "Sheet",
    "Unknown",
    "Workbook",
    "column_letters",
    "parse_address",
    "read_workbook",
]

#: Filled cells of a whole workbook beyond which it is refused.
MAX_CELLS = 1_000_000

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_REL = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_CELL = re.compile(r"\$?([A-Za-z]{1,3})\$?([1-9][0-9]{0,6})$")

Address = tuple[int, int]
Source = Literal["auto", "recalculated", "cached"]


class Unknown:
    """The value of a formula that nothing computed."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN: Final = Unknown()


class ErrorValue(str):
    """An error shown in a cell, e.g. `#DIV/0!`."""

    __slots__ = ()


Value = bool | int | float | str | dt.datetime | dt.date | dt.time | dt.timedelta | ErrorValue | Unknown | None


@dataclass(frozen=True, slots=True)
class Cell:
    """One filled cell. `value` is the constant, or the cached value of a formula (None where there is no cache)."""

    value: Value
    formula: str | None = None
    number_format: str = "General"


@dataclass(frozen=True)
class Sheet:
    """One sheet. `state` is `visible`, `hidden` or `veryHidden`; rows and columns count from 1."""

    name: str
    state: str
    cells: dict[Address, Cell]
    hidden_rows: frozenset[int] = frozenset()
    hidden_columns: frozenset[int] = frozenset()
    merged: tuple[tuple[int, int, int, int], ...] = ()

    @property
    def visible(self) -> bool:
        return self.state == "visible"

    def anchor(self, address: Address) -> Address:
        """Where the content shown at an address is kept: the first cell of a merged block, else the address itself."""
        row, column = address
        for top, left, bottom, right in self.merged:
            if top <= row <= bottom and left <= column <= right:
                return top, left
        return address

    @cached_property
    def ordered(self) -> tuple[Address, ...]:
        """The addresses of the filled cells in reading order."""
        return tuple(sorted(self.cells))

    @cached_property
    def rows(self) -> dict[int, tuple[int, ...]]:
        """Row -> its filled columns, both ascending."""
        out: dict[int, list[int]] = {}
        for row, column in self.ordered:
            out.setdefault(row, []).append(column)
        return {row: tuple(columns) for row, columns in out.items()}


@dataclass(frozen=True)
class Workbook:
    """A workbook. `names` are the defined names of the whole book, upper case -> what they stand for."""

    sheets: tuple[Sheet, ...]
    names: dict[str, str]
    date1904: bool
    data: bytes = field(repr=False)

    def sheet(self, name: str) -> Sheet | None:
        """The sheet of this name, compared without case and outer spaces; an exact match comes first."""
        exact = [s for s in self.sheets if s.name == name]
        loose = [s for s in self.sheets if s.name.strip().casefold() == name.strip().casefold()]
        return next(iter(exact or loose), None)

    def value(self, sheet: Sheet, address: Address, source: Source = "auto") -> Value:
        """The value of a cell, None when it is empty. See the module on formulas."""
        cell = sheet.cells.get(address)
        if cell is None:
            return None
        if cell.formula is None:
            return cell.value
        if source != "cached":
            value = self._recalculated(sheet, address, cell)
            if not isinstance(value, Unknown) or source == "recalculated":
                return value
        return UNKNOWN if cell.value is None else cell.value

    @cached_property
    def engine(self) -> Engine | None:
        try:
            return Engine(self.data)
        except EngineError:
            return None

    def _recalculated(self, sheet: Sheet, address: Address, cell: Cell) -> Value:
        if self.engine is None:
            return UNKNOWN
        try:
            value = self.engine.value(sheet.name, address, cell.formula or "")
        except EngineError:
            return UNKNOWN
        if isinstance(value, str) and value.startswith("#") and value in ErrorNames:
            return ErrorValue(value)
        if isinstance(value, float) and is_date_format(cell.number_format):
            return from_serial(value, cell.number_format, self.date1904)
        return value


ErrorNames = frozenset(
    ["#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!", "#CIRC!", "#ERROR!"]
)

_BUILTIN = {
    9: "0%", 10: "0.00%", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 11: "0.00E+00", 14: "mm-dd-yy", 15: "d-mmm-yy",
    16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "m/d/yy h:mm",
    37: "#,##0 ;(#,##0)", 38: "#,##0 ;[Red](#,##0)", 39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;[Red](#,##0.00)",
    45: "mm:ss", 46: "[h]:mm:ss", 47: "mmss.0", 48: "##0.0E+0", 49: "@",
}  # fmt: skip


@lru_cache(maxsize=1024)
def is_date_format(code: str) -> bool:
    """Whether a number format shows a date or time."""
    section = code.split(";")[0]
    plain = re.sub(r'"[^"]*"|\\.|_.|\*.', "", section)
    if re.search(r"\[(h+|m+|s+)\]", plain, re.IGNORECASE):
        return True
    plain = re.sub(r"\[[^\]]*\]", "", plain)
    return "general" not in plain.lower() and bool(re.search(r"[ymdhs]", plain, re.IGNORECASE))


def from_serial(serial: float, code: str, date1904: bool) -> Value:
    """The date, time or duration that a serial number shows under a date format; the number itself out of range."""
    plain = re.sub(r'"[^"]*"|\\.', "", code)
    if re.search(r"\[(h+|m+|s+)\]", plain, re.IGNORECASE):
        return dt.timedelta(days=serial)
    if 0 <= serial < 1 and not re.search(r"[yd]", plain, re.IGNORECASE):
        return (dt.datetime.min + dt.timedelta(seconds=round(serial * 86400))).time()
    if date1904:
        epoch = dt.datetime(1904, 1, 1)
    else:
        # Serial 60 is the 29 February 1900 that never was; below it the count is one off.
        epoch = dt.datetime(1899, 12, 30) if serial >= 60 else dt.datetime(1899, 12, 31)
    try:
        moment = epoch + dt.timedelta(days=int(serial), seconds=round((serial % 1) * 86400))
    except OverflowError:
        return serial
    return moment


def column_letters(column: int) -> str:
    """1 -> A, 28 -> AB."""
    out = ""
    while column:
        column, rest = divmod(column - 1, 26)
        out = chr(65 + rest) + out
    return out


def parse_address(text: str) -> Address:
    """`B7` or `$B$7` -> (7, 2). Raises ValueError."""
    match = _CELL.match(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a cell address like B7")
    column = 0
    for letter in match[1].upper():
        column = column * 26 + ord(letter) - 64
    row = int(match[2])
    if column > 16384 or row > 1048576:
        raise ValueError(f"{text!r} lies outside of a sheet")
    return row, column


def read_workbook(data: bytes) -> Workbook:
    """Reads an xlsx or xlsm file. Raises `Unreadable`."""
    package = Package(data, "spreadsheetml")
    root = package.xml(package.main)
    relations = package.relations(package.main)
    strings = _shared_strings(package)
    formats = _formats(package)
    date1904 = (root.find(f"{_MAIN}workbookPr") is not None) and root.find(f"{_MAIN}workbookPr").get("date1904") in (
        "1",
        "true",
    )
    budget = [MAX_CELLS]
    sheets: list[Sheet] = []
    for element in root.iterfind(f"{_MAIN}sheets/{_MAIN}sheet"):
        kind, target = relations.get(element.get(f"{_REL}id", ""), ("", ""))
        name, state = element.get("name", ""), element.get("state", "visible")
        if kind.endswith("/worksheet") and package.has(target):
            sheets.append(_sheet(package.read(target), target, name, state, strings, formats, date1904, budget))
        else:
            sheets.append(Sheet(name, state, {}))  # a chart sheet, or one whose part is lost
    if not sheets:
        raise Unreadable(Problem.CORRUPT, "the workbook has no sheets")
    names = {
        e.get("name", "").upper(): (e.text or "").lstrip("=")
        for e in root.iterfind(f"{_MAIN}definedNames/{_MAIN}definedName")
        if e.get("localSheetId") is None
    }
    return Workbook(tuple(sheets), names, date1904, data)


def _shared_strings(package: Package) -> list[str]:
    part = next(package.related(package.main, "sharedStrings"), None)
    if part is None:
        return []
    return [_rich_text(item) for item in package.xml(part).iterfind(f"{_MAIN}si")]


def _rich_text(item: Any) -> str:
    pieces = []
    for text in item.iter(f"{_MAIN}t"):
        if text.getparent().tag != f"{_MAIN}rPh":  # phonetic guides are not part of the text
            pieces.append(text.text or "")
    return re.sub(r"_x([0-9A-Fa-f]{4})_", lambda m: chr(int(m[1], 16)), "".join(pieces))


def _formats(package: Package) -> list[str]:
    """The number format of each cell style, by its index."""
    part = next(package.related(package.main, "styles"), None)
    if part is None:
        return []
    root = package.xml(part)
    codes = dict(_BUILTIN)
    for element in root.iterfind(f"{_MAIN}numFmts/{_MAIN}numFmt"):
        codes[_int(element.get("numFmtId"))] = element.get("formatCode", "General")
    return [codes.get(_int(x.get("numFmtId")), "General") for x in root.iterfind(f"{_MAIN}cellXfs/{_MAIN}xf")]


def _int(text: str | None, default: int = 0) -> int:
    try:
        return int(text or default)
    except ValueError:
        return default


def _sheet(
    data: bytes,
    part: str,
    name: str,
    state: str,
    strings: list[str],
    formats: list[str],
    date1904: bool,
    budget: list[int],
) -> Sheet:
    cells: dict[Address, Cell] = {}
    shared: dict[str, tuple[str, Address]] = {}
    hidden_rows: set[int] = set()
    hidden_columns: set[int] = set()
    merged: list[tuple[int, int, int, int]] = []
    row = column = 0
    for event, element in _events(data, part):
        tag = element.tag
        if event == "start":
            if tag == f"{_MAIN}row":
                row = _int(element.get("r"), row + 1)
                column = 0
                if element.get("hidden") in ("1", "true"):
                    hidden_rows.add(row)
            continue
        if tag == f"{_MAIN}c":
            reference = element.get("r")
            try:
                at = parse_address(reference) if reference else (row, column + 1)
            except ValueError as error:
                raise Unreadable(
                    Problem.CORRUPT, f"sheet {name!r} has a cell at an impossible place: {error}"
                ) from error
            column = at[1]
            style = _int(element.get("s"))
            code = formats[style] if 0 <= style < len(formats) else "General"
            cell = _cell(element, at, code, strings, shared, date1904)
            if cell is not None:
                cells[at] = cell
                budget[0] -= 1
                if budget[0] < 0:
                    raise Unreadable(Problem.TOO_BIG, f"the workbook has more than {MAX_CELLS} filled cells")
        elif tag == f"{_MAIN}col" and element.get("hidden") in ("1", "true"):
            first, last = _int(element.get("min")), min(_int(element.get("max")), 16384)
            hidden_columns.update(range(first, last + 1))
        elif tag == f"{_MAIN}mergeCell":
            try:
                first_cell, _, last_cell = element.get("ref", "").partition(":")
                merged.append((*parse_address(first_cell), *parse_address(last_cell or first_cell)))
            except ValueError:
                pass  # a merge that names no cells merges nothing
        if tag == f"{_MAIN}c":
            element.clear()
        elif tag == f"{_MAIN}row":
            # What was read is let go at once: the tree of a large sheet takes more memory than its values.
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
    return Sheet(name, state, cells, frozenset(hidden_rows), frozenset(hidden_columns), tuple(merged))


def _events(data: bytes, part: str) -> Iterator[tuple[str, Any]]:
    import io

    if b"<!DOCTYPE" in data[:4096] or b"<!ENTITY" in data[:65536]:
        raise Unreadable(Problem.CORRUPT, f"part {part!r} declares a document type or entities")
    tags = [f"{_MAIN}{t}" for t in ("row", "c", "col", "mergeCell")]
    try:
        yield from etree.iterparse(
            io.BytesIO(data),
            events=("start", "end"),
            tag=tags,
            resolve_entities=False,
            no_network=True,
            huge_tree=False,
        )
    except etree.XMLSyntaxError as error:
        raise Unreadable(Problem.CORRUPT, f"part {part!r} is not well-formed XML: {error}") from error


def _cell(
    element: Any, at: Address, code: str, strings: list[str], shared: dict[str, tuple[str, Address]], date1904: bool
) -> Cell | None:
    formula: str | None = None
    text: str | None = None
    inline: str | None = None
    for child in element:
        if child.tag == f"{_MAIN}f":
            formula = _formula(child, at, shared)
        elif child.tag == f"{_MAIN}v":
            text = child.text
        elif child.tag == f"{_MAIN}is":
            inline = _rich_text(child)
    kind = element.get("t", "n")
    value: Value = None
    if kind == "inlineStr":
        value = inline or None
    elif text is None:
        value = None
    elif kind == "s":
        index = _int(text, -1)
        if not 0 <= index < len(strings):
            raise Unreadable(Problem.CORRUPT, f"a cell refers to shared string {text}, which does not exist")
        value = strings[index]
    elif kind == "str":
        value = text
    elif kind == "b":
        value = text.strip() in ("1", "true")
    elif kind == "e":
        value = ErrorValue(text)
    elif kind == "d":
        try:
            value = dt.datetime.fromisoformat(text)
        except ValueError:
            value = text
    else:
        try:
            number = float(text)
        except ValueError as error:
            raise Unreadable(Problem.CORRUPT, f"a number cell holds {text[:40]!r}") from error
        value = from_serial(number, code, date1904) if is_date_format(code) else number
    if value is None and formula is None:
        return None
    return Cell(value, formula, code)


def _formula(element: Any, at: Address, shared: dict[str, tuple[str, Address]]) -> str:
    text = (element.text or "").strip()
    if element.get("t") == "shared":
        key = element.get("si", "")
        if text:
            shared[key] = (text, at)
        elif key in shared:
            origin, origin_at = shared[key]
            return "=" + shifted(origin, at[0] - origin_at[0], at[1] - origin_at[1])
    return "=" + text


_SEGMENT = re.compile(r'"(?:[^"]|"")*"|\'(?:[^\']|\'\')*\'')
_REFERENCE = re.compile(
    r"(?<![A-Za-z0-9_.$])(?:(\$?)([A-Za-z]{1,3})(\$?)([0-9]{1,7})(?![A-Za-z0-9_.(!\[])"
    r"|(\$?)([A-Za-z]{1,3}):(\$?)([A-Za-z]{1,3})(?![A-Za-z0-9_.(!])|(\$?)([0-9]{1,7}):(\$?)([0-9]{1,7})(?![A-Za-z0-9_.]))"
)


def shifted(formula: str, rows: int, columns: int) -> str:
    """A formula as it reads when filled down and right by so many cells: relative references move, `$` ones stay. One
    that would leave the sheet becomes `#REF!`."""

    def column(mark: str, letters: str) -> str | None:
        if mark:
            return mark + letters
        number = parse_address(letters + "1")[1] + columns
        return column_letters(number) if 1 <= number <= 16384 else None

    def row(mark: str, digits: str) -> str | None:
        number = int(digits) + (0 if mark else rows)
        return f"{mark}{number}" if 1 <= number <= 1048576 else None

    def move(match: re.Match[str]) -> str:
        g = match.groups(default="")
        if g[1]:
            parts = [column(g[0], g[1]), row(g[2], g[3])]
            return "#REF!" if None in parts else "".join(p for p in parts if p)
        pair = [column(g[4], g[5]), column(g[6], g[7])] if g[5] else [row(g[8], g[9]), row(g[10], g[11])]
        return "#REF!" if None in pair else ":".join(p for p in pair if p)

    out: list[str] = []
    position = 0
    for quoted in _SEGMENT.finditer(formula):
        out += [_REFERENCE.sub(move, formula[position : quoted.start()]), quoted[0]]
        position = quoted.end()
    return "".join([*out, _REFERENCE.sub(move, formula[position:])])
