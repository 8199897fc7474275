"""What a rank does when it is told to: the same in a plain process and in a Ray actor.

A call names a method of `Worker` and brings its arguments; the answer is its value, or the record of what it raised.
Errors that every rank meets alike and that change nothing (`EnvkitError`) leave the rank as it was; anything else says
that it is not to be used any more. All calls come in one thread, in order. Used by `process` and `on_ray`.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from envkit.backend import Batch, StepMetrics
from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.megatron.config import MegatronTrainerConfig
from envkit.backends.megatron.launch import Answer
from envkit.failure import EnvkitError, capture

__all__ = ["METHODS", "Piece", "Setup", "Worker", "fingerprint"]

#: What may be asked for.
METHODS = frozenset(
    {"meet", "begin", "leave", "step", "logprobs", "routes", "export", "next_bucket", "write_weights"}
    | {"save", "saved", "abandon", "load"}
)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a rank needs to begin.

    Attributes:
        host, port: Where ranks meet.
    """

    config: MegatronTrainerConfig
    algorithm: AlgorithmConfig
    rank: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Piece:
    """One tensor on its way out.

    Attributes:
        name: Its Hugging Face name.
        dtype: As torch names it (`bfloat16`).
        data: [bytes] uint8.
        fingerprint: Of the bytes; empty where none was asked for.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8]
    fingerprint: str


def fingerprint(dtype: str, shape: tuple[int, ...], data: npt.NDArray[np.uint8]) -> str:
    """A digest of a tensor: the same for the same bits, type and shape."""
    hasher = hashlib.blake2b(f"{dtype}{list(shape)}".encode(), digest_size=16)
    hasher.update(memoryview(data))  # type: ignore[arg-type]
    return hasher.hexdigest()


class Worker:
    """One rank."""

    methods = METHODS

    def __init__(self) -> None:
        self._store: Any = None
        self._trainer: Any = None
        self._setup: Setup | None = None
        self._buckets: Iterator[list[tuple[str, Any]]] | None = None
        self._saving: Any = None

    def answer(self, method: str, payload: bytes) -> Answer:
        """Does what is asked. Never raises."""
        try:
            if method not in self.methods:
                raise ValueError(f"a rank knows no {method!r}")
            return Answer(getattr(self, method)(*pickle.loads(payload)))
        except Exception as error:  # noqa: BLE001 the rank's capture point: whoever asked decides
            return Answer(failure=capture(error), intact=isinstance(error, EnvkitError))

    def meet(self, host: str, world: int, timeout_s: float) -> int:
        """Opens the place where ranks meet, on a free port, and gives it."""
        import torch

        self._store = torch.distributed.TCPStore(
            host, 0, world, is_master=True, timeout=timedelta(seconds=timeout_s), wait_for_workers=False
        )
        return int(self._store.port)

    def begin(self, setup: Setup) -> dict[str, Any]:
        """Meets the others and loads this rank's part of the model; what it holds."""
        import torch
        from megatron.core import parallel_state

        from envkit.backends.megatron.factory import initialize
        from envkit.backends.megatron.rank import TrainerRank

        config = setup.config
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        if torch.cuda.is_available():
            # Ray shows an actor its own GPU only
            torch.cuda.set_device(setup.rank % torch.cuda.device_count())
        store = self._store or torch.distributed.TCPStore(
            setup.host, setup.port, config.world, timeout=timedelta(seconds=config.start_timeout_s)
        )
        initialize(
            config.layout,
            rank=setup.rank,
            world=config.world,
            store=store,
            timeout_s=config.collective_timeout_s,
            seed=config.seed,
        )
        self._setup = setup
        self._trainer = TrainerRank.of(config, setup.algorithm)
        return {
            "data_rank": parallel_state.get_data_parallel_rank(),
            "parameters": sum(p.numel() for chunk in self._trainer.chunks for p in chunk.parameters()),
            "device": "cuda" if torch.cuda.is_available() else "cpu",
        }

    def step(self, batch: Batch, temperature: float) -> StepMetrics:
        """One optimiser step."""
        metrics: StepMetrics = self._trainer.step(batch, temperature=temperature)
        return metrics

    def logprobs(self, batch: Batch, temperature: float) -> list[npt.NDArray[np.float32]] | None:
        """Of this rank's rows (`TrainerRank.logprobs`)."""
        rows = self._trainer.logprobs(batch, temperature=temperature)
        return None if rows is None else [row.float().numpy() for row in rows]

    def routes(self, batch: Batch) -> list[Any]:
        """Of this rank's layers and tokens (`TrainerRank.routes`)."""
        found: list[Any] = self._trainer.routes(batch)
        return found

    # ---- weights --------------------------------------------------------------------------------------------------

    def export(self, bucket_bytes: int) -> None:
        """Begins to give weights; whatever was being given before is forgotten."""
        self._buckets = self._trainer.buckets(bucket_bytes)

    def next_bucket(self, with_fingerprints: bool) -> list[Piece] | None:
        """This rank's share of the next bucket; None when it has given everything."""
        found = None if self._buckets is None else next(self._buckets, None)
        if found is None:
            self._buckets = None
            return None
        return [_piece(name, tensor, with_fingerprints) for name, tensor in found]

    # ---- checkpoints ----------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Begins a checkpoint in an empty folder: what is to be written is copied, the writing goes on beside."""
        from envkit.backends.megatron.checkpoint import Writing

        self.abandon()  # of one that was given up while this rank was at work
        self._saving = Writing(self._trainer, folder)

    def saved(self) -> bool:
        """Whether all ranks have written theirs; asked on all of them together."""
        if self._saving is None:
            return True
        try:
            done: bool = self._saving.done()
        except EnvkitError:
            self.abandon()
            raise
        if done:
            self._saving = None
        return done

    def abandon(self) -> None:
        """Gives up a checkpoint that is being written."""
        if self._saving is not None:
            self._saving.abandon()
            self._saving = None

    def write_weights(self, folder: Path) -> None:
        """Writes a Hugging Face folder, all ranks together."""
        from envkit.backends.megatron.files import write

        assert self._setup is not None
        write(self._trainer.export(), folder, like=self._setup.config.model)

    def load(self, folder: Path) -> int:
        """Goes on from a checkpoint; its version."""
        from envkit.backends.megatron import checkpoint

        return checkpoint.load(self._trainer, folder)

    def leave(self) -> None:
        """Ends what `begin` began; the rank may begin again."""
        import torch
        from megatron.core import parallel_state

        self.abandon()
        self._trainer = self._buckets = self._setup = None
        if torch.distributed.is_initialized():
            parallel_state.destroy_model_parallel()
            torch.distributed.destroy_process_group()
        self._store = None


def _piece(name: str, tensor: Any, with_fingerprint: bool) -> Piece:
    import torch

    plain = tensor.detach().contiguous().cpu()
    data = plain.reshape(-1).view(torch.uint8).numpy()
    dtype, shape = str(plain.dtype).removeprefix("torch."), tuple(plain.shape)
    return Piece(name, dtype, shape, data, fingerprint(dtype, shape, data) if with_fingerprint else "")
