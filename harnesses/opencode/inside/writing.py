"""The `write` and `edit` tools: whole files and replacements in files.

Guarantees: files are written in place (owner, mode, hard and symbolic links stay); a byte order mark and CR LF line
ends are kept; bytes outside the replaced span are never changed, also where they are no UTF-8; edits of one file take
turns, by whatever name they reach it.
"""

from __future__ import annotations

import fcntl
import io
import os
import stat
from typing import Any

from .paths import failure, os_failure, resolve, show, success
from .strategies import EditError, replace

_BOM = "\ufeff"
_BOM_BYTES = b"\xef\xbb\xbf"


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _split_bom(text: str) -> tuple[bool, str]:
    return (True, text[1:]) if text.startswith(_BOM) else (False, text)


def write(path: str, cwd: str, content: str) -> dict[str, Any]:
    """Writes the whole file, parent folders included; an existing byte order mark is kept."""
    target = resolve(path, cwd)
    has_bom, text = _split_bom(content)
    try:
        if os.path.isdir(target):
            return failure(f"Could not write {show(target)}: it is a folder, not a file.")
        existed = os.path.exists(target)
        if existed and not stat.S_ISREG(os.stat(target).st_mode):
            return failure(f"Could not write {show(target)}: it is a device, a pipe or a socket, not a file.")
        if existed and not has_bom:
            with open(target, "rb") as stream:
                has_bom = stream.read(3) == _BOM_BYTES
        _store(target, _encode((_BOM if has_bom else "") + text))
    except OSError as error:
        return os_failure("write", target, error)
    return success("{} {}.".format("Overwrote" if existed else "Wrote", show(target)))


def _store(target: str, data: bytes) -> None:
    folder = os.path.dirname(target)
    if folder:
        os.makedirs(folder, exist_ok=True)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.truncate(0)
        stream.write(data)


def _rewrite(stream: io.FileIO, before: bytes, data: bytes) -> None:
    """Replaces an open, unbuffered file's content; what was there is put back when there is no room for the new."""
    try:
        _put(stream, data)
    except OSError:
        _put(stream, before)
        raise


def _put(stream: io.FileIO, data: bytes) -> None:
    stream.seek(0)
    rest = memoryview(data)
    while rest:  # one write may take a part only, and says so by its result
        rest = rest[stream.write(rest) :]
    stream.truncate()


def edit(path: str, cwd: str, old: str, new: str, replace_all: bool, exact: bool) -> dict[str, Any]:
    """Replaces `old` by `new` in a file; with an empty `old`, makes a new file."""
    if not path:
        return failure("filePath is empty; give the path of the file to change.")
    if old == new:
        return failure("oldString and newString are the same, so there is nothing to change.")
    target = resolve(path, cwd)
    try:
        if old == "":
            return _create(target, new)
        try:
            info = os.stat(target)
        except (FileNotFoundError, NotADirectoryError):
            return failure(
                f"File not found: {show(target)}. To make a new file use write, or edit with an empty oldString."
            )
        if stat.S_ISDIR(info.st_mode):
            return failure(f"{show(target)} is a folder, not a file.")
        if not stat.S_ISREG(info.st_mode):
            return failure(f"Could not edit {show(target)}: it is a device, a pipe or a socket, not a file.")
        return _change(target, old, new, replace_all, exact)
    except OSError as error:
        return os_failure("edit", target, error)


def _create(target: str, new: str) -> dict[str, Any]:
    if os.path.exists(target):
        return failure(
            f"oldString is empty, but {show(target)} exists. Give the exact text to replace, or use write to replace "
            "the whole file."
        )
    _store(target, _encode(new))
    return success(f"Made the new file {show(target)}.", strategy="create", places=1)


def _with_line_ends(text: str, crlf: bool) -> str:
    text = text.replace("\r\n", "\n")
    return text.replace("\n", "\r\n") if crlf else text


def _change(target: str, old: str, new: str, replace_all: bool, exact: bool) -> dict[str, Any]:
    with io.FileIO(target, "r+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        before = stream.read()
        has_bom, text = _split_bom(before.decode("utf-8", "surrogateescape"))
        crlf = "\r\n" in text
        try:
            done = replace(text, _with_line_ends(old, crlf), _with_line_ends(new, crlf), replace_all, exact)
        except EditError as error:
            return failure(f"{error} (file: {show(target)})", reason=error.reason)
        again, result = _split_bom(done.text)
        data = _encode((_BOM if has_bom or again else "") + result)
        if data != before:
            _rewrite(stream, before, data)
    said = f"Edited {show(target)}"
    if done.places != 1:
        said += f", {done.places} places"
    said += "."
    if done.strategy != "exact":
        said += (
            " Note: oldString was not in the file literally; the nearest text was replaced instead (match: "
            f"{done.strategy}). Read the place again to make sure that it is as you want it."
        )
    return success(said, strategy=done.strategy, places=done.places)
