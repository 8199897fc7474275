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


def calendar_model(*, due: object = "=B1+B2", rate: object = "=ROUND(B4*B5,2)") -> dict[str, bytes]:
    import datetime as dt

    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["Start", dt.date(2026, 1, 10)], ["Days", 30], ["Due", due], ["Base", 200], ["Share", 0.1234]):
        sheet.append(row)
    sheet.append(["Fee", rate])
    sheet.append(["Ratio", "=B4/B8"])
    sheet.append(["By", 4])
    sheet["B1"].number_format = sheet["B3"].number_format = "yyyy-mm-dd"
    sheet["B5"].number_format = "0%"
    out = io.BytesIO()
    book.save(out)
    return {"filesystem/m.xlsx": out.getvalue()}


def of(label: str, keys: str) -> str:
    return f'kind = "cell"\npath = "m.xlsx"\nrow_label = "{label}"\n{keys}'


SHOWN = [
    # dates are compared as dates, and can be put in
    (of("Due", "value = 2026-02-09\nsurvives = [{change = [{cell = 'B2', to = 31}], value = 2026-02-10}]"), "p"),
    (of("Due", "survives = [{change = [{cell = 'B1', to = 2026-03-01}], value = 2026-03-31}]"), "p"),
    (of("Due", "survives = [{change = [{cell = 'B1', to = 2026-03-01}], value = 2026-03-30}]"), "f"),
    (of("Due", "survives = [{change = [{cell = 'B2', to = 31}], becomes = 'higher'}]"), "p"),
    (of("Due", "survives = [{change = [{cell = 'B2', to = 31}], value = 46063}]"), "f"),
    # the tolerance of the check holds where the wish states none
    (of("Fee", "abs_tol = 0.5\nsurvives = [{change = [{cell = 'B4', to = 300}], value = 37}]"), "p"),
    (
        of("Fee", "abs_tol = 0.5\nsurvives = [{change = [{cell = 'B4', to = 300}], value = 37, abs_tol = 0.01}]"),
        "f",
    ),
    (of("Fee", "abs_tol = 0.5\nsurvives = [{change = [{cell = 'B4', to = 201}], becomes = 'different'}]"), "f"),
    # an error is one, also as a wish
    (of("Ratio", "survives = [{change = [{cell = 'B8', to = 0}], value = '#DIV/0!'}]"), "p"),
]


def test_values_then_are_compared_as_the_cell_shows_them(judge: Judge) -> None:
    judged = judge(*(check for check, _ in SHOWN), final=calendar_model())
    for (check, outcome), criterion in zip(SHOWN, judged.criteria, strict=True):
        assert criterion.outcome[0] == outcome, (check, criterion.message)


def table_model() -> dict[str, bytes]:
    """Written by a program that knows tables: formulas name their columns."""
    import xlsxwriter

    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True})
    sheet = book.add_worksheet("Data")
    sheet.add_table(
        "A1:C5",
        {
            "name": "Sales",
            "total_row": True,
            "columns": [
                {"header": "Item", "total_string": "Total"},
                {"header": "Amount", "total_function": "sum"},
                {"header": "Net", "formula": "=[@Amount]*0.8"},
            ],
            "data": [["a", 10], ["b", 20], ["c", 30]],
        },
    )
    summary = book.add_worksheet("Summary")
    summary.write_row(0, 0, ["Total"])
    summary.write_formula("B1", "=SUM(Sales[Net])")
    summary.write_formula("B2", "=SUM(Sales[Amount])")
    summary.write_formula("B3", "=Sales[[#Totals],[Amount]]")
    book.close()
    return {"filesystem/m.xlsx": out.getvalue()}


REFERENCES = [
    ("Summary!B2", "Sales[Amount]", "p"),
    ("Summary!B2", "Data!B2:B4", "p"),
    ("Summary!B2", "Data!B2:B5", "f"),
    ("Summary!B2", "Sales[Net]", "f"),
    ("Summary!B1", "Sales[Amount]", "p"),  # by way of a column of formulas over their own rows
    ("Summary!B3", "Data!B5", "p"),
    ("Data!C3", "Data!B3", "p"),
    ("Data!C3", "Data!B4", "f"),
    ("Summary!B2", "Sales[[Item]:[Net]]", "f"),
]


