"""Judges of workbooks: single cells, ranges, sheets."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from envkit.failure import did_you_mean
from envkit.office.workbook import (
    UNKNOWN,
    Address,
    Cell,
    CellStyle,
    ErrorValue,
    Sheet,
    Workbook,
    column_letters,
    parse_address,
    read_workbook,
)
from envkit.verifiers.compare import is_number, misses_of_cell, number_matches, show, value_matches
from envkit.verifiers.judging import AgentFault, Context, Finding
from envkit.verifiers.kinds.references import Areas, depends_on, parse_area
from envkit.verifiers.kinds.tables import count_misses
from envkit.verifiers.phrases import Miss, find_phrase, fold, normalise
from envkit.verifiers.places import find_labels, locate, place_text
from envkit.verifiers.schema import CellCheck, InputChange, RangeCheck, SheetCheck

__all__ = ["judge_cell", "judge_range", "judge_sheet", "target"]

#: The largest block that a range check looks at.
MAX_RANGE = 200_000


def _name(path: str, sheet: Sheet, address: Address | None = None) -> str:
    place = f"/{path}!{sheet.name}"
    return place if address is None else f"{place}!{column_letters(address[1])}{address[0]}"


def _sheet_named(book: Workbook, path: str, name: str) -> Sheet:
    sheet = book.sheet(name)
    if sheet is None:
        names = tuple(s.name for s in book.sheets)
        hint = did_you_mean(name, names)
        raise AgentFault(f"/{path} has no sheet {name!r}{hint}; its sheets: {', '.join(names)}"[:600], where="/" + path)
    return sheet


def _texts(sheet: Sheet) -> dict[Address, str]:
    """The cells of a sheet as texts, for finding labels: constants, and formulas that give text by their cached
    value."""
    out: dict[Address, str] = {}
    for address, cell in sheet.cells.items():
        value = cell.value
        if isinstance(value, str) and not isinstance(value, ErrorValue):
            out[address] = value
        elif value is not None or cell.formula is not None:
            # A label may be a year or a date: numbers are labels as one would type them.
            out[address] = show(value).strip("'") if value is not None else "="
    return out


def _visible(book: Workbook, path: str) -> list[Sheet]:
    sheets = [s for s in book.sheets if s.visible]
    if not sheets:
        raise AgentFault(f"/{path} has no visible sheet", where="/" + path)
    return sheets


def target(check: CellCheck | InputChange, book: Workbook, path: str) -> tuple[Sheet, Address]:
    """The cell that a check, or a change of an input, names. Raises `AgentFault`."""
    if check.name is not None:
        return _named_cell(check.name, book, path)
    candidates = [_sheet_named(book, path, check.sheet)] if check.sheet is not None else _visible(book, path)
    if check.cell is not None:
        return candidates[0], parse_address(check.cell)
    for sheet in candidates:
        address = locate(_texts(sheet), check)
        if address is not None:
            return sheet, address
    where = _name(path, candidates[0]) if check.sheet is not None else f"/{path}"
    raise AgentFault(f"{where} has no cell at {place_text(check)}", where=where)


def _named_cell(name: str, book: Workbook, path: str) -> tuple[Sheet, Address]:
    text = book.names.get(name.upper())
    if text is None:
        known = tuple(book.names)
        raise AgentFault(f"/{path} has no defined name {name!r}{did_you_mean(name, known)}", where="/" + path)
    sheet_name, _, cell = text.rpartition("!")
    sheet = book.sheet(sheet_name.strip("'").replace("''", "'")) if sheet_name else None
    try:
        address = parse_address(cell)
    except ValueError:
        address = None
    if sheet is None or address is None:
        raise AgentFault(f"/{path}: the name {name!r} stands for {text!r}, not for one cell", where="/" + path)
    return sheet, address


def judge_cell(check: CellCheck, context: Context) -> Finding:
    book = context.load(check.path, read_workbook)
    sheet, address = target(check, book, check.path)
    address = sheet.anchor(address)
    where = _name(check.path, sheet, address)
    with context.working_on(check.path):
        value = book.value(sheet, address, check.value_from)
    cell = sheet.cells.get(address)
    formula = cell.formula if cell else None
    misses: list[Miss] = []
    if check.visible:
        misses += _hidden_misses(sheet, address, where)
    misses += misses_of_cell(check, value, where, typed=True)
    misses += _bound_misses(check, value, where)
    misses += _look_misses(check, sheet, address, where)
    if check.is_formula is not None and check.is_formula != (formula is not None):
        wanted = "a formula" if check.is_formula else "a constant"
        found = formula if formula else f"the constant {show(value)}"
        misses.append(Miss(wanted, str(found), f"{where} must hold {wanted}, found {found}", where))
    if check.formula_regex is not None:
        plain = (formula or "").replace("$", "").upper()
        if not re.search(check.formula_regex, plain, re.IGNORECASE):
            pattern = f"/{check.formula_regex}/"
            misses.append(
                Miss(pattern, plain or "no formula", f"the formula of {where} does not match {pattern}", where)
            )
    if check.references:
        with context.working_on(check.path):
            misses += _reference_misses(check, book, sheet, address, formula, where)
    if check.survives:
        # Imported here: it finds inputs as this module finds cells.
        from envkit.verifiers.kinds.whatif import survival_misses

        with context.working_on(check.path):
            misses += survival_misses(check, book, sheet, address, value, where)
    shown = show(value) + (f" from {formula}" if formula else "")
    return Finding(misses, actual=shown, where=where)


def _hidden_misses(sheet: Sheet, address: Address, where: str) -> list[Miss]:
    if not sheet.visible:
        hidden = f"sheet {sheet.name!r} is {sheet.state}"
    elif address[0] in sheet.hidden_rows:
        hidden = f"row {address[0]} is hidden"
    elif address[1] in sheet.hidden_columns:
        hidden = f"column {column_letters(address[1])} is hidden"
    else:
        return []
    return [Miss("a visible cell", hidden, f"{where} must be visible, but {hidden}", where)]


def _bound_misses(check: CellCheck | RangeCheck, value: Any, where: str) -> list[Miss]:
    if check.min is None and check.max is None:
        return []
    wanted = " and ".join(
        f"{word} {show(bound)}"
        for word, bound in (("at least", check.min), ("at most", check.max))
        if bound is not None
    )
    low, high = check.min if check.min is not None else -math.inf, check.max if check.max is not None else math.inf
    if is_number(value) and low <= value <= high:
        return []
    return [Miss(wanted, show(value), f"{where} must be {wanted}, found {show(value)}", where)]


def _format_misses(check: CellCheck | RangeCheck, cell: Cell | None, where: str) -> list[Miss]:
    if check.format is None:
        return []
    found = cell.style.format_class if cell is not None else "an empty cell"
    if found.casefold().startswith(check.format.casefold()):
        return []
    text = f"{where} must be formatted as {check.format}, it is formatted as {found}"
    return [Miss(f"format {check.format}", found, text, where)]


def _look_misses(check: CellCheck, sheet: Sheet, address: Address, where: str) -> list[Miss]:
    cell = sheet.cells.get(address)
    misses = _format_misses(check, cell, where)
    style = cell.style if cell is not None else CellStyle()
    if check.bold is not None and style.bold != check.bold:
        wanted = "bold" if check.bold else "not bold"
        misses.append(Miss(wanted, "bold" if style.bold else "not bold", f"{where} must be {wanted}", where))
    for what, asked, found in (("fill", check.fill, style.fill), ("text colour", check.color, style.color)):
        if asked is None:
            continue
        right = bool(found) if asked == "any" else not found if asked == "none" else found.upper() == asked.upper()
        if not right:
            text = f"the {what} of {where} must be {asked}, it is {found or 'none'}"
            misses.append(Miss(f"{what} {asked}", found or "none", text, where))
    if check.comment:
        said = " ".join(" ".join([c.text, *c.replies]) for c in sheet.comments if c.at == address)
        for phrase in check.comment:
            spellings = (phrase,) if isinstance(phrase, str) else phrase
            if not any(find_phrase(normalise(said), spelling) >= 0 for spelling in spellings):
                text = f"no comment at {where} says {phrase!r}"
                misses.append(Miss(f"a comment with {phrase!r}", said or "no comment", text, where))
    return misses


def _reference_misses(
    check: CellCheck, book: Workbook, sheet: Sheet, address: Address, formula: str | None, where: str
) -> list[Miss]:
    if formula is None:
        wanted = ", ".join(check.references)
        return [Miss(f"a formula that uses {wanted}", "a constant", f"{where} holds no formula", where)]
    areas = Areas.behind(book, sheet, address)
    out: list[Miss] = []
    for reference in check.references:
        wanted_area = parse_area(reference, book, sheet)
        if wanted_area is None:
            raise AgentFault(f"/{check.path} has no sheet for {reference!r}", where=where)
        if not depends_on(areas, wanted_area):
            out.append(Miss(f"depends on {reference}", formula, f"{where} does not depend on {reference}", where))
    return out


def _block(check: RangeCheck, book: Workbook) -> tuple[Sheet, list[Address], str]:
    candidates = (
        [_sheet_named(book, check.path, check.sheet)] if check.sheet is not None else _visible(book, check.path)
    )
    if check.range is not None:
        first, _, last = check.range.partition(":")
        (r1, c1), (r2, c2) = parse_address(first), parse_address(last)
        top, bottom, left, right = min(r1, r2), max(r1, r2), min(c1, c2), max(c1, c2)
        if (bottom - top + 1) * (right - left + 1) > MAX_RANGE:
            # Only filled cells are looked at, so that whole columns can be named.
            cells = [a for a in candidates[0].ordered if top <= a[0] <= bottom and left <= a[1] <= right]
        else:
            cells = [(r, c) for r in range(top, bottom + 1) for c in range(left, right + 1)]
        return candidates[0], cells, f"{_name(check.path, candidates[0])}!{check.range.upper()}"
    assert check.column is not None
    for sheet in candidates:
        heads = find_labels(_texts(sheet), check.column)
        if heads:
            row, column = heads[0]
            cells = list(_column_below(sheet, row, column))
            return sheet, cells, f"{_name(check.path, sheet)}!{column_letters(column)} below row {row}"
    label = check.column if isinstance(check.column, str) else check.column[0]
    raise AgentFault(f"/{check.path} has no column {label!r}", where="/" + check.path)


def _column_below(sheet: Sheet, row: int, column: int) -> Iterator[Address]:
    """The cells of a column below a header, up to the first row that is blank throughout."""
    at = row + 1
    while at in sheet.rows:
        yield at, column
        at += 1


def judge_range(check: RangeCheck, context: Context) -> Finding:
    book = context.load(check.path, read_workbook)
    sheet, addresses, where = _block(check, book)
    with context.working_on(check.path):
        values = [(a, book.value(sheet, a, check.value_from)) for a in addresses]
    filled = [(a, v) for a, v in values if v is not None and v != ""]
    misses: list[Miss] = []
    misses += count_misses(len(filled), "filled cells", check.count, None, None, where)
    unknown = [a for a, v in filled if v is UNKNOWN]
    numbers = [float(v) for _, v in filled if is_number(v)]  # type: ignore[arg-type]
    if check.sum is not None:
        total = sum(numbers)
        if unknown:
            found = f"{len(unknown)} formulas without a value"
            misses.append(Miss(show(check.sum), found, f"the sum of {where} is unknown: {found}", where))
        elif not number_matches(check.sum, total, check.abs_tol, check.rel_tol):
            misses.append(Miss(show(check.sum), show(total), f"the sum of {where} is {show(total)}", where))
    if check.values:
        misses += sequence_misses(check, [v for _, v in filled], where, typed=True)
    if check.all_numbers:
        wrong = next(((a, v) for a, v in filled if not is_number(v)), None)
        if wrong or not filled:
            at = _name(check.path, sheet, wrong[0]) if wrong else where
            found = show(wrong[1]) if wrong else "nothing"
            misses.append(Miss("numbers", found, f"{at} must be a number, found {found}", at))
    for address, value in filled:
        at = _name(check.path, sheet, address)
        amiss = _bound_misses(check, value, at)
        amiss += _format_misses(check, sheet.cells.get(address), at) if is_number(value) or check.all_numbers else []
        if amiss:
            misses += amiss
            break
    if check.all_formulas:
        plain = next((a for a, _ in filled if sheet.cells[a].formula is None), None)
        if plain or not filled:
            at = _name(check.path, sheet, plain) if plain else where
            misses.append(Miss("formulas", "a constant" if plain else "nothing", f"{at} must hold a formula", at))
    return Finding(misses, actual=f"{len(filled)} filled cells, sum {show(float(sum(numbers)))}", where=where)


def sequence_misses(check: Any, actual: list[Any], where: str, *, typed: bool) -> list[Miss]:
    """What is amiss with a list of values, in order or in any."""
    shown = ", ".join(show(v) for v in actual[:20]) + (", ..." if len(actual) > 20 else "")
    wanted = ", ".join(show(v) for v in check.values)

    def same(expected: Any, found: Any) -> bool:
        return value_matches(expected, found, check.abs_tol, check.rel_tol, typed=typed)

    if len(actual) != len(check.values):
        return [Miss(wanted, shown, f"{where} holds {len(actual)} values, must be {len(check.values)}", where)]
    if not check.any_order:
        wrong = next((i for i, (e, a) in enumerate(zip(check.values, actual, strict=True)) if not same(e, a)), None)
        if wrong is None:
            return []
        what = f"value {wrong + 1} of {where} must be {show(check.values[wrong])}, found {show(actual[wrong])}"
        return [Miss(wanted, shown, what, where)]
    left = list(actual)
    for expected in check.values:
        at = next((i for i, found in enumerate(left) if same(expected, found)), None)
        if at is None:
            return [Miss(wanted, shown, f"{where} does not hold {show(expected)} (often enough)", where)]
        del left[at]
    return []


def judge_sheet(check: SheetCheck, context: Context) -> Finding:
    book = context.load(check.path, read_workbook)
    sheet = book.sheet(check.sheet)
    where = f"/{check.path}!{check.sheet}"
    if not check.exists:
        misses = [Miss("no such sheet", check.sheet, f"{where} must not exist", where)] if sheet else []
        return Finding(misses, actual="no such sheet", where=where)
    sheet = _sheet_named(book, check.path, check.sheet)
    misses = []
    if check.visible is not None and sheet.visible != check.visible:
        wanted = "visible" if check.visible else "hidden"
        misses.append(Miss(wanted, sheet.state, f"{where} must be {wanted}, it is {sheet.state}", where))
    header_row = check.header_row or 0
    if check.header:
        found = _header_row(sheet, check)
        if found is None:
            first = next(iter(sheet.rows.items()), (0, ()))
            shown = " | ".join(_texts(sheet).get((first[0], c), "") for c in first[1])[:300]
            misses.append(Miss(" | ".join(check.header), shown, f"{where} has no row with these headers", where))
        else:
            header_row = found
    below = sum(1 for row in sheet.rows if row > header_row)
    misses += count_misses(below, "rows", check.rows, check.min_rows, check.max_rows, where)
    formulas = sum(1 for cell in sheet.cells.values() if cell.formula is not None)
    misses += count_misses(formulas, "formulas", None, check.min_formulas, None, where)
    for name in check.tables:
        if not any(fold(table.name) == fold(name) for table in sheet.tables):
            shown = ", ".join(table.name for table in sheet.tables) or "no tables"
            misses.append(Miss(f"table {name!r}", shown, f"{where} has no table {name!r}", where))
    place = book.sheets.index(sheet) + 1
    if check.position is not None and place != check.position:
        text = f"{where} is sheet {place}, must be sheet {check.position}"
        misses.append(Miss(f"sheet {check.position}", str(place), text, where))
    if check.no_errors:
        with context.working_on(check.path):
            wrong = next((a for a in sheet.ordered if isinstance(book.value(sheet, a), ErrorValue)), None)
        if wrong is not None:
            at = _name(check.path, sheet, wrong)
            misses.append(Miss("no errors", show(book.value(sheet, wrong)), f"{at} shows an error", at))
    return Finding(misses, actual=f"{below} rows, {formulas} formulas, {sheet.state}", where=where)


def _header_row(sheet: Sheet, check: SheetCheck) -> int | None:
    """The first row (or the given one) that holds the headers from left to right, gaps allowed."""
    texts = _texts(sheet)
    wanted = [fold(h) for h in check.header]
    for row, columns in sheet.rows.items():
        if check.header_row is not None and row != check.header_row:
            continue
        found = iter(fold(texts.get((row, c), "")) for c in columns)
        if all(any(text == w for text in found) for w in wanted):
            return row
    return None
