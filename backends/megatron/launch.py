"""Ranks as seen from the trainer: started somewhere, told what to do, watched, ended.

A `Launcher` starts ranks and a `Rank` takes calls of a `worker.Worker`'s methods, one after the other, each answered by
an `Answer`. `ProcessLauncher` starts plain processes on this machine; `on_ray.RayLauncher` starts Ray actors. What runs
in them, how calls are written down and how answers fail is the same. A rank that ends by itself fails every call that
it has not answered with `RankDied`, which says who, where and how. Processes end with the process that started them,
however that ends, and take what they have forked with them.

Needs neither torch nor megatron-core. Used by `group.Group`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from envkit.failure import Boundary, EnvkitError, Failure

__all__ = ["Answer", "Launcher", "ProcessLauncher", "Rank", "RankDied"]

_END_S = 5.0
_COMMAND = (sys.executable, "-m", "envkit.backends.megatron.process")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call.

    Attributes:
        value: What the method returned.
        failure: It raised.
        intact: What it raised is an error that all ranks share and that changed nothing; the rank goes on.
    """

    value: Any = None
    failure: Failure | None = None
    intact: bool = True


class RankDied(EnvkitError):
    """A rank is gone. `when_s` (monotonic) says when that was noticed."""

    boundary = Boundary.ENVKIT

    def __init__(self, message: str | EnvkitError, when_s: float = 0.0) -> None:
        super().__init__(message)
        self.when_s = when_s


class Rank(Protocol):
    """One rank. Calls are done in the order in which they were submitted.

    Attributes:
        number: Counted over the world.
        host: Where it runs.
        log: Its output, where that is a file that we know of.
    """

    number: int
    host: str
    log: Path | None

    def locate(self, timeout_s: float) -> str:
        """Waits until it is up, as far as that can be seen; the address at which other ranks find it."""
        ...

    def submit(self, method: str, payload: Any) -> Future[Answer]:
        """Asks for a method of the worker. `payload`: pickled positional arguments, from `Launcher.share`. The future
        raises `RankDied` where the rank ends first."""
        ...

    def end(self) -> None:
        """Kills it, and what it has started. Idempotent."""
        ...


class Launcher(Protocol):
    """Starts ranks. `close` frees what it holds beyond them.

    Attributes:
        settle_s: How long after a rank's peers have seen that it is gone it may take until that is known here.
    """

    settle_s: float

    def start(self, world: int, *, timeout_s: float) -> Sequence[Rank]:
        """Starts ranks 0 to world - 1; they may still be importing when it returns."""
        ...

    def share(self, payload: bytes) -> Any:
        """Makes arguments ready for many ranks."""
        ...

    def close(self) -> None: ...


class ProcessLauncher:
    """Ranks as processes of this machine.

    Args:
        threads: Of each rank's CPU kernels; None leaves torch's choice.
        logs: A folder for their output; a temporary one, removed by `close`, if None.
        command: Serves a pipe, whose number comes behind it, as `process` does.
    """

    settle_s = 3.0

    def __init__(
        self, *, threads: int | None = None, logs: Path | None = None, command: Sequence[str] = _COMMAND
    ) -> None:
        self._threads = threads
        self._command = tuple(command)
        self._own = logs is None
        self._logs = Path(tempfile.mkdtemp(prefix="envkit-ranks-")) if logs is None else logs

    def start(self, world: int, *, timeout_s: float) -> list[ProcessRank]:
        self._logs.mkdir(parents=True, exist_ok=True)
        started: list[ProcessRank] = []
        try:
            for number in range(world):
                log = self._logs / f"rank-{number}.log"
                started.append(ProcessRank(number, log, self._command, self._environment()))
        except BaseException:
            for rank in started:
                rank.end()
            raise
        return started

    def _environment(self) -> dict[str, str]:
        found = dict(os.environ)
        found.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are here, and a host's own name may not resolve
        if self._threads is not None:
            found["OMP_NUM_THREADS"] = str(self._threads)
        return found

    def share(self, payload: bytes) -> bytes:
        return payload

    def close(self) -> None:
        if self._own:
            import shutil

            shutil.rmtree(self._logs, ignore_errors=True)


class ProcessRank:
    """A process, asked through a pipe."""

    def __init__(self, number: int, log: Path, command: Sequence[str], environment: dict[str, str]) -> None:
        self.number, self.host = number, socket.gethostname()
        self.log: Path | None = log
        here, there = Pipe()
        try:
            with log.open("ab") as out:
                self._process = subprocess.Popen(
                    [*command, str(there.fileno())],
                    pass_fds=[there.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    env=environment,
                    start_new_session=True,  # Ctrl-C is the run's to handle; and what it forks can be ended with it
                )
        except BaseException:
            here.close()
            raise
        finally:
            there.close()
        self._pipe: Connection = here
        self._sending = threading.Lock()
        self._waiting: deque[Future[Answer]] = deque()
        self._died: RankDied | None = None
        self._ended = False
        threading.Thread(target=self._read, name=f"envkit-rank-{number}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def locate(self, timeout_s: float) -> str:
        return "127.0.0.1"

    def submit(self, method: str, payload: Any) -> Future[Answer]:
        future: Future[Answer] = Future()
        with self._sending:
            if self._died is not None:
                future.set_exception(self._died)
                return future
            self._waiting.append(future)
            # a pipe that is closed: the reader says how the process ended
            with contextlib.suppress(OSError):
                self._pipe.send_bytes(pickle.dumps((method, payload), protocol=5))
        return future

    def _read(self) -> None:
        while True:
            try:
                answer = pickle.loads(self._pipe.recv_bytes())
            except (EOFError, OSError, pickle.UnpicklingError):
                break
            _set(self._waiting.popleft(), answer)
        noticed_s = time.monotonic()
        self._kill()  # it closed its pipe: whatever it still does, it is no rank any more
        said = _how(self._process.wait())
        with self._sending:
            self._died = RankDied(f"rank {self.number} on {self.host} {said}", noticed_s)
            self._pipe.close()
            left, self._waiting = self._waiting, deque()
        for future in left:
            with contextlib.suppress(InvalidStateError):
                future.set_exception(self._died)

    def _kill(self) -> None:
        deadline_s = time.monotonic() + (0.0 if self._ended else _END_S)
        while self._process.poll() is None and time.monotonic() < deadline_s:
            time.sleep(0.02)  # it may be on its way out by itself, which says more
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # what it has forked, too

    def end(self) -> None:
        self._ended = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _set(future: Future[Answer], answer: Answer) -> None:
    with contextlib.suppress(InvalidStateError):
        future.set_result(answer)


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
