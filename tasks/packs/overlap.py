"""Contamination: tasks of two sets that are the same, or nearly, looked at as wholes: instruction, initial files,
expected result. An evaluation whose tasks were trained on measures memory.

Texts are compared by their word 5-grams, without case; in instructions and files all numbers are alike, as a task
with other figures is the same task. MinHash with banding finds the pairs worth a look, and the exact Jaccard
similarity of each is what is told. Files count by content, and those that are texts or office files also by their
words. Of binary files that are neither only sameness is seen.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict

from envkit import registry

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Fingerprint", "Overlap", "fingerprint", "overlaps", "shingles", "similarity"]

_WORDS = 5
_BANDS, _ROWS = 32, 4
_PRIME = (1 << 61) - 1
#: The most of a file that is read for its words.
_MAX_TEXT = 4 << 20
_OFFICE = frozenset({".docx", ".xlsx", ".xlsm", ".pptx", ".odt", ".ods", ".odp"})
_NAMES = frozenset({"test.sh", "envkit-verify.pyz", "initial.tar"})
#: The parts of an office file that hold the author's words.
_CONTENT = re.compile(r"(document|content|sharedStrings|sheet\d+|slide\d+|notesSlide\d+|comments\d*)\.xml$")
#: An expected result of fewer 5-grams is met by chance (the same short answer, the same form of a check): it counts
#: beside other likeness, not alone.
_ALONE = 80
#: A 5-gram in more of a set's expected results than this, and than 1 % of them, is the form that they share.
_SHARED_FORM = 3


class Overlap(BaseModel):
    """Two tasks that have too much in common.

    Attributes:
        first, second: Their references.
        kinds: `same instruction`, `near instruction`, `same expected result`, `near expected result`, `same files`,
            `near files`, `near task`.
        instruction, files, expected: Similarity of the parts, 0 to 1; None where one side has nothing to compare.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: str
    second: str
    kinds: tuple[str, ...]
    instruction: float | None
    files: float | None
    expected: float | None


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is compared of a task: hashed word 5-grams of its three parts, and the digests of its files."""

    id: str
    instruction: frozenset[int]
    files: frozenset[int]
    expected: frozenset[int]
    digests: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Files:
    words: frozenset[int]
    digests: dict[str, int]


def fingerprint(id: str) -> Fingerprint:
    """Reads a task by reference, with its world. Raises as `registry.find` and the pack's `world`."""
    pack, task = registry.find(id)
    expected: list[str] = []
    for step in task.steps:
        for folder in (step.tests_dir, step.solution_dir):
            for path in _walk(folder):
                if path.name not in _NAMES:
                    expected.append(_text(path))
    world = pack.world(task)
    files = _files(world) if world is not None else _Files(frozenset(), {})
    return Fingerprint(
        id=id,
        instruction=shingles("\n".join(step.instruction for step in task.steps)),
        files=files.words,
        expected=shingles("\n".join(expected), numbers=True),
        digests=files.digests,
    )


def overlaps(
    first: Sequence[Fingerprint], second: Sequence[Fingerprint], *, threshold: float = 0.8
) -> Iterator[Overlap]:
    """The pairs across two sets that have too much in common, in the order of the first set. A task is not compared
    with itself.

    Args:
        threshold: From which Jaccard similarity on texts are near duplicates.
    """
    form = _form([*first, *second])
    first = [replace(found, expected=found.expected - form) for found in first]
    second = [replace(found, expected=found.expected - form) for found in second]
    pairs: set[tuple[int, int]] = set()
    for part in ("instruction", "files", "expected"):
        pairs |= _candidates([getattr(f, part) for f in first], [getattr(f, part) for f in second])
    by_digest: dict[int, set[int]] = {}
    for number, other in enumerate(second):
        for digest in other.digests.values():
            by_digest.setdefault(digest, set()).add(number)
    for number, one in enumerate(first):
        for digest in one.digests.values():
            pairs |= {(number, there) for there in by_digest.get(digest, ())}
    for left, right in sorted(pairs):
        found = _compare(first[left], second[right], threshold)
        if found is not None:
            yield found


def _compare(one: Fingerprint, other: Fingerprint, threshold: float) -> Overlap | None:
    if one.id == other.id:
        return None
    instruction = similarity(one.instruction, other.instruction)
    expected = similarity(one.expected, other.expected)
    words = similarity(one.files, other.files)
    files = _shared(one.digests, other.digests, words)
    kinds: list[str] = []
    for name, value in (("instruction", instruction), ("expected result", expected), ("files", files)):
        short = name == "expected result" and min(len(one.expected), len(other.expected)) < _ALONE
        if value is not None and value >= threshold and not short:
            kinds.append(f"{'same' if value == 1.0 else 'near'} {name}")
    parts = [value for value in (instruction, files, expected) if value is not None]
    if not kinds and len(parts) > 1 and sum(parts) / len(parts) >= 0.75 * threshold:
        kinds.append("near task")
    if not kinds:
        return None
    return Overlap(
        first=one.id, second=other.id, kinds=tuple(kinds), instruction=instruction, files=files, expected=expected
    )


