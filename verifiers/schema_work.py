"""The kinds of check on how the work was done, on databases and charts, and by scripts of the task. Public through
`schema.py`.

Each docstring is the reference of its kind's keys, for those who write tasks.
"""

from __future__ import annotations

import sqlite3
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from envkit.verifiers.values import Alternatives, BaseCheck, CellValue, Regex, Spec, TreePath

__all__ = ["ChartCheck", "ScriptCheck", "SeriesSpec", "SqlCheck", "ToolCallsCheck"]

#: What SQLite says of a text that is no single statement.
_GRAMMAR = ("syntax error", "incomplete input", "unrecognized token", "one statement")


class ToolCallsCheck(BaseCheck):
    """The tools that the model called in the main conversation. What a task's `solve.sh` does is no call.

    Attributes:
        tools: Names, or patterns with `*`; those calls are looked at. Without it: all calls.
        arguments: Of those, only calls whose arguments match: name -> regular expression, looked for in the argument's
            text (JSON for what is no string).
        times, min_times, max_times: How many such calls there must be. With none of them: at least one.
        forbidden: Names or patterns of tools that must not be called at all.
        in_order: Names or patterns that must be called in this order, other calls between them allowed.
    """

    kind: Literal["tool_calls"]
    tools: tuple[str, ...] = ()
    arguments: dict[str, Regex] = Field(default_factory=dict)
    times: int | None = Field(default=None, ge=0)
    min_times: int | None = Field(default=None, ge=0)
    max_times: int | None = Field(default=None, ge=0)
    forbidden: tuple[str, ...] = ()
    in_order: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        counted = (self.times, self.min_times, self.max_times) != (None, None, None)
        return counted or bool(self.tools or self.arguments)

    @model_validator(mode="after")
    def _asks(self) -> ToolCallsCheck:
        if not (self.counts or self.forbidden or self.in_order):
            raise ValueError(
                "a tool_calls check needs tools, arguments, times, min_times, max_times, in_order or forbidden"
            )
        return self


class ScriptCheck(BaseCheck):
    """A script of the task's `tests/` as one criterion, in a fresh sandbox that holds the final state.

    It sees what a `test.sh` sees (`/tests`, the two trees, `/logs/agent/answer.txt`), writes a score from 0 to 1 as
    `/logs/verifier/reward.json` (`{"reward": 0.5}`) or `reward.txt`, and ends with 0. Whatever else it does (another
    exit status, no score, too long) leaves the criterion without an outcome: a script that breaks judges nobody.

    Attributes:
        script: Its path below `tests/`: `*.py` is run by python3, `*.sh` by bash.
        timeout_s: Longest run, in seconds; the verifier's time limit holds too.
        pass_at: The least score that counts as passed.
    """

    outside: ClassVar[str] = "a fresh sandbox"

    kind: Literal["script"]
    script: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]{0,200}\.(py|sh)$")
    timeout_s: float = Field(default=120.0, gt=0)
    pass_at: float = Field(default=1.0, gt=0, le=1)

    @field_validator("script")
    @classmethod
    def _inside(cls, path: str) -> str:
        if ".." in path.split("/"):
            raise ValueError(f"{path!r} must lie in tests/")
        return path


class SqlCheck(BaseCheck):
    """A query over an SQLite file of the final state. It only reads; what a file has not yet moved out of its
    write-ahead log (`-wal`) counts.

    Attributes:
        path: The database.
        query: One SELECT.
        rows: The rows of its result, in order or in `any_order`. TOML has no null: write `coalesce(x, 'none')`.
        contains: Rows that must be among them.
        count, min_count, max_count: How many rows.
        value: The only value of the only row.
        abs_tol, rel_tol: Tolerance of numbers.
    """

    kind: Literal["sql"]
    path: TreePath
    query: str = Field(min_length=1, max_length=20_000)
    rows: tuple[tuple[CellValue, ...], ...] | None = None
    any_order: bool = False
    contains: tuple[tuple[CellValue, ...], ...] = ()
    count: int | None = Field(default=None, ge=0)
    min_count: int | None = Field(default=None, ge=0)
    max_count: int | None = Field(default=None, ge=0)
    value: CellValue | None = None
    abs_tol: float | None = Field(default=None, ge=0)
    rel_tol: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _sound(self) -> SqlCheck:
        counted = (self.count, self.min_count, self.max_count) != (None, None, None)
        if self.rows is None and not self.contains and not counted and self.value is None:
            raise ValueError("a sql check needs rows, contains, count, min_count, max_count or value")
        if self.query.split(None, 1)[0].upper() not in ("SELECT", "WITH", "VALUES"):
            raise ValueError("query must be a SELECT")
        connection = sqlite3.connect(":memory:")
        try:
            connection.execute("EXPLAIN " + self.query)
        except sqlite3.Warning as error:
            raise ValueError(f"query: {error}") from error
        except sqlite3.Error as error:
            # Tables are the agent's; what can be told without them is the grammar.
            if any(part in str(error) for part in _GRAMMAR):
                raise ValueError(f"query: {error}") from error
        finally:
            connection.close()
        return self


class SeriesSpec(Spec):
    """A series that a chart must have.

    Attributes:
        name: Its name, as a whole text.
        values_from, categories_from: Where its data stand: `Summary!B2:B4`.
        values, categories: What it shows: the cells it refers to, recalculated; else the points kept in the chart.
    """

    name: Alternatives | None = None
    values_from: str | None = None
    categories_from: str | None = None
    values: tuple[CellValue, ...] = ()
    categories: tuple[CellValue, ...] = ()

    @model_validator(mode="after")
    def _asks(self) -> SeriesSpec:
        if self.name is None and not (self.values_from or self.categories_from or self.values or self.categories):
            raise ValueError("a series needs name, values_from, categories_from, values or categories")
        return self


class ChartCheck(BaseCheck):
    """A chart of a workbook, document or deck (xlsx, xlsm, docx, pptx): one of its charts must meet all this.

    Charts of documents and decks bring their data along: there `values` are the points kept in the chart, and
    `values_from` is compared as it is written.

    Attributes:
        sheet: On this sheet of a workbook only.
        slide: On this slide of a deck only, counted from 1 over the slides that are shown.
        type: `column`, `bar`, `line`, `pie`, `area`, `scatter`, ...: a kind that is among the chart's; stacked ones
            count as their kind.
        title: Its title, as a whole text after normalisation.
        axis_titles: Titles that axes of it must have.
        series: Series that it must have, in any order.
        exact_series: And no others.
        min_charts: How many charts the workbook (or the sheet) must have.
        abs_tol, rel_tol: Tolerance of numbers.
    """

    kind: Literal["chart"]
    path: TreePath
    sheet: str | None = None
    slide: int | None = Field(default=None, ge=1)
    type: str | None = None
    title: Alternatives | None = None
    axis_titles: tuple[Alternatives, ...] = ()
    series: tuple[SeriesSpec, ...] = ()
    exact_series: bool = False
    min_charts: int = Field(default=1, ge=1)
    abs_tol: float | None = Field(default=None, ge=0)
    rel_tol: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _fits_the_file(self) -> ChartCheck:
        suffix = self.path.rpartition(".")[2].lower()
        if suffix not in ("xlsx", "xlsm", "docx", "docm", "pptx", "pptm"):
            raise ValueError(f"charts are read from xlsx, xlsm, docx and pptx files, found {self.path!r}")
        if self.sheet is not None and not suffix.startswith("xls"):
            raise ValueError("sheet is for workbooks")
        if self.slide is not None and not suffix.startswith("ppt"):
            raise ValueError("slide is for decks")
        return self
