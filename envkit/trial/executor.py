"""Executors: where a job's attempts run. The protocol; `process` and `ray` are implementations, found by name.

A job plans, admits, retries and records; an executor only runs one attempt after another, each in a process of its own,
and says how many it can hold. What a job relies on:

- an attempt that was handed over runs at most once; whatever becomes of it, `run` returns how its process ended, within
  the attempt's limit and a bounded time for moving its files;
- after `run` has returned, the attempt's folder on this machine holds what the attempt left there, its record last, or
  no record: half a record is never there;
- when the job's process is gone, everything that the executor started ends by itself.

Third parties register theirs in the entry-point group `envkit.executors`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from envkit.trial.client import ChildExit
from envkit.trial.result import TrialSpec
from envkit.trial.trial import AttemptRequest

__all__ = ["Executor", "Plan", "Room"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What an executor learns of a job before its first attempt.

    Attributes:
        specs: Every trial of the plan.
        folder: The run folder, on this machine.
        keep: Descriptors that processes of this machine hold open while they live (the run folder's lock).
        concurrency: Attempts at once, at most.
        changed: To be called, in the job's event loop, when `room` may have changed.
    """

    specs: tuple[TrialSpec, ...]
    folder: Path
    keep: tuple[int, ...]
    concurrency: int
    changed: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Room:
    """What an executor can hold now; None for what does not bound it.

    Attributes:
        places: Attempts at once, those that run included.
        starting: Attempts that may be starting at once.
        memory_available_mb: Memory that is free where attempts run, if that is one machine.
    """

    places: int | None = None
    starting: int | None = None
    memory_available_mb: float | None = None


class Executor(Protocol):
    """Runs attempts. Used by one job, from one event loop: `start`, then any number of `run` at once, then `close`."""

    name: str

    async def start(self, plan: Plan) -> None:
        """Gets ready to run attempts. May take a minute; `kill` ends it early, and then it raises.

        Raises:
            UserError: What the plan needs can't be loaded, or there is no place to run anything.
            EnvkitError: It did not come up.
        """

    def room(self) -> Room:
        """What it can hold now; asked before every admission.

        Raises:
            EnvkitError: It has had no place for longer than it waits for one: the job stops and can be resumed.
        """

    async def run(
        self,
        request: AttemptRequest,
        *,
        limit_s: float,
        on_start: Callable[[int], None],
        on_ready: Callable[[], None] | None = None,
    ) -> ChildExit:
        """Runs one attempt to its end; cancelled, it kills the attempt.

        Args:
            request: `request.folder` exists on this machine and is where the attempt's files have to be.
            limit_s: From the start of its process; then it is killed.
            on_start: Called with a number for `stop`.
            on_ready: Called when the attempt is through with starting; if it never is, `run` returns without.

        Raises:
            EnvkitError: `DISK_FULL`: this machine has no room for what the attempt left.
        """

    def stop(self, number: int) -> None:
        """Asks a running attempt to end cleanly, which it then does as `cancelled`."""

    def kill(self) -> None:
        """Ends everything at once; every `run` returns."""

    async def close(self) -> None:
        """Ends what still runs, cleanly where possible, and gives everything back. Bounded and idempotent."""
