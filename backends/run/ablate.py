"""`envkit ablate`: arms of one plan at equal budget and seeds, and the table of what they came to, with intervals."""

from __future__ import annotations

import argparse
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from envkit.backends.run.arms import compare, read_arm_seed, table_markdown
from envkit.backends.run.folder import plan_toml
from envkit.backends.run.plan import Plan, make_plan, read_table, tasks_of
from envkit.backends.run.train import check
from envkit.cli import options
from envkit.failure import UserError
from envkit.trial.store import json_text, write_atomic

__all__ = ["Arm", "add_arguments", "arms_of", "run"]


@dataclass(frozen=True, slots=True)
class Arm:
    """One variant: what it is called and what it sets."""

    name: str
    sets: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", type=Path, help="the plan, a TOML file, with an [evaluation]")
    parser.add_argument(
        "--arm",
        action="append",
        default=[],
        metavar="[NAME: ]k=v ...",
        help="a variant: one or several settings, e.g. --arm algorithm.reduction=token_mean "
        "--arm 'ppo: algorithm.loss.name=ppo algorithm.loss.clip_high=0.3'",
    )
    parser.add_argument("--seeds", type=int, default=3, help="runs of each arm, with seeds of the plan's and up (3)")
    parser.add_argument("--no-base", action="store_true", help="leave out the plan as it is; the first arm is the base")
    parser.add_argument("--set", action="append", default=[], metavar="k=v", dest="sets", help="for every arm")
    parser.add_argument("--out", type=Path, help="the folder; what is done in it is not done again")
    parser.add_argument("--dry-run", action="store_true", help="check every arm's plan and print what would run")


def run(args: argparse.Namespace) -> int:
    if args.seeds < 1:
        raise UserError(f"--seeds must be at least 1, found {args.seeds}")
    arms = arms_of(args.arm, base=not args.no_base)
    if len(arms) < 2:
        raise UserError("an ablation needs two arms: give --arm k=v, and again with --no-base")
    plans = {(arm, n): _plan(args.plan, args.sets, arm, n, args.json) for n in range(args.seeds) for arm in arms}
    _check(plans)
    if args.dry_run:
        for arm in arms:
            print(f"{arm.name}: {' '.join(arm.sets) or 'the plan as it is'}")
        steps = next(iter(plans.values())).loop.steps
        print(f"{len(plans)} runs of {steps} steps: {len(arms)} arms, {args.seeds} seeds")
        return 0
    folder = args.out or options.new_run_folder("ablate")
    interrupted = False
    for (arm, n), plan in plans.items():  # seed by seed: cut short, every arm has had the same seeds
        if not interrupted and not _whole(folder, arm, n, plan):
            interrupted = _train(_folder(folder, arm, n), plan, quiet=args.json) == 130
    found = [read_arm_seed(arm.name, n, _folder(folder, arm, n), plan.loop.steps) for (arm, n), plan in plans.items()]
    rows = compare(sorted(found, key=lambda run: [arm.name for arm in arms].index(run.arm)))
    folder.mkdir(parents=True, exist_ok=True)
    table = table_markdown(rows)
    write_atomic(folder / "table.md", table)
    write_atomic(folder / "ablation.json", json_text({"arms": [row.to_json() for row in rows]}))
    if args.json:
        options.dump({"folder": str(folder), "arms": [row.to_json() for row in rows]})
    else:
        print(table)
        print(f"results: {folder}")
        if interrupted:
            print(f"interrupted; the same command with --out {folder} goes on", file=sys.stderr)
    return 130 if interrupted else 0 if all(row.seeds == row.planned for row in rows) else 1


