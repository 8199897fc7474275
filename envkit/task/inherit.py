"""From the file model to effective values: what a step's tables inherit from the task's.

The rules are Harbor's, with its one accident repaired:

- `agent.timeout_sec`, `agent.user`, `verifier.user`: the step's, else the task's.
- `verifier.timeout_sec`: the step's, else the task's, else 600 s. (Harbor gives a step that states none 600 s, whatever
  the task says; `harbor_compat=True` does the same.)
- A phase's network policy: the step's as a whole (mode and hosts), else the task's phase, else that of the environment
  the phase runs in.
- `verifier.env`: the task's map with the step's entries added; for a name in both, the step's value.
- `verifier.environment_mode`: stated by the step; else `separate` if the step has an environment; else the task's by
  the same two rules; else `shared`. In separate mode the environment is the step's, else the task's verifier's, else a
  copy of `[environment]`.
- `verifier.collect` and `artifacts`: the task's followed by the step's.
- `healthcheck`: not inherited. The environment's runs once, before the first step; a step's own is one more.
"""

from __future__ import annotations

from typing import Literal

from envkit.task.artifacts import ArtifactConfig, as_artifact
from envkit.task.config import AgentConfig, StepConfig, TaskConfig, VerifierConfig
from envkit.task.environment import EnvironmentConfig, HealthcheckConfig

__all__ = [
    "DEFAULT_VERIFIER_TIMEOUT_S",
    "effective_agent",
    "effective_artifacts",
    "effective_verifier",
    "healthchecks",
]

DEFAULT_VERIFIER_TIMEOUT_S = 600.0


def effective_agent(task: TaskConfig, step: StepConfig | None) -> AgentConfig:
    """The agent phase of a step (None: of a single-step task), nothing left to inherit."""
    own = step.agent if step is not None else task.agent
    policy = own if own.network_mode is not None else task.agent
    source = policy if policy.network_mode is not None else task.environment
    return AgentConfig(
        timeout_sec=own.timeout_sec if own.timeout_sec is not None else task.agent.timeout_sec,
        user=own.user if own.user is not None else task.agent.user,
        network_mode=source.network_mode,
        allowed_hosts=source.allowed_hosts,
    )


def effective_verifier(task: TaskConfig, step: StepConfig | None, *, harbor_compat: bool = False) -> VerifierConfig:
    """The verifier phase of a step, nothing left to inherit: mode and timeout are set, and so is the environment
    exactly in separate mode."""
    shared, own = task.verifier, (step.verifier if step is not None else task.verifier)
    timeout = own.timeout_sec
    if timeout is None and not (harbor_compat and step is not None):
        timeout = shared.timeout_sec
    mode: Literal["shared", "separate"] = _mode(own) or _mode(shared) or "shared"
    environment: EnvironmentConfig | None = None
    if mode == "separate":
        environment = own.environment or shared.environment or task.environment
    policy = own if own.network_mode is not None else shared
    source = policy if policy.network_mode is not None else (environment or task.environment)
    return VerifierConfig(
        timeout_sec=timeout if timeout is not None else DEFAULT_VERIFIER_TIMEOUT_S,
        user=own.user if own.user is not None else shared.user,
        network_mode=source.network_mode,
        allowed_hosts=source.allowed_hosts,
        env={**shared.env, **own.env},
        environment_mode=mode,
        environment=environment,
        collect=[*shared.collect, *(own.collect if step is not None else ())],
    )


def effective_artifacts(task: TaskConfig, step: StepConfig | None) -> tuple[ArtifactConfig, ...]:
    """What is collected after a step, in the long form."""
    return tuple(as_artifact(entry) for entry in (*task.artifacts, *(step.artifacts if step is not None else ())))


def healthchecks(task: TaskConfig, step: StepConfig | None, *, first: bool) -> tuple[HealthcheckConfig, ...]:
    """The checks to pass before a step's agent starts, in order."""
    of_environment = task.environment.healthcheck if first else None
    of_step = step.healthcheck if step is not None else None
    return tuple(check for check in (of_environment, of_step) if check is not None)


def _mode(verifier: VerifierConfig) -> Literal["shared", "separate"] | None:
    if verifier.environment_mode is not None:
        return verifier.environment_mode
    return "separate" if verifier.environment is not None else None
