"""The judge of csv and tsv tables."""

from __future__ import annotations

import datetime as dt

from envkit.failure import did_you_mean
from envkit.office.table import Table, read_table
from envkit.verifiers.compare import misses_of_cell, number_matches, read_dates, show, value_matches
from envkit.verifiers.judging import AgentFault, Context, Finding
from envkit.verifiers.kinds.tables import count_misses
from envkit.verifiers.kinds.workbook import sequence_misses
from envkit.verifiers.numbers import read_number
from envkit.verifiers.phrases import Miss, fold
from envkit.verifiers.schema import CsvCheck

__all__ = ["judge_csv"]


def _column(table: Table, name: str, where: str) -> int:
    index = table.column(name)
    if index is None:
        hint = did_you_mean(name, table.header)
        raise AgentFault(
            f"{where} has no column {name!r}{hint}; its columns: {', '.join(table.header)}"[:600], where=where
        )
    return index


def judge_csv(check: CsvCheck, context: Context) -> Finding:
    table = context.load(check.path, read_table)
    where = "/" + check.path
    misses: list[Miss] = []
    shown = ", ".join(table.header)
    if check.exact_columns:
        if [fold(h) for h in table.header] != [fold(c) for c in check.columns]:
            misses.append(Miss(", ".join(check.columns), shown, f"the columns of {where} are {shown}", where))
    else:
        for name in check.columns:
            if table.column(name) is None:
                misses.append(Miss(f"column {name!r}", shown, f"{where} has no column {name!r}", where))
    misses += count_misses(len(table.rows), "rows", check.rows, check.min_rows, check.max_rows, where)
    actual: str | None = f"{len(table.rows)} rows"
    if check.where:
        row, more = _row(check, table, where)
        misses += more
        if row is not None and check.column is not None:
            number, cells = row
            text = cells[_column(table, check.column, where)].strip()
            place = f"{where} row {number} {check.column!r}"
            misses += misses_of_cell(check, text or None, place, typed=False)
            actual, where = text, place
    elif check.column is not None:
        index = _column(table, check.column, where)
        values = [row[index].strip() for row in table.rows]
        place = f"{where} column {check.column!r}"
        if check.sum is not None:
            misses += _sum_misses(check, [v for v in values if v], place)
        if check.values:
            misses += sequence_misses(check, values, place, typed=False)
        misses += _order_misses(check, values, place)
    return Finding(misses, actual=actual, where=where)


def _order_misses(check: CsvCheck, values: list[str], place: str) -> list[Miss]:
    out: list[Miss] = []
    if check.unique:
        twice = next((v for n, v in enumerate(values) if fold(v) in {fold(w) for w in values[:n]}), None)
        if twice is not None:
            out.append(Miss("no value twice", twice, f"{place} holds {twice!r} more than once", place))
    if check.sorted is not None:
        keys = [_sort_key(value) for value in values]
        wanted = sorted(keys, reverse=check.sorted == "descending")
        wrong = next((n for n, (a, b) in enumerate(zip(keys, wanted, strict=True)) if a != b), None)
        if wrong is not None:
            text = f"{place} is not {check.sorted}: row {wrong + 2} holds {values[wrong]!r}"
            out.append(Miss(f"{check.sorted} order", values[wrong], text, place))
    return out


def _sort_key(text: str) -> tuple[int, float, str]:
    """Numbers before dates before texts; dates that may mean two days as the first of them."""
    number = read_number(text)
    if number is not None:
        return 0, number, ""
    dates = read_dates(text)
    if dates:
        day = dates[0]
        moment = day if isinstance(day, dt.datetime) else dt.datetime(day.year, day.month, day.day)
        return 1, (moment.replace(tzinfo=None) - dt.datetime.min).total_seconds(), ""
    return 2, 0.0, fold(text)


def _row(check: CsvCheck, table: Table, where: str) -> tuple[tuple[int, tuple[str, ...]] | None, list[Miss]]:
    """The one row that `where` means, with its line number in the table."""
    keys = {_column(table, name, where): value for name, value in check.where.items()}
    found = [
        (number, row)
        for number, row in enumerate(table.rows, start=2)
        if all(value_matches(value, row[index].strip(), None, None, typed=False) for index, value in keys.items())
    ]
    wanted = ", ".join(f"{name} = {show(value)}" for name, value in check.where.items())
    if len(found) != 1:
        return None, [
            Miss(f"one row with {wanted}", f"{len(found)} rows", f"{where}: {len(found)} rows with {wanted}", where)
        ]
    return found[0], []


def _sum_misses(check: CsvCheck, values: list[str], place: str) -> list[Miss]:
    assert check.sum is not None
    total = 0.0
    for text in values:
        number = read_number(text)
        if number is None:
            return [Miss("numbers", text, f"{place} holds {text!r}, which is no number", place)]
        total += number
    if number_matches(check.sum, total, check.abs_tol, check.rel_tol):
        return []
    return [Miss(show(check.sum), show(total), f"the sum of {place} is {show(total)}", place)]
