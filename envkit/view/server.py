"""Serving the viewer on this machine: one port on 127.0.0.1, one secret address, until Ctrl-C.

Used by `envkit view`.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import uvicorn

from envkit.failure import UserError
from envkit.view.app import create_app

__all__ = ["bind", "serve"]


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
