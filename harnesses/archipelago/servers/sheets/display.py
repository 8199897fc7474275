"""Values as a person sees them in the sheet, and the exact value where what is seen says less.

`seen` applies a number format (sections, digits, thousands, percent, scaling, dates, durations, fractions); `brief`
writes a value without one. `cell_text` is what the readers print: the seen text, and behind it in square brackets the
exact value, where rounding or scaling hides a part of it. Used by the readers and the reports.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import lru_cache

from envkit.office.workbook import UNKNOWN, Unknown, Value
from envkit.office.workbook.values import serial_kind

__all__ = ["NOT_CALCULATED", "brief", "cell_text", "plain_number", "seen"]

#: What stands for the value of a formula that nothing could compute.
NOT_CALCULATED = "#not-calculated"
_PIECE = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|_(?P<pad>.)|\*(?P<fill>.)|\[(?P<bracket>[^\]]*)\]|(?P<general>General|Standard)'
    r"|(?P<ampm>AM/PM|A/P)|(?P<exp>E[+-])|(?P<date>y+|m+|d+|h+|s+(?:\.0+)?|e+|g+|b+)|(?P<slash>/)"
    r"|(?P<digits>[0#?][0#?,]*|,)|(?P<point>\.)|(?P<percent>%)|(?P<text>@)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?[0-9.]+)$")
_CURRENCY = re.compile(r"\$([^-]*)(?:-.*)?$")
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


@dataclass(frozen=True, slots=True)
class _Section:
    pieces: tuple[tuple[str, str], ...]
    condition: tuple[str, float] | None


@lru_cache(maxsize=2048)
def _sections(code: str) -> tuple[_Section, ...]:
    out: list[_Section] = []
    pieces: list[tuple[str, str]] = []
    condition: tuple[str, float] | None = None
    for match in _PIECE.finditer(code):
        kind, text = match.lastgroup or "other", match[match.lastgroup or 0]
        if kind == "other" and text == ";":
            out.append(_Section(tuple(pieces), condition))
            pieces, condition = [], None
        elif kind == "bracket":
            found = _CONDITION.match(text)
            money = _CURRENCY.match(text)
            if found:
                condition = (found[1], float(found[2]))
            elif money:
                pieces.append(("quoted", money[1]))
            elif re.fullmatch(r"h+|m+|s+", text, re.IGNORECASE):
                pieces.append(("elapsed", text.lower()))
        else:
            pieces.append((kind, text))
    out.append(_Section(tuple(pieces), condition))
    return tuple(out)


_COMPARE = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b,
}  # fmt: skip


def _chosen(value: float, sections: tuple[_Section, ...]) -> tuple[_Section | None, bool]:
    """The section for a number, and whether the sign is left to it."""
    numeric = [s for s in sections[:3] if not any(kind == "text" for kind, _ in s.pieces)] or list(sections[:1])
    if any(s.condition for s in numeric):
        for section in numeric:
            if section.condition is None or _COMPARE[section.condition[0]](value, section.condition[1]):
                return section, section.condition is not None and section is not numeric[0]
        return None, False
    if value < 0 and len(numeric) > 1:
        return numeric[1], True
    if value == 0 and len(numeric) > 2:
        return numeric[2], False
    return numeric[0], False


def plain_number(value: float | int) -> str:
    """A number as Excel shows it without a format, whole to 15 digits."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.15g}".replace("e+", "E+").replace("e-", "E-")


def brief(value: Value) -> str:
    """A value without a number format, dates in ISO form."""
    if value is None:
        return "(empty)"
    if isinstance(value, Unknown):
        return NOT_CALCULATED
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return plain_number(value)
    if isinstance(value, str):
        return str(value) if value.startswith("#") else repr(value if len(value) <= 80 else value[:77] + "...")
    return _iso(value)


def _iso(value: dt.date | dt.time | dt.timedelta) -> str:
    if isinstance(value, dt.datetime):
        if value.time() == dt.time():
            return value.date().isoformat()
        return value.isoformat(sep=" ", timespec="minutes" if value.second == 0 else "seconds")
    if isinstance(value, dt.timedelta):
        seconds = round(value.total_seconds())
        sign = "-" if seconds < 0 else ""
        hours, rest = divmod(abs(seconds), 3600)
        return f"{sign}{hours}:{rest // 60:02d}:{rest % 60:02d}"
    return value.isoformat()


def cell_text(value: Value, code: str) -> str:
    """A value as the readers print it: as seen, with the exact value behind it where that says more; dates always in
    ISO form, since what a date format shows is often ambiguous."""
    if value is None:
        return ""
    if value is UNKNOWN or isinstance(value, Unknown):
        return NOT_CALCULATED
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | float):
        text = seen(value, code).strip()
        exact = plain_number(value)
        if not text:
            return exact  # a format that hides it (;;;) does not make it go away
        return text if _says(text, value) else f"{text} [{_exact(value)}]"
    return _iso(value)


def _exact(value: float | int) -> str:
    if float(value).is_integer():
        return plain_number(value)
    return f"{value:.10g}"