def arms_of(texts: Sequence[str], *, base: bool = True) -> list[Arm]:
    """Reads `--arm` texts: `k=v`, several of them, with or without `name: ` before.

    Raises:
        UserError: One is no such text, or two arms have one name.
    """
    arms = [Arm("base", ())] if base else []
    for text in texts:
        match = re.match(r"^\s*(?:([A-Za-z0-9][A-Za-z0-9._-]*):\s+)?(.*)$", text, re.S)
        try:
            sets = tuple(shlex.split(match[2])) if match else ()
        except ValueError as error:
            raise UserError(f"--arm {text!r}: {error}") from error
        if not sets or not all("=" in part for part in sets):
            raise UserError(f"--arm: expected 'k=v', 'k=v k2=v2' or 'name: k=v', found {text!r}")
        assert match is not None
        # Of a key, the last word; of a value, all: `loss.clip=0.2` is `clip=0.2`.
        split = [part.partition("=") for part in sets]
        shown = "_".join(f"{key.rpartition('.')[2]}={value}" for key, _, value in split)
        arms.append(Arm(match[1] or re.sub(r"[^A-Za-z0-9.=-]+", "-", shown).strip("-.")[:60] or "arm", sets))
    names = [arm.name for arm in arms]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"two arms are called {twice!r}; name them, e.g. --arm 'other: k=v'")
    return arms


def _plan(path: Path, sets: Sequence[str], arm: Arm, number: int, quiet: bool) -> Plan:
    table = read_table(path, [*sets, *arm.sets])
    if quiet:
        table.setdefault("watching", {})["live"] = "off"
    plan = make_plan(table, where=f"arm {arm.name!r}")
    changes: dict[str, Any] = {"loop": plan.loop.model_copy(update={"seed": plan.loop.seed + number})}
    wandb = plan.watching.wandb
    if wandb is not None:
        named = wandb.model_copy(update={"name": f"{wandb.name or 'ablate'}-{arm.name}-seed-{number}"})
        changes["watching"] = plan.watching.model_copy(update={"wandb": named})
    return plan.model_copy(update=changes)


def _check(plans: dict[tuple[Arm, int], Plan]) -> None:
    """Every arm can run, and all have the same budget and are measured alike."""
    first: Plan | None = None
    for (arm, number), plan in plans.items():
        if number:
            continue
        tasks, evaluated = tasks_of(plan)
        check(plan, tasks[0])
        if plan.evaluation is None or not plan.evaluation.last:
            raise UserError(f"arm {arm.name!r}: an ablation is measured by an evaluation after the last step: the plan "
                            "needs [evaluation] with last = true")  # fmt: skip
        if first is None:
            first = plan
            continue
        assert first.evaluation is not None
        for what, here, there in (
            ("loop.steps", plan.loop.steps, first.loop.steps),
            ("loop.groups_per_step", plan.loop.groups_per_step, first.loop.groups_per_step),
            ("loop.group_size", plan.loop.group_size, first.loop.group_size),
            ("evaluation.samples", plan.evaluation.samples, first.evaluation.samples),
            ("the evaluation's tasks", evaluated, tasks_of(first)[1]),
        ):
            if here != there:
                raise UserError(f"arm {arm.name!r}: {what} differs from the first arm's: arms have equal budgets")


def _folder(folder: Path, arm: Arm, number: int) -> Path:
    return folder / arm.name / f"seed-{number}"


def _whole(folder: Path, arm: Arm, number: int, plan: Plan) -> bool:
    """It was run to its end, its last evaluation included."""
    found = read_arm_seed(arm.name, number, _folder(folder, arm, number), plan.loop.steps)
    return found.steps >= plan.loop.steps and bool(found.after)


def _train(folder: Path, plan: Plan, *, quiet: bool) -> int:
    """One run, in a process of its own: models and engines of one arm leave nothing behind for the next."""
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "asked.toml"
    written.write_text(plan_toml(plan), encoding="utf-8")
    command = [sys.executable, "-m", "envkit.cli.main", "train", str(written), "--out", str(folder)]
    print(f"== {folder}", file=sys.stderr, flush=True)
    process = subprocess.Popen(
        [*command, *(["--json"] if quiet else [])],
        stdout=subprocess.DEVNULL if quiet else None,
        stdin=subprocess.DEVNULL,
    )
    with _passed_on(process) as asked:
        code = process.wait()
    return 130 if asked else code


@contextmanager
def _passed_on(process: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Hands signals to the run; a terminal's Ctrl-C reaches it by itself. The list says whether there was one."""
    asked: list[int] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        asked.append(number)
        if number == signal.SIGTERM:
            process.send_signal(number)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
