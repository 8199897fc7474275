"""A desk with files in a temporary root (`desk`), and a workbook that has everything that libraries lose (`rich`)."""

from __future__ import annotations

import io
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter

from envkit.harnesses.archipelago.servers.app import Context
from envkit.harnesses.archipelago.servers.sheets import filtering, reading, writing
from envkit.harnesses.archipelago.servers.sheets import models as m
from envkit.office.workbook import Workbook, parse_address, read_workbook
from envkit.verifiers.diff import Finding, diff_bytes

CORPUS = Path(os.environ.get("ENVKIT_CORPUS") or Path(__file__).parents[6] / "shared/corpus")


class Desk:
    """The handlers over one root. Paths are as agents give them."""

    def __init__(self, root: Path) -> None:
        self.root = root / "fs"
        self.root.mkdir()
        self.context = Context(self.root, root / "apps")

    def put(self, name: str, data: bytes) -> str:
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return f"/{name.lstrip('/')}"

    def bytes(self, name: str) -> bytes:
        return (self.root / name.lstrip("/")).read_bytes()

    def book(self, name: str) -> Workbook:
        return read_workbook(self.bytes(name))

    def value(self, name: str, sheet: str, cell: str, source: Any = "auto") -> Any:
        book = self.book(name)
        found = book.sheet(sheet)
        assert found is not None
        return book.value(found, parse_address(cell), source)

    def parts(self, name: str) -> dict[str, bytes]:
        with zipfile.ZipFile(io.BytesIO(self.bytes(name))) as archive:
            return {i.filename: archive.read(i) for i in archive.infolist()}

    def read(self, name: str, tab: int = 0, **more: Any) -> str:
        return reading.read_tab(m.ReadTab(file_path=name, tab_index=tab, **more), self.context)

    def csv(self, name: str, **more: Any) -> str:
        return reading.read_csv(m.ReadCsv(file_path=name, **more), self.context)

    def tabs(self, name: str) -> str:
        return reading.list_tabs_in_spreadsheet(m.ListTabs(file_path=name), self.context)

    def filter(self, name: str, *filters: dict[str, Any], tab: int = 0, **more: Any) -> str:
        return filtering.filter_tab(
            m.FilterTab.model_validate({"file_path": name, "tab_index": tab, "filters": list(filters), **more}),
            self.context,
        )

    def edit(self, name: str, *operations: dict[str, Any]) -> m.Edited:
        arguments = m.EditSpreadsheet.model_validate({"file_path": name, "operations": list(operations)})
        return writing.edit_spreadsheet(arguments, self.context)

    def create(self, name: str, *sheets: dict[str, Any], directory: str = "/") -> m.Created:
        arguments = m.CreateSpreadsheet.model_validate(
            {"directory": directory, "file_name": name, "sheets": list(sheets)}
        )
        return writing.create_spreadsheet(arguments, self.context)

    def delete_tab(self, name: str, tab: int) -> m.TabDeleted:
        return writing.delete_tab(m.DeleteTab(file_path=name, tab_index=tab), self.context)

    def add_tab(self, name: str, tab: str, data: dict[str, Any] | None = None) -> m.TabAdded:
        arguments = m.AddTab.model_validate({"file_path": name, "tab_name": tab, "sheet_data": data})
        return writing.add_tab(arguments, self.context)

    def write(self, name: str, cell: str, value: Any, tab: int = 0) -> m.CellWritten:
        return writing.add_content_text(
            m.AddContent(file_path=name, tab_index=tab, cell=cell, value=value), self.context
        )

    def clear(self, name: str, cell: str, tab: int = 0) -> m.CellWritten:
        return writing.delete_content_cell(m.DeleteContent(file_path=name, tab_index=tab, cell=cell), self.context)

    def chart(self, name: str, **more: Any) -> m.ChartMade:
        return writing.create_chart(m.CreateChart.model_validate({"file_path": name, **more}), self.context)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(scope="session")
