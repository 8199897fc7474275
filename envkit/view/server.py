"""Serving the viewer on this machine: one port on 127.0.0.1, one secret address, until Ctrl-C.

A connection that asks nothing, or asks byte by byte, is ended: whoever can reach the port could otherwise hold as many
as this process may have open, and nobody else would be answered. Used by `envkit view`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from envkit.failure import UserError
from envkit.view.app import create_app

__all__ = ["Impatient", "bind", "serve"]

#: Seconds within which a connection has to have asked something whole.
_QUESTION_S = 10.0


class Impatient(H11Protocol):
    """HTTP/1.1 on one connection, ended where no question became whole for a while and none is being answered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._answered: Any = None
        self._watch = self.loop.call_later(_QUESTION_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        cycle = self.cycle  # of the last question that was whole; None before the first
        if cycle is self._answered and (cycle is None or cycle.response_complete):
            self.transport.abort()
            return
        self._answered = cycle
        self._watch = self.loop.call_later(_QUESTION_S, self._look)


def bind(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1; port 0 takes a free one.

    Raises:
        UserError: The port is taken, or not ours to take.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise UserError(
            f"port {port} can't be used ({error.strerror}): give another with --port, or 0 for any"
        ) from error
    return listener


def serve(runs: Mapping[str, Path], *, port: int = 0, opened: Callable[[str], None] = lambda address: None) -> None:
    """Serves until interrupted.

    Args:
        runs: By key, as `find_runs` gives them.
        opened: Called with the address, which carries the secret, when it can be asked.
    """
    token = secrets.token_urlsafe(24)
    listener = bind(port)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/{token}/"
    config = uvicorn.Config(
        create_app(runs, token),
        http=Impatient,
        log_level="critical",  # the log of requests would hold the secret
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=64 << 10,
    )
    config.load()  # what it imports is not waited for by the first who asks
    server = uvicorn.Server(config)
    opened(address)
    with contextlib.closing(listener), contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
