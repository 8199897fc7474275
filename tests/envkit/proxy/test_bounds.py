"""What a hostile program inside the sandbox can do to the proxy with its key: cost a bounded amount, no more."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.messages import AssistantMessage, Image, Message, Observation
from envkit.proxy import BadRequest, Door, ModelProxy, ModelRequest
from envkit.proxy.anthropic import AnthropicDialect
from envkit.proxy.chat import ChatDialect
from envkit.proxy.responses import ResponsesDialect

ROUTE = "/v1/chat/completions"
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
DIALECTS = [ChatDialect(), ResponsesDialect(), AnthropicDialect()]
PNG = "iVBORw0KGgo="


def request(*messages: Message | AssistantMessage) -> ModelRequest:
    return ModelRequest(messages=messages, tools=(), stream=False, model="m")


def client_of(proxy: ModelProxy, door: Door) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {door.token}"}
    return httpx.AsyncClient(base_url=proxy.url, headers=headers, timeout=20)


async def test_a_thousand_abandoned_requests_break_nothing() -> None:
    door = Door()
    refused = 0
    for number in range(1000):
        try:
            exchange = door.submit("chat", request(Message(role="user", content=str(number))), b"%d" % number)
        except BadRequest:
            refused += 1
        else:
            exchange.seen = True  # its client came and left
    assert not refused  # those that nobody waits for make room
    assert door.waiting <= 64
    door.submit("chat", request(Message(role="user", content="real")), b"real")
    seen = await asyncio.wait_for(door.next(), 5)
    assert seen.messages[0].content == "real"  # type: ignore[union-attr]


async def test_a_flood_is_refused_and_the_first_are_served(proxy: ModelProxy, door: Door) -> None:
    async with client_of(proxy, door) as client:
        asked = [asyncio.create_task(client.post(ROUTE, json={**BODY, "seed": n})) for n in range(90)]
        while sum(t.done() for t in asked) < 26:
            await asyncio.sleep(0.01)
        for _ in range(64):
            await door.next()
            door.reply(AssistantMessage(text="x"))
        codes = [r.status_code for r in await asyncio.gather(*asked)]
    assert codes.count(200) == 64
    assert codes.count(429) == 26


async def test_large_bodies_wait_up_to_a_bound() -> None:
    door = Door()
    body = b"x" * (20 << 20)
    for number in range(3):
        door.submit("chat", request(Message(role="user", content=str(number))), b"%d" % number + body)
    with pytest.raises(BadRequest, match="wait already") as caught:
        door.submit("chat", request(Message(role="user", content="4")), b"4" + body)
    assert caught.value.status == 429


@pytest.mark.slow
async def test_connections_above_the_bound_are_cut_off_and_the_others_served(proxy: ModelProxy, door: Door) -> None:
    host, port = proxy.url.removeprefix("http://").split(":")
    held = [await asyncio.open_connection(host, int(port)) for _ in range(195)]
    more = [await asyncio.open_connection(host, int(port)) for _ in range(20)]
    cut = 0
    for reader, _ in more:
        try:
            cut += await asyncio.wait_for(reader.read(1), 1) == b""
        except ConnectionError:
            cut += 1
        except TimeoutError:
            pass
    assert cut >= 10
    for _, writer in (*held, *more):
        writer.close()
    while len(proxy._server.server_state.connections) > 10:  # type: ignore[union-attr]
        await asyncio.sleep(0.01)
    async with client_of(proxy, door) as client:
        asked = asyncio.create_task(client.post(ROUTE, json=BODY))
        await asyncio.wait_for(door.next(), 5)
        door.reply(AssistantMessage(text="x"))
        assert (await asked).status_code == 200


@pytest.mark.parametrize("route", [ROUTE, "/v1/messages/count_tokens"])
async def test_no_body_is_read_for_a_stranger(proxy: ModelProxy, route: str) -> None:
    host, port = proxy.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"POST {route} HTTP/1.1\r\nHost: m\r\nX-Api-Key: no\r\nContent-Length: 1000000000\r\n\r\n".encode())
    # It is told before it has sent a byte of it.
    assert b"401" in await asyncio.wait_for(reader.readline(), 10)
    writer.close()


async def test_a_long_conversation_is_kept_once() -> None:
    """Every request tells the whole again; what stays grows by what is new."""
    door = Door()
    said: list[Any] = [Message(role="user", content="begin")]

    async def turn(number: int) -> None:
        fresh = [
            m.model_copy(
                update={"text": m.text + ""} if isinstance(m, AssistantMessage) else {"content": m.content + ""}
            )
            for m in said
        ]
        door.submit("responses", request(*fresh), b"%d" % number)
        await door.next()
        answer = AssistantMessage(text=f"answer {number} " + "y" * 2000)
        door.reply(answer)
        said.extend([answer, Message(role="user", content=f"more {number} " + "z" * 2000)])

    for number in range(40):
        await turn(number)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(40, 100):
        await turn(number)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 4 << 20  # 250 kB are new; a copy of the whole for each would be 15 MB


_KEYS = [
    "role", "content", "type", "text", "id", "name", "input",
    "arguments", "function", "tool_calls", "tool_use_id", "call_id", "source", "image_url",
    "url", "data", "media_type", "input_schema", "parameters", "output", "summary",
    "system", "tools", "is_error", "thinking",
]  # fmt: skip
JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=6), st.sampled_from(["text", "user", "image"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(_KEYS),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=12,
)
ROLE = st.sampled_from(["user", "assistant", "system", "tool", "developer"])
KIND = st.sampled_from(["message", "function_call", "function_call_output", "reasoning"])
ITEM = st.one_of(
    JUNK, st.fixed_dictionaries({"role": ROLE, "content": JUNK}, optional={"tool_calls": JUNK, "type": KIND})
)


@given(
    st.fixed_dictionaries(
        {"messages": st.one_of(JUNK, st.lists(ITEM, max_size=3)), "input": st.one_of(JUNK, st.lists(ITEM, max_size=3))},
        optional={
            key: JUNK for key in ("tools", "system", "instructions", "stream_options", "previous_response_id", "n")
        },
    )
)
@settings(max_examples=80, deadline=None)
def test_whatever_a_body_says_it_is_read_or_refused_in_words(body: dict[str, Any]) -> None:
    for dialect in DIALECTS:
        try:
            read = dialect.read(body)
        except BadRequest:
            continue
        Observation(messages=read.messages, tools=read.tools).model_dump_json()


async def test_what_no_record_could_hold_does_not_come_in(proxy: ModelProxy, door: Door) -> None:
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"a": deep}
    tool = {"type": "function", "function": {"name": "f", "parameters": deep}}
    async with client_of(proxy, door) as client:
        refused = await client.post(ROUTE, json={**BODY, "tools": [tool]})
        assert refused.status_code == 400
        assert "nested deeper" in refused.json()["error"]["message"]
        half = json.dumps({**BODY, "messages": [{"role": "user", "content": "cut \ud83d"}]})
        asked = asyncio.create_task(client.post(ROUTE, content=half))
        seen = await asyncio.wait_for(door.next(), 5)
        assert json.loads(seen.model_dump_json())["messages"][0]["content"] == "cut \ufffd"
        door.reply(AssistantMessage(text="x"))
        await asked


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (
            ChatDialect(),
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "see"},
                            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                        ],
                    }
                ]
            },
        ),
        (
            ResponsesDialect(),
            {
                "input": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "input_text", "text": "see"},
                            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
                        ],
                    }
                ]
            },
        ),
        (
            AnthropicDialect(),
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "see"},
                            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                        ],
                    }
                ]
            },
        ),
    ],
    ids=["chat", "responses", "anthropic"],
)
def test_pictures_are_carried(dialect: Any, body: dict[str, Any]) -> None:
    (message,) = dialect.read(body).messages
    assert message == Message(role="user", content="see", images=(Image(mime="image/png", data=PNG),))


def test_a_picture_elsewhere_is_named() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    (message,) = ChatDialect().read({"messages": [{"role": "user", "content": [part]}]}).messages
    assert message == Message(role="user", content="[image_url: not shown to this model]")