def corpus() -> Path:
    if not CORPUS.is_dir():
        pytest.fail(f"the corpus of office files is not at {CORPUS}; set ENVKIT_CORPUS")
    return CORPUS


def changes(before: bytes, after: bytes, name: str = "a.xlsx") -> list[Finding]:
    """What the typed comparison finds, without what follows from recalculation alone."""
    return diff_bytes(name, before, after)


@pytest.fixture
def difference() -> Callable[..., list[Finding]]:
    return changes


def png(width: int = 8, height: int = 6) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\x20\x80\xd0" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.fixture
def picture() -> bytes:
    return png()


def made(build: Callable[[Any], None], **options: Any) -> bytes:
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True, **options})
    build(book)
    book.close()
    return out.getvalue()


@pytest.fixture
def make() -> Callable[..., bytes]:
    """`make(lambda book: ...)`: a workbook by xlsxwriter."""
    return made


_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_REL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_CACHE = (
    f'<pivotCacheDefinition xmlns="{_MAIN}" xmlns:r="{_REL}" refreshedVersion="6" recordCount="0" saveData="0">'
    '<cacheSource type="worksheet"><worksheetSource ref="A1:C5" sheet="Data"/></cacheSource><cacheFields count="3">'
    '<cacheField name="Region" numFmtId="0"><sharedItems/></cacheField><cacheField name="Q1" '
    'numFmtId="0"><sharedItems/>'
    '</cacheField><cacheField name="Q2" numFmtId="0"><sharedItems/></cacheField></cacheFields></pivotCacheDefinition>'
)
_PIVOT = (
    f'<pivotTableDefinition xmlns="{_MAIN}" name="Pivot1" cacheId="7" dataCaption="Values"><location ref="A12:B16" '
    'firstHeaderRow="1" firstDataRow="1" firstDataCol="1"/><pivotFields count="3"><pivotField axis="axisRow" '
    'showAll="0"/><pivotField dataField="1" showAll="0"/><pivotField showAll="0"/></pivotFields><rowFields count="1">'
    '<field x="0"/></rowFields><dataFields count="1"><dataField name="Sum of Q1" fld="1"/></dataFields>'
    "</pivotTableDefinition>"
)
_THREADS = (
    "<ThreadedComments "
    'xmlns="http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments"><threadedComment '
    'ref="B3" dT="2025-01-02T10:00:00.00" personId="{11111111-1111-1111-1111-111111111111}" '
    'id="{22222222-2222-2222-2222-222222222222}"><text>why zero?</text></threadedComment></ThreadedComments>'
)
_PERSONS = (
    '<personList xmlns="http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments"><person '
    'displayName="Ann" id="{11111111-1111-1111-1111-111111111111}" userId="ann" providerId="None"/></personList>'
)


