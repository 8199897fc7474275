"""The Docker daemon as we use it: bounded calls through the official SDK, and streams that it hands over.

The SDK blocks, so its calls run in threads (`Daemon.call`), each with an end; what it raises becomes an `EnvkitError`
that says what to do. Attached streams are ours: the SDK's way to them loses what arrives together with the answer's
head. `open_stream` upgrades a connection of its own (unix, TCP or TLS) and takes the frames apart. Nothing here needs
a file system in common with the daemon.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit

from envkit.failure import Boundary, CapabilityError, EnvkitError, FailureKind

__all__ = ["Daemon", "DockerStream", "NotThere"]

CALL_S = 60.0
_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")
_FRAME = struct.Struct(">BxxxL")
_MOST_HEAD = 65536
INSTALL = "Install the Docker SDK: pip install 'envkit-rl[docker]'"


class NotThere(EnvkitError):
    """The daemon does not know the image or container."""

    kind = FailureKind.SANDBOX_ERROR
    boundary = Boundary.SANDBOX


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the daemon listens: a unix socket, or a host and port with or without TLS."""

    unix: str | None = None
    host: str = ""
    port: int = 0
    certificates: str | None = None

    @classmethod
    def of(cls, url: str | None) -> Endpoint:
        """Reads `url`, else $DOCKER_HOST, else the usual socket. Raises `CapabilityError` for what we don't speak."""
        url = url or os.environ.get("DOCKER_HOST") or next((f"unix://{p}" for p in _SOCKETS if os.path.exists(p)), "")
        url = url or f"unix://{_SOCKETS[0]}"
        parts = urlsplit(url)
        if parts.scheme in ("unix", "http+unix"):
            return cls(unix=url.partition("://")[2])
        if parts.scheme in ("tcp", "http", "https") and parts.hostname:
            secure = parts.scheme == "https" or bool(os.environ.get("DOCKER_TLS_VERIFY"))
            home = os.environ.get("DOCKER_CERT_PATH") or os.path.expanduser("~/.docker")
            return cls(None, parts.hostname, parts.port or (2376 if secure else 2375), home if secure else None)
        raise CapabilityError(
            f"sandbox 'docker' can't reach a daemon at {url!r}; expected unix://PATH or tcp://HOST:PORT. Over ssh, "
            "forward its socket first: ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST"
        )

    def __str__(self) -> str:
        return f"unix://{self.unix}" if self.unix is not None else f"tcp://{self.host}:{self.port}"


