"""The handlers that read: a tab as a grid, a csv file, the list of tabs.

Values are recalculated ones, written as they are seen, with the exact value where that says more; what can't be
computed and has no stored value says so. What is cut off, hidden, merged or hung beside the cells is said below the
grid. Used by the server process by name, and by `filtering.py`.
"""

from __future__ import annotations

import codecs
import datetime as dt
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.sheets.areas import area_of, overlaps
from envkit.harnesses.archipelago.servers.sheets.display import NOT_CALCULATED, brief, cell_text
from envkit.harnesses.archipelago.servers.sheets.formulas import shown
from envkit.harnesses.archipelago.servers.sheets.models import ListTabs, ReadCsv, ReadTab
from envkit.office.problem import Problem, Unreadable
from envkit.office.table import decode_text, read_table
from envkit.office.workbook import (
    Address,
    Area,
    Cell,
    Sheet,
    Unknown,
    Value,
    Workbook,
    column_letters,
    read_workbook,
    show_address,
    show_area,
)
from envkit.office.workbook.values import MAX_COLUMN, MAX_ROW

__all__ = ["grid_text", "list_tabs_in_spreadsheet", "opened", "read_csv", "read_tab", "tab_of", "used_area"]

_TABLES = (".csv", ".tsv", ".txt")
_LEGACY = (".xls", ".xlsb", ".ods", ".xlt")
#: Things of one kind that a note lists.
LISTED = 15


#: The place of no tab: all are listed, none is read.
_NO_TAB = -1


def opened(context: Context, file_path: str, only: int | str | None = None) -> tuple[Workbook, str]:
    """A workbook of any kind that can be read, and what its kind leaves unsaid. Raises `ToolError`, `Unreadable`.

    Args:
        only: The one sheet that is wanted, by place or name; the others may be empty then.
    """
    path = context.path(file_path, must_exist=True)
    suffix = path.suffix.lower()
    if path.is_file() and suffix in _TABLES:
        raise ToolError(f"{context.shown(path)} is a text table, not a workbook; read it with read_csv")
    if path.is_file() and suffix in (".docx", ".pdf", ".pptx", ".doc", ".ppt"):
        raise ToolError(f"{context.shown(path)} is no spreadsheet; read it with the tools for {suffix[1:]} files")
    if suffix in _LEGACY:
        if context.read(path).startswith(b"PK\x03\x04") and suffix == ".xls":
            return context.parse(path, lambda data: read_workbook(data, only)), ""
        from envkit.office.legacy import read_legacy_workbook

        book = context.parse(path, read_legacy_workbook)
        return book, f"formulas, comments, charts and looks of {suffix} files are not read, only values"
    try:
        return context.parse(path, lambda data: read_workbook(data, only)), ""
    except Unreadable as error:
        if error.problem is not Problem.UNSUPPORTED:
            raise
        from envkit.office.legacy import read_legacy_workbook

        return context.parse(
            path, read_legacy_workbook
        ), "it is an old xls file under another name: values only are read"


def tab_of(book: Workbook, index: int | str) -> Sheet:
    """The sheet at a place, counted from 0, or of a name (compared without case). Raises `ToolError`."""
    if isinstance(index, str):
        found = next((s for s in book.sheets if s.name == index), None) or next(
            (s for s in book.sheets if s.name.strip().casefold() == index.strip().casefold()), None
        )
        if found is not None:
            return found
        names = [sheet.name for sheet in book.sheets]
        listed = ", ".join(f"{i} {name!r}" for i, name in enumerate(names))
        raise ToolError(f"there is no tab {index!r}{did_you_mean(index, names)}; the workbook has {listed}")
    if index >= len(book.sheets):
        listed = ", ".join(f"{i} {sheet.name!r}" for i, sheet in enumerate(book.sheets))
        raise ToolError(f"there is no tab {index}; the workbook has {len(book.sheets)}, counted from 0: {listed}")
    return book.sheets[index]


def used_area(sheet: Sheet) -> Area | None:
    """The area that holds cells, None in an empty sheet."""
    if not sheet.cells:
        return None
    columns = [column for _, column in sheet.cells]
    return sheet.ordered[0][0], min(columns), sheet.ordered[-1][0], max(columns)