def _sheets(book: Any) -> None:
    data, calc, hidden = book.add_worksheet("Data"), book.add_worksheet("My Calc"), book.add_worksheet("Lists")
    money, percent = book.add_format({"num_format": "$#,##0.00"}), book.add_format({"num_format": "0%", "bold": True})
    data.write_row("A1", ["Region", "Q1", "Q2", "Sum"])
    for row, (name, one, two) in enumerate([("North", 10, 20), ("South", 5, 0), ("East", 7, 3), ("West", 8, 1)], 1):
        data.write(row, 0, name)
        data.write(row, 1, one, money)
        data.write(row, 2, two, money)
        data.write_formula(row, 3, f"=B{row + 1}+C{row + 1}", money, one + two)
    data.write_rich_string("F1", "plain ", book.add_format({"bold": True}), "bold")
    data.write_comment("B2", "checked", {"author": "Bob"})
    data.write_comment("B3", "[Threaded comment] why zero?", {"author": "tc={22222222-2222-2222-2222-222222222222}"})
    data.conditional_format("B2:C5", {"type": "data_bar", "data_bar_2010": True})
    data.conditional_format("D2:D5", {"type": "formula", "criteria": "='My Calc'!$B$1<D2", "format": percent})
    data.data_validation("A2:A5", {"validate": "list", "source": "=Lists!$A$1:$A$4"})
    data.add_sparkline("G2", {"range": "Data!B2:C2"})
    data.insert_image("I20", "dot.png", {"image_data": io.BytesIO(png())})
    chart = book.add_chart({"type": "column"})
    chart.add_series(
        {
            "name": "=Data!$B$1",
            "categories": "=Data!$A$2:$A$5",
            "values": "=Data!$B$2:$B$5",
            "data_labels": {"value": 1},
        }
    )
    chart.set_title({"name": "Q1 by region"})
    data.insert_chart("I2", chart)
    data.set_column("E:E", 3, None, {"hidden": True})
    data.set_landscape()
    data.print_area("A1:D5")
    data.repeat_rows(0)
    data.set_header("&CReport")
    data.insert_textbox("K40", "look here")
    calc.write_formula("B1", "=SUM(Data!B2:B5)", money, 30)
    calc.write("A1", "Total")
    calc.write_formula("B2", "=B1/Data!C3", percent, "#DIV/0!")
    calc.write_formula("B3", "=SUM(quarter)", None, 30)
    calc.write_url("A5", "internal:'Data'!A1", string="to the data")
    calc.write_url("A6", "https://example.com/x?a=1", string="outside")
    columns = [{"header": "Item"}, {"header": "Net"}, {"header": "Gross", "formula": "=[@Net]*2"}]
    calc.add_table("D1:F4", {"name": "Items", "columns": columns, "data": [["a", 1], ["b", 2], ["c", 3]]})
    calc.write_formula("B4", "=SUM(Items[Gross])", None, 12)
    calc.merge_range("A8:C8", "merged", money)
    calc.freeze_panes(1, 0)
    hidden.write_column("A1", ["North", "South", "East", "West"])
    hidden.hide()
    book.define_name("quarter", "=Data!$B$2:$B$5")
    book.define_name("'My Calc'!local", "='My Calc'!$B$1")


