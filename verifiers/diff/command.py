"""`envkit diff A B`: what changed between two files, folders, worlds or archives of worlds."""

from __future__ import annotations

import argparse
import fnmatch
import json
from pathlib import Path

from envkit.verifiers.diff.report import as_html, as_text, is_derived
from envkit.verifiers.diff.trees import diff_paths

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", type=Path, metavar="A", help="a file, a folder, or a world's archive (zip, tar.gz)")
    parser.add_argument("after", type=Path, metavar="B", help="the other one, of the same sort")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with both sides beside each other")
    parser.add_argument(
        "--only", action="append", metavar="GLOB", help="in folders: only these paths (may be repeated)"
    )
    parser.add_argument("--no-derived", action="store_true", help="leave out values that only follow from other edits")


def run(args: argparse.Namespace) -> int:
    """Exits 0 where nothing differs and 1 where something does, as `diff` does."""
    globs: list[str] | None = args.only
    only = None if globs is None else (lambda path: any(fnmatch.fnmatch(path, glob) for glob in globs))
    findings = diff_paths(args.before, args.after, only)
    if args.no_derived:
        findings = [finding for finding in findings if not is_derived(finding)]
    if args.html is not None:
        args.html.write_text(as_html(findings, str(args.before), str(args.after)), encoding="utf-8")
    if args.json:
        print(json.dumps([f.model_dump(mode="json", exclude_defaults=True) for f in findings], ensure_ascii=False))
    else:
        print(as_text(findings))
    return 1 if findings else 0
