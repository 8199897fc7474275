"""What actors print, in the run's folder, wherever they run.

An actor on a node that sees the run's folder writes there itself. One that does not writes a file of its node and sends
what is new in it, a piece at a time, to the `Logbook`, an actor beside the run's process that appends it to the file of
the same name. Nothing waits for that: a node that is lost takes its last half second of output with it. Used by ranks
and engines on Ray.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

__all__ = ["LogPlace", "Logbook", "Logs", "redirect"]

_EVERY_S = 0.5
_PIECE_BYTES = 1 << 20
_MARK = ".logs"


class Logbook:
    """The actor that writes what comes from other nodes."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def add(self, name: str, piece: bytes) -> None:
        with (self._folder / Path(name).name).open("ab") as file:
            file.write(piece)


class LogPlace:
    """Where an actor's output goes; travels to the actor.

    Attributes:
        folder: In the run's folder; None for nowhere in particular.
        mark: What a file in it holds, by which a node knows that it sees that very folder.
        logbook: The actor to send to otherwise.
    """

    def __init__(self, folder: Path | None, mark: str, logbook: Any) -> None:
        self.folder, self.mark, self.logbook = folder, mark, logbook

    def path(self, name: str) -> Path:
        """The file to write to on this node; from then on it is sent where that is needed."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                if (self.folder / _MARK).read_text() == self.mark:
                    return self.folder / name
        path = Path(tempfile.mkdtemp(prefix=f"envkit-log-{os.getpid()}-")) / name
        path.touch()
        if self.logbook is not None:
            threading.Thread(target=self._send, args=(path,), daemon=True, name=f"envkit-log-{name}").start()
        return path

    def _send(self, path: Path) -> None:
        import ray

        at = 0
        with contextlib.suppress(OSError, ray.exceptions.RayError):
            while True:
                with path.open("rb") as file:
                    file.seek(at)
                    piece = file.read(_PIECE_BYTES)
                if piece:
                    ray.get(self.logbook.add.remote(path.name, piece))  # no more than one piece is on its way
                    at += len(piece)
                else:
                    time.sleep(_EVERY_S)


class Logs:
    """The run's side: a folder that actors' output ends up in. `close` ends the logbook.

    Args:
        folder: None where nobody asks for logs.
    """

    def __init__(self, ray: Any, folder: Path | None) -> None:
        self._ray = ray
        self._book: Any = None
        if folder is None:
            self.place = LogPlace(None, "", None)
            return
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        folder = folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        mark = uuid.uuid4().hex
        (folder / _MARK).write_text(mark)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._book = ray.remote(Logbook).options(num_cpus=0, scheduling_strategy=here).remote(str(folder))
        self.place = LogPlace(folder, mark, self._book)

    def close(self) -> None:
        if self._book is not None:
            with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.kill(self._book)
            self._book = None


def redirect(path: Path) -> None:
    """This process's standard output and error go to the end of a file from now on."""
    import sys

    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)
