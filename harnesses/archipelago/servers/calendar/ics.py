"""An ics file as lines that can be edited: what isn't changed is written back byte for byte.

A file is a list of content lines (each with its folded pieces as they stand in the file) and the spans of its VEVENTs.
An edit replaces lines of one event, or removes or adds one; line ends and folding of all others stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from envkit.office.problem import Problem, Unreadable
from envkit.office.table import decode_text

__all__ = ["Component", "IcsFile", "Line", "escaped", "make", "new_file", "unescaped"]

PRODID = "-//Archipelago Calendar Server//EN"


@dataclass(frozen=True, slots=True)
class Line:
    """A content line: its text as it stands in the file (folds and line end included), and what it says."""

    raw: str
    name: str
    parameters: tuple[tuple[str, str], ...]
    value: str

    def parameter(self, name: str) -> str:
        return next((v for n, v in self.parameters if n == name), "")


@dataclass
class Component:
    """A VEVENT: its lines without BEGIN and END. `own` are those of the event itself, without its alarms."""

    lines: list[Line]
    begin: Line
    end: Line

    @property
    def own(self) -> list[Line]:
        depth, out = 0, []
        for line in self.lines:
            depth += line.name == "BEGIN"
            if not depth:
                out.append(line)
            depth -= line.name == "END"
        return out

    @property
    def alarms(self) -> list[list[Line]]:
        """The lines of each VALARM, BEGIN and END included."""
        out: list[list[Line]] = []
        current: list[Line] | None = None
        for line in self.lines:
            if current is None and line.name == "BEGIN" and line.value.strip().upper() == "VALARM":
                current = []
            if current is not None:
                current.append(line)
                if line.name == "END" and line.value.strip().upper() == "VALARM":
                    out.append(current)
                    current = None
        return out

    def first(self, name: str) -> Line | None:
        return next((line for line in self.own if line.name == name), None)

    def all(self, name: str) -> list[Line]:
        return [line for line in self.own if line.name == name]

    def text(self, name: str) -> str:
        line = self.first(name)
        return unescaped(line.value) if line else ""

    def put(self, name: str, new: Sequence[Line], *, before: str = "BEGIN") -> None:
        """Replaces all properties of a name, at the place of the first; without any they go before the alarms."""
        own = {id(line) for line in self.own}
        places = [n for n, line in enumerate(self.lines) if line.name == name and id(line) in own]
        alarm = next((n for n, line in enumerate(self.lines) if line.name == before), len(self.lines))
        at = places[0] if places else alarm
        kept = [line for n, line in enumerate(self.lines) if n not in places]
        self.lines = [*kept[:at], *new, *kept[at:]]

    def put_alarms(self, new: Sequence[Line]) -> None:
        """Replaces all alarms."""
        old = {id(line) for alarm in self.alarms for line in alarm}
        self.lines = [*(line for line in self.lines if id(line) not in old), *new]

    @property
    def source(self) -> str:
        return "".join(line.raw for line in (self.begin, *self.lines, self.end))


@dataclass
class IcsFile:
    """A calendar file: everything in order, lines and events."""

    items: list[Line | Component] = field(default_factory=list)
    newline: str = "\r\n"

    @classmethod
    def parse(cls, data: bytes) -> IcsFile:
        """Raises `Unreadable` for what is no calendar, or is cut off."""
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            data = decode_text(data).encode()
        if not data.strip():
            raise Unreadable(Problem.EMPTY, "it holds nothing")
        text = _text(data)
        if not re.match(r"\ufeff?\s*BEGIN:VCALENDAR\s*[\r\n]", text, re.IGNORECASE):
            raise Unreadable(Problem.NOT_THIS_FORMAT, "it is no calendar: it does not begin with BEGIN:VCALENDAR")
        found = cls(newline="\r\n" if "\r\n" in text else "\n")
        stack: list[str] = []
        event: tuple[Line, list[Line]] | None = None
        for line in _lines(text):
            kind = line.value.strip().upper()
            if line.name == "BEGIN":
                stack.append(kind)
                if event is None and kind == "VEVENT":
                    event = (line, [])
                    continue
            elif line.name == "END":
                if not stack or stack.pop() != kind:
                    raise Unreadable(Problem.CORRUPT, f"END:{kind} closes nothing that is open")
                if event is not None and kind == "VEVENT":
                    found.items.append(Component(event[1], event[0], line))
                    event = None
                    continue
            (event[1] if event is not None else found.items).append(line)
        if stack:
            raise Unreadable(Problem.CORRUPT, f"BEGIN:{stack[-1]} is never closed; the file may be cut off")
        return found

    @property
    def events(self) -> list[Component]:
        return [item for item in self.items if isinstance(item, Component)]

    def header(self, name: str) -> str:
        """A property of the calendar itself."""
        return next((unescaped(i.value) for i in self.items if isinstance(i, Line) and i.name == name), "")

    def zones(self) -> set[str]:
        """The TZIDs that have a VTIMEZONE."""
        return {i.value.strip() for i in self.items if isinstance(i, Line) and i.name == "TZID"}

    def add(self, lines: Iterable[Line | Component], *, first: bool = False) -> None:
        """Adds at the end of the (last) calendar, or before its first event."""
        at = max(n for n, i in enumerate(self.items) if isinstance(i, Line) and _ends(i, "VCALENDAR"))
        if first:
            at = next((n for n, i in enumerate(self.items) if isinstance(i, Component)), at)
        self.items[at:at] = list(lines)

    def remove(self, event: Component) -> None:
        self.items = [item for item in self.items if item is not event]

    def dump(self) -> bytes:
        """The file's bytes."""
        text = "".join(i.raw if isinstance(i, Line) else i.source for i in self.items)
        return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    """The file's text. What is no UTF-8 is taken as readers take it, for Windows-1252, and written as UTF-8."""
    try:
        re.sub(rb"\r*\n[ \t]", b"", data).decode("utf-8")
    except UnicodeDecodeError:
        return "".join(bytes((byte,)).decode("cp1252", "ignore") or chr(byte) for byte in data)
    return data.decode("utf-8", "surrogateescape")  # a fold may stand inside a character


