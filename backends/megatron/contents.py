"""What a checkpoint folder of the Megatron trainer holds, and what is said of it in `trainer.json`.

    trainer.json    version, model, optimiser, adapters; how it was cut, for people: any layout may read it
    state/          weights, moments and wide copies, as `megatron.core.dist_checkpointing` writes them
    config.json, *.safetensors, tokenizer files    the policy as a Hugging Face folder, where that is asked for

Needs neither torch nor megatron-core. Used by the trainer, before anything is started or changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from envkit.backends.megatron.config import MegatronTrainerConfig
from envkit.failure import Boundary, EnvkitError

__all__ = ["STATE", "read_about", "write_about"]

STATE = "state"
_ABOUT = "trainer.json"
_FORMAT = 1


def write_about(folder: Path, version: int, config: MegatronTrainerConfig) -> None:
    """Says what the folder holds."""
    about = {
        "format": _FORMAT,
        "trainer": "megatron",
        "version": version,
        "model": str(config.model),
        "optimizer": config.optimizer.model_dump(mode="json"),
        "distributed_optimizer": config.distributed_optimizer,
        "lora": None if config.lora is None else config.lora.model_dump(mode="json"),
        "world": config.world,
        "layout": config.layout.model_dump(mode="json"),
    }
    (folder / _ABOUT).write_text(json.dumps(about, indent=1) + "\n")


def read_about(folder: Path, config: MegatronTrainerConfig) -> dict[str, Any]:
    """What the folder says of itself.

    Raises:
        EnvkitError: It is no whole checkpoint of this trainer, or one that this configuration can't go on from.
    """
    try:
        about: dict[str, Any] = json.loads((folder / _ABOUT).read_text())
        if about.get("trainer") != "megatron":
            raise EnvkitError(f"{folder} is a checkpoint of another trainer", boundary=Boundary.ENVKIT)
        if about["format"] != _FORMAT:
            raise EnvkitError(f"{folder} has format {about['format']}; this version reads {_FORMAT}")
        int(about["version"])
        cut, lora, expert = bool(about["distributed_optimizer"]), about["lora"], int(about["layout"]["expert"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EnvkitError(f"{folder} holds no whole checkpoint of this trainer: {error}") from error
    if not (folder / STATE / "metadata.json").is_file():
        raise EnvkitError(f"{folder} holds no whole checkpoint of this trainer: {STATE}/metadata.json is missing")
    ours = None if config.lora is None else config.lora.model_dump(mode="json")
    if lora != ours:
        raise EnvkitError(f"{folder} was written with lora = {lora}, and this trainer has {ours}")
    if cut != config.distributed_optimizer:
        raise EnvkitError(
            f"{folder} was written with distributed_optimizer = {str(cut).lower()}, and its moments can only be read "
            "with the same; set trainer.distributed_optimizer to that"
        )
    if expert != config.layout.expert:
        raise EnvkitError(
            f"{folder} was written with experts over {expert} ranks (layout.expert), and this trainer has them over "
            f"{config.layout.expert}: megatron-core keeps their moments apart, and reads them with as many ranks only; "
            f"set trainer.layout.expert = {expert}. Everything else of the layout may change"
        )
    return about
