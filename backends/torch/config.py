"""What a user writes about the embedded backend: the model, the optimiser, LoRA, the engines. Strict and frozen.

Used by `TorchTrainer`, `TorchEngines` and the training plan that holds one of each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["EnginesConfig", "LoraConfig", "OptimizerConfig", "TorchTrainerConfig"]

Dtype = Literal["auto", "float32", "bfloat16"]


class OptimizerConfig(BaseModel):
    """AdamW and its learning rate.

    Attributes:
        lr: The highest learning rate.
        betas, eps, weight_decay: AdamW's. Vectors (norms, biases) never decay.
        grad_clip: Longest gradient; 0 for no limit.
        schedule: What follows the warm-up: `constant`, or down to `final_share` of `lr` at `total_steps`.
        warmup_steps: Steps in which the rate rises linearly from `lr / warmup_steps`.
        total_steps: Steps of the whole run; needed by every schedule but `constant`.
        final_share: The share of `lr` that a schedule ends at.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    lr: float = Field(default=1e-6, gt=0.0)
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = Field(default=1e-8, gt=0.0)
    weight_decay: float = Field(default=0.01, ge=0.0)
    grad_clip: float = Field(default=1.0, ge=0.0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = Field(default=0, ge=0)
    total_steps: int | None = Field(default=None, ge=1)
    final_share: float = Field(default=0.0, ge=0.0, le=1.0)

    @model_validator(mode="after")
    def _whole(self) -> OptimizerConfig:
        if self.schedule != "constant" and self.total_steps is None:
            raise ValueError(f"schedule {self.schedule!r} needs total_steps, the length of the run in optimiser steps")
        if self.total_steps is not None and self.warmup_steps > self.total_steps:
            raise ValueError(f"warmup_steps ({self.warmup_steps}) exceed total_steps ({self.total_steps})")
        return self


class LoraConfig(BaseModel):
    """Low-rank adapters on linear layers; everything else is frozen.

    Attributes:
        rank: Columns of each adapter's factors.
        alpha: The adapter's output is scaled by `alpha / rank`.
        targets: Last part of the names of the layers that get one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0.0)
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class TorchTrainerConfig(BaseModel):
    """The embedded trainer.

    Attributes:
        model: A Hugging Face model folder.
        reference: A model folder for KL terms; only read where the algorithm has one.
        optimizer: See `OptimizerConfig`.
        lora: Train adapters instead of all weights.
        device: `auto` takes the first GPU where there is one.
        dtype: What the layers compute in; `auto` is bfloat16 on a GPU and float32 on a CPU. Weights, gradients and
            moments are float32 in either case.
        gradient_checkpointing: Compute each layer twice and keep a tenth of the memory.
        share_prefixes: Compute what rows of a micro-batch have in common (a group's prompt) once.
        logprob_chunk: Positions whose softmax over the vocabulary is in memory at a time.
        threads: Threads of one step on a CPU; None leaves torch's choice.
        seed: Of dropout and of adapters.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Path
    reference: Path | None = None
    optimizer: OptimizerConfig = OptimizerConfig()
    lora: LoraConfig | None = None
    device: str = "auto"
    dtype: Dtype = "auto"
    gradient_checkpointing: bool = False
    share_prefixes: bool = True
    logprob_chunk: int = Field(default=2048, ge=1)
    threads: int | None = Field(default=None, ge=1)
    seed: int = 0


class EnginesConfig(BaseModel):
    """The embedded engines that sample for training.

    Attributes:
        replicas: Engine processes.
        urls: Roots of engines that run elsewhere (vLLM with the weight routes, see docs); none are started then.
        device, dtype: As the engine's command line has them; `auto` as for the trainer.
        max_rows: Sequences sampled at a time by one replica.
        max_model_len: Longest sequence in tokens; None for the model's own.
        stash_tokens: Budget of a replica's prefix cache.
        threads: Threads of one replica on a CPU.
        clear_kv: Read the past of running requests again under new weights. Exact; without it they go on with keys
            and values of the old ones, and prefixes are told apart by version.
        start_timeout_s: Longest wait for a replica to answer.
        health_every_s: How often replicas are looked at.
        restarts: How often one replica is started again before it counts as lost for the run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    replicas: int = Field(default=1, ge=1)
    urls: tuple[str, ...] = ()
    device: str = "auto"
    dtype: Dtype = "auto"
    max_rows: int = Field(default=64, ge=1)
    max_model_len: int | None = Field(default=None, ge=2)
    stash_tokens: int = Field(default=262_144, ge=0)
    threads: int | None = Field(default=None, ge=1)
    clear_kv: bool = True
    start_timeout_s: float = Field(default=180.0, gt=0)
    health_every_s: float = Field(default=5.0, gt=0)
    restarts: int = Field(default=8, ge=0)