def _ends(line: Line, kind: str) -> bool:
    return line.name == "END" and line.value.strip().upper() == kind


def _lines(text: str) -> Iterable[Line]:
    """Content lines, unfolded. An empty line belongs to the line before it."""
    current: list[str] = []
    for piece in re.findall(r"[^\r\n]*(?:\r*\n|\r|\Z)", text):
        if not piece:
            continue
        if current and (piece[:1] in (" ", "\t") or not piece.strip()):
            current.append(piece)
        else:
            if current:
                yield _read(current)
            current = [piece]
    if current:
        yield _read(current)


def _read(pieces: list[str]) -> Line:
    first, *rest = (piece.rstrip("\r\n") for piece in pieces)
    joined = first + "".join(piece[1:] for piece in rest if piece.strip())
    # A fold may stand inside a character.
    joined = joined.encode("utf-8", "surrogateescape").decode("utf-8", "replace").removeprefix("\ufeff")
    name, parameters, value = _split(joined)
    return Line("".join(pieces), name, parameters, value)


def _split(line: str) -> tuple[str, tuple[tuple[str, str], ...], str]:
    parts, quoted = [""], False
    for at, char in enumerate(line):
        if char == '"':
            quoted = not quoted
        elif char == ";" and not quoted:
            parts.append("")
            continue
        elif char == ":" and not quoted:
            pairs = (part.partition("=")[::2] for part in parts[1:])
            return parts[0].strip().upper(), tuple((n.strip().upper(), v.strip()) for n, v in pairs), line[at + 1 :]
        if char != '"':
            parts[-1] += char
    return line.strip().upper(), (), ""


def make(name: str, value: str, newline: str, **parameters: str) -> Line:
    """A new content line, folded at 75 bytes. `value` must be escaped where its type is text."""
    head = name
    for key, given in parameters.items():
        clean = re.sub(r'["\x00-\x1f\x7f]', "", given)
        head += f';{key}="{clean}"' if re.search(r"[:;,]", clean) else f";{key}={clean}"
    text = re.sub(r"[\x00-\x08\x0a-\x1f\x7f]", "", f"{head}:{value}")
    text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    pieces, current, size = [], "", 0
    for char in text:
        width = len(char.encode())
        if size + width > 75:
            pieces.append(current)
            current, size = " ", 1
        current += char
        size += width
    pieces.append(current)
    raw = "".join(piece + newline for piece in pieces)
    return Line(raw, name, tuple((k, v) for k, v in parameters.items()), value)


def escaped(text: str) -> str:
    """A text as the value of a property."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return plain.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,").replace("\n", "\\n")


def unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] in "nN" else m[1], value)


def new_file() -> IcsFile:
    """An empty calendar as the app makes it."""
    text = f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:{PRODID}\r\nCALSCALE:GREGORIAN\r\nEND:VCALENDAR\r\n"
    return IcsFile.parse(text.encode())