def asked_area(sheet: Sheet, cell_range: str | None) -> Area | None:
    """The area that is asked for, whole columns and rows cut to what is used; None where there is nothing."""
    used = used_area(sheet)
    if cell_range is None or not cell_range.strip():
        return used
    top, left, bottom, right = area_of(cell_range, sheet.name)
    if used is None:
        return None
    if bottom == MAX_ROW:
        bottom = max(used[2], top)
    if right == MAX_COLUMN:
        right = max(used[3], left)
    # Beyond what is used there is nothing; a range far out is not padded with empty rows.
    return top, left, max(top, min(bottom, max(used[2], top))), max(left, min(right, max(used[3], left)))


def read_tab(arguments: ReadTab, context: Context) -> str:
    book, note = opened(context, arguments.file_path, arguments.tab_index)
    sheet = tab_of(book, arguments.tab_index)
    title = f"{sheet.name!r} (tab {book.sheets.index(sheet)} of {len(book.sheets)})"
    if sheet.state != "visible":
        title += f", {sheet.state}"
    if sheet.kind != "worksheet":
        return f"{title} is a {sheet.kind} and has no cells\n" + "\n".join(_charts(sheet))
    used = used_area(sheet)
    area = asked_area(sheet, arguments.cell_range)
    if used is None or area is None:
        return "\n".join([f"{title} is empty: it has no filled cell", *_notes(sheet, None), *([note] if note else [])])
    rows, columns = list(range(area[0], area[2] + 1)), list(range(area[1], area[3] + 1))
    if arguments.compact:
        filled = [at for at in sheet.ordered if area[0] <= at[0] <= area[2] and area[1] <= at[1] <= area[3]]
        rows, columns = sorted({row for row, _ in filled}), sorted({column for _, column in filled})
    cut: list[str] = []
    if arguments.max_rows is not None and len(rows) > arguments.max_rows:
        following = rows[arguments.max_rows]
        end = min(area[2], following + arguments.max_rows - 1)
        rest = f"{column_letters(area[1])}{following}:{column_letters(area[3])}{end}"
        cut.append(
            f"rows {rows[0]} to {rows[arguments.max_rows - 1]} of {rows[0]} to {area[2]} are shown "
            f"({len(rows) - arguments.max_rows:,} more rows); ask cell_range={rest} for the next"
        )
        rows = rows[: arguments.max_rows]
    if arguments.max_cols is not None and len(columns) > arguments.max_cols:
        following = columns[arguments.max_cols]
        last = column_letters(min(area[3], following + arguments.max_cols - 1))
        cut.append(
            f"columns {column_letters(columns[0])} to {column_letters(columns[arguments.max_cols - 1])} of "
            f"{column_letters(area[3])} are shown; ask "
            f"cell_range={column_letters(following)}{area[0]}:{last}{area[2]} for the next"
        )
        columns = columns[: arguments.max_cols]
    seen_area = (rows[0], columns[0], rows[-1], columns[-1]) if rows and columns else area
    head = f"{title}: used range {show_area(used)}"
    if seen_area != used:
        head += f", shown {show_area(seen_area)}"
    grid, facts = grid_text(book, sheet, rows, columns, formulas=arguments.include_formulas)
    lines = [head, grid, *cut, *facts]
    if not arguments.compact:
        if not arguments.include_formulas and (found := _formulas(sheet, seen_area)):
            lines.append(f"formulas: {_some(found)} (include_formulas=true shows them)")
        lines += _notes(sheet, seen_area)
    if note:
        lines.append(note)
    return "\n".join(lines)


def _formulas(sheet: Sheet, area: Area) -> list[str]:
    """Where formulas stand in an area, as runs down its columns."""
    runs: dict[int, list[list[int]]] = {}
    for row, column in sheet.ordered:
        if area[0] <= row <= area[2] and area[1] <= column <= area[3] and sheet.cells[row, column].formula is not None:
            own = runs.setdefault(column, [])
            if own and own[-1][1] == row - 1:
                own[-1][1] = row
            else:
                own.append([row, row])
    return [show_area((top, column, bottom, column)) for column, own in sorted(runs.items()) for top, bottom in own]


