"""`envkit view`: a local web page over runs: trials, conversations, files, criteria, tokens, comparison."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from pathlib import Path

from envkit.failure import UserError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="RUN", help="run folders, or folders with runs below (default: runs/)"
    )
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1 (default: any free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open nothing")


def run(args: argparse.Namespace) -> int:
    from envkit.view import find_runs, serve

    if not 0 <= args.port <= 65535:
        raise UserError(f"--port must be between 0 and 65535, found {args.port}")
    folders = args.runs or [Path("runs")]
    if not args.runs and not folders[0].is_dir():
        raise UserError("there is no folder runs/ here; name a run folder: envkit view PATH")
    runs = find_runs(folders)

    def opened(address: str) -> None:
        if args.json:
            import json

            print(json.dumps({"address": address, "runs": {key: str(path) for key, path in runs.items()}}), flush=True)
        else:
            print(f"{len(runs)} run{'s' * (len(runs) != 1)}; Ctrl-C ends it\n\n  {address}\n", flush=True)
        if not args.no_browser and sys.stdout.isatty():
            webbrowser.open(address)

    serve(runs, port=args.port, opened=opened)
    return 0
