"""`envkit triage`: why trials of a run got little reward, grouped by cause, with the evidence."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from pathlib import Path

from envkit.cli import options
from envkit.failure import UserError, did_you_mean
from envkit.report.triage import CAUSES, Training, Triage, triage

__all__ = ["add_arguments", "run"]

#: Suspect tasks and criteria that a person is shown.
SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("--below", type=float, default=1.0, help="look into rewards below this (default 1.0)")
    parser.add_argument("--examples", type=int, default=3, help="trials named for each cause (default 3)")
    parser.add_argument("--task", metavar="GLOB", help="only tasks whose id matches, e.g. 'office/*'")
    options.add_regraded(parser)
    parser.add_argument("--cause", metavar="ID", help="show only this group")


def run(args: argparse.Namespace) -> int:
    known = [cause.id for cause in CAUSES]
    if args.cause is not None and args.cause not in known:
        raise UserError(f"no cause {args.cause!r}{did_you_mean(args.cause, known)}; causes: {', '.join(known)}")
    if args.examples < 1:
        raise UserError(f"--examples must be at least 1, found {args.examples}")
    pattern = args.task
    report = triage(
        args.run,
        below=args.below,
        examples=args.examples,
        regraded=args.regraded,
        task=None if pattern is None else lambda task: fnmatch.fnmatchcase(task, pattern),
    )
    if args.cause is not None:
        there = ", ".join(group.cause for group in report.groups) or "none"
        report = report.model_copy(
            update={
                "groups": tuple(g for g in report.groups if g.cause == args.cause),
                "suspects": tuple(s for s in report.suspects if s.cause == args.cause),
            }
        )
    if args.json:
        options.dump(report.model_dump(mode="json"))
    else:
        _print(report)
        if args.cause is not None and not report.groups:
            print(f"\nno trial has {args.cause} as its primary cause; causes found: {there}")
    return 0


def _print(report: Triage) -> None:
    if report.training is not None:
        _print_training(report.training)
    mean = "-" if report.mean is None else f"{report.mean:.3f}"
    what = "trials" if report.training is None else "kept rollouts"
    print(
        f"{report.trials} {what}, mean reward {mean}; {report.low} looked into: {report.scored_low} scored below "
        f"{report.below:g}, {report.without_verdict} without a verdict"
        + (f"; {report.cancelled} cancelled ones left out" if report.cancelled else "")
    )
    if report.suspects:
        print(
            "\nEvery attempt of these tasks fails the same way:"
            if report.training is None
            else f"\nNo rollout of these tasks got {report.below:g}, and every kept one fails the same way:"
        )
        for suspect in report.suspects[:SHOWN]:
            mark = "likely an environment fault" if suspect.environment else "beyond this model, or badly put"
            detail = f" ({suspect.detail})" if suspect.detail else ""
            print(f"  {suspect.task}: {suspect.trials} of {suspect.trials}, {suspect.title}{detail} -- {mark}")
            print(f"      {suspect.example.excerpt}")
        if len(report.suspects) > SHOWN:
            print(f"  ... and {len(report.suspects) - SHOWN} more (--json has all)")
    elif report.single and report.low and report.training is None:
        print("(Every task was tried once; with -n 4 or so, tasks at fault themselves stand out.)")
    for group in report.groups:
        mean = "-" if group.mean is None else f"{group.mean:.3f}"
        print(
            f"\n{group.cause}: {group.title}\n  {group.trials} trials ({group.share:.0%}), mean reward {mean}, "
            f"{group.task_count} tasks (at most {group.per_task_max} of one)"
            + (f"; {group.also} more show it too" if group.also else "")
        )
        if group.details:
            print("  " + "; ".join(f"{count}x {detail}" for detail, count in group.details.items()))
        for example in group.examples:
            turn = "" if example.turn is None else f" turn {example.turn}"
            print(f"  {example.folder}{turn}: {example.excerpt}")
        print(f"  to do: {group.todo}")
    many = [c for c in report.criteria if c.tasks > 1]
    if many:
        print("\nCriteria that fail in more than one task:")
        for criterion in many[:SHOWN]:
            about = f" ({criterion.description})" if criterion.description else ""
            print(f"  {criterion.id}{about}: {criterion.failed} trials of {criterion.tasks} tasks")
    if report.unreadable:
        print(f"\n{report.unreadable} trajectories could not be read; those trials are grouped by what is left")
    for note in report.notes:
        print(note, file=sys.stderr)


def _print_training(training: Training) -> None:
    """How much of a training run the rest speaks of."""
    mean = "-" if training.mean is None else f"{training.mean:.3f}"
    kept = f"{training.kept:,} of {training.ended:,}" if training.kept <= training.ended else f"{training.kept:,}"
    print(
        f"a training run: {training.ended:,} rollouts ended, mean reward {mean}, {training.failed:,} without a verdict"
        f"; the files of {kept} were kept, and only those can be looked into"
    )
    keep = training.keep
    if keep is None or keep.rollouts == "all" or training.kept >= training.ended > 0:
        return
    if keep.rollouts == "none":
        print('trial.keep.rollouts is \'none\': resume the run with trial.keep.rollouts="some" or "all" to see more')
    else:
        print(
            f"trial.keep: one group in {keep.every}, whole, and up to {keep.failures} failures beside them, which "
            "therefore weigh more here than in the run"
        )
