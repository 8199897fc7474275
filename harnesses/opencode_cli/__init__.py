"""The real OpenCode program as a harness: `reset/step` over a black box, through the model proxy."""

from envkit.harnesses.opencode_cli.harness import OpenCodeCliHarness

__all__ = ["OpenCodeCliHarness"]
