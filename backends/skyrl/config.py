"""What a plan says for SkyRL: `[trainer]` and `[engines]` as other backends have them, and `[skyrl]` for the rest.

Strict and frozen. What SkyRL can't do is refused here, when the plan is read, and not hours later by its loop.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from envkit.backends.run.plan import Plan
from envkit.backends.torch.config import LoraConfig, OptimizerConfig
from envkit.trial.rollouts import TrialSettings

__all__ = ["SkyrlEnginesConfig", "SkyrlPlan", "SkyrlTable", "SkyrlTrainerConfig"]


class SkyrlTrainerConfig(BaseModel):
    """SkyRL's trainer.

    Attributes:
        model: A Hugging Face model folder, or a name that every node can load.
        reference: The reference of a KL term; by default the model itself.
        optimizer: AdamW; a schedule other than `constant` goes by the name that transformers has for it.
        lora: Train adapters instead of all weights.
        strategy: What cuts the model over GPUs.
        nodes, gpus_per_node: Of the policy, apart from those of the engines.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    reference: str | None = None
    optimizer: OptimizerConfig = OptimizerConfig()
    lora: LoraConfig | None = None
    strategy: Literal["fsdp", "megatron"] = "fsdp"
    nodes: int = Field(default=1, ge=1)
    gpus_per_node: int = Field(default=1, ge=1)


class SkyrlEnginesConfig(BaseModel):
    """SkyRL's vLLM servers.

    Attributes:
        replicas: Servers to start.
        urls: Roots of servers that run elsewhere; none are started then. They must take SkyRL's weights, or training is
            simulated.
        tensor_parallel: GPUs of one replica.
        max_rows: Sequences that one replica samples at a time.
        max_model_len: Longest sequence in tokens; None for the model's own.
        gpu_memory_share: Share of a GPU's memory that vLLM may take.
        clear_kv: Throw cached keys and values away with every new weights.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    replicas: int = Field(default=1, ge=1)
    urls: tuple[str, ...] = ()
    tensor_parallel: int = Field(default=1, ge=1)
    max_rows: int = Field(default=1024, ge=1)
    max_model_len: int | None = Field(default=None, ge=2)
    gpu_memory_share: float = Field(default=0.8, gt=0, le=1)
    clear_kv: bool = False


class SkyrlTable(BaseModel):
    """What is between us and SkyRL.

    Attributes:
        rows: What a training row is. `paths`: a path of the trial's trace, one for a conversation that was only ever
            appended to. `turns`: one per sampled turn, with all before it as its prompt; costs the square of the turns,
            unless SkyRL merges them again (`generator.merge_stepwise_output`).
        settings: Further settings of SkyRL, by their dotted names; they win over what the plan says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: Literal["paths", "turns"] = "paths"
    settings: dict[str, Any] = {}


class SkyrlPlan(Plan):
    """A training run on SkyRL."""

    trainer: SkyrlTrainerConfig
    engines: SkyrlEnginesConfig = SkyrlEnginesConfig()
    skyrl: SkyrlTable = SkyrlTable()

    @property
    def model_folder(self) -> str | None:
        return self.trainer.model

    @property
    def checkpoints(self) -> str:
        """Where SkyRL's checkpoints go, below the run's folder where the plan names no place."""
        return self.storage or "checkpoints"

    def trial_settings(self) -> TrialSettings:
        """SkyRL's servers don't say which weights sampled a token: it is those that a trial began with."""
        return super().trial_settings().model_copy(update={"labelled": False})

    @model_validator(mode="after")
    def _possible(self) -> SkyrlPlan:
        own, wait = self.algorithm, self.loop.deadline
        if own.advantage.name not in ("grpo", "rloo", "maxrl"):
            raise ValueError(
                f"algorithm.advantage = {own.advantage.name!r} is per token, which SkyRL can't take with trajectories "
                "of several rows; choose grpo, rloo or maxrl"
            )
        if own.turn_rewards.weights and own.turn_rewards.credit != "trajectory":
            raise ValueError(
                f"algorithm.turn_rewards.credit = {own.turn_rewards.credit!r} is per token, which SkyRL can't take "
                "with trajectories of several rows; choose credit = 'trajectory'"
            )
        if wait.rollout_s > wait.group_s:
            raise ValueError(
                f"loop.deadline.rollout_s ({wait.rollout_s:g}) is beyond group_s ({wait.group_s:g}), after which "
                "SkyRL is given what there is"
            )
        if self.trial.timeout_s > wait.rollout_s:
            raise ValueError(
                f"trial.timeout_s ({self.trial.timeout_s:g}) is beyond loop.deadline.rollout_s ({wait.rollout_s:g}); "
                "an attempt would be cut before its own budget is spent"
            )
        if self.guards.model_fields_set:
            raise ValueError("[guards] check trainers and engines of ours; SkyRL's are its own: leave the table out")
        return self

    def folder_of(self, run: Path, name: str) -> str:
        """A place below the run's folder, unless `name` is one of its own (`s3://...`, an absolute path)."""
        return name if "://" in name or Path(name).is_absolute() else str(run / name)
