"""Whose a sandbox at Modal is: the tags it carries, and what may be removed by them.

The tags say what a container's labels say (`envkit.sandbox.docker_container`): run, trial, owner and expiry. A sandbox
without our mark is never looked at.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from envkit.sandbox import docker_container
from envkit.sandbox.base import SandboxSpec

__all__ = ["MARK", "is_dead", "lifetime_s", "owner_of", "tags"]

#: On everything we create; what is searched for.
MARK = {"envkit": "sandbox"}
_PREFIX = "envkit_"
_LONGEST = 200
#: The service's own bounds of a sandbox's life.
_LEAST_S, _MOST_S = 60.0, 86400.0


def tags(identity: str, spec: SandboxSpec) -> dict[str, str]:
    found = docker_container.labels(identity, spec)
    own = found.pop(docker_container.LABEL)
    named = {_PREFIX + key.partition(".")[2].replace(".", "_"): value[:_LONGEST] for key, value in found.items()}
    return {**named, f"{_PREFIX}id": own, **MARK}


def _labels(found: Mapping[str, str]) -> dict[str, str]:
    start = len(_PREFIX)
    return {f"{docker_container.LABEL}.{key[start:]}": value for key, value in found.items() if key.startswith(_PREFIX)}


def is_dead(found: Mapping[str, str]) -> bool:
    """Whether the owner that the tags name is certainly gone, or, out of sight, has had its time."""
    return all(found.get(key) == value for key, value in MARK.items()) and docker_container.is_dead(_labels(found))


def owner_of(found: Mapping[str, str]) -> str:
    owner, run, trial = (found.get(_PREFIX + key, "-") for key in ("owner_pid", "run", "trial"))
    return f"(owner {owner}, run {run}, trial {trial})"


def lifetime_s(spec: SandboxSpec, longest_s: float) -> int:
    """How long the service lets a sandbox live at most: until its trial expires, and a minute."""
    expires = spec.labels.get("expires_at", "")
    try:
        left_s = float(expires) - time.time() + 60.0
    except ValueError:
        left_s = longest_s
    return int(max(_LEAST_S, min(left_s, longest_s, _MOST_S)))
