"""Messages: what a step accepts, and how unparsable calls are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envkit.failure import UserError
from envkit.messages import AssistantMessage, Image, Message, StopReason, ToolCall, Usage, openai_messages


def test_a_plain_string_is_text_without_calls() -> None:
    message = AssistantMessage.coerce("42")
    assert (message.text, message.tool_calls) == ("42", ())


@pytest.mark.parametrize(
    "action", [{"text": "x", "tool_call": []}, {"role": "assistant", "tool_calls": ["x"]}, 3, None]
)
def test_what_is_no_message_is_the_users_mistake(action: Any) -> None:
    with pytest.raises(UserError):
        AssistantMessage.coerce(action)


def test_the_openai_form_is_accepted_and_round_trips() -> None:
    message = AssistantMessage(text="t", tool_calls=(ToolCall.parse("1", "bash", '{"command": "ls"}'),))
    assert AssistantMessage.coerce(message.to_openai()) == message
    broken = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "function": {"name": "x", "arguments": "{"}}],
    }
    assert AssistantMessage.coerce(broken).tool_calls[0].error


def test_a_message_survives_its_json_form() -> None:
    message = AssistantMessage(
        text="é\u2028", tool_calls=(ToolCall.parse("1", "bash", '{"command": "ls"}'),), usage=Usage(prompt_tokens=3)
    )
    assert AssistantMessage.model_validate_json(message.model_dump_json()) == message


@pytest.mark.parametrize("raw", ["{", "[1]", '"x"', "null", '{"a": 1} trailing'])
def test_unparsable_arguments_are_an_error_the_model_can_read_and_are_kept(raw: str) -> None:
    call = ToolCall.parse("1", "bash", raw)
    assert call.arguments is None
    assert call.error
    assert call.raw_arguments == raw
    assert call.arguments_text == raw


def test_empty_arguments_are_an_empty_object() -> None:
    assert ToolCall.parse("1", "x", "  ").arguments == {}


@given(st.text())
def test_parsing_arguments_never_raises(raw: str) -> None:
    call = ToolCall.parse("1", "x", raw)
    assert (call.arguments is None) == (call.error is not None)


def test_the_openai_form_repeats_the_arguments_as_the_model_wrote_them() -> None:
    raw = '{"b":1,   "a":2}'
    sent = AssistantMessage(tool_calls=(ToolCall.parse("1", "x", raw),)).to_openai()
    assert sent["tool_calls"][0]["function"]["arguments"] == raw
    assert json.dumps(sent)


def test_only_an_answer_is_no_truncation() -> None:
    assert [stop for stop in StopReason if not stop.truncated] == [StopReason.ANSWERED]


def test_arguments_nested_beyond_reason_are_unparsable_not_a_fault() -> None:
    call = ToolCall.parse("1", "bash", "[" * 200_000)
    assert call.arguments is None
    assert "JSON" in (call.error or "")


PNG = Image(mime="image/png", data="iVBORw0KGgo=")


def test_images_follow_a_run_of_tool_messages_for_a_model_that_sees() -> None:
    calls = tuple(ToolCall(id=str(n), name="look", arguments={}) for n in range(2))
    turn = [
        AssistantMessage(tool_calls=calls),
        Message(role="tool", content="[image]", tool_call_id="0", images=(PNG,)),
        Message(role="tool", content="text", tool_call_id="1"),
    ]
    seen = openai_messages([*turn, Message(role="user", content="and this", images=(PNG,))], vision=True)
    assert [m["role"] for m in seen] == ["assistant", "tool", "tool", "user", "user"]
    assert seen[1]["content"] == "[image]"
    assert seen[3]["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    assert [part["type"] for part in seen[4]["content"]] == ["text", "image_url"]


def test_a_model_that_does_not_see_is_told_so() -> None:
    told = openai_messages([Message(role="tool", content="[image]", tool_call_id="0", images=(PNG, PNG))])
    assert len(told) == 1
    assert "2 images are left out" in told[0]["content"]


def test_arguments_that_no_record_could_hold_are_mended_or_refused() -> None:
    cut = ToolCall.parse("1", "write", '{"text": "half \\ud83d", "k": [{"\\ude00": 1}]}')
    assert cut.arguments == {"text": "half \ufffd", "k": [{"\ufffd": 1}]}
    cut.model_dump_json()
    deep = ToolCall.parse("1", "write", '{"a":' * 300 + "1" + "}" * 300)
    assert deep.arguments is None
    assert "nested deeper than 64 levels" in str(deep.error)
    AssistantMessage(tool_calls=(deep,)).model_dump_json()
