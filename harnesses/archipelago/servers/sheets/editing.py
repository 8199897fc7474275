"""Carries out edit operations, one after another, on one open workbook.

Used by the handler of `edit_spreadsheet`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from envkit.harnesses.archipelago.servers.app import Arguments, Context, ToolError
from envkit.harnesses.archipelago.servers.sheets import (
    drawings,
    edit_cells,
    edit_looks,
    edit_names,
    edit_rules,
    operations,
)
from envkit.harnesses.archipelago.servers.sheets.book import Book

__all__ = ["carry_out"]

_DONE_BY: dict[type[Arguments], Callable[[Book, Any], str]] = {
    operations.SetCell: edit_cells.set_cell,
    operations.AppendRows: edit_cells.append_rows,
    operations.MergeCells: edit_cells.merge_cells,
    operations.UnmergeCells: edit_cells.unmerge_cells,
    operations.RenameSheet: edit_names.rename_sheet,
    operations.AddNamedRange: edit_names.add_named_range,
    operations.DeleteNamedRange: edit_names.delete_named_range,
    operations.FormatCells: edit_looks.format_cells,
    operations.SetNumberFormat: edit_looks.set_number_format,
    operations.SetColumnWidth: edit_looks.set_column_width,
    operations.SetRowHeight: edit_looks.set_row_height,
    operations.FreezePanes: edit_looks.freeze_panes,
    operations.AddDataValidation: edit_rules.add_data_validation,
    operations.AddConditionalFormatting: edit_rules.add_conditional_formatting,
    operations.SetAutoFilter: edit_rules.set_auto_filter,
}


def carry_out(book: Book, asked: Sequence[Any], context: Context) -> list[str]:
    """Carries out operations in order; returns a line for each.

    Raises:
        ToolError: One failed: which (counted from 0), what was expected. The book is then not to be written.
    """
    done: list[str] = []
    for index, operation in enumerate(asked):
        try:
            if isinstance(operation, operations.AddImage):
                done.append(drawings.add_image(book, operation, context))
            else:
                done.append(_DONE_BY[type(operation)](book, operation))
        except ToolError as error:
            raise ToolError(
                f"operation {index} ({operation.type}) of {len(asked)}, counted from 0, failed and nothing "
                f"was written: {error}"
            ) from error
    return done
