"""What a task's author writes: a `Job`, and short builders for its checks.

A check is a plain dict of the keys of `tests/verifier.toml`; the builders below only save typing. Use `keep` for what
must not change: it is a gate without weight, so that doing nothing earns nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Job", "answer", "check", "keep", "number", "untouched"]

Check = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One task of a world.

    Attributes:
        instruction: What the manager writes; names of files, units and rounding, never the result.
        checks: Three to six, each one fact; their values come from the fact model.
        scripted: The final answer of a scripted solution (`solution/opencode.json`), computed from the facts; ""
            where the work is a file and any answer will do; None: no scripted solution.
        wrong: A tempting wrong result, for the tests: a final answer that a hasty reader would give (answers only).
    """

    instruction: str
    checks: Sequence[Check]
    scripted: str | None = None
    wrong: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


def number(value: float, **rules: Any) -> dict[str, Any]:
    """A number that a text must state: `number(12.4, unit="EUR", scale="million", abs_tol=0.05)`."""
    return {"value": value, **rules}


def check(kind: str, id: str, description: str, /, **keys: Any) -> Check:
    """A check of any kind; `weight` (1) and `gate` (false) are keys like the others.

    A key that is a Python word is written with an underscore behind: `from_`, `except_`.
    """
    out: Check = {"id": id, "kind": kind, "description": description, "weight": 1.0}
    return out | {key.rstrip("_"): value for key, value in keys.items()}


def answer(id: str, description: str, /, **keys: Any) -> Check:
    """A check of the final answer."""
    return check("answer", id, description, **keys)


def keep(kind: str, id: str, description: str, /, **keys: Any) -> Check:
    """A gate without weight: what holds at the start and must still hold at the end."""
    return check(kind, id, description, weight=0.0, gate=True, **keys)


def untouched(*except_: str) -> Check:
    """A gate: every file of the world except these patterns is as it was; new files are allowed."""
    keys: dict[str, Any] = {"paths": ["/filesystem/**"]}
    if except_:
        keys["except_"] = list(except_)
    return keep("unchanged", "untouched", "No other file of the world was changed", **keys)
