"""The OpenCode harness: a terminal agent's tools (bash, edit, glob, grep, read, todowrite, write) for office work.

White-box: written in Python after OpenCode 1.18's behaviour, with tools that work inside the sandbox. Declared
differences: glob and grep are sorted, the number of turns has a hard cap, a failed command's exit code is shown, no
title is asked for, and the date is fixed. A conformance test replays the same calls through the real program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envkit.harnesses.opencode.options import OpenCodeOptions
from envkit.harnesses.opencode.session import OpenCodeSession

if TYPE_CHECKING:
    from envkit.harness import SessionContext
    from envkit.sandbox.base import Sandbox
    from envkit.task import Step, Task

__all__ = ["OpenCodeHarness"]


class OpenCodeHarness:
    """Implements `envkit.harness.Harness`. Options as keyword arguments; see `OpenCodeOptions`.

    Raises:
        UserError: An option is unknown or out of range.
    """

    name = "opencode"
    version = "1.18"

    def __init__(self, **options: Any) -> None:
        self.options = OpenCodeOptions.of(options)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "options": self.options.model_dump(mode="json")}

    def session(self, task: Task, step: Step, sandbox: Sandbox, context: SessionContext) -> OpenCodeSession:
        return OpenCodeSession(step, sandbox, context, self.options)
