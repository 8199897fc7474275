"""The operations of `edit_spreadsheet`, one model each, told apart by `type`.

Every field has a description, since the schema is all that a model sees of them. Used by the declaration of the app,
by the schema companion, and by `editing.py`, which carries them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from envkit.harnesses.archipelago.servers.app import Arguments

__all__ = ["OPERATIONS", "Color", "Operation", "Scalar"]

Scalar = Annotated[
    str | int | float | bool | None,
    Field(
        description="A number, true/false, null (empty) or text. Text beginning with = is a formula; a date as "
        "YYYY-MM-DD or YYYY-MM-DDTHH:MM becomes a date; other text stays text ('007'). An apostrophe before = or a "
        "date keeps it text.",
        union_mode="smart",
    ),
]
Color = Annotated[
    str,
    StringConstraints(pattern=r"^#?([0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$", strip_whitespace=True),
    Field(description="A colour as RRGGBB or AARRGGBB in hexadecimal digits, such as FF0000 for red."),
]
SheetName = Annotated[str, Field(description="Name of the sheet.")]
Cell = Annotated[str, Field(description="Address of a cell, such as B2.")]
Range = Annotated[str, Field(description="A cell (B2), block (A1:C10), columns (A:C) or rows (1:3).")]
Operator = Literal[
    "between", "notBetween", "equal", "notEqual", "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual"
]


def _as_text(value: Any) -> Any:
    """Limits of a rule are formulas; a number or a list of choices means the same."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return f"{value:.15g}" if isinstance(value, float) else str(value)
    if isinstance(value, list) and value and all(isinstance(item, str | int | float) for item in value):
        return ",".join(str(item) for item in value)
    return value


FormulaText = Annotated[str, BeforeValidator(_as_text)]


class _Step(Arguments):
    also: ClassVar[Mapping[str, str]] = {
        "sheet_name": "sheet", "tab_name": "sheet", "tab": "sheet", "cell_range": "range", "number_format": "format",
    }  # fmt: skip


class SetCell(_Step):
    """Sets the value or formula of one cell; its look stays."""

    also: ClassVar[Mapping[str, str]] = {**_Step.also, "formula": "value", "text": "value"}

    type: Literal["set_cell"]
    sheet: SheetName | None = Field(
        None, description="Name of the sheet; left out: the sheet shown when the file opens."
    )
    cell: Cell
    value: Scalar = Field(...)


class AppendRows(_Step):
    """Appends rows below the last filled row of a sheet, from column A (or the first column of the data there)."""

    type: Literal["append_rows"]
    sheet: SheetName
    rows: list[list[Scalar]] = Field(description="Rows of values, each a list from left to right.", min_length=1)


class RenameSheet(_Step):
    """Renames a sheet; formulas, names, charts, pivots, links and rules follow."""

    type: Literal["rename_sheet"]
    sheet: SheetName
    new_name: str = Field(description="New name: 1 to 31 characters, none of : \\ / ? * [ ].")


