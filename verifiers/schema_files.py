"""The kinds of check on the answer and on files, as they are written in a verifier.toml. Public through `schema.py`.

Each docstring is the reference of its kind's keys, for those who write tasks.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from envkit.verifiers.values import (
    Alternatives,
    BaseCheck,
    CellValue,
    NamesSpec,
    NumberSpec,
    Place,
    Regex,
    Spec,
    TextRules,
    TreePath,
)


class TextualCheck(BaseCheck, TextRules):
    number: NumberSpec | None = None
    numbers: tuple[NumberSpec, ...] = ()
    names: NamesSpec | None = None

    @property
    def all_numbers(self) -> tuple[NumberSpec, ...]:
        return ((self.number,) if self.number else ()) + self.numbers

    @property
    def says_something(self) -> bool:
        return self.has_rules or bool(self.all_numbers) or self.names is not None


class _Compared(Spec):
    """A value and how closely it must be met; shared by everything that looks at one cell.

    Attributes:
        value: The expected value. Its TOML type is the type the cell must have: a number is not met by text that
            looks like one (unless `text_number = true`), `true` not by 1, a date only by a date cell (or ISO text in
            a csv).
        any_of: Instead of `value`: several, any of which will do, e.g. `[12.4, 12400000]` or `[0.124, 12.4]`.
        abs_tol, rel_tol: Tolerance of numbers; the larger holds; with neither, relative 1e-6 (absolute 1e-9 for 0).
        text_number: Also accept a number stored as text (always so in docx, pptx and csv, where everything is text).
        blank: The cell must be empty (true) or filled (false).
    """

    value: CellValue | None = None
    any_of: tuple[CellValue, ...] = ()
    abs_tol: float | None = Field(default=None, ge=0)
    rel_tol: float | None = Field(default=None, ge=0)
    text_number: bool = False
    blank: bool | None = None

    @property
    def accepted(self) -> tuple[CellValue, ...]:
        return ((self.value,) if self.value is not None else ()) + self.any_of

    @model_validator(mode="after")
    def _one_way(self) -> _Compared:
        if self.value is not None and self.any_of:
            raise ValueError("give either value or any_of, not both")
        if self.blank and self.accepted:
            raise ValueError("blank = true can't be combined with a value")
        for value in self.accepted:
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError("a number must be finite")
        return self


class TableCell(Place, _Compared, TextRules):
    """A cell of a table in a document or deck: its place, and its value or rules about its text.

    `value = 12.4` is met by the cell's text read as a number (`EUR 12.4m` is 12,400,000, `(3.1)` is -3.1, `5%` is
    0.05).
    """

    @model_validator(mode="after")
    def _complete(self) -> TableCell:
        if not self.has_label:
            raise ValueError("a table cell needs row_label, column_label or both")
        if not (self.accepted or self.has_rules or self.blank is not None):
            raise ValueError("a table cell needs value, any_of, blank or a text rule")
        return self


class AnswerCheck(TextualCheck):
    """The final answer: the text of the agent's last message.

    Keys: `number = {...}` / `numbers = [{...}, ...]` (`values.NumberSpec`), the phrase rules `contains`,
    `contains_any`, `not_contains`, `regex`, `not_regex` (`values.TextRules`), `names = {...}` (`values.NamesSpec`),
    `max_words`.
    """

    kind: Literal["answer"]
    max_words: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _asks(self) -> AnswerCheck:
        if not self.says_something and self.max_words is None:
            raise ValueError("an answer check needs number, numbers, names, max_words or a phrase rule")
        return self


class FileCheck(BaseCheck):
    """A file, whatever is in it.

    Attributes:
        path: The file.
        exists: False: it must not be there (nothing else may be asked then).
        min_bytes, max_bytes: Its size.
        valid: Its content really is what its extension says: xlsx, xlsm, docx, pptx and pdf are opened; csv, json,
            toml, ics, mbox and text files are decoded. On by default.
        unchanged: Byte for byte as in the initial state.
        changed: Not as in the initial state (or not there at the start).
        same_as: Byte for byte equal to this file of the initial state (a copy or a move).
    """

    kind: Literal["file"]
    path: TreePath
    exists: bool = True
    min_bytes: int | None = Field(default=None, ge=0)
    max_bytes: int | None = Field(default=None, ge=0)
    valid: bool = True
    unchanged: bool = False
    changed: bool = False
    same_as: TreePath | None = None

    @model_validator(mode="after")
    def _sound(self) -> FileCheck:
        asked = (
            self.min_bytes is not None or self.max_bytes is not None or self.unchanged or self.changed or self.same_as
        )
        if not self.exists and asked:
            raise ValueError("exists = false leaves nothing else to check")
        if self.unchanged and self.changed:
            raise ValueError("unchanged and changed contradict one another")
        return self


class InputChange(Place):
    """An input cell of the workbook and what it is set to: `{cell = "B3", sheet = "Inputs", to = 20}`.

    Attributes:
        sheet, cell, name: As in a cell check; or the labels of `values.Place`.
        to: The new value; or `times`: the number that the old one is multiplied by.
    """

    sheet: str | None = None
    cell: str | None = Field(default=None, pattern=r"^\$?[A-Za-z]{1,3}\$?[1-9][0-9]{0,6}$")
    name: str | None = None
    to: CellValue | None = None
    times: float | None = None

    @model_validator(mode="after")
    def _sound(self) -> InputChange:
        if (self.cell is not None) + (self.name is not None) + self.has_label != 1:
            raise ValueError("say which input, in one way: cell, name, or row_label and/or column_label")
        if (self.to is None) == (self.times is None):
            raise ValueError("say what becomes of the input, in one way: to or times")
        return self


class Survives(Spec):
    """What the cell must show after inputs were changed and the workbook recalculated: a number that was typed in where
    a formula should be does not move.

    Attributes:
        change: The inputs, all changed at once; they must be constants.
        value, any_of: The cell's value then, of the type that the cell shows (a date where it is formatted as one).
        abs_tol, rel_tol: Tolerance of numbers; with neither, that of the check.
        becomes: Or its relation to the value before: `different`, `same`, `higher`, `lower`.
        ratio: Or the new value over the one before.
    """

    change: tuple[InputChange, ...] = Field(min_length=1)
    value: CellValue | None = None
    any_of: tuple[CellValue, ...] = ()
    becomes: Literal["different", "same", "higher", "lower"] | None = None
    ratio: float | None = None
    abs_tol: float | None = Field(default=None, ge=0)
    rel_tol: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _asks(self) -> Survives:
        if self.value is None and not self.any_of and self.becomes is None and self.ratio is None:
            raise ValueError("survives needs value, any_of, becomes or ratio")
        return self


class CellCheck(BaseCheck, Place, _Compared, TextRules):
    """A cell of a workbook (xlsx, xlsm).

    The value is recalculated from the workbook's inputs with a fixed clock and seed; where the engine can't, the value
    that the program which saved it cached; where there is none either, the value is unknown and fails every comparison.

    Attributes:
        sheet: Name, compared without case and outer spaces. Without it: the first visible sheet (that has the labels).
        cell: An address like `B7`; or `name`, a defined name of one cell; or the labels of `values.Place`.
        value, any_of, abs_tol, rel_tol, text_number, blank: see above. Text is compared without case and outer spaces.
        contains ...: Phrase rules on the cell's text.
        visible: The sheet, row and column must not be hidden. On by default.
        is_formula: The cell must hold a formula (true) or a constant (false).
        formula_regex: The formula's text (`=SUM(B2:B9)`, no `$`, upper case) must match.
        references: Cells (`Inputs!B3`, `B2:B9`, `Sales[Amount]`, a defined name) that the formula must depend on,
            directly or through other formulas.
        value_from: `auto` as above; `recalculated` or `cached` to insist on one source.
        survives: What the cell must show when inputs are others (`Survives`): catches numbers typed in by hand.
    """

    kind: Literal["cell"]
    path: TreePath
    sheet: str | None = None
    cell: str | None = Field(default=None, pattern=r"^\$?[A-Za-z]{1,3}\$?[1-9][0-9]{0,6}$")
    name: str | None = None
    visible: bool = True
    is_formula: bool | None = None
    formula_regex: Regex | None = None
    references: tuple[str, ...] = ()
    value_from: Literal["auto", "recalculated", "cached"] = "auto"
    survives: tuple[Survives, ...] = ()

    @model_validator(mode="after")
    def _sound(self) -> CellCheck:
        ways = (self.cell is not None) + (self.name is not None) + self.has_label
        if ways != 1:
            raise ValueError("say which cell, in one way: cell, name, or row_label and/or column_label")
        if not (
            self.accepted
            or self.has_rules
            or self.blank is not None
            or self.is_formula is not None
            or self.formula_regex
            or self.references
            or self.survives
        ):
            raise ValueError("a cell check needs value, any_of, blank, a phrase rule, survives or about the formula")
        return self


class RangeCheck(BaseCheck):
    """A block of cells of a workbook.

    Attributes:
        range: `B2:B9`; or `column`, the text of a header cell, for the filled cells below it up to the first blank row.
        sum, count: The sum of its numbers; how many cells are filled.
        values: The filled cells, row by row; in any order with `any_order`.
        abs_tol, rel_tol: Tolerance of `sum` and of each number in `values`.
        all_numbers: Every filled cell is a number (none stored as text).
        all_formulas: Every filled cell holds a formula.
        sheet, value_from: as in a cell check.
    """

    kind: Literal["range"]
    path: TreePath
    sheet: str | None = None
    range: str | None = Field(
        default=None, pattern=r"^\$?[A-Za-z]{1,3}\$?[1-9][0-9]{0,6}:\$?[A-Za-z]{1,3}\$?[1-9][0-9]{0,6}$"
    )
    column: Alternatives | None = None
    sum: float | None = None
    count: int | None = Field(default=None, ge=0)
    values: tuple[CellValue, ...] = ()
    any_order: bool = False
    abs_tol: float | None = Field(default=None, ge=0)
    rel_tol: float | None = Field(default=None, ge=0)
    all_numbers: bool = False
    all_formulas: bool = False
    value_from: Literal["auto", "recalculated", "cached"] = "auto"

    @model_validator(mode="after")
    def _sound(self) -> RangeCheck:
        if (self.range is None) == (self.column is None):
            raise ValueError("say which cells, in one way: range or column")
        if self.sum is None and self.count is None and not (self.values or self.all_numbers or self.all_formulas):
            raise ValueError("a range check needs sum, count, values, all_numbers or all_formulas")
        return self


class SheetCheck(BaseCheck):
    """A sheet of a workbook.

    Attributes:
        sheet: Name, compared without case and outer spaces.
        exists: False: there must be no such sheet.
        visible: It must be visible (true) or hidden (false).
        header: Texts that must stand in one row, left to right, gaps allowed; the first such row is the header row.
        header_row: It must be this row.
        rows, min_rows, max_rows: Filled rows below the header row (below row 0 without a header).
        min_formulas: At least so many formula cells.
        no_errors: No cell shows an error value (`#REF!`, `#DIV/0!`, ...).
    """

    kind: Literal["sheet"]
    path: TreePath
    sheet: str
    exists: bool = True
    visible: bool | None = None
    header: tuple[str, ...] = ()
    header_row: int | None = Field(default=None, ge=1)
    rows: int | None = Field(default=None, ge=0)
    min_rows: int | None = Field(default=None, ge=0)
    max_rows: int | None = Field(default=None, ge=0)
    min_formulas: int | None = Field(default=None, ge=0)
    no_errors: bool = False


class StyledParagraph(Spec):
    """A paragraph that must exist: one that contains `contains` and has the style named `style` (without case)."""

    contains: str = Field(min_length=1)
    style: str = Field(min_length=1)


class DocumentCheck(TextualCheck):
    """A Word document (docx). Tracked insertions count as text, tracked deletions don't.

    Attributes:
        within: What the phrase rules, numbers and names look at: `body` (paragraphs, tables, text boxes; the default),
            `headings`, `tables`, `headers_footers`, `comments`, `footnotes` or `all`.
        headings: Headings that must be there, compared as whole texts after normalisation, ignoring leading numbering.
        headings_in_order: They must come in this order.
        tables: Cells of tables, nested ones included: `[{row_label = "Total", column_label = "2025", value = 48.2}]`.
            The first table that has both labels is taken.
        min_tables: At least so many tables.
        styles: `[{contains = "Summary", style = "Heading 1"}]`.
        min_words, max_words: Words of the body.
        tracked_changes: Insertions or deletions must be there (true) or not (false).
    """

    kind: Literal["document"]
    path: TreePath
    within: Literal["body", "headings", "tables", "headers_footers", "comments", "footnotes", "all"] = "body"
    headings: tuple[Alternatives, ...] = ()
    headings_in_order: bool = False
    tables: tuple[TableCell, ...] = ()
    min_tables: int | None = Field(default=None, ge=1)
    styles: tuple[StyledParagraph, ...] = ()
    min_words: int | None = Field(default=None, ge=1)
    max_words: int | None = Field(default=None, ge=1)
    tracked_changes: bool | None = None


class DeckCheck(TextualCheck):
    """A slide deck (pptx). Text of groups, tables, charts and placeholders counts; hidden slides are left out.

    Attributes:
        slides, min_slides, max_slides: How many slides are shown.
        slide: Which slide the phrase rules, numbers, names and tables look at: its number from 1, or its title (whole
            text after normalisation; a list gives spellings). Without it: all of them together.
        within: `all` (default: what is on the slides, without notes), `titles`, `notes`.
        titles: Slide titles that must be there.
        tables: Cells of tables, as in a document check.
        min_tables, min_charts, min_pictures: At least so many of them.
        include_hidden: Hidden slides count too.
    """

    kind: Literal["deck"]
    path: TreePath
    slides: int | None = Field(default=None, ge=0)
    min_slides: int | None = Field(default=None, ge=1)
    max_slides: int | None = Field(default=None, ge=1)
    slide: Annotated[int, Field(ge=1)] | Alternatives | None = None
    within: Literal["all", "titles", "notes"] = "all"
    titles: tuple[Alternatives, ...] = ()
    tables: tuple[TableCell, ...] = ()
    min_tables: int | None = Field(default=None, ge=1)
    min_charts: int | None = Field(default=None, ge=1)
    min_pictures: int | None = Field(default=None, ge=1)
    include_hidden: bool = False


class PdfCheck(TextualCheck):
    """A PDF with a text layer. Phrases are looked for in reading order by lines and by columns, hyphenation undone.

    Attributes:
        pages, min_pages, max_pages: How many pages.
        page: Which page the rules look at, from 1. Without it: all of them.
    """

    kind: Literal["pdf"]
    path: TreePath
    pages: int | None = Field(default=None, ge=1)
    min_pages: int | None = Field(default=None, ge=1)
    max_pages: int | None = Field(default=None, ge=1)
    page: int | None = Field(default=None, ge=1)


class CsvCheck(BaseCheck, _Compared, TextRules):
    """A csv or tsv table; delimiter and encoding are found out; the first filled row is the header.

    Attributes:
        columns: Columns that must be there; `exact_columns`: these, in this order, and no others.
        rows, min_rows, max_rows: Filled rows below the header.
        where: Which row, by its key: `{Customer = "Acme"}`; all must match and exactly one row may. Names of columns
            and texts are compared without case and outer spaces, numbers as numbers.
        column: The column looked at, in that row (`value`, `any_of`, `blank`, phrase rules) or as a whole (`sum`,
            `values`).
        sum: The sum of the column's numbers.
        values: All values of the column, in order or in `any_order`.
    """

    kind: Literal["csv"]
    path: TreePath
    columns: tuple[str, ...] = ()
    exact_columns: bool = False
    rows: int | None = Field(default=None, ge=0)
    min_rows: int | None = Field(default=None, ge=0)
    max_rows: int | None = Field(default=None, ge=0)
    where: dict[str, CellValue] = Field(default_factory=dict)
    column: str | None = None
    sum: float | None = None
    values: tuple[CellValue, ...] = ()
    any_order: bool = False

    @model_validator(mode="after")
    def _sound(self) -> CsvCheck:
        of_row = bool(self.accepted) or self.blank is not None or self.has_rules
        if of_row and not (self.where and self.column):
            raise ValueError("value, any_of, blank and phrase rules need where (which row) and column")
        if (self.sum is not None or self.values) and not self.column:
            raise ValueError("sum and values need column")
        return self


class TextCheck(TextualCheck):
    """Any text file (txt, md, json, eml, html, source code, ...), decoded as UTF-8, UTF-16 with a mark, or
    Windows-1252.

    Attributes:
        min_words, max_words: Its length.
    """

    kind: Literal["text"]
    path: TreePath
    min_words: int | None = Field(default=None, ge=1)
    max_words: int | None = Field(default=None, ge=1)
