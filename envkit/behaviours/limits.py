"""Agent limits: counting turns, tokens, working time and unparsable turns, and saying which limit is reached.

A limit is a result, not a fault: the episode ends with its `StopReason`, is verified and scored. The count is pure:
time is handed in, so a test drives it. Used by every white-box harness; the trial's wall-clock budget is another
matter (`envkit.deadline`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from envkit.behaviours.repair import is_unparsable
from envkit.harness import Limits
from envkit.messages import AssistantMessage, StopReason

__all__ = ["LAST_TURN", "LimitCount"]

#: Written into the last tool message before the last turn that the limit allows.
LAST_TURN = (
    "[Note: your next message is the last one of this task. Calls in it are still carried out, but you will not see "
    "their results. If the work is done, give your final answer now, without any tool call.]"
)


class LimitCount:
    """Counts one episode against its limits.

    Working time runs while the session works (tools) and while a message is awaited (sampling); what a policy knows to
    have been waiting in a queue or for a rate limit (`usage.waited_s`) is taken off again, as is what a caller excuses.

    Args:
        limits: The limits; None in a field means no limit.
        clock: Seconds on a monotonic clock.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._started_at_s: float | None = None
        self._excused_s = 0.0
        self._unparsable = 0
        self.turns = 0
        self.tokens = 0

    def start(self) -> None:
        """The first observation is handed out; from here on the agent works."""
        self._started_at_s = self._clock()

    def excuse(self, seconds_s: float) -> None:
        """Takes waiting that was nobody's work off the working time."""
        self._excused_s += max(0.0, seconds_s)

    @property
    def working_s(self) -> float:
        if self._started_at_s is None:
            return 0.0
        return max(0.0, self._clock() - self._started_at_s - self._excused_s)

    @property
    def working_left_s(self) -> float:
        """Seconds of working time left, never negative; infinite without that limit."""
        limit = self._limits.working_time_s
        return math.inf if limit is None else max(0.0, limit - self.working_s)

    @property
    def next_is_last(self) -> bool:
        """Whether the next message is the last that the turn limit allows."""
        return self._limits.max_turns is not None and self.turns == self._limits.max_turns - 1

    def message(self, message: AssistantMessage) -> None:
        """Counts one assistant message; what its policy says it waited is no working time."""
        self.turns += 1
        self.excuse(message.usage.waited_s)
        self.tokens += message.usage.completion_tokens or 0
        self._unparsable = self._unparsable + 1 if is_unparsable(message) else 0

    def aside(self, message: AssistantMessage) -> None:
        """Counts what a message of a side thread cost (a summary, say), which is no turn at the task."""
        self.excuse(message.usage.waited_s)
        self.tokens += message.usage.completion_tokens or 0

    def stop_before_calls(self) -> StopReason | None:
        """The limit that forbids carrying out the calls of the message just counted, if any."""
        if self._unparsable >= self._limits.max_unparsable > 0:
            return StopReason.UNPARSABLE
        if self.working_left_s <= 0:
            return StopReason.WORKING_TIME
        return None

    def stop_after_calls(self) -> StopReason | None:
        """The limit that allows no further message, once the calls are carried out, if any."""
        if self._limits.max_turns is not None and self.turns >= self._limits.max_turns:
            return StopReason.TURNS
        if self._limits.max_tokens is not None and self.tokens >= self._limits.max_tokens:
            return StopReason.TOKENS
        if self.working_left_s <= 0:
            return StopReason.WORKING_TIME
        return None
