"""Single edits of workbooks: by openpyxl, by xlsxwriter (which writes the same book with one thing otherwise), or in
the XML."""

from __future__ import annotations

import datetime as dt
import io
import re
from collections.abc import Callable
from typing import Any

import openpyxl
import xlsxwriter
from openpyxl.comments import Comment
from openpyxl.formatting.rule import CellIsRule
from openpyxl.styles import Alignment, Border, Font, PatternFill, Side
from openpyxl.workbook.defined_name import DefinedName
from openpyxl.worksheet.datavalidation import DataValidation
from PIL import Image

from diff_edits.edit import Edit, Expected
from diff_edits.libreoffice import installed, resaved
from diff_edits.losses import Loss, has
from diff_edits.zipped import edit_part, part_names

SUFFIX = "xlsx"

REGIONS = ["North", "South", "East", "West", "Centre", "Coast", "Hills", "Islands", "Valley", "Harbour"]
QUARTERS = ["Q1", "Q2", "Q3", "Q4"]


def _picture(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (24, 16), (shade, 90, 160)).save(out, "PNG")
    return out.getvalue()


def build(
    *,
    extra_row: int | None = None,
    drop_row: int | None = None,
    extra_column: bool = False,
    swap: tuple[int, int] | None = None,
    sales: str = "Sales",
    blank_row: bool = False,
) -> bytes:
    """A book as an office has it: sales by region and quarter with totals, a summary that reads them, a list, notes."""
    regions = list(REGIONS)
    if swap:
        regions[swap[0]], regions[swap[1]] = regions[swap[1]], regions[swap[0]]
    if drop_row is not None:
        del regions[drop_row]
    if extra_row is not None:
        regions.insert(extra_row, "Newfield")
    columns = [*QUARTERS[:2], "Plan", *QUARTERS[2:]] if extra_column else QUARTERS
    top = 4 + blank_row
    last = top + len(regions) - 1
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True})
    bold, money = book.add_format({"bold": True}), book.add_format({"num_format": "#,##0.00 [$€-407]"})
    percent, date = book.add_format({"num_format": "0.0%"}), book.add_format({"num_format": "yyyy-mm-dd"})
    sheet, summary, notes = book.add_worksheet(sales), book.add_worksheet("Summary"), book.add_worksheet("Notes")
    sheet.write(0, 0, "Sales by region", bold)
    sheet.write_row(top - 2, 0, ["Region", *columns, "Total", "Share"], bold)
    total = xlsxwriter.utility.xl_col_to_name(len(columns) + 1)
    final = xlsxwriter.utility.xl_col_to_name(len(columns))
    for i, region in enumerate(regions):
        row = top - 1 + i
        sheet.write(row, 0, region)
        number = (REGIONS.index(region) if region in REGIONS else 20) + 1
        for j, quarter in enumerate(columns):
            value = 7000 + number if quarter == "Plan" else 1000.5 * number + 37 * QUARTERS.index(quarter)
            sheet.write(row, 1 + j, value, money)
        sheet.write_formula(row, 1 + len(columns), f"=SUM(B{row + 1}:{final}{row + 1})", money)
        sheet.write_formula(row, 2 + len(columns), f"={total}{row + 1}/{total}${last + 1}", percent)
    sheet.write(last, 0, "All", bold)
    for j in range(len(columns) + 1):
        letter = xlsxwriter.utility.xl_col_to_name(1 + j)
        sheet.write_formula(last, 1 + j, f"=SUM({letter}{top}:{letter}{last})", money)
    sheet.freeze_panes(top - 1, 1)
    sheet.write_comment("A1", "Checked by finance", {"author": "Ada"})
    chart = book.add_chart({"type": "column"})
    chart.add_series({"name": f"='{sales}'!$B${top - 1}", "categories": [sales, top - 1, 0, last - 1, 0],
                      "values": [sales, top - 1, 1, last - 1, 1]})  # fmt: skip
    chart.add_series({"name": "Second", "values": [sales, top - 1, 2, last - 1, 2]})
    chart.set_title({"name": "Sales per region"})
    chart.set_y_axis({"name": "EUR"})
    sheet.insert_chart("K3", chart)
    summary.write("A1", "Summary", bold)
    summary.write("A3", "Total sales")
    summary.write_formula("B3", f"='{sales}'!{total}{last + 1}", money)
    summary.write("A4", "Growth")
    summary.write("B4", 0.05, percent)
    summary.write("A5", "Next year")
    summary.write_formula("B5", "=B3*(1+B4)", money)
    summary.write("A6", "Due")
    summary.write_datetime("B6", dt.datetime(2026, 3, 31), date)
    summary.write("A7", "Approved")
    summary.write_boolean("B7", True)
    summary.data_validation("B4", {"validate": "decimal", "criteria": "between", "minimum": 0, "maximum": 1})
    summary.conditional_format(
        "B3:B5", {"type": "cell", "criteria": ">", "value": 1000, "format": book.add_format({"bg_color": "#FFC7CE"})}
    )
    summary.write_url("A9", "https://example.org/report", string="Report")
    summary.insert_image("D2", "logo.png", {"image_data": io.BytesIO(_picture(20)), "description": "Logo"})
    book.define_name("Growth", "=Summary!$B$4")
    rows = [[f"Item {i}", i * 3, "open" if i % 3 else "done"] for i in range(1, 13)]
    notes.add_table(0, 0, 12, 2, {"name": "Items", "data": rows,
                    "columns": [{"header": h} for h in ("Item", "Count", "State")]})  # fmt: skip
    notes.merge_range("E2:F3", "Remarks")
    notes.write("E5", "First remark")
    notes.write("E6", "Second remark")
    book.close()
    return out.getvalue()


