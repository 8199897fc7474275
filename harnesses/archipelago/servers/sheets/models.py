"""The arguments of the sheets tools and the request of the meta tool, by their published names; and the results.

Used by the declaration of the app and by its handlers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from envkit.harnesses.archipelago.servers.app import Arguments
from envkit.harnesses.archipelago.servers.sheets.operations import Operation, Scalar

__all__ = [
    "AddContent", "AddTab", "CellWritten", "ChartMade", "CreateChart", "CreateSpreadsheet", "Created", "DeleteContent",
    "DeleteSpreadsheet", "DeleteTab", "Deleted", "EditSpreadsheet", "Edited", "Filter", "FilterTab", "ListTabs",
    "ReadCsv", "ReadTab", "SheetData", "SheetsRequest", "TabAdded", "TabDeleted", "TabSpec",
]  # fmt: skip

FilePath = Annotated[str, Field(description="Path of the file, such as /reports/budget.xlsx.")]
#: What other tools call the sheet that they work on.
_TAB_NAMES = {name: "tab_index" for name in ("tab_name", "sheet", "sheet_name", "tab")}
_SIGNS = {
    "=": "equals", "==": "equals", "eq": "equals", "equal": "equals", "is": "equals",
    "!=": "not_equals", "<>": "not_equals", "ne": "not_equals", "not_equal": "not_equals",
    ">": "greater_than", "gt": "greater_than", "<": "less_than", "lt": "less_than",
    ">=": "greater_than_or_equal", "gte": "greater_than_or_equal", "ge": "greater_than_or_equal",
    "<=": "less_than_or_equal", "lte": "less_than_or_equal", "le": "less_than_or_equal",
}  # fmt: skip


def _tab(value: Any) -> Any:
    """A tab's place; its name is taken as well."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("must be a whole number, the tab's place counted from 0")
    if isinstance(value, str):
        value = value.strip()
        if not value:
            raise ValueError("must be a whole number, the tab's place counted from 0")
        try:
            value = float(value)
        except ValueError:
            return value
    if value < 0 or value != int(value):
        raise ValueError("must be a whole number from 0 on, the tab's place")
    return int(value)


def _with_sheet_of_range(given: dict[str, Any]) -> dict[str, Any]:
    """A range that names its sheet says which tab is meant."""
    cell_range = given.get("cell_range")
    if given.get("tab_index") is None and isinstance(cell_range, str) and "!" in cell_range:
        from envkit.harnesses.archipelago.servers.sheets.areas import split_sheet

        given["tab_index"] = split_sheet(cell_range)[0]
    return given


TabIndex = Annotated[
    int | str,
    BeforeValidator(_tab),
    WithJsonSchema({"type": "integer", "minimum": 0, "description": "Place of the tab, counted from 0."}),
]
CellRange = Annotated[
    str | None, Field(description="Only this range: A1:D20, A:C, 5:9 or one cell. Left out: all that is used.")
]
Compact = Annotated[bool, Field(description="Leaves out empty rows and columns, and the notes below the grid.")]


class SheetData(Arguments):
    """Contents of a sheet: a row of headers (in bold), and the rows below it."""

    headers: list[Scalar] | None = Field(None, description="Headers of the first row.")
    rows: list[list[Scalar]] = Field(
        default_factory=list, description="Rows, each a list of values from left to right."
    )


class TabSpec(SheetData):
    """A sheet of a new workbook."""

    name: str = Field(description="Name of the sheet: 1 to 31 characters, none of : \\ / ? * [ ].")


class CreateSpreadsheet(Arguments):
    directory: str = Field(description="Folder, such as /reports; made where it is missing.")
    file_name: str = Field(description="Name of the file; .xlsx is added where it is missing.")
    sheets: list[TabSpec] = Field(description="The sheets, in order.", min_length=1)


class DeleteSpreadsheet(Arguments):
    file_path: FilePath


