"""The scoring methods of Archipelago, by their ids there, as pure functions from graded criteria to a number.

A method is a row of `METHODS`: its options and its formula. The formulas are theirs, odd corners included (two of
them may go below 0, since a capped penalty is taken off); what differs is what happens without a verdict: a missing
score leaves the reward None, with bounds, where theirs gives up the whole grading, and nothing graded is no reward
where theirs is 0 or even 1. Used for rubrics in their form; `scoring.py` has our own two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envkit.failure import UserError, did_you_mean
from envkit.verifier import Criterion

__all__ = ["METHODS", "Difficulty", "Graded", "Method", "Scored", "score_with"]

#: From here on a score counts as full where a method knows only full and none.
_FULL = 0.99


class Difficulty(StrEnum):
    """How hard a criterion is, for `difficulty_weighted_average`."""

    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"


@dataclass(frozen=True, slots=True)
class Graded:
    """A criterion's score and what the methods ask about it.

    Attributes:
        score: None where there is no verdict. Usually in [0, 1]; below 0 for a violated negative criterion, or one
            that its sources refute.
        weight: `numerical_weight`; may be negative; 0 = left out.
        primary: `is_primary_objective`, which is true where a rubric does not say.
        universal: It applies to a whole world, not to one task.
        difficulty: See `Difficulty`.
        tags: Values of custom fields: `Expert Assessment`, `Gate: ...`.
        hurdle: Without it nothing counts (`ace_criterion_score`).
    """

    score: float | None
    weight: float = 1.0
    primary: bool = True
    universal: bool = False
    difficulty: Difficulty | None = None
    tags: frozenset[str] = frozenset()
    hurdle: bool = False

    @classmethod
    def of(cls, criterion: Criterion, **rest: Any) -> Graded:
        """From a verdict's criterion, with its weight; `rest` are the attributes that it does not have."""
        return cls(score=criterion.score, **{"weight": criterion.weight, **rest})


@dataclass(frozen=True, slots=True)
class Scored:
    """What a method made of the criteria.

    Attributes:
        reward: None where a score is missing, or nothing was graded.
        lower, upper: With missing scores at their worst and at their best (0 or 1); None where nothing was graded.
        values: The parts of the formula, where the reward exists.
    """

    reward: float | None
    lower: float | None
    upper: float | None
    values: Mapping[str, float]


class _Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NoOptions(_Options):
    """The method has none."""


class PenaltyOptions(_Options):
    """The capped penalty of universal criteria."""

    universal_penalty_cap: float = Field(default=0.2, ge=0)
    universal_total_negative_points: float = Field(default=100.0, ge=0)


class WeightedSumOptions(PenaltyOptions):
    """Factors of primary, other and negative criteria."""

    task_primary_objective_scaling_factor: float = Field(default=4.0, ge=0)
    task_non_primary_objective_scaling_factor: float = Field(default=2.0, ge=0)
    task_negative_scaling_factor: float = Field(default=0.2, ge=0)


class GateOptions(_Options):
    """Caps and the haircut of `deep_research_weighted_average_with_gates`."""

    expert_assessment_values: tuple[str, ...] = ("Expert Assessment",)
    expert_assessment_pass_rate_threshold: float = 0.25
    expert_assessment_floor_cap: float = 0.30
    pass_score_threshold: float = 0.5
    gate_caps: dict[str, float] = {"Gate: Missing Scope": 0.50, "Gate: Ethical / Safety Violation": 0.40}
    critical_value_field_values: tuple[str, ...] = ("Gate: Critical Value",)
    critical_value_multiplier: float = Field(default=0.8, ge=0)


class DifficultyOptions(_Options):
    """The weight of each difficulty, and which one a criterion has that names none."""

    low_weight: float = Field(default=1.0, ge=0)
    medium_weight: float = Field(default=3.0, ge=0)
    high_weight: float = Field(default=5.0, ge=0)
    default_difficulty: Difficulty = Difficulty.MEDIUM


