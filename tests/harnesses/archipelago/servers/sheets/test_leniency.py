"""What models mix up harmlessly: a tab by its name, a range that names the tab, signs as operators, a table below a
title. All of it through the declared tools, as the server calls them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.calling import call_meta, call_tool
from envkit.harnesses.archipelago.servers.results import Outcome
from envkit.harnesses.archipelago.servers.sheets import APP
from envkit.office.workbook.cells import Source


@pytest.fixture
def call(desk: Any, make: Callable[..., bytes]) -> Callable[..., Outcome]:
    def build(book: Any) -> None:
        book.add_worksheet("Notes").write("A1", "nothing")
        sheet = book.add_worksheet("Months")
        sheet.write("A1", "Balance sheet items")
        sheet.write("A2", "USD thousand")
        sheet.write_row("A4", ["Month end", "Cash"])
        for row, (month, cash) in enumerate((("2025-10", 5), ("2025-11", 7), ("2025-12", 9)), 4):
            sheet.write_row(row, 0, [month, cash])

    desk.put("a.xlsx", make(build))

    def made(action: str, **fields: Any) -> Outcome:
        return call_meta(APP, "sheets", {"action": action, "file_path": "/a.xlsx", **fields}, desk.context)

    return made


@pytest.mark.parametrize(
    "which",
    [
        {"tab_index": 1},
        {"tab_index": "1"},
        {"tab_index": "Months"},
        {"tab_index": "months"},
        {"tab_name": "Months"},
        {"sheet": "Months"},
        {"sheet_name": "Months"},
        {"cell_range": "Months!A4:B7"},
        {"cell_range": "'Months'!A4:B7"},
    ],
)
def test_a_tab_by_its_place_or_name(call: Callable[..., Outcome], which: dict[str, Any]) -> None:
    made = call("read_tab", **which)
    assert not made.error, made.text
    assert "'Months' (tab 1 of 2)" in made.text
    assert "2025-11" in made.text


@pytest.mark.parametrize("which", [{"tab_name": "Month"}, {"tab_index": "Month"}])
def test_a_name_that_is_none_is_told_with_those_there_are(call: Callable[..., Outcome], which: dict[str, Any]) -> None:
    made = call("read_tab", **which)
    assert made.error
    assert "did you mean 'Months'" in made.text
    assert "0 'Notes', 1 'Months'" in made.text


@pytest.mark.parametrize("index", [-1, 1.5, True, ""])
def test_what_is_no_place_is_refused(call: Callable[..., Outcome], index: Any) -> None:
    assert call("read_tab", tab_index=index).error


def test_two_different_ways_to_name_the_tab_are_not_guessed_at(call: Callable[..., Outcome]) -> None:
    made = call("read_tab", tab_index=0, tab_name="Months")
    assert made.error
    assert "tab_name" in made.text


def test_individual_tools_and_operations_take_the_same(call: Callable[..., Outcome], desk: Any) -> None:
    made = call_tool(APP, "read_tab", {"path": "/a.xlsx", "sheet_name": "Months"}, desk.context)
    assert not made.error
    assert "2025-11" in made.text
    operation = {"type": "set_cell", "sheet_name": "Months", "cell": "B7", "value": 11}
    assert not call("edit", operations=[operation]).error
    assert desk.value("a.xlsx", "Months", "B7") == 11
    assert not call("add_content", sheet="Months", cell="B7", value="12").error
    assert desk.value("a.xlsx", "Months", "B7") == 12


@pytest.mark.parametrize(("sign", "rows"), [(">=", [6, 7]), (">", [7]), ("==", [6]), ("!=", [5, 7]), ("lt", [5])])
def test_signs_are_operators_and_the_table_may_begin_below_a_title(
    call: Callable[..., Outcome], sign: str, rows: list[int]
) -> None:
    made = call("filter_tab", tab_name="Months", filters=[{"column": "cash", "operator": sign, "value": 7}])
    assert not made.error, made.text
    assert "row 4 names the columns" in made.text
    assert [row for row in (5, 6, 7) if f"\\n{row}\\t" in made.text] == rows


def test_a_wrong_value_is_told_without_a_list_of_all_fields(call: Callable[..., Outcome]) -> None:
    made = call("read_tab", tab_index=1, max_rows="many")
    assert made.error
    assert "`max_rows` must be a whole number" in made.text
    assert "chart_type" not in made.text


def test_names_of_choices_may_be_spelt_otherwise(call: Callable[..., Outcome]) -> None:
    rule = {"type": "add_conditional_formatting", "sheet": "Months", "range": "B5:B7", "rule_type": "cell_is",
            "operator": "greater_than", "formula": 6, "fill_color": "FFFF00"}  # fmt: skip
    made = call("edit", operations=[rule])
    assert not made.error, made.text


@pytest.mark.parametrize(
    ("cell", "given", "kept"),
    [
        ("B7", "26.10", 26.1),
        ("B7", "-3", -3),
        ("B7", "007", "007"),
        ("B7", "'26.10", "'26.10"),
        ("A5", "26.10", "26.10"),
    ],
)
def test_digits_in_quotes_replace_a_number_by_a_number(
    call: Callable[..., Outcome], desk: Any, cell: str, given: str, kept: Any
) -> None:
    made = call("edit", operations=[{"type": "set_cell", "sheet": "Months", "cell": cell, "value": given}])
    assert not made.error, made.text
    assert desk.value("a.xlsx", "Months", cell) == kept


def test_a_formula_may_be_called_so(call: Callable[..., Outcome], desk: Any) -> None:
    made = call("edit", operations=[{"type": "set_cell", "sheet": "Months", "cell": "B8", "formula": "=SUM(B5:B7)"}])
    assert not made.error, made.text
    assert desk.value("a.xlsx", "Months", "B8") == 21


def test_an_empty_list_is_told_in_plain_words(call: Callable[..., Outcome]) -> None:
    made = call("edit", operations=[])
    assert made.error
    assert "`operations` needs at least one item" in made.text


def test_the_tabs_of_a_workbook_that_is_too_big_are_listed_and_read_one_by_one(
    call: Callable[..., Outcome], desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envkit.office.workbook.read.Source", partial(Source, budget=9))
    made = call("list_tabs")
    assert not made.error, made.text
    assert "0\\t'Notes'" in made.text
    assert "1\\t'Months'" in made.text
    assert "each tab is read by itself" in made.text
    assert not call("read_tab", tab_index=0).error
    assert "too big" in call("read_tab", tab_index=1).text


def test_nothing_is_left_beside_the_workbook(call: Callable[..., Outcome], desk: Any) -> None:
    for value in (1, "=B5*2", "=NOSUCH(", {"x": 1}):
        call("edit", operations=[{"type": "set_cell", "sheet": "Months", "cell": "C5", "value": value}])
        call("read_tab", tab_index=1)
    assert [path.name for path in desk.root.rglob("*")] == ["a.xlsx"]


def test_null_empties_a_cell_in_both_modes(call: Callable[..., Outcome], desk: Any) -> None:
    operation = {"type": "set_cell", "sheet": "Months", "cell": "B5", "value": None}
    assert not call("edit", operations=[operation]).error
    assert desk.value("a.xlsx", "Months", "B5") is None
    made = call_tool(
        APP, "edit_spreadsheet", {"file_path": "/a.xlsx", "operations": [{**operation, "cell": "B6"}]}, desk.context
    )
    assert not made.error, made.text
    assert desk.value("a.xlsx", "Months", "B6") is None


def test_it_is_told_where_formulas_stand(call: Callable[..., Outcome]) -> None:
    assert "formulas" not in call("read_tab", tab_index=1).text
    cells = [("C5", "=B5*2"), ("C6", "=B6*2"), ("B8", "=SUM(B5:B7)")]
    call("edit", operations=[{"type": "set_cell", "sheet": "Months", "cell": c, "value": v} for c, v in cells])
    assert "formulas: B8, C5:C6 (include_formulas=true shows them)" in call("read_tab", tab_index=1).text
    assert "formulas:" not in call("read_tab", tab_index=1, include_formulas=True).text
