"""The canonical model of a workbook: what it says and shows, without how a program happened to write it.

Cells are kept sparsely, so that one cell in the far corner costs nothing. A formula cell has two values: the one that
the program which saved the file cached (often none), and the one that `recalc.py` computes from the inputs. `value()`
gives the recalculated one, else the cached one, else `UNKNOWN`, which is neither 0 nor blank; `provenance()` says
which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from envkit.office.chart import Chart
from envkit.office.drawing import Embedded
from envkit.office.problem import Unreadable
from envkit.office.recalc import Engine, EngineError
from envkit.office.workbook.cells import Cell
from envkit.office.workbook.engine_input import engine_bytes, engine_input
from envkit.office.workbook.values import (
    UNKNOWN,
    Address,
    Area,
    ErrorNames,
    ErrorValue,
    Unknown,
    Value,
    shown_serial,
)

__all__ = [
    "Comment",
    "ConditionalFormat",
    "Name",
    "Picture",
    "Pivot",
    "Provenance",
    "Shape",
    "Sheet",
    "SheetChart",
    "SheetObject",
    "Table",
    "Validation",
    "Workbook",
]

Source = Literal["auto", "recalculated", "cached"]
#: Where a value comes from.
Provenance = Literal["constant", "recalculated", "cached", "unknown"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a sheet. `totals` counts its totals rows."""

    name: str
    area: Area
    columns: tuple[str, ...]
    totals: int = 0


@dataclass(frozen=True, slots=True)
class Comment:
    """A note or a thread at a cell: its text, and the replies below it, each as `author: text`."""

    at: Address
    author: str
    text: str
    replies: tuple[str, ...] = ()
    done: bool = False


@dataclass(frozen=True, slots=True)
class Validation:
    """A rule for what may be entered. `rule` says it in one line (`list "a,b"`, `whole between 1 and 5`)."""

    areas: tuple[Area, ...]
    rule: str
    prompt: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class ConditionalFormat:
    """A rule for how cells look. `look` says in one line what it does to them."""

    areas: tuple[Area, ...]
    rule: str
    look: str = ""


@dataclass(frozen=True, slots=True)
class Pivot:
    """A pivot table: where it is, what it reads, and which fields stand in rows, columns, filters and values."""

    name: str
    area: Area | None
    source: str
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SheetChart:
    """A chart on a sheet; `at` is the cell of its upper left corner, None on a chart sheet."""

    chart: Chart
    at: Address | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture, by the hash of its bytes."""

    digest: str
    at: Address | None
    alt: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """A text box or drawn shape with text."""

    text: str
    at: Address | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class SheetObject:
    """An embedded object: its program, the digest of what it holds, and the file in it where it can be read."""

    program: str
    digest: str
    inside: Embedded | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A defined name. `sheet` is set where it holds on one sheet alone."""

    name: str
    refers_to: str
    sheet: str | None = None
    hidden: bool = False


