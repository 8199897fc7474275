"""The process of a rank: does what comes through its pipe, one call after the other, until the pipe closes.

Started by `launch.ProcessLauncher`. A thread reads ahead, so that whoever asks never waits for a step, and so that the
end of the asking process is noticed in the middle of a collective: the rank then ends too, with everything that it has
forked.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import queue
import signal
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from envkit.backends.megatron.worker import Worker

__all__ = ["main"]


def main(pipe: Connection, worker: Worker) -> None:
    """Has the worker do what comes through the pipe. SIGUSR1 writes where every thread is into the rank's log."""
    faulthandler.register(signal.SIGUSR1)
    # What megatron-core spawns while it saves needs nothing of this program; importing it again takes seconds.
    program: Any = sys.modules["__main__"]
    program.__spec__ = None
    vars(program).pop("__file__", None)  # None in its place would be an error to `inspect`
    calls: queue.Queue[tuple[str, Any] | None] = queue.Queue()

    def read() -> None:
        while True:
            try:
                calls.put(pickle.loads(pipe.recv_bytes()))
            except (EOFError, OSError):
                # the trainer is gone. A collective may never end, and what was forked must not stay behind.
                os.killpg(0, signal.SIGKILL)

    threading.Thread(target=read, name="calls", daemon=True).start()
    while (call := calls.get()) is not None:
        method, payload = call
        pipe.send_bytes(pickle.dumps(worker.answer(method, payload), protocol=5))


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])), Worker())
