"""Where in a TOML text a value stands, for error messages that name a line.

The standard parser tells values but no places. This scanner reads only structure (table headers, keys, strings,
brackets) and assumes that the text parses; where it can't follow, it answers with the line of the nearest enclosing
key, or None. Used by `schema.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["line_of"]

_KEY_PART = re.compile(r"""\s*(?:([A-Za-z0-9_-]+)|"((?:[^"\\]|\\.)*)"|'([^']*)')\s*""")


def line_of(text: str, place: tuple[str | int, ...]) -> int | None:
    """The line, from 1, of the value at `place` (keys and list indices from the root), or of what encloses it most
    closely. None where nothing of it was found."""
    best: tuple[int, int] | None = None
    for where, line in _places(text):
        depth = len(where)
        if place[:depth] == where and (best is None or depth > best[0]):
            best = (depth, line)
    return best[1] if best and best[0] > 0 else None


def _places(text: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Every table header and key of the text, with its place and line."""
    table: tuple[str | int, ...] = ()
    counts: dict[tuple[str | int, ...], int] = {}
    position = 0
    while position < len(text):
        position = _skip_space(text, position)
        if position >= len(text):
            return
        line = text.count("\n", 0, position) + 1
        if text[position] == "[":
            is_array = text.startswith("[[", position)
            keys, position = _key(text, position + (2 if is_array else 1))
            table = _resolve(keys, counts)
            if is_array:
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield table, line
            position = _end_of_line(text, position)
            continue
        keys, after = _key(text, position)
        if not keys or after >= len(text) or text[after] != "=":
            position = _end_of_line(text, position)
            continue
        where = (*table, *keys)
        yield where, line
        nested: list[tuple[tuple[str | int, ...], int]] = []
        position = _value(text, after + 1, where, nested)
        yield from nested


def _resolve(keys: tuple[str, ...], counts: dict[tuple[str | int, ...], int]) -> tuple[str | int, ...]:
    """A table name with the current index filled in behind every array of tables but the last part."""
    out: tuple[str | int, ...] = ()
    for number, key in enumerate(keys):
        out = (*out, key)
        if number < len(keys) - 1 and out in counts:
            out = (*out, counts[out])
    return out


def _key(text: str, position: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while match := _KEY_PART.match(text, position):
        parts.append(next(g for g in match.groups() if g is not None))
        position = match.end()
        if position < len(text) and text[position] == ".":
            position += 1
        else:
            break
    return tuple(parts), position


def _value(
    text: str, position: int, where: tuple[str | int, ...], found: list[tuple[tuple[str | int, ...], int]]
) -> int:
    """Reads one value, notes the keys and elements inside it, and returns the position behind it."""
    position = _skip_space(text, position)
    if position >= len(text):
        return position
    if text[position] == "[":
        position, index = _skip_space(text, position + 1), 0
        while position < len(text) and text[position] != "]":
            found.append(((*where, index), text.count("\n", 0, position) + 1))
            position = _skip_space(text, _value(text, position, (*where, index), found))
            if position < len(text) and text[position] == ",":
                position = _skip_space(text, position + 1)
            index += 1
        return position + 1
    if text[position] == "{":
        position = _skip_space(text, position + 1)
        while position < len(text) and text[position] != "}":
            line = text.count("\n", 0, position) + 1
            keys, after = _key(text, position)
            if not keys:
                return _end_of_line(text, position)
            found.append(((*where, *keys), line))
            position = _skip_space(text, _value(text, after + 1, (*where, *keys), found))
            if position < len(text) and text[position] == ",":
                position = _skip_space(text, position + 1)
        return position + 1
    for quote in ('"""', "'''", '"', "'"):
        if text.startswith(quote, position):
            return _string_end(text, position + len(quote), quote)
    match = re.compile(r"[^,\]\}\s#]+(?: [0-9][^,\]\}\s#]*)?").match(text, position)
    return match.end() if match else position + 1


def _string_end(text: str, position: int, quote: str) -> int:
    while position < len(text):
        if text.startswith(quote, position):
            position += len(quote)
            # Up to two more quotation marks belong to a multi-line string that ends with them.
            while len(quote) == 3 and text.startswith(quote[0], position):
                position += 1
            return position
        position += 2 if text[position] == "\\" and quote[0] == '"' else 1
    return position


def _skip_space(text: str, position: int) -> int:
    while position < len(text):
        if text[position] in " \t\r\n":
            position += 1
        elif text[position] == "#":
            position = _end_of_line(text, position)
        else:
            break
    return position


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1
