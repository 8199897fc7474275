"""Rows into micro-batches by token budget, dealt to data-parallel ranks by tokens.

Every rank gets equally many micro-batches, as few as can be found, none above the budget (a longer row stands alone);
ranks hold nearly equal token counts, and the k-th micro-batches of all ranks are of similar size, so that ranks that
wait for each other after each one wait little. Pure and deterministic; used by `prepare` and `imitate`.

First as many micro-batches are tried as the lower bound says (Martello and Toth's L2 for bin packing, over ranks), rows
going longest first to the emptiest one that has room, which also balances them; where that fails, as many as best-fit
decreasing needs. Micro-batches are dealt to ranks, then rows are moved and swapped between the fullest rank and others
for as long as that brings them closer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["Packing", "fewest_micro_batches", "pack"]

Ints = npt.NDArray[np.int64]

#: Moves and swaps between ranks at most; each is the best of its kind, and a handful is usual.
_MAX_MOVES = 500
#: Ranks closer to each other than this share of their mean are equal.
_CLOSE_ENOUGH = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Which rows go where.

    Attributes:
        ranks: `ranks[r][k]` are the row numbers of micro-batch k of rank r, ascending; equally many micro-batches on
            each rank, the largest first.
        lengths: Tokens of every row.
        budget: Tokens of a micro-batch.
    """

    ranks: tuple[tuple[tuple[int, ...], ...], ...]
    lengths: Ints = field(repr=False)
    budget: int

    @property
    def loads(self) -> Ints:
        """[ranks, micro-batches] tokens."""
        return np.array([[int(self.lengths[list(m)].sum()) if m else 0 for m in rank] for rank in self.ranks], np.int64)

    @property
    def padding_share(self) -> float:
        """Share of the token slots of all micro-batches (the budget, or a longer row's own length) that stay empty."""
        slots = int(np.maximum(self.loads, self.budget).sum())
        return 1.0 - int(self.lengths.sum()) / slots if slots else 0.0

    @property
    def imbalance(self) -> float:
        """Tokens of the fullest rank over the mean of ranks, minus 1."""
        per_rank = self.loads.sum(1)
        return float(per_rank.max() / per_rank.mean()) - 1.0 if per_rank.sum() else 0.0

    @property
    def lockstep_idle_share(self) -> float:
        """Share of ranks' time that is waiting, where ranks wait for each other after every micro-batch and time goes
        by tokens."""
        loads = self.loads
        longest = int(loads.max(0).sum()) * len(loads) if loads.size else 0
        return 1.0 - int(loads.sum()) / longest if longest else 0.0


