"""The schema of `tests/verifier.toml`: the typed checks of a task, and the reference for those who write them.

```toml
schema_version = "1"
scoring = "weighted_mean"           # or "all_or_nothing"

[[check]]
id = "revenue"
kind = "answer"
description = "States Q3 revenue"
number = {value = 12.4, unit = "EUR", scale = "million", rel_tol = 0.005}

[[check]]
id = "total"
kind = "cell"
path = "/filesystem/model.xlsx"
sheet = "Summary"
row_label = "Total"
column_label = "2025"
value = 48.2
abs_tol = 0.05
is_formula = true
```

Each kind is a class below; its docstring is the reference of its keys. Every check has `id` (unique), `kind`,
`description`, `weight` (default 1; 0 = for information) and `gate` (a failed gate makes the reward 0). Everything a
check says must hold for it to pass. Unknown keys are errors with a suggestion and the line. Used by the checks
verifier, by `envkit check` and by task packs.
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from envkit.failure import UserError, did_you_mean
from envkit.verifiers.toml_lines import line_of
from envkit.verifiers.values import (
    Alternatives,
    CellValue,
    NamesSpec,
    NumberSpec,
    Place,
    Regex,
    Spec,
    TextRules,
    TreePath,
    TreePattern,
)

__all__ = ["KINDS", "Check", "Checks", "load_checks", "parse_checks"]

#: Where a world keeps its mail, chat and calendar.
MAIL_ROOT, CHAT_ROOT, CALENDAR_ROOT = ".apps_data/mail", ".apps_data/chat", ".apps_data/calendar"


class _Check(Spec):
    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    description: str = ""
    weight: float = Field(default=1.0, ge=0)
    gate: bool = False


class _TextCheck(_Check, TextRules):
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


class AnswerCheck(_TextCheck):
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


class FileCheck(_Check):
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


class CellCheck(_Check, Place, _Compared, TextRules):
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
        references: Cells (`Inputs!B3`, `B2:B9`) that the formula must depend on, directly or through other formulas.
        value_from: `auto` as above; `recalculated` or `cached` to insist on one source.
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
        ):
            raise ValueError("a cell check needs value, any_of, blank, a phrase rule or something about the formula")
        return self


class RangeCheck(_Check):
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


class SheetCheck(_Check):
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


class DocumentCheck(_TextCheck):
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


class DeckCheck(_TextCheck):
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


class PdfCheck(_TextCheck):
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


class CsvCheck(_Check, _Compared, TextRules):
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


class TextCheck(_TextCheck):
    """Any text file (txt, md, json, eml, html, source code, ...), decoded as UTF-8, UTF-16 with a mark, or
    Windows-1252.

    Attributes:
        min_words, max_words: Its length.
    """

    kind: Literal["text"]
    path: TreePath
    min_words: int | None = Field(default=None, ge=1)
    max_words: int | None = Field(default=None, ge=1)


class MailCheck(_TextCheck):
    """A message in the mailbox that was not there at the start.

    `to`, `cc`, `bcc`, `from`, `subject` and `in_reply_to` choose the messages; the number of new messages chosen must
    be `times` (1 by default: sent twice is wrong); each of them must then meet the phrase rules, numbers and names,
    which look at the body, and have the attachments.

    Attributes:
        from: The sender's address.
        to, cc, bcc: Addresses that must be among the recipients; names and case don't matter.
        exact_recipients: And no other recipients of any sort.
        subject: Phrases that the subject must contain, all of them.
        in_reply_to: The Message-ID it answers.
        attachments: Files attached, as base names or paths; with `X-Attachments` headers the file must exist too.
        times: How many such messages; 0: none may have been sent.
        max_new: No more than so many new messages in all.
        mailbox: A folder that is searched for `*.mbox`, or one mbox file.
    """

    kind: Literal["mail"]
    from_: str | None = Field(default=None, alias="from")
    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    exact_recipients: bool = False
    subject: tuple[Alternatives, ...] | str = ()
    in_reply_to: str | None = None
    attachments: tuple[str, ...] = ()
    times: int = Field(default=1, ge=0)
    max_new: int | None = Field(default=None, ge=0)
    mailbox: TreePath = MAIL_ROOT


class ChatCheck(_TextCheck):
    """A chat message that was not there at the start; the phrase rules, numbers and names choose it.

    Attributes:
        channel: The space or direct message: its folder name, or its display name (without case).
        sender: Name or e-mail of the author.
        thread: The topic id it must answer in.
        times: How many new messages of the channel meet all this; 0: none may. Default 1.
        max_new: No more than so many new messages in the channel.
        root: The folder with `Groups/` and `Users/`.
    """

    kind: Literal["chat"]
    channel: str
    sender: str | None = None
    thread: str | None = None
    times: int = Field(default=1, ge=0)
    max_new: int | None = Field(default=None, ge=0)
    root: TreePath = CHAT_ROOT


class CalendarCheck(_TextCheck):
    """An event in the calendar; `summary` and `uid` choose it, the rest must hold for it.

    Attributes:
        summary: Phrases that the title must contain, all of them.
        uid: The event's id.
        start, end: Compared as points in time. A TOML datetime with an offset is one; without an offset it is read in
            `time_zone` (an IANA name; default UTC). A TOML date means an all-day event (`end` = the last day).
        same_zone: The event's own time zone must be `time_zone` too.
        attendees: E-mail addresses that must be invited; `exact_attendees`: and no others.
        location: Phrases that the place must contain, all of them.
        recurring: It must repeat (true) or not (false).
        times: How many events are chosen and meet all this; 0: none may be chosen (it was cancelled). Default 1.
        new: Only events count that were not there, with the same content, at the start. Default true (false with
            times = 0).
        contains ...: Phrase rules, numbers and names look at the description.
        root: The folder with the `*.ics` files.
    """

    kind: Literal["calendar"]
    summary: tuple[Alternatives, ...] | str = ()
    uid: str | None = None
    start: CellValue | None = None
    end: CellValue | None = None
    time_zone: str | None = None
    same_zone: bool = False
    attendees: tuple[str, ...] = ()
    exact_attendees: bool = False
    location: tuple[Alternatives, ...] | str = ()
    recurring: bool | None = None
    times: int = Field(default=1, ge=0)
    new: bool | None = None
    root: TreePath = CALENDAR_ROOT

    @model_validator(mode="after")
    def _sound(self) -> CalendarCheck:
        import datetime as dt
        import zoneinfo

        for key, value in (("start", self.start), ("end", self.end)):
            if value is not None and not isinstance(value, dt.date):
                raise ValueError(f"{key} must be a TOML date or datetime without quotes, found {value!r}")
        if not self.summary and self.uid is None:
            raise ValueError("a calendar check needs summary or uid to choose an event")
        if self.same_zone and self.time_zone is None:
            raise ValueError("same_zone needs time_zone")
        if self.time_zone is not None:
            try:
                zoneinfo.ZoneInfo(self.time_zone)
            except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
                raise ValueError(f"time_zone {self.time_zone!r} is not an IANA name like 'Europe/Berlin'") from error
        return self


class UnchangedCheck(_Check):
    """Files that must be as they were at the start, byte for byte: nothing else was changed.

    Attributes:
        paths: Patterns, e.g. `["/filesystem/**"]`; files of the initial state that match must still be there,
            unchanged.
        except_: Written `except`: patterns that are left out.
        allow_new: New files that match are accepted. On by default.
    """

    kind: Literal["unchanged"]
    paths: tuple[TreePattern, ...] = Field(min_length=1)
    except_: tuple[TreePattern, ...] = Field(default=(), alias="except")
    allow_new: bool = True


Check = Annotated[
    AnswerCheck
    | FileCheck
    | CellCheck
    | RangeCheck
    | SheetCheck
    | DocumentCheck
    | DeckCheck
    | PdfCheck
    | CsvCheck
    | TextCheck
    | MailCheck
    | ChatCheck
    | CalendarCheck
    | UnchangedCheck,
    Field(discriminator="kind"),
]

_CLASSES: tuple[type[_Check], ...] = get_args(get_args(Check)[0])

#: The kinds of check, by the name written in `kind`.
KINDS: dict[str, type[_Check]] = {get_args(c.model_fields["kind"].annotation)[0]: c for c in _CLASSES}


class Checks(Spec):
    """A whole `verifier.toml`.

    Attributes:
        schema_version: "1".
        scoring: `weighted_mean`: the sum of weight x score over the sum of weights. `all_or_nothing`: 1 when every
            check with weight passed, else 0. With both, a failed gate makes the reward 0.
        check: At least one check that counts (weight > 0 or a gate).
    """

    schema_version: Literal["1"]
    scoring: Literal["weighted_mean", "all_or_nothing"] = "weighted_mean"
    check: tuple[Check, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _sound(self) -> Checks:
        seen: set[str] = set()
        for check in self.check:
            if check.id in seen:
                raise ValueError(f"two checks have the id {check.id!r}; ids must be unique")
            seen.add(check.id)
        if not any(check.weight > 0 for check in self.check):
            raise ValueError("at least one check must have a weight above 0")
        return self


_CHECKS: TypeAdapter[Checks] | None = None


def parse_checks(text: str, source: str = "verifier.toml") -> Checks:
    """Reads the text of a verifier.toml.

    Raises:
        UserError: It is no TOML or not of this schema. The message names the source, every mistake's line and key,
            and the nearest known key for an unknown one.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{source} is not valid TOML: {error}") from error
    try:
        return Checks.model_validate(data)
    except ValidationError as error:
        items = error.errors(include_url=False, include_input=True)
        # Broken checks leave the list of checks short, which is no mistake of its own.
        told = [i for i in items if not (i["type"] == "too_short" and i["loc"] == ("check",) and i["input"])] or items
        lines = [f"{source} has {len(told)} mistake(s):", *("  " + _explain(text, data, item) for item in told)]
        raise UserError("\n".join(lines)) from error


