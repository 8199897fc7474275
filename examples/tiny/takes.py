"""What a demonstration is, and how one way of doing its task is drawn from it.

A `Demonstration` names the first tool calls that a clerk might make, the facts that the result rests on, and the final
answer. Facts stand in the answer, and in the call where the work is a file or a message. The tool's result may not
depend on them: it is recorded once for each `Look`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Call", "Demonstration", "Look", "Take", "draw", "first_call", "glob", "grep", "word"]

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Look:
    """A first call (`{name}` stands for a fact), and with which probability each fact is right after it."""

    call: Call
    care: float


@dataclass(frozen=True)
class Demonstration:
    """How a task is done.

    Attributes:
        looks: The first call; each is as likely as the others.
        facts: Name -> the right value, then wrong ones.
        answer: The final message; `{name}` stands for a fact.
        best: The reward when every fact is right; less than 1 where the clerk leaves a part of the work undone.
    """

    looks: tuple[Look, ...]
    facts: Mapping[str, Sequence[str]]
    answer: str
    best: float = 1.0


@dataclass(frozen=True)
class Take:
    """One way of doing a task: the call, the answer, whether every fact is right, and the look it came from."""

    call: Call
    answer: str
    right: bool
    look: Look


def draw(shown: Demonstration, rng: random.Random, *, careful: bool = False, care: float | None = None) -> Take:
    """Draws one way of doing a task; `careful` and `care` are those of `examples.tiny.demonstrations.take`."""
    look = max(shown.looks, key=lambda x: x.care) if careful else rng.choice(shown.looks)
    chance = 1.0 if careful else look.care if care is None else care
    values, right = {}, True
    for name, (good, *bad) in shown.facts.items():
        if not bad or rng.random() < chance:
            values[name] = good
        else:
            values[name] = rng.choice(bad)
            right = False
    return Take(_filled(look.call, values), _fill(shown.answer, values), right, look)


def first_call(shown: Demonstration, look: Look) -> Call:
    """The call of a look with every fact right."""
    return _filled(look.call, {name: values[0] for name, values in shown.facts.items()})


def _filled(call: Call, values: Mapping[str, str]) -> Call:
    name, arguments = call
    return name, {key: _fill(value, values) if isinstance(value, str) else value for key, value in arguments.items()}


def _fill(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def word(path: str, pattern: str) -> Call:
    """Words of a .docx file."""
    return "bash", {"command": f"unzip -p '{path}' word/document.xml | grep -o \"{pattern}\""}


def glob(pattern: str) -> Call:
    return "glob", {"pattern": pattern}


def grep(pattern: str, path: str) -> Call:
    return "grep", {"pattern": pattern, "path": path}
