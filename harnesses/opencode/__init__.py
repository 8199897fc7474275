"""`envkit.harnesses.opencode`: the OpenCode harness and its options."""

from envkit.harnesses.opencode.harness import OpenCodeHarness
from envkit.harnesses.opencode.options import NudgeOptions, OpenCodeOptions

__all__ = ["NudgeOptions", "OpenCodeHarness", "OpenCodeOptions"]