class ReadTab(Arguments):
    also: ClassVar[Mapping[str, str]] = _TAB_NAMES

    @classmethod
    def meant(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return _with_sheet_of_range(super().meant(given))

    file_path: FilePath
    tab_index: TabIndex
    cell_range: CellRange = None
    include_formulas: bool = Field(False, description="Shows formulas behind the values: 42 (=A1*2).")
    max_rows: int | None = Field(1000, description="At most so many rows; what is left out is said.", ge=1)
    max_cols: int | None = Field(100, description="At most so many columns; what is left out is said.", ge=1)
    compact: Compact = False


class ReadCsv(Arguments):
    file_path: FilePath
    delimiter: str = Field(",", description="Separator; 'auto' or a wrong one: found out.")
    encoding: str = Field("utf-8", description="Encoding of the text.")
    has_header: bool = Field(True, description="Whether the first row names the columns.")
    row_limit: int | None = Field(1000, description="At most so many rows of data; what is left out is said.", ge=1)
    compact: bool = Field(False, description="Leaves out columns that are empty throughout.")


class ListTabs(Arguments):
    file_path: FilePath


class AddTab(Arguments):
    also: ClassVar[Mapping[str, str]] = {"sheet": "tab_name", "sheet_name": "tab_name", "name": "tab_name"}

    file_path: FilePath
    tab_name: str = Field(description="Name of the new tab, none of : \\ / ? * [ ].", min_length=1, max_length=31)
    sheet_data: SheetData | None = Field(None, description="What to fill it with.")


class DeleteTab(Arguments):
    also: ClassVar[Mapping[str, str]] = _TAB_NAMES

    file_path: FilePath
    tab_index: TabIndex


class EditSpreadsheet(Arguments):
    file_path: FilePath
    operations: list[Operation] = Field(
        description="Operations, carried out in order; if one fails, nothing is written.", min_length=1
    )


class AddContent(Arguments):
    also: ClassVar[Mapping[str, str]] = _TAB_NAMES

    file_path: FilePath
    tab_index: TabIndex
    cell: str = Field(description="Address of the cell, such as B2.")
    value: str | int | float | bool = Field(
        description="What to write: text, or a formula beginning with =. Digits are written as a number unless they "
        "begin with 0 (007); an apostrophe before it keeps any of these text."
    )


class DeleteContent(Arguments):
    also: ClassVar[Mapping[str, str]] = _TAB_NAMES

    file_path: FilePath
    tab_index: TabIndex
    cell: str = Field(description="Address of the cell (B2), or a block (B2:C5).")


class CreateChart(Arguments):
    also: ClassVar[Mapping[str, str]] = {"sheet_name": "sheet", "tab_name": "sheet", "range": "data_range"}

    file_path: FilePath
    sheet: str = Field(description="Sheet that holds the data and gets the chart.")
    data_range: str = Field(
        description="The data with categories and headers, such as A1:C10. Each column is a series."
    )
    chart_type: Literal["bar", "line", "pie"] = Field("bar", description="Kind of chart (bar: upright columns).")
    title: str | None = Field(None, description="Title of the chart.")
    position: str = Field("E2", description="Cell of the chart's upper left corner.")
    categories_column: int | None = Field(
        None,
        description="Which column of data_range names the categories, counted from 1. Left out: the first one where "
        "it holds text or dates.",
    )
    include_header: bool = Field(True, description="Whether the first row of data_range names the series.")


class Filter(Arguments):
    """One condition on a column."""

    column: str = Field(description="Header of the column, or its letter.")
    operator: Annotated[
        Literal[
            "equals", "not_equals", "greater_than", "less_than", "greater_than_or_equal", "less_than_or_equal",
            "contains", "not_contains", "starts_with", "ends_with", "is_empty", "is_not_empty",
        ],
        BeforeValidator(lambda given: _SIGNS.get(given.strip().lower(), given) if isinstance(given, str) else given),
    ] = Field(description="How the cell is compared. Text is compared without case.")  # fmt: skip
    value: str | int | float | bool | None = Field(
        None, description="What it is compared with: a number, text, true/false or an ISO date; none for is_empty."
    )


class FilterTab(Arguments):
    also: ClassVar[Mapping[str, str]] = _TAB_NAMES

    @classmethod
    def meant(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return _with_sheet_of_range(super().meant(given))

    file_path: FilePath
    tab_index: TabIndex
    filters: list[Filter] = Field(description="The conditions.")
    cell_range: CellRange = None
    match_all: bool = Field(True, description="Whether all conditions must hold, or one is enough.")
    use_headers: bool = Field(
        True, description="Whether a row names the columns: the first one, or the first that has the names asked for."
    )
    include_diagnostics: bool = Field(
        False, description="Tells how many rows each condition matched, and why not more."
    )
    compact: Compact = False


class SheetsRequest(Arguments):
    """One request to the sheets app: an action, and the fields that it takes."""

    also: ClassVar[Mapping[str, str]] = {"sheet_name": "tab_name", "tab": "tab_name"}

    action: Literal[
        "help", "create", "delete", "read_tab", "read_csv", "list_tabs", "add_tab", "delete_tab", "edit", "add_content",
        "delete_content", "create_chart", "filter_tab",
    ] = Field(description="What to do; help lists the fields of every action.")  # fmt: skip
    file_path: str | None = Field(None, description="Path of the file, such as /reports/budget.xlsx. All but create.")
    directory: str | None = Field(None, description="create: folder.")
    file_name: str | None = Field(None, description="create: name of the file.")
    tab_index: TabIndex | None = None
    tab_name: str | None = Field(None, description="add_tab: name of the new tab.")
    cell_range: str | None = Field(None, description="read_tab, filter_tab: only this range.")
    include_formulas: bool | None = Field(None, description="read_tab: formulas behind the values. Default false.")
    max_rows: int | None = Field(None, description="read_tab: at most so many rows. Default 1000.", ge=1)
    max_cols: int | None = Field(None, description="read_tab: at most so many columns. Default 100.", ge=1)
    compact: bool | None = Field(None, description="Readers: leave out what is empty. Default false.")
    include_diagnostics: bool | None = Field(None, description="filter_tab: matches of each condition. Default false.")
    sheets: list[TabSpec] | None = Field(None, description="create: the sheets, in order.")
    sheet_data: SheetData | None = Field(None, description="add_tab: what to fill it with.")
    operations: list[Operation] | None = Field(
        None, description="edit: operations in order, each {type, ...}; sheets_schema tells the fields of each type."
    )
    cell: str | None = Field(None, description="add_content, delete_content: address of the cell.")
    value: str | int | float | bool | None = Field(None, description="add_content: value or formula.")
    sheet: str | None = Field(None, description="create_chart: sheet with the data.")
    data_range: str | None = Field(None, description="create_chart: the data, such as A1:C10.")
    chart_type: Literal["bar", "line", "pie"] | None = Field(None, description="create_chart: kind. Default bar.")
    title: str | None = Field(None, description="create_chart: title.")
    position: str | None = Field(None, description="create_chart: cell of the upper left corner. Default E2.")
    categories_column: int | None = Field(None, description="create_chart: column of the categories, from 1.")
    include_header: bool | None = Field(None, description="create_chart: first row names the series. Default true.")
    delimiter: str | None = Field(None, description="read_csv: separator. Default comma.")
    encoding: str | None = Field(None, description="read_csv: encoding. Default utf-8.")
    has_header: bool | None = Field(None, description="read_csv: first row names the columns. Default true.")
    row_limit: int | None = Field(None, description="read_csv: at most so many rows. Default 1000.", ge=1)
    filters: list[Filter] | None = Field(None, description="filter_tab: the conditions.")
    match_all: bool | None = Field(None, description="filter_tab: all conditions, or any. Default true.")
    use_headers: bool | None = Field(None, description="filter_tab: first row names the columns. Default true.")


class _Written(BaseModel):
    status: str = "success"
    file_path: str


class Created(_Written):
    """What `create_spreadsheet` made."""

    sheets_created: int
    message: str
    warnings: list[str] = []


class Deleted(_Written):
    """What `delete_spreadsheet` deleted."""

    message: str


class TabAdded(_Written):
    """What `add_tab` made."""

    tab_name: str
    tab_index: int
    rows_added: int
    warnings: list[str] = []


class TabDeleted(_Written):
    """What `delete_tab` deleted."""

    tab_name: str
    tab_index: int
    changes: list[str] = []
    warnings: list[str] = []


class Edited(_Written):
    """What `edit_spreadsheet` did: one line for each operation, then the cells that changed."""

    operations_applied: int
    operations: list[str]
    changes: list[str] = []
    warnings: list[str] = []


class CellWritten(_Written):
    """What was written to, or deleted from, a cell."""

    cell: str
    tab_index: int
    tab_name: str
    old_value: str
    new_value: str
    changes: list[str] = []
    warnings: list[str] = []


class ChartMade(_Written):
    """Which chart was made."""

    message: str
    warnings: list[str] = []
