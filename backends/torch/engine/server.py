"""The embedded engine behind HTTP: the token endpoints of vLLM that we use, over one Hugging Face model.

    POST /inference/v1/generate         ids in, ids out (see `envkit.tokens.generation` for the answer)
    POST /inference/v1/abort_requests   partial ids come back as finish_reason "abort"
    POST /pause /resume /start_weight_update /update_weights /finish_weight_update
    GET  /health /v1/models /weight_info /metrics

The model runs in one thread of its own; `http` carries requests and answers in the caller's asyncio. Whatever is sent,
the engine lives: what it can't do is refused in words (400), what is too much for now is told to come again (503). A
caller can't tell this engine from vLLM, which the conformance tests hold it to.
Used by tests, by the embedded backend, and from the command line:

    python -m envkit.backends.torch.engine MODEL_FOLDER --port 8000
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import re
import threading
import time
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from envkit.backends.torch.engine.http import Asked, HttpServer, Refused
from envkit.backends.torch.engine.loop import Done, Request, TokenLoop
from envkit.tokens.generation import SamplingParams

__all__ = ["EngineServer"]

_MAX_WAITING = 16_384  # requests; more are told to come again
_BYTES_PER_TOKEN = 16  # of JSON, generously; what is longer than the longest prompt is not read


class EngineServer:
    """Serves a `TokenLoop`. Use as `async with EngineServer(loop) as server: server.url`.

    Args:
        name: What `/v1/models` calls the model.
        port: 0 for any free one.
        max_waiting: Requests held at a time, running ones included; more get 503 with `Retry-After`.
    """

    def __init__(
        self,
        loop: TokenLoop,
        *,
        name: str = "embedded",
        host: str = "127.0.0.1",
        port: int = 0,
        max_waiting: int = _MAX_WAITING,
    ) -> None:
        self._loop = loop
        self._name = name
        self._max_waiting = max_waiting
        body = 2**20 + _BYTES_PER_TOKEN * loop.max_model_len
        self._http = HttpServer(self._answer, host=host, port=port, max_body=body)
        self._commands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="envkit-engine", daemon=True)
        self._waiting: dict[str, asyncio.Future[Done]] = {}
        self._client_ids: dict[str, set[str]] = {}
        self._paused = False
        self._clear_on_update = True
        self._pending: Path | None = None
        self._error: str | None = None
        self._asyncio: asyncio.AbstractEventLoop | None = None
        self._sampled = self._cached = self._prompted = 0
        self.url = ""

    async def __aenter__(self) -> EngineServer:
        self._asyncio = asyncio.get_running_loop()
        self.url = await self._http.start()
        self._thread.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._http.stop()
        self._commands.put(None)
        await asyncio.to_thread(self._thread.join, 30.0)
        for future in self._waiting.values():
            future.cancel()

    # ---- the model's thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            idle = self._paused or self._error is not None or not self._loop.busy
            try:
                command = self._commands.get() if idle else self._commands.get_nowait()
            except queue.Empty:
                pass
            else:
                if command is None:
                    return
                command()
                if self._error is None:
                    self._notify(self._loop.collect())  # an abort is answered also while sampling is paused
                continue
            try:
                done = self._loop.step()
            except Exception as error:  # noqa: BLE001 - the capture point of this thread: the engine is dead and says so
                traceback.print_exc()
                self._error = f"{type(error).__name__}: {error}"
                done = []
            self._notify(done)

    def _notify(self, done: list[Done]) -> None:
        if not done and self._error is None:
            return
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
                    future.set_exception(Refused(500, f"the engine died: {self._error}"))
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
                if self._error is not None:
                    raise Refused(500, f"the engine died: {self._error}")
                action()
            except Exception as caught:  # noqa: BLE001 - handed to whoever asked for it; the thread has to live
                error = caught
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, error)

        self._commands.put(run)
        await done

    # ---- routes -------------------------------------------------------------------------------------------------

    async def _answer(self, asked: Asked) -> Any:
        route = (asked.method, asked.path)
        if self._error is not None:
            raise Refused(500, f"the engine died: {self._error}")
        if route == ("GET", "/health"):
            return {}
        if route == ("GET", "/v1/models"):
            return {"object": "list", "data": [{"id": self._name, "max_model_len": self._loop.max_model_len}]}
        if route == ("GET", "/weight_info"):
            return {"weight_version": f"v{self._loop.version}"}
        if route == ("GET", "/metrics"):
            return {
                "running": self._loop.running,
                "waiting": self._loop.waiting,
                "prompt_tokens": self._prompted,
                "cached_tokens": self._cached,
                "sampled_tokens": self._sampled,
            }
        if asked.method != "POST":
            raise Refused(404, f"no route {asked.method} {asked.path}")
        if asked.path == "/inference/v1/generate":
            return await self._generate(asked)
        payload = asked.json()
        if asked.path == "/inference/v1/abort_requests":
            ids = payload.get("request_ids") or []
            if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
                raise Refused(400, "request_ids must be a list of strings")
            await self._abort(ids)
            return {}
        if asked.path == "/weight_fingerprints":
            return await self._fingerprints()
        await self._control(asked.path, asked.query, payload)
        return {}

    async def _control(self, path: str, query: dict[str, str], payload: dict[str, Any]) -> None:
        if path == "/pause":
            if query.get("mode", "abort") == "abort":
                await self._abort([])
            self._clear_on_update = query.get("clear_cache", "true") == "true"

            def pause() -> None:
                self._paused = True

            await self._do(pause)
        elif path == "/resume":

            def resume() -> None:
                self._paused = False

            await self._do(resume)
        elif path in ("/start_weight_update", "/init_weight_transfer_engine"):
            if not self._paused and path == "/start_weight_update":
                raise Refused(409, "pause the engine before updating its weights")
            self._pending = None
        elif path == "/update_weights":
            info = payload.get("update_info")
            if not isinstance(info, dict) or not isinstance(info.get("path"), str):
                raise Refused(400, "expected update_info.path, a safetensors file")
            self._pending = Path(info["path"])
        elif path == "/finish_weight_update":
            await self._load(str(payload.get("weight_version", "")))
        else:
            raise Refused(404, f"no route POST {path}")

    async def _fingerprints(self) -> dict[str, str]:
        """Of every tensor that is sampled with."""
        from envkit.backends.vllm.inside.envkit_weights import fingerprint

        found: dict[str, str] = {}
        await self._do(lambda: found.update({name: fingerprint(t) for name, t in self._loop.weights()}))
        return found

    async def _load(self, label: str) -> None:
        file, self._pending = self._pending, None
        if file is None:
            raise Refused(409, "no weights were sent since /start_weight_update")
        if not re.fullmatch(r"v?[0-9]{1,9}", label):
            raise Refused(400, f"expected weight_version like 'v7', found {label!r}")

        def load() -> None:
            from safetensors.torch import load_file

            self._loop.load(load_file(file), int(label.removeprefix("v")), clear_cache=self._clear_on_update)

        try:
            await self._do(load)
        except Refused:
            raise
        except Exception as error:  # readers of files raise what they like; nothing was changed
            raise Refused(400, f"the weights in {file} can't be loaded: {type(error).__name__}: {error}") from error

    async def _abort(self, client_ids: list[str]) -> None:
        ids: set[str] | None = None
        if client_ids:
            ids = {own for c in client_ids for own in self._client_ids.get(c, {c.removeprefix("generate-tokens-")})}
        await self._do(lambda: self._loop.abort(ids))

    async def _generate(self, asked: Asked) -> Any:
        if len(self._waiting) >= self._max_waiting:
            raise Refused(503, f"{self._max_waiting} requests wait already", retry_after_s=1)
        payload = asked.json()
        if payload.get("stream"):
            raise Refused(400, "streaming is not offered here")
        wishes = payload.get("sampling_params") or {}
        if not isinstance(wishes, dict):
            raise Refused(400, "sampling_params must be an object")
        ids = payload.get("token_ids")
        if not isinstance(ids, list) or not all(type(i) is int for i in ids):
            raise Refused(400, "token_ids must be a list of integers")
        try:
            params = SamplingParams(**{k: v for k, v in wishes.items() if k in SamplingParams.model_fields})
            prompt = np.array(ids, dtype=np.int64)
            self._loop.check(prompt)
        except (ValidationError, ValueError, OverflowError) as error:
            raise Refused(400, str(error)) from error
        own = uuid.uuid4().hex
        client_id = str(payload.get("request_id") or own)
        assert self._asyncio is not None
        future: asyncio.Future[Done] = self._asyncio.create_future()
        self._waiting[own] = future
        self._client_ids.setdefault(client_id, set()).add(own)
        request = Request(own, prompt.astype(np.int32), params, str(payload.get("cache_salt") or ""))
        try:
            await self._do(lambda: self._loop.add(request))
            answer = await self._unless_hung_up(future, own, asked)
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

    async def _unless_hung_up(self, future: asyncio.Future[Done], own: str, asked: Asked) -> Done:
        either: set[asyncio.Future[Any]] = {future, asked.gone}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not future.done():
            await self._do(lambda: self._loop.abort({own}))
            raise ConnectionResetError("the client hung up")
        return future.result()


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
