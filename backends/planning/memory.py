"""Memory per GPU: of a training rank under a layout, and of an engine with its room for keys and values.

Training counts what megatron-core allocates: weights in their type, gradients summed in float32, float32 copies and
both moments (cut over data-parallel ranks, or in the host's memory), the inputs that recomputation keeps for every
layer and every micro-batch in flight, one layer's inner tensors with their gradients, a chunk of logits, and what CUDA
and NCCL take. The fullest rank counts. An engine has its weights, what a forward pass needs, and the rest of its share
for keys, values and recurrent states. Figures are bytes. Where a figure is an assumption it is a constant here with
its reason, not a factor in a formula. Used by the estimate and by the search for layouts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from envkit.backends.megatron.config import Recompute
from envkit.backends.megatron.layout import Layout
from envkit.backends.planning.gpus import GIB, Gpu
from envkit.backends.planning.model import ModelShape

__all__ = ["EngineMemory", "TrainMemory", "Training", "engine_memory", "layout_faults", "train_memory"]

#: CUDA context, NCCL's buffers, the allocator's fragmentation: what `nvidia-smi` shows beside the tensors.
TRAIN_RESERVED = 5 * GIB
#: Experts are never chosen evenly: the fullest rank's share over the mean, in the tensors of one layer.
IMBALANCE = 1.25
#: What a vLLM engine takes beside weights and KV, inside its share: activations of a full batch of prefill, graphs,
#: NCCL, the sampler's logits. (high, mid, low): engines with much CUDA graphs and large prefill batches are at 7 GiB.
ENGINE_RESERVED = (7 * GIB, 4 * GIB, 2 * GIB)
#: vLLM's own default of --gpu-memory-utilization.
GPU_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Training:
    """What beside model and layout decides about a training rank's memory.

    Attributes:
        tokens: Of the longest micro-batch: the packer's limit, or the longest row where that is longer.
        width: Bytes of a weight: 2 for bfloat16, 4 for float32.
        offload: Share of the optimiser's states in the host's memory.
        distributed: Optimiser states are cut over data-parallel ranks.
        trained: Share of the parameters that have gradients and states (adapters: little).
        reference: A second policy is held beside this one, frozen and as large.
    """

    tokens: int
    width: int = 2
    offload: float = 0.0
    distributed: bool = True
    recompute: Recompute | None = None
    logprob_chunk: int = 2048
    trained: float = 1.0
    reference: bool = False


@dataclass(frozen=True, slots=True)
class TrainMemory:
    """Bytes on the fullest training rank; `host` is the optimiser's in the memory of the host, per rank."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    working: int
    reserved: int
    host: int = 0

    @property
    def total(self) -> int:
        return sum(getattr(self, field.name) for field in fields(self) if field.name != "host")


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """One GPU of an engine, in bytes.

    Attributes:
        room: For keys, values and states: low, mid, high, by what the engine itself takes.
        kv_token: Of one token.
        state: Of one sequence, however long.
    """

    weights: int
    room: tuple[int, int, int]
    kv_token: int
    state: int

    def tokens(self, level: int = 1) -> int:
        """Tokens of keys and values, if nothing else were in the room; 0 where the weights don't fit. `level` is 0
        for low, 1 for mid, 2 for high."""
        return max(0, self.room[level]) // self.kv_token if self.kv_token else 0

    def trajectories(self, mean_tokens: float, level: int = 1) -> int:
        """Trajectories of this length that the room holds at once, their recurrent states included."""
        each = mean_tokens * self.kv_token + self.state
        return int(max(0, self.room[level]) / each)


