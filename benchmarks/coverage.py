"""How often the 95 % intervals of evaluations hold the truth, counted against worlds whose truth is known.

    python -m benchmarks.coverage [--repetitions 4000] [--markdown]

Each case is a kind of pack: its true mean, how alike the tasks of one world are, how many tasks a world has, attempts
per task; and each is evaluated with as many worlds as the columns say. A cell is the share of repetitions whose
interval held the truth, among those that had one. `paired` cases are differences of two policies on the same tasks.
All go through `envkit.report.clustered`, many samples at once; tests/envkit/report/test_clustered.py takes its worlds
from here. Exits with 1 where a cell is below 93 %, or an ordinary pack at 33 worlds is beyond 97 %.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envkit.report.clustered import intervals

WORLDS = (3, 5, 8, 12, 19, 20, 33, 60, 120)
#: Repetitions that are held in memory at once.
_BATCH = 100

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pack:
    """How a simulated pack looks.

    Attributes:
        mean: The true mean reward; of the worse policy where `gain` is given.
        likeness: How much of the variance between tasks is between worlds.
        sizes: Tasks per world.
        attempts: Per task; a task's value is the share that passed.
        gain: Of a second policy on the same tasks, whose difference is then what is estimated.
        ordinary: Neither near 0 or 1 nor of uneven worlds: here intervals must be no wider than they need be.
    """

    mean: float
    likeness: float
    sizes: str
    attempts: int = 2
    gain: float | None = None
    ordinary: bool = False

    def __str__(self) -> str:
        what = f"{self.mean:g}" if self.gain is None else f"paired, {self.mean:g} {self.gain:+g}"
        return f"{what}; {self.likeness:g}; {self.sizes}; {self.attempts}"


#: Uneven: geometric with mean 9. Lopsided: two in ten have 40 tasks, the others 2.
SIZES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Ints]] = {
    "8 to 20": lambda rng, shape: rng.integers(8, 21, size=shape),
    "8": lambda rng, shape: np.full(shape, 8),
    "1": lambda rng, shape: np.ones(shape, np.int64),
    "uneven": lambda rng, shape: np.minimum(40, 1 + rng.geometric(0.12, size=shape)),
    "lopsided": lambda rng, shape: np.where(rng.random(shape) < 0.2, 40, 2),
}

PACKS = (
    Pack(0.18, 0.1, "8 to 20", ordinary=True),
    Pack(0.5, 0.1, "8 to 20", ordinary=True),
    Pack(0.5, 0.3, "8", ordinary=True),
    Pack(0.7, 0.3, "8 to 20", 4, ordinary=True),
    Pack(0.3, 0.6, "8 to 20", 1, ordinary=True),
    Pack(0.3, 0.1, "8", 4, gain=0.1, ordinary=True),
    Pack(0.5, 0.3, "8 to 20", gain=0.0, ordinary=True),
    Pack(0.02, 0.1, "8"),
    Pack(0.05, 0.3, "8 to 20"),
    Pack(0.95, 0.3, "8 to 20"),
    Pack(0.98, 0.6, "8", 4),
    Pack(0.3, 0.3, "uneven"),
    Pack(0.1, 0.6, "uneven", 1),
    Pack(0.1, 0.1, "lopsided"),
    Pack(0.5, 0.3, "lopsided"),
    Pack(0.05, 0.3, "lopsided"),
    Pack(0.1, 0.3, "1", 1),
    Pack(0.4, 0.3, "1", 4),
    Pack(0.05, 0.3, "8", gain=0.02),
    Pack(0.3, 0.3, "lopsided", gain=0.1),
)


def _tasks(rng: np.random.Generator, level: Floats, attempts: int) -> Floats:
    """A value per task, whose world has this level."""
    chance = rng.beta(1.5 * level, 1.5 * (1.0 - level))
    return rng.binomial(attempts, np.clip(chance, 0.0, 1.0)) / attempts


def _levels(rng: np.random.Generator, mean: float, spread: float, shape: tuple[int, int]) -> Floats:
    return np.clip(rng.beta(mean * spread, (1.0 - mean) * spread, size=shape), 1e-9, 1.0 - 1e-9)


def simulate(pack: Pack, worlds: int, repetitions: int, seed: int) -> Iterator[tuple[Floats, Ints]]:
    """Sums and sizes of the worlds, a row a repetition, in batches."""
    key = [seed, worlds, int(1000 * pack.mean), int(100 * pack.likeness), pack.attempts, len(pack.sizes)]
    rng = np.random.default_rng(key)
    spread = (1.0 - pack.likeness) / pack.likeness
    for begin in range(0, repetitions, _BATCH):
        shape = (min(_BATCH, repetitions - begin), worlds)
        sizes: Ints = SIZES[pack.sizes](rng, shape)
        level = _levels(rng, pack.mean, spread, shape)
        flat = np.repeat(level.ravel(), sizes.ravel())
        values = _tasks(rng, flat, pack.attempts)
        if pack.gain is not None:
            # The other policy in the same worlds: their levels moved, the luck of each task its own.
            other = np.clip(level + pack.gain, 1e-9, 1.0 - 1e-9)
            values = _tasks(rng, np.repeat(other.ravel(), sizes.ravel()), pack.attempts) - values
        starts = np.concatenate([[0], np.cumsum(sizes.ravel())[:-1]])
        yield np.add.reduceat(values, starts).reshape(shape), sizes


@cache
def truth(pack: Pack) -> float:
    """The mean that the intervals are after. A gain is cut at 1 where a world's level would go beyond: integrated."""
    if pack.gain is None:
        return pack.mean
    spread = (1.0 - pack.likeness) / pack.likeness
    levels = _levels(np.random.default_rng(7), pack.mean, spread, (2_000, 2_000))
    return float((np.clip(levels + pack.gain, 1e-9, 1.0 - 1e-9) - levels).mean())


