"""A plan's arithmetic as a whole: does it fit, how many trials may be out and what binds, how long a step takes, what
it costs, and how inference and training share the nodes.

    subject = subject_of(plan, cluster, lengths)
    found = estimate(subject)
    found.problems, found.bounds, found.steps, found.balance

Every figure that rests on an assumption is a range of three (see `speed.LEVELS`); what follows from sizes alone is one
number. Pure; used by `envkit plan`, `envkit sweep` and the table that docs/planning.md holds beside published values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from envkit.backends.megatron.config import Recompute
from envkit.backends.megatron.layout import Layout
from envkit.backends.planning import layouts, speed
from envkit.backends.planning.gpus import GIB, Cluster
from envkit.backends.planning.lengths import Lengths
from envkit.backends.planning.memory import (
    GPU_SHARE,
    EngineMemory,
    Training,
    TrainMemory,
    engine_memory,
    layout_faults,
    train_memory,
)
from envkit.backends.planning.model import ModelShape, read_shape
from envkit.backends.planning.speed import Efficiency, Generation, Step
from envkit.failure import UserError

__all__ = ["Bound", "Estimate", "Subject", "estimate", "step_under", "subject_of"]

Range = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is estimated: a plan's numbers, a model, a cluster, trajectories.

    Attributes:
        world, layout: The training ranks and how they share the model.
        engines, tensor: Engines, and GPUs of each.
        share, kv_cache: See `engine_memory`.
        rows: Sequences that an engine samples at a time.
        passes: Forward passes that a trained token costs.
        micro: Tokens of a micro-batch.
        price: Dollars per GPU hour, low and high.
    """

    shape: ModelShape
    cluster: Cluster
    lengths: Lengths
    training: Training
    world: int
    layout: Layout
    engines: int
    tensor: int
    share: float
    kv_cache: int | None
    rows: int
    context: int
    groups_per_step: int
    group_size: int
    max_staleness: int
    max_running: int
    starts_per_s: float | None
    kv_share: float
    steps: int
    micro: int
    passes: float
    price: tuple[float, float]
    levels: tuple[Efficiency, Efficiency, Efficiency] = speed.DEFAULT


@dataclass(frozen=True, slots=True)
class Bound:
    """A ceiling on trials that are out: low, middle, high; and the setting that moves it."""

    name: str
    trials: Range
    why: str
    setting: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """Attributes:
    problems: Why this can't run; empty if it can. Then what depends on it is None.
    nearest: Where the layout is the problem: the nearest that fits.
    bounds, binds: Ceilings on concurrency, and the lowest by its middle.
    out: Trials out, by level.
    steps, generations: Training's step and the engines' output, by level (`speed.LEVELS`).
    gather_s: Seconds in which the engines make a step's batch, by level.
    step_s: Of the whole, by level: the slower of the two, or both in turns where training is synchronous.
    balance: Nodes for inference at which neither waits, of all nodes, by level.
    cost: Dollars of the whole run: low, middle, high.
    """

    subject: Subject
    problems: tuple[str, ...]
    nearest: layouts.Fitting | None
    train: TrainMemory | None
    engine: EngineMemory
    bounds: tuple[Bound, ...]
    binds: Bound
    out: Range
    steps: tuple[Step, Step, Step] | None
    generations: tuple[Generation, Generation, Generation] | None
    gather_s: Range | None
    step_s: Range | None
    balance: Range | None
    cost: Range | None
    notes: tuple[str, ...]

    @property
    def slower(self) -> str:
        """Which half a step waits for, by the middle figures."""
        if self.steps is None or self.gather_s is None:
            return "nothing"
        return "generation" if self.gather_s[1] >= self.steps[1].total_s else "training"


