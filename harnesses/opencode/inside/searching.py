"""The `glob` and `grep` tools: finding files by name and lines by regular expression.

Guarantees: results are sorted and cut at a fixed number, so that the same tree gives the same answer every time;
binary files are skipped; memory stays small whatever a file's size; a line that would not fit an answer is cut. The
time that an expression takes is bounded by the caller, which ends the whole call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from .globs import GlobError
from .paths import failure, os_failure, resolve, show, success
from .rust_regex import LineBreakError, RegexError, translate
from .walking import Glob, walk

_LIMIT = 100
_LINE_CHARS = 2000
_BLOCK = 4 << 20
_BINARY_STEP = 1 << 16
#: OpenCode gives a whole search up when one matching line, in ripgrep's JSON form, is longer than this.
_MAX_RECORD_BYTES = 1 << 16


def glob(pattern: str, path: str, cwd: str) -> dict[str, Any]:
    """Lists up to 100 files below a folder whose path fits the pattern."""
    root = resolve(path or cwd, cwd)
    if not os.path.isdir(root):
        if os.path.lexists(root):
            return failure(f"path must be a folder, and {show(root)} is a file.")
        return failure(f"There is no folder {show(root)}.")
    try:
        chosen = Glob(pattern)
    except GlobError as error:
        return success(f"No files found. (The pattern is malformed: {error}.)", count=0, truncated=False)
    try:
        found: list[str] = []
        for relative in walk(root, chosen, hidden=False):
            found.append(show(os.path.normpath(os.path.join(root, relative))))
            if len(found) >= _LIMIT:
                break
    except OSError as error:
        return os_failure("search", root, error)
    if not found:
        return success("No files found.", count=0, truncated=False)
    truncated = len(found) >= _LIMIT
    if truncated:
        found += ["", f"(Only the first {_LIMIT} files are shown. Use a narrower pattern or path.)"]
    return success("\n".join(found), count=min(len(found), _LIMIT), truncated=truncated)


def grep(pattern: str, path: str, include: str, cwd: str) -> dict[str, Any]:
    """Lists up to 100 lines that match, by file. A `path` that is no folder searches the folder it is in."""
    if not pattern:
        return failure("pattern is empty; give a regular expression.")
    root = resolve(path or cwd, cwd)
    if not os.path.isdir(root):
        root = os.path.dirname(root)
    if not os.path.isdir(root):
        return failure(f"There is no folder {show(root)}.")
    try:
        expression = translate(pattern)
    except LineBreakError as error:
        return success(f"No matches found. ({error}.)", count=0, truncated=False)
    except RegexError as error:
        return failure(f"The regular expression is malformed: {error}.")
    try:
        chosen = Glob(include or None)
    except GlobError as error:
        return success(f"No matches found. (include is malformed: {error}.)", count=0, truncated=False)
    by_file: list[tuple[str, list[str]]] = []
    count = 0
    for relative in walk(root, chosen, hidden=True):
        full = os.path.join(root, relative)
        lines: list[str] = []
        try:
            for number, text in _matches(full, expression):
                if not _fits_record(relative, text):
                    return failure(
                        f"The search was given up: line {number} of {show(full)} is too long to be shown (over "
                        f"{_MAX_RECORD_BYTES} bytes). Leave this file out with include, or look into it with bash."
                    )
                if len(text) > _LINE_CHARS:
                    text = text[:_LINE_CHARS] + "..."
                lines.append(f"  Line {number}: {text}")
                count += 1
                if count >= _LIMIT:
                    break
        except OSError:
            continue  # what can't be read is passed over, as in ripgrep without messages
        finally:
            if lines:
                by_file.append((show(os.path.normpath(full)), lines))
        if count >= _LIMIT:
            break
    if not count:
        return success("No matches found.", count=0, truncated=False)
    truncated = count >= _LIMIT
    out = [f"Found {count} matches" + (" (there may be more)" if truncated else "")]
    for name, lines in by_file:
        out += [f"{name}:", *lines, ""]
    if truncated:
        out.append(f"(Only the first {_LIMIT} matches are shown. Use a narrower pattern, path or include.)")
    return success("\n".join(out).rstrip("\n"), count=count, truncated=truncated)


def _fits_record(relative: str, text: str) -> bool:
    if len(text) * 6 + len(relative) < _MAX_RECORD_BYTES - 1000:
        return True
    record = json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")
    return len(record) + len(relative) + 250 <= _MAX_RECORD_BYTES


def _matches(path: str, expression: Any) -> Iterator[tuple[int, str]]:
    """Line numbers (from 1) and texts of the lines that match."""
    number = 1
    for text in _text_blocks(path):
        position = line_at = 0
        while position <= len(text):
            match = expression.search(text, position)
            if match is None:
                break
            start = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.start())
            end = len(text) if end < 0 else end
            if start == len(text) and text:
                break  # an empty match behind the last line break is no line
            number += text.count("\n", line_at, start)
            line_at = start
            yield number, text[start:end].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            position = end + 1
        number += text.count("\n", line_at)


def _text_blocks(path: str) -> Iterator[str]:
    """A file's text in blocks of whole lines; nothing of a binary file.

    As in ripgrep, a NUL byte makes the rest of a file binary, and UTF-16 is read if a byte order mark says so.
    """
    with open(path, "rb") as stream:
        begin = stream.read(4)
        stream.seek(0)
        if begin.startswith((b"\xff\xfe", b"\xfe\xff")):
            yield stream.read().decode("utf-16", "replace")
            return
        if begin.startswith(b"\xef\xbb\xbf"):
            stream.seek(3)
        pieces: list[bytes] = []  # the beginning of a line whose end is in a later block
        while True:
            block = stream.read(_BLOCK)
            nul = block.find(b"\0")
            if nul >= 0:
                block = block[: nul - nul % _BINARY_STEP]
            ends = not block or nul >= 0
            cut = len(block) if ends else block.rfind(b"\n") + 1
            if cut or ends:
                data = b"".join(pieces) + block[:cut]
                pieces = []
                if data:
                    yield data.decode("utf-8", "surrogateescape")
            if ends:
                return
            pieces.append(block[cut:])
