"""Which Hugging Face tensors a megatron-core parameter is made of, and how it is cut over tensor ranks.

Parameters are named as in a model that is not cut at all: `decoder.layers.7...`, `...local_experts.31...`, whatever
stage or rank holds them. A rule reads one rank's part of a parameter from a folder, without reading the rest where the
layout allows, and turns the parts of all ranks back into Hugging Face tensors; both ways move bits and compute nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from envkit.backends.megatron.shape import Shape

__all__ = ["Attention", "Gated", "One", "Rule", "Source", "rules"]


class Source(Protocol):
    """Tensors of a folder by their Hugging Face names."""

    def shape(self, name: str) -> tuple[int, ...]: ...

    def read(self, name: str, dim: int = 0, start: int = 0, stop: int | None = None) -> Tensor:
        """Part of a tensor along one dimension; what is outside it is left out."""
        ...


class Rule(Protocol):
    """One parameter.

    Attributes:
        names: The Hugging Face tensors that it is made of.
        cut: Tensor ranks hold different parts of it; else each holds the whole.
        expert: It is cut over the ranks of an expert.
        copy: Another stage's copy of a tied tensor: read, never written.
    """

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def cut(self) -> bool: ...
    @property
    def expert(self) -> bool: ...
    @property
    def copy(self) -> bool: ...

    def pack(self, source: Source, rank: int, ranks: int) -> Tensor: ...

    def unpack(self, parts: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]: ...


@dataclass(frozen=True, slots=True)
class One:
    """A parameter that is one tensor, cut along `dim` (None: not cut). `rows` is the number that the tensor has where
    the parameter may have more (a padded vocabulary): zeros, dropped again on the way out."""

    name: str
    dim: int | None = None
    rows: int | None = None
    expert: bool = False
    copy: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def cut(self) -> bool:
        return self.dim is not None

    def pack(self, source: Source, rank: int, ranks: int) -> Tensor:
        if self.dim is None:
            return source.read(self.name)
        if self.rows is None:
            size = source.shape(self.name)[self.dim]
            return source.read(self.name, self.dim, rank * size // ranks, (rank + 1) * size // ranks)
        each = -(-self.rows // ranks)
        part = source.read(self.name, 0, min(rank * each, self.rows), min((rank + 1) * each, self.rows))
        return torch.cat([part, part.new_zeros(each - len(part), *part.shape[1:])])

    def unpack(self, parts: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
        whole = parts[0] if self.dim is None or len(parts) == 1 else torch.cat(list(parts), dim=self.dim)
        yield self.name, whole if self.rows is None else whole[: self.rows]


@dataclass(frozen=True, slots=True)
class Attention:
    """Queries, keys and values in one matrix: a group of heads after the other, each its queries, its keys, its values.

    Attributes:
        groups: Heads of keys and values.
        queries: Heads of queries in a group.
    """

    query: str
    key: str
    value: str
    groups: int
    queries: int
    expert: bool = False
    copy: bool = False
    cut: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        return (self.query, self.key, self.value)

    def pack(self, source: Source, rank: int, ranks: int) -> Tensor:
        if self.groups % ranks:  # a group is shared between ranks
            whole = self.pack(source, 0, 1)
            return whole[rank * len(whole) // ranks : (rank + 1) * len(whole) // ranks]
        groups, parts = self.groups // ranks, []
        for name in self.names:
            size = source.shape(name)[0] // ranks
            part = source.read(name, 0, rank * size, (rank + 1) * size)
            parts.append(part.reshape(groups, -1, *part.shape[1:]))
        return torch.cat(parts, dim=1).flatten(0, 1)

    def unpack(self, parts: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
        whole = torch.cat(list(parts))
        whole = whole.reshape(self.groups, -1, *whole.shape[1:])
        head = whole.shape[1] // (self.queries + 2)
        for name, part in zip(self.names, whole.split([self.queries * head, head, head], dim=1), strict=True):
            yield name, part.flatten(0, 1)


@dataclass(frozen=True, slots=True)
class Gated:
    """Gate and up projection in one matrix; every rank has its part of the gate, then its part of the other."""

    gate: str
    up: str
    expert: bool = False
    copy: bool = False
    cut: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        return (self.gate, self.up)

    def pack(self, source: Source, rank: int, ranks: int) -> Tensor:
        size = source.shape(self.gate)[0] // ranks
        return torch.cat([source.read(name, 0, rank * size, (rank + 1) * size) for name in self.names])

    def unpack(self, parts: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
        halves = [part.chunk(2) for part in parts]
        yield self.gate, torch.cat([half[0] for half in halves])
        yield self.up, torch.cat([half[1] for half in halves])


def rules(shape: Shape) -> dict[str, Rule]:
    """Every parameter that any rank may hold of such a model."""
    table: dict[str, Rule] = {
        "embedding.word_embeddings.weight": One("model.embed_tokens.weight", 0, shape.vocab),
        "decoder.final_layernorm.weight": One("model.norm.weight"),
        "output_layer.weight": (
            One("model.embed_tokens.weight", 0, shape.vocab, copy=True)
            if shape.tied
            else One("lm_head.weight", 0, shape.vocab)
        ),
    }
    for n in range(shape.layers):
        table |= _layer(shape, n)
    return table


def _layer(shape: Shape, n: int) -> dict[str, Rule]:
    here, there = f"decoder.layers.{n}", f"model.layers.{n}"
    attention, heads = f"{here}.self_attention", f"{there}.self_attn"
    table: dict[str, Rule] = {
        f"{here}.input_layernorm.weight": One(f"{there}.input_layernorm.weight"),
        f"{here}.pre_mlp_layernorm.weight": One(f"{there}.post_attention_layernorm.weight"),
        f"{attention}.linear_qkv.weight": Attention(
            f"{heads}.q_proj.weight",
            f"{heads}.k_proj.weight",
            f"{heads}.v_proj.weight",
            groups=shape.kv_heads,
            queries=shape.heads // shape.kv_heads,
        ),
        f"{attention}.linear_proj.weight": One(f"{heads}.o_proj.weight", 1),
        f"{attention}.q_layernorm.weight": One(f"{heads}.q_norm.weight"),
        f"{attention}.k_layernorm.weight": One(f"{heads}.k_norm.weight"),
    }
    if not shape.has_experts(n):
        return table | _feed_forward(f"{here}.mlp", f"{there}.mlp", expert=False)
    assert shape.experts is not None
    table[f"{here}.mlp.router.weight"] = One(f"{there}.mlp.gate.weight")
    for e in range(shape.experts.count):
        table |= _feed_forward(f"{here}.mlp.experts.local_experts.{e}", f"{there}.mlp.experts.{e}", expert=True)
    return table


def _feed_forward(here: str, there: str, *, expert: bool) -> dict[str, Rule]:
    return {
        f"{here}.linear_fc1.weight": Gated(f"{there}.gate_proj.weight", f"{there}.up_proj.weight", expert=expert),
        f"{here}.linear_fc2.weight": One(f"{there}.down_proj.weight", 1, expert=expert),
    }
