"""An edit loses nothing that was in the file: what libraries drop is there, untouched parts byte for byte."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from lxml import etree

from envkit.harnesses.archipelago.servers.sheets.grid import _ORDER, _rank
from envkit.verifiers.diff import Finding

OPERATIONS: list[dict[str, Any]] = [
    {"type": "set_cell", "sheet": "Data", "cell": "B2", "value": 100},
    {"type": "append_rows", "sheet": "Data", "rows": [["New", 1, 2]]},
    {"type": "rename_sheet", "sheet": "Data", "new_name": "Renamed"},
    {"type": "format_cells", "sheet": "Data", "range": "A1:D1", "font_bold": True, "fill_color": "FF0000"},
    {"type": "merge_cells", "sheet": "Data", "range": "A30:B30"},
    {"type": "unmerge_cells", "sheet": "My Calc", "range": "A8:C8"},
    {"type": "set_column_width", "sheet": "Data", "column": "B", "width": 30},
    {"type": "set_row_height", "sheet": "Data", "row": 2, "height": 30},
    {"type": "freeze_panes", "sheet": "Data", "cell": "A2"},
    {"type": "add_named_range", "name": "zz", "sheet": "Data", "range": "A1"},
    {"type": "delete_named_range", "name": "quarter"},
    {"type": "add_data_validation", "sheet": "Data", "range": "B2:B5", "validation_type": "whole", "formula1": "1",
     "formula2": "9"},
    {"type": "add_conditional_formatting", "sheet": "Data", "range": "B2:B5", "rule_type": "duplicateValues",
     "fill_color": "FF0000"},
    {"type": "set_auto_filter", "sheet": "Data", "range": "A1:D5"},
    {"type": "set_number_format", "sheet": "Data", "range": "B2:B5", "format": "0.0"},
    {"type": "add_image", "sheet": "Data", "image_path": "/dot.png", "cell": "H30"},
]  # fmt: skip

#: Kinds of findings that each operation is asked to make, beyond derived values.
ASKED = {
    "set_cell": {"cell.value"},
    "append_rows": {"row"},
    "rename_sheet": {
        "sheet.name",
        "name",
        "sheet.print_area",
        "sheet.print_titles",
        "pivot.source",
        "pivot",
        "hyperlink",
    },
    "format_cells": {"cell.style"},
    "merge_cells": {"merge"},
    "unmerge_cells": {"merge"},
    "set_column_width": {"column.width"},
    "set_row_height": set(),
    "freeze_panes": {"sheet.freeze"},
    "add_named_range": {"name"},
    "delete_named_range": {"name"},
    "add_data_validation": {"validation"},
    "add_conditional_formatting": {"conditional_format"},
    "set_auto_filter": {"sheet.filter"},
    "set_number_format": {"cell.style", "cell.format", "cell.number_format"},
    "add_image": {"picture", "image"},
}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: o["type"])
def test_each_operation_changes_what_was_asked_and_keeps_the_rest(
    desk: Any, rich_macros: bytes, picture: bytes, operation: dict[str, Any], difference: Callable[..., list[Finding]]
) -> None:
    name = desk.put("r.xlsm", rich_macros)
    desk.put("dot.png", picture)
    before = desk.parts(name)
    desk.edit(name, operation)
    after = desk.parts(name)
    _check_order(after)
    assert set(before) - set(after) <= {"xl/calcChain.xml"}
    for part in ("xl/vbaProject.bin", "xl/threadedComments/threadedComment1.xml", "xl/persons/person.xml",
                 "xl/pivotTables/pivotTable1.xml", "xl/media/image1.png", "xl/comments1.xml", "xl/theme/theme1.xml",
                 "xl/drawings/vmlDrawing1.vml", "xl/worksheets/sheet3.xml", "docProps/core.xml"):  # fmt: skip
        assert after[part] == before[part], part
    for part, pieces in {
        "xl/worksheets/sheet1.xml": ["sparkline", "x14:conditionalFormatting", "dataValidation ", "legacyDrawing ",
                                     "<drawing ", "headerFooter", "pageSetup"],
        "xl/worksheets/sheet2.xml": ["tablePart ", "hyperlink ", "pane "],
        "xl/drawings/drawing1.xml": ["graphicFrame", "look here", "xdr:pic"],
        "xl/workbook.xml": ["pivotCaches", "definedNames"],
        "xl/charts/chart1.xml": ["dLbls", "Q1 by region"],
    }.items():  # fmt: skip
        for piece in pieces:
            assert piece in after[part].decode(), (part, piece)
    found = [f for f in difference(rich_macros, desk.bytes(name), "r.xlsm") if not f.kind.endswith(".derived")]
    asked = ASKED[operation["type"]]
    assert not [f"{f.where} {f.kind} {f.before} -> {f.after}" for f in found if f.kind not in asked]
    assert found or not asked


def _check_order(parts: dict[str, bytes]) -> None:
    """Excel calls a sheet whose elements stand in another order damaged."""
    for part, data in parts.items():
        if part.startswith("xl/worksheets/sheet"):
            root = etree.fromstring(data)
            ranks = [_rank(child) for child in root]
            assert ranks == sorted(ranks)
            assert max(ranks) < len(_ORDER)
            rows = [int(r.get("r")) for r in root.iter("{*}row")]
            assert rows == sorted(set(rows))


def test_all_counts_and_references_hold_after_many_edits(desk: Any, rich: bytes, picture: bytes) -> None:
    name = desk.put("r.xlsx", rich)
    desk.put("dot.png", picture)
    desk.edit(name, *OPERATIONS[:2], *OPERATIONS[3:])
    parts = desk.parts(name)
    styles = etree.fromstring(parts["xl/styles.xml"])
    sizes = {}
    for table in styles:
        if table.get("count"):
            sizes[etree.QName(table).localname] = len(table)
            assert int(table.get("count")) == len(table), table.tag
    for xf in styles.find("{*}cellXfs"):
        assert int(xf.get("fontId")) < sizes["fonts"]
        assert int(xf.get("fillId")) < sizes["fills"]
        assert int(xf.get("borderId")) < sizes["borders"]
    strings = etree.fromstring(parts["xl/sharedStrings.xml"])
    assert int(strings.get("uniqueCount")) == len(strings)
    types = parts["[Content_Types].xml"].decode()
    for part in re.findall(r'PartName="/([^"]+)"', types):
        assert part in parts, part
    for part, data in parts.items():
        if part.startswith("xl/worksheets/sheet"):
            root = etree.fromstring(data)
            for cell in root.iter("{*}c"):
                assert int(cell.get("s", "0")) < sizes["cellXfs"]
                if cell.get("t") == "s":
                    assert int(cell.findtext("{*}v")) < len(strings)
            priorities = [
                int(r.get("priority"))
                for r in root.iter("{http://schemas.openxmlformats.org/spreadsheetml/2006/main}cfRule")
            ]
            assert len(priorities) == len(set(priorities))


def test_a_chart_shows_the_new_values_to_who_does_not_compute(desk: Any, rich: bytes) -> None:
    name = desk.put("r.xlsx", rich)
    desk.edit(name, {"type": "set_cell", "sheet": "Data", "cell": "B2", "value": 123})
    chart = desk.parts(name)["xl/charts/chart1.xml"].decode()
    assert ">123<" in chart
    assert "dLbls" in chart
    pivot = desk.parts(name)["xl/pivotCache/pivotCacheDefinition1.xml"].decode()
    assert 'refreshOnLoad="1"' in pivot


def test_a_strict_workbook_stays_strict(desk: Any, corpus: Any) -> None:
    name = desk.put("s.xlsx", (corpus / "xlsx/poi--SampleSS.strict.xlsx").read_bytes())
    before = desk.book(name)
    desk.edit(name, {"type": "set_cell", "sheet": before.sheets[0].name, "cell": "H1", "value": "new"})
    parts = desk.parts(name)
    assert all(
        b"purl.oclc.org/ooxml" in parts[p] for p in ("xl/workbook.xml", "xl/worksheets/sheet1.xml", "xl/styles.xml")
    )
    assert not [p for p, d in parts.items() if b"openxmlformats.org/spreadsheetml/2006" in d]
    assert desk.value(name, before.sheets[0].name, "H1") == "new"


def test_a_formula_that_can_not_be_computed_loses_an_old_value_only_where_it_depends_on_the_edit(
    desk: Any, make: Callable[..., bytes]
) -> None:
    def build(book: Any) -> None:
        sheet = book.add_worksheet("S")
        sheet.write_column("A1", [1, 2])
        sheet.write_formula("B1", "=CUBEVALUE(A1,1)", None, 11)
        sheet.write_formula("B2", "=CUBEVALUE(A2,1)", None, 22)
        sheet.write_formula("B3", "=B1+CUBEVALUE(9,9)", None, 33)

    name = desk.put("a.xlsx", make(build))
    result = desk.edit(name, {"type": "set_cell", "sheet": "S", "cell": "A1", "value": 5})
    assert any("2 formulas" in warning for warning in result.warnings)
    assert [str(desk.value(name, "S", f"B{r}")) for r in (1, 2, 3)] == ["unknown", "22.0", "unknown"]
    assert "1\t5\t#not-calculated" in desk.read(name)
    assert 'fullCalcOnLoad="1"' in desk.parts(name)["xl/workbook.xml"].decode()


def test_an_edit_of_looks_alone_does_not_touch_values(desk: Any, rich: bytes) -> None:
    name = desk.put("r.xlsx", rich)
    before = desk.parts(name)
    desk.edit(name, {"type": "set_column_width", "sheet": "Data", "column": "B", "width": 30})
    after = desk.parts(name)
    changed = {part for part in before if after.get(part) != before[part]}
    assert changed <= {"xl/worksheets/sheet1.xml", "xl/workbook.xml"}
    assert "xl/calcChain.xml" in after


def test_stored_values_that_no_edit_concerns_stay_but_those_of_libraries_are_replaced(
    desk: Any, make: Callable[..., bytes]
) -> None:
    def build(book: Any) -> None:
        sheet = book.add_worksheet("S")
        sheet.write_column("A1", [1, 2])
        sheet.write_formula("B1", "=A1*10", None, 777)  # as if another program computed it otherwise

    def stored(name: str) -> Any:
        return desk.value(name, "S", "B1", "cached")

    edit = {"type": "set_cell", "sheet": "S", "cell": "A2", "value": 5}
    data = make(build)
    library = desk.put("library.xlsx", data)
    desk.edit(library, edit)
    assert stored(library) == 10
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            part = old.read(info)
            new.writestr(info, part.replace(b'calcId="124519" fullCalcOnLoad="1"', b'calcId="191029"'))
    excel = desk.put("excel.xlsx", out.getvalue())
    desk.edit(excel, edit)
    desk.edit(excel, {**edit, "value": 6})
    assert stored(excel) == 777
    desk.edit(excel, {**edit, "cell": "A1"})
    assert stored(excel) == 50
