"""The `read` tool: a page of a text file with line numbers, or of a folder's entries.

Guarantees: memory stays small whatever the file's size or the length of its lines; a file that is no text is refused
with a hint at what can read it; a page never exceeds the limits it is given.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

from .paths import failure, os_failure, resolve, show, success

_SAMPLE_BYTES = 4096
_LINE_CHARS = 2000
_BLOCK = 1 << 16

_ARCHIVES = (".zip", ".tar", ".gz", ".jar", ".war", ".7z")
_OFFICE = (".doc", ".docx", ".xls", ".xlsx", ".ppt", ".pptx", ".odt", ".ods", ".odp")
_PROGRAMS = (".exe", ".dll", ".so", ".class", ".bin", ".dat", ".obj", ".o", ".a", ".lib", ".wasm", ".pyc", ".pyo")
_BINARY_SUFFIXES = frozenset(_ARCHIVES + _OFFICE + _PROGRAMS)
_MEDIA_SUFFIXES = {".png": "image", ".jpg": "image", ".jpeg": "image", ".gif": "image", ".webp": "image", ".pdf": "PDF"}
_HINTS = {
    ".xlsx": "openpyxl or pandas",
    ".xls": "pandas",
    ".docx": "python-docx (import docx)",
    ".pptx": "python-pptx (import pptx)",
    ".pdf": "pdfplumber or pypdf",
    ".zip": "zipfile",
    ".tar": "tarfile",
    ".gz": "gzip",
    ".ods": "pandas or zipfile",
    ".odt": "zipfile",
    ".odp": "zipfile",
}


def read(path: str, cwd: str, offset: int, limit: int, max_bytes: int) -> dict[str, Any]:
    """Shows lines `offset`.. (1-based) of a file, or entries of a folder, at most `limit` and `max_bytes` of them."""
    target = resolve(path, cwd)
    try:
        info = os.stat(target)
    except OSError as error:
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return _missing(target)
        return os_failure("read", target, error)
    try:
        if stat.S_ISDIR(info.st_mode):
            return _folder(target, offset, limit)
        if not stat.S_ISREG(info.st_mode):
            return failure(f"Cannot read {show(target)}: it is a device, a pipe or a socket, not a file.")
        with open(target, "rb") as stream:
            sample = stream.read(_SAMPLE_BYTES)
            refusal = _refusal(target, sample)
            if refusal:
                return failure(refusal)
            stream.seek(0)
            return _file(target, stream, offset, limit, max_bytes)
    except OSError as error:
        return os_failure("read", target, error)


def _missing(target: str) -> dict[str, Any]:
    folder, name = os.path.split(target)
    wanted = name.lower()
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    near = [n for n in names if wanted and (wanted in n.lower() or n.lower() in wanted)][:3]
    text = f"File not found: {show(target)}"
    if near:
        text += "\nSimilar names in the same folder:\n" + "\n".join(show(os.path.join(folder, n)) for n in near)
    return failure(text)


def _folder(target: str, offset: int, limit: int) -> dict[str, Any]:
    names = []
    with os.scandir(target) as entries:
        for entry in entries:
            try:
                is_folder = entry.is_dir()
            except OSError:
                is_folder = False
            names.append(show(entry.name) + ("/" if is_folder else ""))
    names.sort(key=lambda name: (name.casefold(), name))
    start = (offset or 1) - 1
    shown = names[start : start + limit]
    end = start + len(shown)
    more = end < len(names)
    if more:
        footer = f"({len(shown)} of {len(names)} entries shown; the next page starts at offset={end + 1})"
    else:
        footer = f"({len(names)} entries)"
    lines = [f"<path>{show(target)}</path>", "<type>directory</type>", "<entries>"]
    lines += [*shown, "", footer, "</entries>"]
    return success("\n".join(lines), truncated=more)


def _media(target: str, sample: bytes) -> str:
    if sample.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")):
        return "image"
    if sample[:4] == b"RIFF" and sample[8:12] == b"WEBP":
        return "image"
    if sample.startswith(b"%PDF-"):
        return "PDF"
    return _MEDIA_SUFFIXES.get(os.path.splitext(target)[1].lower(), "")


def _refusal(target: str, sample: bytes) -> str:
    suffix = os.path.splitext(target)[1].lower()
    media = _media(target, sample)
    if media:
        with_what = "PIL" if media == "image" else _HINTS[".pdf"]
        return (
            f"Cannot show {show(target)}: {media} files can't be displayed here. Use bash with Python, for example "
            f"{with_what}."
        )
    strange = sum(1 for byte in sample if byte < 9 or 13 < byte < 32)
    if suffix in _BINARY_SUFFIXES or 0 in sample or (sample and strange / len(sample) > 0.3):
        hint = _HINTS.get(suffix)
        how = f", for example Python with {hint}" if hint else ""
        return f"Cannot read binary file: {show(target)}. Use bash instead{how}."
    return ""


def _lines(stream: BinaryIO) -> Iterator[tuple[str, bool]]:
    """Each line as (its first characters, whether it is longer). A line ends at LF, CR LF or a CR alone."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
    kept: list[str] = []
    length = 0
    at_start = pending = True
    while pending:
        block = stream.read(_BLOCK)
        pending = bool(block)
        text = decoder.decode(block, not block)
        if at_start and text:
            at_start = False
            text = text[1:] if text[0] == "\ufeff" else text
        pieces = text.split("\n")
        for number, piece in enumerate(pieces):
            if number:
                yield "".join(kept), length > _LINE_CHARS
                kept, length = [], 0
            if piece:
                if length < _LINE_CHARS:
                    kept.append(piece[: _LINE_CHARS - length])
                length += len(piece)
    if length:
        yield "".join(kept), length > _LINE_CHARS


def _file(target: str, stream: BinaryIO, offset: int, limit: int, max_bytes: int) -> dict[str, Any]:
    start = offset or 1
    shown: list[str] = []
    size = count = 0
    full = capped = False
    for text, longer in _lines(stream):
        count += 1
        if count < start:
            continue
        if len(shown) >= limit:
            full = True
            continue
        if longer:
            text += f"... (line cut at {_LINE_CHARS} characters)"
        need = len(text.encode("utf-8")) + (1 if shown else 0)
        if size + need > max_bytes:
            capped = True
            break
        size += need
        shown.append(text)
    if count < start and not (count == 0 and start == 1):
        return failure(f"Offset {start} is beyond the end of {show(target)}, which has {count} lines.")
    last = start + len(shown) - 1
    if capped:
        footer = f"(cut at {max_bytes} bytes; lines {start}-{last} shown; go on with offset={last + 1})"
    elif full:
        footer = f"(lines {start}-{last} of {count} shown; go on with offset={last + 1})"
    else:
        footer = f"(end of file, {count} lines in all)"
    body = "\n".join(f"{start + index}: {text}" for index, text in enumerate(shown))
    text = f"<path>{show(target)}</path>\n<type>file</type>\n<content>\n{body}\n\n{footer}\n</content>"
    return success(text, truncated=full or capped)
