"""A Hugging Face folder, written by all ranks at once: each its own files, and one index over them.

Whole or not at all: files go into a neighbouring folder, are flushed to the disk, and the folder is renamed when every
rank is done. Where one rank can't write, all of them say so. Nothing is pickled. Used by trainer ranks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from envkit.failure import Boundary, EnvkitError, FailureKind

__all__ = ["write"]

#: What makes a folder servable: taken over from the folder that the model came from.
_BESIDE = (
    "config.json", "generation_*", "tokenizer*", "vocab*", "merges*", "special_tokens_map*", "added_tokens*",
    "chat_template*",
)  # fmt: skip
_NO_ROOM = (28, 122)


def write(
    tensors: Iterable[tuple[str, Tensor]],
    folder: Path,
    *,
    like: Path,
    dtype: torch.dtype | None = None,
    shard_bytes: int = 4 << 30,
) -> None:
    """Writes this rank's tensors, and waits for the others; all ranks call it together.

    Args:
        tensors: This rank's (`weights.export`); gone through to the end whatever happens, for others take part.
        folder: A new one, on a file system that all ranks share.
        like: The folder that the model came from: its configuration and tokenizer are taken over.
        dtype: What is written; None for as they are.
        shard_bytes: A file is closed when it has grown past that.

    Raises:
        EnvkitError: The folder exists, or a rank could not write; on all ranks then, and nothing is left of it.
    """
    rank = torch.distributed.get_rank()
    part = folder.with_name(f".{folder.name}.part")
    error = _tried(lambda: _begin(part, folder)) if rank == 0 else None
    _agree(error, folder, part)
    shard = _Shards(part, rank, shard_bytes)
    for name, tensor in tensors:
        if error is None:
            error = _tried(lambda: shard.add(name, tensor.to("cpu", dtype or tensor.dtype)))  # noqa: B023
    error = error or _tried(shard.close)
    found = _agree(error, folder, part, {"files": shard.files, "bytes": shard.bytes})
    if rank == 0:
        error = _tried(lambda: _finish(part, folder, like, found, dtype))
    _agree(error, folder, part)


class _Shards:
    """Files of one rank."""

    def __init__(self, folder: Path, rank: int, limit: int) -> None:
        self.folder, self.rank, self.limit = folder, rank, limit
        self.files: dict[str, str] = {}
        self.bytes = 0
        self._waiting: dict[str, Tensor] = {}
        self._size = 0

    def add(self, name: str, tensor: Tensor) -> None:
        self._waiting[name] = tensor.contiguous().clone()  # of its own: safetensors refuses shared memory
        size = tensor.numel() * tensor.element_size()
        self._size += size
        self.bytes += size
        if self._size >= self.limit:
            self.close()

    def close(self) -> None:
        if not self._waiting:
            return
        count = len(set(self.files.values()))
        file = f"model-{self.rank:05d}-{count:05d}.safetensors"
        save_file(self._waiting, self.folder / file, metadata={"format": "pt"})
        _flush(self.folder / file)
        self.files.update(dict.fromkeys(self._waiting, file))
        self._waiting, self._size = {}, 0


def _begin(part: Path, folder: Path) -> None:
    if folder.exists():
        raise FileExistsError(17, "it exists; weights are written into a new folder")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)


def _finish(part: Path, folder: Path, like: Path, found: list[Any], dtype: torch.dtype | None) -> None:
    files: dict[str, str] = {}
    for rank in found:
        files |= rank["files"]
    index = {
        "metadata": {"total_size": sum(rank["bytes"] for rank in found)},
        "weight_map": dict(sorted(files.items())),
    }
    (part / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    for pattern in _BESIDE:
        for file in like.glob(pattern):
            shutil.copyfile(file, part / file.name)
    if dtype is not None:
        config = json.loads((part / "config.json").read_text())
        config["torch_dtype" if "torch_dtype" in config else "dtype"] = str(dtype).removeprefix("torch.")
        (part / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for file in part.iterdir():
        _flush(file)
    _flush(part)
    part.rename(folder)
    _flush(folder.parent)


def _tried(work: Any) -> tuple[int, str] | None:
    """What the disk said, so that other ranks hear of it."""
    try:
        work()
    except OSError as error:
        return error.errno or 0, str(error)
    except SafetensorError as error:  # it wraps what the disk said
        number = re.search(r"os error (\d+)", str(error))
        return int(number[1]) if number else 0, str(error)
    except ValueError as error:  # a configuration that is no JSON
        return 0, str(error)
    return None


def _agree(error: tuple[int, str] | None, folder: Path, part: Path, mine: Any = None) -> list[Any]:
    """Every rank's word, or the same error on all."""
    said: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(said, (error, mine))
    wrong = [(rank, *found) for rank, (found, _) in enumerate(said) if found is not None]
    if not wrong:
        return [its for _, its in said]
    if torch.distributed.get_rank() == 0:
        shutil.rmtree(part, ignore_errors=True)
    rank, number, text = wrong[0]
    raise EnvkitError(
        f"the weights can't be written to {folder} (rank {rank} of {len(said)}: {text})",
        kind=FailureKind.DISK_FULL if number in _NO_ROOM else FailureKind.UNKNOWN,
        boundary=Boundary.ENVKIT,
    )


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
