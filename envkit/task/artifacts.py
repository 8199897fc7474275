"""Artifacts in task files: what is collected after the agent, and where it goes below the trial's `artifacts/`.

Sources are paths inside the sandbox, destinations relative paths on the host; neither may climb out.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = ["MAIN_SERVICE", "ArtifactConfig", "as_artifact", "check_service", "check_source"]

#: The compose service that the agent runs in.
MAIN_SERVICE = "main"

_SERVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")


def check_service(name: str) -> str:
    """Returns a compose service's name, stripped; raises `ValueError` for what can't be one."""
    name = name.strip()
    if not _SERVICE.fullmatch(name):
        raise ValueError(
            f"{name!r} can't name a compose service: expected letters, digits, '-', '_', '.', beginning with a "
            "letter or digit"
        )
    return name


def check_source(source: str) -> str:
    """Returns a path inside the sandbox; raises `ValueError` where it climbs."""
    if ".." in PurePosixPath(source).parts:
        raise ValueError(f"artifact source {source!r} contains '..'; write the path it leads to")
    return source


class ArtifactConfig(BaseModel):
    """One file or folder to collect.

    Attributes:
        source: Path inside the sandbox; absolute for services other than `main`.
        destination: Relative path below `artifacts/`; the source's own path without it.
        exclude: Patterns left out of a folder.
        service: The compose service it is in; `main` without it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    destination: str | None = None
    exclude: list[str] = Field(default_factory=list)
    service: str | None = None

    @field_validator("source")
    @classmethod
    def _source_stays_inside(cls, source: str) -> str:
        return check_source(source)

    @field_validator("destination")
    @classmethod
    def _destination_stays_inside(cls, destination: str | None) -> str | None:
        if not destination:
            return None
        path = PurePosixPath(destination)
        if "\\" in destination:
            problem = "has a backslash; separate folders by '/'"
        elif path.is_absolute():
            problem = "is absolute; expected a path relative to the trial's artifacts/"
        elif ".." in path.parts:
            problem = "contains '..'"
        elif not path.parts:
            problem = "names no file or folder"
        elif destination.rstrip("/") == "manifest.json":
            problem = "is reserved for the list of what was collected"
        else:
            return destination
        raise ValueError(f"artifact destination {destination!r} {problem}")

    @field_validator("service")
    @classmethod
    def _service_name(cls, service: str | None) -> str | None:
        return None if service is None else check_service(service)

    @model_validator(mode="after")
    def _sidecar_is_absolute(self) -> ArtifactConfig:
        if self.service not in (None, MAIN_SERVICE) and not (self.source.startswith("/") or _DRIVE.match(self.source)):
            raise ValueError(
                f"artifact source {self.source!r} of service {self.service!r} must be an absolute path "
                "(only the main service has a working directory)"
            )
        return self


def as_artifact(entry: str | ArtifactConfig) -> ArtifactConfig:
    """The long form of an entry."""
    return ArtifactConfig(source=entry) if isinstance(entry, str) else entry
