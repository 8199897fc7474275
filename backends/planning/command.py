"""`envkit plan`: the arithmetic before the money: memory, concurrency, what binds, step time and cost of a plan"""

from __future__ import annotations

import argparse
import math
from dataclasses import fields, replace
from pathlib import Path

from envkit.backends.planning.estimate import Subject, estimate, subject_of
from envkit.backends.planning.gpus import GPUS, cluster_of
from envkit.backends.planning.lengths import PUBLISHED, Lengths, given, measured
from envkit.backends.planning.model import known_models
from envkit.backends.planning.published import beside
from envkit.backends.planning.showing import lines, to_json
from envkit.backends.planning.speed import DEFAULT, Efficiency
from envkit.backends.run.plan import Plan, read_plan
from envkit.cli import options
from envkit.failure import UserError, did_you_mean

__all__ = ["add_arguments", "add_subject", "run", "subject_from"]


_ASSUMED = [field.name for field in fields(Efficiency)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)


def add_subject(parser: argparse.ArgumentParser) -> None:
    """The options that say what is reckoned with; `envkit sweep` has them too."""
    parser.add_argument("plan", type=Path, help="a plan (TOML), of a backend with [trainer] and [engines]")
    parser.add_argument(
        "--set", action="append", default=[], metavar="k=v", dest="sets", help="as `envkit train` has it"
    )
    parser.add_argument(
        "--gpus", required=True, help=f"H100, 112xH100 or 14x8xH100 (nodes x GPUs x kind); kinds: {', '.join(GPUS)}"
    )
    parser.add_argument("--context", type=int, help="longest trajectory in tokens (default: policy.context)")
    parser.add_argument(
        "--model", help=f"a folder with config.json, or one of {', '.join(known_models())} (default: trainer.model)"
    )
    parser.add_argument("--lengths", type=Path, help="a run's folder: its trajectories are the distribution")
    parser.add_argument(
        "--mean-tokens", type=float, help="mean final length of a trajectory, where nothing is measured"
    )
    parser.add_argument("--turns", type=float, help="mean turns of a trajectory")
    parser.add_argument("--turn-tokens", type=float, help="mean sampled tokens of a turn")
    parser.add_argument("--tool-s", type=float, help="mean seconds of a turn's tools")
    parser.add_argument(
        "--assume",
        action="append",
        default=[],
        metavar="k=v",
        help=f"an assumption made certain, e.g. train_experts=0.25; may come often: {', '.join(_ASSUMED)}",
    )
    parser.add_argument("--price", type=float, nargs="+", metavar="USD", help="of a GPU hour: one, or low and high")


def subject_from(args: argparse.Namespace) -> tuple[Plan, Subject]:
    """The plan and what is reckoned with. Raises `UserError` for what contradicts itself."""
    plan = read_plan(args.plan, args.sets)
    trainer, engines = getattr(plan, "trainer", None), getattr(plan, "engines", None)
    needed = None
    if trainer is not None and engines is not None:
        needed = getattr(trainer, "world", 1)
        needed += (len(engines.urls) or engines.replicas) * getattr(engines, "tensor_parallel", 1)
    cluster = cluster_of(
        args.gpus, default_gpus=None if needed is None else -(-needed // 8) * 8 if needed > 8 else needed
    )
    if args.context is not None and args.context < 2:
        raise UserError(f"--context: expected at least 2 tokens, found {args.context}")
    longest = args.context or plan.policy.context
    subject = subject_of(
        plan,
        cluster,
        _lengths(args, longest),
        model=args.model,
        context=args.context,
        price=_price(args.price),
        levels=_levels_of(args.assume),
    )
    return plan, subject


def _levels_of(texts: list[str]) -> tuple[Efficiency, Efficiency, Efficiency]:
    """The three guesses with what the user is certain of."""
    known: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in _ASSUMED:
            raise UserError(f"--assume: no assumption {name!r}{did_you_mean(name, _ASSUMED)}; {', '.join(_ASSUMED)}")
        try:
            known[name] = float(value)
        except ValueError:
            known[name] = math.nan
        above = (
            0 <= known[name] < 1
            if name == "dropped"
            else known[name] > 0 or name in ("tool_s", "around_s", "overhead_s")
        )
        if not (above and math.isfinite(known[name]) and known[name] >= 0):
            raise UserError(f"--assume {text}: expected a number above 0 (`dropped`: below 1)")
    slow, middle, fast = (replace(level, **known) for level in DEFAULT)
    return slow, middle, fast


def _lengths(args: argparse.Namespace, context: int | None) -> Lengths:
    means = (args.mean_tokens, args.turns, args.turn_tokens)
    if args.lengths is not None:
        if any(value is not None for value in means):
            raise UserError("--lengths measures what --mean-tokens, --turns and --turn-tokens give: one or the other")
        return measured(args.lengths)
    if all(value is None for value in means):
        means = PUBLISHED["chosen"]
        if context is not None and context < 2 * means[0]:
            # means that were measured under 160,000 tokens scale with a shorter context
            share = min(1.0, context / 160_000)
            mean, turns = means[0] * share, max(1.0, means[1] * share)
            sampled = mean * means[1] * means[2] / means[0]
            means = (mean, turns, min(means[2], sampled / turns))
        source = "the published ablation's means (give --lengths RUN to measure)"
    elif any(value is None for value in means):
        raise UserError("--mean-tokens, --turns and --turn-tokens go together: one is missing")
    else:
        source = "given"
    return given(*means, context=context, source=source, tool_s=args.tool_s)


def _price(values: list[float] | None) -> tuple[float, float] | None:
    if values is None:
        return None
    if len(values) > 2 or any(not 0 <= value < 1e6 for value in values) or values != sorted(values):
        raise UserError(f"--price: expected one price, or low and high, found {values}")
    return values[0], values[-1]


def run(args: argparse.Namespace) -> int:
    _, subject = subject_from(args)
    found = estimate(subject)
    if args.json:
        options.dump(to_json(found))
    else:
        print("\n".join(lines(found)))
        if known := beside(subject):
            print("\n".join(["", *known]))
    return 1 if found.problems else 0
