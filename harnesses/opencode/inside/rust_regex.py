"""Regular expressions in the syntax that ripgrep takes (Rust's `regex` crate), translated for Python's `re`.

What `translate` returns never matches across a line break, so that a whole file can be searched at once and still give
the lines that ripgrep gives. What Rust refuses (look-around, back references, unknown escapes, a `{` that is no count)
is refused here too, with a message that says what to write instead.

Known differences: Python backtracks, so a pattern such as `(a+)+$` can take for ever on the wrong text (the call's
deadline ends it); `\\w`, `\\d` and `\\s` differ in some rare characters; Unicode scripts are known by character names.
"""

from __future__ import annotations

import re
from re import Pattern
from typing import NamedTuple

from .unicode_classes import members

__all__ = ["LineBreakError", "RegexError", "translate"]

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x09\\x0b-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x09\\x0b-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_HEX = {"x": 2, "u": 4, "U": 8}
_WORD_EDGES = {
    "start": r"(?:(?<!\w)(?=\w))",
    "end": r"(?:(?<=\w)(?!\w))",
    "start-half": r"(?<!\w)",
    "end-half": r"(?!\w)",
}
_EMPTY = r"(?:(?!))"
_LEADING_FLAGS = re.compile(r"\(\?[a-zA-Z-]+\)")
_MAX_COUNT = 1000
_MAX_DEPTH = 100


class RegexError(ValueError):
    """The expression is malformed or beyond what the syntax allows; the message says what and where."""


class LineBreakError(RegexError):
    """The expression asks for a line break, which no single line holds."""