def subject_of(
    plan: Any,
    cluster: Cluster,
    lengths: Lengths,
    *,
    model: str | None = None,
    context: int | None = None,
    price: tuple[float, float] | None = None,
    levels: tuple[Efficiency, Efficiency, Efficiency] = speed.DEFAULT,
) -> Subject:
    """Reads a plan (`envkit.backends.run.plan`), of any backend whose `[trainer]` names a model.

    Raises:
        UserError: The plan names no model that can be found, or no context.
    """
    trainer, engines = getattr(plan, "trainer", None), getattr(plan, "engines", None)
    if trainer is None or engines is None:
        raise UserError(f"backend {plan.backend!r} has no [trainer] and [engines] tables: nothing to reckon with")
    shape = read_shape(model if model is not None else trainer.model)
    longest = context or plan.policy.context or engines.max_model_len
    if longest is None:
        raise UserError("how long may a trajectory get? give --context, or policy.context in the plan")
    layout: Layout = getattr(trainer, "layout", None) or Layout()
    recompute = getattr(trainer, "recompute", None)
    if getattr(trainer, "gradient_checkpointing", False):
        recompute = Recompute()
    torch_only = not hasattr(trainer, "layout")
    lora = trainer.lora is not None
    algorithm = plan.algorithm
    training = Training(
        tokens=max(plan.batch.tokens_per_micro_batch, longest),
        width=4 if torch_only or trainer.dtype == "float32" else 2,
        offload=getattr(trainer, "optimizer_offload", 0.0),
        distributed=getattr(trainer, "distributed_optimizer", False),
        recompute=recompute,
        logprob_chunk=trainer.logprob_chunk,
        trained=0.01 if lora else 1.0,
        reference=algorithm.needs_reference,
    )
    old = getattr(algorithm.loss, "anchor", "rollout") == "old"
    passes = (2.0 if lora else 3.0) + (1.0 if recompute is not None else 0.0) + (1.0 if old else 0.0)
    passes += 1.0 if algorithm.needs_reference else 0.0
    loop = plan.loop
    kv_mb = getattr(engines, "kv_cache_mb", None)
    return Subject(
        shape=shape,
        cluster=cluster,
        lengths=lengths.cut(longest),
        training=training,
        world=getattr(trainer, "world", 1),
        layout=layout,
        engines=len(engines.urls) or engines.replicas,
        tensor=getattr(engines, "tensor_parallel", 1),
        share=_gpu_share(getattr(engines, "arguments", ())),
        kv_cache=None if kv_mb is None else kv_mb << 20,
        rows=engines.max_rows,
        context=longest,
        groups_per_step=loop.groups_per_step,
        group_size=loop.group_size,
        max_staleness=loop.max_staleness,
        max_running=loop.admission.max_running,
        starts_per_s=loop.admission.starts_per_s,
        kv_share=loop.admission.kv_share,
        steps=loop.steps,
        micro=plan.batch.tokens_per_micro_batch,
        passes=passes,
        price=price or cluster.gpu.price,
        levels=levels,
    )


def _gpu_share(arguments: tuple[str, ...]) -> float:
    """vLLM's --gpu-memory-utilization among the engine's arguments, or vLLM's own default."""
    name, found = "--gpu-memory-utilization", None
    for number, here in enumerate(arguments):
        after = arguments[number + 1] if number + 1 < len(arguments) else ""
        if here == name:
            found = after
        elif here.startswith(f"{name}="):
            found = here.partition("=")[2]
    if found is None:
        return GPU_SHARE
    try:
        share = float(found)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise UserError(f"engines.arguments: {name}: expected a share above 0 and at most 1, found {found!r}")
    return share


def estimate(subject: Subject) -> Estimate:
    """All of it."""
    s = subject
    engine = engine_memory(s.shape, s.cluster.gpu, tensor=s.tensor, share=s.share, kv_cache=s.kv_cache)
    problems = _room(s)
    train, nearest, layout_problem = _train(s)
    if layout_problem is not None:
        problems.append(layout_problem)
    if engine.tokens(1) < s.context:
        problems.append(_engine_problem(s, engine))
    bounds, out, generations = _concurrency(s, engine) if engine.tokens(1) >= s.context else (_fixed(s), None, None)
    binds = min(bounds, key=lambda bound: bound.trials[1])
    if out is None:
        out = binds.trials
    steps = gather = whole = balance = cost = None
    if train is not None and layout_problem is None:
        slow, middle, fast = (_step(s, s.layout, s.world, level) for level in s.levels)
        steps = (slow, middle, fast)
    if steps is not None and generations is not None:
        wanted = s.groups_per_step * s.group_size
        gather = _range(
            wanted / (1 - level.dropped) / made.per_s for level, made in zip(s.levels, generations, strict=True)
        )
        whole = _range(_together(s, step.total_s, made) for step, made in zip(steps, gather, strict=True))
        balance = _range(_balanced(s, step.total_s, made) for step, made in zip(steps, gather, strict=True))
        hours = [s.steps * seconds * s.cluster.gpus / 3600 for seconds in whole]
        low, high = s.price
        cost = (hours[2] * low, hours[1] * (low + high) / 2, hours[0] * high)
    return Estimate(
        subject=s,
        problems=tuple(problems),
        nearest=nearest,
        train=train,
        engine=engine,
        bounds=bounds,
        binds=binds,
        out=out,
        steps=steps,
        generations=generations,
        gather_s=gather,
        step_s=whole,
        balance=balance,
        cost=cost,
        notes=tuple(_notes(s, train, generations)),
    )


