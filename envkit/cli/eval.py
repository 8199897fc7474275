"""`envkit eval`: policies on tasks, many trials, a table with intervals, a page. Resumes what holds the same plan."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from envkit import registry
from envkit.cli import jobs, options, scores
from envkit.failure import UserError
from envkit.report.evaluation import against_best, evaluate
from envkit.report.task_facts import write_facts
from envkit.trial.job import JobResult

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("patterns", nargs="+", help="ids or globs, e.g. 'office/*'; or paths of task directories")
    parser.add_argument("--split", help="only tasks of this split")
    parser.add_argument(
        "-n", "--samples", "--attempts", type=int, default=1, help="attempts per task and policy: pass@k up to N (1)"
    )
    options.add_trial_options(parser)
    jobs.add_job_options(parser)
    jobs.add_budget_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.samples < 1:
        raise UserError(f"--samples must be at least 1, found {args.samples}")
    ids = registry.expand(args.patterns, split=args.split)
    if not ids:
        raise UserError(
            f"no task matches {' '.join(args.patterns)}" + (f" in split {args.split!r}" if args.split else "")
        )
    base = options.base_spec(args)
    specs = [
        base.model_copy(update={"task": id, "policy": policy, "sample": sample, "seed": base.seed + sample})
        for policy in options.policies(args)
        for id in ids
        for sample in range(args.samples)
    ]
    folder = args.out or options.new_run_folder("eval")
    outcome = jobs.run_job(specs, folder, args)
    facts = write_facts(outcome.folder, ids)
    rows = evaluate(outcome.results, facts)
    differences = against_best(outcome.results, facts)
    page = _write_page(outcome)
    if args.json:
        report = jobs.report(outcome)
        report["report"] = None if page is None else str(page)
        report["evaluation"] = [row.model_dump(mode="json") for row in rows]
        report["against_best"] = [None if found is None else found.model_dump(mode="json") for found in differences]
        options.dump(report)
    else:
        scores.print_rows(rows, differences)
        for line in jobs.why_excluded(outcome.results):
            print(line)
        print(f"\nresults: {outcome.folder}")
        if page is not None:
            print(f"report: {page}")
        if outcome.spent.text():
            print(f"spent, with every attempt that was made again: {outcome.spent.text()}")
        for damage in outcome.damaged:
            print(f"damaged file, treated as not there: {damage}", file=sys.stderr)
        if outcome.failure is not None:
            print(f"stopped: {outcome.failure.message}", file=sys.stderr)
        if outcome.over_budget is not None:
            print(f"nothing new was started: {outcome.over_budget}", file=sys.stderr)
        if outcome.missing:
            more = (
                "the same command with more of it and" if outcome.over_budget is not None else "the same command with"
            )
            print(
                f"incomplete: {len(outcome.missing)} of {len(specs)} trials have not run, and the table is without "
                f"them; {more} --out {outcome.folder} resumes",
                file=sys.stderr,
            )
    return outcome.exit_code


def _write_page(outcome: JobResult) -> Path | None:
    """The HTML report beside the results; None, and why, where it can't be written: the trials were dear, the page can
    be made again."""
    from envkit.report.run_page import write_run_report

    try:
        return write_run_report(outcome.folder, results=outcome.results)
    except Exception as error:  # noqa: BLE001 - a capture point: no fault of the page costs the evaluation
        print(
            f"the HTML report was not written ({type(error).__name__}: {error}); "
            f"`envkit report {outcome.folder}` tries again",
            file=sys.stderr,
        )
        return None
