"""The `edit` tool's ways of finding the text to replace, in the order that OpenCode 1.18 tries them.

Each strategy yields candidates: pieces of the file that `old` may have meant. A candidate that occurs exactly once is
replaced (with `replace_all`, the first candidate found, everywhere). Pure functions over strings. Known traps of the
original are kept, since models trained on it meet them: a whole line may match after blanks are normalised, and then
its indentation is replaced too; block anchors may match a block that is only similar. Two are not kept: an empty
candidate never matches inside a text, and `$` in the new text has no special meaning. (Its ninth and last strategy, the
literal text again, can't succeed where the first did not, and is left out.)

Every strategy is linear in the file's length but for blocks that really look alike, so that a file of a million lines
takes seconds.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

#: What JavaScript's trim() and \s take for white space; Python's own idea differs.
_BLANKS = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f"
    "\u3000\ufeff"
)
_BLANK_RUN = re.compile("[" + _BLANKS + "]+")
_ESCAPE = re.compile(r"\\([ntr'\"`\\$\n])")
_UNESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_SIMILAR = 0.65


class EditError(Exception):
    """The text can't be replaced. `reason` is `missing`, `ambiguous`, `span`, `same` or `empty`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Replaced(NamedTuple):
    text: str
    strategy: str
    places: int


def replace(text: str, old: str, new: str, replace_all: bool = False, exact: bool = False) -> Replaced:
    """Replaces `old` by `new`. Raises `EditError`.

    Args:
        exact: Only the literal text counts; no other strategy is tried.
    """
    if old == new:
        raise EditError("same", "oldString and newString are the same, so there is nothing to change.")
    if old == "":
        raise EditError("empty", "oldString is empty; give the exact text to replace.")
    found = False
    seen = set()
    for name, strategy in STRATEGIES[:1] if exact else STRATEGIES:
        for candidate in strategy(text, old):
            first = -1 if candidate in seen else text.find(candidate)
            seen.add(candidate)
            if first < 0:
                continue
            found = True
            if candidate == "" and text != "":
                continue
            if _too_much(candidate, old):
                raise EditError(
                    "span",
                    "Not replaced: the text that was found is much larger than oldString. Read the file again and give "
                    "the whole exact text to replace.",
                )
            if replace_all and candidate:
                return Replaced(text.replace(candidate, new), name, text.count(candidate))
            if first == text.rfind(candidate):
                return Replaced(text[:first] + new + text[first + len(candidate) :], name, 1)
    if found:
        raise EditError(
            "ambiguous",
            "oldString fits more than one place in the file. Add surrounding lines until it is unique, or set "
            "replaceAll to change every place.",
        )
    raise EditError(
        "missing",
        "oldString was not found in the file. It must be the file's text exactly, blanks, indentation and line breaks "
        "included, without the line numbers that read shows.",
    )


def _too_much(candidate: str, old: str) -> bool:
    lines = old.count("\n") + 1
    if candidate.count("\n") + 1 >= max(lines + 3, lines * 2):
        return True
    if lines == 1:
        return False
    size = len(old.strip(_BLANKS))
    return len(candidate.strip(_BLANKS)) > max(size + 500, size * 4)


def _trim(text: str) -> str:
    return text.strip(_BLANKS)


def _searched_lines(old: str) -> list[str]:
    """The searched text's lines, without the empty one that a line break at its end opens."""
    lines = old.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _block(lines: Sequence[str], start: int, count: int) -> str:
    return "\n".join(lines[start : start + count])


def exact_text(text: str, old: str) -> Iterator[str]:
    """The text itself."""
    yield old


def trimmed_lines(text: str, old: str) -> Iterator[str]:
    """Blocks whose lines are equal once each is trimmed. A line break at the end of `old` is not part of the block."""
    lines = text.split("\n")
    trimmed = [_trim(line) for line in lines]
    wanted = [_trim(line) for line in _searched_lines(old)]
    count = len(wanted)
    for start in range(len(lines) - count + 1):
        if trimmed[start] == wanted[0] and trimmed[start : start + count] == wanted:
            yield _block(lines, start, count)


