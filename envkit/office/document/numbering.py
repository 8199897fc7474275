"""The labels of lists, computed as Word prints them: "1.", "2.1", "b)", "iv.", "•".

Counters belong to the abstract definition that numbered paragraphs share; a level starts afresh when one above it
counts on, and an override starts it where it says, once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from envkit.office.document.model import ListItem
from envkit.office.document.styles import W, value

__all__ = ["Numbering"]

#: Bullets of symbol fonts by the characters they look like.
_BULLETS = {
    "\uf0b7": "•",
    "\uf0a7": "▪",
    "\uf0d8": "➢",
    "\uf0fc": "✓",
    "\uf076": "❖",
    "o": "○",
    "\uf02d": "-",
    "·": "•",
}
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
          (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip


def _spelt(number: int, kind: str) -> str:
    match kind:
        case "lowerLetter" | "upperLetter":
            if number < 1:
                return str(number)
            # After z Word prints aa, bb, cc.
            text = chr(ord("a") + (number - 1) % 26) * min((number - 1) // 26 + 1, 50)
            return text if kind == "lowerLetter" else text.upper()
        case "lowerRoman" | "upperRoman":
            left, text = min(max(number, 0), 50_000), ""
            for size, sign in _ROMAN:
                text += sign * (left // size)
                left %= size
            return text if kind == "lowerRoman" else text.upper()
        case "decimalZero":
            return f"{number:02d}"
        case "none":
            return ""
        case "ordinal":
            tail = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
            return f"{number}{tail}"
        case _:
            return str(number)


@dataclass
class _Level:
    kind: str = "decimal"
    pattern: str = ""
    start: int = 1
    restart: int | None = None
    properties: Any = None
    style: str = ""


@dataclass
class _List:
    abstract: str
    overrides: dict[int, int] = field(default_factory=dict)
    levels: dict[int, _Level] = field(default_factory=dict)


def _number(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,8}", text) else default


def _level(element: Any) -> _Level:
    restart = value(element, f"{W}lvlRestart")
    pattern = value(element, f"{W}lvlText")
    kind = value(element, f"{W}numFmt", "decimal")
    if kind == "bullet":
        pattern = "".join(_BULLETS.get(c, c) for c in pattern)
    return _Level(
        kind,
        pattern,
        _number(value(element, f"{W}start"), 1 if kind != "bullet" else 0),
        int(restart) if restart.isdecimal() and len(restart) < 3 else None,
        element.find(f"{W}pPr"),
        value(element, f"{W}pStyle"),
    )


class Numbering:
    """The numbering part of a document (None when it has none), with the counters of one walk through its body."""

    def __init__(self, root: Any) -> None:
        self._abstract: dict[str, dict[int, _Level]] = {}
        self._lists: dict[str, _List] = {}
        self._counters: dict[tuple[str, int], int] = {}
        self._groups: dict[tuple[str, int], int] = {}
        self._overridden: set[tuple[str, int]] = set()
        self._next_group = 1
        self._by_style: dict[str, tuple[str, int]] = {}
        if root is None:
            return
        linked: dict[str, str] = {}
        owners: dict[str, str] = {}
        for element in root.iterfind(f"{W}abstractNum"):
            name = element.get(f"{W}abstractNumId", "")
            self._abstract[name] = {_number(e.get(f"{W}ilvl", ""), 0): _level(e) for e in element.iterfind(f"{W}lvl")}
            if value(element, f"{W}numStyleLink"):
                linked[name] = value(element, f"{W}numStyleLink")
            if value(element, f"{W}styleLink"):
                owners[value(element, f"{W}styleLink")] = name
        for name, style in linked.items():
            if style in owners and not self._abstract[name]:
                self._abstract[name] = self._abstract[owners[style]]
        for element in root.iterfind(f"{W}num"):
            abstract = value(element, f"{W}abstractNumId")
            number = _List(abstract)
            for override in element.iterfind(f"{W}lvlOverride"):
                at = _number(override.get(f"{W}ilvl", ""), 0)
                start = value(override, f"{W}startOverride")
                if start:
                    number.overrides[at] = _number(start, 1)
                own = override.find(f"{W}lvl")
                if own is not None:
                    number.levels[at] = _level(own)
            num_id = element.get(f"{W}numId", "")
            self._lists[num_id] = number
            for at, level in self._abstract.get(abstract, {}).items():
                if level.style:
                    self._by_style.setdefault(level.style, (num_id, at))

    def _definition(self, num_id: str, level: int) -> _Level | None:
        found = self._lists.get(num_id)
        if found is None:
            return None
        return found.levels.get(level) or self._abstract.get(found.abstract, {}).get(level)

    def level_of_style(self, style_id: str) -> int:
        return self._by_style.get(style_id, ("", 0))[1]

    def layout(self, num_id: str, level: int) -> Any:
        """The paragraph properties that a list level brings."""
        found = self._definition(num_id, level)
        return None if found is None else found.properties

    def item(self, num_id: str, level: int) -> ListItem | None:
        """Counts one paragraph and gives its label; None when the numbering says nothing about it."""
        definition = self._definition(num_id, level)
        if definition is None or not 0 <= level <= 8:
            return None
        abstract = self._lists[num_id].abstract
        key = (abstract, level)
        override = self._lists[num_id].overrides.get(level)
        fresh = key not in self._counters
        if override is not None and (num_id, level) not in self._overridden:
            self._overridden.add((num_id, level))
            self._counters[key], fresh = override, True
        elif fresh:
            self._counters[key] = definition.start
        else:
            self._counters[key] += 1
        if fresh:
            self._groups[key] = self._next_group
            self._next_group += 1
        for deeper in range(level + 1, 9):
            below = self._definition(num_id, deeper)
            if below is not None and below.restart is not None and (below.restart == 0 or level >= below.restart):
                continue
            self._counters.pop((abstract, deeper), None)
        ordinal = self._counters[key]
        if definition.kind == "bullet":
            return ListItem(definition.pattern, level, "bullet", definition.pattern, 0, self._groups[key])

        def counted(match: re.Match[str]) -> str:
            at = int(match[1]) - 1
            above = self._definition(num_id, at)
            if at == level:
                return _spelt(ordinal, definition.kind)
            number = self._counters.get((abstract, at), above.start if above is not None else 1)
            return _spelt(number, above.kind if above is not None else "decimal")

        label = re.sub(r"%([1-9])", counted, definition.pattern)
        return ListItem(label, level, definition.kind, definition.pattern, ordinal, self._groups[key])
