"""`envkit gc`: removes what dead runs left behind, and nothing of a live one's or of anybody else's."""

from __future__ import annotations

import argparse

from envkit.cli.options import dump
from envkit.trial import gc

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def run(args: argparse.Namespace) -> int:
    removed = gc.collect(dry_run=args.dry_run)
    if args.json:
        dump({"dry_run": args.dry_run, "removed": removed})
    else:
        for line in removed:
            print(line)
        print(f"{len(removed)} {'would be removed' if args.dry_run else 'removed'}")
    return 0
