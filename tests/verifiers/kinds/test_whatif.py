"""Numbers that move with their inputs, and those that were typed in; charts over them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import openpyxl
import pytest
from openpyxl.chart import BarChart, LineChart, Reference

Judge = Callable[..., Any]


def model(*, total: object = "=B4*(1+Inputs!B4)", chart: str = "bar") -> dict[str, bytes]:
    book = openpyxl.Workbook()
    inputs = book.active
    inputs.title = "Inputs"
    for row in (["Driver", "Value"], ["Price", 10], ["Units", 3], ["Tax", 0.5]):
        inputs.append(row)
    summary = book.create_sheet("Summary")
    for row in (
        ["Line", "2025"],
        ["Revenue", "=Inputs!B2*Inputs!B3"],
        ["Cost", 6],
        ["Net", "=B2-B3"],
        ["Total", total],
    ):
        summary.append(row)
    drawn = BarChart() if chart == "bar" else LineChart()
    drawn.title = "Result"
    drawn.add_data(Reference(summary, min_col=2, min_row=1, max_row=4), titles_from_data=True)
    drawn.set_categories(Reference(summary, min_col=1, min_row=2, max_row=4))
    if chart != "none":
        summary.add_chart(drawn, "D2")
    out = io.BytesIO()
    book.save(out)
    return {"filesystem/m.xlsx": out.getvalue()}


def cell(*survives: str) -> str:
    head = 'kind = "cell"\npath = "m.xlsx"\nsheet = "Summary"\nrow_label = "Total"\nvalue = 36\n'
    return head + f"survives = [{', '.join(survives)}]"


PRICE = '{sheet = "Inputs", row_label = "Price", %s}'


@pytest.mark.parametrize(
    ("wish", "live", "typed"),
    [
        # (20 x 3 - 6) x 1.5
        ("{change = [%s], value = 81}" % (PRICE % "to = 20"), "p", "f"),
        ("{change = [%s], value = 80}" % (PRICE % "to = 20"), "f", "f"),
        ("{change = [%s], becomes = 'higher'}" % (PRICE % "times = 1.1"), "p", "f"),
        ("{change = [%s], becomes = 'lower'}" % (PRICE % "times = 1.1"), "f", "f"),
        ("{change = [%s], becomes = 'different'}" % (PRICE % "times = 2"), "p", "f"),
        ("{change = [%s], becomes = 'same'}" % (PRICE % "times = 1"), "p", "p"),
        # price and cost doubled: everything is
        ("{change = [%s, {cell = 'B3', sheet = 'Summary', times = 2}], ratio = 2}" % (PRICE % "times = 2"), "p", "f"),
        # an input that is a formula is no input
        ("{change = [{cell = 'B4', sheet = 'Summary', to = 1}], becomes = 'different'}", "f", "f"),
    ],
)
def test_a_typed_in_number_does_not_survive(judge: Judge, wish: str, live: str, typed: str) -> None:
    judged = judge(cell(wish), final=model())
    assert judged.outcomes == live, judged.criteria[0].message
    assert judge(cell(wish), final=model(total=36)).outcomes == typed


def test_the_value_before_is_not_touched(judge: Judge) -> None:
    wish = "{change = [%s], value = 81}" % (PRICE % "to = 20")
    assert judge(cell(wish, wish), cell(wish), final=model()).outcomes == "pp"


@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        ("", "p"),
        ('type = "column"\ntitle = "result"', "p"),
        ('type = "line"', "f"),
        ('title = "Other"', "f"),
        ("min_charts = 2", "f"),
        ('sheet = "Inputs"', "f"),
        ('series = [{name = "2025"}]\nexact_series = true', "p"),
        ('series = [{values_from = "Summary!B2:B4", categories_from = "Summary!$A$2:$A$4"}]', "p"),
        ('series = [{values_from = "Summary!B2:B5"}]', "f"),
        # the formulas' values, which no program has cached
        ('series = [{values = [30, 6, 24], categories = ["Revenue", "Cost", "Net"]}]', "p"),
        ("series = [{values = [30, 6, 25]}]", "f"),
        ('series = [{name = "2025"}, {name = "2024"}]', "f"),
    ],
)
def test_charts(judge: Judge, keys: str, outcome: str) -> None:
    judged = judge('kind = "chart"\npath = "m.xlsx"\n' + keys, final=model())
    assert judged.outcomes == outcome, judged.criteria[0].message


def test_a_workbook_without_charts(judge: Judge) -> None:
    judged = judge('kind = "chart"\npath = "m.xlsx"', final=model(chart="none"))
    assert judged.outcomes == "f"
    assert "0 charts" in judged["0"].message
