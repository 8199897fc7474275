"""Formulas as people write them, as files hold them, and what becomes of them when sheets and columns change.

A file spells newer functions with prefixes (`_xlfn.XLOOKUP`), a table's own row as `[#This Row]`, and formulas that
yield arrays as array formulas; without that, Excel shows `#NAME?` or computes something else. Text constants and quoted
names are never touched. Used by the operations and the readers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.sheets.functions import ARRAYS, NEWER, WORKSHEET

__all__ = [
    "for_file",
    "needs_array",
    "quoted",
    "renamed_column",
    "renamed_own_column",
    "renamed_sheet",
    "shown",
    "uses_sheet",
    "without_sheet",
]

_PREFIX = re.compile(r"_xlfn\.(?:_xlws\.)?|_xlws\.|_xlpm\.|_xludf\.", re.IGNORECASE)
#: What must be left alone: text constants and quoted sheet names.
_QUOTED = re.compile(r'"(?:[^"]|"")*"|\'(?:[^\']|\'\')*\'')
_CALL = re.compile(r"(?<![\w.])([A-Za-z][A-Za-z0-9.]*)\(")
_THIS_ROW = re.compile(
    r"([A-Za-z_\\][\w.\\]*)?\[@(?:\[((?:[^\[\]']|'.)*)\](?::\[((?:[^\[\]']|'.)*)\])?|((?:[^\[\]']|'.)*))\]"
)
_OWN_ROW = re.compile(r"(?<![\w.\]])\[\[#This Row\],\[?((?:[^\[\]']|'.)*)\]?\]", re.IGNORECASE)
_ROW_SHOWN = re.compile(r"\[\[#This Row\],\[((?:[^\[\]']|'.)*)\](?::\[((?:[^\[\]']|'.)*)\])?\]", re.IGNORECASE)
_SPILLED = re.compile(r"(?<![\w.$#])((?:'(?:[^']|'')+'!|[^\W\d][\w.]*!)?\$?[A-Za-z]{1,3}\$?[0-9]{1,7})#")
_RANGE = r"\$?[A-Za-z]{1,3}\$?[0-9]{1,7}:\$?[A-Za-z]{1,3}\$?[0-9]{1,7}|\$?[A-Za-z]{1,3}:\$?[A-Za-z]{1,3}"
_OPERATED = re.compile(rf"(?:{_RANGE})\s*[-+*/^&=<>]|[-+*/^&=<>]\s*(?:'[^']+'!|[\w.]+!)?(?:{_RANGE})|^=?(?:{_RANGE})$")
_TAIL = (
    r"(\#REF!|\$?[A-Za-z]{1,3}\$?[0-9]{1,7}(?::\$?[A-Za-z]{1,3}\$?[0-9]{1,7})?(?![\w.(])|"
    r"\$?[A-Za-z]{1,3}:\$?[A-Za-z]{1,3}(?![\w.(])|\$?[0-9]{1,7}:\$?[0-9]{1,7}|[\w.\\]+)?"
)
#: A text constant, a sheet's prefix with what follows it, or brackets (of a table).
_SHEET = re.compile(
    r'"(?:[^"]|"")*"|(?P<prefix>\'(?P<quoted>(?:[^\']|\'\')+)\'!|(?<![\w.#\]\'])(?P<bare>[^\W\d][\w.]*(?::[^\W\d][\w.]*)?)!)'
    r"(?P<tail>" + _TAIL + r")|\[(?:[^\[\]]|\[[^\[\]]*\])*\]"
)
_BARE = re.compile(r"[^\W\d][\w.]*$")
_LIKE_REFERENCE = re.compile(r"(?:[A-Za-z]{1,3}[0-9]+|[Rr][0-9]*(?:[Cc][0-9]*)?|[Cc][0-9]*|TRUE|FALSE)$", re.IGNORECASE)
#: Excel's limit.
MAX_FORMULA = 8_192


def _outside(text: str, change: Callable[[str], str]) -> str:
    """Changes a formula outside of its quoted pieces."""
    out, position = [], 0
    for match in _QUOTED.finditer(text):
        out += [change(text[position : match.start()]), match[0]]
        position = match.end()
    return "".join([*out, change(text[position:])])


def quoted(name: str) -> str:
    """A sheet's name as formulas write it."""
    if _BARE.match(name) and not _LIKE_REFERENCE.match(name):
        return name
    return "'" + name.replace("'", "''") + "'"