def layout_faults(shape: ModelShape, layout: Layout, world: int) -> list[str]:
    """Why this model can't be cut like that; empty if it can."""
    found = []
    try:
        layout.data_ranks(world)
    except ValueError as error:
        found.append(str(error))
    own, tensor = shape.attention, layout.tensor
    if own.heads % tensor:
        found.append(f"{own.heads} attention heads over {tensor} tensor ranks")
    if own.kv_heads % tensor and tensor % own.kv_heads:
        found.append(f"{own.kv_heads} key heads over {tensor} tensor ranks")
    # context ranks trade parts of the sequence for heads in linear layers, whose states go along the sequence
    apart = tensor * layout.context
    if shape.linear is not None and (shape.linear.key_heads % apart or shape.linear.value_heads % apart):
        heads = f"{shape.linear.key_heads} and {shape.linear.value_heads} linear heads"
        found.append(f"{heads} over {tensor} tensor x {layout.context} context ranks")
    parts = layout.pipeline * layout.virtual_stages
    if shape.layers % parts:
        found.append(f"{shape.layers} layers over {parts} pipeline parts")
    if shape.experts is None:
        if layout.expert > 1:
            found.append(f"expert = {layout.expert}, and the model has no experts")
    else:
        inner = layout.expert_tensor or tensor
        if shape.experts.count % layout.expert:
            found.append(f"{shape.experts.count} experts over {layout.expert} expert ranks")
        if shape.experts.ffn % inner:
            found.append(f"an expert's {shape.experts.ffn} columns over {inner} ranks")
        if shape.experts.shared_ffn % tensor:
            found.append(f"the shared expert's {shape.experts.shared_ffn} columns over {tensor} tensor ranks")
    if shape.ffn % tensor:
        found.append(f"{shape.ffn} feed-forward columns over {tensor} tensor ranks")
    return found


def train_memory(shape: ModelShape, layout: Layout, world: int, training: Training) -> TrainMemory:
    """The fullest rank's memory. Raises `ValueError` for a layout that `layout_faults` refuses."""
    faults = layout_faults(shape, layout, world)
    if faults:
        raise ValueError("; ".join(faults))
    stages = [_stage(shape, layout, world, training, stage) for stage in range(layout.pipeline)]
    return max(stages, key=lambda memory: memory.total)


def _stage(shape: ModelShape, layout: Layout, world: int, training: Training, stage: int) -> TrainMemory:
    """A rank of this pipeline stage. Interleaved parts are counted as if they were one piece: as many layers."""
    tensor, pipeline = layout.tensor, layout.pipeline
    each = shape.layers // pipeline
    own = range(stage * each, (stage + 1) * each)
    inner = layout.expert_tensor or tensor
    kv_cut = min(tensor, shape.attention.kv_heads)
    dense = experts = 0.0
    for number, count in shape.kinds(own):
        weights = shape.layer(number)
        dense += (weights.cut / tensor + weights.kv / kv_cut + weights.whole) * count
        experts += weights.experts / (layout.expert * inner) * count
    first, last = stage == 0, stage == pipeline - 1
    if first:
        dense += shape.embedding / tensor
    if last and not (shape.tied and first):
        dense += shape.embedding / tensor
    dense += shape.hidden if last else 0
    held = dense + experts
    trained = training.trained
    copies = layout.data_ranks(world) * layout.context if training.distributed else 1
    expert_copies = world // (layout.expert * inner * pipeline) if training.distributed else 1
    per = 12 if training.width < 4 else 8  # a float32 copy of narrow weights, and two moments
    states = per * trained * (dense / copies + experts / expert_copies)
    return TrainMemory(
        weights=int(held * training.width) * (2 if training.reference else 1),
        gradients=int(held * trained * 4),
        optimizer=int(states * (1 - training.offload)),
        activations=int(_kept(shape, layout, training, own, stage)),
        working=int(_working(shape, layout, training, own, last)),
        reserved=TRAIN_RESERVED,
        # the host holds the states that were moved and a copy of their gradients
        host=int(states * training.offload * (per + 4) / per),
    )


def _tokens(layout: Layout, training: Training) -> float:
    """Of a micro-batch, on one context rank."""
    return math.ceil(training.tokens / layout.context)


