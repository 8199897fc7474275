"""Filters compare typed values: numbers as numbers, dates as dates, text without case."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.app import ToolError


@pytest.fixture
def deals(make: Callable[..., bytes]) -> bytes:
    def build(book: Any) -> None:
        sheet = book.add_worksheet("Deals")
        sheet.write_row("A1", ["Name", "Amount", "Rate", "When", "Code", "Note"])
        rows = [
            ("Alpha", 9, 0.05, dt.datetime(2024, 1, 31), "007", "x"),
            ("beta", 100, 0.15, dt.datetime(2024, 2, 1), "7", None),
            ("Gamma", 1000.5, 0.2, dt.datetime(2025, 2, 1), "A-1", "X ray"),
            ("ALPHA two", -3, 0.0, None, None, ""),
        ]
        percent, day = book.add_format({"num_format": "0%"}), book.add_format({"num_format": "dd/mm/yyyy"})
        for r, (name, amount, rate, when, code, note) in enumerate(rows, 1):
            sheet.write(r, 0, name)
            sheet.write_formula(r, 1, f"={amount}+0", None, "")
            sheet.write(r, 2, rate, percent)
            if when:
                sheet.write_datetime(r, 3, when, day)
            if code:
                sheet.write_string(r, 4, code)
            if note:
                sheet.write_string(r, 5, note)

    return make(build)


def _rows(text: str) -> list[int]:
    return [int(line.split("\t")[0]) for line in text.splitlines() if re.match(r"\d+\t", line)][1:]


@pytest.mark.parametrize(
    ("column", "operator", "value", "rows"),
    [
        ("Amount", "greater_than", 9, [3, 4]),  # as text, "9" > "100"
        ("Amount", "greater_than", "9", [3, 4]),
        ("amount", "less_than_or_equal", 9, [2, 5]),
        ("Amount", "equals", "1,000.50", [4]),
        ("B", "greater_than_or_equal", 100, [3, 4]),
        ("Rate", "equals", "15%", [3]),
        ("Rate", "equals", 0.15, [3]),
        ("When", "greater_than", "2024-01-31", [3, 4]),
        ("When", "less_than", "2024-02-01", [2]),
        ("When", "equals", "2024-02-01", [3]),
        ("Code", "equals", "007", [2]),
        ("Name", "equals", "BETA", [3]),
        ("Name", "not_equals", "beta", [2, 4, 5]),
        ("Name", "contains", "alpha", [2, 5]),
        ("Name", "not_contains", "alpha", [3, 4]),
        ("Name", "starts_with", "alpha", [2, 5]),
        ("Name", "ends_with", "TWO", [5]),
        ("Note", "is_empty", None, [3, 5]),
        ("Note", "is_not_empty", None, [2, 4]),
        ("When", "contains", "2024", [2, 3]),
    ],
)
def test_conditions(desk: Any, deals: bytes, column: str, operator: str, value: Any, rows: list[int]) -> None:
    name = desk.put("d.xlsx", deals)
    condition = {"column": column, "operator": operator, "value": value}
    assert _rows(desk.filter(name, condition)) == rows


def test_all_or_any(desk: Any, deals: bytes) -> None:
    name = desk.put("d.xlsx", deals)
    both = (
        {"column": "Name", "operator": "contains", "value": "a"},
        {"column": "Amount", "operator": "less_than", "value": 0},
    )
    assert _rows(desk.filter(name, *both)) == [5]
    assert _rows(desk.filter(name, *both, match_all=False)) == [2, 3, 4, 5]
    assert _rows(desk.filter(name)) == [2, 3, 4, 5]


def test_ranges_without_headers(desk: Any, deals: bytes) -> None:
    name = desk.put("d.xlsx", deals)
    text = desk.filter(
        name, {"column": "B", "operator": "greater_than", "value": 0}, use_headers=False, cell_range="A2:C4"
    )
    assert text.splitlines()[1] == "\tA\tB\tC"
    assert "3 of 3 rows" in text


def test_diagnostics_say_why(desk: Any, deals: bytes) -> None:
    name = desk.put("d.xlsx", deals)
    text = desk.filter(name, {"column": "Code", "operator": "greater_than", "value": 5}, include_diagnostics=True)
    assert "0 of 4 rows" not in text or "diagnostics" in text
    assert "rows looked at: 4; row 1 taken for headers" in text
    assert "3 text" in text
    assert "1 empty" in text
    nothing = desk.filter(name, {"column": "Name", "operator": "equals", "value": "nobody"})
    assert "0 of 4 rows" in nothing
    assert "values such as Alpha" in nothing


def test_errors_name_what_there_is(desk: Any, deals: bytes) -> None:
    name = desk.put("d.xlsx", deals)
    with pytest.raises(ToolError, match=r"did you mean 'Amount'.*B 'Amount'"):
        desk.filter(name, {"column": "Amonut", "operator": "equals", "value": 1})
    with pytest.raises(ToolError, match="needs a value"):
        desk.filter(name, {"column": "Name", "operator": "equals"})
    with pytest.raises(ToolError, match="give a letter from A to C"):
        desk.filter(name, {"column": "Z", "operator": "equals", "value": 1}, use_headers=False, cell_range="A1:C4")


def test_two_columns_of_one_name_are_told_apart(desk: Any, plain: Callable[..., bytes]) -> None:
    name = desk.put("a.xlsx", plain([["x", "x"], [1, 2]]))
    with pytest.raises(ToolError, match="2 columns are called 'x': A, B"):
        desk.filter(name, {"column": "x", "operator": "equals", "value": 1})
    assert "1 of 1 rows" in desk.filter(name, {"column": "B", "operator": "equals", "value": 2})
