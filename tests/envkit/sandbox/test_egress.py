"""The allowlist's proxy: who is let out, who is not, and that nothing private is reached by name."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from envkit.failure import UserError
from envkit.sandbox.egress import EgressProxy, allowed, check_patterns


def test_patterns() -> None:
    listed = ("pypi.org", "*.example.com", "api.test:8443", "192.0.2.0/24", "198.51.100.7")
    for host, port, wanted in (
        ("pypi.org", 443, True), ("PyPI.org.", 443, True), ("evilpypi.org", 443, False),
        ("pypi.org.evil.com", 443, False),
        ("a.example.com", 80, True), ("a.b.example.com", 80, True), ("example.com", 80, False),
        ("badexample.com", 80, False), ("api.test", 8443, True), ("api.test", 443, False),
        ("192.0.2.77", 1, True), ("192.0.3.1", 1, False), ("198.51.100.7", 22, True), ("198.51.100.8", 22, False),
        ("", 80, False),
    ):  # fmt: skip
        assert allowed(host, port, listed) is wanted, (host, port)
    assert not allowed("anything", 80, ())
    for bad in ("*", "a.*.com", "http://x.org", "", "x.org:port", "*.", "x y"):
        with pytest.raises(UserError):
            check_patterns((bad,))


async def asked(proxy: EgressProxy, request: bytes, after: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(proxy.socket))
    writer.write(request)
    answer = b""
    if after:
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.write(after)
    writer.write_eof()
    answer += await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer


@contextlib.asynccontextmanager
async def origin():  # type: ignore[no-untyped-def]
    """An HTTP server that answers with the head it was sent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + head)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_plain_http_and_tunnels_reach_what_is_listed() -> None:
    async with origin() as port:
        proxy = await EgressProxy.start((f"127.0.0.1:{port}",))
        try:
            head = f"GET http://127.0.0.1:{port}/a?b=1 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: secret\r\n\r\n"
            said = await asked(proxy, head.encode())
            assert b"GET /a?b=1 HTTP/1.1\r\nHost: x\r\nConnection: close" in said
            assert b"secret" not in said
            tunnel = await asked(
                proxy, f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode(), b"GET /raw HTTP/1.1\r\n\r\n"
            )
            assert tunnel.startswith(b"HTTP/1.1 200 Connection established")
            assert b"GET /raw" in tunnel
            assert proxy.refused == []
        finally:
            await proxy.stop()
    assert not proxy.socket.exists()


async def test_everything_else_is_refused_with_the_reason() -> None:
    async with origin() as port:
        proxy = await EgressProxy.start(("listed.example", f"localhost:{port}", "127.0.0.1:1"))
        try:
            for request, status, words in (
                (f"CONNECT 127.0.0.1:{port} HTTP/1.1", b"403", b"not on this task's list"),
                ("GET http://elsewhere.example/ HTTP/1.1", b"403", b"listed.example"),
                # A name that leads to this machine is no way in, listed or not.
                (f"CONNECT localhost:{port} HTTP/1.1", b"403", b"no public address"),
                ("CONNECT 127.0.0.1:1 HTTP/1.1", b"502", b"can't be reached"),
                ("GET /relative HTTP/1.1", b"400", b"proxy"),
                ("GET ftp://x/ HTTP/1.1", b"400", b"proxy"),
                ("rubbish", b"400", b"HTTP proxy"),
                ("CONNECT x:99999999 HTTP/1.1", b"403", b"not on"),
                ("CONNECT [::1 HTTP/1.1", b"403", b"not on"),
            ):
                said = await asked(proxy, f"{request}\r\n\r\n".encode())
                assert said.startswith(b"HTTP/1.1 " + status), (request, said)
                assert words in said, (request, said)
            assert f"127.0.0.1:{port}" in proxy.refused
        finally:
            await proxy.stop()


async def test_a_client_that_says_nothing_or_too_much_costs_nobody_anything() -> None:
    async with origin() as port:
        proxy = await EgressProxy.start((f"127.0.0.1:{port}",))
        try:
            silent = [await asyncio.open_unix_connection(str(proxy.socket)) for _ in range(5)]
            reader, writer = await asyncio.open_unix_connection(str(proxy.socket))
            with contextlib.suppress(OSError):
                writer.write(b"x" * 300_000)
                await writer.drain()
                assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()
            said = await asked(proxy, f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode())
            assert said.startswith(b"HTTP/1.1 200")
            for _, each in silent:
                each.close()
        finally:
            await asyncio.wait_for(proxy.stop(), 10)
