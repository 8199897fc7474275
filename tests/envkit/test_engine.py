"""The engine client against a real HTTP server that misbehaves in every way an engine can."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from envkit.deadline import Deadline
from envkit.engine import RULES, EngineClient, EngineError, SamplingParams, Trouble
from envkit.failure import DeadlineExceeded, FailureKind
from envkit.tokens import PromptIds

Answer = Callable[[dict[str, Any], asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes | None]]


def body(ids: list[int], **changes: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "token_ids": ids,
        "logprobs": {"content": [{"token_id": i, "logprob": -0.5} for i in ids]},
        "weight_versions": [{"version": "v3", "start": 0, "end": len(ids)}],
    }
    choice.update(changes.pop("choice", {}))
    return {"request_id": "r", "choices": [choice], **changes}


def http(status: int, payload: Any, headers: str = "") -> bytes:
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n{headers}\r\n".encode() + data


class FakeEngine:
    """A small HTTP/1.1 server; `script` holds one behaviour per generate request, the last one for all others."""

    def __init__(self, *script: Answer) -> None:
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.aborted: list[str] = []
        self.routes: list[tuple[str, Any]] = []
        self.healthy = True
        self.running = 0
        self.most_running = 0
        self.models: Any = {"data": [{"id": "tiny", "max_model_len": 64}]}

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = head.split("\r\n")
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}
                route = lines[0].split()[1]
                raw = await reader.readexactly(int(headers.get("content-length", 0)))
                payload = json.loads(raw) if raw else None
                out = await self.answer(route, payload, headers, reader, writer)
                if out is None:
                    break
                writer.write(out)
                await writer.drain()
        writer.close()

    async def answer(self, route: str, payload: Any, headers: dict[str, str], reader: Any, writer: Any) -> bytes | None:
        if route == "/health":
            if not self.healthy:
                await asyncio.sleep(3600)
            return http(200, {})
        if route == "/v1/models":
            return http(200, self.models)
        if route == "/inference/v1/abort_requests":
            # Each is named as the client made it, and as vLLM calls it.
            own = [i for i in payload["request_ids"] if not i.startswith("generate-tokens-")]
            assert sorted(payload["request_ids"]) == sorted([*own, *(f"generate-tokens-{i}" for i in own)])
            self.aborted += own
            return http(200, {})
        if route != "/inference/v1/generate":
            self.routes.append((route, payload))
            return http(200, {})
        self.requests.append(payload)
        self.headers.append(headers)
        behaviour = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            return await behaviour(payload, reader, writer)
        finally:
            self.running -= 1


def says(status: int, payload: Any, headers: str = "") -> Answer:
    async def answer(request: dict[str, Any], reader: Any, writer: Any) -> bytes:
        return http(status, payload, headers)

    return answer


async def hang(request: dict[str, Any], reader: Any, writer: Any) -> bytes | None:
    await asyncio.sleep(3600)
    return None


async def hang_up(request: dict[str, Any], reader: Any, writer: Any) -> bytes | None:
    return None


async def cut_short(request: dict[str, Any], reader: Any, writer: Any) -> bytes | None:
    whole = http(200, body([1, 2, 3]))
    writer.write(whole[:-20])
    await writer.drain()
    return None


GOOD = says(200, body([7, 8, 9]))


@asynccontextmanager
async def serving(*engines: FakeEngine, **options: Any) -> AsyncIterator[EngineClient]:
    servers = [await asyncio.start_server(e.handle, "127.0.0.1", 0, limit=2**24) for e in engines]
    urls = [f"http://127.0.0.1:{s.sockets[0].getsockname()[1]}" for s in servers]
    client = EngineClient(urls, **{"backoff_s": (0.01, 0.02), **options})
    try:
        yield client
    finally:
        await client.close()
        for server in servers:
            server.close()


async def ask(client: EngineClient, *, session: str = "s", within_s: float = 30.0, **params: Any) -> Any:
    return await client.generate(
        PromptIds([1, 2, 3]), SamplingParams(**params), session=session, deadline=Deadline.after(within_s, "the test")
    )


async def test_ids_go_in_and_come_out_with_logprobs_and_versions() -> None:
    engine = FakeEngine(
        says(
            200,
            body(
                [7, 8, 9],
                choice={
                    "finish_reason": "abort",
                    "weight_versions": [
                        {"version": "v3", "start": 0, "end": 1},
                        {"version": "4", "start": 1, "end": 3},
                    ],
                },
                usage={"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}},
            ),
        )
    )
    async with serving(engine) as client:
        out = await ask(client, max_tokens=5, temperature=0.7, stop_token_ids=(9,))
        again = await ask(client)
    assert out.ids.tolist() == [7, 8, 9]
    assert out.versions.tolist() == [3, 4, 4]
    assert out.logprobs.tolist() == [-0.5] * 3
    assert (out.finish, out.cached_tokens, out.attempts) == ("abort", 2, 1)
    sent = engine.requests[0]
    assert sent["token_ids"] == [1, 2, 3]
    assert sent["sampling_params"]["logprobs"] == 0
    assert sent["sampling_params"]["max_tokens"] == 5
    assert sent["sampling_params"]["stop_token_ids"] == [9]
    assert sent["request_id"].startswith("s-")
    assert engine.headers[0]["x-session-id"] == "s"
    assert sent["cache_salt"] == "v0"
    assert engine.requests[1]["cache_salt"] == "v4", "a prefix cached under old weights must not be hit"
    assert again.request_id


@pytest.mark.parametrize(
    ("trouble", "attempts"),
    [
        (says(500, b"boom"), 2),
        (says(502, b""), 2),
        (hang_up, 2),
        (cut_short, 2),
        (says(200, b"<html>"), 2),
        (says(200, {"choices": []}), 2),
        (says(200, body([1], choice={"finish_reason": "error"})), 2),
        (says(200, body([], choice={"finish_reason": "error"})), 2),
        (says(429, b"slow down", "Retry-After: 0\r\n"), 2),
        (says(503, b"starting", "Retry-After: 0.01\r\n"), 2),
    ],
)
async def test_passing_troubles_are_tried_again(trouble: Answer, attempts: int) -> None:
    engine = FakeEngine(trouble, GOOD)
    async with serving(engine) as client:
        out = await ask(client)
    assert out.ids.tolist() == [7, 8, 9]
    assert out.attempts == attempts == len(engine.requests)
    ids = [r["request_id"] for r in engine.requests]
    assert len(set(ids)) == len(ids), "an engine must not mistake the second request for the first"


@pytest.mark.parametrize(
    "nonsense",
    [
        body([1, 2], choice={"logprobs": {"content": [{"logprob": -1.0}]}}),
        body([1, 2], choice={"logprobs": None}),
        body([1], choice={"logprobs": {"content": [{"logprob": float("nan")}]}}),
        body([1], choice={"logprobs": {"content": [{"logprob": 3.0}]}}),
        body([1], choice={"logprobs": {"content": [{"token_id": 5, "logprob": -1.0}]}}),
        body([1, 2], choice={"weight_versions": [{"version": "v1", "start": 0, "end": 1}]}),
        body([1], choice={"weight_versions": [{"version": "weights-of-tuesday", "start": 0, "end": 1}]}),
        body([1.5]),
        body([-4]),
        body([True]),
        body(["a"]),
        body([1] * 9),
        body([1], choice={"finish_reason": None}),
        body([]),
        body([1], choice={"logprobs": {"content": [{"logprob": -(10**400)}]}}),
        body([1], choice={"logprobs": {"content": [{"logprob": False}]}}),
        body([1], choice={"logprobs": {"content": [{"logprob": "-0.5"}]}}),
        body([1, 2], choice={"weight_versions": [{"version": "v1", "start": 0, "end": -1}]}),
        body([1, 2], choice={"weight_versions": [{"version": f"v{n}", "start": 0, "end": 2} for n in (1, 2)]}),
        body([1], choice={"weight_versions": [{"version": "v1", "start": None, "end": None}]}),
        body([1], choice={"weight_versions": {}}),
        body([1], usage={"prompt_tokens": 2}),
        [],
        "text",
        None,
        {"choices": [{}]},
        {"choices": [body([1])["choices"][0]] * 2},
    ],
)
async def test_an_answer_that_contradicts_itself_is_never_used(nonsense: Any) -> None:
    async with serving(FakeEngine(says(200, nonsense))) as client:
        with pytest.raises(EngineError, match="no generation") as caught:
            await ask(client, max_tokens=8)
    assert caught.value.kind is FailureKind.POLICY_ERROR


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FailureKind.POLICY_REJECTED),
        (404, FailureKind.POLICY_REJECTED),
        (422, FailureKind.POLICY_REJECTED),
        (401, FailureKind.POLICY_AUTH),
        (403, FailureKind.POLICY_AUTH),
    ],
)
async def test_a_refused_request_is_not_sent_twice(status: int, kind: FailureKind) -> None:
    engine = FakeEngine(says(status, {"message": "out of vocabulary"}))
    async with serving(engine) as client:
        with pytest.raises(EngineError, match="out of vocabulary") as caught:
            await ask(client)
    assert caught.value.kind is kind
    assert len(engine.requests) == 1


async def test_lasting_troubles_end_with_their_kind() -> None:
    async with serving(FakeEngine(says(500, b"boom"))) as client:
        with pytest.raises(EngineError, match="after 4 requests") as caught:
            await ask(client)
    assert caught.value.kind is FailureKind.POLICY_ERROR
    client = EngineClient("http://127.0.0.1:9", backoff_s=(0.01,))
    try:
        with pytest.raises(EngineError) as refused:
            await ask(client, within_s=20)
    finally:
        await client.close()
    assert refused.value.kind is FailureKind.POLICY_UNREACHABLE


async def test_a_busy_engine_is_waited_for_and_the_wait_is_no_work() -> None:
    busy = says(429, b"", "Retry-After: 0.2\r\n")
    async with serving(FakeEngine(busy, busy, busy, busy, busy, busy, busy, busy, GOOD)) as client:
        out = await ask(client)
    assert out.attempts == 9, "busy is no failure, however often"
    assert out.waited_s >= 1.6


async def test_a_busy_engine_beyond_the_deadline_is_a_rate_limit() -> None:
    async with serving(FakeEngine(says(429, b"", "Retry-After: 60\r\n"))) as client:
        started = time.monotonic()
        with pytest.raises(EngineError) as caught:
            await ask(client, within_s=5)
    assert caught.value.kind is FailureKind.POLICY_RATE_LIMITED
    assert time.monotonic() - started < 5, "it does not sit out a wait that can't help"


async def test_the_deadline_ends_a_wait_and_aborts_the_request() -> None:
    engine = FakeEngine(hang)
    async with serving(engine) as client:
        with pytest.raises(DeadlineExceeded, match="the test"):
            await ask(client, within_s=0.3)
        assert engine.aborted == [engine.requests[0]["request_id"]]


async def test_cancelling_aborts_the_request_at_the_engine() -> None:
    engine = FakeEngine(hang)
    async with serving(engine) as client:
        task = asyncio.create_task(ask(client))
        while not engine.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert engine.aborted == [engine.requests[0]["request_id"]]


async def test_a_half_open_connection_is_noticed_by_the_engines_health() -> None:
    engine = FakeEngine(hang, GOOD)
    engine.healthy = False
    async with serving(engine, probe_every_s=0.05) as client:
        out = await ask(client)
    assert out.attempts == 2


async def test_a_long_generation_of_a_healthy_engine_is_left_alone() -> None:
    async def slow(request: dict[str, Any], reader: Any, writer: Any) -> bytes:
        await asyncio.sleep(0.6)
        return http(200, body([7]))

    async with serving(FakeEngine(slow), probe_every_s=0.05) as client:
        assert (await ask(client)).attempts == 1


async def test_the_limit_for_one_request_ends_it_and_tries_again() -> None:
    engine = FakeEngine(hang, GOOD)
    async with serving(engine, request_timeout_s=0.2) as client:
        assert (await ask(client)).attempts == 2
        assert engine.aborted == [engine.requests[0]["request_id"]]


async def test_a_session_stays_on_its_engine_and_moves_when_that_dies() -> None:
    engines = [FakeEngine(GOOD) for _ in range(3)]
    async with serving(*engines) as client:
        homes = [(await ask(client, session=f"trial-{i}")).engine for i in range(24)]
        again = [(await ask(client, session=f"trial-{i}")).engine for i in range(24)]
        assert homes == again
        assert len(set(homes)) == 3, "sessions spread"
        dead = homes[0]
        engines[[r.url for r in client._replicas].index(dead)].script = [hang_up]
        moved = [(await ask(client, session=f"trial-{i}")).engine for i in range(24)]
        assert dead not in moved
        for home, now in zip(homes, moved, strict=True):
            assert home in (now, dead), "only the dead engine's sessions move"


async def test_no_more_requests_at_once_than_allowed() -> None:
    async def brief(request: dict[str, Any], reader: Any, writer: Any) -> bytes:
        await asyncio.sleep(0.02)
        return http(200, body([7]))

    engine = FakeEngine(brief)
    async with serving(engine, max_in_flight=3) as client:
        outs = await asyncio.gather(*(ask(client, session=f"{i}") for i in range(15)))
    assert engine.most_running == 3
    assert max(o.waited_s for o in outs) > 0.02


async def test_aborting_a_session_names_its_requests_and_keeps_what_comes_back() -> None:
    told = asyncio.Event()

    async def until_aborted(request: dict[str, Any], reader: Any, writer: Any) -> bytes:
        await told.wait()
        return http(200, body([7, 8], choice={"finish_reason": "abort"}))

    engine = FakeEngine(until_aborted)
    async with serving(engine) as client:
        task = asyncio.create_task(ask(client))
        while not engine.requests:
            await asyncio.sleep(0.01)
        await client.abort("s")
        await client.abort("somebody else")
        told.set()
        out = await task
    assert engine.aborted == [engine.requests[0]["request_id"]]
    assert (out.finish, out.ids.tolist()) == ("abort", [7, 8])


async def test_an_engine_says_what_it_is() -> None:
    engine = FakeEngine(GOOD)
    async with serving(engine) as client:
        info = await client.info(Deadline.after(5))
        assert (info.model, info.max_model_len) == ("tiny", 64)
        engine.models = {"data": []}
        with pytest.raises(EngineError, match="/v1/models"):
            await client.info(Deadline.after(0.5))


async def test_new_weights_go_to_every_engine_between_pause_and_resume() -> None:
    engines = [FakeEngine(says(200, body([7], choice={"weight_versions": None}))) for _ in range(2)]
    async with serving(*engines) as client:
        deadline = Deadline.after(5)
        await client.pause(deadline)
        await client.update_weights({"path": "/w"}, 7, deadline)
        await client.resume(deadline)
        out = await ask(client)
    for engine in engines:
        assert [r for r, _ in engine.routes] == [
            "/pause?mode=keep&clear_cache=true",
            "/start_weight_update",
            "/update_weights",
            "/finish_weight_update",
            "/resume",
        ]
        assert engine.routes[2][1] == {"update_info": {"path": "/w"}}
        assert engine.routes[3][1] == {"weight_version": "v7"}
    assert out.versions.tolist() == [7], "where an engine doesn't tell, the last known version counts"


def test_the_table_of_rules_is_whole() -> None:
    assert set(RULES) == set(Trouble)
    assert all(r.kind.value.startswith("policy_") for r in RULES.values())


def test_sampling_that_training_can_not_use_is_told_apart() -> None:
    assert SamplingParams().exact
    assert not SamplingParams(top_p=0.9).exact
    assert not SamplingParams(top_k=20).exact
    assert not SamplingParams(temperature=0.0).exact


async def test_a_request_that_an_engine_gave_up_moves_its_session() -> None:
    broken, other = says(200, body([], choice={"finish_reason": "error"})), FakeEngine(GOOD)
    async with serving(FakeEngine(broken), FakeEngine(broken)) as client:
        with pytest.raises(EngineError, match="ended the request"):
            await ask(client)
    async with serving(FakeEngine(broken, GOOD), other) as client:
        assert (await ask(client)).ids.tolist() == [7, 8, 9]


async def test_an_error_with_status_200_is_told_in_the_engines_words() -> None:
    async with serving(FakeEngine(says(200, {"error": {"message": "the KV cache is gone\ud83d"}}))) as client:
        with pytest.raises(EngineError, match="the KV cache is gone\ufffd"):
            await ask(client)


async def test_names_and_counts_that_are_nonsense_cost_nothing_else() -> None:
    odd = body([7], choice={"finish_reason": "st\ud83dop"}, request_id="r\ud83d" * 1000)
    odd["usage"] = {"prompt_tokens_details": {"cached_tokens": float("nan")}}
    async with serving(FakeEngine(says(200, odd))) as client:
        out = await ask(client)
    assert (out.finish, out.cached_tokens, len(out.request_id)) == ("st\ufffdop", None, 200)
    out.request_id.encode()  # it stands in files


@pytest.mark.parametrize("length", [0, -5, True, 1e308, float("inf"), "many", None])
async def test_an_engine_without_a_context_is_no_engine(length: Any) -> None:
    engine = FakeEngine(GOOD)
    engine.models = {"data": [{"id": "tiny", "max_model_len": length}]}
    async with serving(engine, backoff_s=(1000.0,)) as client:  # asked once
        with pytest.raises(EngineError, match="max_model_len"):
            await client.info(Deadline.after(60))
