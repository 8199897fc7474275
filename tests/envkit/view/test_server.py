"""The viewer's port: who holds a connection without asking is sent away, and the others are answered."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
import uvicorn
from conftest_token import TOKEN

from envkit.view import create_app, server


async def test_connections_that_ask_nothing_or_never_finish_asking_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_QUESTION_S", 0.2)
    (tmp_path / "trials").mkdir()
    listener = server.bind(0)
    port = listener.getsockname()[1]
    app = create_app({"run": tmp_path}, TOKEN)
    config = uvicorn.Config(app, http=server.Impatient, log_level="critical", lifespan="off")
    serving = asyncio.create_task(uvicorn.Server(config).serve(sockets=[listener]))
    head = f"GET /{TOKEN}/api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n"

    async def ended(first: str, again: str) -> bytes:
        """What a connection was told until it was ended by the other side."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first.encode())
        told = b""
        with contextlib.suppress(ConnectionError):
            while True:
                with contextlib.suppress(TimeoutError):
                    piece = await asyncio.wait_for(reader.read(1000), 0.05)
                    if not piece:
                        break
                    told += piece
                writer.write(again.encode())
        writer.close()
        return told

    async with asyncio.timeout(60):
        assert await ended("", "") == b"", "it says nothing"
        assert await ended(head, "X: y\r\n") == b"", "its head has no end"
        assert b"200 OK" in await ended(f"{head}\r\n", ""), "it was answered, and then stays"
        assert b"200 OK" in await ended(f"{head}\r\n{head}", "X: y\r\n"), "it was answered, and then goes on for ever"
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
