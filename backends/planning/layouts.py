"""Which layouts there are for a model on so many ranks, which of them fit, and which is nearest to one that doesn't.

Enumerates tensor, pipeline, context, expert and expert-tensor ranks; interleaved pipelines are left to the user. A
layout fits if the model can be cut like that and the fullest rank's memory is below the GPU's. Used by `envkit plan`,
which refuses what can't fit and names the nearest that does, and by `envkit sweep`, which ranks all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from envkit.backends.megatron.layout import Layout
from envkit.backends.planning.gpus import Gpu
from envkit.backends.planning.memory import Training, TrainMemory, layout_faults, train_memory
from envkit.backends.planning.model import ModelShape

__all__ = ["Fitting", "distance", "fitting", "layouts", "nearest", "shown"]

#: The most ranks, as a multiple of those asked for, that `nearest` looks at.
_MORE = 16


@dataclass(frozen=True, slots=True)
class Fitting:
    """A layout that fits, on so many ranks, with its memory."""

    layout: Layout
    world: int
    memory: TrainMemory


def shown(layout: Layout) -> str:
    """`TP8 EP8 ETP1`, leaving out what is 1 and what follows from the rest."""
    parts = [
        f"{name}{size}"
        for name, size in (
            ("TP", layout.tensor),
            ("PP", layout.pipeline),
            ("VPP", layout.virtual_stages),
            ("CP", layout.context),
            ("EP", layout.expert),
        )
        if size > 1
    ]
    inner = layout.expert_tensor
    if inner is not None and inner != layout.tensor:
        parts.append(f"ETP{inner}")
    return " ".join(parts) or "data parallel only"


def layouts(shape: ModelShape, world: int, per_node: int) -> Iterator[Layout]:
    """Every layout that this model can be cut by on so many ranks; tensor ranks stay within a node."""
    for tensor in _powers(min(world, per_node)):
        for pipeline in [n for n in range(1, min(world, 16, shape.layers) + 1) if shape.layers % n == 0]:
            for context in _powers(min(8, world)):
                if world % (tensor * pipeline * context):
                    continue
                for expert in _powers(world) if shape.experts is not None else (1,):
                    for inner in sorted({1, tensor}) if shape.experts is not None else (None,):
                        try:
                            layout = Layout(
                                tensor=tensor, pipeline=pipeline, context=context, expert=expert, expert_tensor=inner
                            )
                        except ValidationError:
                            continue
                        if not layout_faults(shape, layout, world):
                            yield layout


def fitting(shape: ModelShape, gpu: Gpu, world: int, per_node: int, training: Training) -> list[Fitting]:
    """Every layout that fits, in the order of `layouts`."""
    found = []
    for layout in layouts(shape, world, per_node):
        memory = train_memory(shape, layout, world, training)
        if memory.total <= gpu.memory:
            found.append(Fitting(layout, world, memory))
    return found


def nearest(
    shape: ModelShape, gpu: Gpu, wanted: Layout, world: int, per_node: int, training: Training
) -> Fitting | None:
    """The layout nearest to one that doesn't fit, on as few ranks as will do; None where even 16 times as many ranks
    don't help (a single layer is too large, say)."""
    ranks = world
    while ranks <= world * _MORE:
        found = fitting(shape, gpu, ranks, per_node, training)
        if found:
            return min(found, key=lambda one: (distance(wanted, one.layout), one.memory.total))
        ranks = ranks + per_node if ranks >= per_node else ranks * 2
        if ranks > 4 * per_node:  # whole powers beyond: odd numbers of nodes cut nothing that their powers don't
            ranks = 1 << (ranks - 1).bit_length()
    return None


def distance(one: Layout, other: Layout) -> float:
    """By how many doublings two layouts differ, over all axes."""
    pairs = (
        (one.tensor, other.tensor),
        (one.pipeline, other.pipeline),
        (one.context, other.context),
        (one.expert, other.expert),
        (one.expert_tensor or one.tensor, other.expert_tensor or other.tensor),
    )
    return sum(abs(math.log2(a / b)) for a, b in pairs)


def _powers(most: int) -> list[int]:
    return [1 << n for n in range(most.bit_length()) if 1 << n <= most]
