"""A policy whose model sees, and a harness that works for such models only; named `seeing:Class`."""

from __future__ import annotations

from typing import Any

from sabotage import Commands

from envkit.harnesses.opencode import OpenCodeHarness


class Seeing(Commands):
    vision = True


class ForTheSeeing(OpenCodeHarness):
    name = "for-the-seeing"

    def session(self, task: Any, step: Any, sandbox: Any, context: Any) -> Any:
        if not context.vision:
            raise ValueError("the model is blind")
        return super().session(task, step, sandbox, context)
