"""Formulas as text with references: filling them down, writing them in one normal way, moving their references.

`Formula` is a formula cut into plain text and references. Two formulas that mean the same though programs wrote them
differently (`_xlfn.` prefixes, spaces, case, `TRUE()`, quotes round sheet names) have one normal form. Used by the
reader for shared formulas, by the diff, and by checks on references.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from envkit.office.workbook.values import MAX_COLUMN, MAX_ROW, Area, column_letters, column_number

__all__ = ["VOLATILE", "Filled", "Formula", "Reference", "parse_formula", "shifted"]

#: Functions whose value changes with time, chance or place.
VOLATILE = frozenset(["NOW", "TODAY", "RAND", "RANDBETWEEN", "RANDARRAY", "OFFSET", "INDIRECT", "CELL", "INFO"])

_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"]|"")*")
    |(?P<error>\#(?:DIV/0!|N/A|NAME\?|NULL!|NUM!|REF!|VALUE!|SPILL!|CALC!))
    |(?P<sheet>'(?:[^']|'')+'!|(?:\[\d+\])?[^\W\d][\w.]*(?::[^\W\d][\w.]*)?!)
    |(?P<area>\$?[A-Za-z]{1,3}\$?[0-9]{1,7}(?::\$?[A-Za-z]{1,3}\$?[0-9]{1,7})?(?![\w.(!\[]))
    |(?P<columns>\$?[A-Za-z]{1,3}:\$?[A-Za-z]{1,3}(?![\w.(!\[]))
    |(?P<rows>\$?[0-9]{1,7}:\$?[0-9]{1,7}(?![\w.]))
    |(?P<word>[^\W\d][\w.\\?]*)
    |(?P<number>[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<bracket>\[[^\[\]]*\])
    |(?P<space>\s+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_PART = re.compile(r"(\$?)([A-Za-z]*)(\$?)([0-9]*)$")


class _End(NamedTuple):
    """One end of a reference; column 0 in whole rows, row 0 in whole columns."""

    column_fixed: bool
    column: int
    row_fixed: bool
    row: int

    def moved(self, rows: int, columns: int) -> _End | None:
        column = self.column if self.column_fixed or not self.column else self.column + columns
        row = self.row if self.row_fixed or not self.row else self.row + rows
        inside = (not self.column or 1 <= column <= MAX_COLUMN) and (not self.row or 1 <= row <= MAX_ROW)
        return _End(self.column_fixed, column, self.row_fixed, row) if inside else None

    def __str__(self) -> str:
        letters = ("$" * self.column_fixed + column_letters(self.column)) if self.column else ""
        return letters + (("$" * self.row_fixed + str(self.row)) if self.row else "")


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference in a formula. `sheet` is None on the formula's own sheet; `outside` marks another file or several
    sheets at once, where only the text counts."""

    sheet: str | None
    first: _End
    last: _End | None
    outside: bool = False

    @property
    def area(self) -> Area:
        end = self.last or self.first
        top, bottom = sorted((self.first.row, end.row)) if self.first.row else (1, MAX_ROW)
        left, right = sorted((self.first.column, end.column)) if self.first.column else (1, MAX_COLUMN)
        return top, left, bottom, right

    def text(self) -> str:
        return f"{self.first}:{self.last}" if self.last is not None else str(self.first)

    def at(self, area: Area) -> Reference:
        """The same kind of reference to another area."""
        top, left, bottom, right = area
        first, last = self.first, self.last
        start = _End(first.column_fixed, left if first.column else 0, first.row_fixed, top if first.row else 0)
        if last is None:
            return Reference(self.sheet, start, None)
        end = _End(last.column_fixed, right if last.column else 0, last.row_fixed, bottom if last.row else 0)
        return Reference(self.sheet, start, end)


#: Where a reference leads after a change: sheet and area, None where it is gone.
Place = Callable[[str, Area], "tuple[str, Area] | None"]


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula's pieces, without the equals sign."""

    pieces: tuple[str | Reference, ...]

    def normal(self, sheet: str, place: Place | None = None, onto: str | None = None) -> str:
        """The normal form on a sheet; with `place`, after its references were moved, on the sheet that is now called
        `onto`."""
        home = (onto or sheet).casefold()
        out: list[str] = []
        for piece in self.pieces:
            if isinstance(piece, str):
                out.append(piece)
                continue
            owner = sheet if piece.sheet is None else piece.sheet
            if place is not None and not piece.outside:
                target = place(owner, piece.area)
                if target is None:
                    out.append("#REF!")
                    continue
                owner, piece = target[0], piece.at(target[1])
            # Names of sheets know no case; on its own sheet a prefix says nothing.
            out.append(piece.text() if owner.casefold() == home else f"'{owner.casefold()}'!{piece.text()}")
        return "".join(out)

    @property
    def skeleton(self) -> str:
        """The formula with its references blanked: equal for formulas that were filled, moved or shifted."""
        return "".join(piece if isinstance(piece, str) else "@" for piece in self.pieces)

    @property
    def references(self) -> tuple[Reference, ...]:
        return tuple(piece for piece in self.pieces if not isinstance(piece, str))

    @property
    def volatile(self) -> bool:
        return any(piece in VOLATILE for piece in self.pieces if isinstance(piece, str))


