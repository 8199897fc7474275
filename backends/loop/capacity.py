"""How much the engines can hold, and how long trajectories are: the two figures that bound how many trials run.

The room is what the engines say of themselves; the length is the mean over the trajectories that came back lately.
Right after the start short ones come back first, so an expectation (where there is one) counts like a group's worth of
trajectories until it is outvoted. Pure bookkeeping; the loop polls, admission decides.
"""

from __future__ import annotations

from collections import deque

from envkit.backend import EngineLoad

__all__ = ["Capacity"]


class Capacity:
    """What was observed.

    Args:
        window: Trajectories over which the mean length is taken.
        expected_tokens: Length to assume at first, as if `prior` trajectories of it had been seen.
        prior: See above; without an expectation, the mean is unknown until so many were seen.
    """

    def __init__(self, *, window: int, expected_tokens: int | None, prior: int) -> None:
        self._window = window
        self._expected = expected_tokens
        self._prior = prior
        self._lengths: deque[int] = deque()
        self._sum = 0
        self.load = EngineLoad()
        self.down = False  # no engine is up, or none answers

    def saw(self, context_tokens: int) -> None:
        """A trajectory came back; one without tokens says nothing of lengths."""
        if context_tokens <= 0:
            return
        self._lengths.append(context_tokens)
        self._sum += context_tokens
        if len(self._lengths) > self._window:
            self._sum -= self._lengths.popleft()

    @property
    def mean_tokens(self) -> float | None:
        """Mean length; None while nothing is known."""
        seen = len(self._lengths)
        if self._expected is not None:
            ghosts = max(0, self._prior - seen)
            return (self._sum + ghosts * self._expected) / (seen + ghosts) if seen + ghosts else None
        return self._sum / seen if seen >= self._prior else None

    def kv_tokens(self, share: float) -> int | None:
        """Tokens that trajectories may fill."""
        capacity = self.load.kv_capacity_tokens
        return None if capacity is None else int(capacity * share)

    @property
    def kv_used(self) -> float | None:
        """Share of the room in use."""
        capacity, used = self.load.kv_capacity_tokens, self.load.kv_used_tokens
        return used / capacity if capacity and used is not None else None