class Daemon:
    """One daemon; connects when first asked, and anew in a forked process."""

    def __init__(self, url: str | None = None) -> None:
        self.endpoint = Endpoint.of(url)
        self._client: Any = None
        self._owner = 0
        self._info: dict[str, Any] | None = None

    def client(self) -> Any:
        """The SDK's low-level client. Raises `CapabilityError` without SDK or daemon."""
        if self._client is None or self._owner != os.getpid():
            try:
                import docker
            except ImportError as error:
                raise CapabilityError(f"sandbox 'docker' needs the Docker SDK for Python. {INSTALL}") from error
            tls: Any = False
            if self.endpoint.certificates is not None:
                folder = self.endpoint.certificates
                names = (os.path.join(folder, name) for name in ("cert.pem", "key.pem"))
                tls = docker.tls.TLSConfig(
                    client_cert=tuple(names), ca_cert=os.path.join(folder, "ca.pem"), verify=True
                )
            try:
                self._client = docker.APIClient(
                    base_url=str(self.endpoint), version="auto", timeout=CALL_S, tls=tls, num_pools=32
                )
            except (docker.errors.DockerException, OSError) as error:
                raise CapabilityError(
                    f"no Docker daemon answers at {self.endpoint}: {error}. Start one (dockerd), or name another in "
                    "DOCKER_HOST."
                ) from error
            self._owner = os.getpid()
        return self._client

    def ask(self, what: str, name: str, /, *arguments: Any, **options: Any) -> Any:
        """Calls one of the SDK client's methods. Raises `NotThere`, or `EnvkitError(SANDBOX_ERROR)` with its words."""
        import docker
        import requests

        method = getattr(self.client(), name)
        try:
            return method(*arguments, **options)
        except docker.errors.NotFound as error:
            raise NotThere(f"can't {what}: {error.explanation or error}") from error
        except docker.errors.APIError as error:
            raise _failed(what, str(error.explanation or error)) from error
        except (docker.errors.DockerException, requests.exceptions.RequestException, OSError) as error:
            raise _failed(what, f"the daemon at {self.endpoint} does not answer as it should: {error}") from error

    async def call(self, what: str, name: str, /, *arguments: Any, **options: Any) -> Any:
        """`ask`, in a thread."""
        return await asyncio.to_thread(partial(self.ask, what, name, *arguments, **options))

    def info(self) -> dict[str, Any]:
        if self._info is None:
            self._info = dict(self.ask("read the daemon's facts", "info"))
        return self._info

    @property
    def local(self) -> bool:
        """Whether it is likely to see our files; a mount that it can't make says otherwise."""
        return self.endpoint.unix is not None

    def api_path(self, path: str) -> str:
        return f"/v{self.client().api_version}{path}"

    async def open_stream(
        self, path: str, query: dict[str, str], body: bytes, stream: DockerStream
    ) -> asyncio.Transport:
        """Sends a request that upgrades its connection, and waits until it is. Raises `EnvkitError`."""
        target = self.api_path(path) + (f"?{urlencode(query)}" if query else "")
        head = f"POST {target} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        loop = asyncio.get_running_loop()
        point = self.endpoint
        try:
            if point.unix is not None:
                transport, _ = await loop.create_unix_connection(lambda: stream, point.unix)
            else:
                context = None if point.certificates is None else _tls(point.certificates)
                transport, _ = await loop.create_connection(lambda: stream, point.host, point.port, ssl=context)
        except OSError as error:
            raise _failed("attach to a container", f"the daemon at {point} refused: {error}") from error
        transport.write(head.encode() + body)
        try:
            await asyncio.wait_for(asyncio.shield(stream.upgraded), CALL_S)
        except BaseException as error:
            transport.abort()
            if isinstance(error, TimeoutError):
                raise _failed("attach to a container", f"the daemon at {point} said nothing") from error
            raise
        return transport


def _tls(folder: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=os.path.join(folder, "ca.pem"))
    context.load_cert_chain(os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem"))
    return context


def _failed(what: str, why: str) -> EnvkitError:
    return EnvkitError(f"can't {what}: {why}", kind=FailureKind.SANDBOX_ERROR, boundary=Boundary.SANDBOX)


class DockerStream(asyncio.Protocol):
    """An upgraded connection: bytes out are the process's stdin, frames in are its stdout and stderr.

    Args:
        out, err: Called with what arrives. A frame is no line, and may come in pieces.
        lost: Called once, when the connection has ended.
        room: Called with True when the transport is full, with False when it has room again.
    """

    def __init__(
        self,
        out: Callable[[bytes], None],
        err: Callable[[bytes], None],
        lost: Callable[[Exception | None], None],
        room: Callable[[bool], None] = lambda full: None,
    ) -> None:
        self.upgraded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None
        self._out, self._err, self._lost, self._room = out, err, lost, room
        self._buffer = bytearray()
        self._left = 0  # of the frame that is being read
        self._kind = 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self.upgraded.done():
            head, blank, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if not blank:
                if len(self._buffer) > _MOST_HEAD:
                    self._refused("its answer has no end")
                return
            status = head.split(b"\r\n", 1)[0].decode(errors="replace")
            if status.split(" ")[1:2] not in (["101"], ["200"]):
                self._refused(f"{status}: {rest.decode(errors='replace')[:2000].strip()}")
                return
            self._buffer = bytearray(rest)
            self.upgraded.set_result(None)
        buffer, at = self._buffer, 0
        while at < len(buffer):
            if self._left == 0:
                if len(buffer) - at < _FRAME.size:
                    break
                self._kind, self._left = _FRAME.unpack_from(buffer, at)
                at += _FRAME.size
                continue
            piece = bytes(buffer[at : at + self._left])
            at += len(piece)
            self._left -= len(piece)
            (self._err if self._kind == 2 else self._out)(piece)
        del buffer[:at]

    def _refused(self, why: str) -> None:
        self.upgraded.set_exception(_failed("attach to a container", why))
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.upgraded.done():
            self.upgraded.set_exception(_failed("attach to a container", "the daemon closed the connection"))
            self.upgraded.exception()
        self._lost(error)

    def pause_writing(self) -> None:
        self._room(True)

    def resume_writing(self) -> None:
        self._room(False)
