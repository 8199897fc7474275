"""Contamination: tasks of two sets that are the same, or nearly, looked at as wholes: instruction, initial files,
expected result. An evaluation whose tasks were trained on measures memory.

Texts are compared by their word 5-grams (`words`). MinHash with banding finds the pairs worth a look, and the exact
Jaccard similarity of each is what is told. Files count by content, and those that have words also by their words. Of
binary files that are neither only sameness is seen. Used by `envkit pack overlap` and before a training run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict

from envkit import registry
from envkit.failure import EnvkitError
from envkit.overlap.words import Files, shingles, text_of, walk, words_of_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Fingerprint", "Overlap", "compare", "fingerprint", "overlaps", "similarity"]

_BANDS, _ROWS = 32, 4
#: Files of a task that are the program's and not the author's.
_NAMES = frozenset({"test.sh", "envkit-verify.pyz", "initial.tar"})
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

    def __str__(self) -> str:
        parts = [("instruction", self.instruction), ("files", self.files), ("expected result", self.expected)]
        told = ", ".join(f"{name} {value:.2f}" for name, value in parts if value is not None)
        return f"{self.first} and {self.second}: {', '.join(self.kinds)} ({told})"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is compared of a task: hashed word 5-grams of its three parts, and the digests of its files."""

    id: str
    instruction: frozenset[int]
    files: frozenset[int]
    expected: frozenset[int]
    digests: dict[str, int] = field(default_factory=dict)


def fingerprint(id: str) -> Fingerprint:
    """Reads a task by reference, with its world. Raises as `registry.find` and the pack's `world`."""
    pack, task = registry.find(id)
    expected: list[str] = []
    for step in task.steps:
        for folder in (step.tests_dir, step.solution_dir):
            for path in walk(folder):
                if path.name not in _NAMES:
                    expected.append(text_of(path))
    world = pack.world(task)
    files = words_of_files(world) if world is not None else Files(frozenset(), {})
    return Fingerprint(
        id=id,
        instruction=shingles("\n".join(step.instruction for step in task.steps)),
        files=files.words,
        expected=shingles("\n".join(expected), numbers=True),
        digests=files.digests,
    )


def compare(first: Sequence[str], second: Sequence[str], *, threshold: float = 0.8) -> tuple[list[Overlap], list[str]]:
    """The pairs of two sets of task references that have too much in common, and a line for each task that could not
    be read. Builds the worlds of all; the words of files are read once on a machine."""
    prints: dict[str, Fingerprint] = {}
    unread: list[str] = []
    for id in dict.fromkeys([*first, *second]):
        try:
            prints[id] = fingerprint(id)
        except (EnvkitError, OSError) as error:
            unread.append(f"{id}: {error}")
    sides = [[prints[id] for id in side if id in prints] for side in (first, second)]
    return list(overlaps(sides[0], sides[1], threshold=threshold)), unread


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
