"""What stands in a cell: addresses, errors, the unknown, and numbers that are dates because their format says so."""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from typing import Final, Literal

__all__ = [
    "UNKNOWN",
    "Address",
    "Area",
    "ErrorNames",
    "ErrorValue",
    "Unknown",
    "Value",
    "column_letters",
    "column_number",
    "from_serial",
    "parse_address",
    "parse_area",
    "serial_kind",
    "show_address",
    "show_area",
]

MAX_ROW, MAX_COLUMN = 1_048_576, 16_384
Address = tuple[int, int]
#: Top, left, bottom, right; all inclusive, from 1.
Area = tuple[int, int, int, int]
#: How a date format shows a serial number.
SerialKind = Literal["", "duration", "time", "moment"]

_CELL = re.compile(r"\$?([A-Za-z]{1,3})\$?([1-9][0-9]{0,6})$")
_COLUMNS = re.compile(r"\$?([A-Za-z]{1,3})$")
_ROWS = re.compile(r"\$?([1-9][0-9]{0,6})$")


class Unknown:
    """The value of a formula that nothing computed."""

    def __repr__(self) -> str:
        return "unknown"

    def __reduce__(self) -> str:
        return "UNKNOWN"  # there is one, in every process


UNKNOWN: Final = Unknown()


class ErrorValue(str):
    """An error shown in a cell, e.g. `#DIV/0!`."""

    __slots__ = ()


Value = bool | int | float | str | dt.datetime | dt.date | dt.time | dt.timedelta | ErrorValue | Unknown | None

ErrorNames = frozenset(
    ["#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!", "#CIRC!", "#ERROR!"]
)


@lru_cache(maxsize=4096)
def serial_kind(code: str) -> SerialKind:
    """How a number format shows a number as a date or time; "" where it shows a plain number."""
    section = code.split(";")[0]
    plain = re.sub(r'"[^"]*"|\\.|_.|\*.', "", section)
    if re.search(r"\[(h+|m+|s+)\]", plain, re.IGNORECASE):
        return "duration"
    plain = re.sub(r"\[[^\]]*\]", "", plain)
    if "general" in plain.lower() or not re.search(r"[ymdhs]", plain, re.IGNORECASE):
        return ""
    return "moment" if re.search(r"[yd]", plain, re.IGNORECASE) else "time"


def from_serial(serial: float, code: str, date1904: bool) -> Value:
    """The date, time or duration that a serial number shows under a date format; the number itself out of range."""
    return shown_serial(serial, serial_kind(code), date1904)


@lru_cache(maxsize=16384)
def shown_serial(serial: float, kind: SerialKind, date1904: bool) -> Value:
    """The same, for a kind that is known already."""
    if kind == "duration":
        try:
            return dt.timedelta(days=serial)
        except OverflowError:
            return serial
    if 0 <= serial < 1 and kind == "time":
        return (dt.datetime.min + dt.timedelta(seconds=round(serial * 86400))).time()
    if date1904:
        epoch = dt.datetime(1904, 1, 1)
    else:
        # Serial 60 is the 29 February 1900 that never was; below it the count is one off.
        epoch = dt.datetime(1899, 12, 30) if serial >= 60 else dt.datetime(1899, 12, 31)
    try:
        return epoch + dt.timedelta(days=int(serial), seconds=round((serial % 1) * 86400))
    except (OverflowError, ValueError):
        return serial


@lru_cache(maxsize=20_000)
def column_letters(column: int) -> str:
    """1 -> A, 28 -> AB."""
    out = ""
    while column:
        column, rest = divmod(column - 1, 26)
        out = chr(65 + rest) + out
    return out


def column_number(letters: str) -> int:
    """A -> 1, AB -> 28."""
    column = 0
    for letter in letters.upper():
        column = column * 26 + ord(letter) - 64
    return column


def parse_address(text: str) -> Address:
    """`B7` or `$B$7` -> (7, 2). Raises ValueError."""
    match = _CELL.match(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a cell address like B7")
    column, row = column_number(match[1]), int(match[2])
    if column > MAX_COLUMN or row > MAX_ROW:
        raise ValueError(f"{text!r} lies outside of a sheet")
    return row, column


def parse_area(text: str) -> Area:
    """`B7`, `B7:D9`, `B:D` or `7:9` -> top, left, bottom, right. Raises ValueError."""
    first, colon, last = text.strip().partition(":")
    if colon and (a := _COLUMNS.match(first)) and (b := _COLUMNS.match(last)):
        left, right = sorted((column_number(a[1]), column_number(b[1])))
        return 1, left, MAX_ROW, right
    if colon and (a := _ROWS.match(first)) and (b := _ROWS.match(last)):
        top, bottom = sorted((int(a[1]), int(b[1])))
        return top, 1, bottom, MAX_COLUMN
    (top, left), (bottom, right) = parse_address(first), parse_address(last or first)
    return min(top, bottom), min(left, right), max(top, bottom), max(left, right)


def show_address(address: Address) -> str:
    return f"{column_letters(address[1])}{address[0]}"


def show_area(area: Area) -> str:
    """The area as text, the shortest way: `B7`, `B7:D9`, `B:D`, `7:9`."""
    top, left, bottom, right = area
    if (top, bottom) == (1, MAX_ROW):
        return f"{column_letters(left)}:{column_letters(right)}"
    if (left, right) == (1, MAX_COLUMN):
        return f"{top}:{bottom}"
    first = show_address((top, left))
    return first if (top, left) == (bottom, right) else f"{first}:{show_address((bottom, right))}"
