"""Whether a cell holds the value it must: numbers with tolerance, text, truth values, dates; the type counts too.

Used for cells of workbooks (typed) and of tables in documents, decks and csv files (all text).
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from envkit.office.workbook import ErrorValue, Unknown
from envkit.verifiers.numbers import read_number
from envkit.verifiers.phrases import Miss, misses_of_rules, normalise
from envkit.verifiers.values import CellValue

__all__ = ["is_number", "misses_of_cell", "number_matches", "read_dates", "show", "value_matches"]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def number_matches(expected: float, actual: float, abs_tol: float | None, rel_tol: float | None) -> bool:
    """Within the larger of both tolerances; with neither, relative 1e-6 (absolute 1e-9 for 0)."""
    if abs_tol is None and rel_tol is None:
        tolerance = abs(expected) * 1e-6 or 1e-9
    else:
        tolerance = max(abs_tol or 0.0, (rel_tol or 0.0) * abs(expected))
    # A hair of slack for what binary floating point does to decimal tolerances.
    return abs(actual - expected) <= tolerance * (1 + 1e-9) + abs(expected) * 1e-12


def value_matches(
    expected: CellValue, actual: Any, abs_tol: float | None, rel_tol: float | None, *, typed: bool = True
) -> bool:
    """Whether one value is the expected one. `typed`: text does not stand for numbers, dates or truth values."""
    if isinstance(actual, Unknown) or actual is None:
        return False
    if isinstance(actual, ErrorValue):
        return isinstance(expected, str) and expected.strip().upper() == str(actual)
    if isinstance(expected, bool):
        if not typed and isinstance(actual, str):
            return normalise(actual).casefold() == str(expected).casefold()
        return isinstance(actual, bool) and actual is expected
    if isinstance(expected, int | float):
        if not typed and isinstance(actual, str):
            number = read_number(actual)
            return number is not None and number_matches(expected, number, abs_tol, rel_tol)
        return is_number(actual) and number_matches(expected, actual, abs_tol, rel_tol)
    if isinstance(expected, dt.date):
        found = read_dates(actual) if not typed and isinstance(actual, str) else [actual]
        return any(_same_date(expected, value) for value in found)
    if isinstance(expected, dt.time):
        return isinstance(actual, dt.time) and actual.replace(microsecond=0) == expected.replace(microsecond=0)
    return isinstance(actual, str) and normalise(actual).casefold() == normalise(expected).casefold()


def _same_date(expected: dt.date, actual: object) -> bool:
    if isinstance(expected, dt.datetime):
        plain = expected.replace(tzinfo=None, microsecond=0)
        return isinstance(actual, dt.datetime) and abs((actual.replace(tzinfo=None) - plain).total_seconds()) < 1
    if isinstance(actual, dt.datetime):
        return actual.date() == expected
    return isinstance(actual, dt.date) and actual == expected


def read_dates(text: str) -> list[dt.date]:
    """The dates that a text may mean; more than one where day and month can't be told apart."""
    plain = normalise(text)
    try:
        moment = dt.datetime.fromisoformat(plain)
        return [moment]
    except ValueError:
        pass
    out: list[dt.date] = []
    for form in (
        "%d.%m.%Y", "%d.%m.%y", "%d %B %Y", "%B %d, %Y", "%d %b %Y", "%b %d, %Y", "%d-%b-%Y", "%d-%b-%y", "%d/%m/%Y",
        "%m/%d/%Y", "%Y/%m/%d",
    ):  # fmt: skip
        try:
            out.append(dt.datetime.strptime(plain, form))
        except ValueError:
            continue
    return out


def show(value: Any) -> str:
    """A value as a report shows it."""
    if value is None:
        return "(empty)"
    if isinstance(value, Unknown):
        return "(unknown: a formula without a value)"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    if isinstance(value, str) and not isinstance(value, ErrorValue):
        return repr(value)
    return str(value)


def misses_of_cell(check: Any, actual: Any, where: str, *, typed: bool) -> list[Miss]:
    """What is amiss with one cell's value, by a check's `value`, `any_of`, `blank` and phrase rules."""
    out: list[Miss] = []
    empty = actual is None or (isinstance(actual, str) and not actual.strip())
    if check.blank is not None and empty != check.blank:
        wanted = "an empty cell" if check.blank else "a filled cell"
        out.append(Miss(wanted, show(actual), f"{where} must be {wanted}, found {show(actual)}", where))
    typed = typed and not check.text_number
    if check.accepted and not any(
        value_matches(v, actual, check.abs_tol, check.rel_tol, typed=typed) for v in check.accepted
    ):
        wanted = " or ".join(show(v) for v in check.accepted)
        why = _why(check, actual)
        out.append(Miss(wanted, show(actual), f"{where} must be {wanted}, found {show(actual)}{why}", where))
    if check.has_rules:
        text = "" if empty or isinstance(actual, Unknown) else actual if isinstance(actual, str) else show(actual)
        out += [Miss(m.expected, m.actual, m.message, where) for m in misses_of_rules(check, [text], where)]
    return out


def _why(check: Any, actual: Any) -> str:
    """A hint where the value is right and its type is not."""
    if isinstance(actual, str) and any(
        value_matches(v, actual, check.abs_tol, check.rel_tol, typed=False) for v in check.accepted
    ):
        return " (the right value, but stored as text)"
    if is_number(actual) and any(isinstance(v, dt.date) and not isinstance(v, bool) for v in check.accepted):
        return " (a number that is not formatted as a date)"
    return ""
