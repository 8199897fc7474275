"""Before and after: what a training run's first and last evaluation say of each task, and whether the rise is real.

    python -m examples.tiny.compare runs/quickstart/train

The rise is the mean over tasks of (mean reward after - mean reward before); its 95 % interval is over attempts, each
task's attempts on their own (they are what is drawn anew; the tasks are fixed). Exits with 1 unless the rise is at
least `--at-least` and the interval excludes 0.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Rise", "rewards", "rise"]


@dataclass(frozen=True)
class Rise:
    """Mean rewards over tasks, their difference and its 95 % interval."""

    before: float
    after: float
    low: float
    high: float

    @property
    def by(self) -> float:
        return self.after - self.before


def rewards(path: Path) -> dict[str, list[float]]:
    """Task -> rewards of an evaluation's trials; trials without a verdict are left out."""
    found: dict[str, list[float]] = defaultdict(list)
    for line in path.read_text().splitlines():
        trial = json.loads(line)
        if trial["reward"] is not None:
            found[trial["task"]].append(float(trial["reward"]))
    return dict(found)


def rise(before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]) -> Rise:
    """Raises `ValueError` unless both have the same tasks, each with at least two rewards."""
    if set(before) != set(after) or not before or min(map(len, [*before.values(), *after.values()])) < 2:
        raise ValueError("before and after need the same tasks, each with at least two rewards")
    means = [[math.fsum(of[task]) / len(of[task]) for task in before] for of in (before, after)]
    error = math.sqrt(sum(_variance(of[task]) / len(of[task]) for of in (before, after) for task in before))
    first, last = (math.fsum(m) / len(before) for m in means)
    half = 1.96 * error / len(before)
    return Rise(first, last, last - first - half, last - first + half)


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder of a training run with an evaluation before and after")
    parser.add_argument("--at-least", type=float, default=0.15, help="the rise that is expected")
    options = parser.parse_args()
    files = sorted((options.run / "evaluations").glob("step-*.jsonl"))
    if len(files) < 2:
        print(f"expected two evaluations in {options.run / 'evaluations'}, found {len(files)}", file=sys.stderr)
        return 2
    before, after = rewards(files[0]), rewards(files[-1])
    found = rise(before, after)
    wide = max(map(len, before))
    print(f"{'task':{wide}}  before  after   attempts")
    for task in sorted(before):
        a, b = before[task], after[task]
        print(f"{task:{wide}}  {math.fsum(a) / len(a):6.3f}  {math.fsum(b) / len(b):6.3f}  {len(a)} + {len(b)}")
    print(f"{'mean':{wide}}  {found.before:6.3f}  {found.after:6.3f}")
    print(f"rise: {found.by:+.3f}, 95 % interval {found.low:+.3f} to {found.high:+.3f}")
    if found.by < options.at_least or found.low <= 0:
        print(f"expected a rise of at least {options.at_least} with an interval above 0", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
