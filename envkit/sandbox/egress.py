"""The way out of a sandbox whose network is an allowlist: an HTTP proxy on a unix socket, and its relay inside.

The sandbox itself has no network. Its programs find `HTTP_PROXY` and `HTTPS_PROXY` set to a loopback port, where a
relay of ours carries bytes to the socket; the proxy, on our side, connects to hosts of the list and to no other: by
CONNECT (whatever is spoken then) or as a plain HTTP proxy. Names are resolved here, and one that resolves to an address
of this machine or its networks is refused: only an address that the list itself holds may be private.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from envkit.failure import Boundary, EnvkitError, FailureKind, UserError

if TYPE_CHECKING:
    from envkit.sandbox.base import Process, Sandbox

__all__ = ["INSIDE", "PORT", "EgressProxy", "allowed", "check_patterns", "environment", "start_relay"]

#: Where the socket is inside, and the loopback port of the relay: the sandbox's network is its own.
INSIDE = "/run/envkit-egress/proxy.sock"
PORT = 3128
_HEAD_S = 30.0
_CONNECT_S = 30.0
_MOST_HEAD = 65536
_MOST_AT_ONCE = 256

_RELAY = r"""
import asyncio, sys

async def carry(source, sink):
    try:
        while True:
            data = await source.read(65536)
            if not data: break
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof(): sink.write_eof()
    except (OSError, asyncio.CancelledError): pass

async def serve(reader, writer):
    try:
        far_reader, far_writer = await asyncio.open_unix_connection(sys.argv[1])
    except OSError:
        writer.close()
        return
    try:
        await asyncio.gather(carry(reader, far_writer), carry(far_reader, writer))
    finally:
        writer.close()
        far_writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[2]))
    print("ready", flush=True)
    async with server:
        await server.serve_forever()