def grid_text(
    book: Workbook, sheet: Sheet, rows: Sequence[int], columns: Sequence[int], *, formulas: bool = False
) -> tuple[str, list[str]]:
    """Cells as a grid, tab-separated, with letters above and numbers at the left; and what is to be said of its
    values."""
    lines = ["\t" + "\t".join(column_letters(column) for column in columns)]
    unknown: list[str] = []
    stored: list[str] = []
    stale: list[str] = []
    arrays: list[str] = []
    by_row = sheet.rows
    wanted = set(columns)
    for row in rows:
        texts: dict[int, str] = {}
        for column in by_row.get(row, ()):
            if column not in wanted:
                continue
            at = (row, column)
            cell = sheet.cells[at]
            value = book.value(sheet, at)
            text = escaped(cell_text(value, cell.number_format))
            if cell.formula is not None:
                _provenance(book, sheet, at, cell, value, unknown, stored, stale)
                if at in sheet.arrays:
                    arrays.append(f"{show_address(at)} fills {sheet.arrays[at]}")
                if formulas:
                    formula = shown(cell.formula)
                    text = f"{text} ({formula})".lstrip()
                    text = text.replace("\n", " ").replace("\t", " ")
            texts[column] = text
        cells = [texts.get(column, "") for column in columns]
        while cells and not cells[-1]:
            cells.pop()
        lines.append("\t".join([str(row), *cells]))
    facts: list[str] = []
    if formulas and arrays:
        facts.append(f"array formulas: {_some(arrays)}")
    if unknown:
        facts.append(
            f"{NOT_CALCULATED}: {_some(unknown)} hold formulas that can't be computed here and have no stored value"
        )
    if stored:
        facts.append(f"{_some(stored)}: value as stored in the file; the formula can't be computed here")
    if stale:
        facts.append(f"recalculated values that differ from those stored in the file: {_some(stale)}")
    return "\n".join(lines), facts


def _provenance(
    book: Workbook, sheet: Sheet, at: Address, cell: Cell, value: Value, unknown: list[str], stored: list[str],
    stale: list[str],
) -> None:  # fmt: skip
    source = book.provenance(sheet, at)
    if source == "unknown":
        unknown.append(show_address(at))
    elif source == "cached":
        stored.append(show_address(at))
    elif cell.value is not None and not _same(cell.value, value):
        stale.append(f"{show_address(at)} (stored {brief(cell.value)})")


def _same(a: Value, b: Value) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(a, dt.datetime) and isinstance(b, dt.datetime):
        return abs((a - b).total_seconds()) < 1
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return True
    return a == b


def _some(items: Sequence[str]) -> str:
    more = f" and {len(items) - LISTED:,} more" if len(items) > LISTED else ""
    return ", ".join(items[:LISTED]) + more


def escaped(text: str) -> str:
    """A value on one line: its own tabs and line breaks are written as \\t and \\n."""
    if "\t" in text or "\n" in text or "\r" in text:
        text = text.replace("\r\n", "\n").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\n")
    return text


def _spans(numbers: Iterable[int], name: str | None = None) -> list[str]:
    """Neighbouring numbers as spans; with letters where they are columns."""
    out: list[list[int]] = []
    for number in sorted(numbers):
        if out and number == out[-1][1] + 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    show = column_letters if name == "columns" else str
    return [show(a) if a == b else f"{show(a)}-{show(b)}" for a, b in out]


def _notes(sheet: Sheet, area: Area | None) -> list[str]:
    """What stands beside the values in an area (anywhere on the sheet, without one)."""

    def within(other: Area) -> bool:
        return area is None or overlaps(area, other)

    def at(address: Address | None) -> str:
        return f" at {show_address(address)}" if address is not None else ""

    out: list[str] = []
    blocks = [show_area(block) for block in sheet.merged if within(block)]
    if blocks:
        out.append(f"merged: {_some(blocks)}")
    rows = [row for row in sheet.hidden_rows if area is None or area[0] <= row <= area[2]]
    columns = [c for c in sheet.hidden_columns if area is None or area[1] <= c <= area[3]]
    if rows:
        out.append(f"hidden rows: {_some(_spans(rows))}")
    if columns:
        out.append(f"hidden columns: {_some(_spans(columns, 'columns'))}")
    for comment in sheet.comments:
        if within((*comment.at, *comment.at)):
            replies = "".join(f" | {reply}" for reply in comment.replies)
            text = f"{comment.text}{replies}"
            resolved = " (resolved)" if comment.done else ""
            out.append(
                f"comment {show_address(comment.at)} by {comment.author or 'unknown'}{resolved}: {escaped(text)[:500]}"
            )
    links = [f"{show_area(place)} -> {target}" for place, target in sheet.hyperlinks.items() if within(place)]
    if links:
        out.append(f"links: {_some(links)}")
    for table in sheet.tables:
        if within(table.area):
            out.append(f"table {table.name}: {show_area(table.area)}" + (" with a totals row" if table.totals else ""))
    out += _charts(sheet)
    for pivot in sheet.pivots:
        place = f" at {show_area(pivot.area)}" if pivot.area is not None else ""
        out.append(f"pivot table {pivot.name}{place}, from {pivot.source}")
    if sheet.pictures:
        out.append("pictures: " + _some([f"{p.alt or 'picture'}{at(p.at)}" for p in sheet.pictures]))
    for shape in sheet.shapes:
        if shape.text.strip():
            out.append(f"text box{at(shape.at)}: {escaped(shape.text)[:300]}")
    if sheet.filter is not None and within(sheet.filter):
        out.append(f"filter buttons: {show_area(sheet.filter)}")
    for validation in sheet.validations:
        if any(within(place) for place in validation.areas):
            places = " ".join(show_area(place) for place in validation.areas[:5])
            out.append(f"allowed in {places}: {validation.rule[:200]}")
    return out


