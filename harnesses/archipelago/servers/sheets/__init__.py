"""The sheets app: spreadsheets read with recalculated values, and edited part by part so that nothing in them is lost.

Reads xlsx, xlsm, xls, xlsb, ods and csv; edits xlsx and xlsm. An edit writes only the parts of the package that it
touches, computes what depends on it, and says old and new values. Used by the server process, by the harness, and by
the tests.
"""

from __future__ import annotations

from typing import Any

from envkit.harnesses.archipelago.servers.app import Action, App, Meta, Tool
from envkit.harnesses.archipelago.servers.sheets.models import (
    AddContent,
    AddTab,
    CellWritten,
    ChartMade,
    CreateChart,
    Created,
    CreateSpreadsheet,
    DeleteContent,
    Deleted,
    DeleteSpreadsheet,
    DeleteTab,
    Edited,
    EditSpreadsheet,
    Filter,
    FilterTab,
    ListTabs,
    ReadCsv,
    ReadTab,
    SheetData,
    SheetsRequest,
    TabAdded,
    TabDeleted,
    TabSpec,
)
from envkit.harnesses.archipelago.servers.sheets.operations import OPERATIONS

__all__ = ["APP"]


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _dumped(result: Any) -> Any:
    return result.model_dump(mode="json") if hasattr(result, "model_dump") else result


_TOOLS = (
    Tool(
        "create_spreadsheet",
        "Creates an xlsx workbook with sheets of headers and rows. Text that begins with = is a "
        "formula; formulas are computed.",
        CreateSpreadsheet,
        "writing:create_spreadsheet",
        wrapper="input",
        writes=True,
    ),
    Tool(
        "delete_spreadsheet",
        "Deletes a spreadsheet file.",
        DeleteSpreadsheet,
        "writing:delete_spreadsheet",
        writes=True,
        lock="file_path",
    ),
    Tool(
        "read_tab",
        "Reads a tab as a grid with column letters and row numbers, with recalculated values as they are "
        "seen; an exact value stands in [brackets] where what is seen is rounded. Notes below it tell of "
        "merged cells, "
        "comments, hidden rows, tables and charts.",
        ReadTab,
        "reading:read_tab",
        wrapper="input",
    ),
    Tool("read_csv", "Reads a csv or tsv file as a grid.", ReadCsv, "reading:read_csv", wrapper="input"),
    Tool(
        "list_tabs_in_spreadsheet",
        "Lists the tabs of a workbook with their place (from 0), size, visibility, "
        "tables, charts and pivots, and the defined names.",
        ListTabs,
        "reading:list_tabs_in_spreadsheet",
    ),
    Tool(
        "add_tab",
        "Adds a tab at the end of a workbook, empty or with headers and rows.",
        AddTab,
        "writing:add_tab",
        wrapper="input",
        writes=True,
        lock="file_path",
    ),
    Tool(
        "delete_tab",
        "Deletes a tab; formulas that read it say #REF! afterwards.",
        DeleteTab,
        "writing:delete_tab",
        writes=True,
        lock="file_path",
    ),
    Tool(
        "edit_spreadsheet",
        "Edits a workbook by a list of operations, all or none: set_cell, append_rows, "
        "rename_sheet, format_cells, merge_cells, unmerge_cells, set_column_width, set_row_height, "
        "freeze_panes, add_named_range, "
        "delete_named_range, add_data_validation, add_conditional_formatting, set_auto_filter, set_number_format, "
        "add_image. Formulas are recalculated; old and new values are told.",
        EditSpreadsheet,
        "writing:edit_spreadsheet",
        wrapper="input",
        writes=True,
        lock="file_path",
    ),
    Tool(
        "add_content_text",
        "Writes a value or formula into one cell.",
        AddContent,
        "writing:add_content_text",
        writes=True,
        lock="file_path",
    ),
    Tool(
        "delete_content_cell",
        "Empties a cell; its look stays.",
        DeleteContent,
        "writing:delete_content_cell",
        writes=True,
        lock="file_path",
    ),
    Tool(
        "create_chart",
        "Puts a bar, line or pie chart of a block of cells onto the sheet.",
        CreateChart,
        "writing:create_chart",
        wrapper="input",
        writes=True,
        lock="file_path",
    ),
    Tool(
        "filter_tab",
        "Shows the rows of a tab that meet conditions; numbers, dates and text compare as what they are.",
        FilterTab,
        "filtering:filter_tab",
        wrapper="input",
    ),
)

APP = App(
    name="sheets",
    server="sheets_server",
    package="sheets",
    tools=_TOOLS,
    metas=(
        Meta(
            name="sheets",
            description="Spreadsheets: create, delete, read_tab, read_csv, list_tabs, add_tab, delete_tab, edit, "
            "add_content, delete_content, create_chart, filter_tab. action='help' lists the fields.",
            request=SheetsRequest,
            actions={
                "create": Action("create_spreadsheet", _same("directory", "file_name", "sheets"), wrap=_dumped),
                "delete": Action("delete_spreadsheet", _same("file_path"), wrap=_dumped),
                "read_tab": Action(
                    "read_tab",
                    _same(
                        "file_path", "tab_index", "cell_range", "include_formulas", "max_rows", "max_cols", "compact"
                    ),
                ),
                "read_csv": Action(
                    "read_csv", _same("file_path", "delimiter", "encoding", "has_header", "row_limit", "compact")
                ),
                "list_tabs": Action("list_tabs_in_spreadsheet", _same("file_path")),
                "add_tab": Action("add_tab", _same("file_path", "tab_name", "sheet_data"), wrap=_dumped),
                "delete_tab": Action("delete_tab", _same("file_path", "tab_index"), wrap=_dumped),
                "edit": Action("edit_spreadsheet", _same("file_path", "operations"), wrap=_dumped),
                "add_content": Action(
                    "add_content_text", _same("file_path", "tab_index", "cell", "value"), wrap=_dumped
                ),
                "delete_content": Action("delete_content_cell", _same("file_path", "tab_index", "cell"), wrap=_dumped),
                "create_chart": Action(
                    "create_chart",
                    _same(
                        "file_path",
                        "sheet",
                        "data_range",
                        "chart_type",
                        "title",
                        "position",
                        "categories_column",
                        "include_header",
                    ),
                    wrap=_dumped,
                ),
                "filter_tab": Action(
                    "filter_tab",
                    _same(
                        "file_path",
                        "tab_index",
                        "filters",
                        "cell_range",
                        "match_all",
                        "use_headers",
                        "include_diagnostics",
                        "compact",
                    ),
                ),
            },
        ),
    ),
    models={
        **{operation.model_fields["type"].annotation.__args__[0]: operation for operation in OPERATIONS},  # type: ignore[union-attr]
        "SheetData": SheetData,
        "TabSpec": TabSpec,
        "Filter": Filter,
        "Created": Created,
        "Deleted": Deleted,
        "TabAdded": TabAdded,
        "TabDeleted": TabDeleted,
        "Edited": Edited,
        "CellWritten": CellWritten,
        "ChartMade": ChartMade,
    },
)
