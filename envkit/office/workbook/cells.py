"""The cells of one sheet out of its XML: quickly where the XML is plain, with a parser where it is not.

Nearly every program writes cells in one plain shape. Where a sheet's rows are in that shape from the first character
to the last (checked, not assumed), cells are cut out with regular expressions, some five times as fast as a parser;
any other sheet, a broken one included, goes to the parser. Both ways give the same cells. Used by `read.py`.
"""

from __future__ import annotations

import datetime as dt
import gc
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lxml import etree

from envkit.office.problem import Problem, Unreadable
from envkit.office.workbook.formulas import Filled
from envkit.office.workbook.styles import PLAIN, CellStyle, Styles, number
from envkit.office.workbook.values import (
    MAX_COLUMN,
    MAX_ROW,
    Address,
    ErrorValue,
    Value,
    column_number,
    parse_address,
    shown_serial,
)

__all__ = ["MAX_CELLS", "Cell", "Cells", "NotPlain", "Source", "read_cells", "rich_text", "unescaped"]

#: Filled cells of a whole workbook beyond which it is refused.
MAX_CELLS = 1_000_000

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


class Cell(NamedTuple):
    """One filled cell. `value` is the constant, or the cached value of a formula (None where there is no cache)."""

    value: Value
    formula: str | None = None
    style: CellStyle = PLAIN

    @property
    def number_format(self) -> str:
        return self.style.number_format


@dataclass
class Source:
    """What all sheets of a workbook share: strings, styles, the epoch, and how many more cells it may have."""

    strings: list[str]
    styles: Styles
    date1904: bool
    budget: int = MAX_CELLS


@dataclass
class Cells:
    """What a sheet's rows hold. `arrays` are array formulas: first cell -> the range they fill, as written."""

    cells: dict[Address, Cell] = field(default_factory=dict)
    hidden_rows: set[int] = field(default_factory=set)
    arrays: dict[Address, str] = field(default_factory=dict)
    shared: dict[str, tuple[Filled, Address]] = field(default_factory=dict)