O = TypeVar("O", bound=_Options)  # noqa: E741 the options of a method
#: Every score is there, and there is at least one.
Whole = Sequence[tuple[float, Graded]]
Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Method(Generic[O]):
    """A row of the table: the options' model, and the formula, which returns the score and its parts."""

    options: type[O]
    formula: Callable[[Whole, O], tuple[float, Values]]


def _clamped(value: float) -> float:
    return max(0.0, min(1.0, value))


def _mean(scores: Sequence[float]) -> float:
    return math.fsum(scores) / len(scores) if scores else 0.0


def _of_task(whole: Whole) -> Whole:
    """Those that belong to the task; all, where none does."""
    return [(score, graded) for score, graded in whole if not graded.universal] or whole


def _template(whole: Whole, options: NoOptions) -> tuple[float, Values]:
    return _mean([score for score, _ in whole]), {}


def _penalty(whole: Whole, options: PenaltyOptions) -> Values:
    points = math.fsum(-score for score, graded in whole if graded.universal and score < 0)
    total = options.universal_total_negative_points
    penalty = _clamped(points / total) if total > 0 else 0.0
    return {"universal_penalty": penalty, "capped_penalty": penalty * options.universal_penalty_cap}


def _unweighted(whole: Whole, options: PenaltyOptions) -> tuple[float, Values]:
    of_task = [score for score, graded in whole if not graded.universal]
    penalty = _penalty(whole, options)
    task_score = _mean(of_task) if of_task else 1.0
    return task_score - penalty["capped_penalty"], {"task_score": task_score, **penalty}


def _weighted_sum(whole: Whole, options: WeightedSumOptions) -> tuple[float, Values]:
    cumulative: list[float] = []
    possible: list[float] = []
    for score, graded in whole:
        if graded.universal:
            continue
        if score < 0:
            cumulative.append(score * options.task_negative_scaling_factor)
            continue
        factor = (
            options.task_primary_objective_scaling_factor
            if graded.primary
            else options.task_non_primary_objective_scaling_factor
        )
        cumulative.append(score * factor)
        possible.append(factor)
    reached, most = math.fsum(cumulative), math.fsum(possible)
    task_score = reached / most if most > 0 else 0.0
    penalty = _penalty(whole, options)
    values = {"task_score": task_score, "cumulative_score": reached, "max_possible_score": most, **penalty}
    return task_score - penalty["capped_penalty"], values


def _weighted(whole: Whole) -> tuple[float, Values]:
    """Negative weights subtract and don't enlarge what can be reached."""
    reached = math.fsum(score * graded.weight for score, graded in whole)
    most = math.fsum(graded.weight for _, graded in whole if graded.weight > 0)
    return _clamped(reached / most) if most > 0 else 0.0, {"weighted_sum": reached, "total_weights": most}


def _deep_research(whole: Whole, options: NoOptions) -> tuple[float, Values]:
    return _weighted(whole)


def _gated(whole: Whole, options: GateOptions) -> tuple[float, Values]:
    base, values = _weighted(whole)
    experts = [score >= options.pass_score_threshold for score, graded in whole
               if graded.tags & set(options.expert_assessment_values)]  # fmt: skip
    failed = [graded for score, graded in whole if score < options.pass_score_threshold]
    caps = [cap for graded in failed for tag, cap in options.gate_caps.items() if tag in graded.tags]
    if experts and sum(experts) / len(experts) < options.expert_assessment_pass_rate_threshold:
        caps.append(options.expert_assessment_floor_cap)
    capped = _clamped(min([base, *caps]))
    critical = sum(bool(graded.tags & set(options.critical_value_field_values)) for graded in failed)
    final = _clamped(capped * options.critical_value_multiplier**critical)
    return final, {
        **values,
        "base_score": base,
        "score_before_critical_value": capped,
        "critical_value_failed": float(critical),
    }


def _apex(whole: Whole, options: NoOptions) -> tuple[float, Values]:
    counted = _of_task(whole)
    passed = sum(score >= _FULL for score, _ in counted)
    return passed / len(counted), {"passed_count": float(passed), "total_count": float(len(counted))}