def load_checks(path: Path) -> Checks:
    """Reads a verifier.toml file. Raises `UserError` as `parse_checks` does, also when it can't be read as UTF-8
    text."""
    try:
        if path.stat().st_size > 4 << 20:
            raise UserError(f"{path} has {path.stat().st_size} bytes; a verifier.toml has at most 4 MiB")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} can't be read as UTF-8 text: {error}") from error
    return parse_checks(text, str(path))


def _explain(text: str, data: dict[str, Any], item: Any) -> str:
    """One mistake as a line: where, what, and the nearest known key."""
    # Pydantic puts the discriminator's value and the names of union members into the location; only keys that are
    # really in the file say where the mistake is.
    place: list[str | int] = []
    here: Any = data
    for part in item["loc"]:
        if (isinstance(here, dict) and part in here) or (
            isinstance(here, list) and isinstance(part, int) and part < len(here)
        ):
            here = here[part]
        elif part == item["loc"][-1] and item["type"] == "missing":
            pass
        else:
            continue
        place.append(part)
    name = ".".join(str(p) for p in place) or "the file"
    if len(place) > 1 and place[0] == "check" and isinstance(place[1], int):
        check_id = data["check"][place[1]].get("id") if isinstance(data["check"][place[1]], dict) else None
        rest = ".".join(str(p) for p in place[2:])
        name = f"check {check_id or place[1] + 1!r}" + (f", {rest}" if rest else "")
    line = line_of(text, tuple(place))
    where = f"line {line}: {name}: " if line else f"{name}: "
    match item["type"]:
        case "extra_forbidden":
            return where + f"unknown key{did_you_mean(str(item['loc'][-1]), _known_keys(data, place[:-1]))}"
        case "missing":
            return where + "this key is required"
        case "union_tag_invalid":
            kind = here.get("kind") if isinstance(here, dict) else None
            return where + f"unknown kind {kind!r}{did_you_mean(str(kind), tuple(KINDS))}; known: {', '.join(KINDS)}"
        case "union_tag_not_found":
            return where + f"kind is required; known: {', '.join(KINDS)}"
        case "value_error":
            return where + str(item["ctx"]["error"])
        case _:
            found = repr(item["input"])
            return where + f"{item['msg']}, found {found if len(found) <= 80 else found[:77] + '...'}"


def _known_keys(data: dict[str, Any], place: list[str | int]) -> tuple[str, ...]:
    model: Any = Checks
    if len(place) >= 2 and place[0] == "check" and isinstance(place[1], int):
        model = KINDS.get(data["check"][place[1]].get("kind"), _Check)
        for part in place[2:]:
            if isinstance(part, str):
                field = next((f for n, f in model.model_fields.items() if part in (n, f.alias)), None)
                model = _nested_model(field.annotation) if field else None
            if model is None:
                return ()
    return tuple(f.alias or n for n, f in model.model_fields.items())


def _nested_model(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return annotation
    return next((m for part in get_args(annotation) if (m := _nested_model(part)) is not None), None)
