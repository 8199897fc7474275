"""What a run's loop is told: batch, staleness, intervals, admission, retries, and the end of every wait.

`LoopConfig` is the `[loop]` table of a run's TOML, strict and frozen. Every duration is in seconds. There is no setting
for "wait for ever": a part that does not answer is a fault within a known time. Used by `Loop`; needs neither torch
nor numpy.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from envkit.failure import FailureKind

__all__ = ["AdmissionConfig", "CheckpointConfig", "DeadlineConfig", "EvaluationConfig", "LoopConfig", "RetryConfig"]

Seconds = Annotated[float, Field(gt=0, le=30 * 86_400)]
Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class DeadlineConfig(_Strict):
    """The end of every wait."""

    rollout_s: Seconds = 7_200.0
    """One trial, from its submission to its verdict. A trial that is not back by then failed."""
    group_s: Seconds = 14_400.0
    """One group, from its first rollout's start: then it is finished with what it has (two valid rows are enough)."""
    batch_s: Seconds = 21_600.0
    """The trainer's wait for the groups of its next step."""
    load_groups_s: Seconds = 600.0
    """Reading a step's groups back from the buffer, screening them and making the batch."""
    train_step_s: Seconds = 3_600.0
    """One optimiser step."""
    sync_s: Seconds = 600.0
    """Giving new weights to every engine."""
    save_s: Seconds = 1_800.0
    """The trainer's writing of a checkpoint, while it does not train; then again what makes it durable, beside it."""
    load_s: Seconds = 1_800.0
    """The trainer's loading of a checkpoint."""
    evaluation_s: Seconds = 14_400.0
    """One evaluation."""
    engines_down_s: Seconds = 900.0
    """No engine is up, or none says how loaded it is: nothing new starts meanwhile, and after this the run ends."""
    journal_s: Seconds = 300.0
    """The buffer's writing of what is to be durable before the next step."""
    cancel_s: Seconds = 30.0
    """What was told to stop is given this long; then it is left behind."""
    close_s: Seconds = 60.0
    """Closing trials, engines and trainer, each."""


class RetryConfig(_Strict):
    """What is tried again."""

    rollouts: dict[FailureKind, Natural] = {}
    """How often a rollout is tried again after a failure of this kind, over `envkit.failure.RETRIES`."""
    pause_s: Annotated[float, Field(ge=0, le=3_600)] = 2.0
    """Pause before the first retry of a rollout; doubled for every further one."""
    pause_max_s: Annotated[float, Field(ge=0, le=3_600)] = 60.0
    """Longest pause before a retry."""
    sync: Natural = 2
    """How often a failed weight sync is tried again at once, before training goes on without it."""
    sync_lag: Natural | None = None
    """Steps that the engines may fall behind the trainer while syncs fail. Then training waits, syncs are tried for
    `engines_down_s`, and the run ends. None: the `max_staleness` (with 0, every step needs its sync)."""
    train: Natural = 1
    """How often a failed optimiser step is tried again."""
    failed_groups: Count | None = None
    """Groups in a row without enough valid rollouts before the run ends, since something is wrong with all of them.
    None: four times the groups that may be out, `4 * (max_staleness + 1) * groups_per_step`."""
    checkpoint: Natural = 4
    """Policy checkpoints in a row that may fail before the run ends."""


class AdmissionConfig(_Strict):
    """How many trials may be out, beside the bound on staleness."""

    max_running: Count = 1_024
    """Trials at once."""
    starts_per_s: Annotated[float, Field(gt=0)] | None = None
    """Mean rate of trial starts; None for no limit."""
    max_starting: Count | None = None
    """Trials that may be in their first minute at once; None for no limit."""
    kv_share: Annotated[float, Field(gt=0)] = 1.0
    """Share of the engines' KV room that trajectories of mean length may fill. Above 1 where trials spend most of
    their time in tools and losing their prefix is cheap."""
    expected_tokens: Count | None = None
    """Mean trajectory length to assume before enough are seen; None: nothing is assumed, and KV room bounds nothing
    until the first group's worth of trajectories is back."""
    length_window: Count = 512
    """Trajectories over which the mean length is taken."""
    max_engine_waiting: Natural = 16
    """While more requests than this queue at the engines, nothing new starts."""
    max_kv_used: Annotated[float, Field(gt=0, le=1)] = 0.95
    """While more than this share of the engines' KV room is in use, nothing new starts."""
    poll_s: Seconds = 2.0
    """How often the engines are asked for their load."""


class CheckpointConfig(_Strict):
    """Policy checkpoints; the experience buffer needs no setting: every finished trajectory is written at once."""

    every: Count = 5
    """Steps between policy checkpoints. What was trained since the last one is replayed from the buffer on resume."""
    keep: Count | None = 5
    """The newest that are kept; None keeps all."""


class EvaluationConfig(_Strict):
    """When the loop asks for an evaluation. What is evaluated is the evaluator's own configuration."""

    every: Count = 20
    """Steps between evaluations."""
    first: bool = True
    """Also before the first step."""
    last: bool = True
    """Also after the last step."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the trial places that an evaluation gets; training's starts have the rest meanwhile."""
    pauses_training: bool = True
    """The trainer waits, so that every token of the evaluation is of one version; generation for training goes on."""


class LoopConfig(_Strict):
    """The `[loop]` table."""

    steps: Count
    """Optimiser steps, over all lives of the run."""
    groups_per_step: Count = 16
    """B: groups (prompts) per optimiser step."""
    group_size: Count = 16
    """n: rollouts per group."""
    max_staleness: Natural = 3
    """S: at most (S + step) * B groups have ever begun while `step` is trained. 0 is synchronous training, 1 is
    one-step-off."""
    staleness_rule: Literal["report", "wait", "drop"] = "report"
    """What happens to a group that would be trained more than S steps after it began (the bound above limits groups
    together, not each): `report` trains it and counts it; `wait` lets the trainer wait for it in time, which is a hard
    bound without a bias; `drop` cancels it and begins another, a hard bound that favours short tasks."""
    min_valid_rows: Annotated[int, Field(ge=1)] = 2
    """A group with fewer valid rollouts is dropped and replaced; 2 is the fewest that can differ."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Of sampling; the trainer's logprobs are taken at the same."""
    seed: int = 0
    """Of the order of tasks and of every rollout."""
    admission: AdmissionConfig = AdmissionConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    evaluation: EvaluationConfig | None = None
    retry: RetryConfig = RetryConfig()
    deadline: DeadlineConfig = DeadlineConfig()

    @model_validator(mode="after")
    def _whole(self) -> LoopConfig:
        if self.group_size < self.min_valid_rows:
            raise ValueError(
                f"expected group_size >= min_valid_rows, found {self.group_size} < {self.min_valid_rows}: "
                "every group would be dropped"
            )
        return self

    @property
    def failed_groups(self) -> int:
        """Groups in a row that may fail."""
        given = self.retry.failed_groups
        return 4 * (self.max_staleness + 1) * self.groups_per_step if given is None else given

    @property
    def sync_lag(self) -> int:
        """Steps the engines may be behind before the run ends."""
        return self.max_staleness if self.retry.sync_lag is None else self.retry.sync_lag
