"""The file model: every key of a `task.toml` (schema 1.4) as it was stated, nothing inherited, nothing defaulted away.

What a file leaves unset stays unset in the model and when it is written back, so that reading, writing and reading
again gives an equal model. Effective values, with everything inheritable inherited, are on `Step` (`inherit.py`).
Every model refuses unknown keys; `strict.py` turns that into messages with line and suggestion.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Field, Tag, field_validator, model_validator
from pydantic_core import PydanticCustomError

from envkit.task.artifacts import MAIN_SERVICE, ArtifactConfig, check_service, check_source
from envkit.task.environment import EnvironmentConfig, Frozen, HealthcheckConfig, Seconds, User
from envkit.task.metadata import Metadata
from envkit.task.names import check_step_name, same_name_key
from envkit.task.network import NetworkMode, check_policy, normalize_hosts

__all__ = [
    "SCHEMA_VERSION",
    "AgentConfig",
    "Author",
    "CollectConfig",
    "PackageConfig",
    "SolutionConfig",
    "StepConfig",
    "TaskConfig",
    "VerifierConfig",
]

#: The schema this release reads and writes.
SCHEMA_VERSION = "1.4"

Artifact = Annotated[
    Annotated[str, Tag("string")] | Annotated[ArtifactConfig, Tag("table")],
    Discriminator(lambda value: "string" if isinstance(value, str) else "table"),
]


class _Phase(BaseModel):
    """What `[agent]` and `[verifier]` share: a time limit, a user, and a network policy of their own.

    Attributes:
        timeout_sec: Seconds the phase may take.
        user: Who runs it; the environment's default user without it.
        network_mode: None means as the environment has it.
    """

    model_config = Frozen

    timeout_sec: Seconds | None = None
    user: User | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, hosts: list[str] | None) -> list[str] | None:
        return None if hosts is None else normalize_hosts(hosts)

    @model_validator(mode="after")
    def _policy(self) -> _Phase:
        check_policy(self.network_mode, self.allowed_hosts)
        return self


class AgentConfig(_Phase):
    """The `[agent]` table, of the task or of a step. No `timeout_sec` anywhere means no limit."""


class CollectConfig(BaseModel):
    """A command run in a service after the agent, so that state which is no file becomes one. Best effort."""

    model_config = Frozen

    command: str
    service: str = MAIN_SERVICE
    timeout_sec: Seconds = 60.0
    user: User | None = None

    @field_validator("service")
    @classmethod
    def _service_name(cls, service: str) -> str:
        return check_service(service)


class VerifierConfig(_Phase):
    """The `[verifier]` table, of the task or of a step.

    Attributes:
        timeout_sec: 600 s where neither step nor task states one.
        env: Values or templates; a step's entries are added to the task's and win over them.
        environment_mode: `separate` where an environment is given, else `shared`, unless stated.
        environment: The verifier's own machine.
        collect: Commands before the hand-over; a step's follow the task's.
    """

    env: dict[str, str] = Field(default_factory=dict)
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentConfig | None = None
    collect: list[CollectConfig] = Field(default_factory=list)

    @model_validator(mode="after")
    def _mode_fits(self) -> VerifierConfig:
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError(
                'environment_mode = "shared" contradicts an environment of the verifier\'s own; '
                'drop the environment, or say "separate"'
            )
        return self


class SolutionConfig(BaseModel):
    """The `[solution]` table: what the oracle's script is given."""

    model_config = Frozen

    env: dict[str, str] = Field(default_factory=dict)


class Author(BaseModel):
    """Somebody who wrote the task."""

    model_config = Frozen

    name: str
    email: str | None = None


