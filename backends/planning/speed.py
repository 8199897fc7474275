"""How long things take: an optimiser step under a layout, and trajectories on an engine, each as a range.

A roofline with stated shares. Training: operations over peak times a share that grouped, long-context layers reach, the
pipeline's bubble, and the bytes that tensor, expert and context ranks exchange, none of it hidden. Engines: a decoding
step reads the weights that its sequences need and their keys and values at a share of the memory's bandwidth, or is
bound by a fixed cost per layer; prefill is compute. A trajectory is its turns, and how many of those out sample at once
follows from their share of the time (a fixed point). Every share is in `Efficiency`, a low, a middle and a high guess
from what such systems reach; what you have measured replaces them (`--assume train_experts=0.25`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from envkit.backends.megatron.layout import Layout
from envkit.backends.planning.gpus import Cluster
from envkit.backends.planning.lengths import Lengths
from envkit.backends.planning.model import ModelShape

__all__ = ["DEFAULT", "LEVELS", "Efficiency", "Generation", "Step", "generation", "step_time"]

LEVELS = ("slow", "middle", "fast")


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What share of a machine's figures is reached.

    Attributes:
        train: Of peak operations, by the layers of a training step without communication. Experts are smaller matrices
            than dense layers: `train_experts` for them.
        links: Of link and network bandwidth.
        bandwidth: Of the memory's, by a decoding step.
        layer_s: Fixed cost of a layer in a decoding step: launches and the reductions over tensor ranks.
        prefill: Of peak operations, by prefill.
        tool_s: A turn's tools, where nobody measured them.
        around_s: Start and verification of a trial, likewise.
        dropped: Share of groups that are thrown away (no variance, failures) and generated for nothing.
        overhead_s: Of a step, whatever the layout: packing, syncing weights, the optimiser in the host's memory.
    """

    train: float
    train_experts: float
    links: float
    bandwidth: float
    layer_s: float
    prefill: float
    tool_s: float
    around_s: float
    dropped: float
    overhead_s: float


#: Slow, middle, fast.
DEFAULT = (
    Efficiency(0.30, 0.15, 0.5, 0.50, 130e-6, 0.25, 10.0, 60.0, 0.35, 60.0),
    Efficiency(0.40, 0.22, 0.65, 0.65, 80e-6, 0.35, 5.0, 30.0, 0.20, 30.0),
    Efficiency(0.50, 0.32, 0.8, 0.80, 45e-6, 0.45, 2.0, 15.0, 0.05, 15.0),
)


@dataclass(frozen=True, slots=True)
class Step:
    """An optimiser step in seconds, and what it is made of."""

    compute_s: float
    exchange_s: float
    bubble_s: float
    overhead_s: float

    @property
    def total_s(self) -> float:
        return self.compute_s + self.exchange_s + self.bubble_s + self.overhead_s


@dataclass(frozen=True, slots=True)
class Generation:
    """What engines give.

    Attributes:
        per_s: Trajectories that finish per second, over all engines.
        trajectory_s: From a trial's start to its verdict.
        sampling: Sequences that sample at once on one engine; the others are in tools.
        token_s: One decoding step.
    """

    per_s: float
    trajectory_s: float
    sampling: float
    token_s: float


def forward_flops(shape: ModelShape, position: float) -> float:
    """Operations of one token's forward pass with `position` tokens before it."""
    flops = 2.0 * shape.active
    own = shape.attention
    flops += sum(shape.full) * 4.0 * own.heads * own.head_dim * position
    if shape.linear is not None:
        linear = shape.linear
        states = linear.value_heads * linear.key_dim * linear.value_dim
        flops += (shape.layers - sum(shape.full)) * 8.0 * states
    return flops


def step_time(
    shape: ModelShape,
    layout: Layout,
    world: int,
    cluster: Cluster,
    *,
    tokens: float,
    position: float,
    micro: int,
    passes: float,
    level: Efficiency,
) -> Step:
    """One optimiser step over `tokens`.

    Args:
        tokens: Context tokens of the whole batch.
        position: Of a mean token, see `Lengths.position`.
        micro: Tokens of a micro-batch.
        passes: Forward passes that a token costs: 3 for forward and backward, 4 with full recomputation, one more where
            old logprobs are needed.
    """
    gpu = cluster.gpu
    data = layout.data_ranks(world)
    micros = max(1, math.ceil(tokens / data / micro))  # of one data-parallel rank
    share = level.train_experts if shape.experts is not None else level.train
    compute_s = tokens * forward_flops(shape, position) * passes / (world * gpu.tflops * 1e12 * share)
    per_rank = tokens / data / layout.context  # tokens that one rank's layers see
    stage_layers = shape.layers / layout.pipeline
    exchanged = _exchanged(shape, layout, cluster, per_rank * stage_layers, level) * passes
    # gradients over data-parallel ranks, once
    held = shape.parameters / (layout.tensor * layout.pipeline * max(1, layout.expert))
    gradients = 6.0 * held / (gpu.network_gb_s * 1e9 * level.links) if data > 1 else 0.0
    parts = micros * layout.virtual_stages
    bubble_s = (compute_s + exchanged) * (layout.pipeline - 1) / parts
    return Step(compute_s, exchanged + gradients, bubble_s, level.overhead_s)