def _range(values: Any) -> Range:
    low, middle, high = values
    return low, middle, high


def _room(s: Subject) -> list[str]:
    needed = s.world + s.engines * s.tensor
    if needed <= s.cluster.gpus:
        return []
    return [
        f"{s.world} training ranks and {s.engines} engines of {s.tensor} GPUs need {needed} GPUs; {s.cluster} are "
        f"{s.cluster.gpus}"
    ]


#: What is tried, in this order, where no layout alone is enough.
_SAVINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("", {}),
    (" with every layer computed again (trainer.recompute)", {"recompute": Recompute()}),
    (
        " with every layer computed again and the optimiser in host memory (trainer.recompute, optimizer_offload)",
        {"recompute": Recompute(), "offload": 1.0, "distributed": True},
    ),
)


def _train(s: Subject) -> tuple[TrainMemory | None, layouts.Fitting | None, str | None]:
    """The fullest rank; where it can't be, the nearest layout and why."""
    faults = layout_faults(s.shape, s.layout, s.world)
    memory = None if faults else train_memory(s.shape, s.layout, s.world, s.training)
    gpu = s.cluster.gpu
    if memory is not None and memory.total <= gpu.memory:
        return memory, None, None
    near, besides = None, ""
    for also, changes in _SAVINGS:
        if near is None:
            near = layouts.nearest(s.shape, gpu, s.layout, s.world, s.cluster.per_node, replace(s.training, **changes))
            besides = also if near is not None else ""
    if memory is None:
        why = f"{s.shape.name} can't be cut into {layouts.shown(s.layout)} on {s.world} ranks: {'; '.join(faults)}"
    else:
        why = (
            f"{layouts.shown(s.layout)} on {s.world} ranks needs {memory.total / GIB:.1f} GiB on the fullest rank, "
            f"{gpu.name} has {gpu.memory_gib:g}"
        )
    if near is None:
        why += f"; no layout fits on up to {s.world * 16} ranks: use larger GPUs or a shorter context"
    else:
        why += f"; the nearest that fits: {layouts.shown(near.layout)} on {near.world} ranks"
        why += f"{besides} ({near.memory.total / GIB:.1f} GiB)"
    return memory, near, why


def _engine_problem(s: Subject, engine: EngineMemory) -> str:
    gpu = s.cluster.gpu
    why = (
        f"an engine over {s.tensor} {gpu.name} has {engine.weights / GIB:.1f} GiB of weights and room for "
        f"{engine.tokens(1):,} tokens on each, less than one trajectory of {s.context:,}"
    )
    for tensor in (2, 4, 8, 16, 32, 64):
        if tensor <= s.tensor:
            continue
        room = engine_memory(s.shape, gpu, tensor=tensor, share=s.share, kv_cache=s.kv_cache)
        if room.tokens(1) >= s.context:
            return f"{why}; engines.tensor_parallel = {tensor} would hold {room.tokens(1):,}"
    return f"{why}; no number of GPUs of an engine helps: use larger ones, or a shorter context"


def _fixed(s: Subject) -> tuple[Bound, ...]:
    """What follows from the plan alone."""
    stale = float((s.max_staleness + 1) * s.groups_per_step * s.group_size)
    return (
        Bound(
            "staleness",
            (stale,) * 3,
            f"({s.max_staleness} + 1) x {s.groups_per_step} groups x {s.group_size} rollouts",
            "loop.max_staleness, loop.groups_per_step, loop.group_size",
        ),
        Bound("max_running", (float(s.max_running),) * 3, "as the plan says", "loop.admission.max_running"),
    )