def for_file(text: str, what: str, table: str | None = None) -> str:
    """A formula as a person writes it, in the file's spelling and without its equals sign.

    Args:
        what: The cell, for messages.
        table: The table that the cell is in, for references to its own row.

    Raises:
        ToolError: It can't be parsed.
    """
    plain = text.strip()
    if plain.startswith("{=") and plain.endswith("}"):
        plain = plain[1:-1]
    body = plain.removeprefix("=").strip()
    if len(body) > MAX_FORMULA:
        raise ToolError(f"{what}: the formula has {len(body)} characters; Excel takes {MAX_FORMULA}")
    body = _outside(_PREFIX.sub("", body), lambda piece: _this_row(piece, what, table))
    body = _SPILLED.sub(lambda m: f"ANCHORARRAY({m[1]})", body)
    body = re.sub(r"(?<![\w\])\[])@(?=[A-Za-z$'(])", "", body)  # what a plain formula does anyhow
    _check(body, text, what)
    names = _variables(body)

    def prefixed(piece: str) -> str:
        def call(match: re.Match[str]) -> str:
            upper = match[1].upper()
            if upper in names:
                return match[0]
            if upper in WORKSHEET:
                return f"_xlfn._xlws.{upper}("
            return f"_xlfn.{upper}(" if upper in NEWER else f"{match[1]}("

        piece = _CALL.sub(call, piece)
        for name in names:
            whole = rf"(?<![\w.!\[$]){re.escape(name)}(?![\w.!\[])"
            piece = re.sub(whole, lambda m: f"_xlpm.{m[0]}", piece, flags=re.IGNORECASE)
        return piece

    return _outside(body, prefixed)


def _this_row(piece: str, what: str, table: str | None) -> str:
    def replace(match: re.Match[str]) -> str:
        name = match[1] or table
        if not name:
            raise ToolError(f"{what}: [@...] means the row of a table, and the cell is in none; name cells instead")
        first = match[2] if match[2] is not None else match[4]
        if not first:
            return f"{name}[#This Row]"
        last = f":[{match[3]}]" if match[3] else ""
        return f"{name}[[#This Row],[{first}]{last}]"

    return _THIS_ROW.sub(replace, piece)


@lru_cache(maxsize=4096)
def _parse_error(body: str) -> str:
    try:
        import formualizer
    except ImportError:
        return ""
    try:
        formualizer.parse("=" + re.sub(r"#REF!(?=\$?[A-Za-z]+\$?[0-9])", "", body))
    except formualizer.ParserError as error:
        return str(error)
    except formualizer.TokenizerError as error:
        return str(error)
    return ""


def _check(body: str, text: str, what: str) -> None:
    problem = _parse_error(body)
    if not problem:
        return
    hint = ""
    bare = _QUOTED.sub("", body)
    if ";" in re.sub(r"\{[^}]*\}", "", bare):
        hint = " Arguments are separated by commas, not semicolons."
    elif bare.count("(") != bare.count(")"):
        hint = f" It has {bare.count('(')} opening and {bare.count(')')} closing parentheses."
    elif " " in bare and re.search(r"[A-Za-z] [A-Za-z][\w ]*!", bare):
        hint = " A sheet's name with spaces is put into single quotes: 'My Sheet'!A1."
    shown_problem = re.sub(r"ParserError at |TokenizerError at |TokenSpan \{[^}]*\}", "", problem).strip()[:160]
    raise ToolError(
        f"{what}: {text[:200]!r} is no formula that can be parsed ({shown_problem}).{hint} "
        "To store text that begins with =, put an apostrophe before it: '=..."
    )


def _variables(body: str) -> list[str]:
    """The names that LET and LAMBDA make, upper case, the longest first."""
    upper = _QUOTED.sub('""', body)
    if not re.search(r"(?<![\w.])(?:LET|LAMBDA)\(", upper, re.IGNORECASE):
        return []
    names: set[str] = set()
    for match in re.finditer(r"(?<![\w.])(LET|LAMBDA)\(", upper, re.IGNORECASE):
        arguments = _arguments(upper, match.end())
        if match[1].upper() == "LET":
            found = arguments[0:-1:2]
        else:
            found = arguments[:-1]
        names |= {a.strip().upper() for a in found if re.fullmatch(r"\s*[A-Za-z_]\w*\s*", a)}
    return sorted(names, key=len, reverse=True)


def _arguments(text: str, start: int) -> list[str]:
    out: list[str] = []
    depth, begin = 0, start
    for index in range(start, len(text)):
        char = text[index]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                return [*out, text[begin:index]]
            depth -= 1
        elif char == "," and depth == 0:
            out.append(text[begin:index])
            begin = index + 1
    return [*out, text[begin:]]


def needs_array(body: str) -> bool:
    """Whether a formula (in the file's spelling) computes with whole ranges, so that Excel must know it as an array."""
    bare = _QUOTED.sub("", _PREFIX.sub("", body))
    calls = {name.upper() for name in _CALL.findall(bare)}
    if calls & ARRAYS:
        return True
    return "SUMPRODUCT" not in calls and bool(_OPERATED.search(bare))


