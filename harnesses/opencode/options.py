"""The OpenCode harness's options, as a user writes them. Strict: an unknown key is an error that names the nearest."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envkit.behaviours.nudge import NudgeOptions
from envkit.failure import FailureKind, UserError, did_you_mean

__all__ = ["NudgeOptions", "OpenCodeOptions"]


class OpenCodeOptions(BaseModel):
    """Options of `OpenCodeHarness`.

    Attributes:
        prompt: `default`, or `compact` for models with a context of 2,048 tokens (short prompt, short tool texts).
        edit_mode: `opencode` tries OpenCode's ways of finding the text in order; `exact` only the literal text.
        bash_default_timeout_s: Seconds a command may take that asks for no timeout of its own.
        bash_output_keep_bytes: How much of a command's output is kept at all, from its end; the rest is counted.
        show_exit_code: Whether a line with the exit code ends the output of a command that failed.
        max_output_lines, max_output_bytes: How much of a result the model is shown; the whole is saved inside.
        nudge: The context nudge.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: Literal["default", "compact"] = "default"
    edit_mode: Literal["opencode", "exact"] = "opencode"
    bash_default_timeout_s: float = Field(default=120.0, gt=0)
    bash_output_keep_bytes: int = Field(default=4 << 20, ge=1024)
    show_exit_code: bool = True
    max_output_lines: int = Field(default=2000, ge=1)
    max_output_bytes: int = Field(default=51_200, ge=256)
    nudge: NudgeOptions = NudgeOptions()

    @classmethod
    def of(cls, options: dict[str, Any]) -> OpenCodeOptions:
        """Reads options. Raises `UserError`, which lists everything that is wrong."""
        try:
            return cls.model_validate(options)
        except ValidationError as error:
            raise UserError(_explain(error), kind=FailureKind.CAPABILITY) from error


def _explain(error: ValidationError) -> str:
    lines = ["the opencode harness's options are wrong:"]
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            model = NudgeOptions if len(item["loc"]) > 1 else OpenCodeOptions
            known = tuple(model.model_fields)
            last = str(item["loc"][-1])
            lines.append(f"  {where}: no such option{did_you_mean(last, known)}; there are {', '.join(known)}")
        else:
            lines.append(f"  {where}: {item['msg']}, found {item['input']!r}")
    return "\n".join(lines)