class FormatCells(_Step):
    """Changes the look of cells; what is not given stays."""

    type: Literal["format_cells"]
    sheet: SheetName
    range: Range
    font_name: str | None = Field(None, description="Font, such as Arial.", min_length=1, max_length=31)
    font_size: float | None = Field(None, description="Size in points.", gt=0, le=409)
    font_bold: bool | None = Field(None, description="Bold or not.")
    font_italic: bool | None = Field(None, description="Italic or not.")
    font_underline: bool | Literal["single", "double", "singleAccounting", "doubleAccounting", "none"] | None = Field(
        None, description="true or single, double, singleAccounting, doubleAccounting; false or none for no line."
    )
    font_color: Color | None = None
    fill_color: Color | None = None
    fill_pattern: (
        Literal[
            "solid", "none", "gray125", "gray0625", "lightGray", "mediumGray", "darkGray", "darkHorizontal",
            "darkVertical", "darkDown", "darkUp", "darkGrid", "darkTrellis", "lightHorizontal", "lightVertical",
            "lightDown", "lightUp", "lightGrid", "lightTrellis",
        ]
        | None
    ) = Field(None, description="Pattern of the fill; solid where left out; none takes the fill away.")  # fmt: skip
    horizontal_alignment: (
        Literal["general", "left", "center", "right", "fill", "justify", "centerContinuous", "distributed"] | None
    ) = Field(None, description="Alignment across.")
    vertical_alignment: Literal["top", "center", "bottom", "justify", "distributed"] | None = Field(
        None, description="Alignment up and down."
    )
    wrap_text: bool | None = Field(None, description="Whether long text is wrapped.")
    border_style: (
        Literal[
            "none", "thin", "medium", "thick", "double", "hair", "dotted", "dashed", "mediumDashed", "dashDot",
            "mediumDashDot", "dashDotDot", "mediumDashDotDot", "slantDashDot",
        ]
        | None
    ) = Field(None, description="Line style of the border; none takes it away.")  # fmt: skip
    border_color: Color | None = None
    border_sides: list[Literal["left", "right", "top", "bottom", "all", "outline"]] | None = Field(
        None,
        description="Which sides of every cell get the border (outline: the edge of the range); left out: all four.",
    )


class MergeCells(_Step):
    """Merges a block into one cell. Only the value of its first cell stays, as in Excel."""

    type: Literal["merge_cells"]
    sheet: SheetName
    range: str = Field(description="A block such as A1:C1.")


class UnmergeCells(_Step):
    """Undoes a merge."""

    type: Literal["unmerge_cells"]
    sheet: SheetName
    range: str = Field(description="The merged block, or a range that holds merged blocks.")


class SetColumnWidth(_Step):
    """Sets the width of a column or columns."""

    type: Literal["set_column_width"]
    sheet: SheetName
    column: Annotated[str, BeforeValidator(_as_text)] = Field(description="Letter of the column (B), or columns (B:D).")
    width: float = Field(description="Width in characters.", ge=0, le=255)


class SetRowHeight(_Step):
    """Sets the height of a row."""

    type: Literal["set_row_height"]
    sheet: SheetName
    row: int = Field(description="Number of the row, from 1.", ge=1, le=1_048_576)
    height: float = Field(description="Height in points.", ge=0, le=409.5)


class FreezePanes(_Step):
    """Keeps the rows above and the columns left of a cell in view."""

    type: Literal["freeze_panes"]
    sheet: SheetName
    cell: Cell | None = Field(
        None, description="First cell that scrolls: A2 keeps row 1, B2 row 1 and column A. Left out: nothing is frozen."
    )


class AddNamedRange(_Step):
    """Gives a range a name for use in formulas; a name that exists is changed."""

    type: Literal["add_named_range"]
    name: str = Field(description="The name: letters, digits, _ and ., no spaces, not like an address.")
    sheet: SheetName
    range: Range


class DeleteNamedRange(_Step):
    """Deletes a defined name. Formulas that use it yield #NAME? afterwards."""

    type: Literal["delete_named_range"]
    name: str = Field(description="The name.")


class AddDataValidation(_Step):
    """Restricts what may be entered into cells."""

    type: Literal["add_data_validation"]
    sheet: SheetName
    range: Range
    validation_type: Literal["list", "whole", "decimal", "date", "time", "textLength", "custom"] = Field(
        description="list: a choice; whole, decimal, date, time, textLength: limits; custom: a formula."
    )
    operator: Operator | None = Field(None, description="How limits are compared; between where left out.")
    formula1: FormulaText | None = Field(
        None,
        description="list: the choices separated by commas, or a range such as =Lists!$A$1:$A$9. Others: the (lower) "
        "limit as a number, an ISO date or a formula. custom: the formula.",
    )
    formula2: FormulaText | None = Field(None, description="The upper limit, for between and notBetween.")
    allow_blank: bool = Field(True, description="Whether empty cells are allowed.")
    show_error_message: bool = Field(True, description="Whether a wrong entry is refused with a message.")
    error_title: str | None = Field(None, description="Title of that message.", max_length=32)
    error_message: str | None = Field(None, description="Text of that message.", max_length=255)
    show_input_message: bool = Field(False, description="Whether a hint is shown when the cell is chosen.")
    input_title: str | None = Field(None, description="Title of the hint.", max_length=32)
    input_message: str | None = Field(None, description="Text of the hint.", max_length=255)


