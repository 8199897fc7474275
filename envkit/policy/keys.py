"""API keys in rotation: which key the next request uses, which one rests, which one is out.

A pure state machine: no clock, no I/O; the caller passes in the time, and the randomness for jitter at construction.
A key that met a rate limit cools down (as long as the endpoint asks, else exponentially longer each time); a key that
was refused is quarantined for good. Key values appear in no repr.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from envkit.failure import Boundary, EnvkitError, FailureKind, UserError

__all__ = ["ApiKey", "KeyPool", "Quarantine", "read_keys"]

#: Cool-down after a rate limit without a Retry-After: doubles from the first to the second.
FIRST_COOLDOWN_S = 1.0
LONGEST_COOLDOWN_S = 60.0


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key and where it came from. `value` None stands for an endpoint that needs no key."""

    label: str
    value: str | None = field(repr=False)


class Quarantine(StrEnum):
    """Why a key is out."""

    REFUSED = "refused"  # 401 or 403
    EXHAUSTED = "out of quota"  # its credit is used up; waiting does not help


@dataclass(slots=True)
class _State:
    key: ApiKey
    ready_at_s: float = 0.0
    limited_in_a_row: int = 0
    out: Quarantine | None = None


class KeyPool:
    """Keys in rotation.

    Args:
        offset: Where to start, so that many trials spread over the keys.
        every_request: Move on with every request. Otherwise a key is kept until it is limited or refused, because an
            endpoint's prompt cache usually belongs to the key's account.
        rng: Jitter of the cool-down.
    """

    def __init__(
        self, keys: Sequence[ApiKey], *, offset: int = 0, every_request: bool = False, rng: random.Random
    ) -> None:
        if not keys:
            raise ValueError("a key pool needs at least one key")
        self._states = [_State(key) for key in keys]
        self._at = offset % len(keys)
        self._every_request = every_request
        self._rng = rng

    def take(self, now_s: float) -> ApiKey | float:
        """The key for the next request, or the seconds until one is ready.

        Raises:
            EnvkitError: POLICY_AUTH: every key was refused.
        """
        for step in range(len(self._states)):
            position = (self._at + step) % len(self._states)
            state = self._states[position]
            if state.out is None and state.ready_at_s <= now_s:
                self._at = (position + 1) % len(self._states) if self._every_request else position
                return state.key
        self.check()
        return min(state.ready_at_s - now_s for state in self._states if state.out is None)

    def check(self) -> None:
        """Raises as `take` does when no key is left."""
        if all(state.out is not None for state in self._states):
            listed = ", ".join(f"{state.key.label} ({state.out})" for state in self._states)
            raise EnvkitError(
                f"the endpoint accepts none of the keys: {listed}. Check api_key_env or api_key_file, and that the "
                "keys may use this model",
                kind=FailureKind.POLICY_AUTH,
                boundary=Boundary.POLICY,
            )

    def worked(self, key: ApiKey) -> None:
        """The key's request went through: its cool-downs start anew."""
        self._state(key).limited_in_a_row = 0

    def limited(self, key: ApiKey, now_s: float, retry_after_s: float | None) -> float:
        """The key met a rate limit. Returns the seconds it rests."""
        state = self._state(key)
        own_s = min(LONGEST_COOLDOWN_S, FIRST_COOLDOWN_S * 2.0 ** min(state.limited_in_a_row, 30))
        own_s *= self._rng.uniform(0.5, 1.0)
        if retry_after_s is None:
            rest_s = own_s
        else:
            # Never earlier than asked, and not all waiting trials at the same instant.
            rest_s = retry_after_s + self._rng.uniform(0.0, min(1.0, 0.1 * retry_after_s))
            if (
                state.limited_in_a_row > 0
            ):  # what it asked for before was not enough ("Retry-After: 0", again and again)
                rest_s = max(rest_s, own_s)
        state.limited_in_a_row += 1
        state.ready_at_s = max(state.ready_at_s, now_s + rest_s)
        return rest_s

    def refused(self, key: ApiKey, why: Quarantine = Quarantine.REFUSED) -> None:
        """The key is out for good."""
        self._state(key).out = why

    def _state(self, key: ApiKey) -> _State:
        return next(state for state in self._states if state.key is key)


def read_keys(names: Sequence[str], file: Path | None, host: Mapping[str, str] = os.environ) -> tuple[ApiKey, ...]:
    """Reads keys from environment variables and from a file (one a line; blank lines and `#` comments are skipped).

    Raises:
        UserError: A variable is not set, the file can't be read or has no key, or a key can't stand in a header.
    """
    keys: list[ApiKey] = []
    for name in names:
        value = host.get(name, "").strip()
        if not value:
            raise UserError(f"the environment variable {name} is not set; export it, or name another in api_key_env")
        keys.append(ApiKey(name, value))
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"api_key_file {file} can't be read: {type(error).__name__}") from None
        found = [
            ApiKey(f"{file.name}:{number}", line.strip())
            for number, line in enumerate(lines, start=1)
            if line.strip() and not line.lstrip().startswith("#")
        ]
        if not found:
            raise UserError(f"api_key_file {file} holds no key; expected one a line")
        keys += found
    for key in keys:
        if key.value is not None and (not key.value.isascii() or not key.value.isprintable() or " " in key.value):
            raise UserError(f"the key from {key.label} holds characters that no API key has; expected one plain word")
    first = {key.value: key for key in reversed(keys)}
    return tuple(key for key in keys if first[key.value] is key)
