"""What a run learns by: advantages, the loss, its reduction, corrections, filters, and what every stop reason means.

`AlgorithmConfig` is the `[algorithm]` table of a run's TOML, strict and frozen; its defaults are the published recipe
(group means without a standard deviation, DPPO with binary total variation 0.15/0.15, mean over prompts, no KL,
groups without variance replaced). An alternative is a table of its own (`[algorithm.loss] name = "ppo"`), so that a
parameter which the chosen loss does not have is an error and never ignored; a table without a name adjusts the default.
Nothing here needs torch or numpy.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from envkit.backends.algorithms.loss_config import (
    Cispo,
    Corrections,
    Dppo,
    Glm5,
    Gspo,
    ImportanceSampling,
    Interval,
    KlPenalty,
    Loss,
    NonNegative,
    Positive,
    Ppo,
    Sapo,
    Share,
    Strict,
    Supervised,
    choice,
)
from envkit.messages import StopReason

__all__ = [
    "AdaptiveLength",
    "Advantage",
    "AlgorithmConfig",
    "Cispo",
    "Corrections",
    "Dppo",
    "Gae",
    "Glm5",
    "Grpo",
    "Gspo",
    "ImportanceSampling",
    "Interval",
    "KlPenalty",
    "LengthPenalty",
    "Loss",
    "MaxRl",
    "OnTruncation",
    "Ppo",
    "ReductionName",
    "ReinforcePlusPlus",
    "Rloo",
    "Sapo",
    "SoftOverlong",
    "Supervised",
    "Treatment",
    "TurnRewards",
]


class Grpo(Strict):
    """Reward minus the mean of the group's valid rollouts."""

    name: Literal["grpo"] = "grpo"
    std: bool = False
    """Also divide by the group's (unbiased) standard deviation."""


class Rloo(Strict):
    """Reward minus the mean of the group's *other* valid rollouts."""

    name: Literal["rloo"] = "rloo"


class MaxRl(Strict):
    """Reward minus the group's mean, divided by that mean: rare successes weigh more."""

    name: Literal["maxrl"] = "maxrl"


class ReinforcePlusPlus(Strict):
    """Discounted return per token, whitened over the batch; no group baseline."""

    name: Literal["reinforce++"] = "reinforce++"
    gamma: Share = 1.0
    """Discount per trained token."""


class Gae(Strict):
    """Generalised advantage estimation. Needs a value per token, which a trainer with a critic gives to `prepare`."""

    name: Literal["gae"] = "gae"
    gamma: Share = 1.0
    """Discount per trained token."""
    lam: Share = 1.0
    """Weight of longer returns; 1 is Monte Carlo."""


Advantage = Annotated[
    Grpo | Rloo | MaxRl | ReinforcePlusPlus | Gae,
    Field(discriminator="name"),
    choice("advantage", Grpo, Rloo, MaxRl, ReinforcePlusPlus, Gae),
]


class AdaptiveLength(Strict):
    """Adaptive length penalty: a rollout's reward loses its length times the share of its group that solved the task
    (at least 1 / group size), so that easy tasks are answered shortly and hard ones in as many tokens as they need."""

    name: Literal["adaptive"] = "adaptive"
    assistant: NonNegative = 0.25
    """Per `scale_tokens` sampled tokens."""
    environment: NonNegative = 0.1
    """Per `scale_tokens` tokens of the environment (tool results, instructions)."""
    scale_tokens: Annotated[int, Field(ge=1)] = 160_000
    """The length that costs the full coefficient; the context of training."""
    solved_at: float = 1.0
    """The reward from which a rollout counts as solved."""


class SoftOverlong(Strict):
    """DAPO's soft overlong punishment: nothing up to `limit_tokens - buffer_tokens`, then linearly down to
    `-penalty` at the limit and beyond."""

    name: Literal["soft_overlong"] = "soft_overlong"
    limit_tokens: Annotated[int, Field(ge=1)]
    """The context length from which the whole penalty is paid."""
    buffer_tokens: Annotated[int, Field(ge=1)]
    """Over how many tokens before the limit it grows."""
    penalty: Positive = 1.0
    """In reward."""

    @model_validator(mode="after")
    def _fits(self) -> SoftOverlong:
        if self.buffer_tokens > self.limit_tokens:
            raise ValueError(
                f"expected buffer_tokens <= limit_tokens, found {self.buffer_tokens} > {self.limit_tokens}"
            )
        return self


LengthPenalty = Annotated[
    AdaptiveLength | SoftOverlong,
    Field(discriminator="name"),
    choice("length penalty", AdaptiveLength, SoftOverlong),
]


