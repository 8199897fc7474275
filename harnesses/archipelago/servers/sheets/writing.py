"""The handlers of the tools that write: create, edit, add and delete. All or nothing; results say what happened.

A file is read, changed in memory, computed, and replaced in one step; until then nothing on disk is touched. Used by
the server process by name.
"""

from __future__ import annotations

import re
from pathlib import Path

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.sheets import charts, tabs
from envkit.harnesses.archipelago.servers.sheets.areas import a1, area_of, cell_of, is_block
from envkit.harnesses.archipelago.servers.sheets.blank import blank_workbook
from envkit.harnesses.archipelago.servers.sheets.book import Book, SheetEntry
from envkit.harnesses.archipelago.servers.sheets.edit_cells import warn_protected
from envkit.harnesses.archipelago.servers.sheets.edit_names import check_sheet_name
from envkit.harnesses.archipelago.servers.sheets.editing import carry_out
from envkit.harnesses.archipelago.servers.sheets.grid import merged
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
    TabAdded,
    TabDeleted,
)
from envkit.harnesses.archipelago.servers.sheets.operations import Scalar
from envkit.harnesses.archipelago.servers.sheets.recalculation import finished
from envkit.harnesses.archipelago.servers.sheets.storing import shown_before, store
from envkit.office.workbook import show_address

__all__ = [
    "add_content_text", "add_tab", "create_chart", "create_spreadsheet", "delete_content_cell", "delete_spreadsheet",
    "delete_tab", "edit_spreadsheet",
]  # fmt: skip

EDITABLE = (".xlsx", ".xlsm", ".xltx", ".xltm")
_SPREADSHEETS = (*EDITABLE, ".xls", ".xlsb", ".ods", ".csv", ".tsv")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$|-?\.[0-9]+$")
#: Cells of a block that may be emptied in one call.
MAX_CLEARED = 100_000


def _opened(context: Context, file_path: str) -> tuple[Path, Book]:
    path = context.path(file_path, must_exist=True)
    suffix = path.suffix.lower()
    if path.is_file() and suffix not in EDITABLE:
        shown = context.shown(path)
        if suffix in (".csv", ".tsv", ".txt"):
            raise ToolError(
                f"{shown} is a text file; these tools edit xlsx and xlsm workbooks only. Edit it as text (with "
                "code_exec), or create an .xlsx file from its rows"
            )
        raise ToolError(
            f"{shown} is not an xlsx or xlsm workbook, and only those can be edited"
            + ("; it can be read. Create an .xlsx file from what it holds" if suffix in _SPREADSHEETS else "")
        )
    return path, context.parse(path, Book)


def create_spreadsheet(arguments: CreateSpreadsheet, context: Context) -> Created:
    name = arguments.file_name.strip()
    if not name or "/" in name or "\\" in name or name in (".", ".."):
        raise ToolError(
            f"{arguments.file_name!r} is no name of a file; give one such as budget.xlsx, and the folder in directory"
        )
    suffix = Path(name).suffix.lower()
    if suffix in (".xls", ".xlsm", ".xlsb", ".ods", ".csv", ".tsv", ".xltx", ".xltm"):
        raise ToolError(f"{name!r}: new workbooks are .xlsx files; give a name that ends in .xlsx")
    if suffix != ".xlsx":
        name += ".xlsx"
    folder = context.path(arguments.directory or "/")
    if folder.exists() and not folder.is_dir():
        raise ToolError(f"{context.shown(folder)} is a file, not a folder")
    path = context.path(f"{context.shown(folder)}/{name}")
    if path.exists():
        raise ToolError(
            f"{context.shown(path)} exists already; edit it with edit_spreadsheet, delete it first, or "
            "choose another name"
        )
    names: list[str] = []
    for spec in arguments.sheets:
        names.append(check_sheet_name(None, spec.name, taken=names))
    book = Book(blank_workbook(names[0]))
    rows = 0
    # Sheets first, so that formulas may refer to later ones.
    entries = [book.sheets[0], *(tabs.add_sheet(book, name) for name in names[1:])]
    for entry, spec in zip(entries, arguments.sheets, strict=True):
        rows += tabs.fill(book, entry, spec.headers, spec.rows)
    book.touched = True
    context.write(path, finished(book))
    listed = ", ".join(repr(name) for name in names)
    return Created(
        file_path=context.shown(path),
        sheets_created=len(names),
        message=f"created {context.shown(path)} with {len(names)} sheets ({listed}) and {rows:,} rows of data",
        warnings=book.report.warnings,
    )


def delete_spreadsheet(arguments: DeleteSpreadsheet, context: Context) -> Deleted:
    path = context.path(arguments.file_path, must_exist=True)
    shown = context.shown(path)
    if not path.is_file():
        raise ToolError(f"{shown} is a folder, not a spreadsheet; nothing was deleted")
    if path.suffix.lower() not in _SPREADSHEETS:
        raise ToolError(f"{shown} is not a spreadsheet ({', '.join(_SPREADSHEETS)}); nothing was deleted")
    try:
        path.unlink()
    except OSError as error:
        raise ToolError(f"{shown} can't be deleted: {error.strerror}") from error
    return Deleted(file_path=shown, message=f"deleted {shown}")


