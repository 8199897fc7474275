"""Workbooks (xlsx, xlsm): cells with value, type, formula and look, and all that sheets hold beside them.

`read_workbook` gives the canonical model of `model.py`. Hidden sheets, rows and columns are read and flagged. Used by
verifiers, the diff and the tool servers.
"""

from __future__ import annotations

from envkit.office.workbook.cells import MAX_CELLS, Cell
from envkit.office.workbook.formats import format_class, is_date_format
from envkit.office.workbook.formulas import Formula, parse_formula, shifted
from envkit.office.workbook.model import (
    Comment,
    ConditionalFormat,
    Name,
    Picture,
    Pivot,
    Provenance,
    Shape,
    Sheet,
    SheetChart,
    SheetObject,
    Table,
    Validation,
    Workbook,
)
from envkit.office.workbook.read import read_workbook
from envkit.office.workbook.styles import CellStyle
from envkit.office.workbook.values import (
    UNKNOWN,
    Address,
    Area,
    ErrorNames,
    ErrorValue,
    Unknown,
    Value,
    column_letters,
    from_serial,
    parse_address,
    parse_area,
    show_address,
    show_area,
)

__all__ = [
    "MAX_CELLS",
    "UNKNOWN",
    "Address",
    "Area",
    "Cell",
    "CellStyle",
    "Comment",
    "ConditionalFormat",
    "ErrorNames",
    "ErrorValue",
    "Formula",
    "Name",
    "Picture",
    "Pivot",
    "Provenance",
    "Shape",
    "Sheet",
    "SheetChart",
    "SheetObject",
    "Table",
    "Unknown",
    "Validation",
    "Value",
    "Workbook",
    "column_letters",
    "format_class",
    "from_serial",
    "is_date_format",
    "parse_address",
    "parse_area",
    "parse_formula",
    "read_workbook",
    "shifted",
    "show_address",
    "show_area",
]