def _form(prints: Sequence[Fingerprint]) -> frozenset[int]:
    """What is common to the expected results of many tasks: imports, and the form of checks."""
    counts = Counter(piece for found in {found.id: found for found in prints}.values() for piece in found.expected)
    most = max(_SHARED_FORM, len(prints) // 100)
    return frozenset(piece for piece, count in counts.items() if count > most)


def _shared(one: dict[str, int], other: dict[str, int], words: float | None) -> float | None:
    """How much two sets of files have in common: by content, or by words where that is more."""
    if not one or not other:
        return words
    left, right = set(one.values()), set(other.values())
    return max(len(left & right) / len(left | right), words or 0.0)


def similarity(one: frozenset[int], other: frozenset[int]) -> float | None:
    """The Jaccard similarity of two sets of 5-grams; None where one is empty."""
    return len(one & other) / len(one | other) if one and other else None


def shingles(text: str, *, numbers: bool = False) -> frozenset[int]:
    """The hashed word 5-grams of a text, all numbers counting as one unless `numbers`; a shorter text is one piece."""
    folded = text.casefold() if numbers else re.sub(r"\d[\d.,]*", " # ", text.casefold())
    words = re.findall(r"#|[^\W_]+", folded)
    pieces = [" ".join(words[n : n + _WORDS]) for n in range(max(1, len(words) - _WORDS + 1))] if words else []
    return frozenset(_hash(piece.encode()) for piece in pieces)


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=7).digest(), "big")


def _candidates(first: Sequence[frozenset[int]], second: Sequence[frozenset[int]]) -> set[tuple[int, int]]:
    """Pairs that agree in a band of their MinHash signatures: practically all with a similarity of 0.6 or more."""
    bands: dict[tuple[int, bytes], list[int]] = {}
    for number, part in enumerate(second):
        for key in _bands(part):
            bands.setdefault(key, []).append(number)
    return {
        (number, other) for number, part in enumerate(first) for key in _bands(part) for other in bands.get(key, ())
    }


def _bands(part: frozenset[int]) -> list[tuple[int, bytes]]:
    if not part:
        return []
    rng = np.random.default_rng(9)
    factors = rng.integers(1, 1 << 31, size=_BANDS * _ROWS, dtype=np.uint64)
    offsets = rng.integers(0, 1 << 61, size=_BANDS * _ROWS, dtype=np.uint64)
    lowest: NDArray[np.uint64] = np.full(_BANDS * _ROWS, np.iinfo(np.uint64).max, dtype=np.uint64)
    values = np.fromiter(part, dtype=np.uint64)
    for start in range(0, len(values), 4096):  # so that a large world takes no large matrix
        block = values[start : start + 4096, None]
        # wraps around at 2^64, which mixes well enough with an odd factor
        mixed = block * (factors * np.uint64(2) + np.uint64(1)) + offsets
        mixed ^= mixed >> np.uint64(29)
        lowest = np.minimum(lowest, (mixed * np.uint64(0x9E3779B97F4A7C15)).min(axis=0))
    return [(band, lowest[band * _ROWS : (band + 1) * _ROWS].tobytes()) for band in range(_BANDS)]


@lru_cache(maxsize=4096)
def _files(world: Path) -> _Files:
    digests: dict[str, int] = {}
    words: set[int] = set()
    for path in _walk(world):
        data = path.read_bytes() if path.stat().st_size <= _MAX_TEXT else None
        if data == b"":
            continue  # an empty file is like every other
        digests[path.relative_to(world).as_posix()] = _hash(data) if data is not None else _hash_file(path)
        words |= shingles(_text(path))
    return _Files(frozenset(words), digests)


def _hash_file(path: Path) -> int:
    total = hashlib.blake2b(digest_size=7)
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            total.update(block)
    return int.from_bytes(total.digest(), "big")


def _text(path: Path) -> str:
    """The words of a file: of an office file those between its tags; "" for what is neither that nor text."""
    if path.suffix.casefold() in _OFFICE:
        return " ".join(_office_words(path))
    if path.stat().st_size > _MAX_TEXT:
        return ""
    data = path.read_bytes()
    try:
        return "" if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return ""


def _office_words(path: Path) -> Iterator[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            left = _MAX_TEXT
            for info in archive.infolist():
                # styles and themes are the program's words, not the author's
                if re.search(
                    r"(document|content|sharedStrings|sheet\d+|slide\d+|notesSlide\d+|comments\d*)\.xml$", info.filename
                ):
                    with archive.open(info) as stream:
                        data = stream.read(left)
                    left -= len(data)
                    yield re.sub(r"<[^>]*>", " ", data.decode("utf-8", "replace"))
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError):
        return  # a broken file, or one with a password, has no words to compare


def _walk(folder: Path | None) -> Iterable[Path]:
    if folder is None:
        return
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                yield path