def _exchanged(shape: ModelShape, layout: Layout, cluster: Cluster, token_layers: float, level: Efficiency) -> float:
    """Seconds of one forward pass in which ranks exchange activations: nothing is hidden behind computing."""
    gpu, node = cluster.gpu, cluster.per_node
    hidden_bytes = 2.0 * shape.hidden
    seconds = 0.0
    if layout.tensor > 1:  # gather before and scatter after attention, and the same for the feed-forward layer
        speed = gpu.link_gb_s if layout.tensor <= node else gpu.network_gb_s
        share = (layout.tensor - 1) / layout.tensor
        seconds += token_layers * 4 * hidden_bytes * share / (speed * 1e9 * level.links)
    if layout.context > 1:
        speed = gpu.link_gb_s if layout.tensor * layout.context <= node else gpu.network_gb_s
        # full attention: every rank's keys and values pass by every other
        kv = 2.0 * shape.kv_numbers / shape.layers / min(layout.tensor, shape.attention.kv_heads)
        sent = kv * (layout.context - 1)
        if shape.linear is not None:  # linear attention: parts of the sequence for heads, and back
            width = shape.linear.conv_width + 2 * shape.linear.value_heads * shape.linear.value_dim
            share = (shape.layers - sum(shape.full)) / shape.layers
            sent += share * 2.0 * width / layout.tensor * (layout.context - 1) / layout.context
        seconds += token_layers * sent / (speed * 1e9 * level.links)
    if shape.experts is not None and layout.expert > 1:
        inner = layout.expert_tensor or layout.tensor
        inside = min(layout.expert, max(1, node // inner)) / layout.expert  # share that stays in the node
        own = token_layers / (layout.tensor if layout.cuts_sequence else 1)
        sent = own * shape.experts.chosen * hidden_bytes * 2 * (layout.expert - 1) / layout.expert
        seconds += sent * inside / (gpu.link_gb_s * 1e9 * level.links)
        seconds += sent * (1 - inside) / (gpu.network_gb_s * 1e9 * level.links)
    return seconds


def generation(
    shape: ModelShape,
    cluster: Cluster,
    *,
    engines: int,
    tensor: int,
    out: float,
    rows: int,
    lengths: Lengths,
    level: Efficiency,
) -> Generation:
    """What `engines` over `tensor` GPUs each give with `out` trajectories out in all.

    Args:
        rows: Sequences that one engine samples at a time, at most.
    """
    gpu = cluster.gpu
    each = out / engines
    sampled, turns = lengths.sampled, lengths.turns
    tool_s = level.tool_s if lengths.tool_s is None else lengths.tool_s
    if lengths.start_s is None or lengths.verify_s is None:
        around_s = level.around_s
    else:
        around_s = lengths.start_s + lengths.verify_s
    away_s = turns * tool_s + around_s
    prompt = max(0.0, lengths.mean - sampled)
    peak = tensor * gpu.tflops * 1e12 * level.prefill
    # every token is read once: prefixes stay between turns, which is what the KV bound on concurrency is for
    prefill_s = prompt * forward_flops(shape, lengths.position) / peak
    sampling = min(each, rows)
    for _ in range(200):
        token_s = _token_s(shape, cluster, tensor, sampling, lengths.resident, level)
        # prefills of other sequences stand between the tokens of one: an engine does both in one stream
        busy_s = sampled * token_s + prefill_s * sampling
        waits = max(1.0, each * busy_s / (busy_s + away_s) / rows)
        wanted = min(float(rows), each * busy_s * waits / (busy_s * waits + away_s))
        if abs(wanted - sampling) < 1e-6 * max(1.0, sampling):
            break
        sampling = 0.5 * (sampling + wanted)
    sampling = max(sampling, 1e-9)
    busy_s = sampled * token_s + prefill_s * sampling
    per_s = engines * min(each / (busy_s + away_s), rows / busy_s)
    return Generation(per_s, out / per_s, sampling, token_s)


def _token_s(
    shape: ModelShape, cluster: Cluster, tensor: int, sampling: float, resident: float, level: Efficiency
) -> float:
    """One decoding step of `sampling` sequences."""
    gpu = cluster.gpu
    weights = 0.0
    for number, count in shape.kinds(range(shape.layers)):
        layer = shape.layer(number)
        weights += (layer.total - layer.experts) * count
        if layer.experts and shape.experts is not None:
            hit = 1.0 - (1.0 - shape.experts.chosen / shape.experts.count) ** max(1.0, sampling)
            weights += layer.experts * hit * count
    weights += shape.embedding
    read = 2.0 * weights / tensor
    read += sampling * (resident * shape.kv_bytes(tensor=tensor) + 2 * shape.state_bytes(tensor=tensor))
    memory_s = read / (gpu.memory_tb_s * 1e12 * level.bandwidth)
    compute_s = sampling * forward_flops(shape, resident) / (tensor * gpu.tflops * 1e12 * level.prefill)
    return max(memory_s, compute_s) + shape.layers * level.layer_s
