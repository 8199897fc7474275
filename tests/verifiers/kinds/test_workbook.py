"""Cells, ranges and sheets: right ones, and those that only look right."""

from __future__ import annotations

import datetime as dt
import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

import openpyxl
import pytest
import xlsxwriter

Judge = Callable[..., Any]
PATH = 'path = "m.xlsx"\n'


def model(change: Callable[[Any], None] = lambda book: None) -> bytes:
    """A small model: inputs, a summary that computes from them, a hidden sheet with stale numbers."""
    book = openpyxl.Workbook()
    inputs = book.active
    inputs.title = "Inputs"
    for row in (["Driver", "Value"], ["Price", 10], ["Units", 1.24], ["Tax", 0.25]):
        inputs.append(row)
    summary = book.create_sheet("Summary")
    for row in (
        ["Line", "2024", "2025"], ["Revenue", 10.0, "=Inputs!B2*Inputs!B3"], ["Cost", 4.0, "=C2*0.5"],
        ["Total:", "=SUM(B2)-B3", "=C2-C3"], ["Net", None, "=C4*(1-Inputs!$B$4)"], ["As of", None, dt.date(2025, 9,
        30)],
        ["Done", None, True], ["Note", None, "Preliminary"],
    ):  # fmt: skip
        summary.append(row)
    old = book.create_sheet("Old")
    old.append(["Line", "2025"])
    old.append(["Total", 99])
    old.sheet_state = "hidden"
    change(book)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def cell(keys: str) -> str:
    return f'kind = "cell"\n{PATH}sheet = "Summary"\n{keys}'


def test_formulas_without_cached_values_are_recalculated(judge: Judge) -> None:
    judged = judge(
        cell('row_label = "Total"\ncolumn_label = "2025"\nvalue = 6.2\nis_formula = true'),
        cell('cell = "C4"\nvalue = 6.2\nreferences = ["Inputs!B2", "Inputs!B3"]\nformula_regex = "^=C2-C3$"'),
        cell('cell = "C5"\nvalue = 4.65\nreferences = ["Inputs!B2:B4"]'),
        cell('cell = "C4"\nvalue = 6.2\nvalue_from = "cached"'),
        cell('cell = "C4"\nvalue = 0\nabs_tol = 100\nvalue_from = "cached"'),
        cell('cell = "C4"\nblank = true\nvalue_from = "cached"'),
        final={"filesystem/m.xlsx": model()},
    )
    # No cache: the value is unknown, which is neither near to anything nor blank.
    assert judged.outcomes == "pppfff"
    assert judged["0"].where == "/filesystem/m.xlsx!Summary!C4"
    assert "unknown" in (judged["3"].actual or "")


def test_values_count_with_their_type(judge: Judge) -> None:
    judged = judge(
        cell('cell = "C6"\nvalue = 2025-09-30'),
        cell('cell = "C6"\nvalue = 45930'),
        cell('cell = "C7"\nvalue = true'),
        cell('cell = "C7"\nvalue = 1'),
        cell('cell = "C8"\nvalue = "preliminary "'),
        cell('cell = "C8"\ncontains = ["prelim"]'),
        cell('cell = "B5"\nblank = true'),
        cell('cell = "C8"\nblank = true'),
        cell('cell = "B2"\nany_of = [12400000, 10]'),
        final={"filesystem/m.xlsx": model()},
    )
    assert judged.outcomes == "pfpfpfpfp"


def test_a_number_stored_as_text_is_no_number(judge: Judge) -> None:
    def as_text(book: Any) -> None:
        book["Summary"]["B2"] = "10.0"

    judged = judge(
        cell('cell = "B2"\nvalue = 10'),
        cell('cell = "B2"\nvalue = 10\ntext_number = true'),
        final={"filesystem/m.xlsx": model(as_text)},
    )
    assert judged.outcomes == "fp"
    assert "stored as text" in judged["0"].message


def test_the_right_value_hard_coded_is_no_formula(judge: Judge) -> None:
    def hard_code(book: Any) -> None:
        book["Summary"]["C4"] = 6.2

    judged = judge(
        cell('cell = "C4"\nvalue = 6.2'),
        cell('cell = "C4"\nvalue = 6.2\nis_formula = true'),
        cell('cell = "C4"\nreferences = ["Inputs!B2"]'),
        cell('cell = "C5"\nreferences = ["Inputs!B2"]'),  # through C4, which is a constant now
        cell('cell = "C5"\nreferences = ["Inputs!B4"]'),
        final={"filesystem/m.xlsx": model(hard_code)},
    )
    assert judged.outcomes == "pfffp"
    assert "constant" in judged["1"].message


