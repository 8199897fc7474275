"""`envkit check`: the self-test of tasks, as trials in a job of its own."""

from __future__ import annotations

import argparse
import asyncio
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
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a report by pack, as Markdown")
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
        examined = asyncio.run(_examine(ids)) if not outcome.interrupted else {}
        checks = check.judge(ids, outcome.results, examined)
        if args.report is not None:
            args.report.write_text(check.report(checks), encoding="utf-8")
        sound = all(item.sound for item in checks) and not outcome.interrupted
        if args.json:
            told = [{"sound": c.sound, **c.model_dump(mode="json")} for c in checks]
            sums = [pack.model_dump(mode="json") for pack in check.packs(checks)]
            options.dump({"sound": sound, "packs": sums, "tasks": told})
        else:
            _print(checks)
        kept = kept or not sound
        if not sound and not args.json:
            print(f"evidence: {outcome.folder}", file=sys.stderr)
        return 130 if outcome.interrupted else 0 if sound else 1
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


async def _examine(ids: list[str]) -> dict[str, check.Examined]:
    """One after the other: a judge's rate is shared, and most tasks have nothing to ask it."""
    return {task: await check.examine(task) for task in ids}


def _print(checks: list[TaskCheck]) -> None:
    width = max(len(item.task) for item in checks)
    for item in checks:
        print(
            f"{item.task:<{width}}  {'sound' if item.sound else 'UNSOUND'}  oracle {_rewards(item.oracle)}  "
            f"noop {_rewards(item.noop)}  forged {_rewards(item.forged)}"
        )
        for problem in item.problems:
            print(f"{'':<{width}}    {problem}")
        if item.harbor:
            print(f"{'':<{width}}    (Harbor can't run it: {'; '.join(item.harbor)})")
    print()
    for pack in check.packs(checks):
        judged = f", {pack.examples} examples of criteria judged" if pack.examples else ""
        print(
            f"{pack.pack}: {pack.tasks} tasks, {pack.sound} sound, {pack.tasks - pack.sound} unsound; "
            f"Harbor can run {pack.harbor}{judged}"
        )


def _rewards(rewards: tuple[float | None, ...]) -> str:
    return ",".join("-" if reward is None else f"{reward:.2f}" for reward in rewards)
