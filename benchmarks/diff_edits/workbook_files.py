"""Single edits of real workbooks, made in the XML of their parts, wherever a workbook has something of the sort.

Samples are the workbooks of the corpus where it is present (`ENVKIT_CORPUS`), and generated ones with a pivot table,
threads of comments and macros. Re-saves are by openpyxl and by LibreOffice.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl

from diff_edits import workbook_changes as do
from diff_edits import workbook_more as more
from diff_edits.libreoffice import installed, resaved
from diff_edits.losses import Loss, has
from diff_edits.workbook import build
from diff_edits.workbook_extras import macros, with_macros, with_pivot, with_threads
from diff_edits.zipped import edit_part, part_names

SUFFIX = "xlsx"
_CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))


def samples() -> dict[str, bytes]:
    out = {
        "generated": build(),
        "with a pivot table": with_pivot(),
        "with threads": with_threads(),
        "with macros (xlsm)": with_macros(),
    }
    for path in sorted(_CORPUS.glob("xls[xm]/*.xls[xm]")) if _CORPUS.is_dir() else ():
        data = path.read_bytes()
        try:
            if "xl/workbook.xml" in part_names(data):
                out[path.name] = data
        except Exception:  # noqa: BLE001 - a broken archive, as zipfile sees it
            continue
    return out


def suffix_of(sample: str) -> str:
    return "xlsm" if "xlsm" in sample else "xlsx"


def _macros(**options: Any) -> do.Edit:
    """The generated macros, otherwise."""

    def edit(data: bytes) -> tuple[bytes, do.Expected] | None:
        def replaced(content: bytes) -> bytes:
            return macros(**options) if content == macros() else content

        out = edit_part(data, "xl/vbaProject.bin", replaced)
        return None if out is None else (out, [("workbook.macros", None)])

    return edit


EDITS: dict[str, do.Edit] = {
    "number": do.sheet_edit(do.number),
    "text": do.sheet_edit(do.text),
    "number stored as text": do.sheet_edit(do.number_as_text),
    "cell cleared": do.sheet_edit(do.cleared),
    "formula": do.sheet_edit(do.formula),
    "formula to constant": do.sheet_edit(do.formula_gone),
    "bold": do.style_edit("font", do.bold),
    "fill": do.style_edit("fill", do.fill),
    "border": do.style_edit("border", do.border),
    "number format": do.style_edit("", do.percent, kind="cell.format"),
    "vertical alignment": do.style_edit("", do.aligned(vertical="top")),
    "text turned": do.style_edit("", do.aligned(textRotation="45", horizontal="left")),
    "row hidden": do.sheet_edit(do.row_hidden),
    "column hidden": do.sheet_edit(do.column_hidden),
    "merged": do.sheet_edit(do.merged),
    "unmerged": do.sheet_edit(do.unmerged),
    "panes": do.sheet_edit(do.panes),
    "landscape": do.sheet_edit(do.landscape),
    "header": do.sheet_edit(do.header),
    "sheet protected": do.sheet_edit(do.protected),
    "tab's colour": do.sheet_edit(do.tab_colour),
    "validation added": do.sheet_edit(do.validation),
    "conditional format added": do.sheet_edit(do.conditional),
    "conditional format's formula": do.sheet_edit(do.conditional_formula),
    "hyperlink": do.link_edit,
    "comment text": do.part_edit(r"xl/comments\d*\.xml", do.comment),
    "sheet hidden": do.book_edit(more.sheet_hidden),
    "sheets swapped": do.book_edit(more.sheets_swapped),
    "name added": do.book_edit(more.name_added),
    "structure protected": do.book_edit(more.structure_locked),
    "chart title": do.part_edit(r"xl/charts/chart\d*\.xml", more.chart_title),
    "chart series removed": do.part_edit(r"xl/charts/chart\d*\.xml", more.series_removed),
    "table's name": do.part_edit(r"xl/tables/table\d*\.xml", more.table_renamed),
    "pivot's source": do.part_edit(r"xl/pivotCache/pivotCacheDefinition1\.xml", more.pivot_source),
    "pivot's rows": do.part_edit(r"xl/pivotTables/pivotTable1\.xml", more.pivot_rows),
    "pivot's function": do.part_edit(r"xl/pivotTables/pivotTable1\.xml", more.pivot_function),
    "pivot removed": more.pivot_gone,
    "thread's text": do.part_edit(r"xl/threadedComments/.*\.xml", more.thread_text),
    "thread's reply": do.part_edit(r"xl/threadedComments/.*\.xml", more.thread_reply),
    "thread resolved": do.part_edit(r"xl/threadedComments/.*\.xml", more.thread_resolved),
    "reply removed": do.part_edit(r"xl/threadedComments/.*\.xml", more.reply_gone),
    "code of a macro": _macros(code='Sub Greet()\r\n    Range("A1").Value = "Good evening"\r\nEnd Sub\r\n'),
    "module of macros added": _macros(more="Sub Leave()\r\nEnd Sub\r\n"),
}


def _openpyxl(data: bytes) -> bytes | None:
    out = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            keep = "xl/vbaProject.bin" in part_names(data)
            openpyxl.load_workbook(io.BytesIO(data), keep_vba=keep).save(out)
    except Exception:  # noqa: BLE001 - openpyxl gives up on these in many ways; there is nothing to compare
        return None
    return out.getvalue()


RESAVES: dict[str, Callable[[bytes], bytes | None]] = {"openpyxl": _openpyxl}
BATCHES = {"LibreOffice": resaved} if installed() else {}
_SHEET = r"xl/worksheets/sheet\d*\.xml$"
_OBJECTS = has(_SHEET, "<oleObject ")
_ACROSS = has("xl/styles.xml$", 'horizontal="centerContinuous"')
_ASIAN = has("xl/styles.xml$", '<charset val="(?:128|129|134|136)"/>')
LOSSES: dict[str, tuple[Loss, ...]] = {
    "openpyxl": (
        Loss(
            "sheet.(header|footer)",
            "headers and footers that don't say left, centre or right",
            after="none",
            when=has(r"xl/(worksheets|chartsheets)/", "<(?:oddHeader|oddFooter)>(?!&amp;[LCR])"),
        ),
        Loss("object", "embedded objects", change="removed", when=_OBJECTS),
        Loss(
            "comment",
            "threads",
            change="removed",
            when=has("threadedComments/", "threadedComment "),
        ),
    ),
    "LibreOffice": (
        Loss("sheet.freeze", "panes, when it has no window", after="none", when=has(_SHEET, "<pane ")),
        Loss(
            "cell.style",
            "that only the first letters of a text are bold: it makes the cell bold",
            before="bold: no",
            after="bold: yes",
            when=has("sharedStrings.xml$", "<r><rPr><b/>"),
        ),
        Loss(
            "conditional_format.look",
            "patterns: it fills with one colour",
            before="fill [a-z]+[A-Z].*",
            after="fill [0-9A-F]{6}",
        ),
        Loss(
            "cell.style",
            "that a cell is locked where others of its look are not",
            before="locked: yes",
            after="locked: no",
            when=has("xl/styles.xml$", 'locked="0"'),
        ),
        Loss(
            "cell.style",
            "fonts of East Asian text where the text is Latin",
            before="font: .*",
            after="font: .*",
            when=_ASIAN,
        ),
        Loss(
            "row",
            "that a pivot table is not filled yet: it fills it",
            change="added",
            when=has("xl/pivotCache/", 'refreshOnLoad="1"'),
        ),
        Loss("sheet.footer", "codes for underlining after the folder's name", before=".*&U.*", after=".*"),
        Loss("object", "embedded objects, of which it keeps the picture", change="removed", when=_OBJECTS),
        Loss("picture", "embedded objects, of which it keeps the picture", change="added", when=_OBJECTS),
        Loss(
            "cell.style",
            "centring across cells: it merges them",
            before="alignment: centerContinuous",
            after="alignment: center",
        ),
        Loss("merge", "centring across cells: it merges them", change="added", when=_ACROSS),
        Loss("sheet.kind", "chart sheets: it makes them sheets with a chart", before="chartsheet", after="worksheet"),
        Loss(
            "picture",
            "a colour made transparent: it writes the picture anew",
            when=has("xl/drawings/", "<a:clrChange>"),
        ),
        Loss(
            "comment",
            "threads",
            change="removed",
            when=has("threadedComments/", "threadedComment "),
        ),
    ),
}
