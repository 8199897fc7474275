"""`[metadata.envkit]`: what envkit adds to a Harbor task, in the one table of it that Harbor leaves to others.

Everything else below `[metadata]` is free-form and kept as it is; this table is ours and strict.
"""

from __future__ import annotations

import datetime as dt
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator

__all__ = ["EnvkitMetadata", "Metadata"]


class EnvkitMetadata(BaseModel):
    """What envkit knows about a task beyond Harbor's fields.

    Attributes:
        world: The world the task starts from, in the pack's own naming. In a pack that is a directory: a folder
            relative to the pack's root, holding `filesystem/` and `.apps_data/`.
        overlay: A folder relative to the task's directory, laid over the world; `environment/world` is taken without
            it, if it is there.
        difficulty: How hard the author thinks it is.
        split: Whether it may be trained on. A pack that declares splits itself must agree.
        domain: The trade it belongs to, e.g. `law`.
        tags: Free words for selection.
        apps: The applications whose state it needs (`mail`, `chat`, `calendar`, ...).
        verifier: The verifier plug-in's name; `auto` takes the one that reads what `tests/` declares.
        expected_turns: How many assistant turns a good solution takes.
        harness: Options by harness name, given to that harness for this task only.
        now: The moment at which the task is set, with its offset: the date that the model is told, and the clock of
            the tools that write dates. None: the same fixed moment for every task.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    world: str | None = None
    overlay: str | None = None
    difficulty: Literal["easy", "medium", "hard"] | None = None
    split: Literal["train", "eval"] | None = None
    domain: str | None = None
    tags: list[str] = Field(default_factory=list)
    apps: list[str] = Field(default_factory=list)
    verifier: Annotated[str, Field(min_length=1)] = "auto"
    expected_turns: Annotated[int, Field(ge=1)] | None = None
    harness: dict[str, dict[str, Any]] = Field(default_factory=dict)
    now: AwareDatetime | None = None

    @field_validator("now", mode="before")
    @classmethod
    def _moment(cls, now: Any) -> Any:
        if not isinstance(now, str):
            return now
        try:
            return dt.datetime.fromisoformat(now)
        except ValueError:
            raise ValueError(f"expected a moment such as '2026-03-04T13:00:00Z', found {now!r}") from None

    @field_validator("world", "overlay")
    @classmethod
    def _inside(cls, path: str | None) -> str | None:
        if path is None:
            return None
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\\" in path or "\0" in path:
            raise ValueError(f"expected a relative path without '..', found {path!r}")
        return path


class Metadata(BaseModel):
    """The `[metadata]` table: free-form, but for `envkit`. Free keys are in `model_extra`."""

    model_config = ConfigDict(frozen=True, extra="allow")

    envkit: EnvkitMetadata | None = None
