"""Hugging Face folders in and out of a model that is cut over ranks, a parameter at a time.

Reading: every rank opens the folder's safetensors files and reads its own parts, nothing else. Writing: the ranks that
hold parts of a parameter give them to the first of them, which writes files of its own; none ever holds the whole
model, and the files of all ranks are one Hugging Face folder with an index (`files.py`). A tensor that is missing, left
over, or of another shape is an error.
Bits are moved, never computed on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from megatron.core import parallel_state
from safetensors import SafetensorError, safe_open
from torch import Tensor

from envkit.backends.megatron.lora import ADAPTER, merged
from envkit.backends.megatron.mapping import Rule, rules
from envkit.backends.megatron.shape import Shape
from envkit.failure import UserError

__all__ = ["Folder", "buckets", "export", "held", "load"]

_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_LAYER = re.compile(r"decoder\.layers\.(\d+)\.")
_EXPERT = re.compile(r"\.local_experts\.(\d+)\.")
#: Tensors that folders may hold beside the weights: made again from the configuration.
_DERIVED = re.compile(r"rotary_emb\.inv_freq$")


class Folder:
    """Tensors of a Hugging Face folder, read in parts; a `mapping.Source`.

    Raises:
        UserError: It holds no safetensors files, or one of them is broken.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        index = path / _INDEX
        self._open: dict[str, Any] = {}
        try:
            if index.is_file():
                self._files: dict[str, str] = dict(json.loads(index.read_text())["weight_map"])
            else:
                self._files = dict.fromkeys(self._file(_SINGLE).keys(), _SINGLE)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise UserError(f"expected {_SINGLE} or {_INDEX} in {path}: {error}") from error

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._files)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._slice(name).get_shape())

    def read(self, name: str, dim: int = 0, start: int = 0, stop: int | None = None) -> Tensor:
        at = (slice(None),) * dim + (slice(start, stop),)
        return self._slice(name)[at]

    def _slice(self, name: str) -> Any:
        try:
            return self._file(self._files[name]).get_slice(name)
        except (OSError, SafetensorError) as error:
            raise UserError(f"{self.path / self._files[name]} can't be read ({name}): {error}") from error

    def _file(self, name: str) -> Any:
        if name not in self._open:
            self._open[name] = safe_open(self.path / name, "pt")
        return self._open[name]


def held(chunks: Sequence[Any]) -> dict[str, Tensor]:
    """The parameters that this rank holds, by their names in a model that is not cut (see `mapping`)."""
    found: dict[str, Tensor] = {}
    ep = parallel_state.get_expert_model_parallel_rank()
    for chunk in chunks:
        while not hasattr(chunk, "decoder"):  # wrapped for data parallelism or for a narrow type
            chunk = chunk.module
        layers = [layer.layer_number - 1 for layer in chunk.decoder.layers]
        for name, parameter in chunk.named_parameters():
            if name.rpartition(".")[2].startswith(ADAPTER):
                continue  # no tensor of its own, there or here
            name = _LAYER.sub(lambda m: f"decoder.layers.{layers[int(m[1])]}.", name, count=1)  # noqa: B023
            if expert := _EXPERT.search(name):
                layer = chunk.decoder.layers[layers.index(int(_LAYER.match(name)[1]))]  # type: ignore[index]
                first = ep * layer.mlp.experts.num_local_experts
                name = f"{name[: expert.start(1)]}{first + int(expert[1])}{name[expert.end(1) :]}"
            found[name] = parameter
    return found


