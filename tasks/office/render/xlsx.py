"""Workbooks with formulas *and* their values.

A formula cell is `F(formula, value)`: the value is computed by the caller's fact model and written as the cached
result, so a reader that does not recalculate sees the same number as one that does.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from envkit.tasks.office.render.package import freeze

__all__ = ["Bold", "F", "Sheet", "workbook"]

EUR = "#,##0.00"


@dataclass(frozen=True)
class F:
    """A formula and the value it evaluates to."""

    formula: str
    value: float | int | str


@dataclass(frozen=True)
class Bold:
    """A cell shown in bold (headings, totals); holds any other cell."""

    value: Any


@dataclass(frozen=True)
class Sheet:
    """One sheet.

    Attributes:
        rows: Cells by row from A1; None leaves a cell empty.
        header: 0-based index of the row shown as the table head, if any; the sheet is frozen below it.
        formats: Number format by 0-based column, e.g. `{2: "#,##0"}`; dates default to `yyyy-mm-dd`.
        widths: Column widths in characters by 0-based column.
        notes: Cell comments by address.
        hidden: Whether the sheet is hidden.
        cell_formats: Number format by address, over `formats`.
    """

    name: str
    rows: Sequence[Sequence[Any]]
    header: int | None = None
    formats: Mapping[int, str] = field(default_factory=dict)
    widths: Mapping[int, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    hidden: bool = False
    cell_formats: Mapping[str, str] = field(default_factory=dict)


def workbook(
    sheets: Sequence[Sheet], *, title: str, author: str, when: datetime, names: Mapping[str, str] | None = None
) -> bytes:
    """Renders the sheets, in order; `names` are defined names (`{"FX_EUR": "=Rates!$B$3"}`)."""
    import xlsxwriter  # type: ignore[import-untyped]
    from xlsxwriter.utility import xl_rowcol_to_cell  # type: ignore[import-untyped]

    buffer = io.BytesIO()
    book = xlsxwriter.Workbook(buffer, {"in_memory": True, "remove_timezone": True, "use_future_functions": True})
    book.set_properties({"title": title, "author": author, "created": when})
    styles: dict[tuple[str, bool, bool], Any] = {}

    def style(number: str, bold: bool, head: bool) -> Any:
        key = (number, bold, head)
        if key not in styles:
            spec: dict[str, Any] = {"font_name": "Calibri", "font_size": 10}
            if number:
                spec["num_format"] = number
            if bold or head:
                spec["bold"] = True
            if head:
                spec |= {
                    "bg_color": "#1F3864",
                    "font_color": "#FFFFFF",
                    "text_wrap": True,
                    "valign": "top",
                    "border": 1,
                }
            styles[key] = book.add_format(spec)
        return styles[key]

    for sheet in sheets:
        page = book.add_worksheet(sheet.name)
        for r, row in enumerate(sheet.rows):
            for c, cell in enumerate(row):
                bold = isinstance(cell, Bold)
                value = cell.value if isinstance(cell, Bold) else cell
                if value is None:
                    continue
                head = r == sheet.header
                number = "" if head else sheet.cell_formats.get(xl_rowcol_to_cell(r, c), sheet.formats.get(c, ""))
                inner = value.value if isinstance(value, F) else value
                if isinstance(inner, str):
                    number = ""
                if isinstance(inner, date) and not number:
                    number = "yyyy-mm-dd"
                fmt = style(number, bold, head)
                if isinstance(value, F):
                    page.write_formula(r, c, value.formula, fmt, value.value)
                elif isinstance(value, datetime):
                    page.write_datetime(r, c, value, fmt)
                elif isinstance(value, date):
                    page.write_datetime(r, c, datetime(value.year, value.month, value.day), fmt)
                elif isinstance(value, bool):
                    page.write_boolean(r, c, value, fmt)
                elif isinstance(value, (int, float)):
                    page.write_number(r, c, value, fmt)
                else:
                    page.write_string(r, c, str(value), fmt)
        columns = max((len(row) for row in sheet.rows), default=0)
        for c in range(columns):
            texts = [_shown(row[c]) for row in sheet.rows if c < len(row)]
            page.set_column(c, c, sheet.widths.get(c, min(42, max(9, max(map(len, texts), default=9) + 2))))
        for address, note in sheet.notes.items():
            page.write_comment(address, note, {"author": author})
        if sheet.header is not None:
            page.freeze_panes(sheet.header + 1, 0)
        if sheet.hidden:
            page.hide()
    for name, target in (names or {}).items():
        book.define_name(name, target)
    book.close()
    return freeze(buffer.getvalue(), when)


def _shown(cell: Any) -> str:
    """Roughly what the cell displays, to size its column; long prose doesn't widen one."""
    if isinstance(cell, Bold):
        cell = cell.value
    if isinstance(cell, F):
        cell = cell.value
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:,.2f}"
    return str(cell)
