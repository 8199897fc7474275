"""How well rows pack into micro-batches and ranks: ours against first-fit and against what no packing can beat.

    python benchmarks/packing.py [--batches 20] [--rows 256] [--budget 160000] [--json]

A batch is 16 groups of 16 rows with lengths as in the recipe (2k to 128k tokens, lognormal around a per-group median,
so that rows of a group are alike), 160k tokens to a micro-batch, dealt to 1 to 16 data-parallel ranks. Compared, on
the same batches:

- first-fit: rows dealt to ranks by count, in order; on each rank every row into the first micro-batch with room;
- first-fit-decreasing: the same with the longest rows first, on each rank;
- ours (`envkit.backends.data.pack`);
- the bound: the fewest micro-batches per rank that any packing needs (Martello and Toth's L2), perfectly balanced.

Padding is the share of token slots (micro-batches of all ranks, those included that only keep ranks in step) that
stay empty; imbalance is the fullest rank over the mean, minus 1; idle is the share of rank time spent waiting where
ranks wait for each other after each micro-batch. The time is ours, per batch. Means over batches. Exits 1 where ours
pads two points more than the bound, or is out of balance by more than 1 % on at most 8 ranks.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np
import numpy.typing as npt

from envkit.backends.data.packing import Packing, fewest_micro_batches, pack

Ints = npt.NDArray[np.int64]


def lengths_of_a_batch(rng: np.random.Generator, rows: int) -> Ints:
    """Rows of groups of 16, in tokens."""
    groups = -(-rows // 16)
    median = rng.lognormal(np.log(60_000), 0.7, groups).repeat(16)[:rows]
    return np.clip(median * rng.lognormal(0, 0.4, rows), 2_000, 128_000).astype(np.int64)


def first_fit(lengths: Ints, *, budget: int, ranks: int, decreasing: bool) -> Packing:
    """Rows dealt by count, in order; each rank packs its own by first fit; empty micro-batches keep ranks in step."""
    dealt = []
    for mine in np.array_split(np.arange(len(lengths)), ranks):
        order = mine[np.argsort(-lengths[mine], kind="stable")] if decreasing else mine
        micro: list[list[int]] = []
        loads: list[int] = []
        for row in order:
            size = int(lengths[row])
            at = next((i for i, load in enumerate(loads) if load + size <= budget), None)
            if at is None:
                micro.append([])
                loads.append(0)
                at = len(micro) - 1
            micro[at].append(int(row))
            loads[at] += size
        dealt.append(micro)
    each = max(len(micro) for micro in dealt)
    return Packing(
        tuple(tuple(tuple(m) for m in micro) + ((),) * (each - len(micro)) for micro in dealt), lengths, budget
    )


def measure(batches: list[Ints], *, budget: int, ranks: int) -> dict[str, dict[str, float]]:
    """Means over batches, per way of packing."""
    kept: dict[str, list[tuple[float, float, float, float]]] = {}
    taken_s = 0.0
    for lengths in batches:
        started_s = time.perf_counter()
        ours = pack(lengths, budget=budget, ranks=ranks)
        taken_s += time.perf_counter() - started_s
        for name, packing in {
            "first-fit": first_fit(lengths, budget=budget, ranks=ranks, decreasing=False),
            "first-fit-decreasing": first_fit(lengths, budget=budget, ranks=ranks, decreasing=True),
            "ours": ours,
        }.items():
            told = (len(packing.ranks[0]), packing.padding_share, packing.imbalance, packing.lockstep_idle_share)
            kept.setdefault(name, []).append(told)
        fewest = fewest_micro_batches(lengths, budget=budget, ranks=ranks)
        padding = 1 - int(lengths.sum()) / (fewest * ranks * budget)
        kept.setdefault("bound", []).append((fewest, padding, 0.0, 0.0))
    names = ("micro_batches_per_rank", "padding_share", "imbalance", "idle_share")
    means = {name: dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True)) for name, rows in kept.items()}
    means["ours"]["ms_per_batch"] = 1000 * taken_s / len(batches)
    return means


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--budget", type=int, default=160_000)
    parser.add_argument("--json", action="store_true", help="one JSON object, by number of ranks")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    batches = [lengths_of_a_batch(rng, options.rows) for _ in range(options.batches)]
    found = {ranks: measure(batches, budget=options.budget, ranks=ranks) for ranks in (1, 2, 4, 8, 16)}
    missed = []
    for ranks, ways in found.items():
        if ways["ours"]["padding_share"] > ways["bound"]["padding_share"] + 0.02:
            missed.append(f"{ranks} ranks: padding {ways['ours']['padding_share']:.1%}")
        if ranks <= 8 and ways["ours"]["imbalance"] > 0.01:
            missed.append(f"{ranks} ranks: imbalance {ways['ours']['imbalance']:.2%}")
    if options.json:
        print(json.dumps({str(ranks): ways for ranks, ways in found.items()}))
    else:
        print(
            f"{'ranks':>5}  {'':<20}  {'micro-batches':>13}  {'padding':>7}  {'imbalance':>9}  {'idle':>6}  {'ms':>5}"
        )
        for ranks, ways in found.items():
            for name, means in ways.items():
                line = (
                    f"{ranks:>5}  {name:<20}  {means['micro_batches_per_rank']:>13.1f}  {means['padding_share']:>7.1%}"
                )
                if name != "bound":
                    line += f"  {means['imbalance']:>9.2%}  {means['idle_share']:>6.1%}"
                if "ms_per_batch" in means:
                    line += f"  {means['ms_per_batch']:>5.0f}"
                print(line)
    for text in missed:
        print(f"missed: {text}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
