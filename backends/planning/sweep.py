"""`envkit sweep`: Megatron layouts that fit, ranked by estimated step time, and timed for real where there are ranks"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from envkit.backends.loop.clock import run_real
from envkit.backends.megatron.config import MegatronTrainerConfig
from envkit.backends.planning.command import add_subject, subject_from
from envkit.backends.planning.estimate import Subject, step_under
from envkit.backends.planning.gpus import GIB
from envkit.backends.planning.layouts import Fitting, fitting, nearest, shown
from envkit.backends.planning.speed import Step
from envkit.backends.planning.timing import Timed, time_layouts
from envkit.backends.run.plan import Plan
from envkit.cli import options
from envkit.failure import UserError

__all__ = ["Ranked", "add_arguments", "rank", "run"]

Ranked = tuple[Fitting, tuple[Step, Step, Step]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    parser.add_argument("--world", type=int, help="training ranks (default: trainer.world)")
    parser.add_argument("--top", type=int, default=10, help="how many are shown (default 10)")
    parser.add_argument(
        "--measure", type=int, default=0, metavar="N", help="time real steps of the best N, on this machine or cluster"
    )
    parser.add_argument("--tokens", type=int, help="of a timed step (default: one micro-batch for every replica)")
    parser.add_argument("--row", type=int, help="tokens of a timed row (default: the mean trajectory)")
    parser.add_argument("--repeat", type=int, default=3, help="timed steps of a layout (default 3)")
    parser.add_argument(
        "--timeout-s", type=float, default=1800.0, help="longest for one layout, its start included (default 1800)"
    )


def rank(subject: Subject, world: int) -> list[Ranked]:
    """Every layout of `world` ranks that fits, the fastest first by the middle estimate."""
    found = fitting(subject.shape, subject.cluster.gpu, world, subject.cluster.per_node, subject.training)
    return sorted(
        ((one, step_under(subject, one.layout, world)) for one in found),
        key=lambda pair: (pair[1][1].total_s, pair[0].memory.total),
    )


def run(args: argparse.Namespace, *, launcher: Any = None) -> int:
    for name in ("top", "repeat", "world", "tokens", "row"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UserError(f"--{name}: expected at least 1, found {value}")
    plan, subject = subject_from(args)
    world = args.world or subject.world
    if world > subject.cluster.gpus:
        raise UserError(f"{world} training ranks, and {subject.cluster} are {subject.cluster.gpus} GPUs")
    ranked = rank(subject, world)
    if not ranked:
        near = nearest(
            subject.shape, subject.cluster.gpu, subject.layout, world, subject.cluster.per_node, subject.training
        )
        more = "" if near is None else f"; the fewest that do: {near.world}, {shown(near.layout)}"
        raise UserError(
            f"no layout of {subject.shape.name} fits on {world} x {subject.cluster.gpu.name} with micro-batches of "
            f"{subject.training.tokens:,} tokens{more}"
        )
    if not args.json:
        print("\n".join(lines(subject, ranked, world, args.top)), flush=True)
    timed = _measure(args, plan, subject, ranked, world, launcher) if args.measure else []
    if args.json:
        options.dump(_json(ranked, world, args.top, timed))
    return 1 if timed and all(one.failure is not None for one in timed) else 0


def lines(subject: Subject, ranked: list[Ranked], world: int, top: int) -> list[str]:
    """The table."""
    out = [
        f"{len(ranked)} layouts of {subject.shape.name} fit on {world} x {subject.cluster.gpu.name}; a step of "
        f"{subject.groups_per_step * subject.group_size} trajectories, {subject.micro:,} tokens a micro-batch",
        f"{'layout':<34}{'GiB':>6}{'step s':>8}{'slow-fast':>14}{'computing':>11}{'exchanging':>12}{'bubble':>8}",
    ]
    for one, (slow, middle, fast) in ranked[:top]:
        mark = "  <- the plan's" if one.layout == subject.layout and world == subject.world else ""
        out.append(
            f"{shown(one.layout):<34}{one.memory.total / GIB:6.1f}{middle.total_s:8.0f}"
            f"{f'{slow.total_s:.0f}-{fast.total_s:.0f}':>14}{middle.compute_s:11.0f}{middle.exchange_s:12.0f}"
            f"{middle.bubble_s:8.0f}{mark}"
        )
    place = next((n for n, (one, _) in enumerate(ranked) if one.layout == subject.layout), None)
    if world == subject.world and (place is None or place >= top):
        where = "does not fit" if place is None else f"is number {place + 1} of {len(ranked)}"
        own = "" if place is None else f", {ranked[place][1][1].total_s:.0f} s"
        out.append(f"the plan's own, {shown(subject.layout)}, {where}{own}")
    return out


def _measure(
    args: argparse.Namespace, plan: Plan, subject: Subject, ranked: list[Ranked], world: int, launcher: Any
) -> list[Timed]:
    trainer = getattr(plan, "trainer", None)
    if not isinstance(trainer, MegatronTrainerConfig):
        raise UserError(f"--measure times Megatron layouts; backend {plan.backend!r} has none")
    if not (Path(trainer.model) / "config.json").is_file():
        raise UserError(f"--measure needs the model itself: {trainer.model} has no config.json")
    config = MegatronTrainerConfig.model_validate({**trainer.model_dump(), "world": world, "layout": {}})
    chosen = [one.layout for one, _ in ranked[: args.measure]]

    async def work() -> list[Timed]:
        found = []
        made = time_layouts(
            config,
            plan.algorithm,
            chosen,
            vocab=subject.shape.vocab,
            tokens=args.tokens or subject.micro * world,
            micro=subject.micro,
            row=args.row or int(subject.lengths.mean),
            repeat=args.repeat,
            timeout_s=args.timeout_s,
            launcher=launcher,
        )
        async for one in made:
            found.append(one)
            if not args.json:
                what = f"{one.best_s:.3f} s a step" if one.best_s is not None else f"failed: {one.failure}"
                print(f"timed {shown(one.layout):<34} {what}", flush=True)
        return found

    try:
        return run_real(work())
    except ModuleNotFoundError as error:
        raise UserError(f"--measure needs the `megatron` extra: {error}") from error
    finally:
        sys.stdout.flush()


def _json(ranked: list[Ranked], world: int, top: int, timed: list[Timed]) -> dict[str, Any]:
    measured = {one.layout: one for one in timed}
    rows = []
    for one, steps in ranked[:top]:
        row: dict[str, Any] = {
            "layout": one.layout.model_dump(),
            "shown": shown(one.layout),
            "bytes": one.memory.total,
            "step_s": [step.total_s for step in steps],
        }
        if (found := measured.get(one.layout)) is not None:
            row["measured_s"] = list(found.seconds)
            row["failure"] = found.failure
        rows.append(row)
    return {"world": world, "fitting": len(ranked), "layouts": rows}
