"""`envkit select`: tasks of a run to train on, by how their rewards vary, as a task list."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from envkit.cli import options
from envkit.failure import UserError
from envkit.report.variance import read_spread, selected, task_list

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="the run folder of an evaluation with several samples per task")
    parser.add_argument(
        "--variance",
        nargs="?",
        type=float,
        const=0.0,
        metavar="STD",
        help="only tasks whose rewards vary (by a standard deviation of at least STD): the others give no gradient",
    )
    parser.add_argument("--min-mean", type=float, help="only tasks with at least this mean reward")
    parser.add_argument("--max-mean", type=float, help="only tasks with at most this mean reward")
    parser.add_argument("--top", type=int, metavar="N", help="only the N tasks that vary most")
    parser.add_argument("--policy", help="the policy whose trials count, where the run has several")
    parser.add_argument("--harness", help="the harness whose trials count, where the run has several")
    options.add_regraded(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the list there; a plan names it in tasks.file")


def run(args: argparse.Namespace) -> int:
    if args.top is not None and args.top < 1:
        raise UserError(f"--top must be at least 1, found {args.top}")
    if args.variance is not None and not args.variance >= 0:
        raise UserError(f"--variance must be 0 or more, found {args.variance}")
    told: list[str] = []
    spreads = read_spread(args.run, policy=args.policy, harness=args.harness, notes=told, regraded=args.regraded)
    chosen = selected(spreads, min_std=args.variance, min_mean=args.min_mean, max_mean=args.max_mean, top=args.top)
    once = sum(spread.trials < 2 for spread in spreads)
    still = sum(not spread.varies for spread in spreads) - once
    single = f", {once} have one verdict, which says nothing of that" if once else ""
    notes = [f"{len(chosen)} of {len(spreads)} tasks of {args.run}; the rewards of {still} do not vary{single}"]
    text = task_list(chosen, notes)
    if args.out is not None:
        args.out.write_text(text, encoding="utf-8")
    if args.json:
        options.dump(
            {
                "tasks": [spread.model_dump(mode="json") for spread in chosen],
                "of": len(spreads),
                "still": still,
                "once": once,
                "notes": told,
            }
        )
    elif args.out is None:
        print(text, end="")
    else:
        print(f"{args.out}: {notes[0]}")
    excluded = sum(spread.excluded for spread in spreads)
    if excluded:
        print(f"{excluded} trials have no verdict and count nowhere", file=sys.stderr)
    for note in told:
        print(note, file=sys.stderr)
    return 0 if chosen else 1
