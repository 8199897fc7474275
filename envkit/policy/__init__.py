"""Policies: who answers the observations. The protocol is here; implementations are found by name.

`oracle` and `noop` test tasks, `replay` plays a recording again, `chat` asks a model behind a Chat
Completions endpoint.
"""

from __future__ import annotations

from envkit.policy.base import Policy, PolicyContext

__all__ = ["Policy", "PolicyContext"]