def test_formulas_may_name_tables(judge: Judge) -> None:
    checks = []
    for cell, reference, _ in REFERENCES:
        sheet, _, address = cell.partition("!")
        checks.append(
            f'kind = "cell"\npath = "m.xlsx"\nsheet = "{sheet}"\ncell = "{address}"\nreferences = ["{reference}"]'
        )
    judged = judge(*checks, final=table_model())
    for (cell, reference, outcome), criterion in zip(REFERENCES, judged.criteria, strict=True):
        assert criterion.outcome[0] == outcome, (cell, reference, criterion.message)


def deck_and_document() -> dict[str, bytes]:
    """The same chart in a deck (made by python-pptx) and, as a part of its own, in a document."""
    import docx
    import pptx
    from docx.opc.packuri import PackURI
    from docx.opc.part import Part
    from docx.oxml import parse_xml
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    data = CategoryChartData()
    data.categories = ["North", "South"]
    data.add_series("2025", (12.5, 8))
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[6])
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    frame = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 4_000_000, 3_000_000, data)
    frame.chart.has_title = True
    frame.chart.chart_title.text_frame.text = "Sales by region"
    frame.chart.value_axis.has_title = True
    frame.chart.value_axis.axis_title.text_frame.text = "EUR m"
    document = docx.Document()
    xml = frame.chart.part.blob
    kind = "application/vnd.openxmlformats-officedocument.drawingml.chart+xml"
    part = Part(PackURI("/word/charts/chart1.xml"), kind, xml, document.part.package)
    id = document.part.relate_to(part, "http://schemas.openxmlformats.org/officeDocument/2006/relationships/chart")
    drawing = (
        '<w:drawing xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
        'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
        'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
        'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><wp:inline>'
        '<wp:extent cx="4000000" cy="3000000"/><wp:docPr id="1" name="Chart 1"/><a:graphic><a:graphicData '
        f'uri="http://schemas.openxmlformats.org/drawingml/2006/chart"><c:chart r:id="{id}"/></a:graphicData>'
        "</a:graphic></wp:inline></w:drawing>"
    )
    cell = document.add_table(1, 1).cell(0, 0)
    cell.paragraphs[0].add_run()._r.append(parse_xml(drawing))
    out = {}
    for name, file in (("d.pptx", deck), ("d.docx", document)):
        stream = io.BytesIO()
        file.save(stream)
        out[f"filesystem/{name}"] = stream.getvalue()
    return out


CHARTS = [
    ('type = "column"\ntitle = "sales by region"', "p"),
    ('type = "pie"', "f"),
    ('axis_titles = ["EUR m"]', "p"),
    ('axis_titles = ["USD m"]', "f"),
    ('series = [{name = "2025", values = [12.5, 8], categories = ["North", "South"]}]\nexact_series = true', "p"),
    ("series = [{values = [12.5, 9]}]", "f"),
    ('series = [{values_from = "Sheet1!B2:B3"}]', "p"),
    ("min_charts = 2", "f"),
]


@pytest.mark.parametrize("name", ["d.pptx", "d.docx"])
def test_charts_of_decks_and_documents(judge: Judge, name: str) -> None:
    judged = judge(*(f'kind = "chart"\npath = "{name}"\n{keys}' for keys, _ in CHARTS), final=deck_and_document())
    for (keys, outcome), criterion in zip(CHARTS, judged.criteria, strict=True):
        assert criterion.outcome[0] == outcome, (keys, criterion.message)


def test_charts_on_one_slide(judge: Judge) -> None:
    checks = [f'kind = "chart"\npath = "d.pptx"\nslide = {number}' for number in (1, 2, 3)]
    judged = judge(*checks, final=deck_and_document())
    assert judged.outcomes == "fpf"
    assert "there is no slide 3" in judged["2"].message
