"""The words of texts and files as hashed 5-grams, without case; numbers are all alike where a task with other figures
is the same task.

Of modern office files the words are what stands between the tags of the parts that hold an author's words. PDFs, mail
and older formats are read by envkit's readers, each file in a confined child, and their words are kept by the file's
content in `$ENVKIT_HOME/cache/words`, so that a pack is read once on a machine. A file that can't be read has no words,
and still its content. Used by `pairs`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from envkit.home import envkit_home
from envkit.office.gate import MAX_FILE_BYTES
from envkit.office.parse import ParseLimits, confined
from envkit.office.problem import Unreadable

__all__ = ["Files", "shingles", "text_of", "walk", "words_of_files"]

_WORDS = 5
#: The most of a file's text that is looked at.
_MAX_TEXT = 4 << 20
_OFFICE = frozenset({".docx", ".docm", ".xlsx", ".xlsm", ".pptx", ".pptm", ".odt", ".ods", ".odp"})
#: The parts of an office file that hold the author's words; styles and themes are the program's.
_CONTENT = re.compile(r"(document|content|sharedStrings|sheet\d+|slide\d+|notesSlide\d+|comments\d*)\.xml$")
#: What a zip raises that is none, or damaged.
_BROKEN = (
    OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError, ValueError
)  # fmt: skip
#: Changes with what is read of a file, so that words of an older reading are not taken for today's.
_READING = "1"


@dataclass(frozen=True, slots=True)
class Files:
    """Of a folder: all its words, and each file's digest by path."""

    words: frozenset[int]
    digests: dict[str, int]


def shingles(text: str, *, numbers: bool = False) -> frozenset[int]:
    """The hashed word 5-grams of a text, all numbers counting as one unless `numbers`; a shorter text is one piece."""
    folded = text.casefold() if numbers else re.sub(r"\d[\d.,]*", " # ", text.casefold())
    words = re.findall(r"#|[^\W_]+", folded)
    pieces = [" ".join(words[n : n + _WORDS]) for n in range(max(1, len(words) - _WORDS + 1))] if words else []
    return frozenset(_hash(piece.encode("utf-8", "replace")) for piece in pieces)


@lru_cache(maxsize=4096)
def words_of_files(world: Path) -> Files:
    """The words and digests of the files below a folder, which does not change."""
    digests: dict[str, int] = {}
    words: set[int] = set()
    for path in walk(world):
        if path.stat().st_size:  # an empty file is like every other
            digest = _digest(path)
            digests[path.relative_to(world).as_posix()] = int.from_bytes(digest[:7], "big")
            words |= _words(path, digest)
    return Files(frozenset(words), digests)


def text_of(path: Path) -> str:
    """What a file says; "" for one that says nothing, or can't be read."""
    reader = _READERS.get(path.suffix.casefold())
    if reader is not None:
        return _read(path, reader) or ""
    if path.suffix.casefold() in _OFFICE:
        return " ".join(_between_tags(path))
    if path.stat().st_size > _MAX_TEXT:
        return ""
    data = path.read_bytes()
    try:
        return "" if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return ""


def walk(folder: Path | None) -> Iterable[Path]:
    """The plain files below a folder, in order; none where there is no folder."""
    if folder is None:
        return
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _words(path: Path, digest: bytes) -> frozenset[int]:
    """A file's 5-grams: from the store where its kind takes long to read."""
    suffix = path.suffix.casefold()
    reader = _READERS.get(suffix)
    if reader is None:
        return shingles(text_of(path))
    kept = envkit_home() / "cache" / "words" / f"{digest.hex()}{suffix}-{_READING}.npy"
    with contextlib.suppress(OSError, ValueError, EOFError):
        return frozenset(np.load(kept, allow_pickle=False).tolist())
    text = _read(path, reader)
    found = shingles(text or "")
    if text is None:  # perhaps only for now: on a busy machine a child may run out of time
        return found
    data = io.BytesIO()
    np.save(data, np.fromiter(sorted(found), np.uint64, len(found)))
    with contextlib.suppress(OSError):  # without a store it is read again the next time
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_name(f".{kept.name}.{os.getpid()}")
        draft.write_bytes(data.getvalue())
        draft.replace(kept)
    return found


def _read(path: Path, reader: Callable[[bytes], str]) -> str | None:
    """What a reader makes of a file; None where it can't."""
    limits = ParseLimits(cpu_s=60.0, wall_s=120.0)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            return None
        data = path.read_bytes()
        return confined(lambda: reader(data)[:_MAX_TEXT], limits)
    except (Unreadable, ImportError, OSError):
        return None


def _pdf(data: bytes) -> str:
    from envkit.office.pdf import read_pdf

    return read_pdf(data).by_blocks


def _mail(data: bytes) -> str:
    from envkit.office.mail import read_message

    found = read_message(data)
    return f"{found.subject}\n{found.body}"


def _mailbox(data: bytes) -> str:
    from envkit.office.mail import read_mbox

    return "\n".join(f"{found.subject}\n{found.body}" for found in read_mbox(data))


def _old_workbook(data: bytes) -> str:
    from envkit.office.legacy import read_legacy_workbook

    book = read_legacy_workbook(data)
    return "\n".join(
        str(value)
        for sheet in book.sheets
        for address in sheet.ordered
        if (value := book.value(sheet, address)) is not None
    )


_READERS: dict[str, Callable[[bytes], str]] = {
    ".pdf": _pdf, ".eml": _mail, ".mbox": _mailbox, ".mbx": _mailbox, ".xls": _old_workbook, ".xlsb": _old_workbook,
}  # fmt: skip


def _between_tags(path: Path) -> Iterator[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            left = _MAX_TEXT
            for info in archive.infolist():
                if _CONTENT.search(info.filename):
                    with archive.open(info) as stream:
                        data = stream.read(left)
                    left -= len(data)
                    # Between two "<" there is no tag: so the work grows with the text and not with its square.
                    yield re.sub(r"<[^<>]*>", " ", data.decode("utf-8", "replace"))
    except _BROKEN:
        return  # a broken file, or one with a password, has no words to compare


def _digest(path: Path) -> bytes:
    total = hashlib.blake2b(digest_size=20)
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            total.update(block)
    return total.digest()


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=7).digest(), "big")
