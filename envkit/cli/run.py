"""`envkit run`: one trial of one task, with its transcript and verdict."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from envkit import registry
from envkit.cli import jobs, options
from envkit.failure import UserError
from envkit.trial.result import TrialResult
from envkit.verifier import Outcome

__all__ = ["add_arguments", "run"]

#: How much of one message the transcript shows without --full.
SHOWN = 2000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", help="an id, or the path of a task directory")
    parser.add_argument("--full", action="store_true", help="show long messages whole")
    options.add_trial_options(parser)
    jobs.add_job_options(parser)


def run(args: argparse.Namespace) -> int:
    ids = registry.expand([args.task])
    if len(ids) != 1:
        raise UserError(f"expected one task, found {len(ids)} for {args.task!r}; `envkit eval` runs many")
    chosen = options.policies(args, default=["oracle"])
    if len(chosen) != 1:
        raise UserError("`envkit run` takes one policy; `envkit eval` compares several")
    spec = options.base_spec(args, task=ids[0], policy=chosen[0])
    folder = args.out or options.new_run_folder("run")
    outcome = jobs.run_job([spec], folder, args)
    result = outcome.results[0] if outcome.results else None
    if args.json:
        options.dump({"folder": str(outcome.folder), "result": result.model_dump(mode="json") if result else None})
        return outcome.exit_code
    if result is not None:
        attempt = outcome.folder / "trials" / result.trial_id / f"attempt-{len(result.attempts)}"
        _transcript(attempt / "trajectory.json", full=args.full)
        _verdict(result)
    print(f"\nresults: {outcome.folder}")
    return outcome.exit_code


def _transcript(path: Path, *, full: bool) -> None:
    """Prints an ATIF trajectory for people."""
    try:
        steps = json.loads(path.read_text())["steps"]
    except (OSError, ValueError, KeyError) as error:
        print(f"no transcript: {error}", file=sys.stderr)
        return
    for step in steps:
        print(f"[{step['source']}] {_cut(str(step.get('message') or ''), full)}".rstrip())
        for call in step.get("tool_calls") or ():
            print(f"  -> {call['function_name']} {_cut(json.dumps(call['arguments'], ensure_ascii=False), full)}")
        for answer in (step.get("observation") or {}).get("results") or ():
            print("  <- " + _cut(str(answer.get("content") or ""), full).replace("\n", "\n     ").rstrip())


def _cut(text: str, full: bool) -> str:
    if full or len(text) <= SHOWN:
        return text
    return f"{text[:SHOWN]} … ({len(text) - SHOWN} more characters; --full shows them)"


def _verdict(result: TrialResult) -> None:
    print()
    if result.verdict is not None:
        for criterion in result.verdict.criteria:
            mark = {Outcome.PASSED: "pass", Outcome.FAILED: "FAIL", Outcome.MISSING: "????"}[criterion.outcome]
            print(f"{mark}  {criterion.id}: {criterion.description}")
            if criterion.outcome is not Outcome.PASSED:
                print(f"      expected {criterion.expected}, found {criterion.actual} {criterion.message}".rstrip())
    if result.failure is not None:
        print(f"{result.status}: {result.failure.kind} at {result.failure.boundary}: {result.failure.message}")
    reward = "none" if result.reward is None else f"{result.reward:.3f}"
    print(f"reward {reward}, stop {result.stop}, {result.turns} turns, {len(result.attempts)} attempt(s)")
