"""The operations on contents: set a cell, append rows, merge and unmerge.

Used by `editing.py`.
"""

from __future__ import annotations

from lxml import etree

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.sheets.areas import a1, area_of, cell_of, is_block, overlaps, split_sheet
from envkit.harnesses.archipelago.servers.sheets.book import Book, SheetEntry, TableEntry
from envkit.harnesses.archipelago.servers.sheets.grid import Grid, merged, place
from envkit.harnesses.archipelago.servers.sheets.operations import AppendRows, MergeCells, SetCell, UnmergeCells
from envkit.harnesses.archipelago.servers.sheets.parts import MAIN
from envkit.harnesses.archipelago.servers.sheets.storing import shown_before, store
from envkit.office.workbook import show_address
from envkit.office.workbook.values import MAX_COLUMN, MAX_ROW

__all__ = ["append_rows", "merge_cells", "set_cell", "unmerge_cells", "warn_protected"]


def warn_protected(book: Book, entry: SheetEntry) -> None:
    """Says that a sheet is protected: a person could not have made this change."""
    root = book.parts.xml(entry.part)
    protection = root.find(f"{MAIN}sheetProtection")
    if protection is not None and protection.get("sheet") in ("1", "true"):
        book.report.warn(f"sheet {entry.name!r} is protected; in Excel its locked cells could not be changed by hand")


def set_cell(book: Book, op: SetCell) -> str:
    named, _rest = split_sheet(op.cell)
    entry = book.find(op.sheet or named or book.active().name)
    at = cell_of(op.cell, entry.name)
    warn_protected(book, entry)
    store(book, entry, at, op.value)
    return f"set {entry.name}!{show_address(at)}"


def append_rows(book: Book, op: AppendRows) -> str:
    entry = book.find(op.sheet)
    grid = book.grid(entry)
    warn_protected(book, entry)
    start = grid.last_row() + 1
    width = max(len(row) for row in op.rows)
    left = _first_column(book, entry, width)
    if start + len(op.rows) - 1 > MAX_ROW or left + width - 1 > MAX_COLUMN:
        raise ToolError(f"the rows don't fit: a sheet has {MAX_ROW:,} rows and {MAX_COLUMN:,} columns")
    table = _table_to_grow(book, entry, start, left, width)
    looks = {column: _look(grid, start, column) for column in range(left, left + width)}
    for number, row in enumerate(op.rows, start):
        for column, value in enumerate(row, left):
            if value is None:
                continue
            at = (number, column)
            style = looks[column]
            if style is not None and grid.cell(at) is None:
                grid.set_style(at, style)
            store(book, entry, at, value)
    last = start + len(op.rows) - 1
    text = f"appended {len(op.rows)} rows to {entry.name}, rows {start} to {last}"
    if table is not None:
        _grow(book, grid, table, last)
        text += f"; table {table.name} now reaches to row {last}"
    return text


def _first_column(book: Book, entry: SheetEntry, width: int) -> int:
    """Where appended rows begin: the first column of what is there, where they are no wider than that; else A."""
    sheet = book.before.sheet(entry.original) if entry.original is not None else None
    columns = {column for _, column in sheet.cells} if sheet is not None else set()
    columns |= {column for _, column in book.dirty.get(entry.name, ())}
    if not columns or width > max(columns) - min(columns) + 1:
        return 1
    return min(columns)


def _look(grid: Grid, start: int, column: int) -> int | None:
    """The look of the data above, where two rows agree on it: a header's look is not taken."""
    if start < 3:
        return None
    above = [grid.cell((start - step, column)) for step in (1, 2)]
    if any(cell is None for cell in above):
        return None
    styles = {cell.get("s", "0") for cell in above}
    return int(styles.pop()) if len(styles) == 1 else None


def _table_to_grow(book: Book, entry: SheetEntry, start: int, left: int, width: int) -> TableEntry | None:
    for table in book.tables(entry):
        _, first, bottom, last = table.area
        if bottom == start - 1 and first <= left and left + width - 1 <= last:
            if table.totals:
                book.report.warn(f"the rows stand below the totals row of table {table.name} and are no part of it")
                return None
            return table
    return None