def samples() -> dict[str, bytes]:
    return {"written by xlsxwriter": build(), "saved by openpyxl": _resaved(build())}


def _resaved(data: bytes) -> bytes:
    return _saved(openpyxl.load_workbook(io.BytesIO(data)))


def _saved(book: Any) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def by_openpyxl(change: Callable[[Any], Any], *expected: tuple[str, str | None]) -> Edit:
    def edit(data: bytes) -> tuple[bytes, Expected]:
        book = openpyxl.load_workbook(io.BytesIO(data))
        change(book)
        return _saved(book), list(expected)

    return edit


def rebuilt(*expected: tuple[str, str | None], **options: Any) -> Edit:
    return lambda data: (build(**options), list(expected))


def in_xml(part: str, old: str, new: str, *expected: tuple[str, str | None]) -> Edit:
    """Replaces the first match of a pattern in the first part whose name matches."""

    def edit(data: bytes) -> tuple[bytes, Expected] | None:
        for name in part_names(data):
            if re.fullmatch(part, name):
                found = edit_part(data, name, lambda b: re.sub(old.encode(), new.encode(), b, count=1))
                if found is not None:
                    return found, list(expected)
        return None

    return edit


def cell(sheet: str, at: str, value: Any) -> Callable[[Any], Any]:
    return lambda book: setattr(book[sheet][at], "value", value)


def styled(sheet: str, at: str, **looks: Any) -> Callable[[Any], Any]:
    def change(book: Any) -> None:
        for name, value in looks.items():
            setattr(book[sheet][at], name, value)

    return change


def attribute(sheet: str, path: str, value: Any) -> Callable[[Any], Any]:
    def change(book: Any) -> None:
        thing = book[sheet]
        *steps, last = path.split(".")
        for step in steps:
            thing = getattr(thing, step)
        setattr(thing, last, value)

    return change


def _image_replaced(data: bytes) -> tuple[bytes, Expected] | None:
    name = next((n for n in part_names(data) if n.startswith("xl/media/")), "")
    found = edit_part(data, name, lambda _: _picture(200))
    return None if found is None else (found, [("picture", "Summary!picture 1")])


def _validation(book: Any) -> None:
    book["Notes"].add_data_validation(rule := DataValidation(type="list", formula1='"open,done"'))
    rule.add("C2:C13")


def _rules_gone(book: Any) -> None:
    book["Summary"].conditional_formatting = type(book["Summary"].conditional_formatting)()


def _chart_gone(book: Any) -> None:
    book["Sales"]._charts.clear()


def _link(book: Any) -> None:
    book["Summary"]["A9"].hyperlink.target = "https://example.org/other"