def rich_workbook(*, macros: bool = False) -> bytes:
    """A workbook with a chart, picture, text box, comments (a thread), conditional formats, validations, sparklines, a
    table, a pivot table, names, links, print settings and, if wished, macros."""
    data = made(_sheets)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}

    def replace(name: str, old: str, new: str) -> None:
        assert old.encode() in parts[name], (name, old)
        parts[name] = parts[name].replace(old.encode(), new.encode(), 1)

    def relate(name: str, *relations: tuple[str, str, str]) -> None:
        lines = "".join(f'<Relationship Id="{i}" Type="{t}" Target="{target}"/>' for i, t, target in relations)
        if name not in parts:
            parts[name] = f'<Relationships xmlns="{_PACKAGE}"></Relationships>'.encode()
        replace(name, "</Relationships>", f"{lines}</Relationships>")

    thread = "http://schemas.microsoft.com/office/2017/10/relationships/"
    types = "application/vnd.openxmlformats-officedocument.spreadsheetml."
    parts["xl/pivotCache/pivotCacheDefinition1.xml"] = _CACHE.encode()
    parts["xl/pivotTables/pivotTable1.xml"] = _PIVOT.encode()
    parts["xl/threadedComments/threadedComment1.xml"] = _THREADS.encode()
    parts["xl/persons/person.xml"] = _PERSONS.encode()
    parts["xl/calcChain.xml"] = f'<calcChain xmlns="{_MAIN}"><c r="D2" i="1"/><c r="B1" i="2"/></calcChain>'.encode()
    relate("xl/_rels/workbook.xml.rels",
           ("rId90", f"{_REL}/pivotCacheDefinition", "pivotCache/pivotCacheDefinition1.xml"),
           ("rId91", f"{thread}person", "persons/person.xml"),
           ("rId92", f"{_REL}/calcChain", "calcChain.xml"))  # fmt: skip
    relate("xl/worksheets/_rels/sheet2.xml.rels", ("rId90", f"{_REL}/pivotTable", "../pivotTables/pivotTable1.xml"))
    relate("xl/worksheets/_rels/sheet1.xml.rels", ("rId90", f"{thread}threadedComment",
                                                   "../threadedComments/threadedComment1.xml"))  # fmt: skip
    relate("xl/pivotTables/_rels/pivotTable1.xml.rels", ("rId1", f"{_REL}/pivotCacheDefinition",
                                                         "../pivotCache/pivotCacheDefinition1.xml"))  # fmt: skip
    replace(
        "xl/workbook.xml", "</workbook>", '<pivotCaches><pivotCache cacheId="7" r:id="rId90"/></pivotCaches></workbook>'
    )
    overrides = {
        "/xl/pivotCache/pivotCacheDefinition1.xml": f"{types}pivotCacheDefinition+xml",
        "/xl/pivotTables/pivotTable1.xml": f"{types}pivotTable+xml",
        "/xl/threadedComments/threadedComment1.xml": "application/vnd.ms-excel.threadedcomments+xml",
        "/xl/persons/person.xml": "application/vnd.ms-excel.person+xml",
        "/xl/calcChain.xml": f"{types}calcChain+xml",
    }
    if macros:
        parts["xl/vbaProject.bin"] = b"\xd0\xcf\x11\xe0 not a real project, kept as it is"
        relate("xl/_rels/workbook.xml.rels", ("rId93", "http://schemas.microsoft.com/office/2006/relationships/vbaProject",
                                              "vbaProject.bin"))  # fmt: skip
        overrides["/xl/vbaProject.bin"] = "application/vnd.ms-office.vbaProject"
        replace("[Content_Types].xml", f"{types}sheet.main+xml", "application/vnd.ms-excel.sheet.macroEnabled.main+xml")
    lines = "".join(f'<Override PartName="{name}" ContentType="{kind}"/>' for name, kind in overrides.items())
    replace("[Content_Types].xml", "</Types>", f"{lines}</Types>")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


@pytest.fixture(scope="session")
def rich() -> bytes:
    return rich_workbook()


@pytest.fixture(scope="session")
def rich_macros() -> bytes:
    return rich_workbook(macros=True)


@pytest.fixture
def column_of() -> Callable[[str, str], list[str]]:
    """`column_of(grid, "B")`: the texts of a column of a grid as read."""

    def column(text: str, letter: str) -> list[str]:
        lines = [line.split("\t") for line in text.splitlines() if "\t" in line]
        index = lines[0].index(letter)
        return [line[index] if index < len(line) else "" for line in lines[1:] if re.fullmatch(r"\d+", line[0])]

    return column


def plain_book(rows: Sequence[Sequence[Any]], name: str = "Sheet1") -> bytes:
    """A workbook of plain values; text that begins with = is a formula without a stored value."""

    def build(book: Any) -> None:
        sheet = book.add_worksheet(name)
        for r, row in enumerate(rows):
            for c, value in enumerate(row):
                if isinstance(value, str) and value.startswith("="):
                    sheet.write_formula(r, c, value, None, "")
                elif value is not None:
                    sheet.write(r, c, value)

    return made(build)


@pytest.fixture
def plain() -> Callable[..., bytes]:
    return plain_book


@pytest.fixture
def book(desk: Any, plain: Callable[..., bytes]) -> str:
    rows = [
        ["Region", "Q1", "Q2", "Sum"],
        ["North", 10, 20, "=B2+C2"],
        ["South", 5, 0, "=B3/C3"],
        [None, "=SUM(B2:B3)"],
    ]
    return desk.put("a.xlsx", plain(rows))