def _own_row(match: re.Match[str]) -> str:
    if match[2]:
        return f"[@[{match[1]}]:[{match[2]}]]"
    return f"[@[{match[1]}]]" if re.search(r"\W", match[1]) else f"[@{match[1]}]"


def shown(formula: str) -> str:
    """A formula of a file as Excel shows it."""
    if "_x" in formula or "#This Row" in formula:
        formula = _outside(formula, lambda piece: _PREFIX.sub("", piece))
        formula = _ROW_SHOWN.sub(_own_row, formula)
        formula = _OWN_ROW.sub(lambda m: f"[@[{m[1]}]]" if re.search(r"\W", m[1]) else f"[@{m[1]}]", formula)
        formula = re.sub(r"(?<![\w.])ANCHORARRAY\(([^()]*)\)", r"\1#", formula)
        formula = re.sub(r"(?<![\w.])SINGLE\(([^()]*)\)", r"@\1", formula)
    return formula


def _over_sheets(formula: str, change: Callable[[list[str], str, str], str | None]) -> str:
    """Rewrites references that name a sheet. `change` gets the names (two for a span), the text before and behind the
    exclamation mark, and returns what stands instead, None for no change."""
    if "!" not in formula:
        return formula

    def replace(match: re.Match[str]) -> str:
        if match["prefix"] is None:
            return match[0]
        inner = match["bare"] if match["quoted"] is None else match["quoted"].replace("''", "'")
        if "[" in inner:
            return match[0]  # another file's sheet
        new = change(inner.split(":"), match["prefix"], match["tail"] or "")
        return match[0] if new is None else new

    return _SHEET.sub(replace, formula)


def uses_sheet(formula: str, name: str) -> bool:
    """Whether a formula refers to a sheet by name."""
    found = False

    def look(names: list[str], prefix: str, tail: str) -> None:
        nonlocal found
        found = found or any(n.casefold() == name.casefold() for n in names)

    _over_sheets(formula, look)
    return found


def renamed_sheet(formula: str, old: str, new: str) -> str:
    """A formula after a sheet was renamed."""

    def change(names: list[str], prefix: str, tail: str) -> str | None:
        if not any(name.casefold() == old.casefold() for name in names):
            return None
        names = [new if name.casefold() == old.casefold() else name for name in names]
        if len(names) == 1:
            return f"{quoted(names[0])}!{tail}"
        joined = ":".join(names)
        plain = all(quoted(name) == name for name in names)
        return (joined if plain else "'" + joined.replace("'", "''") + "'") + "!" + tail

    return _over_sheets(formula, change)


def without_sheet(formula: str, gone: str, order: Sequence[str]) -> str:
    """A formula after a sheet was deleted: references to it become `#REF!`, spans over it end beside it.

    Args:
        order: All sheets, the one that goes included.
    """
    folded = [name.casefold() for name in order]

    def change(names: list[str], prefix: str, tail: str) -> str | None:
        if not any(name.casefold() == gone.casefold() for name in names):
            return None
        if len(names) == 1:
            return "#REF!"
        places = sorted(folded.index(name.casefold()) for name in names if name.casefold() in folded)
        left = [order[i] for i in range(places[0], places[-1] + 1) if folded[i] != gone.casefold()]
        if not left:
            return "#REF!"
        ends = left[0] if len(left) == 1 else f"{left[0]}:{left[-1]}"
        plain = all(quoted(name) == name for name in (left[0], left[-1]))
        return (ends if plain else "'" + ends.replace("'", "''") + "'") + "!" + tail

    return _over_sheets(formula, change)


def renamed_column(formula: str, table: str, old: str, new: str) -> str:
    """A formula after a table's column was renamed."""
    if table.casefold() not in formula.casefold():
        return formula
    pattern = re.compile(rf"(?<![\w.]){re.escape(table)}\[((?:[^\[\]]|\[[^\[\]]*\])*)\]", re.IGNORECASE)
    escaped = re.sub(r"(['#@\[\]])", r"'\1", new)

    def replace(match: re.Match[str]) -> str:
        inner = match[1]
        if "[" not in inner:
            inner = escaped if inner.casefold() == old.casefold() else inner
        else:
            inner = re.sub(rf"\[{re.escape(old)}\]", lambda _: f"[{escaped}]", inner, flags=re.IGNORECASE)
        return match[0][: match.start(1) - match.start()] + inner + "]"

    return _outside(formula, lambda piece: pattern.sub(replace, piece))


def renamed_own_column(formula: str, old: str, new: str) -> str:
    """A formula within a table, after a column was renamed: references to its own row that leave the table's name
    out."""
    escaped = re.sub(r"(['#@\[\]])", r"'\1", new)
    return _OWN_ROW.sub(lambda m: f"[[#This Row],[{escaped}]]" if m[1].casefold() == old.casefold() else m[0], formula)