def block_anchors(text: str, old: str) -> Iterator[str]:
    """The block between the first and the last line of `old` whose inner lines are most alike, if alike enough."""
    if old.count("\n") < 2:
        return
    wanted = [_trim(line) for line in _searched_lines(old)]
    size = len(wanted)
    lines = text.split("\n")
    trimmed = [_trim(line) for line in lines]
    room = max(1, size // 4)
    blocks = [(start, end) for start, end in _anchored(trimmed, wanted) if abs(end - start + 1 - size) <= room]
    if not blocks:
        return
    scored = [(_likeness(trimmed, start, end, wanted), start, end) for start, end in blocks]
    best, start, end = max(scored, key=lambda item: item[0])  # the first of equals
    if best >= _SIMILAR:
        yield _block(lines, start, end - start + 1)


def _anchored(trimmed: Sequence[str], wanted: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Pairs of a line equal to the first wanted one and the next line, two or more further, equal to the last."""
    ends = [index for index, line in enumerate(trimmed) if line == wanted[-1]]
    for start, line in enumerate(trimmed):
        if line == wanted[0]:
            position = bisect_left(ends, start + 2)
            if position < len(ends):
                yield start, ends[position]


def _likeness(trimmed: Sequence[str], start: int, end: int, wanted: Sequence[str]) -> float:
    inner = min(len(wanted), end - start + 1) - 2
    if inner <= 0:
        return 1.0
    total = 0.0
    for index in range(1, inner + 1):
        one, other = trimmed[start + index], wanted[index]
        longest = max(len(one), len(other))
        if longest:
            total += 1 - _distance(one, other) / longest
    return total / inner


def _distance(one: str, other: str) -> int:
    """Levenshtein's distance; what both have in common at their ends costs nothing."""
    low = 0
    while low < len(one) and low < len(other) and one[low] == other[low]:
        low += 1
    one, other = one[low:], other[low:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]


def normalised_blanks(text: str, old: str) -> Iterator[str]:
    """Lines, parts of lines and blocks that are equal once every run of blanks is one blank."""
    wanted = _trim(_BLANK_RUN.sub(" ", old))
    words = [re.escape(word) for word in _BLANK_RUN.split(_trim(old))]
    in_line = re.compile(("[" + _BLANKS + "]+").join(words))
    lines = text.split("\n")
    normal = [_trim(_BLANK_RUN.sub(" ", line)) for line in lines]
    for index, line in enumerate(lines):
        plain = normal[index]
        if plain == wanted:
            yield line
        elif wanted in plain:
            match = in_line.search(line)
            if match:
                yield match.group()
    count = old.count("\n") + 1
    if count == 1:
        return
    # The length of a block's normal form, from running sums: most blocks are ruled out without being joined.
    lengths, filled = [0], [0]
    for plain in normal:
        lengths.append(lengths[-1] + len(plain))
        filled.append(filled[-1] + bool(plain))
    for start in range(len(lines) - count + 1):
        parts = filled[start + count] - filled[start]
        length = lengths[start + count] - lengths[start] + max(0, parts - 1)
        if length == len(wanted) and " ".join(filter(None, normal[start : start + count])) == wanted:
            yield _block(lines, start, count)


def _without_common_indent(block: str) -> str:
    lines = block.split("\n")
    indents = [len(line) - len(line.lstrip(_BLANKS)) for line in lines if _trim(line)]
    if not indents:
        return block
    common = min(indents)
    return "\n".join(line[common:] if _trim(line) else line for line in lines)


def flexible_indent(text: str, old: str) -> Iterator[str]:
    """Blocks that are equal once the indentation common to all of their lines is removed."""
    wanted = _without_common_indent(old)
    first = _trim(old.split("\n", 1)[0])
    count = old.count("\n") + 1
    lines = text.split("\n")
    for start in range(len(lines) - count + 1):
        if first == _trim(lines[start]):
            block = _block(lines, start, count)
            if _without_common_indent(block) == wanted:
                yield block


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _UNESCAPED.get(match.group(1), match.group(1)), text)


def unescaped(text: str, old: str) -> Iterator[str]:
    r"""`old` with escapes such as \n and \" resolved, and blocks that are equal once both are resolved."""
    wanted = _unescape(old)
    if wanted in text:
        yield wanted
    count = wanted.count("\n") + 1
    lines = text.split("\n")
    done = 0
    for index, line in enumerate(lines):
        if "\\" not in line:
            continue  # a block without escapes is equal only where the text itself is
        for start in range(max(done, index - count + 1), min(index, len(lines) - count) + 1):
            block = _block(lines, start, count)
            if _unescape(block) == wanted:
                yield block
        done = max(done, index + 1)


def trimmed_text(text: str, old: str) -> Iterator[str]:
    """`old` without the blanks around it, and blocks that are equal to it once trimmed."""
    wanted = _trim(old)
    if wanted == old or wanted not in text:
        return
    yield wanted
    count = old.count("\n") + 1
    lines = text.split("\n")
    for start in range(len(lines) - count + 1):
        if wanted.startswith(_trim(lines[start])):
            block = _block(lines, start, count)
            if _trim(block) == wanted:
                yield block


def similar_context(text: str, old: str) -> Iterator[str]:
    """Blocks of the same length with equal first and last lines, at least half of whose inner lines are equal."""
    if old.count("\n") < 2:
        return
    wanted = [_trim(line) for line in _searched_lines(old)]
    lines = text.split("\n")
    trimmed = [_trim(line) for line in lines]
    for start, end in _anchored(trimmed, wanted):
        if end - start + 1 != len(wanted):
            continue
        pairs = [(trimmed[start + i], wanted[i]) for i in range(1, len(wanted) - 1)]
        filled = [pair for pair in pairs if pair[0] or pair[1]]
        if not filled or sum(a == b for a, b in filled) / len(filled) >= 0.5:
            yield _block(lines, start, len(wanted))


STRATEGIES: tuple[tuple[str, Callable[[str, str], Iterator[str]]], ...] = (
    ("exact", exact_text),
    ("lines trimmed", trimmed_lines),
    ("block between its first and last line", block_anchors),
    ("blanks normalised", normalised_blanks),
    ("indentation ignored", flexible_indent),
    ("escapes resolved", unescaped),
    ("blanks around it removed", trimmed_text),
    ("block with similar context", similar_context),
)
