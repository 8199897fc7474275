"""The three dialects, through their own SDKs against a proxy that really listens."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from envkit.messages import AssistantMessage, Message, ObservationKind, ToolCall, Usage
from envkit.proxy import BadRequest, Door, ModelProxy
from envkit.proxy.anthropic import AnthropicDialect
from envkit.proxy.chat import ChatDialect
from envkit.proxy.dialect import Dialect
from envkit.proxy.responses import ResponsesDialect

PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
CHAT_TOOL = {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": PARAMETERS}}
RESPONSES_TOOL = {"type": "function", "name": "read", "description": "Reads.", "parameters": PARAMETERS}
CLAUDE_TOOL = {"name": "read", "description": "Reads.", "input_schema": PARAMETERS}

USAGE = Usage(prompt_tokens=20, completion_tokens=5, cached_tokens=8, context_tokens=25)
CALLS = AssistantMessage(
    text="I look.",
    reasoning="Where is it?",
    tool_calls=(
        ToolCall.parse("call_1_0", "read", '{"path":"a.txt"}'),
        ToolCall.parse("call_1_1", "read", '{"path": "ä.txt"}'),
    ),
    usage=USAGE,
)
DONE = AssistantMessage(text="It says 42 €.", usage=USAGE)


def chat(proxy: ModelProxy, door: Door) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key=door.token, max_retries=0)


def claude(proxy: ModelProxy, door: Door) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=proxy.url, api_key=door.token, max_retries=0)


def assert_second_turn_appends(seen: list[Any]) -> None:
    """What every dialect must come to: the second observation holds the two results, and nothing else."""
    first, second = seen
    assert [m.role for m in first.messages] == ["system", "user"]
    assert first.kind is ObservationKind.APPEND
    assert first.tools[0].name == "read"
    assert first.tools[0].parameters == PARAMETERS
    assert second.kind is ObservationKind.APPEND
    assert second.thread == "main"
    assert second.tools is None
    assert [(m.role, m.content, m.tool_call_id) for m in second.messages] == [
        ("tool", "forty", "call_1_0"),
        ("tool", "two", "call_1_1"),
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_chat_completions(proxy: ModelProxy, door: Door, script: Any, stream: bool) -> None:
    run = script(CALLS, DONE)
    messages: list[Any] = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Read a and ä."}]
    async with chat(proxy, door) as client:
        first = await ask_chat(client, messages, stream)
        assert first["content"] == "I look."
        assert first["reasoning_content"] == "Where is it?"
        assert [c["function"]["arguments"] for c in first["tool_calls"]] == ['{"path":"a.txt"}', '{"path": "ä.txt"}']
        # The agent tells its own call again in other words: keys spaced otherwise, under a repaired name.
        calls = [dict(c, function={"name": "Read", "arguments": json.dumps({"p": 1})}) for c in first["tool_calls"]]
        messages += [
            {"role": "assistant", "content": "I look.", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_1_0", "content": "forty"},
            {"role": "tool", "tool_call_id": "call_1_1", "content": [{"type": "text", "text": "two"}]},
        ]
        second = await ask_chat(client, messages, stream)
    assert second["content"] == "It says 42 €."
    assert_second_turn_appends(run.seen)


async def ask_chat(client: openai.AsyncOpenAI, messages: list[Any], stream: bool) -> dict[str, Any]:
    if not stream:
        whole = await client.chat.completions.create(model="m", messages=messages, tools=[CHAT_TOOL])  # type: ignore[list-item]
        choice = whole.choices[0]
        assert choice.finish_reason == ("tool_calls" if choice.message.tool_calls else "stop")
        assert whole.usage is not None
        assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (20, 5)
        return choice.message.model_dump(exclude_none=True)
    out: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    usage = None
    events = await client.chat.completions.create(
        model="m",
        messages=messages,
        tools=[CHAT_TOOL],  # type: ignore[list-item]
        stream=True,
        stream_options={"include_usage": True},
    )
    async for chunk in events:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            delta = choice.delta.model_dump(exclude_none=True)
            out["content"] += delta.get("content", "")
            out["reasoning_content"] += delta.get("reasoning_content", "")
            out["tool_calls"] += [{k: v for k, v in c.items() if k != "index"} for c in delta.get("tool_calls", ())]
    assert usage is not None
    assert usage.total_tokens == 25
    return out


@pytest.mark.parametrize("stream", [False, True])
async def test_responses(proxy: ModelProxy, door: Door, script: Any, stream: bool) -> None:
    run = script(CALLS, DONE)
    items: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "Read a and ä."}]}]
    async with chat(proxy, door) as client:
        first = await ask_responses(client, stream, input=items, instructions="You help.")
        assert [item.type for item in first.output] == ["reasoning", "message", "function_call", "function_call"]
        assert first.output_text == "I look."
        items += [item.model_dump(exclude_none=True) for item in first.output]
        items += [
            {"type": "function_call_output", "call_id": "call_1_0", "output": "forty"},
            {"type": "function_call_output", "call_id": "call_1_1", "output": "two"},
        ]
        second = await ask_responses(client, stream, input=items, instructions="You help.")
    assert second.output_text == "It says 42 €."
    assert second.usage.output_tokens == 5
    assert_second_turn_appends(run.seen)


async def ask_responses(client: openai.AsyncOpenAI, stream: bool, **fields: Any) -> Any:
    if not stream:
        return await client.responses.create(model="m", tools=[RESPONSES_TOOL], **fields)
    async with client.responses.stream(model="m", tools=[RESPONSES_TOOL], **fields) as events:
        async for _ in events:
            pass
        return await events.get_final_response()


async def test_responses_go_on_from_an_earlier_answer(proxy: ModelProxy, door: Door, script: Any) -> None:
    run = script(CALLS, DONE)
    results: list[Any] = [
        {"type": "function_call_output", "call_id": "call_1_0", "output": "forty"},
        {"type": "function_call_output", "call_id": "call_1_1", "output": "two"},
    ]
    async with chat(proxy, door) as client:
        first = await ask_responses(client, False, input="Read a and ä.", instructions="You help.")
        await ask_responses(client, False, input=results, previous_response_id=first.id, instructions="You help.")
        assert_second_turn_appends(run.seen)
        with pytest.raises(openai.NotFoundError, match="no answer 'resp_x' was given"):
            await client.responses.create(model="m", input="x", previous_response_id="resp_x")


@pytest.mark.parametrize("stream", [False, True])
async def test_anthropic_messages(proxy: ModelProxy, door: Door, script: Any, stream: bool) -> None:
    run = script(CALLS, DONE)
    messages: list[Any] = [{"role": "user", "content": "Read a and ä."}]
    async with claude(proxy, door) as client:
        first = await ask_claude(client, messages, stream)
        assert [block.type for block in first.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert first.content[3].input == {"path": "ä.txt"}
        assert first.stop_reason == "tool_use"
        assert (first.usage.input_tokens, first.usage.cache_read_input_tokens) == (12, 8)
        messages += [
            {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1_0", "content": "forty"},
                    {"type": "tool_result", "tool_use_id": "call_1_1", "content": [{"type": "text", "text": "two"}]},
                ],
            },
        ]
        second = await ask_claude(client, messages, stream)
    assert second.content[0].text == "It says 42 €."
    assert second.stop_reason == "end_turn"
    assert_second_turn_appends(run.seen)


async def ask_claude(client: anthropic.AsyncAnthropic, messages: list[Any], stream: bool) -> Any:
    fields: dict[str, Any] = {
        "model": "m",
        "max_tokens": 1000,
        "system": [{"type": "text", "text": "You help.", "cache_control": {"type": "ephemeral"}}],
        "messages": messages,
        "tools": [CLAUDE_TOOL],
    }
    if not stream:
        return await client.messages.create(**fields)
    async with client.messages.stream(**fields) as events:
        return await events.get_final_message()


@pytest.mark.parametrize("dialect", [ChatDialect(), ResponsesDialect(), AnthropicDialect()], ids=lambda d: d.name)
@pytest.mark.parametrize("finish", ["length", "context"])
def test_a_cut_answer_says_so(dialect: Dialect, finish: str) -> None:
    reply = AssistantMessage(text="half", finish=finish)
    request = dialect.read({"messages": [{"role": "user", "content": "x"}], "input": "x"})
    said = json.dumps(dialect.answer(request, reply, "1"))
    assert any(
        word in said for word in ('"finish_reason": "length"', "max_output_tokens", '"stop_reason": "max_tokens"')
    )
    assert '"stop"' not in said


def test_a_call_that_could_not_be_parsed_reaches_the_agent_as_it_was_written() -> None:
    broken = ToolCall.parse("call_1_0", "read", '{"path": ')
    reply = AssistantMessage(tool_calls=(broken,))
    dialect = AnthropicDialect()
    request = dialect.read({"messages": [{"role": "user", "content": "x"}]})
    block = dialect.answer(request, reply, "1")["content"][0]
    again = dialect.read({"messages": [{"role": "assistant", "content": [block]}]}).messages[0]
    assert isinstance(again, AssistantMessage)
    assert again.tool_calls[0].raw_arguments == '{"path": '
    assert again.tool_calls[0].arguments is None
    whole = ChatDialect().answer(request, reply, "1")
    assert whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"path": '


def test_a_users_words_between_results_keep_their_place() -> None:
    body = {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": "r", "is_error": True},
                    {"type": "text", "text": "and now"},
                    {"type": "image", "source": {}},
                ],
            }
        ]
    }
    tool, user = AnthropicDialect().read(body).messages
    assert isinstance(tool, Message)
    assert tool.is_error
    assert user == Message(role="user", content="and now\n[image: not shown to this model]")


@pytest.mark.parametrize(
    ("dialect", "body", "said"),
    [
        (ChatDialect(), {}, "messages: expected a list of messages, found nothing"),
        (ChatDialect(), {"messages": []}, "at least one message"),
        (ChatDialect(), {"messages": [3]}, r"messages\[0\]: expected an object, found int"),
        (ChatDialect(), {"messages": [{"role": "robot"}]}, "found 'robot'"),
        (ChatDialect(), {"messages": [{"role": "user", "content": 3}]}, "expected a string or a list of parts"),
        (ChatDialect(), {"messages": [{"role": "user", "content": "x"}], "n": 2}, "one answer a request"),
        (ChatDialect(), {"messages": [{"role": "user"}], "tools": [{"type": "custom"}]}, r"tools\[0\]"),
        (ResponsesDialect(), {"input": 3}, "input: expected a text"),
        (ResponsesDialect(), {"input": [{"type": "computer_call"}]}, "computer_call"),
        (ResponsesDialect(), {"input": "x", "tools": [{"type": "web_search"}]}, "web_search"),
        (AnthropicDialect(), {"messages": [{"role": "user", "content": 3}]}, "a string or a list of blocks"),
        (
            AnthropicDialect(),
            {"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "b", "type": "bash_1"}]},
            "bash_1",
        ),
    ],
)
def test_what_cannot_be_carried_out_is_refused_in_words(dialect: Dialect, body: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        dialect.read(body)