def translate(pattern: str) -> Pattern[str]:
    """Compiles an expression. Raises `RegexError`."""
    translator = _Translator(pattern)
    source = translator.whole()
    try:
        return re.compile(source, re.MULTILINE | translator.compile_flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise RegexError(f"this expression can't be searched for: {error}") from error


class _Flags(NamedTuple):
    ignore_case: bool = False
    ascii_only: bool = False
    verbose: bool = False


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._flags = _Flags()
        self._names: set[str] = set()
        self.compile_flags = 0

    def whole(self) -> str:
        # Flags at the very start hold for all of it: Python's own are faster than a group around each piece.
        while _LEADING_FLAGS.match(self._text, self._at):
            self._at += 2
            self._read_flags()
        if self._flags.ignore_case and not self._has_later_flags():
            self._flags = self._flags._replace(ignore_case=False)
            self.compile_flags = re.IGNORECASE
        out = self._alternatives()
        if self._at < len(self._text):
            raise self._fail("there is a ')' without its '('; write \\) for the character itself")
        return out

    def _has_later_flags(self) -> bool:
        return re.search(r"\(\?[a-zA-Z]*-[a-zA-Z]*i", self._text[self._at :]) is not None

    def _fail(self, what: str) -> RegexError:
        return RegexError(f"{what} (near character {min(self._at + 1, len(self._text))} of {self._text})")

    def _peek(self, count: int = 1) -> str:
        return self._text[self._at : self._at + count]

    def _take(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._fail("the expression ends too early")
        self._at += 1
        return self._text[self._at - 1]

    # --- structure ---

    def _alternatives(self) -> str:
        """Everything up to the end, or to the parenthesis that closes this level."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._fail("groups are nested too deeply")
        out: list[str] = []
        while self._at < len(self._text) and self._peek() != ")":
            if self._flags.verbose and self._skip_blanks():
                continue
            if self._take("|"):
                out.append("|")
                continue
            piece = self._piece()
            if piece:
                out.append(self._repeated(piece))
        self._depth -= 1
        return "".join(out)

    def _skip_blanks(self) -> bool:
        start = self._at
        while self._peek().isspace():
            self._at += 1
        if self._peek() == "#":
            end = self._text.find("\n", self._at)
            if end < 0:
                raise self._fail("a comment needs a line break at its end")
            self._at = end + 1
        return self._at > start

    def _piece(self) -> str:
        """One thing that a repetition can follow; empty for flags, which hold from there on."""
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return self._flagged(self._class())
        if char == ".":
            return r"[^\n]"
        if char in "^$":
            return char
        if char == "\\":
            return self._escape()
        if char in "*+?":
            raise self._fail(f"{char!r} has nothing to repeat; write \\{char} for the character itself")
        if char == "{":
            raise self._fail("'{' has nothing to repeat; write \\{ for the character itself")
        if char == "\n":
            raise LineBreakError("a line break can't be searched for; search for one line's text")
        return self._flagged(re.escape(char))

    def _flagged(self, piece: str) -> str:
        flags = ("i" if self._flags.ignore_case else "") + ("a" if self._flags.ascii_only else "")
        return f"(?{flags}:{piece})" if flags else piece

    def _group(self) -> str:
        if self._take("?"):
            for sign in ("=", "!", "<=", "<!"):
                if self._take(sign):
                    raise self._fail("look-around is not supported; search for the text itself, or use grep -P in bash")
            if self._take("P<") or self._take("<"):
                end = self._text.find(">", self._at)
                if end < 0 or not re.match(r"[A-Za-z_][\w.\[\]]*\Z", self._text[self._at : end]):
                    raise self._fail("a group's name is missing or malformed")
                name = self._text[self._at : end]
                if name in self._names:
                    raise self._fail(f"there are two groups named {name}")
                self._names.add(name)
                self._at = end + 1
            else:
                outer = self._flags
                if self._read_flags() == ")":
                    return ""
                return self._inner(outer)
        return self._inner(self._flags)

    def _inner(self, outer: _Flags) -> str:
        inner = self._alternatives()
        if not self._take(")"):
            raise self._fail("there is a '(' without its ')'; write \\( for the character itself")
        self._flags = outer
        return f"(?:{inner})"

    def _read_flags(self) -> str:
        """Reads flags up to ':' or ')', sets them, and returns which of the two it was."""
        value = True
        while True:
            char = self._next()
            if char in ":)":
                return char
            if char == "-":
                value = False
            elif char == "i":
                self._flags = self._flags._replace(ignore_case=value)
            elif char == "u":
                self._flags = self._flags._replace(ascii_only=not value)
            elif char == "x":
                self._flags = self._flags._replace(verbose=value)
            elif char not in "smRU":  # these change nothing where only whether a line fits matters
                raise self._fail(f"unknown flag {char!r}; the flags are i, m, s, x, U, u and R")

    def _repeated(self, piece: str) -> str:
        """The piece with the repetitions that follow it. Lazy ones are as greedy: only whether a line fits matters."""
        bare, simple = piece, ""
        while True:
            if self._flags.verbose:
                self._skip_blanks()
            char = self._peek()
            if char and char in "*+?":
                self._at += 1
                self._take("?")
                # `a++` repeats a repetition, as in Rust; as one repetition it can't run wild.
                simple = char if not simple or simple == char else "*"
                piece = f"(?:{bare}){simple}"
            elif char == "{":
                count = self._count()
                self._take("?")
                bare, simple = f"(?:{piece}){count}", ""
                piece = bare
            else:
                return piece

    def _count(self) -> str:
        match = re.compile(r"\{\s*(\d*)\s*(,?)\s*(\d*)\s*\}").match(self._text, self._at)
        if not match or not match.group(1):
            raise self._fail("'{' begins a count like {3} or {2,5}; write \\{ for the character itself")
        low, comma, high = match.groups()
        if comma and high and int(low) > int(high):
            raise self._fail(f"the count {match.group()} is the wrong way round")
        if max(int(low), int(high or 0)) > _MAX_COUNT:
            raise self._fail(f"the count {match.group()} is too large; at most {_MAX_COUNT}")
        self._at = match.end()
        return f"{{{low}{comma}{high}}}"

    # --- escapes ---

    def _escape(self) -> str:
        char = self._next()
        if char == "b" and re.match(r"\{[a-zA-Z-]", self._peek(2)):
            for name, source in _WORD_EDGES.items():
                if self._take(f"{{{name}}}"):
                    return self._flagged(source)
            raise self._fail("after \\b{ comes start}, end}, start-half} or end-half}")
        if char in "bB":
            return self._flagged("\\" + char)
        if char in "<>":
            return self._flagged(_WORD_EDGES["start" if char == "<" else "end"])
        if char == "A":
            return "^"
        if char == "z":
            return "$"
        if char in "dDsSwWpP":
            return self._flagged(_matcher(*self._perl(char)))
        literal = self._literal(char)
        if literal == "\n":
            raise LineBreakError("a line break can't be searched for; search for one line's text")
        return self._flagged(re.escape(literal))

    def _literal(self, char: str) -> str:
        """The character that an escape stands for."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in _HEX:
            return self._code_point(char)
        if char.isdigit():
            raise self._fail("back references are not supported")
        if char.isalpha() or ord(char) > 127:
            raise self._fail(f"unknown escape \\{char}")
        return char

    def _code_point(self, kind: str) -> str:
        if self._take("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : end] if end >= 0 else ""
            self._at = end + 1 if end >= 0 else self._at
        else:
            digits = self._peek(_HEX[kind])
            self._at += len(digits)
            digits = digits if len(digits) == _HEX[kind] else ""
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError):
            raise self._fail(f"\\{kind} needs a character's number in hexadecimal digits") from None

    def _perl(self, char: str) -> tuple[str, list[str]]:
        """A class such as \\d: what goes into brackets, and matchers that don't."""
        if char in "dw":
            return "\\" + char, []
        if char == "s":
            return "\\t\\v\\f\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000", []
        if char == "S":
            return "\\S\\x1c-\\x1f", []
        if char in "DW":
            return "", [f"[^\\{char.lower()}\\n]"]
        name, negated = self._property_name(), char == "P"
        if name.startswith("^"):
            name, negated = name[1:], not negated
        inside = members(name)
        if inside is None:
            raise self._fail(f"the class \\p{{{name}}} is not known here")
        return ("", [f"[^{inside}\\n]"]) if negated else (inside, [])

    def _property_name(self) -> str:
        if not self._take("{"):
            return self._next()
        end = self._text.find("}", self._at)
        if end < 0:
            raise self._fail("\\p{ needs a '}'")
        name = self._text[self._at : end]
        self._at = end + 1
        return name

    # --- classes ---

    def _class(self) -> str:
        """A bracketed class, its '[' already read, as an expression that takes exactly one character."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._fail("classes are nested too deeply")
        negated = self._take("^")
        left: str | None = None
        operator = ""
        inside = ""
        others: list[str] = []
        first = True
        while True:
            if self._flags.verbose:
                self._skip_blanks()
            if self._at >= len(self._text):
                raise self._fail("there is a '[' without its ']'; write \\[ for the character itself")
            if self._peek() == "]" and not first:
                self._at += 1
                break
            if self._peek(2) in ("&&", "--", "~~") and not (first and self._peek(2) == "--"):
                left = _combine(left, operator, _matcher(inside, others))
                operator = self._peek(2)
                self._at += 2
                inside, others = "", []
                first = False
                continue
            more, further = self._class_item(first)
            inside += more
            others += further
            first = False
        self._depth -= 1
        if left is None:
            if negated and not others:
                return f"[^{inside}\\n]" if inside else r"[^\n]"
            matcher = _matcher(inside, others)
        else:
            matcher = _combine(left, operator, _matcher(inside, others))
        return f"(?:(?!{matcher})[^\\n])" if negated else matcher

    def _class_item(self, first: bool) -> tuple[str, list[str]]:
        if self._peek(2) == "[:":
            match = re.compile(r"\[:(\^?)([a-z]+):\]").match(self._text, self._at)
            if match and match.group(2) in _POSIX:
                self._at = match.end()
                inside = _POSIX[match.group(2)]
                return ("", [f"[^{inside}\\n]"]) if match.group(1) else (inside, [])
        char = self._next()
        if char == "[":
            return "", [self._class()]
        if char == "\\":
            char = self._next()
            if char in "dDsSwWpP":
                return self._perl(char)
            low = "\b" if char == "b" else self._literal(char)
        else:
            low = char
        if self._peek() != "-" or self._peek(2) in ("-]", "--"):
            return ("" if low == "\n" else re.escape(low)), []
        if first and low == "-":
            return re.escape(low), []
        self._at += 1
        high = self._next()
        if high == "\\":
            high = self._literal(self._next())
        if high < low:
            raise self._fail(f"the range {low}-{high} is the wrong way round")
        if low <= "\n" <= high:  # a range over the line break is split around it
            parts = [(low, "\t")] if low < "\n" else []
            parts += [("\x0b", high)] if high > "\n" else []
            return "".join(f"{re.escape(a)}-{re.escape(b)}" for a, b in parts), []
        return f"{re.escape(low)}-{re.escape(high)}", []


def _matcher(inside: str, others: list[str]) -> str:
    """An expression that takes one character: of those in brackets, or of a further expression."""
    options = ([f"[{inside}]"] if inside else []) + others
    if not options:
        return _EMPTY
    return options[0] if len(options) == 1 else "(?:{})".format("|".join(options))


def _combine(left: str | None, operator: str, right: str) -> str:
    if left is None:
        return right
    if operator == "&&":
        return f"(?:(?={left}){right})"
    if operator == "--":
        return f"(?:(?!{right}){left})"
    return f"(?:(?!{right}){left}|(?!{left}){right})"
