"""Glob patterns and ignore files, as ripgrep reads them.

A pattern is a line of a .gitignore: without a slash it fits at any depth, with one it is anchored; `*` and `?` stop at
a slash, `**` between slashes crosses them; `{a,b}` are alternatives, `[a-z]` and `[!a-z]` classes, a backslash quotes.
`Rules` is one ignore file or one list of such lines; the last line that fits decides. Pure; used by `walking`.

Known difference: ripgrep's `?` and classes fit one *byte* of a name, here one character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import Pattern
from typing import NamedTuple

__all__ = ["GlobError", "Rule", "Rules", "parse_rule", "translate"]

# A regex piece stands for each token; these four are looked at again while parsing.
_PREFIX = "(?:/?|.*/)"
_SUFFIX = "/.*"
_BETWEEN = "(?:/|/.*/)"
_SLASH = "/"
_STAR = "[^/]*"


class GlobError(ValueError):
    """The pattern is malformed; the message says how."""


def translate(glob: str) -> Pattern[str]:
    """Compiles a glob for whole paths with `/` between names. Raises `GlobError`."""
    parser = _Parser(glob)
    tokens = parser.parse()
    body = ".*" if tokens == [_PREFIX] else "".join(tokens)
    return re.compile(body + r"\Z", re.DOTALL)


class _Parser:
    def __init__(self, glob: str) -> None:
        self._glob = glob
        self._at = 0
        #: The alternatives being read: each level is a list of branches, each branch a list of tokens.
        self._levels: list[list[list[str]]] = [[[]]]

    @property
    def _branch(self) -> list[str]:
        return self._levels[-1][-1]

    def _peek(self) -> str:
        return self._glob[self._at : self._at + 1]

    def parse(self) -> list[str]:
        while self._at < len(self._glob):
            before = self._glob[self._at - 1] if self._at else ""
            char = self._glob[self._at]
            self._at += 1
            if char == "?":
                self._branch.append("[^/]")
            elif char == "*":
                self._star(before)
            elif char == "[":
                self._branch.append(self._class())
            elif char == "{":
                self._levels.append([[]])
            elif char == "}":
                if len(self._levels) < 2:
                    raise GlobError("there is a '}' without its '{'; write \\} for the character itself")
                branches = ["".join(tokens) for tokens in self._levels.pop()]
                self._branch.append("(?:{})".format("|".join(filter(None, branches))))  # empty ones count for nothing
            elif char == "," and len(self._levels) > 1:
                self._levels[-1].append([])
            elif char == "\\":
                if self._at >= len(self._glob):
                    raise GlobError("it ends in a backslash")
                self._branch.append(re.escape(self._glob[self._at]))
                self._at += 1
            else:
                self._branch.append(_SLASH if char == "/" else re.escape(char))
        if len(self._levels) > 1:
            raise GlobError("there is a '{' without its '}'; write \\{ for the character itself")
        return self._branch

    def _star(self, before: str) -> None:
        if self._peek() != "*":
            self._branch.append(_STAR)
            return
        self._at += 1
        after = self._peek()
        nested = len(self._levels) > 1
        if not self._branch:
            if after not in ("", "/"):
                self._branch.append(_STAR)
                return
            self._branch.append(_PREFIX)
            self._at += 1
            return
        if before != "/" and not (nested and before in (",", "{")):
            self._branch.append(_STAR)
            return
        if after == "" or (nested and after in (",", "}")):
            ends = True
        elif after == "/":
            self._at += 1
            ends = False
        else:
            self._branch.append(_STAR)
            return
        last = self._branch.pop()  # the slash before, or a `**/` that takes this one in
        if last in (_PREFIX, _SUFFIX):
            self._branch.append(last)
        else:
            self._branch.append(_SUFFIX if ends else _BETWEEN)

    def _class(self) -> str:
        negated = self._peek() in ("!", "^")
        self._at += negated
        ranges: list[list[str]] = []
        first, in_range = True, False
        while True:
            char = self._peek()
            if not char:
                raise GlobError("there is a '[' without its ']'; write \\[ for the character itself")
            self._at += 1
            if char == "]" and not first:
                break
            if char == "-" and not first and not in_range:
                in_range = True
            elif in_range:
                if ranges[-1][0] > char:
                    raise GlobError(f"the range {ranges[-1][0]}-{char} is the wrong way round")
                ranges[-1][1] = char
                in_range = False
            else:
                ranges.append([char, char])
            first = False
        if in_range:
            ranges.append(["-", "-"])
        inside = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in ranges)
        return "[{}{}]".format("^" if negated else "", inside)


class Rule(NamedTuple):
    """One line: what it fits, whether it un-ignores (`!`), whether it is for folders only (trailing `/`)."""

    pattern: Pattern[str]
    negated: bool
    folders_only: bool


def parse_rule(line: str) -> Rule | None:
    """Reads a line; None for an empty one or a comment. Raises `GlobError`."""
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    if not line:
        return None
    negated = anchored = folders_only = False
    if line.startswith(("\\!", "\\#")):
        line = line[1:]
    else:
        if line.startswith("!"):
            negated, line = True, line[1:]
        if line.startswith("/"):
            anchored, line = True, line[1:]
    if line.endswith("/"):
        folders_only, line = True, line[:-1]
        if line.endswith("\\"):
            line = line[:-1]
    if not anchored and "/" not in line and not (line.startswith("**/") or line == "**"):
        line = "**/" + line
    if line.endswith("/**"):
        line += "/*"  # everything inside, not the folder itself
    return Rule(translate(line), negated, folders_only)


class Rules:
    """Lines in order. Malformed ones are left out, as ripgrep does."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules: list[Rule] = []
        for line in lines:
            try:
                rule = parse_rule(line)
            except (GlobError, re.error):
                continue
            if rule:
                self._rules.append(rule)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def decide(self, path: str, is_folder: bool) -> bool | None:
        """True: ignored. False: explicitly not. None: no line fits. `path` is relative to the rules' folder."""
        for rule in reversed(self._rules):
            if (is_folder or not rule.folders_only) and rule.pattern.match(path):
                return not rule.negated
        return None