def _charts(sheet: Sheet) -> list[str]:
    out = []
    for item in sheet.charts:
        place = f" at {show_address(item.at)}" if item.at is not None else ""
        title = f" {item.chart.title!r}" if item.chart.title else ""
        out.append(f"chart{title} ({', '.join(item.chart.kinds) or 'unknown kind'}){place}")
    return out


def list_tabs_in_spreadsheet(arguments: ListTabs, context: Context) -> str:
    path = context.path(arguments.file_path, must_exist=True)
    whole = True
    try:
        book, note = opened(context, arguments.file_path)
    except Unreadable as error:
        if error.problem is not Problem.TOO_BIG:
            raise
        # The tabs can be read one by one still.
        book, note = opened(context, arguments.file_path, _NO_TAB)
        whole, note = False, "there are too many cells to tell more; each tab is read by itself"
    lines = [f"{context.shown(path)}: {len(book.sheets)} tabs, counted from 0"]
    for index, sheet in enumerate(book.sheets):
        about = _about(sheet) if whole else sheet.state if sheet.state != "visible" else sheet.kind
        lines.append(f"{index}\t{sheet.name!r}\t{about}")
        lines += [f"\t{line}" for line in _hung(sheet)]
    names = [name for name in book.all_names if not name.hidden]
    if names:
        lines.append("names:")
        for name in names[:100]:
            local = f" (on {name.sheet!r} only)" if name.sheet else ""
            lines.append(f"\t{name.name} = {name.refers_to}{local}")
        if len(names) > 100:
            lines.append(f"\t... and {len(names) - 100:,} more")
    if book.macros:
        lines.append("it has macros (VBA), which edits keep")
    if book.links:
        lines.append(f"formulas read other files: {_some(list(book.links))}")
    if book.structure_locked:
        lines.append("its structure is protected: sheets can't be added, renamed or deleted")
    if book.date1904:
        lines.append("its dates are counted from 1904")
    if note:
        lines.append(note)
    return "\n".join(lines)


def _about(sheet: Sheet) -> str:
    words = [] if sheet.state == "visible" else [sheet.state]
    if sheet.kind != "worksheet":
        return ", ".join([*words, sheet.kind])
    used = used_area(sheet)
    if used is None:
        return ", ".join([*words, "empty"])
    height, width = used[2] - used[0] + 1, used[3] - used[1] + 1
    formulas = sum(cell.formula is not None for cell in sheet.cells.values())
    words.append(f"{show_area(used)} ({height:,} rows x {width:,} columns)")
    if formulas:
        words.append(f"{formulas:,} formulas")
    if sheet.protected:
        words.append("protected")
    if sheet.frozen != (0, 0):
        words.append(f"frozen: {sheet.frozen[0]} rows, {sheet.frozen[1]} columns")
    return ", ".join(words)


