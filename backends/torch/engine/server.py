"""The embedded engine behind HTTP: the token endpoints of vLLM that we use, over one Hugging Face model.

    POST /inference/v1/generate         ids in, ids out (see `envkit.tokens.generation` for the answer)
    POST /inference/v1/abort_requests   partial ids come back as finish_reason "abort"
    POST /pause /resume /start_weight_update /update_weights /finish_weight_update
    GET  /health /v1/models /weight_info /metrics

The model runs in one thread of its own; the server is asyncio in the caller's. A caller can't tell this engine from
vLLM, which the conformance tests hold it to. Used by tests, by the embedded backend, and from the command line:

    python -m envkit.backends.torch.engine MODEL_FOLDER --port 8000
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import threading
import time
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from pydantic import ValidationError

from envkit.backends.torch.engine.loop import Done, Request, TokenLoop
from envkit.tokens.generation import SamplingParams

__all__ = ["EngineServer"]

_HEAD_BYTES = 65_536
_BODY_BYTES = 256 * 2**20


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class EngineServer:
    """Serves a `TokenLoop`. Use as `async with EngineServer(loop) as server: server.url`.

    Args:
        name: What `/v1/models` calls the model.
        port: 0 for any free one.
    """

    def __init__(self, loop: TokenLoop, *, name: str = "embedded", host: str = "127.0.0.1", port: int = 0) -> None:
        self._loop = loop
        self._name = name
        self._host, self._port = host, port
        self._commands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="envkit-engine", daemon=True)
        self._waiting: dict[str, asyncio.Future[Done]] = {}
        self._client_ids: dict[str, set[str]] = {}
        self._paused = False
        self._clear_on_update = True
        self._pending: Path | None = None
        self._error: str | None = None
        self._server: asyncio.Server | None = None
        self._asyncio: asyncio.AbstractEventLoop | None = None
        self._sampled = self._cached = self._prompted = 0
        self.url = ""

    async def __aenter__(self) -> EngineServer:
        self._asyncio = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=_HEAD_BYTES)
        self.url = f"http://{self._host}:{self._server.sockets[0].getsockname()[1]}"
        self._thread.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        self._commands.put(None)
        await asyncio.to_thread(self._thread.join, 30.0)
        for future in self._waiting.values():
            future.cancel()

    # ---- the model's thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            idle = self._paused or not self._loop.busy
            try:
                command = self._commands.get() if idle else self._commands.get_nowait()
            except queue.Empty:
                pass
            else:
                if command is None:
                    return
                command()
                continue
            try:
                done = self._loop.step()
            except Exception as error:  # noqa: BLE001 - the capture point of this thread: the engine is dead and says so
                traceback.print_exc()
                self._error = f"{type(error).__name__}: {error}"
                self._notify([])
                return
            if done:
                self._notify(done)

    def _notify(self, done: list[Done]) -> None:
        assert self._asyncio is not None
        with contextlib.suppress(RuntimeError):  # the server's loop is gone: nobody waits any more
            self._asyncio.call_soon_threadsafe(self._resolve, done)

    def _resolve(self, done: list[Done]) -> None:
        for answer in done:
            future = self._waiting.pop(answer.id, None)
            if future is not None and not future.done():
                future.set_result(answer)
        if self._error is not None:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(_Refused(500, f"the engine died: {self._error}"))
            self._waiting.clear()

    async def _do(self, action: Callable[[], None]) -> None:
        """Runs something in the model's thread, between two steps. Raises what it raises."""
        assert self._asyncio is not None
        done: asyncio.Future[None] = self._asyncio.create_future()
        loop = self._asyncio

        def finish(error: BaseException | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        def run() -> None:
            error: BaseException | None = None
            try:
                action()
            except (ValueError, KeyError, OSError, RuntimeError) as caught:
                error = caught
            loop.call_soon_threadsafe(finish, error)

        if self._error is not None:
            raise _Refused(500, f"the engine died: {self._error}")
        self._commands.put(run)
        await done

    # ---- HTTP ---------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                try:
                    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                    return
                request_line, *lines = head.split("\r\n")
                headers = {k.strip().lower(): v.strip() for k, _, v in (x.partition(":") for x in lines if x)}
                method, target, *_ = [*request_line.split(), "", ""]
                try:
                    length = int(headers.get("content-length", "0"))
                except ValueError:
                    return
                if not 0 <= length <= _BODY_BYTES:
                    return
                body = await reader.readexactly(length)
                status, payload = await self._watched(reader, method, target, body)
                data = json.dumps(payload).encode()
                kind = "Content-Type: application/json"
                writer.write(f"HTTP/1.1 {status} .\r\n{kind}\r\nContent-Length: {len(data)}\r\n\r\n".encode())
                writer.write(data)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def _watched(self, reader: asyncio.StreamReader, method: str, target: str, body: bytes) -> tuple[int, Any]:
        """One request; a client that hangs up while it waits has its generation ended."""
        try:
            return await self._answer(method, target, body, reader)
        except _Refused as refused:
            return refused.status, {"error": {"message": str(refused), "code": refused.status}}

    async def _answer(self, method: str, target: str, body: bytes, reader: asyncio.StreamReader) -> tuple[int, Any]:
        url = urlsplit(target)
        route = (method, url.path)
        if self._error is not None:
            raise _Refused(500, f"the engine died: {self._error}")
        if route == ("GET", "/health"):
            return 200, {}
        if route == ("GET", "/v1/models"):
            return 200, {"object": "list", "data": [{"id": self._name, "max_model_len": self._loop.max_model_len}]}
        if route == ("GET", "/weight_info"):
            return 200, {"weight_version": f"v{self._loop.version}"}
        if route == ("GET", "/metrics"):
            return 200, {
                "running": self._loop.running,
                "waiting": self._loop.waiting,
                "prompt_tokens": self._prompted,
                "cached_tokens": self._cached,
                "sampled_tokens": self._sampled,
            }
        try:
            payload = json.loads(body) if body else {}
        except ValueError as error:
            raise _Refused(400, f"the body is not JSON: {error}") from error
        if not isinstance(payload, dict):
            raise _Refused(400, "the body must be a JSON object")
        if route == ("POST", "/inference/v1/generate"):
            return 200, await self._generate(payload, reader)
        if route == ("POST", "/inference/v1/abort_requests"):
            await self._abort(payload.get("request_ids") or [])
            return 200, {}
        if method == "POST":
            return await self._control(url.path, parse_qs(url.query), payload)
        raise _Refused(404, f"no route {method} {url.path}")

    async def _control(self, path: str, query: dict[str, list[str]], payload: dict[str, Any]) -> tuple[int, Any]:
        if path == "/pause":
            if query.get("mode", ["abort"])[0] == "abort":
                await self._abort([])
            self._clear_on_update = query.get("clear_cache", ["true"])[0] == "true"

            def pause() -> None:
                self._paused = True

            await self._do(pause)
        elif path == "/resume":

            def resume() -> None:
                self._paused = False

            await self._do(resume)
        elif path in ("/start_weight_update", "/init_weight_transfer_engine"):
            if not self._paused and path == "/start_weight_update":
                raise _Refused(409, "pause the engine before updating its weights")
            self._pending = None
        elif path == "/update_weights":
            info = payload.get("update_info") or {}
            if not isinstance(info.get("path"), str):
                raise _Refused(400, "expected update_info.path, a safetensors file")
            self._pending = Path(info["path"])
        elif path == "/finish_weight_update":
            await self._load(str(payload.get("weight_version", "")))
        else:
            raise _Refused(404, f"no route POST {path}")
        return 200, {}

    async def _load(self, label: str) -> None:
        file, self._pending = self._pending, None
        if file is None:
            raise _Refused(409, "no weights were sent since /start_weight_update")
        if not label.removeprefix("v").isdigit():
            raise _Refused(400, f"expected weight_version like 'v7', found {label!r}")

        def load() -> None:
            from safetensors.torch import load_file

            self._loop.load(load_file(file), int(label.removeprefix("v")), clear_cache=self._clear_on_update)

        try:
            await self._do(load)
        except (KeyError, OSError, RuntimeError) as error:
            raise _Refused(400, f"the weights in {file} can't be loaded: {error}") from error

    async def _abort(self, client_ids: list[str]) -> None:
        ids: set[str] | None = None
        if client_ids:
            ids = {own for c in client_ids for own in self._client_ids.get(c, {c.removeprefix("generate-tokens-")})}
        await self._do(lambda: self._loop.abort(ids))

    async def _generate(self, payload: dict[str, Any], reader: asyncio.StreamReader) -> Any:
        if payload.get("stream"):
            raise _Refused(400, "streaming is not offered here")
        fields = {k: v for k, v in (payload.get("sampling_params") or {}).items() if k in SamplingParams.model_fields}
        try:
            params = SamplingParams(**fields)
            prompt = np.array(payload.get("token_ids") or [], dtype=np.int64)
            if prompt.ndim != 1:
                raise ValueError("token_ids must be a flat list")
            self._loop.check(prompt)
        except (ValidationError, ValueError, TypeError, OverflowError) as error:
            raise _Refused(400, str(error)) from error
        own = uuid.uuid4().hex
        client_id = str(payload.get("request_id") or own)
        assert self._asyncio is not None
        future: asyncio.Future[Done] = self._asyncio.create_future()
        self._waiting[own] = future
        self._client_ids.setdefault(client_id, set()).add(own)
        request = Request(own, prompt.astype(np.int32), params, str(payload.get("cache_salt") or ""))
        try:
            await self._do(lambda: self._loop.add(request))
            answer = await self._unless_hung_up(future, own, reader)
        finally:
            self._waiting.pop(own, None)
            names = self._client_ids[client_id]
            names.discard(own)
            if not names:
                del self._client_ids[client_id]
        self._prompted += len(prompt)
        self._cached += answer.cached_tokens
        self._sampled += len(answer.ids)
        return _wire(answer, client_id, self._name, len(prompt))

    async def _unless_hung_up(self, future: asyncio.Future[Done], own: str, reader: asyncio.StreamReader) -> Done:
        while True:
            await asyncio.wait({future}, timeout=0.5)
            if future.done():
                return future.result()
            if reader.at_eof():
                await self._do(lambda: self._loop.abort({own}))
                raise ConnectionResetError("the client hung up")


def _wire(done: Done, client_id: str, model: str, prompt_tokens: int) -> dict[str, Any]:
    return {
        "request_id": f"generate-tokens-{client_id}",
        "model": model,
        "created": int(time.time()),
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": len(done.ids),
            "total_tokens": prompt_tokens + len(done.ids),
            "prompt_tokens_details": {"cached_tokens": done.cached_tokens},
        },
        "choices": [
            {
                "index": 0,
                "finish_reason": done.finish,
                "stop_reason": done.ids[-1] if done.finish == "stop" else None,
                "token_ids": done.ids,
                "logprobs": {
                    "content": [{"token_id": i, "logprob": lp} for i, lp in zip(done.ids, done.logprobs, strict=True)]
                },
                "weight_versions": [{"version": f"v{v}", "start": a, "end": b} for v, a, b in done.spans],
            }
        ],
    }
