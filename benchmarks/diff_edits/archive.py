"""Single edits of archives: members of a zip changed, in it and in an archive inside it."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable

from diff_edits.edit import Edit, Expected

SUFFIX = "zip"
Files = dict[str, bytes]


def _zip(files: Files, how: int = zipfile.ZIP_DEFLATED, year: int = 2026) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0)), data, how)
    return out.getvalue()


def _tar(files: Files) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _files(data: bytes) -> Files:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


INNER = {"deep.txt": b"one\ntwo\nthree\n", "deep.csv": b"a,b\n1,2\n3,4\n"}


def samples() -> dict[str, bytes]:
    files = {
        "a/notes.txt": b"first line\nsecond line\nthird line\n", "a/data.json": b'{"x": 1, "y": [1, 2]}',
        "b/table.csv": b"id,name\n1,Ann\n2,Bob\n", "b/readme.md": b"# Title\n\nSome text here.\n",
        "b/raw.bin": b"\0\1\2" * 50, "c/inner.zip": _zip(INNER), "c/inner.tar": _tar(INNER), "c/empty/": b"",
    }  # fmt: skip
    return {"bundle": _zip(files)}


def edited(change: Callable[[Files], object], *expected: tuple[str, str | None]) -> Edit:
    def edit(data: bytes) -> tuple[bytes, Expected]:
        files = _files(data)
        change(files)
        return _zip(files), list(expected)

    return edit


def put(name: str, data: bytes) -> Callable[[Files], None]:
    return lambda files: files.update({name: data})


def inner(**changes: bytes | None) -> bytes:
    files = {**INNER, **{k.replace("_", "."): v for k, v in changes.items() if v is not None}}
    return _zip({k: v for k, v in files.items() if changes.get(k.replace(".", "_"), b"") is not None})


EDITS: dict[str, Edit] = {
    "file added": edited(put("d/new.txt", b"x"), ("file", "d/new.txt")),
    "empty file added": edited(put("d/none.txt", b""), ("file", "d/none.txt")),
    "file removed": edited(lambda f: f.pop("b/raw.bin"), ("file", "b/raw.bin")),
    "file renamed": edited(lambda f: f.update({"b/raw2.bin": f.pop("b/raw.bin")}), ("file.name", "b/raw.bin")),
    "file moved": edited(lambda f: f.update({"z/notes.txt": f.pop("a/notes.txt")}), ("file.name", "a/notes.txt")),
    "line of a text": edited(put("a/notes.txt", b"first line\nsecond row\nthird line\n"),
        ("line.text", "a/notes.txt / line 2")),
    "line added": edited(put("a/notes.txt", b"first line\nsecond line\nx\nthird line\n"),
        ("line", "a/notes.txt / line 3")),
    "line removed": edited(put("a/notes.txt", b"first line\nthird line\n"), ("line", "a/notes.txt / line 2")),
    "value of a JSON file": edited(put("a/data.json", b'{"x": 2, "y": [1, 2]}'),
        ("value.changed", "a/data.json / $.x")),
    "type in a JSON file": edited(put("a/data.json", b'{"x": "1", "y": [1, 2]}'), ("value.type", "a/data.json / $.x")),
    "key of a JSON file": edited(put("a/data.json", b'{"x": 1, "y": [1, 2], "z": 0}'), ("value", "a/data.json / $.z")),
    "cell of a table": edited(put("b/table.csv", b"id,name\n1,Ann\n2,Bea\n"), ("cell.value", None)),
    "row of a table": edited(put("b/table.csv", b"id,name\n1,Ann\n2,Bob\n3,Cay\n"), ("row", None)),
    "heading": edited(put("b/readme.md", b"# Titles\n\nSome text here.\n"), ("heading.text", "b/readme.md / §1")),
    "level of a heading": edited(put("b/readme.md", b"## Title\n\nSome text here.\n"),
        ("heading.level", "b/readme.md / §1")),
    "bytes": edited(put("b/raw.bin", b"\0\1\3" * 50), ("file.content", None)),
    "file broken": edited(put("a/data.json", b"{"), ("file.unreadable", None)),
    "line in an archive inside": edited(put("c/inner.zip", inner(deep_txt=b"one\n2\nthree\n")),
                                        ("line", None), ("line", None)),
    "cell in an archive inside": edited(put("c/inner.zip", inner(deep_csv=b"a,b\n1,2\n3,5\n")), ("cell.value", None)),
    "file gone from an archive inside": edited(put("c/inner.zip", inner(deep_csv=None)),
        ("file", "c/inner.zip / deep.csv")),
    "line in a tar inside": edited(put("c/inner.tar", _tar({**INNER, "deep.txt": b"one\ntwo\nthree\nfour\n"})),
                                   ("line", "c/inner.tar / deep.txt / line 4")),
    "empty folder gone": edited(lambda f: f.pop("c/empty/"), ("folder", "c/empty")),
}  # fmt: skip


RESAVES: dict[str, Callable[[bytes], bytes]] = {
    "stored": lambda data: _zip(_files(data), zipfile.ZIP_STORED),
    "another order": lambda data: _zip(dict(reversed(_files(data).items()))),
    "another time": lambda data: _zip(_files(data), year=1999),
    "with entries for folders": lambda data: _zip({"a/": b"", "b/": b"", **_files(data)}),
}