def _hung(sheet: Sheet) -> list[str]:
    """What a sheet has beside its cells, a line for each kind."""
    out = [
        f"table {table.name}: {show_area(table.area)}, columns {', '.join(table.columns)[:300]}"
        for table in sheet.tables
    ]
    out += _charts(sheet)
    out += [
        f"pivot table {pivot.name}" + (f" at {show_area(pivot.area)}" if pivot.area else "") + f", from {pivot.source}"
        for pivot in sheet.pivots
    ]
    counts = {
        "comments": len(sheet.comments), "pictures": len(sheet.pictures), "conditional formats": len(sheet.conditional),
        "validations": len(sheet.validations), "merged blocks": len(sheet.merged), "links": len(sheet.hyperlinks),
        "hidden rows": len(sheet.hidden_rows), "hidden columns": len(sheet.hidden_columns),
    }  # fmt: skip
    found = [f"{count} {name}" for name, count in counts.items() if count]
    if found:
        out.append(", ".join(found))
    if sheet.filter is not None:
        out.append(f"filter buttons on {show_area(sheet.filter)}")
    if sheet.print_area:
        out.append(f"print area {sheet.print_area}")
    return out


_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}


def read_csv(arguments: ReadCsv, context: Context) -> str:
    path = context.path(arguments.file_path, must_exist=True)
    if path.is_file() and path.suffix.lower() in (".xlsx", ".xlsm", ".xls", ".ods", ".xlsb"):
        raise ToolError(f"{context.shown(path)} is a workbook; read it with read_tab")
    asked = _DELIMITERS.get(arguments.delimiter.strip().casefold() or arguments.delimiter, arguments.delimiter)
    notes: list[str] = []
    found = context.parse(path, lambda data: read_table(_in_utf8(data, arguments.encoding, notes)))
    if asked.casefold() != "auto" and len(asked) != 1:
        raise ToolError(f"{arguments.delimiter!r} is no delimiter; give one character, 'tab' or 'auto'")
    table = found
    if asked not in (found.delimiter, "auto"):
        forced = context.parse(path, lambda data: read_table(_in_utf8(data, arguments.encoding, []), asked))
        if len(forced.header) > 1 or len(found.header) == 1:
            table = forced
        else:
            notes.append(
                f"columns are separated by {found.delimiter!r} in this file, not by {asked!r}; it was read that way"
            )
    every = [table.header, *table.rows]
    body = every[1:] if arguments.has_header else every
    width = max(len(row) for row in every)
    limit = arguments.row_limit
    shown_rows = body if limit is None else body[:limit]
    columns = range(width)
    if arguments.compact:
        columns = [c for c in columns if any(len(row) > c and row[c].strip() for row in every)]  # type: ignore[assignment]

    def line(row: Sequence[str]) -> str:
        return "\t".join(escaped(row[c]) if c < len(row) else "" for c in columns).rstrip("\t")

    lines = [f"{context.shown(path)}: {len(body):,} rows x {width} columns"]
    if arguments.has_header:
        lines.append("\t" + line(table.header))
    else:
        lines.append("\t" + "\t".join(column_letters(c + 1) for c in columns))
    lines += [f"{number}\t{line(row)}" for number, row in enumerate(shown_rows, 1)]
    if len(shown_rows) < len(body):
        lines.append(f"rows 1 to {len(shown_rows):,} of {len(body):,} are shown; raise row_limit for more")
    uneven = sum(len(row) != len(table.header) for row in table.rows)
    if uneven:
        notes.append(f"{uneven:,} rows have more columns than the first one")
    return "\n".join([*lines, *notes])


def _in_utf8(data: bytes, encoding: str, notes: list[str]) -> bytes:
    """The file's bytes in the encoding that the reader expects. The encoding that is asked for is used where the text
    is in it; else the one that is found, and that is said."""
    try:
        name = codecs.lookup(encoding).name
    except LookupError as error:
        raise Unreadable(
            Problem.UNSUPPORTED, f"{encoding!r} is no encoding that is known; try utf-8, utf-16 or cp1252"
        ) from error
    if name in ("utf-8", "utf-8-sig", "ascii"):
        text = decode_text(data)
        try:
            data.decode("utf-8-sig")
        except UnicodeDecodeError:
            notes.append("the text is not in utf-8; it was read in the encoding that fits (utf-16 or cp1252)")
        return text.encode("utf-8")
    if not data:
        return data
    try:
        return data.decode(name).removeprefix("\ufeff").encode("utf-8")
    except (UnicodeDecodeError, UnicodeError):
        notes.append(f"the text is not in {encoding}; it was read in the encoding that fits")
        return decode_text(data).encode("utf-8")


def shown_path(context: Context, path: Path) -> str:
    return context.shown(path)
