"""`envkit eval`: policies on tasks, many trials, a table with intervals. Resumes a folder that holds the same plan."""

from __future__ import annotations

import argparse
import sys

from envkit import registry
from envkit.cli import jobs, options, scores
from envkit.failure import UserError
from envkit.report.evaluation import against_best, evaluate
from envkit.report.task_facts import write_facts

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("patterns", nargs="+", help="ids or globs, e.g. 'office/*'; or paths of task directories")
    parser.add_argument("--split", help="only tasks of this split")
    parser.add_argument(
        "-n", "--samples", "--attempts", type=int, default=1, help="attempts per task and policy: pass@k up to N (1)"
    )
    options.add_trial_options(parser)
    jobs.add_job_options(parser)


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
    if args.json:
        report = jobs.report(outcome)
        report["evaluation"] = [row.model_dump(mode="json") for row in rows]
        report["against_best"] = [None if found is None else found.model_dump(mode="json") for found in differences]
        options.dump(report)
    else:
        scores.print_rows(rows, differences)
        for line in jobs.why_excluded(outcome.results):
            print(line)
        print(f"\nresults: {outcome.folder}")
        for damage in outcome.damaged:
            print(f"damaged file, treated as not there: {damage}", file=sys.stderr)
        if outcome.failure is not None:
            print(f"stopped: {outcome.failure.message}", file=sys.stderr)
        if outcome.missing:
            print(
                f"{len(outcome.missing)} trials have not run; the same command with --out {outcome.folder} resumes",
                file=sys.stderr,
            )
    return outcome.exit_code