def test_the_wrong_sheet_and_the_hidden_one_don_t_count(judge: Judge) -> None:
    def unhide(book: Any) -> None:
        book["Summary"].sheet_state = "veryHidden"

    checks = (
        f'kind = "cell"\n{PATH}sheet = "Old"\nrow_label = "Total"\ncolumn_label = "2025"\nvalue = 99',
        f'kind = "cell"\n{PATH}sheet = "Old"\nrow_label = "Total"\ncolumn_label = "2025"\nvalue = 99\nvisible = false',
        f'kind = "cell"\n{PATH}row_label = "Total"\ncolumn_label = "2025"\nvalue = 6.2',
        cell('cell = "C4"\nvalue = 6.2'),
        f'kind = "cell"\n{PATH}sheet = "Sumary"\ncell = "C4"\nvalue = 6.2',
    )
    judged = judge(*checks, final={"filesystem/m.xlsx": model()})
    assert judged.outcomes == "fpppf"
    assert "did you mean 'Summary'" in judged["4"].message
    assert judge(*checks, final={"filesystem/m.xlsx": model(unhide)}).outcomes == "fpfff"


def test_hidden_rows_and_columns_are_told(judge: Judge) -> None:
    def hide(book: Any) -> None:
        book["Summary"].row_dimensions[4].hidden = True
        book["Summary"].column_dimensions["B"].hidden = True

    judged = judge(
        cell('cell = "C4"\nvalue = 6.2'), cell('cell = "B2"\nvalue = 10'), cell('cell = "C2"\nvalue = 12.4'),
        final={"filesystem/m.xlsx": model(hide)},
    )  # fmt: skip
    assert judged.outcomes == "ffp"
    assert "row 4 is hidden" in judged["0"].message


def with_caches(total: float) -> bytes:
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out)
    sheet = book.add_worksheet("Summary")
    sheet.write("A1", 2)
    sheet.write("A2", 3)
    sheet.write_formula("A3", "=A1+A2", None, total)
    sheet.write_formula("A4", "=CUBEVALUE(1)", None, 7)
    sheet.write_formula("A5", "=NOSUCH(1)", None, 7)
    book.close()
    return out.getvalue()


def test_a_stale_cache_is_not_believed(judge: Judge) -> None:
    judged = judge(
        cell('cell = "A3"\nvalue = 5'),
        cell('cell = "A3"\nvalue = 103'),
        cell('cell = "A3"\nvalue = 103\nvalue_from = "cached"'),
        cell('cell = "A4"\nvalue = 7'),  # a function the engine has not: the cache is all there is
        cell('cell = "A4"\nvalue = 7\nvalue_from = "recalculated"'),
        cell('cell = "A5"\nvalue = 7'),  # a function that nobody has: an error, whatever a cache says
        final={"filesystem/m.xlsx": with_caches(103)},
    )
    assert judged.outcomes == "pfppff"
    assert "#NAME?" in (judged["5"].actual or "")


def test_ranges_and_columns(judge: Judge) -> None:
    def block(keys: str) -> str:
        return f'kind = "range"\n{PATH}sheet = "Summary"\n{keys}'

    judged = judge(
        block('range = "C2:C4"\nsum = 24.8\nall_formulas = true\nall_numbers = true\ncount = 3'),
        block('range = "B2:B4"\nvalues = [10, 4, 6]'),
        block('range = "B2:B4"\nvalues = [4, 6, 10]'),
        block('range = "B2:B4"\nvalues = [4, 6, 10]\nany_order = true'),
        block('range = "B2:C3"\nall_formulas = true'),
        block('column = "2025"\ncount = 7'),
        block('range = "C2:C8"\nall_numbers = true'),
        block('column = "2026"\ncount = 7'),
        final={"filesystem/m.xlsx": model()},
    )
    assert judged.outcomes == "ppfpfpff"


