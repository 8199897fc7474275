"""The Megatron trainer: ranks of megatron-core behind the protocol that the loop knows.

Ranks are processes of this machine or Ray actors (`launch`, `on_ray`); this object, in the run's own process, deals
them their rows, gathers their weights and holds them together (`group`). Guarantees: every call ends by its deadline;
a step that fails leaves the weights of before, or the trainer says that it has lost them. A rank that dies takes the
others with it, and the step ends in one failure that names it; the next `load` or `restart` starts new ranks, as often
as the configuration allows. Weights leave as a stream of whole Hugging Face tensors, a bucket at a time, each held
against the fingerprint that its rank took. Used by `envkit train` with the `megatron-vllm` backend.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from envkit.backend import Batch, MicroBatch, Row, StepMetrics
from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.data.packing import Packing, pack
from envkit.backends.megatron.config import NO_REFERENCE, MegatronTrainerConfig
from envkit.backends.megatron.contents import read_about, write_about
from envkit.backends.megatron.group import Group
from envkit.backends.megatron.launch import Launcher, ProcessLauncher
from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, FailureKind, UserError
from envkit.tokens.trace import FloatArray, IntArray

__all__ = ["MegatronTrainer"]

T = TypeVar("T")

_POLL_S = 0.2
#: Longest wait for weights: they are asked for by whoever syncs, whose own deadline is shorter.
_WEIGHTS_S = 1800.0
#: Longest wait for ranks that do nothing else to say whether they have written a checkpoint.
_SAVED_S = 120.0


class MegatronTrainer:
    """Implements `envkit.backend.Trainer`, `RestartableTrainer` and `BackgroundSaves`. Call `start` first.

    Args:
        launcher: Starts the ranks; None for what the configuration says.
        logs: A folder for the ranks' output.

    Raises:
        UserError: The algorithm needs a reference policy, and none is named.
    """

    def __init__(
        self,
        config: MegatronTrainerConfig,
        algorithm: AlgorithmConfig,
        *,
        launcher: Launcher | None = None,
        logs: Path | None = None,
    ) -> None:
        if algorithm.needs_reference and config.reference is None:
            raise UserError(NO_REFERENCE)
        self.config, self.algorithm = config, algorithm
        self.version = 0
        self.restarts = 0
        self.fingerprints: dict[str, str] = {}
        self._launcher = launcher or _launcher(config, logs)
        self._group: Group | None = None
        self._begun = False
        self._without: str | None = None  # why weights that were trained are gone
        self._saving: tuple[Path, Path] | None = None
        self._turn = threading.Lock()  # held while ranks are at work: a save settles between other calls
        self._thread = ThreadPoolExecutor(2, thread_name_prefix="envkit-megatron")

    @property
    def ranks(self) -> int:
        """Data-parallel ranks."""
        return self.config.data_ranks

    @property
    def about(self) -> dict[str, Any]:
        """What ranks say of themselves: parameters held, device."""
        group = self._group
        if group is None:
            return {}
        return {
            "ranks": len(group.about),
            "parameters on the largest rank": max(rank["parameters"] for rank in group.about),
            "device": group.about[0]["device"],
            "hosts": ", ".join(sorted({rank.host for rank in group.members})),
        }

    async def start(self, deadline: Deadline) -> None:
        """Starts the ranks and loads the model.

        Raises:
            UserError: Model and layout do not fit each other, or the cluster has no room.
            EnvkitError: A rank did not come up.
        """
        await self._run(lambda: self._ready(deadline))

    # ---- a step ---------------------------------------------------------------------------------------------------

    async def train_step(self, batch: Batch, *, temperature: float, deadline: Deadline) -> StepMetrics:
        """See `envkit.backend.Trainer`. Beside its metrics: `step_s`, and the sums of `algorithms.step_loss`.

        Raises:
            GroupLost: A rank died; `version` is 0 and the trainer wants `load` or `restart`.
            DeadlineExceeded: The ranks were ended; the same.
            EnvkitError: Loss or gradient is not finite; nothing has changed.
        """
        return await self._run(lambda: self._step(batch, temperature, deadline))

    def _step(self, batch: Batch, temperature: float, deadline: Deadline) -> StepMetrics:
        if len(batch.ranks) != self.ranks:
            raise EnvkitError(
                f"expected a batch for {self.ranks} data-parallel ranks, found one for {len(batch.ranks)}",
                boundary=Boundary.ENVKIT,
            )
        group = self._ready(deadline)
        said = self._call(group, "step", self._dealt(group, batch, temperature), deadline, f"step {batch.step}")
        self.version = batch.step
        metrics: StepMetrics = {**said[0], "tokens": float(sum(len(row) for row in batch.rows))}
        return metrics

    def _dealt(self, group: Group, batch: Batch, temperature: float) -> list[tuple[Batch, float]]:
        """What each rank is sent: of the rows, those of its data-parallel rank."""
        empty = tuple(MicroBatch(()) for _ in batch.ranks[0]) if batch.ranks else ()
        shares = [
            (Batch(tuple(micros if n == r else empty for n, micros in enumerate(batch.ranks)), batch.step), temperature)
            for r in range(self.ranks)
        ]
        return [shares[rank["data_rank"]] for rank in group.about]

    async def logprobs(
        self, sequences: Sequence[IntArray], *, temperature: float, deadline: Deadline, tokens: int = 32_768
    ) -> list[FloatArray]:
        """Logprobs of ids 1..n-1 of every sequence under the weights held: [n - 1], in nats, at `temperature`.

        Args:
            tokens: That go through the model together.
        """
        return await self._run(lambda: self._logprobs(sequences, temperature, deadline, tokens))

    def _logprobs(
        self, sequences: Sequence[IntArray], temperature: float, deadline: Deadline, tokens: int
    ) -> list[FloatArray]:
        group = self._ready(deadline)
        packing, batch = self._packed(sequences, tokens)
        said = self._call(group, "logprobs", self._dealt(group, batch, temperature), deadline, "logprobs")
        found: dict[int, FloatArray] = {}
        for about, rows in zip(group.about, said, strict=True):
            if rows is not None:
                numbers = [n for micro in packing.ranks[about["data_rank"]] for n in micro]
                found |= {n: row[1:] for n, row in zip(numbers, rows, strict=True)}
        return [found[n] for n in range(len(sequences))]

    def _packed(self, sequences: Sequence[IntArray], tokens: int) -> tuple[Packing, Batch]:
        packing = pack([len(ids) for ids in sequences], budget=tokens, ranks=self.ranks)
        ranks = (tuple(MicroBatch(tuple(_scored(sequences[n]) for n in micro)) for micro in r) for r in packing.ranks)
        return packing, Batch(tuple(ranks), step=self.version + 1)

    async def routes(
        self, sequences: Sequence[IntArray], deadline: Deadline, tokens: int = 32_768
    ) -> list[dict[int, IntArray]]:
        """Which experts each token is sent to, under the weights held: of every sequence, layer -> [n, chosen] ids in
        ascending order. Empty dicts for a model without experts."""
        return await self._run(lambda: self._routes(sequences, deadline, tokens))

    def _routes(self, sequences: Sequence[IntArray], deadline: Deadline, tokens: int) -> list[dict[int, IntArray]]:
        group = self._ready(deadline)
        packing, batch = self._packed(sequences, tokens)
        said = self._call(
            group, "routes", [(share,) for share, _ in self._dealt(group, batch, 1.0)], deadline, "routes"
        )
        found: list[dict[int, IntArray]] = [{} for _ in sequences]
        for about, parts in zip(group.about, said, strict=True):
            for part in parts:
                micros = packing.ranks[about["data_rank"]]
                begin = 0
                for n in micros[part.micro] if part.micro < len(micros) else ():
                    length = len(sequences[n])
                    mine = (part.tokens >= begin) & (part.tokens < begin + length)
                    into = found[n].setdefault(part.layer, np.full((length, part.experts.shape[1]), -1, np.int32))
                    into[part.tokens[mine] - begin] = part.experts[mine]
                    begin += length
        return found

    # ---- weights --------------------------------------------------------------------------------------------------

    def weights(self) -> Iterator[tuple[str, Any]]:
        """(Hugging Face name, tensor on the CPU) pairs, gathered over all ranks as they are asked for.
        `fingerprints` is that of each name when the stream has ended.

        Raises:
            EnvkitError: A tensor did not arrive as it was sent, or there are no weights.
        """
        import torch

        from envkit.backends.megatron.worker import fingerprint

        deadline = Deadline.after(_WEIGHTS_S, "the gathering of weights")
        what = f"gathering the weights of version {self.version}"
        group = self._ready(deadline)
        self._call(group, "export", (int(self.config.bucket_mb * (1 << 20)),), deadline, what)
        found: dict[str, str] = {}
        while True:
            buckets = self._call(group, "next_bucket", (self.config.fingerprints,), deadline, what)
            for number, bucket in enumerate(buckets):
                for piece in bucket or ():
                    here = fingerprint(piece.dtype, piece.shape, piece.data) if piece.fingerprint else ""
                    if here != piece.fingerprint or piece.name in found:
                        wrong = "came twice" if piece.name in found else "is not what it was when it left"
                        raise EnvkitError(f"{what}: {piece.name} of rank {number} {wrong}", boundary=Boundary.ENVKIT)
                    found[piece.name] = here
                    flat = torch.from_numpy(piece.data if piece.data.flags.writeable else piece.data.copy())
                    yield piece.name, flat.view(getattr(torch, piece.dtype)).reshape(piece.shape)
            if all(bucket is None for bucket in buckets):
                break
        self.fingerprints = found

    # ---- checkpoints ----------------------------------------------------------------------------------------------

    async def save(self, folder: Path, deadline: Deadline) -> None:
        """Writes weights and the optimiser of all ranks (nothing in a step is random), and, if so configured, a Hugging
        Face model folder.

        Raises:
            EnvkitError: The folder exists, or could not be written; then nothing is left of it.
        """
        await self.begin_save(folder, deadline)
        await self.settle(deadline)

    async def begin_save(self, folder: Path, deadline: Deadline) -> None:
        """Copies what is to be written and begins to write it; training may go on. One at a time; `settle` ends it."""
        await self._run(lambda: self._begin_save(folder, deadline))

    def _begin_save(self, folder: Path, deadline: Deadline) -> None:
        if self._saving is not None:
            raise EnvkitError(f"the checkpoint {self._saving[0]} is still being written", boundary=Boundary.ENVKIT)
        if folder.exists():
            raise EnvkitError(f"{folder} exists; a checkpoint is written into a new folder", boundary=Boundary.ENVKIT)
        group = self._ready(deadline)
        part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
        what = f"the checkpoint of version {self.version}"
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.parent.mkdir(parents=True, exist_ok=True)
            if self.config.hf_checkpoints:
                self._call(group, "write_weights", (part,), deadline, what)
            part.mkdir(exist_ok=True)
            write_about(part, self.version, self.config)
            self._call(group, "save", (part,), deadline, what)
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)
            raise _unwritten(folder, error) from error
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        self._saving = (folder, part)

    async def settle(self, deadline: Deadline) -> None:
        """Waits until the checkpoint that was begun is whole, and gives it its name. Nothing to do is no error.

        Raises:
            EnvkitError: It could not be written; nothing is left of it.
        """
        if self._saving is None:
            return
        folder, part = self._saving
        group = self._group
        what = f"the writing of the checkpoint {folder.name}"
        try:
            while True:
                if group is None or group is not self._group:
                    raise EnvkitError(f"{what}: the ranks that wrote it are gone", boundary=Boundary.ENVKIT)
                if await self._run(partial(self._saved, group, deadline, what)):
                    break
                deadline.check()
                await asyncio.sleep(_POLL_S)
            await self._run(lambda: _publish(part, folder))
        except OSError as error:
            raise _unwritten(folder, error) from error
        finally:
            self._saving = None
            if part.exists():
                await self._run(partial(self._give_up, group, part))

    def _saved(self, group: Group, deadline: Deadline, what: str) -> bool:
        """Asks the ranks, unless they are at work: they would answer after it, and a step may take longer than this."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            return all(self._told(group, "saved", (), deadline.within(_SAVED_S), what))
        finally:
            self._turn.release()

    def _give_up(self, group: Group | None, part: Path) -> None:
        # where they are at work, the next save begins with this
        if group is not None and group is self._group and self._turn.acquire(blocking=False):
            try:
                with contextlib.suppress(EnvkitError):
                    what = "giving up a checkpoint"
                    self._told(group, "abandon", (), Deadline.after(_SAVED_S, what), what)
            finally:
                self._turn.release()
        shutil.rmtree(part, ignore_errors=True)

    async def load(self, folder: Path, deadline: Deadline) -> None:
        """Goes on from what `save` wrote, in whatever layout it was written; on new ranks where they were lost.

        Raises:
            EnvkitError: The folder holds no checkpoint, or one of another model.
        """
        await self._run(lambda: self._load(folder, deadline))

    def _load(self, folder: Path, deadline: Deadline) -> None:
        read_about(folder, self.config)  # before anything is changed or started
        self._without = None
        group = self._ready(deadline)
        self._without = f"the loading of {folder} ended half-way"
        self.version = 0
        said = self._call(group, "load", (folder,), deadline, f"the loading of {folder.name}")
        self.version, self._without = int(said[0]), None

    async def restart(self, deadline: Deadline) -> None:
        """Goes back to the beginning: version 0, with the weights of the model folder, on new ranks.

        Raises:
            EnvkitError: They did not come up, or were lost too often.
        """

        def work() -> None:
            if self._group is not None:
                self._group.end()
            self._group, self._without, self.version = None, None, 0
            self._ready(deadline)

        await self._run(work)

    async def close(self) -> None:
        """Ends the ranks; a checkpoint that is not whole is removed."""

        def work() -> None:
            if self._group is not None:
                self._group.end()
            if self._saving is not None:
                shutil.rmtree(self._saving[1], ignore_errors=True)
            self._launcher.close()

        await asyncio.to_thread(work)
        await asyncio.to_thread(self._thread.shutdown)

    # ---- ranks ----------------------------------------------------------------------------------------------------

    def _ready(self, deadline: Deadline) -> Group:
        """Ranks that hold the weights of `version`; new ones where there are none."""
        if self._without is not None:
            raise EnvkitError(
                f"the trainer has lost its weights ({self._without}); load a checkpoint", boundary=Boundary.ENVKIT
            )
        if self._group is None:
            if self._begun:
                if self.restarts >= self.config.restarts:
                    raise EnvkitError(
                        f"ranks were lost {self.restarts + 1} times; trainer.restarts allows {self.config.restarts}",
                        boundary=Boundary.ENVKIT,
                    )
                self.restarts += 1
            self._begun = True
            start = deadline.within(self.config.start_timeout_s, "the start of the ranks")
            self._group = Group(self.config, self.algorithm, self._launcher, start)
        return self._group

    def _call(self, group: Group, method: str, arguments: Any, deadline: Deadline, what: str) -> list[Any]:
        with self._turn:
            return self._told(group, method, arguments, deadline, what)

    def _told(self, group: Group, method: str, arguments: Any, deadline: Deadline, what: str) -> list[Any]:
        try:
            return group.call(method, arguments, deadline, what)
        finally:
            if group.lost is not None and self._group is group:
                self._group = None
                if self.version > 0:
                    self._without = group.lost
                self.version = 0

    async def _run(self, work: Callable[[], T]) -> T:
        """Runs in a worker thread. A cancelled caller leaves nothing half done: the work ends first, in its time."""
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())  # also of one that nobody awaits
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait({future})
            raise


def _launcher(config: MegatronTrainerConfig, logs: Path | None) -> Launcher:
    if config.ray is None:
        return ProcessLauncher(threads=config.threads, logs=logs)
    from envkit.backends.megatron.on_ray import RayLauncher

    return RayLauncher(config.ray, threads=config.threads, logs=logs)


def _scored(ids: IntArray) -> Row:
    """A row of which every token is asked for."""
    count = len(ids)
    zeros = np.zeros(count)
    return Row(
        ids=np.asarray(ids, np.int32),
        mask=np.arange(count) > 0,
        logprobs=zeros.astype(np.float32),
        versions=np.full(count, -1, np.int32),
        advantages=zeros,
        weights=zeros,
        group="",
        trial="",
    )


def _publish(part: Path, folder: Path) -> None:
    """Everything to the disk, then the name."""
    for path in sorted(part.rglob("*")):
        _flush(path)
    _flush(part)
    part.rename(folder)
    _flush(folder.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritten(folder: Path, error: OSError) -> EnvkitError:
    kind = FailureKind.DISK_FULL if error.errno in (28, 122) else FailureKind.UNKNOWN
    return EnvkitError(f"the checkpoint {folder} can't be written: {error}", kind=kind)
