"""All ranks of a trainer, asked together: one call goes to each, and one outcome comes back.

Calls reach every rank in the same order, so that collectives meet. An error that all ranks share and that changed
nothing is raised as it is, and the ranks go on. Everything else (a rank that died, an error on some ranks, a deadline)
ends the whole group, since the others may wait in a collective for ever: every rank is killed, and one failure names
the rank that was first, its host and how it ended. Nothing is asked of a group after that. Used by `MegatronTrainer`;
synchronous, called in worker threads.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import pickle
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.megatron.config import MegatronTrainerConfig
from envkit.backends.megatron.launch import Answer, Launcher, Rank, RankDied
from envkit.backends.megatron.worker import Setup
from envkit.deadline import Deadline
from envkit.failure import Boundary, DeadlineExceeded, EnvkitError, FailureKind, UserError

__all__ = ["Group", "GroupLost"]

#: After a first error: how long others that have also answered are given to be found dead.
_SETTLE_S = 1.0
_USER = (FailureKind.TASK_INVALID, FailureKind.CAPABILITY)


class GroupLost(EnvkitError):
    """The ranks are gone, and with them the weights that they held."""


class Group:
    """Ranks that have begun.

    Args:
        deadline: Of the start: ranks are up, have met and loaded the model by then.

    Raises:
        UserError: Model, layout or cluster do not fit.
        GroupLost, DeadlineExceeded: They did not come up.
    """

    def __init__(
        self, config: MegatronTrainerConfig, algorithm: AlgorithmConfig, launcher: Launcher, deadline: Deadline
    ) -> None:
        self._launcher = launcher
        self._submitting = threading.Lock()
        self._ending = threading.Lock()
        self.lost: str | None = None
        timeout_s = min(deadline.remaining_s, config.start_timeout_s)
        self.members: Sequence[Rank] = launcher.start(config.world, timeout_s=timeout_s)
        try:
            places = [rank.locate(max(1.0, deadline.remaining_s)) for rank in self.members]
            port = self._of(0, "meet", (places[0], config.world, timeout_s), deadline, "the start of the ranks")
            setups = [(Setup(config, algorithm, rank, places[0], port),) for rank in range(config.world)]
            self.about: list[dict[str, Any]] = self.call("begin", setups, deadline, "the start of the ranks")
        except BaseException:
            self.end()
            raise

    def call(self, method: str, arguments: Sequence[Any] | tuple[Any, ...], deadline: Deadline, what: str) -> list[Any]:
        """Every rank's value.

        Args:
            arguments: A tuple for all ranks, or a list with a tuple for each; equal objects are sent once.
            what: Names the call in errors (`step 5`).

        Raises:
            EnvkitError: All ranks refused alike; they go on.
            GroupLost: A rank is gone or broke; all of them are ended.
            DeadlineExceeded: They were not done in time; all of them are ended.
        """
        each = list(arguments) if isinstance(arguments, list) else [arguments] * len(self.members)
        with self._submitting:  # in the same order on every rank
            if self.lost is not None:
                raise GroupLost(self.lost)
            shared: dict[int, Any] = {}
            futures = []
            for rank, given in zip(self.members, each, strict=True):
                if id(given) not in shared:
                    shared[id(given)] = self._launcher.share(pickle.dumps(given, protocol=5))
                futures.append(rank.submit(method, shared[id(given)]))
        return self._outcome(futures, deadline, what)

    def _of(self, number: int, method: str, arguments: tuple[Any, ...], deadline: Deadline, what: str) -> Any:
        """One rank's value; for what is no collective."""
        payload = self._launcher.share(pickle.dumps(arguments, protocol=5))
        return self._outcome([self.members[number].submit(method, payload)], deadline, what)[0]

    def _outcome(self, futures: list[Future[Answer]], deadline: Deadline, what: str) -> list[Any]:
        pending: set[Future[Answer]] = set(futures)
        while pending:
            done, pending = concurrent.futures.wait(
                pending, deadline.timeout_s, return_when=concurrent.futures.FIRST_COMPLETED
            )
            if not done:
                late = [n for n, future in enumerate(futures) if not future.done()]
                said = f"{what}: {_ranks(late, len(futures))} gave no answer in time"
                self._lose(f"{said}; all ranks were ended")
                raise DeadlineExceeded(f"{said} ({deadline.what} has passed); all ranks were ended")
            if any(_bad(future) for future in done):
                break
        else:
            return [future.result().value for future in futures]
        # Others are given time to show their trouble: the peers of a dead rank often speak first.
        concurrent.futures.wait(pending, min(self._launcher.settle_s, deadline.remaining_s))
        self._raise(futures, what)
        raise AssertionError("unreachable")

    def _raise(self, futures: list[Future[Answer]], what: str) -> None:
        answers = [future.result() for future in futures if future.done() and future.exception() is None]
        failures = [answer.failure for answer in answers if answer.failure is not None]
        if len(failures) == len(futures) and all(answer.intact for answer in answers):
            first = failures[0]
            kind = UserError if first.kind in _USER else EnvkitError
            raise kind(first.message, kind=first.kind, boundary=first.boundary)
        time.sleep(0.0 if any(_death(future) for future in futures) else _SETTLE_S)
        deaths = [error for future in futures if (error := _death(future)) is not None]
        if deaths:
            first_death = min(deaths, key=lambda error: error.when_s)
            said = f"{first_death}, during {what}"
        else:
            number, failure = next(
                (n, future.result().failure)
                for n, future in enumerate(futures)
                if future.done() and future.exception() is None and future.result().failure is not None
            )
            assert failure is not None
            rank = self.members[number]
            said = f"rank {rank.number} on {rank.host} failed in {what}: {failure.cause[-1] if failure.cause else ''}"
        logs = [str(rank.log) for rank in self.members if rank.log is not None]
        where = f" (its output: {logs[0].replace('rank-0', 'rank-N')})" if logs else ""
        others = "" if len(self.members) == 1 else "; the other ranks were ended with it"
        self._lose(f"{said}{others}")
        raise GroupLost(f"{said}{others}{where}", kind=FailureKind.UNKNOWN, boundary=Boundary.ENVKIT)

    def _lose(self, reason: str) -> None:
        self.lost = self.lost or reason
        self.end()

    def end(self) -> None:
        """Kills every rank. Idempotent."""
        with self._ending:
            self.lost = self.lost or "the ranks were ended"
            for rank in self.members:
                with contextlib.suppress(OSError):
                    rank.end()


def _bad(future: Future[Answer]) -> bool:
    return future.exception() is not None or future.result().failure is not None


def _death(future: Future[Answer]) -> RankDied | None:
    error = future.exception() if future.done() else None
    return error if isinstance(error, RankDied) else None


def _ranks(numbers: list[int], of: int) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]} of {of}"
    return f"ranks {', '.join(map(str, numbers[:8]))}{', ...' if len(numbers) > 8 else ''} of {of}"