def _says(text: str, value: float) -> bool:
    """Whether the number can be read back from what is seen."""
    found = re.findall(r"[0-9][0-9,]*(?:\.[0-9]+)?(?:E[+-]?[0-9]+)?|\.[0-9]+", text)
    if len(found) != 1:
        return False
    negative = text.lstrip("$€£¥ ").startswith("-") or (text.startswith("(") and text.endswith(")"))
    percent = "%" in text
    number = float(found[0].replace(",", ""))
    number = (number / 100 if percent else number) * (-1 if negative else 1)
    return math.isclose(number, value, rel_tol=1e-9, abs_tol=1e-12)


def seen(value: float | int, code: str) -> str:
    """A number under a number format, as Excel shows it in a wide column."""
    section, own_sign = _chosen(value, _sections(code))
    if section is None:
        return plain_number(value)
    kinds = {kind for kind, _ in section.pieces}
    if not section.pieces and len(_sections(code)) > 1:
        return ""
    if "general" in kinds or (not kinds and not code.strip(";")) or not section.pieces:
        return "".join(plain_number(abs(value) if own_sign else value) if kind == "general" else _literal(kind, text)
                       for kind, text in section.pieces) or plain_number(value)  # fmt: skip
    if serial_kind(code) and kinds & {"date", "elapsed", "ampm"}:
        return _dated(value, section)
    if "text" in kinds and "digits" not in kinds:
        return plain_number(value)
    return _number(value, section, own_sign)


def _literal(kind: str, text: str) -> str:
    if kind in ("quoted", "escaped", "other", "slash", "percent", "point"):
        return text
    return " " if kind == "pad" else ""


def _number(value: float | int, section: _Section, own_sign: bool) -> str:
    pieces = list(section.pieces)
    kinds = [kind for kind, _ in pieces]
    if "digits" not in kinds and "point" not in kinds:
        sign = "-" if value < 0 and not own_sign else ""
        return sign + "".join(_literal(kind, text) for kind, text in pieces)
    if "slash" in kinds and kinds.count("digits") >= 2:
        return _fraction(value, pieces, own_sign)
    number = abs(Decimal(repr(float(value))))
    number *= Decimal(100) ** kinds.count("percent")
    if "exp" in kinds:
        return _scientific(value, number, pieces, own_sign)
    point = kinds.index("point") if "point" in kinds else len(pieces)
    whole_spec = "".join(text for kind, text in pieces[:point] if kind == "digits")
    part_spec = "".join(text for kind, text in pieces[point:] if kind == "digits")
    trailing = len(whole_spec) - len(whole_spec.rstrip(",")) if not part_spec.strip(",") else 0
    trailing += len(part_spec) - len(part_spec.rstrip(","))
    number /= Decimal(1000) ** trailing
    thousands = "," in whole_spec.rstrip(",").lstrip(",")
    part_digits = part_spec.replace(",", "")
    rounded = (
        number.quantize(Decimal(1).scaleb(-len(part_digits)), ROUND_HALF_UP) if number < Decimal(10) ** 24 else number
    )
    whole_text, _, part_text = f"{rounded:f}".partition(".")
    if whole_text == "0" and "0" not in whole_spec:
        whole_text = ""
    whole_text = whole_text.rjust(whole_spec.count("0"), "0")
    if thousands and whole_text:
        whole_text = (
            f"{int(whole_text):,}".rjust(len(whole_text), "0") if len(whole_text) <= 3 else _grouped(whole_text)
        )
    optional = len(part_digits) - len(part_digits.rstrip("#"))
    while optional and part_text.endswith("0"):
        part_text, optional = part_text[:-1], optional - 1
    shown_zero = not whole_text.strip("0,") and not part_text.strip("0")
    sign = "-" if value < 0 and not own_sign and not shown_zero else ""
    whole = _spread(whole_text, [text for kind, text in pieces[:point] if kind == "digits"], thousands)
    out: list[str] = []
    whole_done = part_done = False
    for index, (kind, text) in enumerate(pieces):
        if kind == "digits" and index < point:
            out.append(next(whole))
            whole_done = True
        elif kind == "digits":
            if not part_done:
                out.append(part_text)
                part_done = True
        elif kind == "point":
            if not whole_done:
                out.append(whole_text)
                whole_done = True
            out.append("." if part_text or not part_digits else "")
        else:
            out.append(_literal(kind, text))
    return sign + "".join(out)


def _spread(digits: str, specs: list[str], thousands: bool) -> Iterator[str]:
    """The whole digits over the groups of a format such as `(000) 000-0000`, from the right; a `?` without a digit is
    a space."""
    out: list[str] = []
    for index in range(len(specs) - 1, -1, -1):
        width = len(specs[index].replace(",", ""))
        if index == 0 or thousands:
            piece, digits = digits, ""
        else:
            piece, digits = digits[-width:], digits[:-width]
        out.append(piece.rjust(specs[index].count("0") + specs[index].count("?")))
    return reversed(out)


def _grouped(digits: str) -> str:
    out = []
    while len(digits) > 3:
        out.append(digits[-3:])
        digits = digits[:-3]
    return ",".join([digits, *reversed(out)])


