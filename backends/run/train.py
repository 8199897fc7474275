"""`envkit train`: a training run from a plan (one TOML), resumed where its folder holds it already."""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envkit import plugins
from envkit.backend import Run, Trials
from envkit.backends.guards import Verdict, check_parts, failed
from envkit.backends.loop.clock import run_real
from envkit.backends.run.derive import Derived, derive
from envkit.backends.run.folder import claim, plan_toml
from envkit.backends.run.log import read_log
from envkit.backends.run.plan import Plan, make_plan, read_table, tasks_of
from envkit.backends.run.watch import METRICS
from envkit.cli import jobs, options
from envkit.failure import UserError
from envkit.overlap import compare
from envkit.trial.host import memory_available_mb
from envkit.trial.rollouts import TrialsAdapter
from envkit.trial.store import RunLock

__all__ = ["add_arguments", "check_held_out", "describe", "run", "train"]

#: Pairs of tasks that are too much alike, of which so many are named.
_PAIRS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", type=Path, help="the plan, a TOML file; docs/plan.md lists every key")
    parser.add_argument(
        "--set", action="append", default=[], metavar="k=v", dest="sets", help="e.g. loop.group_size=8; may come often"
    )
    parser.add_argument(
        "--out", type=Path, help="the run folder; one that holds this run is resumed (default: a new one below runs/)"
    )
    parser.add_argument(
        "--check", action="store_true", help="load the model, start the engines, run the guards on them, and end"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the resolved plan and what follows from it")


def run(args: argparse.Namespace) -> int:
    table = read_table(args.plan, args.sets)
    if args.json:
        table.setdefault("watching", {})["live"] = "off"
    plan = make_plan(table, where=str(args.plan))
    tasks, evaluated = tasks_of(plan)
    check(plan, tasks[0])
    if args.dry_run:
        _dry_run(plan, tasks, evaluated, args.json)
        return 0
    check_held_out(plan, tasks, evaluated)
    if args.check:
        return _checked(plan, args.out, args.json)
    folder = args.out or options.new_run_folder("train")
    try:
        done = train(plan, folder)
    except asyncio.CancelledError:
        print(f"ended at once; the same command with --out {folder} resumes", file=sys.stderr)
        return 130
    if args.json:
        options.dump(_result(done))
    else:
        _say(done, plan)
    return 130 if done.interrupted else 1 if done.failure is not None else 0


def _checked(plan: Plan, out: Path | None, as_json: bool) -> int:
    """Runs the guards on the backend's parts in a folder that is taken away again."""
    backend = plugins.resolve("backends", plan.backend)
    assemble = getattr(backend, "assemble", None)
    if assemble is None:
        raise UserError(f"backend {plan.backend!r} can't be checked: it has no `assemble` of trainer and engines")

    async def work(folder: Path) -> list[Verdict]:
        parts = await assemble(plan, folder)
        try:
            say = None if as_json else lambda verdict: print(verdict, flush=True)
            found: list[Verdict] = await check_parts(plan, parts, out or Path("runs"), thorough=True, say=say)
            return found
        finally:
            await asyncio.gather(parts.engines.close(), parts.trainer.close(), return_exceptions=True)

    with tempfile.TemporaryDirectory(prefix="envkit-check-") as folder:
        verdicts = run_real(work(Path(folder)))
    wrong = failed(verdicts) is not None
    if as_json:
        options.dump({"ok": not wrong, "guards": [verdict.to_json() for verdict in verdicts]})
    return 1 if wrong else 0


def check(plan: Plan, task: str) -> None:
    """Raises `UserError` for a harness, sandbox or policy that does not exist or refuses its options: before anything
    is started or written."""
    settings = [plan.trial_settings(), plan.evaluation_settings()]
    jobs.check_plugins([s.example(task) for s in settings if s is not None])
    plugins.resolve("executors", plan.trial.executor)


def check_held_out(plan: Plan, tasks: Sequence[str], evaluated: Sequence[str]) -> None:
    """Compares the tasks of the evaluation as wholes with those that are trained on, unless the plan says that they are
    no others. Builds their worlds; the words of files are read once on a machine.

    Raises:
        UserError: Some are nearly the same, and the plan does not allow it.
    """
    if plan.evaluation is None or not plan.evaluation.held_out or not evaluated:
        return
    found, unread = compare(tasks, evaluated)
    for line in unread:
        print(f"not compared with the other side of training and evaluation: {line}", file=sys.stderr)
    if not found:
        return
    lines = [f"  {pair}" for pair in found[:_PAIRS]]
    lines += [f"  and {len(found) - _PAIRS} more pairs"] if len(found) > _PAIRS else []
    what = f"{len({pair.second for pair in found})} of the evaluation's tasks are nearly ones that are trained on"
    if plan.evaluation.allow_overlap:
        print("\n".join([f"{what}, which the plan allows:", *lines]), file=sys.stderr)
        return
    raise UserError(
        "\n".join([f"{what}, so that it would measure memory:", *lines])
        + "\nleave them out on one side (tasks.exclude), or set evaluation.allow_overlap = true"
    )


def train(plan: Plan, folder: Path) -> Run:
    """Runs a plan in a folder to its end, and from where it was if the folder holds it.

    Raises:
        UserError: Another run or another plan is in the folder, or the plan names what does not exist.
        EnvkitError: A part did not come up.
    """
    lock = RunLock(folder)
    lock.acquire()
    try:
        claim(folder, plan)
        return run_real(_train(plan, folder, lock.descriptor))
    finally:
        lock.release()


async def _train(plan: Plan, folder: Path, descriptor: int) -> Run:
    tasks, evaluated = tasks_of(plan)
    trials = TrialsAdapter(
        plan.trial_settings(),
        evaluation=plan.evaluation_settings(),
        folder=folder,
        tasks=[*tasks, *evaluated],
        executor=plan.executor(),
        keep=plan.trial.keep,
        concurrency=plan.loop.admission.max_running,
        descriptors=[descriptor],
    )
    backend = plugins.resolve("backends", plan.backend)
    return await _beside(trials, backend, plan, folder)


async def _beside(trials: TrialsAdapter, backend: Any, plan: Plan, folder: Path) -> Run:
    """Loads what trials need while the backend loads its model; a fault of either ends both."""
    loading = asyncio.ensure_future(trials.start())
    running = asyncio.ensure_future(_as_run(backend, plan, trials, folder))
    try:
        await asyncio.wait({loading, running}, return_when=asyncio.FIRST_COMPLETED)
        if loading.done() and loading.exception() is not None:
            loading.result()
        return await running
    finally:
        for task in (loading, running):
            task.cancel()
        await asyncio.gather(loading, running, return_exceptions=True)
        await trials.close()


async def _as_run(backend: Any, plan: Plan, trials: Trials, folder: Path) -> Run:
    done: Run = await backend.run(plan, trials, folder)
    return done


def describe(plan: Plan, tasks: list[str], evaluated: list[str]) -> Derived:
    """What follows from a plan on this machine."""
    backend = plugins.resolve("backends", plan.backend)
    own: Mapping[str, Any] = getattr(backend, "derive", lambda plan: {})(plan)
    return derive(plan, len(tasks), len(evaluated), own, memory_available_mb=memory_available_mb())


def _dry_run(plan: Plan, tasks: list[str], evaluated: list[str], as_json: bool) -> None:
    found = describe(plan, tasks, evaluated)
    if as_json:
        options.dump(
            {
                "plan": plan.model_dump(mode="json"),
                "derived": found.to_json(),
                "tasks": tasks,
                "evaluation_tasks": evaluated,
            }
        )
        return
    print(plan_toml(plan).rstrip())
    print("\n# What follows from it:")
    for name, value in found.figures.items():
        print(f"#   {name}: {value:,}" if isinstance(value, int) else f"#   {name}: {value}")
    print("# Trials at once, at most:")
    for bound in found.bounds:
        mark = "  <- binds" if bound is found.binds else ""
        print(f"#   {bound.name}: {'-' if bound.trials is None else format(bound.trials, ',')}  ({bound.why}){mark}")
    for note in found.notes:
        print(f"# Note: {note}")


def _evaluations(folder: Path) -> dict[int, float]:
    """Mean rewards of a run's evaluations by step, of earlier lives too; not a number where none had a verdict."""
    found: dict[int, float] = {}
    for record in read_log(folder / METRICS):
        if record.get("kind") == "evaluation":
            mean = record.get("metrics", {}).get("eval/reward/mean")
            found[int(record["step"])] = float(mean) if isinstance(mean, int | float) else math.nan
    return dict(sorted(found.items()))


def _result(done: Run) -> dict[str, Any]:
    return {
        "folder": str(done.folder),
        "step": done.step,
        "checkpoint": str(done.checkpoint) if done.checkpoint else None,
        "interrupted": done.interrupted,
        "failure": done.failure.model_dump(mode="json") if done.failure else None,
        "report": str(done.folder / "report.html"),
        "evaluations": {
            str(step): mean if math.isfinite(mean) else None for step, mean in _evaluations(done.folder).items()
        },
    }


def _say(done: Run, plan: Plan) -> None:
    print(f"{done.step} of {plan.loop.steps} steps; newest checkpoint: {done.checkpoint or 'none'}")
    evaluations = _evaluations(done.folder)
    if evaluations:
        shown = list(evaluations.items())
        shown = shown if len(shown) <= 6 else [shown[0], *shown[-5:]]
        print("mean reward of evaluations: " + ", ".join(f"{mean:.3f} at step {step}" for step, mean in shown))
    print(f"report: {done.folder / 'report.html'}")
    if done.failure is not None:
        print(f"stopped: {done.failure.kind}: {done.failure.message}", file=sys.stderr)
    if done.step < plan.loop.steps:
        print(f"the same command with --out {done.folder} resumes", file=sys.stderr)
