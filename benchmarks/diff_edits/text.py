"""Single edits of plain texts, line by line; saved again with other line ends, marks and encodings."""

from __future__ import annotations

from collections.abc import Callable

from diff_edits.edit import Edit, Expected

SUFFIX = "txt"


def _lines() -> list[str]:
    out = [f"Line {n}: the quick brown fox number {n * 37 % 101} jumps over the lazy dög" for n in range(1, 31)]
    out.insert(10, "")
    return [*out, "", "Signed: Ann"]


def samples() -> dict[str, bytes]:
    return {"text": ("\n".join(_lines()) + "\n").encode()}


def edited(change: Callable[[list[str]], object], *expected: tuple[str, str | None]) -> Edit:
    def edit(data: bytes) -> tuple[bytes, Expected]:
        lines = data.decode().split("\n")
        change(lines)
        return "\n".join(lines).encode(), list(expected)

    return edit


def put(number: int, old: str, new: str) -> Callable[[list[str]], None]:
    def change(lines: list[str]) -> None:
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new)

    return change


EDITS: dict[str, Edit] = {
    "word": edited(put(3, "brown", "red"), ("line.text", "line 3")),
    "number": edited(put(5, "Line 5", "Line 55"), ("line.text", "line 5")),
    "case": edited(put(6, "the quick", "The Quick"), ("line.text", "line 6")),
    "blank in a line": edited(put(7, "quick brown", "quickbrown"), ("line.text", "line 7")),
    "indented": edited(lambda x: x.__setitem__(7, "    " + x[7]), ("line.text", "line 8")),
    "accent": edited(put(9, "dög", "dog"), ("line.text", "line 9")),
    "first line": edited(put(1, "fox", "cat"), ("line.text", "line 1")),
    "last line": edited(put(33, "Ann", "Bob"), ("line.text", "line 33")),
    "line inserted": edited(lambda x: x.insert(4, "An entirely different thing"), ("line", "line 5")),
    "line inserted first": edited(lambda x: x.insert(0, "An entirely different thing"), ("line", "line 1")),
    "line appended": edited(lambda x: x.insert(33, "An entirely different thing"), ("line", "line 34")),
    "line removed": edited(lambda x: x.pop(4), ("line", "line 5")),
    "first line removed": edited(lambda x: x.pop(0), ("line", "line 1")),
    "last line removed": edited(lambda x: x.__delitem__(slice(31, 33)), ("line", None), ("line", None)),
    "three lines removed": edited(lambda x: x.__delitem__(slice(4, 7)), *[("line", f"line {n}") for n in (5, 6, 7)]),
    "blank line inserted": edited(lambda x: x.insert(4, ""), ("line", "line 5")),
    "blank line removed": edited(lambda x: x.pop(10), ("line", "line 11")),
    "line moved": edited(lambda x: x.insert(20, x.pop(3)), ("line.order", "line 4")),
    "line twice": edited(lambda x: x.insert(4, x[3]), ("line", None)),
    "two words": edited(put(12, "quick brown", "slow white"), ("line.text", "line 12")),
    "two lines": edited(lambda x: (put(3, "fox", "cat")(x), put(20, "dög", "pig")(x)),
                        ("line.text", "line 3"), ("line.text", "line 20")),
}  # fmt: skip

RESAVES: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "UTF-8 with a mark": lambda data: b"\xef\xbb\xbf" + data,
    "Windows-1252": lambda data: data.decode().encode("cp1252"),
    "decomposed": lambda data: data.replace("ö".encode(), "o\u0308".encode()),
    "blanks at line ends": lambda data: data.replace(b"\n", b"  \n") + b"\n\n",
}