asyncio.run(main())
"""


def environment() -> dict[str, str]:
    """What programs inside look at."""
    url = f"http://127.0.0.1:{PORT}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    own = "localhost,127.0.0.1,::1"
    return {name: url for upper in names for name in (upper, upper.lower())} | {"NO_PROXY": own, "no_proxy": own}


def _split(pattern: str) -> tuple[str, int | None]:
    """Host and port of `host`, `host:port`, `[v6]:port` or a network; brackets are taken off."""
    if pattern.startswith("["):
        host, _, rest = pattern[1:].partition("]")
        return host, int(rest[1:]) if rest.startswith(":") else None
    if pattern.count(":") == 1:
        host, _, port = pattern.partition(":")
        return host, int(port)
    return pattern, None


def check_patterns(patterns: Sequence[str]) -> None:
    """Raises `UserError` for what is neither host, `*.host`, address nor network (each with or without a port)."""
    for pattern in patterns:
        try:
            host, port = _split(pattern)
        except ValueError:
            host, port = "", None
        plain = host.removeprefix("*.")
        usable = plain and all(c.isalnum() or c in "-._:/" for c in plain) and "*" not in plain
        if not usable or (port is not None and not 0 < port < 65536):
            raise UserError(
                f"an allowed host must be a host name, *.domain, an address or a network, with :port or without; found "
                f"{pattern!r}"
            )


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def allowed(host: str, port: int, patterns: Sequence[str]) -> bool:
    """Whether the list lets a connection to host and port out, by what was asked for. `*.x.org` is not `x.org`."""
    host = host.rstrip(".").lower()
    address = _address(host)
    for pattern in patterns:
        name, only = _split(pattern.lower())
        if only is not None and only != port:
            continue
        if address is not None:
            try:
                if address in ipaddress.ip_network(name, strict=False):
                    return True
            except ValueError:
                continue
        elif name == host or (name.startswith("*.") and host.endswith(name[1:]) and len(host) > len(name) - 1):
            return True
    return False


class _Refused(Exception):
    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


class EgressProxy:
    """One sandbox's proxy; runs on the event loop that started it. `refused` holds what was turned away, as
    `host:port`."""

    def __init__(self, patterns: Sequence[str], folder: Path) -> None:
        self._patterns = tuple(patterns)
        self._folder = folder
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.socket = folder / os.path.basename(INSIDE)
        self.refused: list[str] = []

    @classmethod
    async def start(cls, patterns: Sequence[str]) -> EgressProxy:
        """Raises `UserError` for a pattern that can't be one."""
        check_patterns(patterns)
        folder = Path(tempfile.mkdtemp(prefix=f"envkit-egress-{os.getpid()}-"))
        folder.chmod(0o711)  # noqa: ASYNC240 one call to a folder of ours
        proxy = cls(patterns, folder)
        try:
            proxy._server = await asyncio.start_unix_server(proxy._accept, str(proxy.socket), limit=_MOST_HEAD)
            proxy.socket.chmod(0o666)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return proxy

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= _MOST_AT_ONCE:
            writer.close()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(_HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            host, port, forward = _request(head)
            far_reader, far = await self._connect(host, port)
            if forward is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                far.write(forward)
            await asyncio.gather(_carry(reader, far), _carry(far_reader, writer))
        except _Refused as error:
            body = f"envkit: {error}\n".encode()
            head = f"HTTP/1.1 {error.status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n".encode()
            with contextlib.suppress(OSError):
                writer.write(head + b"Connection: close\r\n\r\n" + body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that went away, or spoke no HTTP: nobody is left to be told
        finally:
            for each in (writer, far):
                if each is not None:
                    each.close()

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not allowed(host, port, self._patterns):
            self.refused.append(f"{host}:{port}")
            listed = ", ".join(self._patterns) or "no host"
            raise _Refused("403 Forbidden", f"{host}:{port} is not on this task's list of allowed hosts ({listed})")
        try:
            async with asyncio.timeout(_CONNECT_S):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=1)
                for *_, place in found:
                    address = ipaddress.ip_address(str(place[0]).partition("%")[0])
                    # A name may be anybody's: it must not lead to this machine or what is near it.
                    if _address(host) is None and not address.is_global:
                        self.refused.append(f"{host}:{port}")
                        raise _Refused(
                            "403 Forbidden",
                            f"{host} resolves to {address}, which is no public address; list the address itself",
                        )
                return await asyncio.open_connection(str(found[0][4][0]), port)
        except (OSError, TimeoutError) as error:
            raise _Refused("502 Bad Gateway", f"{host}:{port} can't be reached: {error}") from error


def _request(head: bytes) -> tuple[str, int, bytes | None]:
    """Host, port, and the request to send on (None for a tunnel). Raises `_Refused`."""
    first, _, rest = head.partition(b"\r\n")
    words = first.decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _Refused("400 Bad Request", "this is an HTTP proxy")
    method, target, version = words
    try:
        if method == "CONNECT":
            host, port = _split(target)
            return host, port or 443, None
        parts = urlsplit(target)
        if parts.scheme != "http" or not parts.hostname:
            raise _Refused("400 Bad Request", "a proxy is asked for http://HOST/..., or to CONNECT")
        port = parts.port or 80
    except ValueError:
        raise _Refused("400 Bad Request", f"this is no address: {target[:200]}") from None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kept = [
        line
        for line in rest.rstrip(b"\r\n").split(b"\r\n")
        if line.partition(b":")[0].strip().lower() not in (b"proxy-connection", b"proxy-authorization", b"connection")
    ]
    # One request a connection: the next one could name another host.
    lines = [f"{method} {path} {version}".encode("latin-1"), *filter(None, kept), b"Connection: close"]
    return parts.hostname, port, b"\r\n".join(lines) + b"\r\n\r\n"


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()


async def start_relay(sandbox: Sandbox) -> Process:
    """Starts the relay inside, and waits until it listens. Raises `EnvkitError(SANDBOX_START)`."""
    process = await sandbox.spawn(["python3", "-I", "-c", _RELAY, INSIDE, str(PORT)])
    try:
        async with asyncio.timeout(30.0):
            said = await process.read()
    except TimeoutError:
        said = b""
    if said.strip() != b"ready":
        await process.kill()
        raise EnvkitError(
            f"the relay of the allowlist did not start: {process.stderr_tail.decode(errors='replace')[-500:]}",
            kind=FailureKind.SANDBOX_START,
            boundary=Boundary.SANDBOX,
        )
    return process