def _concurrency(
    s: Subject, engine: EngineMemory
) -> tuple[tuple[Bound, ...], Range, tuple[Generation, Generation, Generation]]:
    held = [max(1.0, float(int(s.engines * engine.trajectories(s.lengths.mean, n) * s.kv_share))) for n in range(3)]
    tokens = s.engines * engine.tokens(1)
    bounds = [
        *_fixed(s),
        Bound(
            "kv",
            _range(held),
            f"{s.engines} engines x {engine.tokens(1):,} tokens = {tokens:,}, over {s.lengths.mean:,.0f} a trajectory"
            + (f" and {engine.state / 2**20:.0f} MiB of state" if engine.state else ""),
            "engines (number, tensor_parallel, GPU share), loop.admission.kv_share, policy.context",
        ),
    ]
    lows = [min(bound.trials[n] for bound in bounds) for n in range(3)]
    made = [_made(s, out, level) for out, level in zip(lows, s.levels, strict=True)]
    if s.starts_per_s is not None:
        # Little's law: a rate of starts holds up no more trials than begin in one trial's time
        rates = [s.starts_per_s * one.trajectory_s for one in made]
        bounds.append(
            Bound(
                "starts",
                (min(rates), rates[1], max(rates)),
                f"{s.starts_per_s:g} starts/s x {made[1].trajectory_s:,.0f} s a trajectory",
                "loop.admission.starts_per_s",
            )
        )
        lows = [min(low, rate) for low, rate in zip(lows, rates, strict=True)]
        made = [_made(s, out, level) for out, level in zip(lows, s.levels, strict=True)]
    return tuple(bounds), _range(lows), (made[0], made[1], made[2])


def _made(s: Subject, out: float, level: Efficiency) -> Generation:
    return speed.generation(
        s.shape,
        s.cluster,
        engines=s.engines,
        tensor=s.tensor,
        out=out,
        rows=s.rows,
        lengths=s.lengths,
        level=level,
    )


def _step(s: Subject, layout: Layout, world: int, level: Efficiency) -> Step:
    return speed.step_time(
        s.shape,
        layout,
        world,
        s.cluster,
        tokens=s.groups_per_step * s.group_size * s.lengths.mean,
        position=s.lengths.position,
        micro=s.micro,
        passes=s.passes,
        level=level,
    )


def step_under(subject: Subject, layout: Layout, world: int) -> tuple[Step, Step, Step]:
    """A step under another layout, by level."""
    slow, middle, fast = (_step(subject, layout, world, level) for level in subject.levels)
    return slow, middle, fast


def _together(s: Subject, step_s: float, gather_s: float) -> float:
    """Side by side, or in turns where training is synchronous."""
    return step_s + gather_s if s.max_staleness == 0 else max(step_s, gather_s)


def _balanced(s: Subject, step_s: float, gather_s: float) -> float:
    """Nodes for inference at which generation takes as long as training: both as if they scaled with their nodes."""
    inference = gather_s * s.engines * s.tensor
    training = step_s * s.world
    return s.cluster.nodes * inference / (inference + training)


def _notes(s: Subject, train: TrainMemory | None, made: tuple[Generation, ...] | None) -> list[str]:
    notes = []
    if train is not None and train.host:
        node = train.host * min(s.cluster.per_node, s.world) / GIB
        notes.append(f"the optimiser takes {node:,.0f} GiB of host memory on a training node")
    if s.training.tokens > s.micro:
        notes.append(f"rows may be {s.context:,} tokens long, a micro-batch holds {s.micro:,}: the longest row decides")
    if s.shape.positions < s.context:
        notes.append(f"{s.shape.name} was made for {s.shape.positions:,} tokens, the context is {s.context:,}")
    if s.max_staleness == 0:
        notes.append("synchronous: a step also waits for the longest of its trajectories, which no mean tells")
    if made is not None and made[1].sampling > 0.98 * s.rows:
        notes.append(f"engines sample {s.rows} sequences at a time: engines.max_rows binds before what is out does")
    if s.cluster.gpus > (used := s.world + s.engines * s.tensor):
        notes.append(f"{s.cluster.gpus - used} of {s.cluster.gpus} GPUs are given nothing to do")
    if s.shape.kv_numbers and s.tensor > s.shape.attention.kv_heads:
        copies = s.tensor // s.shape.attention.kv_heads
        notes.append(
            f"{s.shape.attention.kv_heads} key heads over an engine's {s.tensor} GPUs: each key is there {copies} times"
        )
    return notes
