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


class Compared(Spec):
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
    def _one_way(self) -> Compared:
        if self.value is not None and self.any_of:
            raise ValueError("give either value or any_of, not both")
        if self.blank and self.accepted:
            raise ValueError("blank = true can't be combined with a value")
        for value in self.accepted:
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError("a number must be finite")
        return self


class TableCell(Place, Compared, TextRules):
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

    Attributes:
        tables: Cells of its Markdown tables, as in a document check.

    Other keys: `number = {...}` / `numbers = [{...}, ...]` (`values.NumberSpec`), the phrase rules `contains`,
    `contains_any`, `not_contains`, `regex`, `not_regex` (`values.TextRules`), `names = {...}` (`values.NamesSpec`),
    `max_words`.
    """

    kind: Literal["answer"]
    tables: tuple[TableCell, ...] = ()
    max_words: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _asks(self) -> AnswerCheck:
        if not self.says_something and self.max_words is None and not self.tables:
            raise ValueError("an answer check needs number, numbers, names, tables, max_words or a phrase rule")
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


class StyledParagraph(Spec):
    """A paragraph that must exist: one that contains `contains` and has the style named `style` (without case)."""

    contains: str = Field(min_length=1)
    style: str = Field(min_length=1)


class CommentSpec(Spec):
    """A comment that must exist: what it says, the text it is about, and whose it is; what is given must all hold."""

    contains: Alternatives | None = None
    anchor: Alternatives | None = None
    author: str | None = None

    @model_validator(mode="after")
    def _asks(self) -> CommentSpec:
        if self.contains is None and self.anchor is None and self.author is None:
            raise ValueError("a comment needs contains, anchor or author")
        return self


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
        inserted, deleted: Phrases that tracked insertions, or deletions, must contain.
        comments: Comments that must be there: `[{contains = "source?", anchor = "12 %", author = "Ana"}]`.
        min_images: At least so many pictures; `images_described`: each of them has an alternative text.
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
    inserted: tuple[Alternatives, ...] = ()
    deleted: tuple[Alternatives, ...] = ()
    comments: tuple[CommentSpec, ...] = ()
    min_images: int | None = Field(default=None, ge=1)
    images_described: bool = False


class DeckCheck(TextualCheck):
    """A slide deck (pptx). Text of groups, tables, charts and placeholders counts; hidden slides are left out.

    Attributes:
        slides, min_slides, max_slides: How many slides are shown.
        slide: Which slide the phrase rules, numbers, names and tables look at: its number from 1, or its title (whole
            text after normalisation; a list gives spellings). Without it: all of them together.
        within: `all` (default: what is on the slides, without notes), `titles`, `notes`, `comments`.
        titles: Slide titles that must be there; `titles_in_order`: in this order.
        layout: The layout of the slides looked at, by its name.
        max_words: Words on each slide looked at, without notes.
        images_described: Each picture looked at has an alternative text.
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
    within: Literal["all", "titles", "notes", "comments"] = "all"
    titles: tuple[Alternatives, ...] = ()
    titles_in_order: bool = False
    layout: str | None = None
    max_words: int | None = Field(default=None, ge=1)
    images_described: bool = False
    tables: tuple[TableCell, ...] = ()
    min_tables: int | None = Field(default=None, ge=1)
    min_charts: int | None = Field(default=None, ge=1)
    min_pictures: int | None = Field(default=None, ge=1)
    include_hidden: bool = False


class PdfCheck(TextualCheck):
    """A PDF with a text layer. Phrases are looked for in reading order by lines and by columns, hyphenation undone.

    Attributes:
        pages, min_pages, max_pages: How many pages.
        page: Which page the rules and tables look at, from 1. Without it: all of them.
        tables: Cells of tables (with or without rules), as in a document check.
        fields: Form fields by name and the value that each must hold; a ticked box holds `Yes`, or what its form says.
        outline: Entries that the outline (bookmarks) must have.
    """

    kind: Literal["pdf"]
    path: TreePath
    pages: int | None = Field(default=None, ge=1)
    min_pages: int | None = Field(default=None, ge=1)
    max_pages: int | None = Field(default=None, ge=1)
    page: int | None = Field(default=None, ge=1)
    tables: tuple[TableCell, ...] = ()
    fields: dict[str, str | bool] = Field(default_factory=dict)
    outline: tuple[Alternatives, ...] = ()


class CsvCheck(BaseCheck, Compared, TextRules):
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
        unique: No value of the column occurs twice.
        sorted: The column's values rise (`ascending`) or fall (`descending`); numbers and dates as such.
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
    unique: bool = False
    sorted: Literal["ascending", "descending"] | None = None

    @model_validator(mode="after")
    def _sound(self) -> CsvCheck:
        of_row = bool(self.accepted) or self.blank is not None or self.has_rules
        if of_row and not (self.where and self.column):
            raise ValueError("value, any_of, blank and phrase rules need where (which row) and column")
        if (self.sum is not None or self.values or self.unique or self.sorted) and not self.column:
            raise ValueError("sum, values, unique and sorted need column")
        return self


class TextCheck(TextualCheck):
    """Any text file (txt, md, json, eml, html, source code, ...), decoded as UTF-8, UTF-16 with a mark, or
    Windows-1252.

    Attributes:
        tables: Cells of Markdown tables, as in a document check.
        min_words, max_words: Its length.
    """

    kind: Literal["text"]
    path: TreePath
    tables: tuple[TableCell, ...] = ()
    min_words: int | None = Field(default=None, ge=1)
    max_words: int | None = Field(default=None, ge=1)
