"""What a check compares with: numbers in text, phrases, names, and places in tables.

These are the parts that several kinds of check share, as they are written in `tests/verifier.toml`. They hold data
only; `numbers.py`, `phrases.py` and `kinds/` do the comparing. Used by `schema.py`.
"""

from __future__ import annotations

import datetime as dt
import math
import posixpath
import re
import unicodedata
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "SCALES",
    "Alternatives",
    "BaseCheck",
    "CellValue",
    "NamesSpec",
    "NumberSpec",
    "Place",
    "Regex",
    "Scale",
    "TextRules",
    "TreePath",
    "TreePattern",
]

Scale = Literal["one", "thousand", "million", "billion", "trillion", "percent", "bps"]

SCALES: dict[str, float] = {
    "one": 1.0,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
    "percent": 1e-2,
    "bps": 1e-4,
}


class Spec(BaseModel):
    """Base of everything written in a verifier.toml: unknown keys are errors, nothing is changed after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)


class BaseCheck(Spec):
    """What every check has.

    Attributes:
        id: Unique within the file.
        weight: Its share; 0 = for information.
        gate: Where it fails, the reward is 0.
        primary: It is the task's main objective, for scoring methods that tell main ones from others.
        difficulty: `Low`, `Medium` or `High`, for `difficulty_weighted_average`.
        tags: For `deep_research_weighted_average_with_gates`: `Expert Assessment`, `Gate: ...`.
        hurdle: Without it nothing counts, for `ace_criterion_score`.
        universal: It applies to a whole world and not to this task alone, for methods that tell these apart.
        outside: What judges this kind, where that is not the confined child that reads the files.
    """

    outside: ClassVar[str] = ""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    description: str = ""
    weight: float = Field(default=1.0, ge=0)
    gate: bool = False
    primary: bool = False
    difficulty: Literal["Low", "Medium", "High"] | None = None
    tags: tuple[str, ...] = ()
    hurdle: bool = False
    universal: bool = False

    @property
    def graded(self) -> dict[str, Any]:
        """What scoring methods ask about a criterion, as attributes of `scoring_methods.Graded`."""
        return {
            "primary": self.primary,
            "difficulty": self.difficulty,
            "tags": frozenset(self.tags),
            "hurdle": self.hurdle,
            "universal": self.universal,
        }


def _regex(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return pattern


def _tree_path(path: str) -> str:
    text = unicodedata.normalize("NFC", path)
    if not text or text.endswith("/") or "\0" in text or "\\" in text:
        raise ValueError(f"{path!r} must name a file with forward slashes, e.g. '/filesystem/reports/q3.xlsx'")
    if not text.startswith("/"):
        text = "/filesystem/" + text
    if ".." in text.split("/"):
        raise ValueError(f"{path!r} must not contain '..'")
    text = posixpath.normpath(text)
    if not text.startswith(("/filesystem/", "/.apps_data/")):
        raise ValueError(f"{path!r} must lie in /filesystem or /.apps_data (a relative path counts from /filesystem)")
    return text[1:]


#: A file of the final state. `/filesystem/a/b.xlsx`, or `a/b.xlsx` counted from `/filesystem`; kept as
#: `filesystem/a/b.xlsx`.
TreePath = Annotated[str, AfterValidator(_tree_path)]
#: The same with `*`, `?`, `[...]` (within one folder level) and `**` (any number of levels).
TreePattern = Annotated[str, AfterValidator(_tree_path)]
Regex = Annotated[str, AfterValidator(_regex)]
#: One phrase, or a list of phrases of which any one will do.
Alternatives = (
    Annotated[str, Field(min_length=1)]
    | Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
)
#: A value as TOML writes it. A datetime is compared with date cells to the second; a date with their date part.
CellValue = bool | int | float | dt.datetime | dt.date | dt.time | str


class NumberSpec(Spec):
    """A number that a text must state, and how strictly.

    What counts as *stating* it: the text is cut into candidate numbers. Dates, times, version numbers, list markers
    (`1.`), numbers glued to a letter (`Q3`, `FY25`, `B7`) and bare years (1900-2099, unless the expected value is such
    a number) are no candidates. Each candidate is read with its own sign, thousands separators, scale and unit:
    `€12.4m`, `EUR 12,400,000`, `12,4 Mio. €`, `(12.4) million`, `1.24%`, `124 bps`. Candidates whose unit or dimension
    contradicts the expected one (USD for EUR, a percentage for an amount) drop out. If `label` is given, only
    candidates near a match of it stay. If more than `max_candidates` *different* values are left, the number is one
    of many and not the stated answer: the check fails. Otherwise it passes when one of them is within tolerance.

    Attributes:
        value: The number, in `scale` of `unit`.
        scale: `one`, `thousand`, `million`, `billion`, `trillion`, `percent` or `bps`. 12.4 with scale `million` is
            also met by 12,400,000; 12.4 with `percent` by 0.124.
        unit: A currency code (`EUR`, symbols and words are known), or any word that follows the number (`shares`).
        require_unit: A candidate without a unit is not enough.
        assume_scale: A candidate *without* a scale word is read in `scale` too ("in EUR million: 12.4").
        abs_tol: Largest absolute difference, in `scale`. The larger of both tolerances holds.
        rel_tol: Largest difference as a share of `value`. With neither given: 1e-6.
        sign: `exact`, or `any` to compare magnitudes ("a loss of 12.4 million" for -12.4).
        decimal: `auto` reads each number by its shape (`1,234` is 1234, `1.234` is 1.234, `1.234,5` is 1234.5); `.` or
            `,` settles what the decimal mark is.
        label: A regular expression (case-insensitive) for what names the number: `net\\s+revenue`.
        near: How many characters may lie between label and number, on either side, within one line; where that line has
            no such number, in the lines that follow.
        max_candidates: See above. Default 8 for the answer and wherever `label` is given, else no cap.
    """

    value: float
    scale: Scale = "one"
    unit: str | None = None
    require_unit: bool = False
    assume_scale: bool = False
    abs_tol: float | None = Field(default=None, ge=0)
    rel_tol: float | None = Field(default=None, ge=0)
    sign: Literal["exact", "any"] = "exact"
    decimal: Literal["auto", ".", ","] = "auto"
    label: Regex | None = None
    near: int = Field(default=80, ge=0, le=2000)
    max_candidates: int | None = Field(default=None, ge=1)

    @property
    def canonical(self) -> float:
        """The value in units of one."""
        return self.value * SCALES[self.scale]

    @property
    def tolerance(self) -> float:
        """The largest accepted difference from `canonical`, in units of one."""
        if self.abs_tol is None and self.rel_tol is None:
            return abs(self.canonical) * 1e-6
        return max((self.abs_tol or 0.0) * SCALES[self.scale], (self.rel_tol or 0.0) * abs(self.canonical))

    @model_validator(mode="after")
    def _sound(self) -> NumberSpec:
        if not math.isfinite(self.value):
            raise ValueError(f"value must be a finite number, found {self.value}")
        if self.require_unit and not self.unit:
            raise ValueError("require_unit needs a unit")
        return self


class NamesSpec(Spec):
    """Names of which a text must give exactly the right ones.

    Attributes:
        expected: The right names; each one, or a list of spellings of it, must occur (as whole words, any case).
        distractors: Wrong names that must not occur: the rest of the list the agent had to choose from.
        ordered: The first occurrences of `expected` must come in this order.
    """

    expected: tuple[Alternatives, ...] = Field(min_length=1)
    distractors: tuple[Alternatives, ...] = ()
    ordered: bool = False


class TextRules(Spec):
    """What a text must and must not say; every rule given must hold.

    Texts are compared after Unicode normalisation (NFKC, straight quotes, plain hyphens, no soft hyphens) with runs
    of white space as one space. Phrases match as whole words: `12` is not found in `2012` or `12.4`, `gain` not in
    `again`.

    Attributes:
        contains: Every entry must occur; an entry that is a list is met by any one of its phrases.
        contains_any: At least one must occur.
        not_contains: None may occur.
        regex: Every pattern must be found (`re.search`, case-insensitive unless `case_sensitive`, `.` spans lines not).
        not_regex: No pattern may be found.
        case_sensitive: For phrases and patterns alike.
    """

    contains: tuple[Alternatives, ...] = ()
    contains_any: tuple[str, ...] = ()
    not_contains: tuple[str, ...] = ()
    regex: tuple[Regex, ...] = ()
    not_regex: tuple[Regex, ...] = ()
    case_sensitive: bool = False

    @property
    def has_rules(self) -> bool:
        return bool(self.contains or self.contains_any or self.not_contains or self.regex or self.not_regex)


class Place(Spec):
    """A cell of a table, found by its labels as a reader would.

    The row is the first one with a cell equal to `row_label`; the column that of the cell equal to `column_label` above
    it (the nearest one, right of the row's label). With only a row label it is the first filled cell to the right; with
    only a column label the first filled one below. A label is compared after normalisation, ignoring case and a
    trailing colon; a list gives spellings of which any will do.
    """

    row_label: Alternatives | None = None
    column_label: Alternatives | None = None

    @property
    def has_label(self) -> bool:
        return self.row_label is not None or self.column_label is not None