class AddConditionalFormatting(_Step):
    """Formats cells by a rule. It applies after the rules that the sheet has already."""

    type: Literal["add_conditional_formatting"]
    sheet: SheetName
    range: Range
    rule_type: Literal[
        "cellIs", "colorScale", "dataBar", "expression", "top10", "aboveAverage", "duplicateValues", "uniqueValues",
        "containsText", "notContainsText", "beginsWith", "endsWith", "containsBlanks", "notContainsBlanks",
    ] = Field(description="Kind of rule.")  # fmt: skip
    operator: Operator | None = Field(None, description="For cellIs: how the cell is compared.")
    formula: FormulaText | None = Field(
        None,
        description="cellIs: the value or formula compared with; expression: a formula, written for the first cell.",
    )
    formula2: FormulaText | None = Field(None, description="cellIs: the upper limit, for between and notBetween.")
    font_color: Color | None = None
    fill_color: Color | None = None
    font_bold: bool | None = Field(None, description="Bold where the rule holds.")
    font_italic: bool | None = Field(None, description="Italic where the rule holds.")
    color_scale_colors: list[Color] | None = Field(
        None,
        description="colorScale: two colours (low, high) or three (low, middle, high).",
        min_length=2,
        max_length=3,
    )
    data_bar_color: Color | None = None
    rank: int | None = Field(None, description="top10: how many; 10 where left out.", ge=1, le=1000)
    percent: bool | None = Field(None, description="top10: whether rank is a percentage.")
    text: str | None = Field(None, description="containsText, notContainsText, beginsWith, endsWith: the text.")


class SetAutoFilter(_Step):
    """Puts filter buttons on a range, or takes them away."""

    type: Literal["set_auto_filter"]
    sheet: SheetName
    range: str | None = Field(
        None, description="A block with its header row, such as A1:D20. Left out: no filter any more."
    )


class SetNumberFormat(_Step):
    """Sets how numbers and dates are shown."""

    type: Literal["set_number_format"]
    sheet: SheetName
    range: Range
    format: str = Field(
        description='A number format such as 0.00, #,##0, $#,##0.00, 0.0%, yyyy-mm-dd, @ (text), General.',
        min_length=1, max_length=255,
    )  # fmt: skip


class AddImage(_Step):
    """Puts a picture onto a sheet."""

    type: Literal["add_image"]
    sheet: SheetName
    image_path: str = Field(description="Path of a png, jpg, gif, bmp or webp file.")
    cell: Cell = Field(description="Cell of its upper left corner.")
    width: float | None = Field(
        None, description="Width in pixels; where one side alone is given, the other is in proportion.", gt=0, le=20000
    )
    height: float | None = Field(None, description="Height in pixels.", gt=0, le=20000)


OPERATIONS: tuple[type[Arguments], ...] = (
    SetCell, AppendRows, RenameSheet, FormatCells, MergeCells, UnmergeCells, SetColumnWidth, SetRowHeight, FreezePanes,
    AddNamedRange, DeleteNamedRange, AddDataValidation, AddConditionalFormatting, SetAutoFilter, SetNumberFormat,
    AddImage,
)  # fmt: skip

Operation = Annotated[
    SetCell
    | AppendRows
    | RenameSheet
    | FormatCells
    | MergeCells
    | UnmergeCells
    | SetColumnWidth
    | SetRowHeight
    | FreezePanes
    | AddNamedRange
    | DeleteNamedRange
    | AddDataValidation
    | AddConditionalFormatting
    | SetAutoFilter
    | SetNumberFormat
    | AddImage,
    Field(discriminator="type"),
]
