"""The Archipelago harness's options, as a user writes them. Strict: an unknown key is refused by name."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from envkit.behaviours.compaction import CompactionOptions
from envkit.behaviours.nudge import NudgeOptions
from envkit.failure import FailureKind, UserError, did_you_mean
from envkit.harnesses.archipelago.servers import catalog

__all__ = ["ArchipelagoOptions"]

#: Steps of an episode, per agent, where the run sets no limit of its own.
DEFAULT_STEPS = {"loop": 100, "toolbelt": 250}


class ArchipelagoOptions(BaseModel):
    """Options of `ArchipelagoHarness`.

    Attributes:
        mode: `meta`: one tool per app with an `action`, and its schema tool, as in benchmark runs; `individual`: a tool
            per action.
        agent: `loop`: all tools at once, a message without calls ends the work. `toolbelt`: the agent adds the tools
            it wants, keeps a to-do list, and ends with `final_answer`.
        servers: The apps offered, by name; the nine standard ones if None.
        env: The apps' published environment variables, such as `CHAT_CURRENT_USER_EMAIL`; kept with the results.
        prompt: `default`, or `compact` for models with a small context.
        system_prompt: A text in place of ours.
        max_steps: Messages of the agent, where the run's limits do not say (loop 100, toolbelt 250).
        run_timeout_s: Working time, where neither the run's limits nor the task say.
        ready_s: Seconds in which every tool server must list its tools.
        max_belt: Tools in the toolbelt at once.
        belt_in_list: Added tools join the tool list of the request, as some endpoints need it; the head of the prompt
            changes each time. Otherwise the list stays, and a tool's schema comes as the result of adding it.
        result_head_bytes, result_tail_bytes: How much of a long tool result is shown; the whole is saved inside.
        max_image_bytes: The largest image that is shown.
        nudge: The context nudge.
        compaction: Of long conversations; on for `toolbelt` and off for `loop` unless set.
        gateway_url: An Archipelago environment (ours or an original container) in place of servers of our own. The
            world is sent there at the start and brought back at the end.
        gateway_apps: The body of `POST /apps` there, or the path of a file with it. Default: the published names of
            `servers`, as our own gateway takes them.
        gateway_token_env: The environment variable with the token that the gateway asks for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Literal["meta", "individual"] = "meta"
    agent: Literal["loop", "toolbelt"] = "loop"
    servers: tuple[str, ...] | None = None
    env: dict[str, str] = {}
    prompt: Literal["default", "compact"] = "default"
    system_prompt: str | None = None
    max_steps: int | None = Field(default=None, gt=0)
    run_timeout_s: float = Field(default=10_800.0, gt=0)
    ready_s: float = Field(default=60.0, gt=0)
    max_belt: int = Field(default=80, ge=1)
    belt_in_list: bool = False
    result_head_bytes: int = Field(default=80_000, ge=200)
    result_tail_bytes: int = Field(default=20_000, ge=0)
    max_image_bytes: int = Field(default=5 << 20, ge=0)
    nudge: NudgeOptions = NudgeOptions()
    compaction: CompactionOptions = CompactionOptions()
    gateway_url: str | None = None
    gateway_apps: dict[str, Any] | str | None = None
    gateway_token_env: str | None = None

    @field_validator("servers", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        """On the command line, several names are one text with commas."""
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if value is None:
            return None
        if not isinstance(value, list | tuple) or not value or not all(isinstance(name, str) for name in value):
            raise ValueError(f"expected names of apps, of {', '.join(catalog.APPS)}")
        return catalog.chosen(value)

    @field_validator("gateway_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("expected a URL like http://localhost:8080")
        if parts.username is not None or parts.password is not None:
            raise ValueError("a URL with a user name or password would be kept with the results; use gateway_token_env")
        return value.rstrip("/").removesuffix("/mcp")

    @property
    def apps(self) -> tuple[str, ...]:
        """The apps offered, in published order."""
        return catalog.chosen(self.servers)

    @property
    def steps(self) -> int:
        return self.max_steps or DEFAULT_STEPS[self.agent]

    @property
    def compacts(self) -> bool:
        """Whether long conversations are compacted."""
        enabled = self.compaction.enabled
        return self.agent == "toolbelt" if enabled is None else enabled

    @classmethod
    def of(cls, options: dict[str, Any]) -> ArchipelagoOptions:
        """Reads options. Raises `UserError`, which lists everything that is wrong."""
        try:
            return cls.model_validate(options)
        except ValidationError as error:
            raise UserError(_explain(error), kind=FailureKind.CAPABILITY) from error


_PARTS: dict[str, type[BaseModel]] = {"nudge": NudgeOptions, "compaction": CompactionOptions}


def _explain(error: ValidationError) -> str:
    lines = ["the archipelago harness's options are wrong:"]
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            model = _PARTS.get(str(item["loc"][0]), ArchipelagoOptions) if len(item["loc"]) > 1 else ArchipelagoOptions
            known = tuple(model.model_fields)
            lines.append(
                f"  {where}: no such option{did_you_mean(str(item['loc'][-1]), known)}; there are {', '.join(known)}"
            )
        else:
            lines.append(f"  {where}: {item['msg']}, found {item['input']!r}")
    return "\n".join(lines)