def coverage(pack: Pack, worlds: int, repetitions: int, seed: int = 0) -> tuple[int, int, Counter[str]]:
    """How many intervals held the truth, how many there were, and which methods spoke."""
    held, given, methods = 0, 0, Counter[str]()
    wanted, low = truth(pack), 0.0 if pack.gain is None else -1.0
    for sums, sizes in simulate(pack, worlds, repetitions, seed):
        named, lower, upper = intervals(sums, sizes.astype(float), low=low)
        there = ~np.isnan(lower)
        given += int(there.sum())
        held += int(((lower - 1e-9 <= wanted) & (wanted <= upper + 1e-9))[there].sum())
        methods.update(named)
    return held, given, methods


def short_of(held: int, given: int, share: float) -> bool:
    """Whether so few can't be chance if the true coverage is `share` (beyond three standard errors)."""
    return given > 0 and held / given < share - 3.0 * math.sqrt(share * (1.0 - share) / given)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    head = ["mean; likeness; tasks per world; attempts", *(str(worlds) for worlds in WORLDS)]
    lines: list[list[str]] = []
    bad: list[str] = []
    begun = time.process_time()
    for pack in PACKS:
        cells = [str(pack)]
        for worlds in WORLDS:
            held, given, methods = coverage(pack, worlds, args.repetitions, args.seed)
            share = held / given if given else math.nan
            cells.append(
                f"{100 * share:.1f}" + ("" if given == args.repetitions else f" ({given / args.repetitions:.0%})")
            )
            wide = pack.ordinary and worlds == 33 and share > 0.97
            if given and (share < 0.93 or wide):
                bad.append(f"{pack}, {worlds} worlds: {share:.4f} of {given}; {dict(methods)}")
        lines.append(cells)
        print(" | ".join(cells), file=sys.stderr, flush=True)
    _print(head, lines, markdown=args.markdown)
    error = 100 * math.sqrt(0.95 * 0.05 / args.repetitions)
    spent_s = time.process_time() - begun
    print(f"\n{args.repetitions:,} repetitions a cell (standard error {error:.2f}); {spent_s:.0f} s of CPU")
    for line in bad:
        print(line)
    return 1 if bad else 0


def _print(head: list[str], lines: list[list[str]], *, markdown: bool) -> None:
    rows: list[Any] = [head, *lines]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    edge = "| " if markdown else ""
    for number, row in enumerate(rows):
        print(edge + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + edge[::-1])
        if not number and markdown:
            print("|" + "|".join("---" if not column else "---:" for column in range(len(head))) + "|")


if __name__ == "__main__":
    sys.exit(main())