def _grow(book: Book, grid: Grid, table: TableEntry, bottom: int) -> None:
    root = book.parts.edit(table.part)
    top, left, old, right = table.area
    ref = a1((top, left, bottom, right))
    root.set("ref", ref)
    filters = root.find(f"{MAIN}autoFilter")
    if filters is not None:
        filters.set("ref", ref)
    # What the table computes in its columns, it computes in the new rows too.
    for index, column in enumerate(table.columns):
        formula = column.find(f"{MAIN}calculatedColumnFormula")
        if formula is None or not formula.text or formula.get("array"):
            continue
        for row in range(old + 1, bottom + 1):
            at = (row, left + index)
            cell = grid.cell(at)
            if cell is None or not grid.filled(cell):
                style = _look(grid, old + 1, at[1])
                if style is not None:
                    grid.set_style(at, style)
                grid.set_formula(at, formula.text.removeprefix("="))
                sheet = grid.name
                book.mark(sheet, at)
                book.report.cell(sheet, at, "(empty)", f"={formula.text.removeprefix('=')}")


def merge_cells(book: Book, op: MergeCells) -> str:
    entry = book.find(op.sheet)
    grid = book.grid(entry)
    area = area_of(op.range, entry.name)
    if not is_block(area):
        raise ToolError(f"{op.range!r} is one cell; give a block of at least two, such as A1:C1")
    for _, other in merged(grid.root):
        if other == area:
            return f"{entry.name}!{a1(area)} was merged already"
        if overlaps(area, other):
            raise ToolError(f"{a1(area)} overlaps the merged block {a1(other)}; unmerge that one first")
    for table in book.tables(entry):
        if overlaps(area, table.area):
            raise ToolError(
                f"{a1(area)} overlaps table {table.name} ({a1(table.area)}); cells of a table can't be merged"
            )
    for array, _ in grid.arrays():
        if overlaps(area, array) and is_block(array):
            raise ToolError(f"{a1(area)} overlaps the array formula in {a1(array)}, which can't be merged")
    warn_protected(book, entry)
    lost = []
    for at, cell in list(grid.within(area)):
        if at != area[:2] and grid.filled(cell):
            old = shown_before(book, entry, at)
            grid.clear(at)
            book.mark(entry.name, at)
            book.report.cell(entry.name, at, old, "(empty)")
            book.shown_now[entry.name, at] = "(empty)"
            lost.append(f"{show_address(at)} = {old}")
    if lost:
        book.report.warn(
            f"merging {entry.name}!{a1(area)} kept the first cell only and dropped {', '.join(lost[:8])}"
            + (f" and {len(lost) - 8} more" if len(lost) > 8 else "")
        )
    holder = place(grid.root, "mergeCells")
    etree.SubElement(holder, f"{MAIN}mergeCell", ref=a1(area))
    holder.set("count", str(len(holder)))
    return f"merged {entry.name}!{a1(area)}"


def unmerge_cells(book: Book, op: UnmergeCells) -> str:
    entry = book.find(op.sheet)
    grid = book.grid(entry)
    area = area_of(op.range, entry.name)
    found = merged(grid.root)
    inside = [(e, m) for e, m in found if area[0] <= m[0] and m[2] <= area[2] and area[1] <= m[1] and m[3] <= area[3]]
    if not inside and not is_block(area):
        inside = [(e, m) for e, m in found if m[:2] == area[:2]]
    if not inside:
        blocks = ", ".join(a1(m) for _, m in found[:20]) or "none"
        raise ToolError(f"no merged block lies within {a1(area)} of {entry.name!r}; merged blocks: {blocks}")
    holder = inside[0][0].getparent()
    for element, _ in inside:
        holder.remove(element)
    if len(holder):
        holder.set("count", str(len(holder)))
    else:
        grid.root.remove(holder)
    return f"unmerged {', '.join(a1(m) for _, m in inside)} on {entry.name}"