def load(chunks: Sequence[Any], shape: Shape, path: Path) -> None:
    """Reads this rank's weights; no rank waits for another.

    Raises:
        UserError: The folder's tensors are not those of the model: found by their names before anything is changed,
            by their shapes as they come; the model is not to be used then.
    """
    source, table = Folder(path), rules(shape)
    expected = {name for rule in table.values() for name in rule.names}
    missing = sorted(expected - source.names)
    beyond = sorted(n for n in source.names - expected if not _DERIVED.search(n) and not (shape.tied and _head(n)))
    found = ((missing, "missing"), (beyond, "left over"))
    if missing or beyond:
        raise UserError(
            f"{path} does not hold the weights of a {shape.architecture} of this shape: "
            + "; ".join(f"{len(n)} {what}, such as {n[0]}" for n, what in found if n)
        )
    mine = held(chunks)
    plan = [(name, parameter, table[name], *_cut(table[name])) for name, parameter in mine.items()]
    with torch.no_grad():
        for name, parameter, rule, rank, ranks in plan:
            part = rule.pack(source, rank, ranks)
            if part.shape != parameter.shape:
                raise UserError(
                    f"expected {list(parameter.shape)} for {name} on rank {rank} of {ranks}, found {list(part.shape)} "
                    f"in {path} ({', '.join(rule.names)})"
                )
            parameter.copy_(part)


def export(
    chunks: Sequence[Any], shape: Shape, *, of: Callable[[Tensor], Tensor] = merged
) -> Iterator[tuple[str, Tensor]]:
    """Hugging Face names and tensors, fused ones apart, tied ones once; over all ranks each exactly once.

    All ranks must go through it to the end, together: the parts of a parameter are gathered as it comes. The first
    tensor rank (the first rank of an expert) of the first replica gets the pairs, others get none.

    Args:
        of: What is exported of a parameter: itself with its adapter added in, its gradient.
    """
    for bucket in buckets(chunks, shape, of=of):
        yield from bucket


def buckets(
    chunks: Sequence[Any], shape: Shape, *, of: Callable[[Tensor], Tensor] = merged, bucket_bytes: int = 0
) -> Iterator[list[tuple[str, Tensor]]]:
    """What `export` gives, some parameters at a time: all ranks of a stage cut at the same places, so that nobody waits
    in a gather for a rank that has been stopped between two buckets.

    Args:
        bucket_bytes: A bucket is closed when the whole parameters in it have grown past that; 0 for one parameter each.
    """
    table = rules(shape)
    found: list[tuple[str, Tensor]] = []
    size = 0
    for name, parameter in held(chunks).items():
        rule = table[name]
        # counted also where this rank gives nothing, since others do
        size += parameter.numel() * parameter.element_size() * _cut(rule)[1]
        if not rule.copy and not _replica(rule):
            parts, mine = _gathered(of(parameter), rule)
            if mine:
                found.extend(rule.unpack(parts))
        if size >= bucket_bytes:
            yield found
            found, size = [], 0
    yield found


def _head(name: str) -> bool:
    return name == "lm_head.weight"


def _cut(rule: Rule) -> tuple[int, int]:
    """This rank's place among those that share the parameter, and how many there are."""
    if not rule.cut:
        return 0, 1
    if rule.expert:
        return (
            parallel_state.get_expert_tensor_parallel_rank(),
            parallel_state.get_expert_tensor_parallel_world_size(),
        )
    return parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_tensor_model_parallel_world_size()


def _replica(rule: Rule) -> bool:
    """Another rank holds the same and comes first."""
    if rule.expert:
        return bool(parallel_state.get_expert_data_parallel_rank() > 0)
    return bool(parallel_state.get_data_parallel_rank(with_context_parallel=True) > 0)


def _gathered(part: Tensor, rule: Rule) -> tuple[list[Tensor], bool]:
    """The parts of all ranks that share a parameter, and whether this rank is the one that goes on with them."""
    rank, ranks = _cut(rule)
    if rule.expert:
        group = parallel_state.get_expert_tensor_parallel_group()
        first = parallel_state.get_expert_tensor_parallel_rank() == 0
    else:
        group = parallel_state.get_tensor_model_parallel_group()
        first = parallel_state.get_tensor_model_parallel_rank() == 0
    if ranks == 1:
        return [part], first
    parts = [torch.empty_like(part) for _ in range(ranks)] if rank == 0 else None
    torch.distributed.gather(part.contiguous(), parts, group=group, group_dst=0)
    return parts or [], first
