"""`envkit report`: one HTML file about an evaluation, which opens from disk without a network."""

from __future__ import annotations

import argparse
from pathlib import Path

from envkit.cli import options

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="the run folder")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="where it goes (default: RUN/report.html; with --regraded RUN/report-regraded.html)",
    )
    options.add_regraded(parser)
    parser.add_argument(
        "--no-causes", action="store_true", help="don't group low rewards by cause: conversations are not read"
    )


def run(args: argparse.Namespace) -> int:
    from envkit.report.run_page import write_run_report

    path = write_run_report(args.run, args.html, causes=not args.no_causes, regraded=args.regraded)
    if args.json:
        options.dump({"report": str(path), "bytes": path.stat().st_size})
    else:
        print(path)
    return 0
