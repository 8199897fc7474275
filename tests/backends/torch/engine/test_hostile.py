"""The embedded engine against clients that send nonsense, too much, or hang up: it refuses in words and lives on."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

pytestmark = pytest.mark.tokens

GENERATE = "/inference/v1/generate"
ABORT = "/inference/v1/abort_requests"


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


loops = load("loop_tests_of_hostile", Path(__file__).with_name("test_loop.py"))


@pytest.fixture(scope="module")
def model() -> Any:
    return loops.tiny()


@asynccontextmanager
async def serving(model: Any, *, max_waiting: int = 16_384, **options: Any) -> AsyncIterator[tuple[Any, Any]]:
    from envkit.backends.torch.engine import EngineServer

    loop = loops.loop_of(model, **options)
    async with (
        EngineServer(loop, max_waiting=max_waiting) as server,
        httpx.AsyncClient(base_url=server.url, timeout=120, limits=httpx.Limits(max_connections=None)) as http,
    ):
        yield http, server
        answer = await http.post(GENERATE, json=ask([1, 2, 3]))
        assert answer.status_code == 200, "the engine still works"
        assert len(answer.json()["choices"][0]["token_ids"]) >= 1


def ask(prompt: Any, **params: Any) -> dict[str, Any]:
    return {"token_ids": prompt, "sampling_params": {"max_tokens": 4, "ignore_eos": True, "logprobs": 0, **params}}


REFUSED: list[tuple[str, Any]] = [
    ("token_ids must be a list of integers", {}),
    ("must not be empty", ask([])),
    ("must be a list of integers", ask("12")),
    ("must be a list of integers", ask([1.5])),
    ("must be a list of integers", ask([True])),
    ("must be a list of integers", ask(["1"])),
    ("must be a list of integers", ask([[1]])),
    ("must be a list of integers", ask([None])),
    ("out of vocabulary", ask([300])),
    ("out of vocabulary", ask([-1])),
    ("", ask([2**80])),
    ("the longest sequence is 512", ask([1] * 512)),
    ("sampling_params must be an object", {"token_ids": [1], "sampling_params": [1]}),
    ("sampling_params must be an object", {"token_ids": [1], "sampling_params": "x"}),
    ("temperature", ask([1], temperature=-1)),
    ("temperature", ask([1], temperature="hot")),
    ("max_tokens", ask([1], max_tokens=0)),
    ("max_tokens", ask([1], max_tokens=1.5)),
    ("top_p", ask([1], top_p=0)),
    ("stop_token_ids", ask([1], stop_token_ids="x")),
    ("streaming", {**ask([1]), "stream": True}),
]


async def test_what_is_wrong_in_a_request_is_refused_in_words(model: Any) -> None:
    async with serving(model) as (http, _):
        for why, payload in REFUSED:
            answer = await http.post(GENERATE, json=payload)
            assert answer.status_code == 400, payload
            assert why in answer.json()["error"]["message"], payload
        for body in (b"{", b"[1]", b"3", b"\xff\xfe", b"[" * 200_000, b'{"token_ids": [NaN]}', b'{"a": ' * 50_000):
            answer = await http.post(GENERATE, content=body)
            assert answer.status_code == 400, body[:20]


async def test_the_edges_of_what_is_allowed_are_allowed(model: Any) -> None:
    async with serving(model) as (http, _):
        for payload, tokens in (
            (ask([1] * 511, max_tokens=10**30), 1),
            (ask([299]), 4),
            (ask([1], temperature=0), 4),
            (ask([1], seed=-(2**70)), 4),
            (ask([1], temperature=1e-300), 4),
            ({**ask([1]), "request_id": {"odd": []}, "cache_salt": [1], "unknown": 1}, 4),
            ({"token_ids": [1] * 500, "sampling_params": {"ignore_eos": True}}, 12),
        ):
            answer = await http.post(GENERATE, json=payload)
            assert answer.status_code == 200, answer.text
            choice = answer.json()["choices"][0]
            assert len(choice["token_ids"]) == tokens
            assert np.isfinite([c["logprob"] for c in choice["logprobs"]["content"]]).all()


async def raw(server: Any, data: bytes, *, end: bool = False) -> bytes:
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    if end:
        writer.write_eof()
    try:
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


async def test_what_is_no_http_is_answered_and_the_connection_closed(model: Any) -> None:
    async with serving(model) as (_, server):
        for status, data in (
            (400, b"hello\r\n\r\n"),
            (400, b"GET / SPDY/3\r\n\r\n"),
            (400, b"GET http://[bad HTTP/1.1\r\n\r\n"),
            (400, b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n"),
            (400, "POST / HTTP/1.1\r\nContent-Length: \u00b2\r\n\r\n".encode("latin-1")),
            (413, b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"),
            (413, b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n"),
            (411, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n\r\n"),
            (431, b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"),
            (404, b"GET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n"),
            (404, b"DELETE /health HTTP/1.0\r\n\r\n"),
        ):
            answer = await raw(server, data)
            assert answer.startswith(f"HTTP/1.1 {status} ".encode()), (status, answer[:80])
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == status
        assert await raw(server, b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc", end=True) == b""
        assert await raw(server, b"", end=True) == b""


async def test_clients_that_hang_up_in_the_middle_free_their_rows(model: Any) -> None:
    async with serving(model, max_rows=2) as (http, server):
        body = json.dumps(ask([1, 2], max_tokens=500)).encode()
        head = f"POST {GENERATE} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        host, port = server.url.removeprefix("http://").split(":")
        for _ in range(30):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(head + body)
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.transport.abort()
        for _ in range(600):
            seen = (await http.get("/metrics")).json()
            if not seen["running"] and not seen["waiting"]:
                break
            await asyncio.sleep(0.1)
        assert (seen["running"], seen["waiting"]) == (0, 0)
        assert not server._waiting
        assert not server._client_ids


async def test_aborts_of_nobody_and_of_the_wrong_shape(model: Any) -> None:
    async with serving(model) as (http, _):
        assert (await http.post(ABORT, json={"request_ids": ["nobody", "generate-tokens-nobody"]})).status_code == 200
        for odd in ("abc", {"a": 1}, [1], [None], 7):
            assert (await http.post(ABORT, json={"request_ids": odd})).status_code == 400


async def test_aborts_while_paused_are_answered_at_once(model: Any) -> None:
    async with serving(model) as (http, server):
        running = asyncio.create_task(http.post(GENERATE, json={**ask([1], max_tokens=400), "request_id": "r"}))
        while not server._loop.running:
            await asyncio.sleep(0.01)
        await http.post("/pause?mode=keep")
        assert not running.done()
        await http.post(ABORT, json={"request_ids": ["r"]})
        answer = await asyncio.wait_for(running, 60)
        assert answer.json()["choices"][0]["finish_reason"] == "abort"
        waiting = asyncio.create_task(http.post(GENERATE, json=ask([1])))
        while not server._loop.waiting:
            await asyncio.sleep(0.01)
        await http.post("/pause")  # mode=abort is the default
        assert (await asyncio.wait_for(waiting, 60)).json()["choices"][0]["finish_reason"] == "abort"
        await http.post("/resume")


async def test_weights_that_are_no_weights_change_nothing_and_end_nothing(model: Any, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    junk, other = tmp_path / "junk", tmp_path / "other"
    junk.write_bytes(b"\xff" * 100)
    names = dict(model.named_parameters())
    first = sorted(names)[0]
    save_file({first: names[first].detach()[:1].clone()}, other)
    async with serving(model) as (http, _):
        before = (await http.post(GENERATE, json=ask([1], temperature=0, max_tokens=8))).json()["choices"]
        assert (await http.post("/start_weight_update", json={})).status_code == 409
        await http.post("/pause?mode=keep")
        for path in (junk, other, tmp_path / "absent", tmp_path):
            await http.post("/start_weight_update", json={})
            assert (await http.post("/update_weights", json={"update_info": {"path": str(path)}})).status_code == 200
            answer = await http.post("/finish_weight_update", json={"weight_version": "v9"})
            assert answer.status_code == 400, path
        for info in (None, [], "x", {"path": 3}):
            assert (await http.post("/update_weights", json={"update_info": info})).status_code == 400
        for label in ("\u00b2", "seven", "", "v-1", None, 10**12):
            await http.post("/update_weights", json={"update_info": {"path": str(other)}})
            answer = await http.post("/finish_weight_update", json={"weight_version": label})
            assert answer.status_code == 400, label
        assert (await http.get("/weight_info")).json() == {"weight_version": "v0"}
        await http.post("/resume")
        assert (await http.post(GENERATE, json=ask([1], temperature=0, max_tokens=8))).json()["choices"] == before


async def test_updates_that_cross_leave_one_of_them_whole(model: Any, tmp_path: Path) -> None:
    """Two trainers at once, while requests run: every token is labelled with weights that were really loaded."""
    from safetensors.torch import save_file

    own = loops.tiny(seed=1)
    for n in (1, 2):
        save_file({k: v.detach().clone() for k, v in own.named_parameters()}, tmp_path / str(n))
    async with serving(own) as (http, _):
        asked = [asyncio.create_task(http.post(GENERATE, json=ask([i + 1], max_tokens=150))) for i in range(6)]

        async def update(n: int) -> None:
            for _ in range(4):
                await http.post("/pause?mode=keep")
                await http.post("/start_weight_update", json={})
                await http.post("/update_weights", json={"update_info": {"path": str(tmp_path / str(n))}})
                await http.post("/finish_weight_update", json={"weight_version": f"v{n}"})
                await http.post("/resume")

        await asyncio.gather(update(1), update(2))
        await http.post("/resume")
        for answer in await asyncio.gather(*asked):
            (choice,) = answer.json()["choices"]
            spans = choice["weight_versions"]
            assert len(choice["token_ids"]) == 150
            assert [s["start"] for s in spans] == [0, *(s["end"] for s in spans[:-1])]
            assert {s["version"] for s in spans} <= {"v0", "v1", "v2"}


async def test_many_requests_queue_and_too_many_are_told_to_come_again(model: Any) -> None:
    async with serving(model, max_waiting=100) as (http, server):
        await http.post("/pause?mode=keep")
        asked = [asyncio.create_task(http.post(GENERATE, json=ask([i % 290], max_tokens=2))) for i in range(130)]
        while sum(t.done() for t in asked) < 30:
            await asyncio.sleep(0.01)
        await http.post("/resume")
        answers = await asyncio.gather(*asked)
        refused = [a for a in answers if a.status_code == 503]
        assert len(refused) == 30
        assert refused[0].headers["Retry-After"] == "1"
        assert sum(a.status_code == 200 for a in answers) == 100
        assert not server._waiting


async def test_an_engine_that_died_answers_everybody_also_those_who_come_later(model: Any) -> None:
    from envkit.backends.torch.engine import EngineServer

    loop = loops.loop_of(model)

    def broken() -> Any:
        raise RuntimeError("out of something")

    loop.step = broken
    async with EngineServer(loop) as server, httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        first = await http.post(GENERATE, json=ask([1]))
        assert first.status_code == 500
        for route, payload in ((GENERATE, ask([1])), (ABORT, {}), ("/pause", {}), ("/resume", {})):
            answer = await http.post(route, json=payload)
            assert answer.status_code == 500
            assert "out of something" in answer.json()["error"]["message"]
        assert (await http.get("/health")).status_code == 500
