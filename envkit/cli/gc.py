"""`envkit gc`: removes what dead runs left behind, and nothing of a live one's or of anybody else's."""

from __future__ import annotations

import argparse
import sys

from envkit.cli.options import dump
from envkit.trial import gc

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def run(args: argparse.Namespace) -> int:
    problems: list[str] = []
    removed = gc.collect(dry_run=args.dry_run, problems=problems)
    if args.json:
        dump({"dry_run": args.dry_run, "removed": removed, "problems": problems})
    else:
        for line in removed:
            print(line)
        print(f"{len(removed)} {'would be removed' if args.dry_run else 'removed'}")
        for line in problems:
            print(f"could not be collected: {line}", file=sys.stderr)
    return int(bool(problems))
