"""What tests have ranks do, and the process of a rank that does it (see `conftest.ranks`)."""

from __future__ import annotations

import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from envkit.backend import Batch, StepMetrics
from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.megatron import Layout, cpu_compat
from envkit.backends.megatron.factory import build, initialize, packed_sequences
from envkit.backends.megatron.files import write
from envkit.backends.megatron.logprobs import policy_logprobs, vocabulary_logprobs
from envkit.backends.megatron.process import main
from envkit.backends.megatron.rank import TrainerRank
from envkit.backends.megatron.shape import shape_of
from envkit.backends.megatron.weights import export, load
from envkit.backends.megatron.worker import METHODS, Worker
from envkit.backends.torch.config import OptimizerConfig
from envkit.failure import EnvkitError


def round_trip(layout: Layout, folder: Path, out: Path, shard_bytes: int) -> int:
    """Reads a folder, writes another; how many bytes of parameters this rank held."""
    shape = shape_of(folder)
    chunks = build(shape, layout)
    load(chunks, shape, folder)
    write(export(chunks, shape), out, like=folder, shard_bytes=shard_bytes)
    return sum(p.numel() * p.element_size() for chunk in chunks for p in chunk.parameters())


def write_nowhere(layout: Layout, folder: Path, out: Path) -> str:
    """What a rank is told where another can't write."""
    shape = shape_of(folder)
    chunks = build(shape, layout)
    load(chunks, shape, folder)
    if torch.distributed.get_rank() == 1:
        import envkit.backends.megatron.files as files

        def full(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        kept, files.save_file = files.save_file, full
    try:
        write(export(chunks, shape), out, like=folder)
    except EnvkitError as error:
        return f"{error.kind}: {error}"
    finally:
        if torch.distributed.get_rank() == 1:
            files.save_file = kept
    return "written"


def logprobs_and_gradients(
    layout: Layout, folder: Path, rows: list[list[int]], mask: torch.Tensor, weights: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Of packed rows, padded to what the layout needs; gradients under their Hugging Face names."""
    shape = shape_of(folder)
    (model,) = build(shape, layout)
    load([model], shape, folder)
    ids = torch.tensor([i for row in rows for i in row])
    pad = -len(ids) % layout.multiple
    lengths = [len(row) for row in rows] + ([pad] if pad else [])
    starts = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    padded = torch.cat([ids, ids.new_zeros(pad)])
    positions = torch.cat([torch.arange(n) for n in lengths])
    with cpu_compat.on_device():
        hidden = model(padded[None], positions[None], None, packed_seq_params=packed_sequences(starts))
        logprobs, entropies = policy_logprobs(
            model, hidden, ids, mask, vocab=shape.vocab, temperature=temperature, chunk=16
        )
        (weights * (logprobs + 0.1 * entropies)).sum().backward()
        _sum_shared(model, layout)
        gradients = dict(export([model], shape, of=lambda p: p.grad.detach()))
    return logprobs.detach(), entropies.detach(), gradients


def _sum_shared(model: Any, layout: Layout) -> None:
    """What megatron-core's finalisation does before an optimiser step: norms that saw part of the sequence, or some of
    the heads, have part of their gradient."""
    if layout.tensor == 1:
        return
    for name, p in model.named_parameters():
        if getattr(p, "sequence_parallel", False) or "q_layernorm" in name or "k_layernorm" in name:
            torch.distributed.all_reduce(p.grad)


def vocabulary(layout: Layout, hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> dict[str, Any]:
    """Logprobs over a head that is cut, and the gradients put together again."""
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    vocab = len(weight)
    each = -(-vocab // ranks)
    padded = torch.cat([weight, weight.new_full((each * ranks - vocab, weight.shape[1]), 7.0)])
    part = padded[rank * each : (rank + 1) * each].clone().requires_grad_()
    hidden = hidden.clone().requires_grad_()
    logprobs, entropies = vocabulary_logprobs(hidden, part, targets, vocab=vocab, temperature=0.7, chunk=4)
    (logprobs.sum() + entropies.square().sum()).backward()
    torch.distributed.all_reduce(hidden.grad)
    return {"logprobs": logprobs.detach(), "entropies": entropies.detach(), "hidden": hidden.grad, "weight": part.grad}


def train(
    layout: Layout,
    folder: Path,
    batches: list[Batch],
    distributed: bool,
    grad_clip: float = 1.0,
    settings: dict[str, Any] | None = None,
    algorithm: dict[str, Any] | None = None,
) -> tuple[list[dict[str, float]], Any]:
    """Optimiser steps, one after the other: what each said, and this rank's weights afterwards."""
    rank = TrainerRank(
        folder,
        layout,
        AlgorithmConfig(**(algorithm or {})),
        OptimizerConfig(lr=1e-3, grad_clip=grad_clip, warmup_steps=2),
        distributed_optimizer=distributed,
        logprob_chunk=16,
        **(settings or {}),
    )
    said = [rank.step(batch, temperature=0.8) for batch in batches]
    assert rank.version == batches[-1].step
    return said, {name: tensor.clone() for name, tensor in rank.export()}


def train_on_infinity(layout: Layout, folder: Path, batch: Batch) -> tuple[str, bool]:
    """What is said where a gradient is not finite, and whether the weights are still those of the folder."""
    rank = TrainerRank(folder, layout, AlgorithmConfig(), OptimizerConfig(lr=1e-3))
    before = {name: tensor.clone() for name, tensor in rank.export()}
    try:
        rank.step(batch, temperature=0.8)
    except EnvkitError as error:
        after = dict(rank.export())
        return str(error), rank.version == 0 and all(torch.equal(after[n], t) for n, t in before.items())
    return "trained", False


class DoomedWorker(Worker):
    """A rank that also does what stands in this file, and is killed where a marker says so: `<when>-<rank>`."""

    methods = METHODS | {"function"}

    def function(
        self, rank: int, world: int, layout: dict[str, Any], meeting: str, name: str, arguments: dict[str, Any]
    ) -> Any:
        """Meets the others and calls a function."""
        initialize(Layout(**layout), rank=rank, world=world, init_method=meeting, timeout_s=120)
        return globals()[name](Layout(**layout), **arguments)

    def step(self, batch: Batch, temperature: float) -> StepMetrics:
        self._doom(f"step{batch.step}", 0.01)
        return super().step(batch, temperature)

    def save(self, folder: Path) -> None:
        super().save(folder)  # the writing goes on
        self._doom("save", 0.0)

    def _doom(self, when: str, after_s: float) -> None:
        assert self._setup is not None
        marker = Path(os.environ["ENVKIT_TEST_DOOM"]) / f"{when}-{self._setup.rank}"
        if marker.exists():
            marker.unlink()
            threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGKILL)).start()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Connection(int(sys.argv[1])), DoomedWorker())
