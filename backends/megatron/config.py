"""What a user writes about the Megatron trainer: the model, its layout, the ranks, the optimiser. Strict and frozen.

Used by `MegatronTrainer` and by the training plan that holds one. Needs neither torch nor megatron-core.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from envkit.backends.megatron.layout import Layout
from envkit.backends.torch.config import OptimizerConfig

__all__ = ["NO_REFERENCE", "MegatronLoraConfig", "MegatronTrainerConfig", "RayRanks", "Recompute"]

#: Said where an algorithm has a KL term and the configuration no reference.
NO_REFERENCE = "the algorithm compares with a reference policy; name its model folder in `trainer.reference`"

Target = Literal["qkv", "proj", "fc1", "fc2"]


class MegatronLoraConfig(BaseModel):
    """Low-rank adapters; everything else is frozen.

    Attributes:
        rank: Columns of each adapter's factors.
        alpha: The adapter's output is scaled by `alpha / rank`.
        targets: The matrices that get one, fused as megatron-core has them: `qkv` (queries, keys and values), `proj`
            (of the attention), `fc1` (gate and up) and `fc2` (down) of dense layers. Experts get none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0)
    targets: tuple[Target, ...] = ("qkv", "proj", "fc1", "fc2")

    @model_validator(mode="after")
    def _some(self) -> MegatronLoraConfig:
        if not self.targets:
            raise ValueError("lora.targets is empty: nothing would be trained")
        return self


class Recompute(BaseModel):
    """Layers that are computed again in the backward pass instead of kept.

    Attributes:
        granularity: `full` keeps only the input of a unit of layers; `selective` computes only the attention again.
        method: Of `full`: `uniform` cuts all layers into units, `block` takes the first ones of a stage.
        layers: Of `full`: layers in a unit, or the number of layers of a stage.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    granularity: Literal["full", "selective"] = "full"
    method: Literal["uniform", "block"] = "uniform"
    layers: int = Field(default=1, ge=1)


class RayRanks(BaseModel):
    """Ranks as actors of a Ray cluster.

    Attributes:
        address: Of the cluster, as `ray.init` takes it; `auto` for the one that this machine is part of, `local` for
            one that is started here and ends with the run.
        cpus: CPUs that a rank reserves.
        gpus: GPUs that a rank reserves; None for one where the cluster has any.
        strategy: How Ray places them (`PACK` fills a node after the other, `SPREAD` does not).
        patience_s: How long to wait for the room.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str = "auto"
    cpus: float = Field(default=1.0, ge=0)
    gpus: float | None = Field(default=None, ge=0)
    strategy: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = "PACK"
    patience_s: float = Field(default=600.0, gt=0)


class MegatronTrainerConfig(BaseModel):
    """The Megatron trainer.

    Attributes:
        model: A Hugging Face model folder, on a file system that all ranks see.
        world: Ranks, over everything; what the layout leaves of them is data parallel.
        layout: See `Layout`.
        ray: Ranks are Ray actors; without it, processes of this machine.
        optimizer: See `OptimizerConfig`.
        reference: A Hugging Face model folder, on the same file system, that KL terms compare with; only read where the
            algorithm has one. It is cut as the policy is, and each rank holds its part beside the policy's.
        distributed_optimizer: Moments and the weights' wide copies are cut over data-parallel ranks.
        optimizer_offload: Share of the optimiser's states that live, and are updated, in the host's memory; GPUs only.
        dtype: What weights and layers are in; `auto` is bfloat16 on a GPU and float32 on a CPU. Gradients are summed
            and moments kept in float32, beside a float32 copy of narrow weights.
        lora: Train adapters instead of all weights.
        recompute: Compute layers again instead of keeping what they gave.
        logprob_chunk: Positions whose softmax over the vocabulary is in memory at a time.
        threads: Threads of one rank on a CPU; None leaves torch's choice.
        seed: Of everything random in the trainer.
        hf_checkpoints: Checkpoints hold the weights as a Hugging Face folder too, which any program loads. Off saves
            the time that gathering and writing it takes.
        bucket_mb: Weights leave the ranks in buckets of about this size; no more of them is in flight.
        fingerprints: A digest of every tensor that leaves, held against what arrived.
        collective_timeout_s: Longest wait of a collective. A rank that is gone is noticed at once; this ends what else
            may hang, within a step's own deadline.
        start_timeout_s: Longest wait for the ranks to load the model.
        restarts: How often ranks are started again after one was lost, before that ends the run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Path
    world: int = Field(default=1, ge=1)
    layout: Layout = Layout()
    ray: RayRanks | None = None
    optimizer: OptimizerConfig = OptimizerConfig()
    reference: Path | None = None
    distributed_optimizer: bool = True
    optimizer_offload: float = Field(default=0.0, ge=0, le=1)
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    lora: MegatronLoraConfig | None = None
    recompute: Recompute | None = None
    logprob_chunk: int = Field(default=2048, ge=1)
    threads: int | None = Field(default=None, ge=1)
    seed: int = 0
    hf_checkpoints: bool = True
    bucket_mb: float = Field(default=512.0, gt=0)
    fingerprints: bool = True
    collective_timeout_s: float = Field(default=1800.0, gt=0)
    start_timeout_s: float = Field(default=1800.0, gt=0)
    restarts: int = Field(default=3, ge=0)

    @model_validator(mode="after")
    def _whole(self) -> MegatronTrainerConfig:
        self.layout.data_ranks(self.world)
        if self.lora is not None and self.layout.tensor > 1 and not self.layout.cuts_sequence:
            raise ValueError(
                "lora over tensor ranks needs sequence_parallel; leave it out of the layout or set it to true"
            )
        if self.optimizer_offload and not self.distributed_optimizer:
            raise ValueError("optimizer_offload needs distributed_optimizer = true")
        return self

    @property
    def data_ranks(self) -> int:
        """Data-parallel ranks."""
        return self.layout.data_ranks(self.world)
