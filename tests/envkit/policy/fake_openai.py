"""A Chat Completions endpoint that says what it is told to, and misbehaves on demand. Real sockets, HTTP/1.1.

In tests, `FakeOpenAI` plays a list of behaviours, one per request (the last one repeats). As a program it plays a
conversation from a file, so that an example needs no model:

    python tests/envkit/policy/fake_openai.py --port 8081 --script turns.json

`turns.json` is a list of `{"text": ..., "calls": [{"name": ..., "arguments": {...}}]}`; which turn a request gets
follows from the number of assistant messages in it, so any number of conversations can run at once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Request:
    """What came in. Header names are lower-case."""

    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def key(self) -> str | None:
        scheme, _, value = self.headers.get("authorization", "").partition(" ")
        return value if scheme == "Bearer" else None


Behaviour = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


def send(status: int, body: bytes, headers: dict[str, str] | None = None) -> Behaviour:
    """A whole HTTP answer."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        fields = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
        head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(head.encode() + b"\r\n" + body)
        await writer.drain()

    return behave


def error(status: int, message: str, headers: dict[str, str] | None = None, **fields: Any) -> Behaviour:
    return send(status, json.dumps({"error": {"message": message, **fields}}).encode(), headers)


def completion(
    text: str | None = "",
    calls: Sequence[tuple[str, Any]] = (),
    *,
    finish: str = "stop",
    usage: dict[str, Any] | None = None,
    **message: Any,
) -> dict[str, Any]:
    """The JSON of an answer; a call is (name, arguments), the arguments an object or the text itself."""
    said: dict[str, Any] = {"role": "assistant", "content": text, **message}
    if calls:
        said["tool_calls"] = [
            {
                "id": f"call_{position}",
                "type": "function",
                "function": {"name": name, "arguments": a if isinstance(a, str) else json.dumps(a)},
            }
            for position, (name, a) in enumerate(calls)
        ]
    counts = usage if usage is not None else {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_764_500_000,
        "model": "fake-1",
        "choices": [{"index": 0, "message": said, "finish_reason": finish}],
        "usage": counts,
    }


def answer(text: str | None = "", calls: Sequence[tuple[str, Any]] = (), **fields: Any) -> Behaviour:
    return send(200, json.dumps(completion(text, calls, **fields)).encode())


def gzipped(text: str, times: int = 1) -> Behaviour:
    """An answer whose body is compressed."""
    return send(200, gzip.compress(json.dumps(completion(text * times)).encode()), {"content-encoding": "gzip"})


async def silence(request: Request, writer: asyncio.StreamWriter) -> None:
    """The connection stands, and nothing ever comes."""
    await asyncio.sleep(3600)


async def hang_up(request: Request, writer: asyncio.StreamWriter) -> None:
    """The connection is closed without a word."""
    writer.close()


def then_close(behaviour: Behaviour) -> Behaviour:
    """Answers, then closes the connection without having announced it."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        await behaviour(request, writer)
        writer.close()

    return behave


def cut(share: float = 0.5) -> Behaviour:
    """The connection ends in the middle of the body."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        body = json.dumps(completion("never whole")).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body[: int(len(body) * share)])
        await writer.drain()
        writer.close()

    return behave


def drip(pause_s: float = 0.02) -> Behaviour:
    """A byte now and then, for ever: every single wait is short, the whole has no end."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1\r\n \r\n")
            await writer.drain()
            await asyncio.sleep(pause_s)

    return behave


def flood(declared: bool) -> Behaviour:
    """A body far too large, announced or not."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        if declared:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            await writer.drain()

    return behave


def by_key(table: dict[str | None, Behaviour], default: Behaviour) -> Behaviour:
    """Answers according to the key that was sent."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        await table.get(request.key, default)(request, writer)

    return behave


def conversation(turns: Sequence[dict[str, Any]]) -> Behaviour:
    """The turn that follows the assistant messages of the request; after the last, the last again."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        said = sum(message.get("role") == "assistant" for message in request.json["messages"])
        turn = turns[min(said, len(turns) - 1)]
        calls = [(call["name"], call.get("arguments", {})) for call in turn.get("calls", ())]
        words = len(request.body) // 4
        usage = {"prompt_tokens": words, "completion_tokens": 20, "total_tokens": words + 20}
        await answer(turn.get("text", ""), calls, usage=usage)(request, writer)

    return behave


class FakeOpenAI:
    """The endpoint. `requests` holds what came in, in order."""

    def __init__(self, *behaviours: Behaviour) -> None:
        self._behaviours = list(behaviours)
        self._connections = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: list[Request] = []

    async def __aenter__(self) -> FakeOpenAI:
        await self.start("127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def start(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._connected, host, port, limit=1 << 26)
        self.url = f"http://{host}:{self._server.sockets[0].getsockname()[1]}/v1"

    async def serve(self) -> None:
        await self._server.serve_forever()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer, self._connections))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:]) if k}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                request = Request(head[0].split(" ")[1], headers, body, number)
                self.requests.append(request)
                behaviour = self._behaviours.pop(0) if len(self._behaviours) > 1 else self._behaviours[0]
                await behaviour(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


DEMO: list[dict[str, Any]] = [
    {"text": "I look at what there is.", "calls": [{"name": "bash", "arguments": {"command": "ls -R /filesystem"}}]},
    {"text": "This endpoint is a demonstration and solves nothing: it looked around and stops here."},
]


async def _main(host: str, port: int, turns: Sequence[dict[str, Any]]) -> None:
    server = FakeOpenAI(conversation(turns))
    await server.start(host, port)
    print(f"listening on {server.url}; give it as base_url", flush=True)
    await server.serve()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="a Chat Completions endpoint that plays a script")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8081, help="0 picks a free one")
    parser.add_argument("--script", help="JSON list of turns; without it, a short demonstration")
    given = parser.parse_args()
    played = json.loads(Path(given.script).read_text(encoding="utf-8")) if given.script else DEMO
    try:
        asyncio.run(_main(given.host, given.port, played))
    except KeyboardInterrupt:
        sys.exit(0)