def _clamped_mean(whole: Whole, options: NoOptions) -> tuple[float, Values]:
    scores = [score for score, _ in whole]
    return _mean([max(0.0, score) for score in scores]), {"original_average": _mean(scores)}


def _by_difficulty(whole: Whole, options: DifficultyOptions) -> tuple[float, Values]:
    weights = {
        Difficulty.LOW: options.low_weight,
        Difficulty.MEDIUM: options.medium_weight,
        Difficulty.HIGH: options.high_weight,
    }
    return _weighted(
        [(score, replace(graded, weight=weights[graded.difficulty or options.default_difficulty]))
         for score, graded in whole]
    )  # fmt: skip


def _ace(whole: Whole, options: NoOptions) -> tuple[float, Values]:
    counted = [(1 if score >= _FULL else 0 if score >= 0 else -1, graded) for score, graded in _of_task(whole)]
    total = sum(step for step, _ in counted)
    cleared = all(step == 1 for step, graded in counted if graded.hurdle)
    reached = total if cleared else 0
    return max(0.0, reached / len(counted)), {"total_score": float(total), "total_hurdle_score": float(reached)}


#: Every method, by Archipelago's id.
METHODS: Mapping[str, Method[Any]] = {
    "template": Method(NoOptions, _template),
    "task_score_unweighted_and_universal_penalty": Method(PenaltyOptions, _unweighted),
    "task_score_and_universal_penalty_weighted_sum": Method(WeightedSumOptions, _weighted_sum),
    "deep_research_weighted_average": Method(NoOptions, _deep_research),
    "deep_research_weighted_average_with_gates": Method(GateOptions, _gated),
    "apex_v1_grade_score": Method(NoOptions, _apex),
    "criteria_level_clamped_average": Method(NoOptions, _clamped_mean),
    "difficulty_weighted_average": Method(DifficultyOptions, _by_difficulty),
    "ace_criterion_score": Method(NoOptions, _ace),
}


def score_with(method: str, graded: Sequence[Graded], options: Mapping[str, Any] | None = None) -> Scored:
    """Applies a method.

    Args:
        method: An id of `METHODS`.
        options: Its `scoring_config_values`.

    Raises:
        UserError: There is no such method or option, or a score or weight is no finite number.
    """
    row = METHODS.get(method)
    if row is None:
        raise UserError(
            f"unknown scoring method {method!r}{did_you_mean(method, tuple(METHODS))}; known: {', '.join(METHODS)}"
        )
    chosen = _options(method, row, options or {})
    for number, item in enumerate(graded):
        if not math.isfinite(item.weight) or (item.score is not None and not math.isfinite(item.score)):
            raise UserError(f"criterion {number} has score {item.score} and weight {item.weight}; expected finite ones")
    if not graded:
        return Scored(None, None, None, {})
    worst, _ = row.formula([(_filled(item, 0.0), item) for item in graded], chosen)
    best, values = row.formula([(_filled(item, 1.0), item) for item in graded], chosen)
    if any(item.score is None for item in graded):
        return Scored(None, min(worst, best), max(worst, best), {})
    return Scored(best, best, best, values)


def _filled(graded: Graded, of_positive: float) -> float:
    """The score, or where it is missing the one that is worst (0.0) or best (1.0) for the result."""
    if graded.score is not None:
        return graded.score
    return of_positive if graded.weight >= 0 else 1.0 - of_positive


def _options(method: str, row: Method[O], given: Mapping[str, Any]) -> O:
    try:
        return row.options.model_validate(dict(given))
    except ValidationError as error:
        known = tuple(row.options.model_fields)
        lines = [
            f"{'.'.join(map(str, item['loc']))}: "
            + (f"unknown option{did_you_mean(str(item['loc'][-1]), known)}" if item["type"] == "extra_forbidden"
               else item["msg"])
            for item in error.errors(include_url=False, include_input=False)
        ]  # fmt: skip
        raise UserError(f"options of scoring method {method!r}: {'; '.join(lines)}") from error
