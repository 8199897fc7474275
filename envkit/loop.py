"""The background event loop behind every synchronous face.

One daemon thread per process runs one asyncio loop for as long as the process lives. It must live that long: the
kernel ties a sandbox's `--die-with-parent` to the *thread* that started it, and notebooks already run a loop in the
main thread. A forked child gets a loop of its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["run", "start"]

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _forget() -> None:
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def start() -> asyncio.AbstractEventLoop:
    """The process's background loop, started at first use."""
    global _loop
    with _lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="envkit-loop", daemon=True).start()
            _loop = loop
        return _loop


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on the background loop and returns its result. Ctrl-C cancels it and waits for its clean-up.

    Raises:
        RuntimeError: Called by code that runs on the background loop itself, which would wait for itself.
    """
    if asyncio._get_running_loop() is not None and asyncio._get_running_loop() is _loop:
        coroutine.close()
        raise RuntimeError("a synchronous env was used in code that a synchronous env runs; use its AsyncEnv there")
    future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(coroutine, start())
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        concurrent.futures.wait([future], timeout=15)
        raise
