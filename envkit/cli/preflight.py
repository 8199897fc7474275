"""`envkit preflight`: the whole set once at training's concurrency, and its error rate against a gate.

Exit codes beside the usual ones: 1 where the gate is missed or the run came to no end, 3 where there are too few trials
to say.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from envkit import registry
from envkit.cli import jobs, options
from envkit.failure import UserError
from envkit.report.preflight import Ending, Preflight, Stage, preflight
from envkit.report.stored import StoredRun
from envkit.report.triage.case import shorten
from envkit.trial.store import write_atomic

__all__ = ["add_arguments", "run"]

#: Rows of a table that a person is shown; `--json` and preflight.json have all.
SHOWN = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("patterns", nargs="*", help="ids or globs, e.g. 'office/*'; or paths of task directories")
    parser.add_argument("--of", type=Path, metavar="RUN", help="report on a run that is there; run nothing")
    parser.add_argument("--split", help="only tasks of this split")
    parser.add_argument("-n", "--samples", type=int, default=1, help="trials per task and policy (default 1)")
    parser.add_argument("--gate", default="0.5", metavar="PERCENT", help="highest error rate let through (default 0.5)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the interval on the rate (default 0.95)")
    parser.add_argument(
        "--count",
        choices=[str(e) for e in Ending],
        default="any",
        help="any: every trial that met an error counts (default); lost: only those that no retry cured",
    )
    options.add_trial_options(parser)
    jobs.add_job_options(parser)


def run(args: argparse.Namespace) -> int:
    gate = _percent(args.gate)
    if not 0.5 <= args.confidence < 1.0:
        raise UserError(f"--confidence must be from 0.5 to below 1, found {args.confidence:g}")
    if (args.of is None) == (not args.patterns):
        raise UserError("give the tasks to run, or --of RUN to report on a run that is there")
    stopped, interrupted = None, False
    asked = args.concurrency
    folder = args.of
    if folder is None:
        if asked is None:
            asked = options.default_concurrency()
            print(f"at {asked} trials at once; give --concurrency what training will use", file=sys.stderr)
        folder, stopped, interrupted = _run_set(args)
    stored = StoredRun(folder)
    report = preflight(
        stored.results(),
        stored.attempts,
        folder=str(folder),
        planned=stored.planned,
        gate=gate,
        confidence=args.confidence,
        counted=Ending(args.count),
        asked=asked,
        stopped=stopped,
    )
    if args.of is None:
        told = json.dumps(report.model_dump(mode="json"), ensure_ascii=False, indent=1)
        write_atomic(Path(folder) / "preflight.json", told + "\n")
    if args.json:
        options.dump(report.model_dump(mode="json"))
    else:
        _print(report)
        for damage in stored.damaged:
            print(f"damaged file, treated as not there: {damage}", file=sys.stderr)
    return 130 if interrupted else report.exit_code


def _run_set(args: argparse.Namespace) -> tuple[Path, str | None, bool]:
    """Runs the set; its folder, why it came to no end (None if it did), and whether somebody stopped it."""
    if args.samples < 1:
        raise UserError(f"--samples must be at least 1, found {args.samples}")
    ids = registry.expand(args.patterns, split=args.split)
    if not ids:
        raise UserError(f"no task matches {' '.join(args.patterns)}")
    base = options.base_spec(args)
    specs = [
        base.model_copy(update={"task": id, "policy": policy, "sample": sample, "seed": base.seed + sample})
        for policy in options.policies(args, default=["oracle"])
        # Samples outermost: the first minutes see every task, and the same task's trials don't run side by side only.
        for sample in range(args.samples)
        for id in ids
    ]
    folder = args.out or options.new_run_folder("preflight")
    outcome = jobs.run_job(specs, folder, args)
    stopped = "it was interrupted" if outcome.interrupted else None
    if outcome.failure is not None:
        stopped = f"it stopped: {outcome.failure.message}"
    return outcome.folder, stopped, outcome.interrupted


def _percent(text: str) -> float:
    """A share given in percent, with or without the sign."""
    try:
        share = float(text.strip().removesuffix("%")) / 100.0
    except ValueError:
        share = -1.0
    if not 0.0 < share < 1.0:
        raise UserError(f"--gate is a number of percent above 0 and below 100, such as 0.5, found {text!r}")
    return share


def _print(report: Preflight) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False, markup=False)

    def table(*columns: str, rows: list[list[str]], most: int = SHOWN) -> None:
        shown = Table(box=None, pad_edge=False, header_style="bold")
        for number, name in enumerate(columns):
            shown.add_column(name, justify="left" if number == 0 or name in ("boundary", "kinds") else "right")
        for row in rows[:most]:
            shown.add_row(*row)
        console.print(shown)
        if len(rows) > most:
            print(f"... and {len(rows) - most} more (--json has all)")
        print()

    if report.faults:
        table(
            "error", "boundary", "trials", "attempts", "cured", "tasks",
            rows=[
                [f.kind, f.boundary, str(f.trials), str(f.attempts), str(f.cured), str(f.tasks)] for f in report.faults
            ],
        )  # fmt: skip
        for fault in report.faults[:SHOWN]:
            print(f"{fault.kind}: {fault.trial_id} attempt {fault.attempt}: {_line(fault.message)}")
        print()
        table(
            "task", "trials", "errors", "lost", "kinds",
            rows=[
                [t.task, str(t.trials), str(t.errors), str(t.lost), ", ".join(f"{n} {k}" for k, n in t.kinds.items())]
                for t in report.tasks
            ],
        )  # fmt: skip
    table("stage", "median", "90 %", "99 %", "longest", "share", rows=[_stage_row(s) for s in report.stages], most=99)
    for note, count in report.notes.items():
        print(f"clean-up, {count}x: {_line(note)}")
    print(
        f"{report.trials} trials, {report.attempts} attempts, {report.retries} retries; {report.error.count} trials "
        f"met an error, {report.lost.count} are lost; at most {report.peak} at once ({report.mean_running:.1f} on "
        f"average), {report.wall_s:.1f} s"
    )
    print(f"{report.verdict.upper().replace('_', ' ')}: {report.why}")
    print(f"\nresults: {report.folder}")


def _stage_row(stage: Stage) -> list[str]:
    times = [f"{seconds:.2f} s" for seconds in (stage.p50_s, stage.p90_s, stage.p99_s, stage.max_s)]
    return [f"{stage.stage} ({stage.about})", *times, f"{stage.share:.0%}"]


def _line(text: str) -> str:
    return shorten(text, 240)
