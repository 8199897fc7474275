"""Running a job from the command line: the plan, the progress bar, Ctrl-C, and the report at the end."""

from __future__ import annotations

import argparse
import asyncio
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from envkit import plugins
from envkit.cli import options
from envkit.failure import UserError
from envkit.report.summary import summarise
from envkit.trial.budget import Budget
from envkit.trial.job import Job, JobResult
from envkit.trial.result import Plugin, TrialResult, TrialSpec

__all__ = ["add_budget_options", "add_job_options", "check_plugins", "report", "run_job", "why_excluded"]


def add_job_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, help="the run folder; one that holds this plan is resumed (default: a new one below runs/)"
    )
    parser.add_argument(
        "--concurrency", type=int, default=None, help="trials at once (default: the number of cores; ray: its places)"
    )
    parser.add_argument(
        "--executor",
        default="process",
        metavar="NAME[:k=v,...]",
        help="where trials run: process (this machine, the default) or ray (a cluster); "
        "example: ray:address=HOST:6379,trials_per_host=32",
    )
    parser.add_argument(
        "--engine",
        action="append",
        default=[],
        metavar="URL",
        help="a vLLM server that trials sample from, by its address; while it has enough to do, nothing new starts",
    )
    parser.add_argument("--starts-per-s", type=float, default=None, help="start at most this many trials per second")


def add_budget_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-cost",
        type=float,
        metavar="USD",
        help="start nothing more when all attempts have cost so much; what runs is finished, the rest can be resumed",
    )
    parser.add_argument(
        "--max-total-tokens",
        type=int,
        metavar="N",
        help="the same for the tokens of all attempts, of prompts and sampled",
    )


def _budget(args: argparse.Namespace) -> Budget:
    limits = {
        "--max-cost": getattr(args, "max_cost", None),
        "--max-total-tokens": getattr(args, "max_total_tokens", None),
    }
    for option, value in limits.items():
        if value is not None and not 0 < value < math.inf:
            raise UserError(f"{option} must be a number above 0, found {value:g}")
    return Budget(*limits.values())


def run_job(specs: Sequence[TrialSpec], folder: Path, args: argparse.Namespace) -> JobResult:
    """Runs the plan to its end. Ctrl-C ends it cleanly and the result says so."""
    executor = options.plugin(args.executor, "--executor")
    concurrency = args.concurrency
    if concurrency is None:
        # One machine is bounded by its cores; a cluster says itself how many it holds.
        concurrency = options.default_concurrency() if executor.name == "process" else len(specs)
    if concurrency < 1:
        raise UserError(f"--concurrency must be at least 1, found {concurrency}")
    if args.starts_per_s is not None and not 0 < args.starts_per_s < math.inf:
        raise UserError(f"--starts-per-s must be a number above 0, found {args.starts_per_s:g}")
    budget = _budget(args)
    check_plugins(specs)
    job = Job(
        specs,
        folder,
        concurrency=concurrency,
        starts_per_s=args.starts_per_s,
        executor=plugins.construct("executors", executor.name, executor.options),
        engines=args.engine,
        progress=not args.json,
        budget=budget,
    )
    return asyncio.run(job.run())


def check_plugins(specs: Sequence[TrialSpec]) -> None:
    """Raises `UserError` for a plug-in that does not exist or refuses its options, before anything is started or
    written: every trial would fail of it."""
    seen: set[str] = set()
    for spec in specs:
        used: list[tuple[plugins.Group, Plugin]]
        used = [("harnesses", spec.harness), ("sandboxes", spec.sandbox), ("policies", spec.policy)]
        for group, plugin in used:
            key = f"{group} {plugin.model_dump_json()}"
            if key in seen:
                continue
            seen.add(key)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # said again by the trials
                if group == "harnesses" and not plugin.options:
                    plugins.resolve("harnesses", plugin.name)  # a task may bring the options that it needs
                else:
                    plugins.construct(group, plugin.name, plugin.options)


def why_excluded(results: Sequence[TrialResult]) -> list[str]:
    """A line for each kind of failure that left trials without a verdict: how many, and the first one's message."""
    found: dict[str, list[TrialResult]] = {}
    for result in results:
        if result.reward is None and result.failure is not None:
            found.setdefault(str(result.failure.kind), []).append(result)
    return [
        f"{len(those)} without a verdict ({kind}), the first {those[0].spec.task}: "
        + (those[0].failure.message if those[0].failure else "").strip()
        for kind, those in found.items()
    ]


def report(outcome: JobResult) -> dict[str, Any]:
    """A finished job as one JSON value: the rows of the table and a line per trial."""
    return {
        "folder": str(outcome.folder),
        "interrupted": outcome.interrupted,
        "failure": outcome.failure.model_dump(mode="json") if outcome.failure else None,
        "missing": list(outcome.missing),
        "damaged": [str(damage) for damage in outcome.damaged],
        "spent": asdict(outcome.spent),
        "over_budget": outcome.over_budget,
        "summary": [row.model_dump(mode="json") for row in summarise(outcome.results)],
        "trials": [result.line() for result in outcome.results],
    }
