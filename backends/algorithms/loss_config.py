"""What a token's loss is: policy losses and parameters, corrections of the engine's disagreement, the KL penalty.

Part of `config.AlgorithmConfig`. Every loss is a table of its own, told apart by its `name`, so that a parameter which
the chosen loss does not have is an error and never ignored. The formulas stand in `losses`, `corrections` and `kl`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from envkit.failure import did_you_mean

__all__ = [
    "Anchor",
    "Cispo",
    "Corrections",
    "Dppo",
    "Glm5",
    "Gspo",
    "ImportanceSampling",
    "Interval",
    "KlPenalty",
    "Loss",
    "NonNegative",
    "Positive",
    "Ppo",
    "Sapo",
    "Share",
    "Strict",
    "Supervised",
    "choice",
]


class Strict(BaseModel):
    """Unknown keys are errors, and what was read stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


def choice(noun: str, *models: type[Strict]) -> BeforeValidator:
    """Reads a table into one of the models by its `name`; a table without a name means the first.

    An unknown name, and a key that the named model does not have, are errors with a suggestion.
    """
    by_name = {model.model_fields["name"].default: model for model in models}

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        name = value.get("name", next(iter(by_name)))
        model = by_name.get(name) if isinstance(name, str) else None
        if model is None:
            near = did_you_mean(str(name), list(by_name))
            raise _wrong("name", f"expected {', '.join(map(repr, by_name))}, found {name!r}{near}")
        for key in value:
            if key not in model.model_fields:
                known = [field for field in model.model_fields if field != "name"]
                has = f"; its parameters: {', '.join(known) or 'none'}"
                raise _wrong(key, f"the {noun} {name!r} has no parameter {key!r}{did_you_mean(str(key), known) or has}")
        return {**value, "name": name}

    return BeforeValidator(read)


def _wrong(key: str, text: str) -> PydanticCustomError:
    """An error at a key of the table, in the form that `envkit.task.strict` finds its line by."""
    return PydanticCustomError("envkit_key", "{text}", {"key": key, "text": text})


#: The policy that a ratio is taken against: the engine's own logprobs at sampling (mu), or the trainer's before the
#: update. With one update per batch the latter is the current policy: its ratio is 1, and nothing is ever clipped.
Anchor = Literal["rollout", "old"]


class Dppo(Strict):
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


class Glm5(Strict):
    """Importance sampling with a double-sided cut: tokens whose ratio leaves the open interval (1 - low, 1 + high)
    give no gradient, whatever the sign of their advantage."""

    name: Literal["glm5"] = "glm5"
    low: NonNegative = 0.5
    """The ratio's lower bound is 1 - low."""
    high: NonNegative = 4.0
    """The ratio's upper bound is 1 + high."""


class Ppo(Strict):
    """The clipped surrogate."""

    name: Literal["ppo"] = "ppo"
    clip_low: NonNegative = 0.2
    """The ratio's lower bound is 1 - clip_low."""
    clip_high: NonNegative = 0.2
    """The ratio's upper bound is 1 + clip_high."""
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """With a negative advantage A the loss is at most -dual_clip * A (3 is usual); off by default."""
    anchor: Anchor = "rollout"
    """Whose logprobs the ratio is taken against: the rollout's, or the trainer's before the update (`old`)."""


class Gspo(Strict):
    """The clipped surrogate on the sequence's length-normalised ratio; meant for `sequence_mean`."""

    name: Literal["gspo"] = "gspo"
    clip_low: NonNegative = 0.2
    """The ratio's lower bound is 1 - clip_low."""
    clip_high: NonNegative = 0.2
    """The ratio's upper bound is 1 + clip_high."""
    anchor: Anchor = "rollout"
    """Whose logprobs the ratio is taken against: the rollout's, or the trainer's before the update (`old`)."""


class Cispo(Strict):
    """Policy gradient weighted by the clipped ratio: no token loses its gradient."""

    name: Literal["cispo"] = "cispo"
    clip_low: NonNegative = 1.0
    """The ratio's lower bound is 1 - clip_low."""
    clip_high: NonNegative = 4.0
    """The ratio's upper bound is 1 + clip_high."""
    anchor: Anchor = "rollout"
    """Whose logprobs the ratio is taken against: the rollout's, or the trainer's before the update (`old`)."""


class Sapo(Strict):
    """A soft gate on the ratio in place of the hard clip."""

    name: Literal["sapo"] = "sapo"
    tau_positive: Positive = 1.0
    """Steepness of the gate for tokens with positive advantage."""
    tau_negative: Positive = 1.05
    """And for all others."""
    anchor: Anchor = "rollout"
    """Whose logprobs the ratio is taken against: the rollout's, or the trainer's before the update (`old`)."""


class ImportanceSampling(Strict):
    """The plain importance-weighted policy gradient, without any trust region."""

    name: Literal["importance_sampling"] = "importance_sampling"
    anchor: Anchor = "rollout"
    """Whose logprobs the ratio is taken against: the rollout's, or the trainer's before the update (`old`)."""


class Supervised(Strict):
    """Cross-entropy on stored trajectories, weighted by the advantage (1 for imitation): the warm start."""

    name: Literal["supervised"] = "supervised"


Loss = Annotated[
    Dppo | Glm5 | Ppo | Gspo | Cispo | Sapo | ImportanceSampling | Supervised,
    Field(discriminator="name"),
    choice("loss", Dppo, Glm5, Ppo, Gspo, Cispo, Sapo, ImportanceSampling, Supervised),
]


class Interval(Strict):
    """A closed interval of ratios."""

    low: NonNegative
    """Lowest ratio within."""
    high: Positive
    """Highest ratio within."""

    @model_validator(mode="after")
    def _ordered(self) -> Interval:
        if self.low > self.high:
            raise ValueError(f"expected low <= high, found {self.low} > {self.high}")
        return self


class Corrections(Strict):
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


class KlPenalty(Strict):
    """A penalty on the distance from the reference policy (the weights at the start), in the loss."""

    estimator: Literal["k1", "abs", "k2", "k3"] = "k3"
    """Of the divergence, per token: d = l - l_ref, |d|, d^2 / 2 or exp(-d) + d - 1."""
    coefficient: Positive = 0.001
    """What a nat of it costs."""
