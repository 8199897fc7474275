"""An estimate as text for people and as JSON for programs. Used by `envkit plan`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from envkit.backends.planning import layouts
from envkit.backends.planning.estimate import Estimate
from envkit.backends.planning.gpus import GIB
from envkit.backends.planning.memory import TrainMemory
from envkit.backends.planning.speed import LEVELS

__all__ = ["lines", "to_json"]


def to_json(found: Estimate) -> dict[str, Any]:
    """An estimate as plain JSON; ranges are lists of slow, middle, fast (for bounds: low, middle, high)."""
    s = found.subject
    return {
        "model": {
            "name": s.shape.name,
            "parameters": s.shape.parameters,
            "active": s.shape.active,
            "kv_bytes_per_token": s.shape.kv_bytes(),
            "state_bytes_per_sequence": s.shape.state_bytes(),
        },
        "gpus": {"kind": s.cluster.gpu.name, "nodes": s.cluster.nodes, "per_node": s.cluster.per_node},
        "trajectories": {
            "source": s.lengths.source,
            "mean_tokens": s.lengths.mean,
            "turns": s.lengths.turns,
            "sampled_tokens": s.lengths.sampled,
        },
        "layout": {**s.layout.model_dump(), "world": s.world, "shown": layouts.shown(s.layout)},
        "problems": list(found.problems),
        "nearest": None
        if found.nearest is None
        else {**found.nearest.layout.model_dump(), "world": found.nearest.world, "bytes": found.nearest.memory.total},
        "training_bytes": None if found.train is None else _memory_json(found.train),
        "engine_bytes": {
            "weights": found.engine.weights,
            "room": list(found.engine.room),
            "kv_token": found.engine.kv_token,
            "state": found.engine.state,
        },
        "bounds": [
            {"name": b.name, "trials": list(b.trials), "why": b.why, "setting": b.setting} for b in found.bounds
        ],
        "binds": found.binds.name,
        "trials_out": list(found.out),
        "train_step_s": None if found.steps is None else [step.total_s for step in found.steps],
        "generation_s": None if found.gather_s is None else list(found.gather_s),
        "trajectory_s": None if found.generations is None else [one.trajectory_s for one in found.generations],
        "step_s": None if found.step_s is None else list(found.step_s),
        "slower": found.slower,
        "inference_nodes": None if found.balance is None else list(found.balance),
        "cost_usd": None if found.cost is None else list(found.cost),
        "notes": list(found.notes),
    }


def _memory_json(memory: TrainMemory) -> dict[str, int]:
    return {field.name: getattr(memory, field.name) for field in fields(memory)} | {"total": memory.total}


def lines(found: Estimate) -> list[str]:
    """An estimate as text."""
    s = found.subject
    out = [
        f"{s.shape.name}: {_count(s.shape.parameters)} parameters, {_count(s.shape.active)} of them for a token; "
        f"{s.shape.layers} layers, {sum(s.shape.full)} with keys and values",
        f"{s.cluster}; trajectories: {s.lengths.mean:,.0f} tokens, {s.lengths.turns:.1f} turns, "
        f"{s.lengths.sampled:,.0f} sampled ({s.lengths.source})",
        "",
        f"training: {s.world} ranks, {layouts.shown(s.layout)}; GiB on the fullest, of {s.cluster.gpu.memory_gib:g}:",
    ]
    if found.train is not None:
        parts = [
            f"{field.name} {getattr(found.train, field.name) / GIB:.1f}"
            for field in fields(found.train)
            if field.name != "host"
        ]
        out.append(f"  {', '.join(parts)}; in all {found.train.total / GIB:.1f}")
    engine = found.engine
    out += [
        f"engines: {s.engines} over {s.tensor} GPUs each; GiB on a GPU: weights {engine.weights / GIB:.1f}, room for "
        f"keys and values {_range(*(max(0, room) / GIB for room in engine.room), digits=1)}",
        f"  {engine.kv_token:,} bytes a token, {engine.state / 2**20:.1f} MiB a sequence: {engine.tokens(1):,} tokens "
        "in an engine",
        "",
        "trials out, at most:",
    ]
    for bound in found.bounds:
        mark = "  <- binds" if bound is found.binds else ""
        out.append(f"  {bound.name:<12}{_range(*bound.trials):>18}  {bound.why}{mark}")
    out.append(f"  to move it: {found.binds.setting}")
    if found.steps is not None and found.gather_s is not None and found.generations is not None:
        middle = found.steps[1]
        assert found.step_s is not None
        assert found.balance is not None
        assert found.cost is not None
        out += [
            "",
            f"a step ({', '.join(LEVELS)}):",
            f"  training    {_levels(*(step.total_s for step in found.steps))} s  (middle: computing "
            f"{middle.compute_s:,.0f}, exchanging {middle.exchange_s:,.0f}, bubble {middle.bubble_s:,.0f}, around "
            f"{middle.overhead_s:,.0f})",
            f"  generating  {_levels(*found.gather_s)} s  (a trajectory "
            f"{_levels(*(g.trajectory_s for g in found.generations))} s; on an engine "
            f"{found.generations[1].sampling:.0f} of {found.out[1] / s.engines:.0f} sample at once, "
            f"{1e3 * found.generations[1].token_s:.0f} ms a token)",
            f"  both        {_levels(*found.step_s)} s: {_waits(found)}",
            f"nodes: neither waits with {_range(*found.balance, digits=1)} of {s.cluster.nodes} for inference; "
            f"the plan has {s.engines * s.tensor / s.cluster.per_node:g} there, {s.world / s.cluster.per_node:g} train",
            f"{s.steps} steps: {_range(*(s.steps * t / 3600 for t in found.step_s), digits=1)} h, "
            f"${_range(*found.cost)} at ${s.price[0]:g}-{s.price[1]:g} a GPU hour",
        ]
    out += [f"note: {note}" for note in found.notes]
    out += [f"can't be: {problem}" for problem in found.problems]
    return out


def _count(parameters: int) -> str:
    return f"{parameters / 1e9:.2f}B" if parameters >= 5e7 else f"{parameters / 1e6:.2f}M"


def _waits(found: Estimate) -> str:
    return "they take turns" if found.subject.max_staleness == 0 else f"waits for {found.slower}"


def _range(*values: float, digits: int = 0) -> str:
    """`middle (low-high)`, or one number."""
    low, high = min(values), max(values)
    if low == high:
        return f"{low:,.{digits}f}"
    return f"{values[1]:,.{digits}f} ({low:,.{digits}f}-{high:,.{digits}f})"


def _levels(*values: float) -> str:
    return " / ".join(f"{value:,.0f}" for value in values)
