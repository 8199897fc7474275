"""How a model is spread over ranks: sizes that a user writes, checked before anything is started. Strict and frozen.

Used by the model factory and by whoever starts ranks.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["Layout"]


class Layout(BaseModel):
    """Ranks along every axis; what they leave of the world is data parallel.

    Attributes:
        tensor: Ranks that share every matrix of a layer.
        pipeline: Stages; each holds some of the layers.
        virtual_stages: Parts of the model that a stage holds (interleaved pipeline); 1 for one piece a stage.
        context: Ranks that share a sequence.
        expert: Ranks that share the experts of a layer; taken from the data-parallel ranks.
        expert_tensor: Ranks that share the matrices of one expert; None for as many as `tensor`.
        sequence_parallel: Norms and residuals are cut along the sequence over the tensor ranks. None: wherever
            `tensor` is above 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tensor: int = Field(default=1, ge=1)
    pipeline: int = Field(default=1, ge=1)
    virtual_stages: int = Field(default=1, ge=1)
    context: int = Field(default=1, ge=1)
    expert: int = Field(default=1, ge=1)
    expert_tensor: int | None = Field(default=None, ge=1)
    sequence_parallel: bool | None = None

    @model_validator(mode="after")
    def _whole(self) -> Layout:
        if self.virtual_stages > 1 and self.pipeline == 1:
            raise ValueError(f"virtual_stages is {self.virtual_stages}, but there is one pipeline stage to interleave")
        if self.sequence_parallel and self.tensor == 1:
            raise ValueError("sequence_parallel cuts over tensor ranks, and tensor is 1")
        if self.sequence_parallel is False and self.tensor > 1 and self.expert > 1:
            raise ValueError(
                "experts over ranks with tensor > 1 need sequence_parallel; leave it out or set it to true"
            )
        return self

    @property
    def cuts_sequence(self) -> bool:
        """Sequence parallelism as decided."""
        return self.tensor > 1 if self.sequence_parallel is None else self.sequence_parallel

    @property
    def multiple(self) -> int:
        """What the length of a packed sequence must be a multiple of, for every rank to get as much of it."""
        return (self.tensor if self.cuts_sequence else 1) * (2 * self.context if self.context > 1 else 1)

    def data_ranks(self, world: int) -> int:
        """Data-parallel ranks of `world` ranks.

        Raises:
            ValueError: The world can't be cut like that.
        """
        model = self.tensor * self.pipeline * self.context
        if world % model:
            raise ValueError(
                f"expected a multiple of {model} ranks (tensor {self.tensor} x pipeline {self.pipeline} x context "
                f"{self.context}), found {world}"
            )
        experts = self.expert * (self.expert_tensor or self.tensor) * self.pipeline
        if world % experts:
            raise ValueError(
                f"expected a multiple of {experts} ranks (expert {self.expert} x expert_tensor "
                f"{self.expert_tensor or self.tensor} x pipeline {self.pipeline}), found {world}"
            )
        return world // model