def add_tab(arguments: AddTab, context: Context) -> TabAdded:
    path, book = _opened(context, arguments.file_path)
    entry = tabs.add_sheet(book, arguments.tab_name)
    rows = 0
    if arguments.sheet_data is not None:
        rows = tabs.fill(book, entry, arguments.sheet_data.headers, arguments.sheet_data.rows)
    book.touched = True
    context.write(path, finished(book))
    return TabAdded(
        file_path=context.shown(path),
        tab_name=entry.name,
        tab_index=book.sheets.index(entry),
        rows_added=rows,
        warnings=book.report.warnings,
    )


def delete_tab(arguments: DeleteTab, context: Context) -> TabDeleted:
    path, book = _opened(context, arguments.file_path)
    entry = book.tab(arguments.tab_index)
    name, place = entry.name, book.sheets.index(entry)
    tabs.delete_sheet(book, entry)
    context.write(path, finished(book))
    return TabDeleted(
        file_path=context.shown(path),
        tab_name=name,
        tab_index=place,
        changes=book.report.changes(),
        warnings=book.report.warnings,
    )


def edit_spreadsheet(arguments: EditSpreadsheet, context: Context) -> Edited:
    path, book = _opened(context, arguments.file_path)
    done = carry_out(book, arguments.operations, context)
    context.write(path, finished(book))
    return Edited(
        file_path=context.shown(path),
        operations_applied=len(done),
        operations=[f"{index}: {line}" for index, line in enumerate(done)],
        changes=book.report.changes(),
        warnings=book.report.warnings,
    )


def add_content_text(arguments: AddContent, context: Context) -> CellWritten:
    path, book = _opened(context, arguments.file_path)
    entry = book.tab(arguments.tab_index)
    at = cell_of(arguments.cell, entry.name)
    warn_protected(book, entry)
    old = shown_before(book, entry, at)
    store(book, entry, at, _typed(book, entry, at, arguments.value))
    context.write(path, finished(book))
    return _written(book, entry, context, path, show_address(at), old)


def _typed(book: Book, entry: SheetEntry, at: tuple[int, int], value: Scalar) -> Scalar:
    """The tool takes text alone: what a person would have typed as a number is one."""
    if not isinstance(value, str):
        return value
    if _NUMBER.match(value.strip()) and book.format_of(book.grid(entry).style(at)) != "@":
        number = float(value)
        if len(re.sub(r"\D", "", value)) > 15:
            return value
        return int(value) if re.fullmatch(r"\s*-?[0-9]+\s*", value) else number
    if value[:1] == "'" and _NUMBER.match(value[1:].strip()):
        return value[1:]
    return value


def delete_content_cell(arguments: DeleteContent, context: Context) -> CellWritten:
    path, book = _opened(context, arguments.file_path)
    entry = book.tab(arguments.tab_index)
    area = area_of(arguments.cell, entry.name)
    grid = book.grid(entry)
    warn_protected(book, entry)
    if not is_block(area):
        at = area[:2]
        for _, block in merged(grid.root):
            if block[0] <= at[0] <= block[2] and block[1] <= at[1] <= block[3]:
                at = block[:2]
        old = shown_before(book, entry, at)
        if grid.cell(at) is not None and grid.filled(grid.cell(at)):
            store(book, entry, at, None)
            context.write(path, finished(book))
        return _written(book, entry, context, path, show_address(at), old)
    filled = [at for at, cell in grid.within(area) if grid.filled(cell)]
    if len(filled) > MAX_CLEARED:
        raise ToolError(f"{a1(area)} holds {len(filled):,} filled cells; at most {MAX_CLEARED:,} are emptied at once")
    for at in filled:
        store(book, entry, at, None)
    if filled:
        context.write(path, finished(book))
    return _written(book, entry, context, path, a1(area), f"{len(filled)} filled cells")


def _written(book: Book, entry: SheetEntry, context: Context, path: Path, cell: str, old: str) -> CellWritten:
    lines = [line for (_, _), line in book.report.cells.items()]
    new = lines[0][1] if len(lines) == 1 else "(empty)"
    return CellWritten(
        file_path=context.shown(path),
        cell=cell,
        tab_index=book.sheets.index(entry),
        tab_name=entry.name,
        old_value=old,
        new_value=new,
        changes=book.report.changes(),
        warnings=book.report.warnings,
    )


def create_chart(arguments: CreateChart, context: Context) -> ChartMade:
    path, book = _opened(context, arguments.file_path)
    made = charts.create(book, arguments)
    context.write(path, finished(book))
    return ChartMade(
        file_path=context.shown(path),
        message=f"created a {made} in {context.shown(path)}",
        warnings=book.report.warnings,
    )
