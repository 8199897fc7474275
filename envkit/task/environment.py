"""The `[environment]` table of a task file: the machine a task needs, what runs beside it, and when it is ready.

The same table describes a verifier's own environment. Deprecated keys (`memory`, `storage`, `allow_internet`) are read
and become their successors; the models hold and write only the current ones.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from envkit.task.env_vars import check_headers
from envkit.task.network import NetworkMode, check_policy, normalize_hosts

__all__ = [
    "DEPRECATED_KEYS",
    "EnvironmentConfig",
    "HealthcheckConfig",
    "McpServerConfig",
    "Seconds",
    "TpuConfig",
    "User",
]

#: Deprecated keys of the table and what to write instead.
DEPRECATED_KEYS = {
    "memory": "memory_mb (MiB, an integer)",
    "storage": "storage_mb (MiB, an integer)",
    "allow_internet": 'network_mode ("public" or "no-network")',
}

_MIB = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}


def _timeout(value: float) -> float:
    if not value > 0:  # also refuses NaN
        raise ValueError(f"expected a number of seconds above 0, found {value}")
    return value


def _wait(value: float) -> float:
    if not value >= 0 or math.isinf(value):
        raise ValueError(f"expected a finite number of seconds, 0 or more, found {value}")
    return value


#: A time limit: above 0; `inf` means none.
Seconds = Annotated[float, AfterValidator(_timeout)]
#: An interval: finite, 0 or more.
Interval = Annotated[float, AfterValidator(_wait)]
#: A user's name, or a uid.
User = str | int

Frozen = ConfigDict(frozen=True, extra="forbid")


class HealthcheckConfig(BaseModel):
    """A command that exits with 0 once the environment is ready.

    Attributes:
        interval_sec: Seconds between checks.
        timeout_sec: Seconds one check may take.
        start_period_sec: Seconds at the start in which failures don't count, checked each `start_interval_sec`.
        retries: Failures in a row that make it fail.
    """

    model_config = Frozen

    command: str
    interval_sec: Interval = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: Interval = 0.0
    start_interval_sec: Interval = 5.0
    retries: Annotated[int, Field(ge=0)] = 3


class TpuConfig(BaseModel):
    """A TPU slice: accelerator type and topology such as `2x4`."""

    model_config = Frozen

    type: Annotated[str, Field(min_length=1)]
    topology: str

    @field_validator("topology")
    @classmethod
    def _grid(cls, value: str) -> str:
        value = value.strip()
        if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)+", value):
            raise ValueError(f"expected a topology such as '2x4' or '2x2x1', found {value!r}")
        return value


class McpServerConfig(BaseModel):
    """A tool server offered to the agent. `url` goes with `sse` and `streamable-http`, `command` with `stdio`."""

    model_config = Frozen

    name: str
    transport: Annotated[
        Literal["stdio", "sse", "streamable-http"],
        BeforeValidator(lambda value: "streamable-http" if value == "http" else value),
    ] = "sse"
    url: str | None = None
    command: str | None = None
    args: list[str] = Field(default_factory=list)
    headers: dict[str, str] = Field(default_factory=dict)

    @field_validator("headers")
    @classmethod
    def _sendable(cls, headers: dict[str, str]) -> dict[str, str]:
        check_headers(headers)
        return headers

    @model_validator(mode="after")
    def _fits_transport(self) -> McpServerConfig:
        if self.transport == "stdio":
            if not self.command:
                raise ValueError(f"server {self.name!r}: transport 'stdio' needs a 'command'")
            if self.headers:
                raise ValueError(f"server {self.name!r}: 'headers' go with HTTP transports, not with 'stdio'")
        elif not self.url:
            raise ValueError(f"server {self.name!r}: transport {self.transport!r} needs a 'url'")
        return self


class EnvironmentConfig(BaseModel):
    """What machine the task needs. None leaves the choice to the provider.

    Attributes:
        build_timeout_sec: Seconds the provider's start may take, image build included.
        docker_image: A prebuilt image; without it `environment/` says how to build one.
        skills_dir: A folder inside that is offered to the agent as skills.
        healthcheck: Run once after the start, before any step.
        workdir: Working directory of commands; the image's own without it.
    """

    model_config = Frozen

    network_mode: NetworkMode = "public"
    allowed_hosts: list[str] | None = None
    build_timeout_sec: Seconds = 600.0
    docker_image: str | None = None
    os: Annotated[
        Literal["linux", "windows"],
        BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value),
    ] = "linux"
    cpus: Annotated[int | float, Field(gt=0)] | None = None
    memory_mb: Annotated[int, Field(gt=0)] | None = None
    storage_mb: Annotated[int, Field(gt=0)] | None = None
    gpus: Annotated[int, Field(ge=0)] | None = None
    gpu_types: list[str] | None = None
    tpu: TpuConfig | None = None
    mcp_servers: list[McpServerConfig] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    skills_dir: str | None = None
    healthcheck: HealthcheckConfig | None = None
    workdir: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _successors(cls, data: Any, info: ValidationInfo) -> Any:
        """Turns deprecated keys into their successors; a contradiction between the two is an error."""
        if not isinstance(data, dict) or not DEPRECATED_KEYS.keys() & data.keys():
            return data
        data = dict(data)
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if old in data:
                size = _mebibytes(old, data.pop(old))
                if data.setdefault(new, size) != size:
                    raise _at(old, f"'{old}' says {size} MiB, '{new}' says {data[new]}; keep '{new}'")
        if "allow_internet" in data:
            allowed = data.pop("allow_internet")
            if allowed is not None and not isinstance(allowed, bool):
                raise _at("allow_internet", f"expected true or false, found {allowed!r}")
            # As in Harbor, an explicit policy beside it wins.
            if allowed is not None and "network_mode" not in data and data.get("allowed_hosts") is None:
                data["network_mode"] = "public" if allowed else "no-network"
        return data

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, hosts: list[str] | None) -> list[str] | None:
        return None if hosts is None else normalize_hosts(hosts)

    @field_validator("cpus")
    @classmethod
    def _finite(cls, cpus: float | None) -> float | None:
        if isinstance(cpus, float):
            if not math.isfinite(cpus):
                raise ValueError(f"expected a finite number of processors, found {cpus}")
            return int(cpus) if cpus.is_integer() else cpus
        return cpus

    @model_validator(mode="after")
    def _policy(self) -> EnvironmentConfig:
        check_policy(self.network_mode, self.allowed_hosts)
        return self


def _mebibytes(key: str, text: Any) -> int:
    if isinstance(text, str):
        number, unit = text.strip()[:-1], text.strip()[-1:].upper()
        try:
            return int(float(number) * _MIB[unit])
        except (KeyError, ValueError, OverflowError):
            pass
    raise _at(key, f'expected a size such as "2G", "512M" or "4096K", found {text!r}; better write \'{key}_mb\'')


def _at(key: str, message: str) -> PydanticCustomError:
    """An error of one key, raised where pydantic only knows the table."""
    return PydanticCustomError("envkit_key", "{message}", {"message": message, "key": key})