_ATTRIBUTES = r'(?: [A-Za-z0-9:]+="[^"<]*+")*+'
_HEAD = (
    r'<c r="{}[A-Z]{{1,3}}{}{}[0-9]{{1,7}}{}"(?: s="{}[0-9]+{}")?+(?: t="{}[a-zA-Z]+{}")?+(?: (?:cm|vm|ph)="[0-9]+")*+'
)
_BODY = (
    r"(?:/>|>(?:<f{}" + _ATTRIBUTES + r"{}(?:/>|>{}[^<]*+{}</f>))?+"
    r'(?:<v(?: xml:space="preserve")?+>{}[^<]*+{}</v>|<v></v>|<v/>|'
    r'<is><t(?: xml:space="preserve")?+>{}[^<]*+{}</t></is>)?+</c>)'
)
_SHAPE = (_HEAD + _BODY).format(*[""] * 16)
_CELL = re.compile((_HEAD + _BODY).format(*["(", ")"] * 8))
_ROW = re.compile(r"\s*+<row(" + _ATTRIBUTES + r") ?(?:/>|>((?:" + _SHAPE + r")*+)</row>)")
_NUMBER = re.compile(r' r="([0-9]+)"')
_HIDDEN = re.compile(r' hidden="(?:1|true)"')
_ATTRIBUTE = re.compile(r' ([A-Za-z0-9:]+)="([^"<]*)"')
_ENTITY = re.compile(r"&(?:#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6})|(amp|lt|gt|quot|apos));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_CONTROL = re.compile(r"_x([0-9A-Fa-f]{4})_")


class NotPlain(Exception):
    """The sheet is not in the plain shape."""


def read_cells(data: bytes, part: str, name: str, source: Source) -> tuple[Cells, bytes]:
    """Reads the rows of a sheet; returns them and the sheet's XML without its rows.

    Raises:
        Unreadable: It is broken, or the workbook has too many cells.
    """
    head = data.find(b"<sheetData>")
    tail = data.rfind(b"</sheetData>")
    plain = data.startswith((b"<?xml", b"<worksheet"))
    if plain and 0 <= head < tail and b"<!" not in data and b'encoding="utf-16' not in data[:80].lower():
        collecting = gc.isenabled()
        # Hundreds of thousands of small objects, none in a cycle: looking for cycles among them doubles the time.
        gc.disable()
        try:
            text = data[head + 11 : tail].decode("utf-8")
            if "\r" in text:
                text = text.replace("\r\n", "\n").replace("\r", "\n")  # as parsers do
            if "<f/>" in text or "<f></f>" in text:
                raise NotPlain  # a formula without text would look like none
            return _Plain(name, source).read(text), data[: head + 11] + data[tail:]
        except (NotPlain, UnicodeDecodeError):
            pass
        finally:
            if collecting:
                gc.enable()
    return _parsed(data, part, name, source)


def unescaped(text: str) -> str:
    """Text of XML without its entities. Raises `NotPlain` on any that it doesn't know."""
    if text.count("&") != len(_ENTITY.findall(text)):
        raise NotPlain

    def char(match: re.Match[str]) -> str:
        decimal, hexadecimal, named = match.groups()
        if named:
            return _NAMED[named]
        code = int(decimal) if decimal else int(hexadecimal, 16)
        if not (code in (9, 10, 13) or 32 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000):
            raise NotPlain
        return chr(code)

    return _ENTITY.sub(char, text)


def decoded(text: str) -> str:
    """Characters that XML can't hold are written `_x000D_`."""
    return _CONTROL.sub(lambda m: chr(int(m[1], 16)), text) if "_x" in text else text


def rich_text(item: Any) -> str:
    """The text of a string item, its runs joined; phonetic guides are not part of it."""
    pieces = []
    for text in item.iter(f"{_MAIN}t"):
        if text.getparent().tag != f"{_MAIN}rPh":
            pieces.append(text.text or "")
    return decoded("".join(pieces))


class _Plain:
    """The quick way."""

    def __init__(self, name: str, source: Source) -> None:
        self._name, self._source = name, source
        self._out = Cells()
        self._columns: dict[str, int] = {}

    def read(self, text: str) -> Cells:
        out, cells = self._out, self._out.cells
        columns, source, new = self._columns, self._source, tuple.__new__
        strings, date1904 = source.strings, source.date1904
        count = len(strings)
        styles = {str(index): style for index, style in enumerate(source.styles.cells)} | {"": source.styles.cell(0)}
        special = {key for key, style in styles.items() if style.serial}
        position, row, left = 0, 0, source.budget
        for match in _ROW.finditer(text):
            if match.start() != position:
                break
            position = match.end()
            attributes, content = match[1], match[2]
            given = _NUMBER.search(attributes)
            row = int(given[1]) if given else row + 1
            if not 1 <= row <= MAX_ROW:
                raise NotPlain
            if "hidden" in attributes and _HIDDEN.search(attributes):
                out.hidden_rows.add(row)
            if not content:
                continue
            at_row = str(row)
            for letters, digits, s, kind, extra, formula, text_value, inline in _CELL.findall(content):
                if digits != at_row:
                    raise NotPlain
                column = columns.get(letters) or self._column(letters)
                value: Value
                if text_value and (kind == "" or kind == "n"):
                    try:
                        value = float(text_value)
                    except ValueError:
                        raise NotPlain from None
                    if s in special:
                        value = shown_serial(value, styles[s].serial, date1904)
                elif kind == "s" and text_value:
                    index = int(text_value) if text_value.isdecimal() else -1
                    if not 0 <= index < count:
                        raise NotPlain
                    value = strings[index] or None  # an empty text is no content
                elif text_value or inline:
                    value = self._other(kind, text_value, inline)
                else:
                    value = None
                if formula and not extra and "&" not in formula:
                    written = "=" + formula.strip()
                elif extra or formula:
                    written = self._formula(extra, formula, (row, column))
                elif value is None:
                    continue
                else:
                    written = None
                cells[row, column] = new(Cell, (value, written, styles.get(s, PLAIN)))
            if len(cells) > left:
                raise too_many()
        if text[position:].strip():
            raise NotPlain
        source.budget -= len(cells)
        return out

    def _column(self, letters: str) -> int:
        found = column_number(letters)
        if found > MAX_COLUMN:
            raise NotPlain
        self._columns[letters] = found
        return found

    def _other(self, kind: str, text: str, inline: str) -> Value:
        if kind == "inlineStr":
            return decoded(unescaped(inline)) or None
        if inline:
            raise NotPlain
        return constant(kind, unescaped(text))

    def _formula(self, extra: str, text: str, at: Address) -> str:
        return formula_at(self._out, dict(_ATTRIBUTE.findall(extra)), unescaped(text).strip(), at)


def constant(kind: str, text: str) -> Value:
    """The value of a cell whose text is no number and no shared string."""
    if kind == "b":
        return text.strip() in ("1", "true")
    if kind == "e":
        return ErrorValue(text)
    if kind == "d":
        try:
            return dt.datetime.fromisoformat(text)
        except ValueError:
            return text
    return decoded(text) if kind == "str" else text


def formula_at(out: Cells, attributes: dict[str, str], text: str, at: Address) -> str:
    kind = attributes.get("t", "")
    if kind == "shared":
        key = attributes.get("si", "")
        if text:
            out.shared[key] = (Filled(text), at)
        elif key in out.shared:
            origin, origin_at = out.shared[key]
            return "=" + origin.at(at[0] - origin_at[0], at[1] - origin_at[1])
    elif kind == "array":
        out.arrays[at] = attributes.get("ref", "")
    elif kind == "dataTable":
        out.arrays[at] = attributes.get("ref", "")
        inputs = ",".join(attributes[key] for key in ("r1", "r2") if key in attributes)
        return f"=TABLE({inputs})"
    return "=" + text


def too_many() -> Unreadable:
    return Unreadable(Problem.TOO_BIG, f"the workbook has more than {MAX_CELLS} filled cells")


def _parsed(data: bytes, part: str, name: str, source: Source) -> tuple[Cells, bytes]:
    """The thorough way. What remains of the sheet is written out without its rows."""
    out = Cells()
    row = column = 0
    root: Any = None
    for event, element in _events(data, part):
        tag = element.tag
        if event == "start":
            if root is None:
                root = element.getroottree().getroot()
            if tag == f"{_MAIN}row":
                row, column = number(element.get("r"), row + 1), 0
                if element.get("hidden") in ("1", "true"):
                    out.hidden_rows.add(row)
        elif tag == f"{_MAIN}c":
            reference = element.get("r")
            try:
                at = parse_address(reference) if reference else (row, column + 1)
            except ValueError as error:
                raise Unreadable(
                    Problem.CORRUPT, f"sheet {name!r} has a cell at an impossible place: {error}"
                ) from error
            column = at[1]
            cell = _cell(element, at, out, source)
            if cell is not None:
                out.cells[at] = cell
                source.budget -= 1
                if source.budget < 0:
                    raise too_many()
            element.clear()
        elif tag == f"{_MAIN}row":
            # What was read is let go at once: the tree of a large sheet takes more memory than its values.
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
    return out, b"" if root is None else etree.tostring(root)


def _events(data: bytes, part: str) -> Iterator[tuple[str, Any]]:
    if b"<!DOCTYPE" in data[:4096] or b"<!ENTITY" in data[:65536]:
        raise Unreadable(Problem.CORRUPT, f"part {part!r} declares a document type or entities")
    tags = [f"{_MAIN}{t}" for t in ("worksheet", "row", "c")]
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


def _cell(element: Any, at: Address, out: Cells, source: Source) -> Cell | None:
    formula = text = inline = None
    for child in element:
        if child.tag == f"{_MAIN}f":
            formula = formula_at(out, dict(child.attrib), (child.text or "").strip(), at)
        elif child.tag == f"{_MAIN}v":
            text = child.text
        elif child.tag == f"{_MAIN}is":
            inline = rich_text(child)
    style = source.styles.cell(number(element.get("s")))
    kind = element.get("t", "n")
    value: Value = None
    if kind == "inlineStr":
        value = inline or None
    elif text is None:
        value = None
    elif kind == "s":
        index = number(text.strip(), -1)
        if not 0 <= index < len(source.strings):
            raise Unreadable(Problem.CORRUPT, f"a cell refers to shared string {text}, which does not exist")
        value = source.strings[index] or None
    elif kind == "n":
        try:
            value = float(text)
        except ValueError as error:
            raise Unreadable(Problem.CORRUPT, f"a number cell holds {text[:40]!r}") from error
        if style.serial:
            value = shown_serial(value, style.serial, source.date1904)
    else:
        value = constant(kind, text)
    return None if value is None and formula is None else Cell(value, formula, style)
