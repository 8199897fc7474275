"""The `[guards]` table of a plan. Strict and frozen; needs neither torch nor numpy."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["GuardsConfig"]

Count = Annotated[int, Field(ge=1)]


class GuardsConfig(BaseModel):
    """What is checked before a run spends anything, and against which gates."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    at_start: bool = True
    """Check when a run starts or resumes; a guard that fails ends it. `envkit train --check` checks in any case."""
    gap: Annotated[float, Field(gt=0)] = 0.03
    """Mean absolute difference of engine's and trainer's logprobs, in nats, from which on they disagree."""
    routing: Annotated[float, Field(ge=0, le=1)] = 0.9
    """Share of a token's experts that engine and trainer must choose alike, on average, in a mixture of experts."""
    samples: Count = 4
    """Completions that are compared at a start; at least one for every engine."""
    tokens: Count = 24
    """Their longest length."""
    check_samples: Count = 32
    """Completions that `--check` compares."""
    check_tokens: Count = 128
    """Their longest length."""
    timeout_s: Annotated[float, Field(gt=0)] = 1800.0
    """Longest time that all guards together may take."""
