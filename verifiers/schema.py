"""The schema of `tests/verifier.toml`: the typed checks of a task, and the reference for those who write them.

```toml
schema_version = "1"
scoring = "weighted_mean"           # or "all_or_nothing", or a method of scoring_methods.py, with [options]

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

Each kind is a class (`schema_files.py`, `schema_workbook.py`, `schema_apps.py`, `schema_work.py`, `judge/schema.py`);
its docstring is the reference of its keys. Every check has `id` (unique), `kind`, `description`, `weight` (default 1;
0 = for information), `gate` (a failed gate makes the reward 0), and what scoring methods ask (`values.BaseCheck`).
Everything a check says must hold for it to pass. Unknown keys are errors with a suggestion and the line. Used by the
checks verifier, by `envkit check` and by task packs.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationError, field_validator, model_validator

from envkit.failure import UserError, did_you_mean
from envkit.verifiers.judge.schema import JudgeCheck
from envkit.verifiers.schema_apps import CalendarCheck, ChangesCheck, ChatCheck, MailCheck, UnchangedCheck
from envkit.verifiers.schema_files import (
    AnswerCheck,
    CommentSpec,
    CsvCheck,
    DeckCheck,
    DocumentCheck,
    FileCheck,
    PdfCheck,
    StyledParagraph,
    TableCell,
    TextCheck,
)
from envkit.verifiers.schema_work import ChartCheck, ScriptCheck, SeriesSpec, SqlCheck, ToolCallsCheck
from envkit.verifiers.schema_workbook import CellCheck, InputChange, RangeCheck, SheetCheck, Survives
from envkit.verifiers.scoring import OWN_METHODS
from envkit.verifiers.scoring_methods import METHODS, score_with
from envkit.verifiers.toml_lines import line_of
from envkit.verifiers.values import BaseCheck, Spec

__all__ = [
    "KINDS",
    "AnswerCheck",
    "BaseCheck",
    "CalendarCheck",
    "CellCheck",
    "ChangesCheck",
    "ChartCheck",
    "ChatCheck",
    "Check",
    "Checks",
    "CommentSpec",
    "CsvCheck",
    "DeckCheck",
    "DocumentCheck",
    "FileCheck",
    "InputChange",
    "JudgeCheck",
    "MailCheck",
    "PdfCheck",
    "RangeCheck",
    "ScriptCheck",
    "SeriesSpec",
    "SheetCheck",
    "SqlCheck",
    "StyledParagraph",
    "Survives",
    "TableCell",
    "TextCheck",
    "ToolCallsCheck",
    "UnchangedCheck",
    "load_checks",
    "parse_checks",
]


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
    | UnchangedCheck
    | ChangesCheck
    | ChartCheck
    | SqlCheck
    | ToolCallsCheck
    | ScriptCheck
    | JudgeCheck,
    Field(discriminator="kind"),
]

_CLASSES: tuple[type[BaseCheck], ...] = get_args(get_args(Check)[0])

#: The kinds of check, by the name written in `kind`.
KINDS: dict[str, type[BaseCheck]] = {get_args(c.model_fields["kind"].annotation)[0]: c for c in _CLASSES}


class Checks(Spec):
    """A whole `verifier.toml`.

    Attributes:
        schema_version: "1".
        scoring: `weighted_mean`: the sum of weight x score over the sum of weights. `all_or_nothing`: 1 when every
            check with weight passed, else 0. Or a method of `scoring_methods.METHODS` over the checks with weight.
            With each, a failed gate makes the reward 0.
        options: The method's options; our own two have none.
        check: At least one check that counts (weight > 0 or a gate).
    """

    schema_version: Literal["1"]
    scoring: str = "weighted_mean"
    options: dict[str, Any] = Field(default_factory=dict)
    check: tuple[Check, ...] = Field(min_length=1)

    @field_validator("scoring")
    @classmethod
    def _known_method(cls, name: str) -> str:
        known = (*OWN_METHODS, *METHODS)
        if name not in known:
            raise ValueError(f"unknown scoring {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}")
        return name

    @model_validator(mode="after")
    def _sound(self) -> Checks:
        seen: set[str] = set()
        for check in self.check:
            if check.id in seen:
                raise ValueError(f"two checks have the id {check.id!r}; ids must be unique")
            seen.add(check.id)
        if not any(check.weight > 0 for check in self.check):
            raise ValueError("at least one check must have a weight above 0")
        if self.scoring in METHODS:
            try:
                score_with(self.scoring, (), self.options)
            except UserError as error:
                raise ValueError(str(error)) from error
        elif self.options:
            raise ValueError(f"scoring {self.scoring!r} has no options, found {', '.join(self.options)}")
        return self


def parse_checks(text: str, source: str = "verifier.toml") -> Checks:
    """Reads the text of a verifier.toml.

    Raises:
        UserError: It is no TOML or not of this schema. The message names the source, every mistake's line and key,
            and the nearest known key for an unknown one.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
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
        model = KINDS.get(data["check"][place[1]].get("kind"), BaseCheck)
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
