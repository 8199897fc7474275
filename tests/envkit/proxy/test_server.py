"""The proxy's promises on the wire: credentials, retries, keep-alives, order, ends, garbage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from envkit.messages import AssistantMessage
from envkit.proxy import Door, ModelProxy

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
ROUTES = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]


def reply(text: str) -> AssistantMessage:
    return AssistantMessage(text=text)


@pytest.fixture
async def client(proxy: ModelProxy, door: Door) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {door.token}"}
    async with httpx.AsyncClient(base_url=proxy.url, headers=headers, timeout=20) as client:
        yield client


def said(response: httpx.Response) -> str:
    return str(response.json()["choices"][0]["message"]["content"])


async def test_the_credential_is_the_trial(proxy: ModelProxy, door: Door, script: Any) -> None:
    other = proxy.add(Door())
    run = script(reply("one"))
    answering = asyncio.create_task(other.next())
    async with httpx.AsyncClient(base_url=proxy.url, timeout=20) as client:
        first = await client.post(ROUTES[0], json=BODY, headers={"x-api-key": door.token})
        assert said(first) == "one"
        asked = asyncio.create_task(
            client.post(ROUTES[0], json=BODY, headers={"authorization": f"bearer {other.token}"})
        )
        await answering
        other.reply(reply("two"))
        assert said(await asked) == "two"
        assert len(run.seen) == 1
        for headers in ({}, {"x-api-key": "sk-wrong"}, {"authorization": "Basic x"}):
            refused = await client.post(ROUTES[0], json=BODY, headers=headers)
            assert refused.status_code == 401
            assert "belongs to no trial" in refused.json()["error"]["message"]


async def test_a_client_that_lost_its_answer_gets_the_same_one(
    proxy: ModelProxy, door: Door, script: Any, client: httpx.AsyncClient
) -> None:
    run = script(reply("first"), reply("second"), delay_s=0.5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.post(ROUTES[0], json=BODY), 0.25)
    # It asks again while the answer is still being made, and gets that one: nothing is sampled twice.
    assert said(await client.post(ROUTES[0], json=BODY)) == "first"
    assert len(run.seen) == 1
    # It was delivered; who asks the same thing now wants another sample.
    assert said(await client.post(ROUTES[0], json=BODY)) == "second"


async def test_an_answer_made_while_nobody_waited_is_kept_for_the_retry(
    door: Door, script: Any, client: httpx.AsyncClient
) -> None:
    run = script(reply("first"), reply("second"), delay_s=0.4)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.post(ROUTES[0], json=BODY), 0.2)
    await asyncio.sleep(0.5)
    assert door.pending is None
    assert said(await client.post(ROUTES[0], json=BODY)) == "first"
    assert len(run.seen) == 1


async def test_a_retry_that_says_so_gets_the_answer_that_was_given(script: Any, client: httpx.AsyncClient) -> None:
    run = script(reply("first"), reply("second"))
    assert said(await client.post(ROUTES[0], json=BODY)) == "first"
    again = await client.post(ROUTES[0], json=BODY, headers={"x-stainless-retry-count": "1"})
    assert said(again) == "first"
    key = {"idempotency-key": "k1"}
    assert said(await client.post(ROUTES[0], json={**BODY, "seed": 1}, headers=key)) == "second"
    assert said(await client.post(ROUTES[0], json={**BODY, "seed": 1}, headers=key)) == "second"
    assert len(run.seen) == 2


async def test_two_clients_that_ask_the_same_at_once_get_two_samples(script: Any, client: httpx.AsyncClient) -> None:
    script(reply("first"), reply("second"), delay_s=0.05)
    both = await asyncio.gather(client.post(ROUTES[0], json=BODY), client.post(ROUTES[0], json=BODY))
    assert sorted(map(said, both)) == ["first", "second"]


async def test_the_sdks_own_retry_is_recognised(proxy: ModelProxy, door: Door, script: Any) -> None:
    proxy._keep_alive_s = 60  # or its timer would never run out
    run = script(reply("first"), reply("second"), delay_s=1.0)
    async with openai.AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key=door.token, max_retries=5, timeout=0.7) as sdk:
        done = await sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello"}])
    assert done.choices[0].message.content == "first"
    assert len(run.seen) == 1


async def test_what_nobody_waits_for_is_not_sampled(door: Door, client: httpx.AsyncClient) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.post(ROUTES[0], json=BODY), 0.2)
    later = asyncio.create_task(client.post(ROUTES[0], json={**BODY, "seed": 2}))
    await asyncio.sleep(0.2)
    await door.next()
    door.reply(reply("the later one"))
    assert said(await later) == "the later one"
    assert door.waiting == 0


async def test_requests_wait_in_order_and_one_is_pending(door: Door, client: httpx.AsyncClient) -> None:
    asked = []
    for number in range(5):
        asked.append(asyncio.create_task(client.post(ROUTES[0], json={**BODY, "seed": number})))
        while door.waiting <= number:
            await asyncio.sleep(0.005)
    for number in range(5):
        await door.next()
        with pytest.raises(RuntimeError, match="reply to it first"):
            await door.next()
        door.reply(reply(str(number)))
    assert [said(r) for r in await asyncio.gather(*asked)] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("route", ROUTES)
async def test_a_waiting_stream_is_kept_alive(route: str, script: Any, client: httpx.AsyncClient) -> None:
    script(reply("at last"), delay_s=0.7)
    body = {"model": "m", "messages": BODY["messages"], "input": "Hello", "max_tokens": 5, "stream": True}
    signs, text = 0, ""
    async with client.stream("POST", route, json=body, timeout=httpx.Timeout(0.4)) as response:
        async for chunk in response.aiter_text():
            signs += chunk.count(": waiting") + chunk.count('"ping"')
            text += chunk
    assert signs >= 4
    assert "at last" in text


async def test_a_plain_answer_is_kept_alive_too(script: Any, client: httpx.AsyncClient) -> None:
    script(reply("at last"), delay_s=0.7)
    response = await client.post(ROUTES[0], json=BODY, timeout=httpx.Timeout(0.4))
    assert response.text.startswith(" ")
    assert said(response) == "at last"


@pytest.mark.parametrize("route", ROUTES)
async def test_a_shut_door_says_why(proxy: ModelProxy, door: Door, route: str, client: httpx.AsyncClient) -> None:
    body = {"model": "m", "messages": BODY["messages"], "input": "Hello", "max_tokens": 5}
    asked = asyncio.create_task(client.post(route, json=body))
    await door.next()
    queued = asyncio.create_task(client.post(route, json={**body, "seed": 1}))
    while not door.waiting:
        await asyncio.sleep(0.005)
    proxy.remove(door, "the turn limit was reached")
    for response in (await asked, await queued, await client.post(route, json=body)):
        assert response.status_code == 403
        assert response.json()["error"]["message"] == "the turn limit was reached"
        assert response.headers["x-should-retry"] == "false"


async def test_a_stream_that_is_refused_ends_with_an_error_event(
    proxy: ModelProxy, door: Door, client: httpx.AsyncClient
) -> None:
    async with client.stream("POST", ROUTES[0], json={**BODY, "stream": True}) as response:
        await door.next()
        proxy.remove(door, "no more")
        text = "".join([chunk async for chunk in response.aiter_text()])
    assert "no more" in text
    assert "[DONE]" not in text


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"{", 400), (b"[]", 400), (b"[" * 200_000, 400), (b"\xff\xfe", 400), (b"", 400), (b'{"messages": "x"}', 400)],
)
async def test_garbage_is_refused_and_harms_nobody(
    content: bytes, status: int, script: Any, client: httpx.AsyncClient
) -> None:
    refused = await client.post(ROUTES[0], content=content)
    assert refused.status_code == status
    assert refused.json()["error"]["message"]
    script(reply("fine"))
    assert said(await client.post(ROUTES[0], json=BODY)) == "fine"


async def test_a_body_without_end_is_refused(client: httpx.AsyncClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(70):
            yield b"x" * (1 << 20)

    try:
        refused = await client.post(ROUTES[0], content=endless())
    except httpx.WriteError:
        return  # the server had seen enough
    assert refused.status_code == 413


async def test_a_unix_socket_serves_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("m.sock")
    async with ModelProxy(socket=path) as proxy:
        door = proxy.add(Door())
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(transport=transport, base_url="http://model") as client:
            asked = asyncio.create_task(client.post(ROUTES[0], json=BODY, headers={"x-api-key": door.token}))
            await door.next()
            door.reply(reply("through the wall"))
            assert said(await asked) == "through the wall"
    assert not path.exists()
    with pytest.raises(OSError, match="107 bytes"):
        await ModelProxy(socket=tmp_path / ("x" * 120)).start()


async def test_stopping_is_bounded_while_clients_hang(door: Door, proxy: ModelProxy, client: httpx.AsyncClient) -> None:
    hanging = [asyncio.create_task(client.post(ROUTES[0], json={**BODY, "seed": n})) for n in range(20)]
    while door.waiting < 20:
        await asyncio.sleep(0.01)
    await asyncio.wait_for(proxy.stop(), 10)
    done = await asyncio.gather(*hanging, return_exceptions=True)
    assert all(isinstance(d, httpx.HTTPError) or d.status_code == 403 for d in done)


async def test_counting_and_listing(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/models")).json()["data"][0]["id"] == "envkit"
    count = await client.post("/v1/messages/count_tokens", content=json.dumps(BODY))
    assert count.json()["input_tokens"] > 5
    assert (await client.get("/health")).text == "OK"