@lru_cache(maxsize=65536)
def parse_formula(text: str) -> Formula:
    """Cuts a formula, with or without its equals sign. Never fails: what is no formula is plain text."""
    pieces: list[str | Reference] = []
    sheet: str | None = None
    outside = False
    # File number 0 is the workbook itself.
    for match in _TOKEN.finditer(text.removeprefix("=").replace("[0]!", "").replace("[0]", "")):
        kind, token = match.lastgroup, match[0]
        if kind == "sheet":
            name = token[:-1]
            name = name[1:-1].replace("''", "'") if name.startswith("'") else name
            sheet, outside = name, "[" in name or ":" in name
            continue
        if kind in ("area", "columns", "rows"):
            found = _reference(token, sheet, outside)
            pieces.append(token.upper() if found is None else found)
        else:
            if sheet is not None:
                pieces.append(f"'{sheet.casefold()}'!")
            if kind == "space":
                pass
            elif kind == "word":
                pieces.append(_word(token))
            elif kind == "number":
                pieces.append(f"{float(token):.15g}")
            elif kind == "bracket":
                pieces.append(token.casefold())
            else:
                pieces.append(token)
        sheet, outside = None, False
    for index in range(len(pieces) - 2, 0, -1):
        # LibreOffice writes the constants as calls.
        if pieces[index - 1] in ("TRUE", "FALSE") and pieces[index : index + 2] == ["(", ")"]:
            del pieces[index : index + 2]
    return Formula(tuple(pieces))


def _word(token: str) -> str:
    upper = token.upper()
    for prefix in ("_XLFN.", "_XLWS.", "_XLUDF.", "_XLPM.", "COM.MICROSOFT."):
        upper = upper.removeprefix(prefix)
    return upper


def _reference(token: str, sheet: str | None, outside: bool) -> Reference | None:
    ends: list[_End] = []
    for part in token.split(":"):
        match = _PART.match(part)
        if match is None:
            return None
        fixed, letters, row_fixed, digits = match.groups()
        if not letters:
            fixed, row_fixed = "", fixed or row_fixed
        end = _End(bool(fixed), column_number(letters) if letters else 0, bool(row_fixed), int(digits or 0))
        if end.column > MAX_COLUMN or end.row > MAX_ROW or (digits and not end.row):
            return None
        ends.append(end)
    return Reference(sheet, ends[0], ends[1] if len(ends) > 1 else None, outside)


_SEGMENT = re.compile(r'"(?:[^"]|"")*"|\'(?:[^\']|\'\')*\'')
_REFERENCE = re.compile(
    r"(?<![A-Za-z0-9_.$])(?:(\$?)([A-Za-z]{1,3})(\$?)([0-9]{1,7})(?![A-Za-z0-9_.(!\[])"
    r"|(\$?)([A-Za-z]{1,3}):(\$?)([A-Za-z]{1,3})(?![A-Za-z0-9_.(!])|(\$?)([0-9]{1,7}):(\$?)([0-9]{1,7})(?![A-Za-z0-9_.]))"
)


class Filled:
    """A formula that is filled over many cells: cut once, written for each. Its text is kept as it is but for the
    references."""

    def __init__(self, formula: str) -> None:
        self._pieces: list[str | tuple[_End, ...]] = []
        position = 0
        for quoted in _SEGMENT.finditer(formula):
            self._cut(formula[position : quoted.start()])
            self._pieces.append(quoted[0])
            position = quoted.end()
        self._cut(formula[position:])

    def _cut(self, text: str) -> None:
        position = 0
        for match in _REFERENCE.finditer(text):
            found = _reference(match[0], None, False)
            if found is None:
                continue
            ends = (found.first,) if found.last is None else (found.first, found.last)
            self._pieces += [text[position : match.start()], ends]
            position = match.end()
        self._pieces.append(text[position:])

    def at(self, rows: int, columns: int) -> str:
        """The formula so many cells further down and right: relative references move, `$` ones stay. One that would
        leave the sheet becomes `#REF!`."""
        out: list[str] = []
        for piece in self._pieces:
            if isinstance(piece, str):
                out.append(piece)
                continue
            ends = [end.moved(rows, columns) for end in piece]
            out.append("#REF!" if None in ends else ":".join(map(str, ends)))
        return "".join(out)


def shifted(formula: str, rows: int, columns: int) -> str:
    """A formula as it reads when filled down and right by so many cells."""
    return Filled(formula).at(rows, columns)
