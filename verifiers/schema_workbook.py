"""The kinds of check on workbooks, as they are written in a verifier.toml. Public through `schema.py`.

Each docstring is the reference of its kind's keys, for those who write tasks.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from envkit.verifiers.schema_files import Compared
from envkit.verifiers.values import Alternatives, BaseCheck, CellValue, Place, Regex, Spec, TextRules, TreePath

__all__ = ["CellCheck", "InputChange", "RangeCheck", "SheetCheck", "Survives"]

Colour = Annotated[str, Field(pattern=r"^(any|none|[0-9A-Fa-f]{6})$")]


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


class CellCheck(BaseCheck, Place, Compared, TextRules):
    """A cell of a workbook (xlsx, xlsm).

    The value is recalculated from the workbook's inputs with a fixed clock and seed; where the engine can't, the value
    that the program which saved it cached; where there is none either, the value is unknown and fails every comparison.

    Attributes:
        sheet: Name, compared without case and outer spaces. Without it: the first visible sheet (that has the labels).
        cell: An address like `B7`; or `name`, a defined name of one cell; or the labels of `values.Place`.
        value, any_of, abs_tol, rel_tol, text_number, blank: see above. Text is compared without case and outer spaces.
        contains ...: Phrase rules on the cell's text.
        min, max: Bounds of its number, either or both, each included.
        visible: The sheet, row and column must not be hidden. On by default.
        format: What its number format shows: `percent`, `currency`, `currency €`, `number 2`, `date`, ...: a beginning
            of `envkit.office.workbook.formats.format_class`.
        bold: Its text is bold (true) or not (false).
        fill, color: The colours of its background and text as `RRGGBB`, `any` for one of its own, `none` for none.
        comment: Phrases that a note or comment at the cell contains.
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
    min: float | None = None
    max: float | None = None
    visible: bool = True
    format: str | None = Field(default=None, min_length=1)
    bold: bool | None = None
    fill: Colour | None = None
    color: Colour | None = None
    comment: tuple[Alternatives, ...] = ()
    is_formula: bool | None = None
    formula_regex: Regex | None = None
    references: tuple[str, ...] = ()
    value_from: Literal["auto", "recalculated", "cached"] = "auto"
    survives: tuple[Survives, ...] = ()

    @property
    def looks_asked(self) -> bool:
        return not (self.format is None and self.bold is None and self.fill is None and self.color is None)

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
            or self.looks_asked
            or self.comment
            or self.min is not None
            or self.max is not None
        ):
            raise ValueError(
                "a cell check needs value, any_of, min, max, blank, a phrase rule, survives, comment, or something "
                "about the formula or the looks"
            )
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
        min, max: Bounds of every number in it, each included.
        format: What the number format of every number shows, as in a cell check.
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
    min: float | None = None
    max: float | None = None
    format: str | None = Field(default=None, min_length=1)
    value_from: Literal["auto", "recalculated", "cached"] = "auto"

    @model_validator(mode="after")
    def _sound(self) -> RangeCheck:
        if (self.range is None) == (self.column is None):
            raise ValueError("say which cells, in one way: range or column")
        asked = (self.sum, self.count, self.min, self.max, self.format)
        if asked == (None,) * 5 and not (self.values or self.all_numbers or self.all_formulas):
            raise ValueError("a range check needs sum, count, values, min, max, format, all_numbers or all_formulas")
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
        tables: Names of tables that it must have.
        position: Which sheet it is, from 1, hidden ones counted.
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
    tables: tuple[str, ...] = ()
    position: int | None = Field(default=None, ge=1)
