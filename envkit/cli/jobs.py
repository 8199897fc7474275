"""Running a job from the command line: the plan, the progress bar, Ctrl-C, and the table at the end."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envkit.cli.options import default_concurrency
from envkit.failure import UserError
from envkit.report.summary import GroupSummary, summarise
from envkit.trial.job import Job, JobResult
from envkit.trial.result import TrialSpec

__all__ = ["add_job_options", "report", "run_job", "table"]


def add_job_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, help="the run folder; one that holds this plan is resumed (default: a new one below runs/)"
    )
    parser.add_argument("--concurrency", type=int, default=None, help="trials at once (default: the number of cores)")
    parser.add_argument("--starts-per-s", type=float, default=None, help="start at most this many trials per second")


def run_job(specs: Sequence[TrialSpec], folder: Path, args: argparse.Namespace) -> JobResult:
    """Runs the plan to its end. Ctrl-C ends it cleanly and the result says so."""
    concurrency = default_concurrency() if args.concurrency is None else args.concurrency
    if concurrency < 1:
        raise UserError(f"--concurrency must be at least 1, found {concurrency}")
    job = Job(specs, folder, concurrency=concurrency, starts_per_s=args.starts_per_s, progress=not args.json)
    return asyncio.run(job.run())


def report(outcome: JobResult) -> dict[str, Any]:
    """A finished job as one JSON value: the rows of the table and a line per trial."""
    return {
        "folder": str(outcome.folder),
        "interrupted": outcome.interrupted,
        "failure": outcome.failure.model_dump(mode="json") if outcome.failure else None,
        "missing": list(outcome.missing),
        "damaged": [str(damage) for damage in outcome.damaged],
        "summary": [row.model_dump(mode="json") for row in summarise(outcome.results)],
        "trials": [result.line() for result in outcome.results],
    }


def table(rows: Sequence[GroupSummary]) -> None:
    """Prints the results table. What a mean leaves out always stands beside it."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (
        ("policy", "left"),
        ("harness", "left"),
        ("trials", "right"),
        ("scored", "right"),
        ("mean", "right"),
        ("bounds", "right"),
        ("perfect", "right"),
        ("turns", "right"),
        ("excluded", "left"),
    ):
        shown.add_column(name, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        excluded = ", ".join(f"{count} {kind}" for kind, count in row.failures.items()) or "none"
        shown.add_row(
            row.policy,
            row.harness,
            str(row.trials),
            str(row.scored),
            _number(row.mean),
            f"{_number(row.lower)}-{_number(row.upper)}" if row.excluded else "",
            "-" if row.perfect is None else f"{row.perfect:.0%}",
            "-" if row.turns is None else f"{row.turns:.1f}",
            excluded,
        )
    Console(width=None if sys.stdout.isatty() else 140).print(shown)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