@dataclass(frozen=True)
class Sheet:
    """One sheet. `state` is `visible`, `hidden` or `veryHidden`; rows and columns count from 1.

    Attributes:
        kind: `worksheet`, `chartsheet`, or another kind that holds no cells.
        widths: Widths in characters where they are not the default; column -> width.
        frozen: How many rows and columns stay in view.
        filter: The range that has filter buttons, None without.
        protected: Whether its cells are locked.
        hyperlinks: Cell or range -> target.
    """

    name: str
    state: str
    cells: dict[Address, Cell]
    hidden_rows: frozenset[int] = frozenset()
    hidden_columns: frozenset[int] = frozenset()
    merged: tuple[Area, ...] = ()
    kind: str = "worksheet"
    arrays: dict[Address, str] = field(default_factory=dict)
    widths: dict[int, float] = field(default_factory=dict)
    default_width: float = 9.14
    frozen: tuple[int, int] = (0, 0)
    filter: Area | None = None
    protected: bool = False
    landscape: bool = False
    print_area: str = ""
    print_titles: str = ""
    header: str = ""
    footer: str = ""
    tab_color: str = ""
    tables: tuple[Table, ...] = ()
    comments: tuple[Comment, ...] = ()
    validations: tuple[Validation, ...] = ()
    conditional: tuple[ConditionalFormat, ...] = ()
    hyperlinks: dict[Area, str] = field(default_factory=dict)
    charts: tuple[SheetChart, ...] = ()
    pictures: tuple[Picture, ...] = ()
    shapes: tuple[Shape, ...] = ()
    pivots: tuple[Pivot, ...] = ()
    objects: tuple[SheetObject, ...] = ()

    @property
    def visible(self) -> bool:
        return self.state == "visible"

    def anchor(self, address: Address) -> Address:
        """Where the content shown at an address is kept: the first cell of a merged block, else the address itself."""
        row, column = address
        for top, left, bottom, right in self.merged:
            if top <= row <= bottom and left <= column <= right:
                return top, left
        return address

    @cached_property
    def ordered(self) -> tuple[Address, ...]:
        """The addresses of the filled cells in reading order."""
        return tuple(sorted(self.cells))

    @cached_property
    def rows(self) -> dict[int, tuple[int, ...]]:
        """Row -> its filled columns, both ascending."""
        out: dict[int, list[int]] = {}
        for row, column in self.ordered:
            out.setdefault(row, []).append(column)
        return {row: tuple(columns) for row, columns in out.items()}


@dataclass(frozen=True)
class Workbook:
    """A workbook. `names` are the defined names of the whole book, upper case -> what they stand for; `all_names` are
    all of them, those of single sheets included. `macros` is the hash of its macro project, "" without one;
    `macro_code` its modules with their code, None where it can't be read; `links` are the other files that its formulas
    read."""

    sheets: tuple[Sheet, ...]
    names: dict[str, str]
    date1904: bool
    data: bytes = field(repr=False)
    all_names: tuple[Name, ...] = ()
    structure_locked: bool = False
    macros: str = ""
    macro_code: dict[str, str] | None = None
    links: tuple[str, ...] = ()

    def sheet(self, name: str) -> Sheet | None:
        """The sheet of this name, compared without case and outer spaces; an exact match comes first."""
        exact = [s for s in self.sheets if s.name == name]
        loose = [s for s in self.sheets if s.name.strip().casefold() == name.strip().casefold()]
        return next(iter(exact or loose), None)

    def value(self, sheet: Sheet, address: Address, source: Source = "auto") -> Value:
        """The value of a cell, None when it is empty. See the module on formulas."""
        cell = sheet.cells.get(address)
        if cell is None:
            return None
        if cell.formula is None:
            return cell.value
        if source != "cached":
            value = self._recalculated(sheet, address, cell)
            if not isinstance(value, Unknown) or source == "recalculated":
                return value
        return UNKNOWN if cell.value is None else cell.value

    def provenance(self, sheet: Sheet, address: Address) -> Provenance:
        """Where `value()` has the value of a filled cell from."""
        cell = sheet.cells[address]
        if cell.formula is None:
            return "constant"
        if not isinstance(self._recalculated(sheet, address, cell), Unknown):
            return "recalculated"
        return "unknown" if cell.value is None else "cached"

    @cached_property
    def engine(self) -> Engine | None:
        try:
            return Engine(engine_bytes(self.data), *engine_input(self.sheets))
        except (EngineError, Unreadable):  # a model that was not read from a file has no bytes to recalculate
            return None

    def _recalculated(self, sheet: Sheet, address: Address, cell: Cell) -> Value:
        if self.engine is None:
            return UNKNOWN
        try:
            value = self.engine.value(sheet.name, address, cell.formula or "")
        except EngineError:
            return UNKNOWN
        if isinstance(value, str) and value.startswith("#") and value in ErrorNames:
            return ErrorValue(value)
        if isinstance(value, float) and cell.style.serial:
            return shown_serial(value, cell.style.serial, self.date1904)
        return value
