"""Packing without padding, and without computing twice what rows have in common.

Rows of one micro-batch usually begin alike: the same tools, and within a group the same instruction. `plant` turns
them into a forest of segments, each token of which goes through the model once; a segment sees the segments above it
and its own past. What comes out for each row is exactly what a forward pass over that row alone gives, gradients
included, since a token's hidden state depends on nothing but its own past. Used by `TorchTrainer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from envkit.tokens.trace import IntArray

__all__ = ["Forest", "Segment", "plant"]

#: A common piece shorter than this is computed for each row: one more segment costs more than it saves.
_WORTH_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Segment:
    """Packed positions `start:end`, the first of which is the row's position `depth`; `above` are its ancestors."""

    start: int
    end: int
    depth: int
    above: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Forest:
    """Packed rows.

    Attributes:
        ids, positions: int64 [n]: what goes through the model, and where each token stands in its row.
        segments: In packed order; parents before children.
        where: For each row, the packed position of each of its tokens, int64 [len(row)].
    """

    ids: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    segments: tuple[Segment, ...]
    where: tuple[npt.NDArray[np.int64], ...]


def plant(rows: Sequence[IntArray], *, share: bool = True) -> Forest:
    """Packs rows of token ids. With `share=False` each row is a tree of its own."""
    order = sorted(range(len(rows)), key=lambda i: np.asarray(rows[i], ">i4").tobytes()) if share else range(len(rows))
    ordered = [np.asarray(rows[i], np.int64) for i in order]
    common = [0, *(_shared(a, b) if share else 0 for a, b in pairwise(ordered))]
    segments: list[Segment] = []
    ids: list[npt.NDArray[np.int64]] = []
    places: list[list[npt.NDArray[np.int64]]] = [[] for _ in ordered]
    size = 0
    # (first row, behind the last, tokens that are placed, the segments above)
    work: list[tuple[int, int, int, tuple[tuple[int, int], ...]]] = [(0, len(ordered), 0, ())] if ordered else []
    while work:
        low, high, depth, above = work.pop()
        shortest = min((common[i] for i in range(low + 1, high)), default=len(ordered[low]))
        if shortest - depth >= _WORTH_TOKENS or (high - low == 1 and shortest > depth):
            piece = ordered[low][depth:shortest]
            segments.append(Segment(size, size + len(piece), depth, above))
            ids.append(piece)
            for row in range(low, high):
                places[row].append(np.arange(size, size + len(piece)))
            above = (*above, (size, size + len(piece)))
            size += len(piece)
            depth = shortest
        if high - low == 1:
            continue
        cuts = [low, *(i for i in range(low + 1, high) if common[i] <= shortest), high]
        work.extend((a, b, depth, above) for a, b in reversed(list(pairwise(cuts))))
    where: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(rows)
    for at, pieces in zip(order, places, strict=True):
        where[at] = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
    positions = [np.arange(s.depth, s.depth + s.end - s.start) for s in segments]
    return Forest(
        ids=np.concatenate(ids) if ids else np.zeros(0, np.int64),
        positions=np.concatenate(positions) if positions else np.zeros(0, np.int64),
        segments=tuple(segments),
        where=tuple(where),
    )


def _shared(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> int:
    n = min(len(a), len(b))
    differ = np.flatnonzero(a[:n] != b[:n])
    return int(differ[0]) if len(differ) else n