class PackageConfig(BaseModel):
    """The `[task]` table: the name under which the task is published, `org/name`."""

    model_config = Frozen

    name: str
    version: Annotated[str, Field(min_length=1)] | None = None
    description: str = ""
    authors: list[Author] = Field(default_factory=list)
    keywords: list[str] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _org_and_name(cls, name: str) -> str:
        part = r"[A-Za-z0-9][A-Za-z0-9._-]*"
        if ".." in name or not re.fullmatch(f"{part}/{part}", name):
            raise ValueError(
                f"expected 'org/name' (letters, digits, '-', '_', '.', each beginning with a letter or digit), "
                f"found {name!r}"
            )
        return name


class StepConfig(BaseModel):
    """One `[[steps]]` table.

    Attributes:
        name: The folder under `steps/`.
        min_reward: What the step must earn for the next ones to run: on key `reward`, or per key.
        healthcheck: Run after this step's set-up, beside the environment's own.
        artifacts: Collected after this step, beside the task's.
    """

    model_config = Frozen

    name: str
    agent: AgentConfig = Field(default_factory=AgentConfig)
    verifier: VerifierConfig = Field(default_factory=VerifierConfig)
    min_reward: float | dict[str, float] | None = None
    healthcheck: HealthcheckConfig | None = None
    artifacts: list[Artifact] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _portable(cls, name: str) -> str:
        return check_step_name(name)

    @field_validator("artifacts")
    @classmethod
    def _valid_sources(cls, artifacts: list[str | ArtifactConfig]) -> list[str | ArtifactConfig]:
        return _checked(artifacts)


class TaskConfig(BaseModel):
    """A whole `task.toml`. The deprecated key `version` is read as `schema_version`."""

    model_config = Frozen

    schema_version: str = SCHEMA_VERSION
    source: str | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    artifacts: list[Artifact] = Field(default_factory=list)
    task: PackageConfig | None = None
    metadata: Metadata = Field(default_factory=Metadata)
    agent: AgentConfig = Field(default_factory=AgentConfig)
    verifier: VerifierConfig = Field(default_factory=VerifierConfig)
    environment: EnvironmentConfig = Field(default_factory=EnvironmentConfig)
    solution: SolutionConfig = Field(default_factory=SolutionConfig)
    steps: list[StepConfig] | None = None

    @model_validator(mode="before")
    @classmethod
    def _old_version_key(cls, data: Any) -> Any:
        if isinstance(data, dict) and "version" in data:
            data = dict(data)
            old = data.pop("version")
            if not isinstance(old, str):
                raise PydanticCustomError(
                    "envkit_key", "{message}", {"message": f"expected a string, found {old!r}", "key": "version"}
                )
            data.setdefault("schema_version", old)
        return data

    @field_validator("artifacts")
    @classmethod
    def _valid_sources(cls, artifacts: list[str | ArtifactConfig]) -> list[str | ArtifactConfig]:
        return _checked(artifacts)

    @field_validator("steps")
    @classmethod
    def _distinct_steps(cls, steps: list[StepConfig] | None) -> list[StepConfig] | None:
        seen: dict[str, str] = {}
        for step in steps or []:
            key = same_name_key(step.name)
            twin = seen.get(key)
            if twin == step.name:
                raise ValueError(f"step name {step.name!r} appears twice; give each step its own name")
            if twin is not None:
                raise ValueError(
                    f"step names {twin!r} and {step.name!r} are one folder where case or Unicode form are ignored; "
                    "rename one"
                )
            seen[key] = step.name
        return steps

    def to_toml(self) -> str:
        """The file's text: what was set and nothing else, in a fixed order. `parse_task_toml` reads it back equal."""
        from envkit.task.toml_write import dump_toml

        return dump_toml(self.stated())

    def stated(self) -> dict[str, Any]:
        """What was set, as plain TOML data (tables are dicts)."""
        data: dict[str, Any] = self.model_dump(exclude_unset=True, exclude_none=True)
        return data


def _checked(artifacts: list[str | ArtifactConfig]) -> list[str | ArtifactConfig]:
    for entry in artifacts:
        if isinstance(entry, str):
            check_source(entry)
    return artifacts