FILL = PatternFill("solid", fgColor="FFFF00")
EDITS: dict[str, Edit] = {
    "number": by_openpyxl(cell("Sales", "C6", 4321.25), ("cell.value", "Sales!C6")),
    "text": by_openpyxl(cell("Notes", "E5", "Another remark"), ("cell.value", "Notes!E5")),
    "number stored as text": by_openpyxl(cell("Summary", "B4", "0.05"), ("cell.type", "Summary!B4")),
    "boolean": by_openpyxl(cell("Summary", "B7", False), ("cell.value", "Summary!B7")),
    "date": by_openpyxl(cell("Summary", "B6", dt.datetime(2026, 4, 30)), ("cell.value", "Summary!B6")),
    "cell cleared": by_openpyxl(cell("Notes", "E6", None), ("cell.value", "Notes!E6")),
    "cell added": by_openpyxl(cell("Summary", "C4", "assumed"), ("cell.value", "Summary!C4")),
    "formula": by_openpyxl(cell("Summary", "B5", "=B3*(2+B4)"), ("cell.formula", "Summary!B5")),
    "formula's range": by_openpyxl(cell("Sales", "B14", "=SUM(B4:B12)"), ("cell.formula", "Sales!B14")),
    "formula to constant": by_openpyxl(cell("Summary", "B3", 123456), ("cell.formula", "Summary!B3")),
    "constant to formula": by_openpyxl(cell("Summary", "B4", "=1/20"), ("cell.formula", "Summary!B4")),
    "number format": by_openpyxl(styled("Sales", "C6", number_format="0%"), ("cell.format", "Sales!C6")),
    "decimals shown": by_openpyxl(styled("Sales", "C6", number_format="#,##0 [$€-407]"), ("cell.format", "Sales!C6")),
    "bold": by_openpyxl(styled("Notes", "E5", font=Font(bold=True)), ("cell.style", "Notes!E5")),
    "fill": by_openpyxl(styled("Sales", "A6", fill=FILL), ("cell.style", "Sales!A6")),
    "border": by_openpyxl(styled("Sales", "A6", border=Border(top=Side("thin"))), ("cell.style", "Sales!A6")),
    "alignment": by_openpyxl(
        styled("Sales", "A6", alignment=Alignment(horizontal="center")), ("cell.style", "Sales!A6")
    ),
    "row inserted": rebuilt(("row", "Sales!8:8"), extra_row=4),
    "row deleted": rebuilt(("row", "Sales!7:7"), drop_row=3),
    "last row inserted": rebuilt(("row", "Sales!14:14"), extra_row=10),
    "blank row inserted": rebuilt(("row.blank", "Sales!2:2"), blank_row=True),
    "column inserted": rebuilt(("column", "Sales!D:D"), extra_column=True),
    "row moved": rebuilt(("row", None), swap=(2, 3)),
    "sheet renamed": rebuilt(("sheet.name", "Sales"), sales="Revenue"),
    "sheet hidden": by_openpyxl(attribute("Notes", "sheet_state", "hidden"), ("sheet.visibility", "Notes")),
    "sheet hidden for good": by_openpyxl(
        attribute("Notes", "sheet_state", "veryHidden"), ("sheet.visibility", "Notes")
    ),
    "sheet added": by_openpyxl(lambda b: b.create_sheet("Extra").append(["x", 1]), ("sheet", "Extra")),
    "sheet removed": by_openpyxl(lambda b: b.remove(b["Notes"]), ("sheet", "Notes")),
    "sheet moved": by_openpyxl(lambda b: b.move_sheet("Notes", -2), ("sheet.order", "Notes")),
    "chart title": in_xml(r"xl/charts/chart1\.xml", "Sales per region", "Sales per area", ("chart.title", None)),
    "chart axis title": in_xml(
        r"xl/charts/chart1\.xml", "<a:t>EUR</a:t>", "<a:t>USD</a:t>", ("chart.axis_titles", None)
    ),
    "chart values": in_xml(
        r"xl/charts/chart1\.xml", r"\$B\$13</((?:c:)?f)>", r"$B$12</\1>", ("chart.series.values", None)
    ),
    "chart kind": in_xml(
        r"xl/charts/chart1\.xml",
        r'barDir val="col"',
        'barDir val="bar"',
        ("chart.kind", None),
        ("chart.series.kind", None),
        ("chart.series.kind", None),
    ),
    "chart series removed": in_xml(
        r"xl/charts/chart1\.xml", r"(?s)<((?:c:)?ser)>((?!</?(?:c:)?ser>).)*Second.*?</\1>", "", ("chart.series", None)
    ),
    "chart removed": by_openpyxl(_chart_gone, ("chart", None)),
    "comment text": by_openpyxl(
        lambda b: setattr(b["Sales"]["A1"], "comment", Comment("Not checked", "Ada")), ("comment.text", "Sales!A1")
    ),
    "comment added": by_openpyxl(
        lambda b: setattr(b["Summary"]["A3"], "comment", Comment("Why?", "Bo")), ("comment", "Summary!A3")
    ),
    "comment removed": by_openpyxl(lambda b: setattr(b["Sales"]["A1"], "comment", None), ("comment", "Sales!A1")),
    "validation's limit": by_openpyxl(
        lambda b: setattr(b["Summary"].data_validations.dataValidation[0], "formula2", "2"), ("validation.rule", None)
    ),
    "validation added": by_openpyxl(_validation, ("validation", "Notes!C2:C13")),
    "conditional format's limit": in_xml(
        r"xl/worksheets/sheet2\.xml",
        "<formula>1000</formula>",
        "<formula>5</formula>",
        ("conditional_format.rule", None),
    ),
    "conditional format removed": by_openpyxl(_rules_gone, ("conditional_format", None)),
    "conditional format added": by_openpyxl(
        lambda b: b["Notes"].conditional_formatting.add("B2:B13", CellIsRule("lessThan", ["5"], fill=FILL)),
        ("conditional_format", "Notes!B2:B13"),
    ),
    "merged": by_openpyxl(lambda b: b["Notes"].merge_cells("H2:I2"), ("merge", "Notes!H2:I2")),
    "unmerged": by_openpyxl(lambda b: b["Notes"].unmerge_cells("E2:F3"), ("merge", "Notes!E2:F3")),
    "hyperlink": by_openpyxl(_link, ("hyperlink", "Summary!A9")),
    "row hidden": by_openpyxl(
        lambda b: setattr(b["Sales"].row_dimensions[7], "hidden", True), ("row.hidden", "Sales!7:7")
    ),
    "column hidden": by_openpyxl(
        lambda b: setattr(b["Sales"].column_dimensions["D"], "hidden", True), ("column.hidden", "Sales!D:D")
    ),
    "column width": by_openpyxl(
        lambda b: setattr(b["Sales"].column_dimensions["A"], "width", 30), ("column.width", "Sales!A:A")
    ),
    "panes": by_openpyxl(attribute("Sales", "freeze_panes", None), ("sheet.freeze", "Sales")),
    "sheet protected": by_openpyxl(attribute("Sales", "protection.sheet", True), ("sheet.protection", "Sales")),
    "orientation": by_openpyxl(
        attribute("Sales", "page_setup.orientation", "landscape"), ("sheet.orientation", "Sales")
    ),
    "print area": by_openpyxl(attribute("Sales", "print_area", "A1:F9"), ("sheet.print_area", "Sales")),
    "filter": by_openpyxl(attribute("Sales", "auto_filter.ref", "A3:G13"), ("sheet.filter", "Sales")),
    "header": by_openpyxl(attribute("Sales", "oddHeader.center.text", "Draft"), ("sheet.header", "Sales")),
    "name's target": by_openpyxl(
        lambda b: b.defined_names.update(Growth=DefinedName("Growth", attr_text="Summary!$B$5")),
        ("name", "name Growth"),
    ),
    "name removed": by_openpyxl(lambda b: b.defined_names.pop("Growth"), ("name", "name Growth")),
    "table's range": in_xml(r"xl/tables/table1\.xml", r'ref="A1:C13"', 'ref="A1:C12"', ("table.range", None)),
    "table renamed": in_xml(
        r"xl/tables/table1\.xml", r'displayName="Items"', 'displayName="Things"', ("table.name", None)
    ),
    "picture": _image_replaced,
    "alternative text": in_xml(r"xl/drawings/drawing2\.xml", 'descr="Logo"', 'descr="Old logo"', ("picture.alt", None)),
}


RESAVES: dict[str, Callable[[bytes], bytes | None]] = {"openpyxl": _resaved}
BATCHES = {"LibreOffice": resaved} if installed() else {}
LOSSES: dict[str, tuple[Loss, ...]] = {
    "LibreOffice": (
        Loss(
            "sheet.freeze",
            "panes, when it has no window",
            after="none",
            when=has(r"xl/worksheets/sheet\d*\.xml$", "<pane "),
        ),
    )
}