def _layer_numbers(shape: ModelShape, layout: Layout, number: int) -> float:
    """Numbers per token of a micro-batch that one layer computes on a rank and its backward pass wants."""
    tensor = layout.tensor
    whole = tensor if layout.cuts_sequence else 1  # what the sequence's cut leaves of the residual stream
    hidden = shape.hidden / whole
    found = 4 * hidden  # both norms and both residuals
    if shape.full[number]:
        own = shape.attention
        heads = own.heads / tensor
        keys = max(1.0, own.kv_heads / tensor)
        found += own.head_dim * (heads * (3 if own.gated else 2) + 2 * keys) + shape.hidden
    elif shape.linear is not None:
        linear = shape.linear
        values = linear.value_heads * linear.value_dim
        # projections before and after the convolution, the gate, the output; the chunks' states are kept in float32
        found += (2 * linear.conv_width + 2 * values) / tensor + shape.hidden
        found += linear.value_heads * linear.key_dim * linear.value_dim * 2 / 64 / tensor
    if shape.sparse[number] and shape.experts is not None:
        moe = shape.experts
        inner = layout.expert_tensor or tensor
        # a rank's tokens go out to `chosen` experts and as many come in; expert tensor ranks see each other's
        arriving = moe.chosen * inner / whole
        found += IMBALANCE * arriving * (2 * shape.hidden + 3 * moe.ffn / inner)
        found += 3 * moe.shared_ffn / tensor + shape.hidden
    else:
        found += 3 * shape.ffn / tensor + shape.hidden
    return found


def _all_numbers(shape: ModelShape, layout: Layout, own: range) -> float:
    return sum(_layer_numbers(shape, layout, number) * count for number, count in shape.kinds(own))


def _kept(shape: ModelShape, layout: Layout, training: Training, own: range, stage: int) -> float:
    """Kept from the forward to the backward pass, for all micro-batches that are in flight on this stage."""
    flying: float = layout.pipeline - stage
    if layout.virtual_stages > 1:  # interleaving holds more of them, in part
        flying = layout.pipeline + (layout.pipeline - 1) / layout.virtual_stages
    how = training.recompute
    tokens, width = _tokens(layout, training), training.width
    whole = layout.tensor if layout.cuts_sequence else 1
    inputs = shape.hidden / whole
    if how is None:
        numbers = _all_numbers(shape, layout, own)
    elif how.granularity == "selective":
        numbers = 0.75 * _all_numbers(shape, layout, own)
    elif how.method == "uniform":
        numbers = inputs * -(-len(own) // how.layers)
    else:  # the first layers of a stage
        again = min(how.layers, len(own))
        numbers = inputs * again + _all_numbers(shape, layout, own[again:])
    return tokens * width * numbers * flying


def _working(shape: ModelShape, layout: Layout, training: Training, own: range, last: bool) -> float:
    """One unit of recomputation with its gradients, or the logits of a chunk, whichever is more."""
    tokens, width = _tokens(layout, training), training.width
    how = training.recompute
    unit = how.layers if how is not None and how.granularity == "full" and how.method == "uniform" else 1
    largest = max(_layer_numbers(shape, layout, number) for number, _ in shape.kinds(own))
    layer = tokens * width * largest * (unit + 1)
    logits = 0.0
    if last:
        # logits, their softmax and its gradient in float32; hidden states before the head
        chunk = min(training.logprob_chunk, tokens)
        logits = 3 * 4 * chunk * shape.vocab / layout.tensor + 2 * tokens * width * shape.hidden
    return max(layer, logits)


def engine_memory(
    shape: ModelShape,
    gpu: Gpu,
    *,
    tensor: int,
    share: float = GPU_SHARE,
    width: int = 2,
    kv_cache: int | None = None,
) -> EngineMemory:
    """One GPU of an engine over `tensor` GPUs.

    Args:
        share: Of the GPU's memory that the engine may use.
        width: Bytes of a weight and of a number in the KV cache.
        kv_cache: Bytes of KV room on a GPU, where it is set instead of measured by the engine.
    """
    kv_cut = min(tensor, shape.attention.kv_heads)
    held = shape.embedding / tensor * (1 if shape.tied else 2) + shape.hidden
    for number, count in shape.kinds(range(shape.layers)):
        layer = shape.layer(number)
        held += (layer.cut / tensor + layer.kv / kv_cut + layer.whole + layer.experts / tensor) * count
    weights = int(held * width)
    low, mid, high = (int(gpu.memory * share) - weights - reserved for reserved in ENGINE_RESERVED)
    room = (low, mid, high) if kv_cache is None else (kv_cache,) * 3
    return EngineMemory(
        weights=weights,
        room=room,
        kv_token=shape.kv_bytes(tensor=tensor, width=width),
        state=shape.state_bytes(tensor=tensor, width=width),
    )
