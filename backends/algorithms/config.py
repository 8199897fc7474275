"""What a run learns by: advantages, the loss, its reduction, corrections, filters, and what every stop reason means.

`AlgorithmConfig` is the `[algorithm]` table of a run's TOML, strict and frozen; its defaults are the published recipe
(group means without a standard deviation, DPPO with binary total variation 0.15/0.15, mean over prompts, no KL,
groups without variance replaced). An alternative is a table of its own (`[algorithm.loss] name = "ppo"`), so that a
parameter which the chosen loss does not have is an error and never ignored. Nothing here needs torch or numpy.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

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


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]

#: The policy that a ratio is taken against: the engine's own logprobs at sampling (mu), or the trainer's before the
#: update. With one update per batch the latter is the current policy: its ratio is 1, and nothing is ever clipped.
Anchor = Literal["rollout", "old"]

# ---- advantages ---------------------------------------------------------------------------------------------------


class Grpo(_Strict):
    """Reward minus the mean of the group's valid rollouts."""

    name: Literal["grpo"] = "grpo"
    std: bool = False
    """Also divide by the group's (unbiased) standard deviation."""


class Rloo(_Strict):
    """Reward minus the mean of the group's *other* valid rollouts."""

    name: Literal["rloo"] = "rloo"


class MaxRl(_Strict):
    """Reward minus the group's mean, divided by that mean: rare successes weigh more."""

    name: Literal["maxrl"] = "maxrl"


class ReinforcePlusPlus(_Strict):
    """Discounted return per token, whitened over the batch; no group baseline."""

    name: Literal["reinforce++"] = "reinforce++"
    gamma: Share = 1.0
    """Discount per trained token."""


class Gae(_Strict):
    """Generalised advantage estimation. Needs a value per token, which a trainer with a critic gives to `prepare`."""

    name: Literal["gae"] = "gae"
    gamma: Share = 1.0
    """Discount per trained token."""
    lam: Share = 1.0
    """Weight of longer returns; 1 is Monte Carlo."""


Advantage = Annotated[Grpo | Rloo | MaxRl | ReinforcePlusPlus | Gae, Field(discriminator="name")]

# ---- losses -------------------------------------------------------------------------------------------------------


class Dppo(_Strict):
    """Importance-weighted policy gradient; a token that has already moved too far in its advantage's direction is
    masked. The distance is in probability, not in ratio, so that rare tokens are free to move."""

    name: Literal["dppo"] = "dppo"
    divergence: Literal["binary_tv", "binary_kl"] = "binary_tv"
    """Total variation or Kullback-Leibler of the two-way distribution {this token, any other}. For the latter, deltas
    of 0.05 are usual."""
    delta_low: NonNegative = 0.15
    """How far a token with negative advantage may fall."""
    delta_high: NonNegative = 0.15
    """How far a token with positive advantage may rise."""
    ratio_cap: Positive | None = None
    """Importance ratios count at most this much (the paper's authors use 20); off by default."""


class Glm5(_Strict):
    """Importance sampling with a double-sided cut: tokens whose ratio leaves the open interval (1 - low, 1 + high)
    give no gradient, whatever the sign of their advantage."""

    name: Literal["glm5"] = "glm5"
    low: NonNegative = 0.5
    high: NonNegative = 4.0


class Ppo(_Strict):
    """The clipped surrogate."""

    name: Literal["ppo"] = "ppo"
    clip_low: NonNegative = 0.2
    clip_high: NonNegative = 0.2
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """With a negative advantage A the loss is at most -dual_clip * A (3 is usual); off by default."""
    anchor: Anchor = "rollout"


class Gspo(_Strict):
    """The clipped surrogate on the sequence's length-normalised ratio; meant for `sequence_mean`."""

    name: Literal["gspo"] = "gspo"
    clip_low: NonNegative = 0.2
    clip_high: NonNegative = 0.2
    anchor: Anchor = "rollout"


class Cispo(_Strict):
    """Policy gradient weighted by the clipped ratio: no token loses its gradient."""

    name: Literal["cispo"] = "cispo"
    clip_low: NonNegative = 1.0
    clip_high: NonNegative = 4.0
    anchor: Anchor = "rollout"


class Sapo(_Strict):
    """A soft gate on the ratio in place of the hard clip."""

    name: Literal["sapo"] = "sapo"
    tau_positive: Positive = 1.0
    tau_negative: Positive = 1.05
    anchor: Anchor = "rollout"


class ImportanceSampling(_Strict):
    """The plain importance-weighted policy gradient, without any trust region."""

    name: Literal["importance_sampling"] = "importance_sampling"
    anchor: Anchor = "rollout"


class Supervised(_Strict):
    """Cross-entropy on stored trajectories, weighted by the advantage (1 for imitation): the warm start."""

    name: Literal["supervised"] = "supervised"


Loss = Annotated[Dppo | Glm5 | Ppo | Gspo | Cispo | Sapo | ImportanceSampling | Supervised, Field(discriminator="name")]

# ---- corrections, KL, lengths, turns ------------------------------------------------------------------------------


