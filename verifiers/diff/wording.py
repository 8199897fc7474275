"""Texts side by side: how alike two are, where they part, and whether only their typography differs.

Everything here is symmetric, as the mirror guarantee of the diff needs. Used by the differs of documents and decks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

__all__ = ["alikeness", "excerpts", "shortened", "similarity_of", "typography_only"]

#: Characters of a text shown in a finding.
SHOWN = 240
_SHORT = 60
#: Letters per word beyond which a text is taken for one without blanks.
_LONG_WORDS = 16
_FOLDS = str.maketrans(
    {"\u00a0": " ", "\u202f": " ", "\u2009": " ", "’": "'", "‘": "'", "“": '"', "”": '"', "„": '"', "–": "-", "—": "-"}
    | {"…": "...", "\u200b": None}
)


@lru_cache(maxsize=4096)
def _pairs(text: str) -> Counter[str]:
    return Counter(text[i : i + 2] for i in range(len(text) - 1)) or Counter([text])


@lru_cache(maxsize=4096)
def _words(text: str) -> Counter[str]:
    return Counter(text.split())


def alikeness(a: str, b: str) -> float:
    """From 0 to 1: the share of common words, of neighbouring letters in short texts."""
    if a == b:
        return 1.0
    if not a.strip() or not b.strip():
        return 0.0
    # Many languages put no blanks between words: there, neighbouring letters are what texts have in common.
    unspaced = any(len(text) > _LONG_WORDS * _words(text).total() for text in (a, b))
    count = _pairs if unspaced or (len(a) <= _SHORT and len(b) <= _SHORT) else _words
    one, two = count(a), count(b)
    if len(one) > len(two):
        one, two = two, one
    common = sum(min(n, two[word]) for word, n in one.items())
    return 2 * common / max(one.total() + two.total(), 1)


def similarity_of(first: Sequence[str], second: Sequence[str]) -> Callable[[int, int], float]:
    """For `align`: the alikeness of texts given by index."""
    return lambda i, j: alikeness(first[i], second[j])


def shortened(text: str, length: int = SHOWN) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def excerpts(a: str, b: str, length: int = SHOWN) -> tuple[str, str]:
    """Both texts, cut where they are long so that the place where they part is shown."""
    if len(a) <= length and len(b) <= length:
        return a, b
    shorter = min(len(a), len(b))
    start = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    start = max(0, start - 40)
    head = "…" if start else ""
    return head + shortened(a[start:], length), head + shortened(b[start:], length)


def typography_only(a: str, b: str) -> bool:
    """Whether two texts differ only in the kind of their blanks, quotes and dashes."""
    return _folded(a) == _folded(b)


def _folded(text: str) -> str:
    """Kinds of blanks, quotes and dashes as one; tabs and breaks stay, they are more than typography."""
    return re.sub(" +", " ", text.translate(_FOLDS)).strip(" ")