def _scientific(value: float | int, number: Decimal, pieces: list[tuple[str, str]], own_sign: bool) -> str:
    spec = "".join(text for kind, text in pieces if kind in ("digits", "point", "exp"))
    mantissa, _, exponent_spec = re.split(r"(E[+-])", spec, flags=re.IGNORECASE)
    decimals = len(mantissa.partition(".")[2])
    whole = max(1, len(mantissa.partition(".")[0].replace(",", "")))
    exponent = 0
    if number:
        exponent = number.adjusted()
        exponent -= exponent % whole if whole > 1 and "#" in mantissa else whole - 1
    shown_mantissa = (number.scaleb(-exponent)).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    if shown_mantissa >= Decimal(10) ** whole:
        exponent += 1
        shown_mantissa = number.scaleb(-exponent).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    mark = "+" if exponent >= 0 and "+" in spec else "-" if exponent < 0 else ""
    digits = str(abs(exponent)).rjust(len(exponent_spec), "0")
    return ("-" if value < 0 and not own_sign else "") + f"{shown_mantissa:f}E{mark}{digits}"


def _fraction(value: float | int, pieces: list[tuple[str, str]], own_sign: bool) -> str:
    specs = [text for kind, text in pieces if kind == "digits"]
    below = specs[-1]
    slash = next(i for i, (kind, _) in enumerate(pieces) if kind == "slash")
    fixed = "".join(text for kind, text in pieces[slash + 1 :] if kind in ("digits", "other")).strip()
    number = abs(value)
    with_whole = len(specs) > 2
    whole = int(number) if with_whole else 0
    rest = number - whole
    if fixed.isdecimal() and int(fixed) > 0:
        bottom = int(fixed)
        top = round(rest * bottom)
    else:
        nearest = Fraction(rest).limit_denominator(10 ** len(below) - 1)
        top, bottom = nearest.numerator, nearest.denominator
    if with_whole and top == bottom:
        whole, top = whole + 1, 0
    text = f"{whole}" if with_whole and (whole or not top) else ""
    if top or not with_whole:
        text += (" " if text else "") + f"{top}/{bottom}"
    return ("-" if value < 0 and not own_sign else "") + text


def _dated(value: float | int, section: _Section) -> str:
    """Dates are counted from 1900; books that count from 1904 give dates as dates, not as numbers."""
    if value < 0:
        return "#" * 8
    seconds = round(value * 86400)
    days, clock = divmod(seconds, 86400)
    epoch = dt.datetime(1899, 12, 30) if days >= 60 else dt.datetime(1899, 12, 31)
    try:
        moment = epoch + dt.timedelta(days=days, seconds=clock)
    except OverflowError:
        return "#" * 8
    pieces = section.pieces
    half = any(kind == "ampm" for kind, _ in pieces)
    out: list[str] = []
    for index, (kind, text) in enumerate(pieces):
        if kind == "elapsed":
            total = {"h": seconds // 3600, "m": seconds // 60, "s": seconds}[text[0]]
            out.append(str(total).rjust(len(text), "0"))
        elif kind == "ampm":
            out.append(("AM" if moment.hour < 12 else "PM") if len(text) > 3 else ("A" if moment.hour < 12 else "P"))
        elif kind == "date":
            out.append(_date_piece(text.lower(), moment, half, _is_minute(pieces, index)))
        elif kind == "digits":
            out.append(text.replace("?", "0").replace("#", "0"))
        else:
            out.append(_literal(kind, text))
    return "".join(out)


def _is_minute(pieces: tuple[tuple[str, str], ...], index: int) -> bool:
    """Whether an m means minutes: behind an hour, or before a second."""
    for step, wanted in ((-1, "h"), (1, "s")):
        place = index + step
        while 0 <= place < len(pieces):
            kind, text = pieces[place]
            if kind in ("date", "elapsed"):
                if text[0].lower() == wanted:
                    return True
                break
            place += step
    return False


def _date_piece(text: str, moment: dt.datetime, half: bool, minute: bool) -> str:
    size = len(text)
    if text[0] == "y" or text[0] == "e":
        return f"{moment.year % 100:02d}" if text[0] == "y" and size <= 2 else f"{moment.year:04d}"
    if text[0] == "d":
        name = _DAYS[moment.weekday()]
        return str(moment.day) if size == 1 else f"{moment.day:02d}" if size == 2 else name[:3] if size == 3 else name
    if text[0] == "m":
        if minute:
            return str(moment.minute).rjust(min(size, 2), "0")
        name = _MONTHS[moment.month - 1]
        plain = str(moment.month).rjust(min(size, 2), "0")
        return plain if size <= 2 else name[:3] if size == 3 else name[:1] if size == 5 else name
    if text[0] == "h":
        hour = (moment.hour % 12 or 12) if half else moment.hour
        return str(hour).rjust(min(size, 2), "0")
    if text[0] == "s":
        return str(moment.second).rjust(min(text.count("s"), 2), "0") + (
            "." + "0" * text.count("0") if "." in text else ""
        )
    return ""
