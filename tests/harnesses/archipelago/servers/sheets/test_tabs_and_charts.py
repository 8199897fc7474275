"""Making workbooks, adding and deleting tabs, charts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openpyxl
import pytest

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.sheets import writing
from envkit.harnesses.archipelago.servers.sheets.models import DeleteSpreadsheet
from envkit.office.problem import Unreadable


def test_create(desk: Any) -> None:
    made = desk.create(
        "plan",
        {"name": "Sum", "headers": ["What", "Value"], "rows": [["Total", "=SUM(Data!B2:B3)"], ["Due", "2024-03-15"]]},
        {"name": "Data", "headers": ["Item", "Cost"], "rows": [["a", 1.5], ["b", 2], ["007", None], [True, ""]]},
        directory="/new/folder",
    )
    assert (made.file_path, made.sheets_created) == ("/new/folder/plan.xlsx", 2)
    assert desk.value(made.file_path, "Sum", "B2", "cached") == 3.5
    assert any("'007' is stored as text" in warning for warning in made.warnings)
    sheet = openpyxl.load_workbook(desk.root / "new/folder/plan.xlsx", data_only=True)["Sum"]
    assert sheet["A1"].font.b
    assert not sheet["A2"].font.b
    assert sheet["B3"].is_date
    assert sheet["B2"].value == 3.5
    with pytest.raises(ToolError, match="exists already"):
        desk.create("plan.xlsx", {"name": "x", "rows": []}, directory="/new/folder")


@pytest.mark.parametrize(
    ("name", "sheets", "why"),
    [
        ("a.xls", [{"name": "x"}], "ends in .xlsx"),
        ("../a.xlsx", [{"name": "x"}], "no name of a file"),
        ("a.xlsx", [{"name": "x"}, {"name": "X"}], "already"),
        ("a.xlsx", [{"name": "a:b"}], "none of"),
        ("a.xlsx", [{"name": "x", "rows": [["=SUM("]]}], "x!A1.*no formula"),
    ],
)
def test_create_refuses(desk: Any, name: str, sheets: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(ToolError, match=why):
        desk.create(name, *sheets)
    assert list(desk.root.iterdir()) == []


def test_many_rows(desk: Any) -> None:
    rows = [[n, f"name {n}", n * 1.5, f"=A{n + 2}*2"] for n in range(600)]
    made = desk.create("big.xlsx", {"name": "Data", "headers": ["n", "name", "x", "twice"], "rows": rows})
    assert desk.value(made.file_path, "Data", "D601", "cached") == 1198


def test_delete(desk: Any, plain: Callable[..., bytes]) -> None:
    def delete(path: str) -> Any:
        return writing.delete_spreadsheet(DeleteSpreadsheet(file_path=path), desk.context)

    name = desk.put("a.xlsx", plain([[1]]))
    assert delete(name).message == "deleted /a.xlsx"
    assert not (desk.root / "a.xlsx").exists()
    with pytest.raises(ToolError, match="there is no"):
        delete(name)
    desk.put("notes.docx", b"x")
    with pytest.raises(ToolError, match="not a spreadsheet"):
        delete("/notes.docx")
    with pytest.raises(ToolError, match="folder"):
        delete("/")
    desk.put("broken.xlsx", b"x")
    assert delete("/broken.xlsx").status == "success"  # a broken file can go too


def test_add_tab(desk: Any, rich: bytes) -> None:
    name = desk.put("r.xlsx", rich)
    made = desk.add_tab(name, "New one", {"headers": ["Q"], "rows": [["=Data!B2*2"], [3]]})
    assert (made.tab_name, made.tab_index, made.rows_added) == ("New one", 3, 2)
    assert desk.value(name, "New one", "A2", "cached") == 20
    before = desk.parts(name)
    desk.add_tab(name, "Empty")
    after = desk.parts(name)
    assert "xl/worksheets/sheet5.xml" in after
    assert before["xl/worksheets/sheet1.xml"] == after["xl/worksheets/sheet1.xml"]
    with pytest.raises(ToolError, match="already"):
        desk.add_tab(name, "data")
    with pytest.raises(Unreadable):
        desk.add_tab(desk.put("b.xlsx", b"x"), "n")


def test_delete_tab_as_excel_does(desk: Any, rich: bytes) -> None:
    name = desk.put("r.xlsx", rich)
    result = desk.delete_tab(name, 0)
    assert result.tab_name == "Data"
    assert "My Calc!B1" in result.warnings[0]
    assert str(desk.value(name, "My Calc", "B1", "cached")) == "#REF!"
    assert desk.value(name, "My Calc", "B4") == 12
    parts = desk.parts(name)
    gone = ("xl/charts/chart1.xml", "xl/drawings/drawing1.xml", "xl/comments1.xml", "xl/media/image1.png",
            "xl/threadedComments/threadedComment1.xml", "xl/worksheets/sheet1.xml")  # fmt: skip
    assert not set(gone) & set(parts)
    assert "xl/tables/table1.xml" in parts
    assert "xl/pivotTables/pivotTable1.xml" in parts
    for part in gone:
        assert f'"/{part}"' not in parts["[Content_Types].xml"].decode()
    book = desk.book(name)
    assert [s.name for s in book.sheets] == ["My Calc", "Lists"]
    names = {(n.name, n.sheet): n.refers_to for n in book.all_names}
    assert names == {("quarter", None): "#REF!", ("local", "My Calc"): "'My Calc'!$B$1"}
    assert "<vt:lpstr>Data</vt:lpstr>" not in parts["docProps/app.xml"].decode()
    openpyxl.load_workbook(desk.root / "r.xlsx")
    with pytest.raises(ToolError, match="only visible sheet"):
        desk.delete_tab(name, 0)
    with pytest.raises(ToolError, match="there is no tab 9"):
        desk.delete_tab(name, 9)
    with pytest.raises(Unreadable):
        desk.delete_tab(desk.put("b.xlsx", b"x"), 0)


def test_a_span_over_sheets_shrinks(desk: Any, make: Callable[..., bytes]) -> None:
    def build(book: Any) -> None:
        for sheet in ("Jan", "Feb", "Mar"):
            book.add_worksheet(sheet).write("A1", 1)
        book.add_worksheet("Sum").write_formula("A1", "=SUM(Jan:Mar!A1)", None, 3)

    name = desk.put("a.xlsx", make(build))
    desk.delete_tab(name, 2)
    assert desk.book(name).sheets[2].cells[1, 1].formula == "=SUM(Jan:Feb!A1)"
    desk.edit(name, {"type": "rename_sheet", "sheet": "Jan", "new_name": "J 1"})
    assert desk.book(name).sheets[2].cells[1, 1].formula == "=SUM('J 1:Feb'!A1)"


@pytest.mark.parametrize("kind", ["bar", "line", "pie"])
def test_charts(desk: Any, rich: bytes, kind: str) -> None:
    name = desk.put("r.xlsx", rich)
    made = desk.chart(name, sheet="Data", data_range="A1:C5", chart_type=kind, title="New & <true>", position="A20")
    assert "categories from A" in made.message
    assert made.file_path == "/r.xlsx"
    charts = desk.book(name).sheets[0].charts
    assert len(charts) == 2
    new = next(c for c in charts if c.chart.title == "New & <true>")
    assert new.at == (20, 1)
    assert new.chart.kinds == ({"bar": "column"}.get(kind, kind),)
    first = new.chart.series[0]
    assert (first.name, first.values_ref, first.categories_ref) == ("Q1", "Data!$B$2:$B$5", "Data!$A$2:$A$5")
    assert first.values == ("10", "5", "7", "8")
    assert first.categories == ("North", "South", "East", "West")
    assert len(new.chart.series) == (1 if kind == "pie" else 2)
    assert len(openpyxl.load_workbook(desk.root / "r.xlsx")["Data"]._charts) == 2


def test_a_chart_on_a_sheet_without_drawings(desk: Any, plain: Callable[..., bytes]) -> None:
    name = desk.put("a.xlsx", plain([["Year", "Sum"], [2023, "=1+1"], [2024, 5], [2025, None]]))
    made = desk.chart(name, sheet="sheet1", data_range="Sheet1!$A$1:$B$4", categories_column=1)
    assert "1 series (column B, categories from A), 3 points" in made.message
    series = desk.book(name).sheets[0].charts[0].chart.series[0]
    assert series.values[:2] == ("2", "5")
    assert series.categories[:2] == ("2023", "2024")
    whole = desk.chart(name, sheet="Sheet1", data_range="B:B", include_header=True)
    assert "2 points" in whole.message


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"data_range": "A1:A5"}, "holds numbers"),
        ({"data_range": "A1:C1"}, "header row only"),
        ({"data_range": "A1:C5", "categories_column": 9}, "not within"),
        ({"data_range": "A1:C5", "sheet": "Dta"}, "did you mean 'Data'"),
        ({"data_range": "nowhere"}, "no range"),
        ({"data_range": "A1:C5", "position": "??"}, "cell address"),
        ({"data_range": "AA50:AB60"}, "holds numbers"),
    ],
)
def test_charts_that_can_not_be(desk: Any, rich: bytes, fields: dict[str, Any], why: str) -> None:
    name = desk.put("r.xlsx", rich)
    with pytest.raises(ToolError, match=why):
        desk.chart(name, **{"sheet": "Data", **fields})
    assert desk.bytes(name) == rich


def test_a_chart_in_a_broken_file(desk: Any) -> None:
    with pytest.raises(Unreadable):
        desk.chart(desk.put("b.xlsx", b"x"), sheet="S", data_range="A1:B2")


def test_a_deadline_in_the_middle_leaves_the_old_file(desk: Any, rich: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends the call before the file is replaced, the file is the old one."""
    name = desk.put("r.xlsx", rich)

    def ended(*_: Any) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "finished", ended)
    with pytest.raises(KeyboardInterrupt):
        desk.edit(name, {"type": "set_cell", "sheet": "Data", "cell": "B2", "value": 1})
    assert desk.bytes(name) == rich
    assert [p.name for p in desk.root.iterdir()] == ["r.xlsx"]