class TurnRewards(Strict):
    """Rewards for single turns beside the verdict's: process signals and penalties, as `Rollout.signals` names them.

    Off by default. For a penalty on invalid actions: `weights = {invalid_action = -0.1}`. With advantages per token
    (`reinforce++`, `gae`) each turn's reward stands at its end, and `gamma` and `baseline` here have no part."""

    weights: dict[str, float] = Field(default_factory=dict)
    """What one unit of each named signal is worth, in reward. A signal without a weight counts nothing."""
    credit: Literal["turn", "return", "trajectory"] = "turn"
    """Who answers for it: the turn alone; that turn and, discounted, those before it; or the whole rollout (it is
    added to the reward and goes through the baseline)."""
    gamma: Share = 1.0
    """Discount per turn, for `return`."""
    baseline: bool = True
    """Subtract the mean over all turns of the group's valid rollouts (not for `trajectory`, which has the reward's)."""


#: What becomes of a rollout that was cut off.
Treatment = Literal["score", "zero", "mask"]


class OnTruncation(Strict):
    """What a rollout that a limit ended means, per stop reason: `score` keeps the verdict's reward, `zero` replaces it
    by 0, `mask` takes the rollout out: it trains nothing and votes in no baseline (the overlong filter is `mask` for
    `context`, `tokens` and `turn_length`)."""

    turns: Treatment = "score"
    """The turn limit."""
    tokens: Treatment = "score"
    """The token budget."""
    context: Treatment = "zero"
    """The context is full."""
    turn_length: Treatment = "zero"
    """One turn ran into its length limit."""
    working_time: Treatment = "score"
    """The agent's working time."""
    unparsable: Treatment = "score"
    """Too many unparsable turns in a row."""

    def of(self, stop: StopReason | None) -> Treatment:
        """The treatment of a stop reason; an answered rollout, or one whose reason nobody knows, is scored."""
        if stop is None or stop is StopReason.ANSWERED:
            return "score"
        treatment: Treatment = getattr(self, stop.value)
        return treatment


ReductionName = Literal["prompt_mean", "token_mean", "sequence_mean", "length_normalised"]


class AlgorithmConfig(Strict):
    """How rewards become a gradient. The defaults are the published recipe's."""

    advantage: Advantage = Grpo()
    """What a rollout is worth beside others: a table with a `name`."""
    loss: Loss = Dppo()
    """The policy loss: a table with a `name`."""
    reduction: ReductionName = "prompt_mean"
    """Over what the loss is averaged: prompts (each by its trained tokens), all trained tokens, rollouts (each by its
    own), or rollouts over a fixed `max_tokens` (Dr. GRPO)."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The fixed length of `length_normalised`, which needs it."""
    corrections: Corrections = Corrections()
    """Against engines that disagree with the trainer; off by default."""
    kl: KlPenalty | None = None
    """A penalty on the distance from the reference policy; off by default."""
    entropy_bonus: NonNegative = 0.0
    """Coefficient of the policy's entropy per token, in nats (0.01 is usual where it is used)."""
    zero_variance: Literal["drop", "keep"] = "drop"
    """Groups whose valid rollouts all score the same (after truncation rules, penalties and turns): drop (and let the
    loop refill) or keep."""
    zero_variance_tolerance: NonNegative = 1e-6
    """Rewards that differ by at most this are the same."""
    length_penalty: LengthPenalty | None = None
    """What long rollouts lose: a table with a `name`; off by default."""
    turn_rewards: TurnRewards = TurnRewards()
    """Rewards for single turns; off by default."""
    on_truncation: OnTruncation = OnTruncation()
    """What becomes of rollouts that a limit ended."""

    @model_validator(mode="after")
    def _whole(self) -> AlgorithmConfig:
        if (self.reduction == "length_normalised") != (self.max_tokens is not None):
            found = "no max_tokens" if self.max_tokens is None else f"max_tokens with {self.reduction!r}"
            raise ValueError(f"expected max_tokens exactly with reduction 'length_normalised', found {found}")
        return self

    @property
    def needs_reference(self) -> bool:
        """The trainer must hold the reference policy and give its logprobs."""
        return self.kl is not None

    @property
    def needs_entropy(self) -> bool:
        """The entropy must carry a gradient."""
        return self.entropy_bonus > 0

    @property
    def needs_values(self) -> bool:
        """`prepare` must be given a value per token: a critic's."""
        return self.advantage.name == "gae"
