"""An allowlist inside a container that has no network: programs get out through the proxy, where they may."""

from __future__ import annotations

import asyncio

import pytest

from envkit.failure import UserError
from envkit.sandbox.base import SandboxSpec

pytestmark = pytest.mark.docker

FETCH = (
    "import sys, urllib.request\n"
    "try: print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())\n"
    "except OSError as e: print(type(e).__name__, e)\n"
)


async def test_only_listed_hosts_are_reached_and_again_after_kill_all(provider):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nthru")
        await writer.drain()
        writer.close()

    servers = [await asyncio.start_server(serve, "127.0.0.1", 0) for _ in range(2)]
    listed, other = (server.sockets[0].getsockname()[1] for server in servers)
    spec = SandboxSpec(
        memory_mb=128, disk_mb=16, side_disk_mb=4, network="allowlist", allowed_hosts=(f"127.0.0.1:{listed}",),
        env={"NO_PROXY": "", "no_proxy": ""},
    )  # fmt: skip
    try:
        async with provider.create(spec) as sandbox:
            for _ in range(2):
                good = await sandbox.exec(["python3", "-c", FETCH, f"http://127.0.0.1:{listed}/"])
                assert good.stdout == b"thru\n", good
                bad = await sandbox.exec(["python3", "-c", FETCH, f"http://127.0.0.1:{other}/"])
                assert b"403" in bad.stdout
                direct = f"import socket; socket.create_connection(('127.0.0.1', {listed}), 3)"
                assert not (await sandbox.exec(["python3", "-c", direct])).ok
                devices = (await sandbox.exec(["cat", "/proc/net/dev"])).stdout.splitlines()[2:]
                assert len(devices) == 1
                await sandbox.exec(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null &"])
                assert await sandbox.kill_all() == 1  # the relay is ours, and is started anew
    finally:
        for server in servers:
            server.close()


def test_a_pattern_that_is_none_is_refused_before_anything_starts(provider):
    with pytest.raises(UserError, match="allowed host"):
        provider.check(SandboxSpec(network="allowlist", allowed_hosts=("*",)))
