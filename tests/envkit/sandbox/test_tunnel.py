"""The tunnel: many connections over one pair of streams, each with its own pace, and an inside that is not trusted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from envkit.sandbox import tunnel
from envkit.sandbox.tunnel import CHUNK, CLOSE, DATA, OPEN, WINDOW, Mux, TunnelError

_HEAD = struct.Struct("!IBI")


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def _tunnel(
    tmp_path: Path, silence_s: float = 60.0
) -> AsyncIterator[tuple[str, Mux, asyncio.subprocess.Process]]:
    """The program as it runs inside, in a process of its own, and our end of it; leads to an echo."""
    outside, inside = str(tmp_path / "outside"), str(tmp_path / "deep" / "inside")
    server = await asyncio.start_unix_server(_echo, outside)
    plan = f'{{"listeners": [["unix", "{inside}"]], "silence_s": {silence_s}}}'
    source = Path(tunnel.__file__).read_text()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", source, plan, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    mux = Mux(process.stdin.write, lambda listener: asyncio.open_unix_connection(outside))

    async def pump() -> None:
        assert process.stdout is not None
        while data := await process.stdout.read(CHUNK):
            mux.feed(data)

    pumping = asyncio.create_task(pump())
    try:
        for _ in range(500):
            if os.path.exists(inside):
                break
            await asyncio.sleep(0.02)
        yield inside, mux, process
    finally:
        await mux.close()
        pumping.cancel()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        server.close()


async def _talk(path: str, data: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)

    async def feed() -> None:
        writer.write(data)
        await writer.drain()
        writer.write_eof()

    feeding = asyncio.create_task(feed())
    got = await reader.read(-1)
    await feeding
    writer.close()
    return got


async def test_connections_at_once_keep_their_bytes_apart(tmp_path: Path) -> None:
    contents = [os.urandom(size) for size in (0, 1, CHUNK, WINDOW + 1, 5 * WINDOW, 77)]
    async with _tunnel(tmp_path) as (path, mux, _):
        async with asyncio.timeout(60):
            assert await asyncio.gather(*(_talk(path, content) for content in contents)) == contents
        for _ in range(100):
            if not mux._connections:
                break
            await asyncio.sleep(0.02)
        assert mux._connections == {}


async def test_one_that_does_not_read_holds_up_nobody_and_fills_no_memory(tmp_path: Path) -> None:
    async with _tunnel(tmp_path) as (path, mux, _), asyncio.timeout(60):
        _, writer = await asyncio.open_unix_connection(path, limit=1)
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                writer.write(bytes(CHUNK))
                await writer.drain()
                sent += CHUNK

        flooding = asyncio.create_task(flood())
        await asyncio.sleep(1.0)
        assert await _talk(path, b"meanwhile") == b"meanwhile"
        assert sent < 16 * WINDOW
        assert all(connection.owed <= WINDOW for connection in mux._connections.values())
        flooding.cancel()
        writer.close()


async def test_it_ends_with_its_input_and_after_a_silence(tmp_path: Path) -> None:
    async with _tunnel(tmp_path) as (_, _, process):
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 20) == 0
    (tmp_path / "two").mkdir()
    async with _tunnel(tmp_path / "two", silence_s=0.5) as (_, _, process):
        assert await asyncio.wait_for(process.wait(), 20) == 0


def _frame(number: int, kind: int, payload: bytes = b"") -> bytes:
    return _HEAD.pack(number, kind, len(payload)) + payload


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 9,
        _HEAD.pack(1, DATA, CHUNK + 1),
        _HEAD.pack(1, 6, 0),
        _frame(1, OPEN, b""),
        _frame(1, OPEN, b"\0" * 2),
    ],
)
async def test_what_is_no_frame_ends_it(data: bytes) -> None:
    async def dial(listener: int) -> tunnel.Streams:
        raise AssertionError(listener)

    with pytest.raises(TunnelError):
        Mux(lambda sent: None, dial).feed(data)


async def test_more_than_it_may_send_costs_a_connection(tmp_path: Path) -> None:
    stuck = await asyncio.start_unix_server(lambda reader, writer: asyncio.sleep(1000), str(tmp_path / "s"))
    sent = bytearray()
    mux = Mux(sent.extend, lambda listener: asyncio.open_unix_connection(str(tmp_path / "s")))
    mux.feed(_frame(1, OPEN, b"\0"))
    for _ in range(WINDOW // CHUNK + 1):
        mux.feed(_frame(1, DATA, bytes(CHUNK)))
    mux.feed(_frame(2, DATA, b"of nobody"))
    for _ in range(100):
        if not mux._connections:
            break
        await asyncio.sleep(0.01)
    assert mux._connections == {}
    assert _frame(1, CLOSE) in bytes(sent)
    stuck.close()


async def test_frames_come_in_any_pieces_and_too_many_connections_are_refused(tmp_path: Path) -> None:
    server = await asyncio.start_unix_server(_echo, str(tmp_path / "s"))
    sent = bytearray()
    mux = Mux(sent.extend, lambda listener: asyncio.open_unix_connection(str(tmp_path / "s")))
    for byte in _frame(1, OPEN, b"\0") + _frame(1, DATA, b"hello"):
        mux.feed(bytes([byte]))
    for _ in range(200):
        if b"hello" in sent:
            break
        await asyncio.sleep(0.01)
    assert _frame(1, DATA, b"hello") in bytes(sent)
    sent.clear()
    for number in range(2, tunnel.MOST + 3):
        mux.feed(_frame(number, OPEN, b"\0"))
    assert bytes(sent).count(_frame(tunnel.MOST + 1, CLOSE)) == 1
    await mux.close()
    server.close()