def pack(lengths: Sequence[int] | Ints, *, budget: int, ranks: int = 1) -> Packing:
    """Deals every row to exactly one micro-batch of at most `budget` tokens (a longer row alone).

    Args:
        lengths: Tokens of each row, all positive.
        ranks: Data-parallel ranks.

    Raises:
        ValueError: A length, the budget or the number of ranks below 1.
    """
    sizes = np.asarray(lengths, np.int64).reshape(-1)
    if budget < 1 or ranks < 1 or (len(sizes) and int(sizes.min()) < 1):
        least = int(sizes.min()) if len(sizes) else "none"
        raise ValueError(
            f"expected lengths, budget and ranks of at least 1, found {least} (shortest), {budget} and {ranks}"
        )
    each = fewest_micro_batches(sizes, budget=budget, ranks=ranks)
    places = _spread(sizes, budget, each * ranks)
    if places is None:
        full = _best_fit(sizes, budget)
        each = -(-(int(full.max()) + 1) // ranks)
        places = _spread(sizes, budget, each * ranks)
        places = full if places is None else places
    rank_of = _deal(np.bincount(places, sizes, each * ranks).astype(np.int64), each, ranks)
    _balance(sizes, places, rank_of, budget, ranks)
    return Packing(_result(sizes, places, rank_of, each, ranks), sizes, budget)


def fewest_micro_batches(lengths: Ints, *, budget: int, ranks: int) -> int:
    """A lower bound on the micro-batches per rank of any packing (what `pack` tries first). 0 for no rows."""
    alone = int((lengths > budget).sum())
    rows = np.sort(lengths[lengths <= budget])
    best = 0
    if len(rows):
        sums = np.concatenate([[0], np.cumsum(rows)])

        def below(bound: Ints | int, *, side: str = "left") -> Ints:
            return np.asarray(np.searchsorted(rows, bound, "left" if side == "left" else "right"), np.int64)

        half = below(budget // 2, side="right")  # rows above half the budget never share with each other
        small = np.unique(np.concatenate([[0], rows[:half]]))  # K of the bound, each tried
        huge = below(budget - small, side="right")  # rows above budget - K share with no row of at least K
        huge = np.maximum(huge, half)
        room = (huge - half) * budget - (sums[huge] - sums[half])  # what rows of more than half leave for others
        rest = sums[half] - sums[below(small)]
        best = int((len(rows) - half + np.maximum(0, -(-(rest - room) // budget))).max())
    return -(-(alone + best) // ranks)


def _spread(sizes: Ints, budget: int, count: int) -> Ints | None:
    """The micro-batch of each row, longest first into the emptiest of `count`; None where a row finds no room."""
    places = np.zeros(len(sizes), np.int64)
    loads = np.zeros(count, np.int64)
    for row in np.argsort(-sizes, kind="stable"):
        place = int(loads.argmin())
        if loads[place] and loads[place] + sizes[row] > budget:
            return None
        places[row] = place
        loads[place] += sizes[row]
    return places


def _best_fit(sizes: Ints, budget: int) -> Ints:
    """The micro-batch of each row, longest first into the fullest that has room, or a new one."""
    places = np.zeros(len(sizes), np.int64)
    loads = np.zeros(len(sizes), np.int64)
    used = 0
    for row in np.argsort(-sizes, kind="stable"):
        open_loads = loads[:used]
        fitting = np.where(open_loads + sizes[row] <= budget, open_loads, -1)
        place = int(fitting.argmax()) if used else 0
        if not used or fitting[place] < 0:
            place = used
            used += 1
        places[row] = place
        loads[place] += sizes[row]
    return places


def _deal(loads: Ints, each: int, ranks: int) -> Ints:
    """The rank of each micro-batch: largest first, to the rank with the fewest tokens that still lacks one."""
    rank_of = np.zeros(len(loads), np.int64)
    total, held = np.zeros(ranks), np.zeros(ranks, np.int64)
    for place in np.argsort(-loads, kind="stable"):
        rank = int(np.where(held < each, total, np.inf).argmin())
        rank_of[place] = rank
        total[rank] += loads[place]
        held[rank] += 1
    return rank_of


def _balance(sizes: Ints, places: Ints, rank_of: Ints, budget: int, ranks: int) -> None:
    """Moves and swaps rows between the fullest rank and the others while that narrows a gap; changes `places`."""
    loads = np.bincount(places, sizes, len(rank_of)).astype(np.int64)
    for _ in range(_MAX_MOVES if ranks > 1 else 0):
        per_rank = np.bincount(rank_of, loads, ranks).astype(np.int64)
        full = int(per_rank.argmax())
        if per_rank[full] - per_rank.min() <= max(1.0, _CLOSE_ENOUGH * per_rank.mean()):
            return
        for other in np.argsort(per_rank, kind="stable")[:-1]:
            gap = int(per_rank[full] - per_rank[other])
            change = _best_change(sizes, places, rank_of, loads, budget, full, int(other), gap)
            if change is not None:
                break
        else:
            return
        for row, place in change:
            loads[places[row]] -= sizes[row]
            loads[place] += sizes[row]
            places[row] = place


def _best_change(
    sizes: Ints, places: Ints, rank_of: Ints, loads: Ints, budget: int, full: int, other: int, gap: int
) -> list[tuple[int, int]] | None:
    """(row, new micro-batch) of the move or swap that brings two ranks closest; None where none brings them closer."""
    mine = np.flatnonzero((rank_of[places] == full) & (sizes <= budget))
    theirs = np.flatnonzero((rank_of[places] == other) & (sizes <= budget))
    best: tuple[int, list[tuple[int, int]]] | None = None

    def consider(shift: int, change: list[tuple[int, int]]) -> None:
        nonlocal best
        left = abs(gap - 2 * shift)
        if 0 < shift < gap and (best is None or left < best[0]):
            best = (left, change)

    bins = np.flatnonzero(rank_of == other)
    roomiest = int(bins[loads[bins].argmin()])
    fits = mine[sizes[mine] <= budget - loads[roomiest]]
    if len(fits):
        row = int(fits[np.abs(gap - 2 * sizes[fits]).argmin()])
        consider(int(sizes[row]), [(row, roomiest)])
    if len(mine) and len(theirs):
        # For each row here, the rows there whose exchange would shift about half the gap.
        ordered = theirs[np.argsort(sizes[theirs], kind="stable")]
        near = np.searchsorted(sizes[ordered], sizes[mine] - gap // 2)
        for step in (-2, -1, 0, 1):
            partner = ordered[np.clip(near + step, 0, len(ordered) - 1)]
            shift = sizes[mine] - sizes[partner]
            allowed = (loads[places[partner]] + shift <= budget) & (shift > 0) & (shift < gap)
            if allowed.any():
                at = int(np.where(allowed, np.abs(gap - 2 * shift), np.iinfo(np.int64).max).argmin())
                a, b = int(mine[at]), int(partner[at])
                consider(int(shift[at]), [(a, int(places[b])), (b, int(places[a]))])
    return None if best is None else best[1]


def _result(sizes: Ints, places: Ints, rank_of: Ints, each: int, ranks: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    rows: dict[int, list[int]] = {}
    for row, place in enumerate(places):
        rows.setdefault(int(place), []).append(row)
    out = []
    for rank in range(ranks):
        micro = [tuple(rows.get(int(p), ())) for p in np.flatnonzero(rank_of == rank)]
        micro += [()] * (each - len(micro))
        out.append(tuple(sorted(micro, key=lambda m: (-int(sizes[list(m)].sum()) if m else 0, m))))
    return tuple(out)
