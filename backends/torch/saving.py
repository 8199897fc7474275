"""Checkpoints of the embedded trainer: a model folder that any Hugging Face program loads, and the rest beside it.

    config.json, model.safetensors, tokenizer files    the policy, adapters added in
    trainer.safetensors                                trained parameters, AdamW's moments, the random state
    trainer.json                                       version, model, what the tensors mean

Written whole or not at all: into a neighbouring folder first, flushed to the disk, then renamed. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from envkit.backends.torch.config import TorchTrainerConfig
from envkit.failure import Boundary, EnvkitError, FailureKind

__all__ = ["load", "save", "write_tensors"]

_FORMAT = 1
_MODEL, _TENSORS, _STATE = "model.safetensors", "trainer.safetensors", "trainer.json"
#: What makes a folder servable: taken over from the folder that the model came from.
_BESIDE = ("tokenizer*", "vocab*", "merges*", "special_tokens_map*", "added_tokens*", "chat_template*", "generation_*")


def save(
    folder: Path,
    model: Any,
    weights: Mapping[str, torch.Tensor],
    optimizer: torch.optim.Optimizer,
    trained: Mapping[str, torch.nn.Parameter],
    version: int,
    config: TorchTrainerConfig,
) -> None:
    """Writes a new folder.

    Raises:
        EnvkitError: It exists, or can't be written; `DISK_FULL` where the disk has no room.
    """
    if folder.exists():
        raise EnvkitError(f"{folder} exists; a checkpoint is written into a new folder", boundary=Boundary.ENVKIT)
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        model.config.save_pretrained(part)
        for pattern in _BESIDE:
            for file in config.model.glob(pattern):
                shutil.copyfile(file, part / file.name)
        write_tensors(part / _MODEL, weights)
        tensors = {f"weight/{name}": p.detach() for name, p in trained.items()}
        for name, p in trained.items():
            state = optimizer.state.get(p, {})
            tensors.update({f"{key}/{name}": state[key] for key in ("exp_avg", "exp_avg_sq", "step") if key in state})
        tensors["random/cpu"] = torch.get_rng_state()
        if torch.cuda.is_available():
            tensors["random/cuda"] = torch.cuda.get_rng_state()
        write_tensors(part / _TENSORS, tensors)
        about = {
            "format": _FORMAT,
            "version": version,
            "model": str(config.model),
            "lora": None if config.lora is None else config.lora.model_dump(mode="json"),
            "optimizer": config.optimizer.model_dump(mode="json"),
        }
        (part / _STATE).write_text(json.dumps(about, indent=1) + "\n")
        for file in part.iterdir():
            _flush(file)
        _flush(part)
        part.rename(folder)
        _flush(folder.parent)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        kind = FailureKind.DISK_FULL if error.errno in (28, 122) else FailureKind.UNKNOWN
        raise EnvkitError(f"the checkpoint {folder} can't be written: {error}", kind=kind) from error


def load(
    folder: Path,
    model: Any,
    optimizer: torch.optim.Optimizer,
    trained: Mapping[str, torch.nn.Parameter],
    config: TorchTrainerConfig,
) -> int:
    """Restores what `save` wrote, in place, and gives its version.

    Raises:
        EnvkitError: There is no whole checkpoint here, or it is one of other parameters. Nothing was changed then.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        about = json.loads((folder / _STATE).read_text())
        if about["format"] != _FORMAT:
            raise EnvkitError(f"{folder} has format {about['format']}; this version reads {_FORMAT}")
        tensors = load_file(folder / _TENSORS)
        version = int(about["version"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise EnvkitError(f"{folder} holds no whole checkpoint of this trainer: {error}") from error
    found = {name.removeprefix("weight/"): t for name, t in tensors.items() if name.startswith("weight/")}
    wrong = sorted({n for n in {*found, *trained} if n not in found or n not in trained})
    wrong += sorted(n for n in found.keys() & trained.keys() if found[n].shape != trained[n].shape)
    if wrong:
        raise EnvkitError(
            f"the checkpoint {folder} is one of other trained parameters ({len(wrong)} differ, such as {wrong[0]!r}); "
            f"it was written for the model {about.get('model')} with lora {about.get('lora')}"
        )
    with torch.no_grad():
        for name, p in trained.items():
            p.copy_(found[name])
    optimizer.state.clear()
    for name, p in trained.items():
        keys = [key for key in ("exp_avg", "exp_avg_sq", "step") if f"{key}/{name}" in tensors]
        if keys:
            optimizer.state[p] = {
                # the count stays a CPU number except for the fused kernel of a GPU, which wants it beside the weights
                key: tensors[f"{key}/{name}"].to(p.device, copy=True)
                for key in keys
            }
    torch.set_rng_state(tensors["random/cpu"])
    if torch.cuda.is_available() and "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random/cuda"])
    return version


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """A safetensors file, written from the CPU, each tensor on its own."""
    from safetensors.torch import save_file

    save_file({name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}, path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