def test_sheets(judge: Judge) -> None:
    def sheet(keys: str) -> str:
        return f'kind = "sheet"\n{PATH}{keys}'

    def broken(book: Any) -> None:
        book["Summary"]["D4"] = "=1/0"

    judged = judge(
        sheet(
            'sheet = " summary"\nheader = ["Line", "2025"]\nrows = 7\nmin_formulas = 4\nno_errors = true\n'
            "visible = true"
        ),
        sheet('sheet = "Summary"\nheader = ["2025", "Line"]'),
        sheet('sheet = "Old"\nvisible = true'),
        sheet('sheet = "New"'),
        sheet('sheet = "New"\nexists = false'),
        sheet('sheet = "Summary"\nexists = false'),
        final={"filesystem/m.xlsx": model()},
    )
    assert judged.outcomes == "pfffpf"
    judged = judge(sheet('sheet = "Summary"\nno_errors = true'), final={"filesystem/m.xlsx": model(broken)})
    assert judged.outcomes == "f"
    assert "Summary!D4" in judged["0"].message


def test_defined_names(judge: Judge) -> None:
    def name(book: Any) -> None:
        book.defined_names["NetIncome"] = openpyxl.workbook.defined_name.DefinedName(
            "NetIncome", attr_text="Summary!$C$5"
        )

    check = f'kind = "cell"\n{PATH}name = "netincome"\nvalue = 4.65'
    assert judge(check, final={"filesystem/m.xlsx": model(name)}).outcomes == "p"
    assert judge(check, final={"filesystem/m.xlsx": model()}).outcomes == "f"


def test_one_formula_that_can_t_be_bound_does_not_take_the_others_along(judge: Judge) -> None:
    def poison(book: Any) -> None:
        book["Summary"]["E1"] = "=[1]Other!A1"
        book["Summary"]["E2"] = "=SUM("

    judged = judge(
        cell('cell = "C4"\nvalue = 6.2'), cell('cell = "E1"\nvalue = 0'), final={"filesystem/m.xlsx": model(poison)}
    )
    assert judged.outcomes == "pf"


def test_volatile_functions_see_the_fixed_clock(judge: Judge) -> None:
    def today(book: Any) -> None:
        book["Summary"]["E1"] = "=TODAY()"
        book["Summary"]["E1"].number_format = "yyyy-mm-dd"

    assert judge(cell('cell = "E1"\nvalue = 2026-01-15'), final={"filesystem/m.xlsx": model(today)}).outcomes == "p"


def test_a_cell_in_the_far_corner_costs_nothing(judge: Judge) -> None:
    def corner(book: Any) -> None:
        book["Summary"]["XFD1048576"] = 1

    judged = judge(
        cell('cell = "B2"\nvalue = 10'), cell('cell = "XFD1048576"\nvalue = 1'), cell('cell = "C4"\nvalue = 6.2'),
        f'kind = "range"\n{PATH}sheet = "Summary"\nrange = "A1:XFD1048576"\nsum = 100',
        final={"filesystem/m.xlsx": model(corner)},
    )  # fmt: skip
    assert judged.outcomes == "pppf"


def rewrite(data: bytes, part: str, change: Callable[[str], str]) -> bytes:
    """The same package with one part's text changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, change(content.decode()).encode() if re.fullmatch(part, name) else content)
    return out.getvalue()


def test_shared_formulas_are_filled_down(judge: Judge) -> None:
    book = openpyxl.Workbook()
    book.active.title = "Summary"
    for row in range(1, 4):
        book.active[f"A{row}"] = row
        book.active[f"B{row}"] = f"=A{row}*2"
    out = io.BytesIO()
    book.save(out)

    def share(xml: str) -> str:
        xml = xml.replace("<f>A1*2</f>", '<f t="shared" ref="B1:B3" si="0">A1*2</f>')
        return xml.replace("<f>A2*2</f>", '<f t="shared" si="0"/>').replace("<f>A3*2</f>", '<f t="shared" si="0"/>')

    data = rewrite(out.getvalue(), "xl/worksheets/sheet1.xml", share)
    judged = judge(
        cell('cell = "B3"\nvalue = 6\nformula_regex = "^=A3\\\\*2$"\nreferences = ["A3"]'),
        final={"filesystem/m.xlsx": data},
    )
    assert judged.outcomes == "p"


@pytest.mark.parametrize("prefix", ["strict"])
def test_strict_open_xml_is_read(judge: Judge, prefix: str) -> None:
    def strict(xml: str) -> str:
        xml = xml.replace(
            "http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://purl.oclc.org/ooxml/spreadsheetml/main"
        )
        return xml.replace(
            "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
            "http://purl.oclc.org/ooxml/officeDocument/relationships",
        )

    judged = judge(
        cell('cell = "B2"\nvalue = 10'), final={"filesystem/m.xlsx": rewrite(model(), r".*\.(xml|rels)", strict)}
    )
    assert judged.outcomes == "p"
