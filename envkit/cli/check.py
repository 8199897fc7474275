"""`envkit check`: the self-test of tasks, as trials in a job of its own."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from envkit import check, registry
from envkit.check import TaskCheck
from envkit.cli import jobs, options
from envkit.failure import UserError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("patterns", nargs="+", help="ids or globs, e.g. 'office/*'; or paths of task directories")
    parser.add_argument("--split", help="only tasks of this split")
    options.add_trial_options(parser, policy=False)
    jobs.add_job_options(parser)


def run(args: argparse.Namespace) -> int:
    ids = registry.expand(args.patterns, split=args.split)
    if not ids:
        raise UserError(f"no task matches {' '.join(args.patterns)}")
    kept = args.out is not None
    folder = args.out if kept else Path(tempfile.mkdtemp(prefix="envkit-check-"))
    try:
        outcome = jobs.run_job(check.plan(ids, options.base_spec(args)), folder, args)
        checks = check.judge(ids, outcome.results)
        sound = all(item.sound for item in checks) and not outcome.interrupted
        if args.json:
            options.dump({"sound": sound, "tasks": [{"sound": c.sound, **c.model_dump(mode="json")} for c in checks]})
        else:
            _print(checks)
        kept = kept or not sound
        if not sound and not args.json:
            print(f"evidence: {outcome.folder}", file=sys.stderr)
        return 130 if outcome.interrupted else 0 if sound else 1
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _print(checks: list[TaskCheck]) -> None:
    width = max(len(item.task) for item in checks)
    for item in checks:
        print(
            f"{item.task:<{width}}  {'sound' if item.sound else 'UNSOUND'}  oracle {_rewards(item.oracle)}  "
            f"noop {_rewards(item.noop)}  forged {_rewards(item.forged)}"
        )
        for problem in item.problems:
            print(f"{'':<{width}}    {problem}")
    bad = sum(not item.sound for item in checks)
    print(f"\n{len(checks)} tasks, {len(checks) - bad} sound, {bad} unsound")


def _rewards(rewards: tuple[float | None, ...]) -> str:
    return ",".join("-" if reward is None else f"{reward:.2f}" for reward in rewards)
