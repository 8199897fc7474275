"""`envkit export`: a run's trials as files for other tools, with what was left out and why."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from envkit.cli import options
from envkit.failure import UserError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run folder, as `envkit eval`, `run` or `train` leaves it")
    parser.add_argument(
        "--format",
        required=True,
        help="atif (a folder of trajectories, ids included), openai or sharegpt (conversations), parquet (training "
        "samples), tinker, trl (rollouts) or trl-sft (tokenised conversations)",
    )
    parser.add_argument("--out", type=Path, help="file or folder, not there yet (default: in RUN/exports)")
    parser.add_argument(
        "--failed", action="store_true", help="also trials without a verdict; their rows have no reward"
    )
    parser.add_argument("--min-reward", type=float, metavar="R", help="only trials with at least this reward")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="longest row of a format of tokens")
    parser.add_argument(
        "--prompt-ids", action="store_true", help="atif: also every step's prompt ids (grows with turns squared)"
    )
    parser.add_argument(
        "--evaluations",
        action="store_true",
        help="of a training run, also the rollouts of its evaluations (atif always has them)",
    )
    parser.add_argument(
        "--may-train",
        action="store_true",
        help="I may train on these tasks, though a licence says evaluation only or can't be read",
    )


def run(args: argparse.Namespace) -> int:
    from envkit.export import FORMATS, ExportOptions, export_run
    from envkit.trial.kept import is_training_run

    if args.max_tokens is not None and args.max_tokens < 2:
        raise UserError(f"--max-tokens must be at least 2, found {args.max_tokens}")
    suffix = FORMATS.get(args.format, "")
    out = args.out or args.run / "exports" / f"{args.format}{suffix}"
    chosen = ExportOptions(
        failed=args.failed,
        min_reward=args.min_reward,
        max_tokens=args.max_tokens,
        prompt_ids=args.prompt_ids,
        may_train=args.may_train,
        evaluations=args.evaluations,
    )
    report = export_run(args.run, args.format, out, chosen)
    if args.json:
        options.dump(report.to_json())
        return 0 if report.rows else 1
    where = "whose files the training run kept" if is_training_run(args.run) else "in the run"
    print(f"{report.out}: {report.rows} rows of {report.exported} trials, of {report.trials} {where}")
    if report.sampled:
        lost = ", ".join(f"{count} {reason}" for reason, count in report.dropped.items()) or "none"
        print(f"  tokens: {report.tokens}; sampled {report.sampled}, delivered {report.delivered}, dropped: {lost}")
    if report.excluded:
        print("  left out: " + ", ".join(f"{count} {reason}" for reason, count in sorted(report.excluded.items())))
    if report.held_out:
        print(
            f"warning: {len(report.held_out)} tasks are kept for evaluation (split = eval), the first "
            f"{report.held_out[0]}; a model trained on them can't be measured by them",
            file=sys.stderr,
        )
    for problem in report.problems[:5]:
        print(f"  {problem}", file=sys.stderr)
    if len(report.problems) > 5:
        print(f"  and {len(report.problems) - 5} more (--json)", file=sys.stderr)
    return 0 if report.rows else 1
