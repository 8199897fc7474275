"""Policy checkpoints: the trainer's own folder, made durable beside the training, and marked only then.

    checkpoints/step-000010/policy/...      what the trainer saved
    checkpoints/step-000010/manifest.json   every file with its size and digest
    checkpoints/latest.json                 {"step": 10, ...}: written last; a checkpoint without it does not exist

Saving has two halves. The trainer writes its folder while it does not train (generation goes on). Everything after
(digests, flushing or uploading, the marker, removing old ones) happens in the background. A process killed at any
point leaves the previous checkpoint marked and whole. Used by the loop.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.backend import BackgroundSaves, Trainer
from envkit.backends.loop.clock import Clock
from envkit.backends.loop.storage import Storage
from envkit.backends.loop.waits import FirstFailure, bounded
from envkit.failure import EnvkitError, UserError

__all__ = ["Checkpoint", "Checkpoints"]

ROOT = "checkpoints/"
LATEST = "checkpoints/latest.json"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A durable policy checkpoint.

    Attributes:
        step: Optimiser steps in it.
        key: Its name in the storage.
        next_ordinal: Groups begun when it was saved; where the data go on if the buffer is lost.
    """

    step: int
    key: str
    next_ordinal: int = 0


class Checkpoints:
    """A run's policy checkpoints.

    Args:
        keep: The newest that are kept; None keeps all.
    """

    def __init__(self, storage: Storage, clock: Clock, *, keep: int | None) -> None:
        self._storage = storage
        self._clock = clock
        self._keep = keep
        self.newest: Checkpoint | None = None

    async def open(self) -> Checkpoint | None:
        """Finds the marked one.

        Raises:
            UserError: The marker names one that is not there whole.
        """
        self.newest = await self._clock.offload(self._read_marker)
        return self.newest

    def _read_marker(self) -> Checkpoint | None:
        try:
            marker = json.loads(self._storage.get(LATEST))
        except FileNotFoundError:
            return None
        except ValueError as error:
            whole = self._newest_whole()  # the marker was half written; folders are durable before it is
            if whole is not None:
                return whole
            raise UserError(
                f"{LATEST} can't be read ({error}); write into it the step of a checkpoint that is there "
                'as {"step": N}, or use another folder'
            ) from error
        step = marker.get("step") if isinstance(marker, dict) else None
        if not isinstance(step, int):
            raise UserError(f'{LATEST} says {marker!r}; expected {{"step": N}}')
        return Checkpoint(step, _key(step), marker.get("next_ordinal", 0))

    def _newest_whole(self) -> Checkpoint | None:
        for step in sorted(self._steps(), reverse=True):
            try:
                manifest = json.loads(self._storage.get(f"{_key(step)}/manifest.json"))
                return Checkpoint(step, _key(step), int(manifest["next_ordinal"]))
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return None

    def _steps(self) -> set[int]:
        steps = set()
        for key in self._storage.keys(ROOT):
            name = key.removeprefix(ROOT).partition("/")[0]
            if name.startswith("step-") and name[5:].isdigit():
                steps.add(int(name[5:]))
        return steps

    async def load(self, trainer: Trainer, checkpoint: Checkpoint, seconds: float, grace_s: float) -> None:
        """Gives the trainer a checkpoint.

        Raises:
            UserError: It is not there whole, or holds another step than its name says.
            EnvkitError: The trainer could not load it, or not in time.
        """
        folder = await bounded(
            self._clock.offload(self._fetch, checkpoint), seconds, "fetching the policy checkpoint", grace_s=grace_s
        )
        what = f"the trainer's loading of {checkpoint.key}"
        await bounded(trainer.load(folder, self._clock.deadline(seconds, what)), seconds, what, grace_s=grace_s)
        if trainer.version != checkpoint.step:
            raise UserError(
                f"{checkpoint.key} holds version {trainer.version} of the trainer, not {checkpoint.step}: "
                "was its folder exchanged?"
            )

    def _fetch(self, checkpoint: Checkpoint) -> Path:
        try:
            folder = self._storage.get_folder(checkpoint.key)
            manifest = json.loads((folder / "manifest.json").read_bytes())
            for name, about in manifest["files"].items():
                size = (folder / name).stat().st_size
                if size != about["bytes"]:
                    raise ValueError(f"{name} has {size} bytes, {about['bytes']} were written")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"policy checkpoint {checkpoint.key} is not whole ({error}): restore it, or use another folder"
            ) from error
        return folder / "policy"

    async def save(self, trainer: Trainer, seconds: float, grace_s: float, first: FirstFailure) -> Path:
        """The first half: the trainer's folder, staged, or begun where the trainer writes beside its training. Nothing
        may train meanwhile."""
        staged = await self._clock.offload(self._storage.staging)
        what = "the trainer's saving of a checkpoint"
        save = trainer.begin_save if isinstance(trainer, BackgroundSaves) else trainer.save
        try:
            await bounded(
                save(staged / "policy", self._clock.deadline(seconds, what)),
                seconds,
                what,
                grace_s=grace_s,
                first=first,
            )
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
        return staged

    async def settle(self, trainer: Trainer, staged: Path, seconds: float, grace_s: float) -> None:
        """What a trainer that writes beside its training has left to write. May run beside training.

        Raises:
            EnvkitError: It could not be written; nothing is left of it.
        """
        if not isinstance(trainer, BackgroundSaves):
            return
        what = "the trainer's writing of a checkpoint"
        try:
            await bounded(trainer.settle(self._clock.deadline(seconds, what)), seconds, what, grace_s=grace_s)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise

    async def publish(self, staged: Path, step: int, next_ordinal: int) -> Checkpoint:
        """The second half: durable, then marked. May run beside training; one at a time.

        Raises:
            EnvkitError, OSError: It is not durable; the previous one is still marked.
        """
        self.newest = await self._clock.offload(self._publish, staged, step, next_ordinal)
        return self.newest

    def _publish(self, staged: Path, step: int, next_ordinal: int) -> Checkpoint:
        files: dict[str, Any] = {}
        for path in sorted((staged / "policy").rglob("*")):
            if path.is_file():
                name = path.relative_to(staged).as_posix()
                files[name] = {"bytes": path.stat().st_size, "blake2b": _digest(path)}
        if not files:
            raise EnvkitError("the trainer saved no file: a checkpoint from which nothing can be resumed")
        manifest = {"schema": SCHEMA, "step": step, "next_ordinal": next_ordinal, "files": files}
        (staged / "manifest.json").write_text(json.dumps(manifest, indent=1))
        checkpoint = Checkpoint(step, _key(step), next_ordinal)
        self._storage.put_folder(checkpoint.key, staged)
        marker = {"schema": SCHEMA, "step": step, "folder": checkpoint.key, "next_ordinal": next_ordinal}
        self._storage.put(LATEST, json.dumps(marker).encode())
        return checkpoint

    async def prune(self) -> None:
        """Removes what is older than the newest `keep`. Raises what the storage does."""
        if self._keep is not None and self.newest is not None:
            await self._clock.offload(self._prune, self._keep, self.newest.step)

    def _prune(self, keep: int, newest: int) -> None:
        steps = self._steps()
        old = sorted(step for step in steps if step <= newest)[:-keep]
        # Newer ones were never marked, or belong to a time that the user went back from.
        for step in [*old, *(step for step in sorted(steps) if step > newest)]:
            self._storage.delete_folder(_key(step))


def _key(step: int) -> str:
    return f"{ROOT}step-{step:06d}"


def _digest(path: Path) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            hasher.update(block)
    return hasher.hexdigest()
