"""The `[ray]` table of a plan: which cluster, and what each part of the run takes of it. Strict and frozen."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["EnginePlaces", "RayConfig", "Strategy", "TrialPlaces"]

Strategy = Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class EnginePlaces(_Strict):
    """What one engine takes of its node."""

    cpus: Amount = 1.0
    """CPUs that an engine reserves."""
    gpus: Amount | None = None
    """GPUs that an engine reserves; by default `engines.tensor_parallel`, and none for engines on CPUs."""
    strategy: Strategy = "SPREAD"
    """How Ray places them (`PACK` fills a node after the other)."""


class TrialPlaces(_Strict):
    """What one trial takes of its node."""

    resource: str = "envkit_trials"
    """A resource that nodes for trials declare, or `CPU`."""
    per_trial: Positive = 1.0
    """How much of it."""
    per_host: Annotated[int, Field(ge=1)] = 16
    """Trials of one host process."""
    environment: list[str] = []
    """Names of variables that trials need from the run's environment, beside `ENVKIT_*`."""


class RayConfig(_Strict):
    """A Ray cluster for the whole run."""

    address: str = "auto"
    """`HOST:PORT` of the cluster; `auto`: the one that this machine is part of, or that `RAY_ADDRESS` names (as it does
    in a submitted job); `local`: one that is started here and ends with the run."""
    object_store_mb: Annotated[int, Field(ge=80)] = 512
    """Of `local`: memory for objects on their way."""
    engines: EnginePlaces = EnginePlaces()
    trials: TrialPlaces = TrialPlaces()
    """For trials that run on the cluster too (`trial.executor = "ray"`)."""
    patience_s: Positive = 600.0
    """How long to wait for room on the cluster."""
