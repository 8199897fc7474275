"""`envkit regrade`: judges the stored trials of a run anew and compares the rewards."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envkit.cli import options
from envkit.failure import UserError
from envkit.regrade import Regraded, regrade_run

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="the run folder; verdicts are written beside the old ones")
    parser.add_argument("--concurrency", type=int, default=None, help="trials at once (default: the number of cores)")


def run(args: argparse.Namespace) -> int:
    concurrency = options.default_concurrency() if args.concurrency is None else args.concurrency
    if concurrency < 1:
        raise UserError(f"--concurrency must be at least 1, found {concurrency}")
    regraded = asyncio.run(regrade_run(args.run, concurrency=concurrency))
    if args.json:
        options.dump(
            {
                "folder": str(args.run),
                "summary": _summary(regraded),
                "trials": [{"differs": one.differs, **one.model_dump(mode="json")} for one in regraded],
            }
        )
    else:
        _print(regraded)
    return 0 if all(one.new_reward is not None for one in regraded) else 1


def _summary(regraded: Sequence[Regraded]) -> dict[str, Any]:
    """Counts, and the means of those that have a reward both times."""
    both = [one for one in regraded if one.old_reward is not None and one.new_reward is not None]

    def mean(rewards: list[float | None]) -> float | None:
        return sum(r for r in rewards if r is not None) / len(rewards) if rewards else None

    return {
        "trials": len(regraded),
        "regraded": sum(one.folder is not None for one in regraded),
        "different": sum(one.differs for one in regraded),
        "without_reward": sum(one.new_reward is None for one in regraded),
        "compared": len(both),
        "old_mean": mean([one.old_reward for one in both]),
        "new_mean": mean([one.new_reward for one in both]),
    }


def _print(regraded: Sequence[Regraded]) -> None:
    width = max((len(one.trial_id) for one in regraded), default=0)
    for one in regraded:
        mark = "DIFFERS" if one.differs else "" if one.folder is not None else "NOT REGRADED"
        print(f"{one.trial_id:<{width}}  {_reward(one.old_reward)} -> {_reward(one.new_reward)}  {mark}".rstrip())
        for id, (before, after) in one.changed.items():
            print(f"{'':<{width}}    {id}: {_reward(before)} -> {_reward(after)}")
        if one.task_changed:
            print(f"{'':<{width}}    the task is another than the one that was run")
        if one.failure is not None:
            print(f"{'':<{width}}    {one.failure.kind}: {one.failure.message.strip()[:300]}")
    total = _summary(regraded)
    print(
        f"\n{total['trials']} trials, {total['regraded']} regraded, {total['different']} different, "
        f"{total['without_reward']} without a reward; mean of {total['compared']} with both: "
        f"{_reward(total['old_mean'])} -> {_reward(total['new_mean'])}"
    )
    if total["regraded"]:
        print("`compare`, `report`, `select` and `triage` take the new verdicts with --regraded")


def _reward(reward: float | None) -> str:
    return "none" if reward is None else f"{reward:.3f}"
