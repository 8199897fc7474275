"""Low-rank adapters in models that are cut over ranks: small trained factors beside frozen matrices.

A matrix W gets `W x + B (A x) * alpha / rank`; B begins at zero, so that nothing changes at first. The fused matrices
of megatron-core get one adapter each: queries, keys and values together, gate and up projection together. Where W's
rows are cut, so are B's; where its columns are, so are A's; what is not cut is the same on all tensor ranks, and its
gradient is summed over them where they see different parts of a sequence. Only [tokens, rank] numbers travel. Engines
know nothing of adapters: weights that leave have them added in. Used by the factory and by trainer ranks.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from typing import Any

import torch
from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
from megatron.core.tensor_parallel.mappings import (
    copy_to_tensor_model_parallel_region,
    gather_from_sequence_parallel_region,
    reduce_from_tensor_model_parallel_region,
    reduce_scatter_to_sequence_parallel_region,
)
from megatron.core.transformer.utils import make_sharded_tensors_for_checkpoint
from torch import Tensor
from torch.nn.functional import linear

from envkit.backends.megatron.config import MegatronLoraConfig

__all__ = ["ADAPTER", "TARGETS", "AdaptedColumn", "AdaptedRow", "freeze", "merged", "prepare"]

#: Where a target's matrix is: below the attention or the dense feed-forward layer.
TARGETS = {"qkv": "linear_qkv", "proj": "linear_proj", "fc1": "linear_fc1", "fc2": "linear_fc2"}
#: What the names of an adapter's factors begin with.
ADAPTER = "adapter_"


def _begin(layer: Any, inputs: int, outputs: int) -> None:
    lora: MegatronLoraConfig = layer.config.envkit_lora
    like = {"dtype": layer.weight.dtype, "device": layer.weight.device}
    layer.adapter_a = torch.nn.Parameter(torch.empty(lora.rank, inputs, **like))
    layer.adapter_b = torch.nn.Parameter(torch.zeros(outputs, lora.rank, **like))
    layer.adapter_scale = lora.alpha / lora.rank
    # what leaves the ranks under the matrix's name
    layer.weight.merged = layer.merged


class AdaptedColumn(ColumnParallelLinear):  # type: ignore[misc]
    """A matrix whose rows are cut over tensor ranks, with an adapter."""

    def __init__(self, input_size: int, output_size: int, **given: Any) -> None:
        super().__init__(input_size, output_size, **given)
        if self.is_expert:
            raise ValueError("expected a matrix of a dense layer, found one of an expert: experts get no adapters")
        _begin(self, self.input_size, self.output_size_per_partition)

    def forward(self, input_: Tensor, *given: Any, **named: Any) -> tuple[Tensor, Tensor | None]:
        out, bias = super().forward(input_, *given, **named)
        if self.sequence_parallel:
            # each rank has its part of the sequence: A's gradient is the sum over them
            a = copy_to_tensor_model_parallel_region(self.adapter_a, group=self.tp_group)
            small = gather_from_sequence_parallel_region(
                linear(input_, a), tensor_parallel_output_grad=True, group=self.tp_group
            )
        else:
            small = copy_to_tensor_model_parallel_region(linear(input_, self.adapter_a), group=self.tp_group)
        return out + linear(small, self.adapter_b) * self.adapter_scale, bias

    def merged(self) -> Tensor:
        """This rank's part of the matrix with the adapter added in."""
        wide = self.adapter_b.detach().float() @ self.adapter_a.detach().float()
        return (self.weight.detach().float() + wide * self.adapter_scale).to(self.weight.dtype)

    def sharded_state_dict(self, prefix: str = "", sharded_offsets: Any = (), metadata: Any = None) -> Any:
        """The whole layer's, for checkpoints."""
        return _sharded(self, prefix, {"weight": 0, "bias": 0, "adapter_b": 0}, sharded_offsets, metadata)


class AdaptedRow(RowParallelLinear):  # type: ignore[misc]
    """A matrix whose columns are cut over tensor ranks, with an adapter."""

    def __init__(self, input_size: int, output_size: int, **given: Any) -> None:
        super().__init__(input_size, output_size, **given)
        if self.is_expert:
            raise ValueError("expected a matrix of a dense layer, found one of an expert: experts get no adapters")
        _begin(self, self.input_size_per_partition, self.output_size)

    def forward(self, input_: Tensor) -> tuple[Tensor, Tensor | None]:
        out, bias = super().forward(input_)
        part = linear(input_, self.adapter_a)
        if self.sequence_parallel:
            small = reduce_scatter_to_sequence_parallel_region(part, group=self.tp_group)
            b = copy_to_tensor_model_parallel_region(self.adapter_b, group=self.tp_group)
        else:
            small = reduce_from_tensor_model_parallel_region(part, group=self.tp_group)
            b = self.adapter_b
        return out + linear(small, b) * self.adapter_scale, bias

    merged = AdaptedColumn.merged

    def sharded_state_dict(self, prefix: str = "", sharded_offsets: Any = (), metadata: Any = None) -> Any:
        """The whole layer's, for checkpoints."""
        return _sharded(self, prefix, {"weight": 1, "adapter_a": 1}, sharded_offsets, metadata)


def prepare(attention: Any, dense: Any | None, targets: Iterable[str]) -> None:
    """Puts adapted matrices into the specs of a layer's attention and, where it is dense, its feed-forward layer."""
    for target in targets:
        where = attention if target in ("qkv", "proj") else dense
        if where is not None:
            setattr(where, TARGETS[target], AdaptedColumn if target in ("qkv", "fc1") else AdaptedRow)


def freeze(chunk: Any, layers: list[int], seed: int) -> None:
    """Freezes all but the adapters of a built part of a model, and gives their factors A their first values: the same
    whatever the layout.

    Args:
        layers: The number in the whole model of each of the part's layers.
    """
    for parameter in chunk.parameters():
        parameter.requires_grad_(False)
    for number, layer in zip(layers, chunk.decoder.layers, strict=True):
        for name, module in layer.named_modules():
            if not isinstance(module, AdaptedColumn | AdaptedRow):
                continue
            generator = torch.Generator().manual_seed(seed ^ zlib.crc32(f"{number}.{name}".encode()))
            bound = math.sqrt(3.0 / module.input_size)
            whole = torch.empty(len(module.adapter_a), module.input_size).uniform_(-bound, bound, generator=generator)
            if isinstance(module, AdaptedRow):
                ranks = module.input_size // module.input_size_per_partition
                whole = whole.chunk(ranks, dim=1)[torch.distributed.get_rank(module.tp_group)]
            with torch.no_grad():
                module.adapter_a.copy_(whole)
            module.adapter_a.requires_grad_()
            module.adapter_b.requires_grad_()
    if getattr(chunk, "pre_process", False):
        # layers that are computed again in the backward pass only take part where their input has a gradient
        chunk.embedding.register_forward_hook(lambda module, given, out: out.requires_grad_())


def merged(parameter: Tensor) -> Tensor:
    """A parameter as others are to have it."""
    make = getattr(parameter, "merged", None)
    found: Tensor = parameter.detach() if make is None else make()
    return found


def _sharded(layer: Any, prefix: str, axes: dict[str, int], offsets: Any, metadata: Any) -> Any:
    return make_sharded_tensors_for_checkpoint(
        layer.state_dict(prefix="", keep_vars=True),
        prefix,
        axes,
        offsets,
        **({"tp_group": layer.tp_group, "dp_cp_group": metadata["dp_cp_group"]} if metadata else {}),
    )
