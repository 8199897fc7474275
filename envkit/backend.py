"""The protocols of training: what a backend is given, and the parts that ours is made of.

A `Backend` runs a plan over `Trials`: it submits trials, each of which samples from its engines through the real
harness, sandbox and verifiers, and learns from what comes back. Somebody else's trainer needs only that. Ours is an
asynchronous loop over three parts, which may live in this process, in others or on a cluster: `Trials` (rollouts out),
`Engines` (sampling, weights in), `Trainer` (rows in, weights out). Everything here is plain data over numpy.

Reductions (token mean, prompt mean, ...) are a weight per token, so that the loss of a step is the plain sum
`sum_t weights[t] * loss(advantages[t], ...)` over every row of the mini-batch, however it is cut into micro-batches and
dealt to ranks: the trainer sums, never averages. For losses that are linear in the advantage this is the same as
advantages scaled beforehand; for an entropy bonus, a KL term or a covariance it is the only right form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from envkit.deadline import Deadline
from envkit.failure import Failure
from envkit.messages import StopReason
from envkit.tokens.trace import FloatArray, IntArray

if TYPE_CHECKING:
    from envkit.tokens.export import Sample

__all__ = [
    "Backend",
    "BackgroundSaves",
    "Batch",
    "EngineLoad",
    "Engines",
    "MicroBatch",
    "RestartableTrainer",
    "Rollout",
    "RolloutRequest",
    "Row",
    "Run",
    "StepMetrics",
    "Trainer",
    "Trials",
]

BoolArray = npt.NDArray[np.bool_]

#: One number per name; sums and counts rather than ratios where steps or ranks are put together later.
StepMetrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """One trial to run for training or for an evaluation during it.

    Attributes:
        task: Task id.
        group: The prompt's group; its rollouts share a baseline.
        attempt: Counts the rollouts of a group, from 0.
        seed: Of environment and sampling.
        version: Version of the newest weights when it was asked for.
        engine_urls: Roots of the engines that may sample for it.
        train: False for an evaluation (no nudge, the evaluation's own context length).
    """

    task: str
    group: str
    attempt: int
    seed: int
    version: int
    engine_urls: tuple[str, ...]
    train: bool = True


@dataclass(frozen=True, slots=True)
class Rollout:
    """What came of a trial.

    Attributes:
        reward: None exactly where there is no verdict; such a rollout trains nothing and votes in no baseline.
        stop: Why the episode ended; None where it did not get that far.
        failure: The system fault, where there is one.
        samples: Training rows of its trace, oldest path first (`tokens.export`); empty for a failure.
        sampled_tokens, dropped: The export's bookkeeping: delivered + dropped == sampled.
        context_tokens: Longest context it held, in tokens; what it took of the engines' KV room.
        started_s, finished_s: On the loop's clock.
        metrics: Raw additive counts (`turns`, `tool_calls`, `tool_errors`, `engine_wait_s`, ...).
        signals: Per name (`invalid_action`, ...), what sampled nodes of the trace did to earn turn-level rewards: node
            index -> amount, unweighted (`envkit.trial.conduct` gives those that every trajectory knows of).
        folder: Where its files are, for people.
    """

    request: RolloutRequest
    reward: float | None
    stop: StopReason | None = None
    failure: Failure | None = None
    samples: tuple[Sample, ...] = ()
    sampled_tokens: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    context_tokens: int = 0
    started_s: float = 0.0
    finished_s: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    signals: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    folder: str | None = None

    @property
    def valid(self) -> bool:
        """It has a verdict, hence a reward."""
        return self.reward is not None


@runtime_checkable
class Trials(Protocol):
    """Runs trials. A fault of one is a `Rollout` with a `failure`, never an exception; cancelling ends the trial."""

    async def submit(self, request: RolloutRequest, deadline: Deadline) -> Rollout: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Row:
    """One training sequence of n tokens; every array has shape [n].

    Attributes:
        ids: int32.
        mask: True where the token was sampled and trains. `mask[0]` is False: nothing predicts the first token.
        logprobs: float32, of the engine at sampling, at the sampling temperature; 0.0 outside the mask.
        versions: int32, of the weights that sampled the token; -1 outside the mask.
        advantages: float64; 0.0 outside the mask.
        weights: float64, the reduction's weight of the token; 0.0 outside the mask.
        group, trial: Whose it is.
    """

    ids: IntArray
    mask: BoolArray
    logprobs: FloatArray
    versions: IntArray
    advantages: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    group: str
    trial: str

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Rows that go through the model together; empty where a rank has fewer micro-batches than others."""

    rows: tuple[Row, ...]

    @property
    def tokens(self) -> int:
        return sum(len(row) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Batch:
    """One optimiser step: `ranks[r]` are the micro-batches of data-parallel rank r, equally many on each.

    Attributes:
        step: The version being trained, from 1.
    """

    ranks: tuple[tuple[MicroBatch, ...], ...]
    step: int

    @property
    def rows(self) -> Iterator[Row]:
        return (row for rank in self.ranks for micro in rank for row in micro.rows)


@runtime_checkable
class Trainer(Protocol):
    """Holds the weights and moves them. Calls never overlap, except `weights` with nothing."""

    @property
    def version(self) -> int:
        """Optimiser updates that made the weights held, counted by the loop's steps; 0 at the start."""
        ...

    @property
    def ranks(self) -> int:
        """Data-parallel ranks that a batch must be dealt to."""
        ...

    async def train_step(self, batch: Batch, *, temperature: float, deadline: Deadline) -> StepMetrics:
        """One optimiser step on the sum of the batch's weighted token losses; `version` becomes `batch.step`.

        Returns at least `loss`, `grad_norm`, `lr`, `tokens`, `trained_tokens`, `masked_share` and the gap between
        rollout and trainer, over tokens of the version before the update and over stale ones apart: `gap_sum`,
        `gap_tokens`, `stale_gap_sum`, `stale_gap_tokens` (absolute differences in nats, at `temperature`), and
        `entropy_sum` over `trained_tokens`.

        Raises:
            EnvkitError: The step did not happen; the weights are those of before, or the trainer says it is broken.
        """
        ...

    def weights(self) -> Iterator[tuple[str, Any]]:
        """(Hugging Face name, tensor) pairs, fused groups whole, tied tensors once."""
        ...

    async def save(self, folder: Path, deadline: Deadline) -> None:
        """Writes everything needed to go on (weights, optimiser, scheduler, random state) into a new folder."""
        ...

    async def load(self, folder: Path, deadline: Deadline) -> None: ...

    async def close(self) -> None: ...


@runtime_checkable
class RestartableTrainer(Protocol):
    """A trainer that may lose its weights (a rank of many died) and can begin again: `version` is 0 then, steps fail,
    and `load`, or `restart` where there is nothing to load, brings it back."""

    async def restart(self, deadline: Deadline) -> None:
        """Goes back to version 0, with the weights that it began with."""
        ...


@runtime_checkable
class BackgroundSaves(Protocol):
    """A trainer that writes checkpoints beside training: `save` in two halves."""

    async def begin_save(self, folder: Path, deadline: Deadline) -> None:
        """Takes what is to be saved as it is now; training may go on while it is written."""
        ...

    async def settle(self, deadline: Deadline) -> None:
        """Waits until the folder of the last `begin_save` is there, whole. Training may go on meanwhile."""
        ...


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What engines say of themselves, summed over replicas; None for what is not known."""

    kv_capacity_tokens: int | None = None
    kv_used_tokens: int | None = None
    running: int | None = None
    waiting: int | None = None
    preemptions: int | None = None


@runtime_checkable
class Engines(Protocol):
    """The replicas that sample, and the way new weights get to them."""

    @property
    def urls(self) -> tuple[str, ...]:
        """Roots of the replicas that are up."""
        ...

    async def update(self, trainer: Trainer, version: int, deadline: Deadline) -> StepMetrics:
        """Gives every replica the trainer's weights, labelled `version`, keeping requests in flight (pause, load,
        resume): no token is lost, and tokens sampled afterwards carry the new version. Whole or an error; after an
        error the old weights still sample under the old label, or the replica is down."""
        ...

    async def load(self, deadline: Deadline) -> EngineLoad: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Run:
    """How training ended.

    Attributes:
        step: Optimiser steps done, over all of the run's lives.
        checkpoint: The newest durable policy checkpoint.
        failure: Why it ended early.
    """

    folder: Path
    step: int
    checkpoint: Path | None
    interrupted: bool = False
    failure: Failure | None = None


@runtime_checkable
class Backend(Protocol):
    """A trainer, ours or somebody else's: runs a plan (its own validated configuration) over trials."""

    async def run(self, plan: Any, trials: Trials, folder: Path) -> Run: ...
