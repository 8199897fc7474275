"""Where in a TOML text a key stands: the line numbers that error messages name.

The standard parser gives values without positions. This scanner walks the text once, in linear time, and returns the
line of every key, table header and array element by its path. It also bounds nesting and key length *before* the
parser sees the text, because a few hundred kilobytes of brackets or dots exhaust the parser's stack or hours of its
time. It does not judge the text otherwise: what it can't follow it leaves to the parser to refuse.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

__all__ = ["MAX_DEPTH", "LineMap", "TooDeep", "scan_lines"]

#: The deepest nesting of tables and arrays, and the longest dotted key, that is read.
MAX_DEPTH = 32

Path = tuple[str | int, ...]

_BARE_END = frozenset(" \t\r\n=.]},#\"'[{")


class TooDeep(ValueError):
    """The text nests deeper than `MAX_DEPTH`; `line` says where."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}: nested deeper than {MAX_DEPTH} levels")
        self.line = line


class _Lost(Exception):
    """The text can't be followed: it is not valid TOML from here on."""


@dataclass(slots=True)
class LineMap:
    """Line numbers (from 1) by path: `("steps", 0, "name")`."""

    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int | None:
        """The line of a path, or of the nearest enclosing thing that has one."""
        for end in range(len(path), 0, -1):
            found = self.lines.get(path[:end])
            if found is not None:
                return found
        return None


def scan_lines(text: str) -> LineMap:
    """Finds the lines of all keys. Raises `TooDeep`; never anything for text that is not TOML."""
    scanner = _Scanner(text)
    with contextlib.suppress(_Lost):
        scanner.document()
    return scanner.found


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.found = LineMap()
        self._arrays: dict[Path, int] = {}  # arrays of tables -> index of their last element

    def document(self) -> None:
        table: Path = ()
        while True:
            self._blank(newlines=True)
            if self.at >= len(self.text):
                return
            if self._peek() == "[":
                table = self._header()
            else:
                self._pair(table, 0)

    def _header(self) -> Path:
        line = self.line
        self.at += 1
        of_array = self._peek() == "["
        self.at += of_array
        keys = self._keys()
        self._expect("]")
        if of_array:
            self._expect("]")
        path: Path = ()
        for number, key in enumerate(keys):
            path = (*path, key)
            last = number == len(keys) - 1
            if last and of_array:
                index = self._arrays[path] = self._arrays.get(path, -1) + 1
                self.found.lines.setdefault(path, line)
                path = (*path, index)
            elif path in self._arrays:
                path = (*path, self._arrays[path])
            self.found.lines.setdefault(path, line)
        return path

    def _pair(self, table: Path, depth: int) -> None:
        line = self.line
        keys = self._keys()
        self._expect("=")
        path = table
        for key in keys:
            path = (*path, key)
            self.found.lines.setdefault(path, line)
        self._blank()
        self._value(path, depth)

    def _value(self, path: Path, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise TooDeep(self.line)
        start, line = self._peek(), self.line
        if start in "\"'":
            self._string()
        elif start == "[":
            self.at += 1
            index = 0
            while True:
                self._blank(newlines=True)
                if self._peek() == "]":
                    break
                element = (*path, index)
                if self.line != line:  # else the array's own line says it: a long array of numbers costs nothing
                    self.found.lines[element] = self.line
                self._value(element, depth + 1)
                index += 1
                self._blank(newlines=True)
                if self._peek() == ",":
                    self.at += 1
                elif self._peek() != "]":
                    raise _Lost
            self.at += 1
        elif start == "{":
            self.at += 1
            while True:
                self._blank(newlines=True)
                if self._peek() == "}":
                    break
                self._pair(path, depth + 1)
                self._blank(newlines=True)
                if self._peek() == ",":
                    self.at += 1
                elif self._peek() != "}":
                    raise _Lost
            self.at += 1
        else:
            self._bare_value()

    def _bare_value(self) -> None:
        """Skips a number, date or boolean: up to what can't be part of one. A date and a time may have a space."""
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in ",]}#\n\r":
            self.at += 1
        if self.at == start:
            raise _Lost

    def _keys(self) -> list[str]:
        keys: list[str] = []
        while True:
            self._blank()
            if len(keys) >= MAX_DEPTH:
                raise TooDeep(self.line)
            if self._peek() in "\"'":
                keys.append(self._string())
            else:
                start = self.at
                while self.at < len(self.text) and self.text[self.at] not in _BARE_END:
                    self.at += 1
                if self.at == start:
                    raise _Lost
                keys.append(self.text[start : self.at])
            self._blank()
            if self._peek() != ".":
                return keys
            self.at += 1

    def _string(self) -> str:
        """Skips a string and returns its value (keys only need it: escapes are undone, line breaks are not joined)."""
        quote = self.text[self.at]
        triple = self.text.startswith(quote * 3, self.at)
        self.at += 3 if triple else 1
        pieces: list[str] = []
        while True:
            if self.at >= len(self.text):
                raise _Lost
            char = self.text[self.at]
            if char == quote and (not triple or self.text.startswith(quote * 3, self.at)):
                self.at += 3 if triple else 1
                # Up to two quotes may stand directly before the closing three.
                while triple and self._peek() == quote:
                    self.at += 1
                return "".join(pieces)
            if char == "\n":
                if not triple:
                    raise _Lost
                self.line += 1
            if char == "\\" and quote == '"':
                pieces.append(self._escape())
                continue
            pieces.append(char)
            self.at += 1

    def _escape(self) -> str:
        kind = self.text[self.at + 1 : self.at + 2]
        digits = {"u": 4, "U": 8, "x": 2}.get(kind)
        if digits is None:
            self.at += 1 if kind == "\n" else 2  # a line break is counted by the caller
            return {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}.get(
                kind, kind if kind != "\n" else ""
            )
        code = self.text[self.at + 2 : self.at + 2 + digits]
        self.at += 2 + digits
        try:
            return chr(int(code, 16))
        except (ValueError, OverflowError):
            raise _Lost from None

    def _blank(self, *, newlines: bool = False) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif char == "\n" and newlines:
                self.line += 1
                self.at += 1
            elif char in " \t\r":
                self.at += 1
            else:
                return

    def _peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else "\0"

    def _expect(self, char: str) -> None:
        self._blank()
        if self._peek() != char:
            raise _Lost
        self.at += 1