class Interval(_Strict):
    """A closed interval of ratios."""

    low: NonNegative
    high: Positive

    @model_validator(mode="after")
    def _ordered(self) -> Interval:
        if self.low > self.high:
            raise ValueError(f"expected low <= high, found {self.low} > {self.high}")
        return self


class Corrections(_Strict):
    """Against engines that disagree with the trainer: rho = exp(l_old - mu) per token, with l_old the trainer's logprob
    before the update. All off by default: a loss anchored on the rollout's logprobs corrects by itself."""

    tis_token: Positive | None = None
    """Losses times min(rho, this); 2 is usual."""
    tis_sequence: Positive | None = None
    """Losses times min(product of the row's rho, this); 5 is usual."""
    outlier_mask: Interval | None = None
    """A row trains only if every rho of it lies within (1e-4 and 100 are usual)."""
    token_mask: Interval | None = None
    """A token trains only if its rho lies within (0.5 and 2: IcePop)."""
    geometric_mask: Interval | None = None
    """A row trains only if the geometric mean of its rho lies within (0.99 and 1.01 are usual)."""
    product_mask: Interval | None = None
    """A row trains only if the product of its rho lies within (0.5 and 2 are usual)."""

    @model_validator(mode="after")
    def _one_of_each(self) -> Corrections:
        if self.tis_token is not None and self.tis_sequence is not None:
            raise ValueError("expected one of tis_token and tis_sequence, found both; they correct the same thing")
        if self.geometric_mask is not None and self.product_mask is not None:
            raise ValueError("expected one of geometric_mask and product_mask, found both; both judge the whole row")
        return self

    @property
    def any(self) -> bool:
        return any(getattr(self, name) is not None for name in type(self).model_fields)


class KlPenalty(_Strict):
    """A penalty on the distance from the reference policy (the weights at the start), in the loss."""

    estimator: Literal["k1", "abs", "k2", "k3"] = "k3"
    coefficient: Positive = 0.001


class AdaptiveLength(_Strict):
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


class SoftOverlong(_Strict):
    """DAPO's soft overlong punishment: nothing up to `limit_tokens - buffer_tokens`, then linearly down to
    `-penalty` at the limit and beyond."""

    name: Literal["soft_overlong"] = "soft_overlong"
    limit_tokens: Annotated[int, Field(ge=1)]
    buffer_tokens: Annotated[int, Field(ge=1)]
    penalty: Positive = 1.0

    @model_validator(mode="after")
    def _fits(self) -> SoftOverlong:
        if self.buffer_tokens > self.limit_tokens:
            raise ValueError(
                f"expected buffer_tokens <= limit_tokens, found {self.buffer_tokens} > {self.limit_tokens}"
            )
        return self


LengthPenalty = Annotated[AdaptiveLength | SoftOverlong, Field(discriminator="name")]


class TurnRewards(_Strict):
    """Rewards for single turns beside the verdict's: process signals and penalties, as `Rollout.signals` names them.

    Off by default. For a penalty on invalid actions: `weights = {invalid_action = -0.1}`."""

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


class OnTruncation(_Strict):
    """What a rollout that a limit ended means, per stop reason: `score` keeps the verdict's reward, `zero` replaces it
    by 0, `mask` takes the rollout out: it trains nothing and votes in no baseline (the overlong filter is `mask` for
    `context`, `tokens` and `turn_length`)."""

    turns: Treatment = "score"
    tokens: Treatment = "score"
    context: Treatment = "zero"
    turn_length: Treatment = "zero"
    working_time: Treatment = "score"
    unparsable: Treatment = "score"

    def of(self, stop: StopReason | None) -> Treatment:
        """The treatment of a stop reason; an answered rollout, or one whose reason nobody knows, is scored."""
        if stop is None or stop is StopReason.ANSWERED:
            return "score"
        treatment: Treatment = getattr(self, stop.value)
        return treatment


ReductionName = Literal["prompt_mean", "token_mean", "sequence_mean", "length_normalised"]


class AlgorithmConfig(_Strict):
    """How rewards become a gradient. The defaults are the published recipe's."""

    advantage: Advantage = Grpo()
    loss: Loss = Dppo()
    reduction: ReductionName = "prompt_mean"
    """Over what the loss is averaged: prompts (each by its trained tokens), all trained tokens, rollouts (each by its
    own), or rollouts over a fixed `max_tokens` (Dr. GRPO)."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The fixed length of `length_normalised`, which needs it."""
    corrections: Corrections = Corrections()
    kl: KlPenalty | None = None
    """Off by default."""
    entropy_bonus: NonNegative = 0.0
    """Coefficient of the policy's entropy per token, in nats (0.01 is usual where it is used)."""
    zero_variance: Literal["drop", "keep"] = "drop"
    """Groups whose valid rollouts all have the same reward: drop (and let the loop refill) or keep."""
    zero_variance_tolerance: NonNegative = 1e-6
    """Rewards that differ by at most this are the same."""
    length_penalty: LengthPenalty | None = None
    """Off by default."""
    turn_rewards: TurnRewards = TurnRewards()
    on_truncation: OnTruncation = OnTruncation()

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
