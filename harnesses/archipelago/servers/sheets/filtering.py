"""The handler of `filter_tab`: rows whose typed values meet conditions, with their row numbers.

Numbers compare as numbers (also where the condition says "1,000" or "15%"), dates as dates, text without case. A value
of another kind never meets an ordered comparison, and the diagnostics say how many there were. Used by the server
process by name.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.sheets.display import cell_text
from envkit.harnesses.archipelago.servers.sheets.models import Filter, FilterTab
from envkit.harnesses.archipelago.servers.sheets.reading import asked_area, escaped, grid_text, opened, tab_of
from envkit.office.workbook import Address, Area, Sheet, Unknown, Value, Workbook, column_letters, show_area
from envkit.office.workbook.values import ErrorValue, column_number

__all__ = ["filter_tab"]

#: Matching rows that are shown.
MAX_ROWS = 1000
MAX_COLUMNS = 100
#: Filled rows at the top of an area that may be the one that names the columns.
_HEADER_ROWS = 30
_NUMBER = re.compile(r"([-+(]?)\s*[$€£¥]?\s*([0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+)(?:[eE]([-+]?[0-9]+))?\s*(%?)\)?$")
_ORDERED = ("greater_than", "less_than", "greater_than_or_equal", "less_than_or_equal")
_EPOCH = dt.datetime(1899, 12, 30)

Operand = float | str | bool | dt.datetime | None


@dataclass
class _Condition:
    """One condition, and what it met."""

    asked: Filter
    column: int
    operand: Operand
    matched: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    samples: list[str] = field(default_factory=list)


def filter_tab(arguments: FilterTab, context: Context) -> str:
    book, note = opened(context, arguments.file_path, arguments.tab_index)
    sheet = tab_of(book, arguments.tab_index)
    if sheet.kind != "worksheet":
        raise ToolError(f"{sheet.name!r} is a {sheet.kind}, which has no rows to filter")
    area = asked_area(sheet, arguments.cell_range)
    if area is None:
        return f"{sheet.name!r} is empty: there is nothing to filter"
    header = _header_row(book, sheet, area, arguments.filters) if arguments.use_headers else None
    conditions = [_condition(book, sheet, area, header, item) for item in arguments.filters]
    first = area[0] if header is None else header + 1
    rows = [r for r in sheet.rows if first <= r <= area[2] and any(area[1] <= c <= area[3] for c in sheet.rows[r])]
    found: list[int] = []
    for row in sorted(rows):
        met = [_meets(book, sheet, (row, condition.column), condition) for condition in conditions]
        if (all(met) if arguments.match_all else any(met)) or not met:
            found.append(row)
    columns = list(range(area[1], min(area[3], area[1] + MAX_COLUMNS - 1) + 1))
    if arguments.compact:
        used = {c for r in found for c in sheet.rows.get(r, ())}
        columns = [c for c in columns if c in used]
    shown = found[:MAX_ROWS]
    above = f" (row {header} names the columns)" if header is not None and header > area[0] else ""
    lines = [f"{sheet.name!r}: {len(found):,} of {len(rows):,} rows in {show_area(area)} match{above}"]
    if found:
        grid, facts = grid_text(book, sheet, [*([header] if header is not None else []), *shown], columns)
        lines += [grid, *facts]
    if len(shown) < len(found):
        lines.append(
            f"the first {len(shown):,} are shown; ask cell_range from row {found[len(shown)]} for more "
            "(with use_headers=false, columns go by letter)"
        )
    if area[3] - area[1] + 1 > MAX_COLUMNS:
        lines.append(f"{MAX_COLUMNS} of {area[3] - area[1] + 1} columns are shown; ask a cell_range with fewer")
    hidden = [row for row in found if row in sheet.hidden_rows]
    if hidden and not arguments.compact:
        lines.append(f"{len(hidden):,} of the matching rows are hidden in the sheet")
    if arguments.include_diagnostics or (not found and conditions):
        lines += _diagnostics(conditions, len(rows), header)
    if note:
        lines.append(note)
    return "\n".join(lines)


def _header_row(book: Workbook, sheet: Sheet, area: Area, filters: list[Filter]) -> int:
    """The row that names the columns: the first of the area that holds anything, or where a title and remarks stand
    above the table, the first in which all names stand that are asked for."""
    filled = (
        r for r in sorted(sheet.rows) if area[0] <= r <= area[2] and any(area[1] <= c <= area[3] for c in sheet.rows[r])
    )
    near = list(islice(filled, _HEADER_ROWS))
    asked = {_folded(item.column) for item in filters}
    for row in near:
        if asked and asked <= {_folded(title) for title in _titles(book, sheet, area, row).values()}:
            return row
    return near[0] if near else area[0]


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()


def _titles(book: Workbook, sheet: Sheet, area: Area, header: int) -> dict[int, str]:
    out: dict[int, str] = {}
    for column in sheet.rows.get(header, ()):
        if area[1] <= column <= area[3]:
            cell = sheet.cells[header, column]
            out[column] = cell_text(book.value(sheet, (header, column)), cell.number_format)
    return out


def _condition(book: Workbook, sheet: Sheet, area: Area, header: int | None, item: Filter) -> _Condition:
    column = _column(book, sheet, area, header, item.column)
    needs_value = item.operator not in ("is_empty", "is_not_empty")
    if needs_value and item.value is None:
        raise ToolError(f"the filter {item.operator} on {item.column!r} needs a value (is_empty finds empty cells)")
    value = item.value
    operand: Operand
    if isinstance(value, bool) or value is None:
        operand = value
    elif isinstance(value, int | float):
        operand = float(value)
    else:
        operand = value
    return _Condition(item, column, operand)


def _column(book: Workbook, sheet: Sheet, area: Area, header: int | None, name: str) -> int:
    wanted = name.strip()
    titles = _titles(book, sheet, area, header) if header is not None else {}
    for exact in (True, False):
        found = [
            c for c, title in titles.items()
            if (title == wanted if exact else _folded(title) == _folded(wanted))
        ]  # fmt: skip
        if len(found) > 1:
            letters = ", ".join(column_letters(c) for c in found)
            raise ToolError(f"{len(found)} columns are called {name!r}: {letters}; give the letter")
        if found:
            return found[0]
    if re.fullmatch(r"\$?[A-Za-z]{1,3}", wanted):
        column = column_number(wanted.lstrip("$"))
        if area[1] <= column <= area[3]:
            return column
    if titles:
        hint = did_you_mean(wanted, [t for t in titles.values() if t])
        listed = ", ".join(f"{column_letters(c)} {title!r}" for c, title in titles.items())
        raise ToolError(
            f"there is no column {name!r} in row {header} of {sheet.name!r}{hint}; columns: {listed[:1500]}"
        )
    raise ToolError(
        f"{name!r} is no column of {show_area(area)}; give a letter from {column_letters(area[1])} to "
        f"{column_letters(area[3])}"
    )


def _meets(book: Workbook, sheet: Sheet, at: Address, condition: _Condition) -> bool:
    cell = sheet.cells.get(at)
    value = book.value(sheet, at) if cell is not None else None
    text = cell_text(value, cell.number_format) if cell is not None else ""
    condition.kinds[_kind(value)] += 1
    if text and len(condition.samples) < 5 and text not in condition.samples:
        condition.samples.append(text)
    met = meets(value, text, condition.asked.operator, condition.operand)
    condition.matched += met
    return met


def _kind(value: Value) -> str:
    if value is None or value == "":
        return "empty"
    if isinstance(value, Unknown):
        return "not calculated"
    if isinstance(value, ErrorValue):
        return "error"
    if isinstance(value, bool):
        return "true/false"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "date or time"


def as_number(text: str) -> float | None:
    """A text as the number that it writes (`1,234.5`, `$5`, `15%`, `(3)`), None where it writes none."""
    match = _NUMBER.match(text.strip())
    if not match:
        return None
    number = float(match[2].replace(",", "")) * 10.0 ** int(match[3] or 0)
    return (-number if match[1] in ("-", "(") else number) / (100 if match[4] else 1)


def _as_moment(text: str) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text.strip()).replace(tzinfo=None)
    except ValueError:
        pass
    for form in ("%m/%d/%Y", "%d.%m.%Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y"):
        try:
            return dt.datetime.strptime(text.strip(), form)
        except ValueError:
            continue
    return None


def _pair(value: Value, operand: Operand) -> tuple[float, float] | tuple[str, str] | None:
    """The two as things of one kind; None where they are of different kinds."""
    if isinstance(value, Unknown) or value is None or operand is None:
        return None
    if (isinstance(value, bool) and isinstance(operand, float)) or (
        isinstance(operand, bool) and not isinstance(value, bool | str)
    ):
        return None
    if isinstance(value, bool) or isinstance(operand, bool):
        left = str(value).upper() if isinstance(value, bool | str) else None
        right = str(operand).upper()
        return (left, right) if left is not None else None
    if isinstance(value, dt.datetime | dt.timedelta | dt.time):
        return _moments(value, operand)
    if isinstance(value, int | float):
        number = as_number(operand) if isinstance(operand, str) else operand
        return (float(value), number) if isinstance(number, float) else None
    if isinstance(operand, str):
        return value.strip().casefold(), operand.strip().casefold()  # type: ignore[union-attr]
    number = as_number(value) if isinstance(value, str) else None
    return (number, operand) if number is not None and isinstance(operand, float) else None


def _moments(value: dt.datetime | dt.timedelta | dt.time, operand: Operand) -> tuple[float, float] | None:
    if isinstance(operand, float):
        right: float | None = operand
    elif isinstance(operand, str):
        moment = _as_moment(operand)
        clock = re.fullmatch(r"(\d{1,3}):(\d{2})(?::(\d{2}))?", operand.strip())
        if moment is not None:
            right = (moment - _EPOCH).total_seconds() / 86400
        elif clock:
            right = (int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3] or 0)) / 86400
        else:
            right = None
    else:
        right = None
    if right is None:
        return None
    if isinstance(value, dt.datetime):
        left = (value - _EPOCH).total_seconds() / 86400
    elif isinstance(value, dt.timedelta):
        left = value.total_seconds() / 86400
    else:
        left = (value.hour * 3600 + value.minute * 60 + value.second) / 86400
    return left, right


def meets(value: Value, text: str, operator: str, operand: Operand) -> bool:
    """Whether a value (with its text as seen) meets a condition."""
    empty = value is None or (isinstance(value, str) and not value.strip())
    if operator == "is_empty":
        return empty
    if operator == "is_not_empty":
        return not empty
    if operator in ("equals", "not_equals"):
        return _equal(value, text, operand) == (operator == "equals")
    if operator in _ORDERED:
        pair = None if empty else _pair(value, operand)
        if pair is None:
            return False
        left, right = pair
        if (
            isinstance(left, float)
            and isinstance(right, float)
            and math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
        ):
            return operator.endswith("or_equal")
        greater = left > right  # type: ignore[operator]
        if left == right:
            return operator.endswith("or_equal")
        return greater == operator.startswith("greater")
    needle = str(operand).casefold() if not isinstance(operand, float) else cell_text(operand, "General")
    hay = {text.casefold(), "" if empty else _plain(value).casefold()}
    if operator in ("contains", "not_contains"):
        return any(needle in piece for piece in hay) == (operator == "contains")
    if empty:
        return False
    if operator == "starts_with":
        return any(piece.startswith(needle) for piece in hay)
    return any(piece.endswith(needle) for piece in hay)


def _plain(value: Value) -> str:
    return cell_text(value, "General")


def _equal(value: Value, text: str, operand: Operand) -> bool:
    if operand == "":
        return value is None or value == ""
    pair = _pair(value, operand)
    if pair is not None:
        left, right = pair
        if isinstance(left, float) and isinstance(right, float):
            return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
        return left == right
    return isinstance(operand, str) and bool(text) and text.casefold() == operand.strip().casefold()


def _diagnostics(conditions: list[_Condition], rows: int, header: int | None) -> list[str]:
    lines = ["diagnostics:"]
    lines.append(f"\trows looked at: {rows:,}" + (f"; row {header} taken for headers" if header is not None else ""))
    for condition in conditions:
        item = condition.asked
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in condition.kinds.most_common())
        value = "" if item.value is None else f" {item.value!r}"
        lines.append(
            f"\t{item.column} {item.operator}{value} (column {column_letters(condition.column)}): "
            f"{condition.matched:,} matched; "
            f"cells: {kinds or 'none'}; values such as "
            f"{', '.join(escaped(s)[:60] for s in condition.samples) or 'none'}"
        )
        if item.operator in _ORDERED and isinstance(condition.operand, float | str) and not condition.matched:
            number = condition.operand if isinstance(condition.operand, float) else as_number(condition.operand)
            if number is not None and condition.kinds.get("text"):
                lines.append("\t  cells that hold text that is no number never match a comparison with a number")
    return lines
