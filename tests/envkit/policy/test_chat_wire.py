"""Answers of every shape become messages; errors of every wording are told apart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_openai import completion
from hypothesis import given
from hypothesis import strategies as st

from envkit.messages import AssistantMessage, Message, ToolCall, ToolSpec
from envkit.policy.chat_client import Meaning, meaning
from envkit.policy.chat_options import ChatOptions, Prices
from envkit.policy.chat_wire import NotAnAnswer, error_text, is_context_error, parse_answer, request_body, to_wire

OPTIONS = ChatOptions(model="m")


def parse(value: Any, options: ChatOptions = OPTIONS) -> AssistantMessage:
    return parse_answer(json.dumps(value).encode(), options, 3)


def test_text_reasoning_calls_and_usage_are_read() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 64}}
    said = parse(completion("Hello", [("bash", {"command": "ls"})], usage=usage, reasoning_content="hm"))
    assert (said.text, said.raw, said.reasoning, said.model, said.finish) == ("Hello", "Hello", "hm", "fake-1", "stop")
    assert said.tool_calls == (ToolCall.parse("call_0", "bash", '{"command": "ls"}'),)
    assert said.usage.model_dump(exclude_none=True) == {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "cached_tokens": 64,
        "context_tokens": 110,
        "waited_s": 0.0,
    }


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("", ""),
        ([{"type": "text", "text": "a"}, {"type": "image_url"}, "b"], "ab"),
        (17, ""),
        ("a\ud800b", "a\ufffdb"),
    ],
)
def test_content_of_any_shape_is_text(content: Any, text: str) -> None:
    assert parse(completion(content)).text == text


def test_a_refusal_is_the_text_and_reasoning_has_two_names() -> None:
    assert parse(completion(None, refusal="I won't")).text == "I won't"
    assert parse(completion("x", reasoning="why")).reasoning == "why"
    assert parse(completion("x", reasoning_content="")).reasoning is None


@pytest.mark.parametrize(
    ("arguments", "parsed", "error"),
    [
        ('{"a": 1}', {"a": 1}, None),
        ("", {}, None),
        ('{"a": 1', None, "not valid JSON"),
        ("[1]", None, "must be a JSON object"),
        ('"text"', None, "must be a JSON object"),
        ("rm -rf", None, "not valid JSON"),
    ],
)
def test_arguments_that_are_no_json_stay_with_the_call(arguments: str, parsed: Any, error: str | None) -> None:
    (call,) = parse(completion("", [("bash", arguments)])).tool_calls
    assert (call.arguments, call.raw_arguments) == (parsed, arguments)
    assert (call.error is None) if error is None else (error in str(call.error))


def test_calls_that_servers_mangle_are_kept_with_ids_of_their_own() -> None:
    value = completion("")
    value["choices"][0]["message"]["tool_calls"] = [
        {"function": {"name": "read", "arguments": {"path": "x"}}},
        {"id": "same", "function": {"name": "read", "arguments": "{}"}},
        {"id": "same", "function": {"name": "read", "arguments": None}},
        {"id": "d", "function": {"arguments": "{}"}},
        {"id": "e", "function": "ls"},
        "ls",
    ]
    calls = parse(value).tool_calls
    assert [call.id for call in calls] == ["call_3_0", "same", "call_3_2", "d", "e", "call_3_5"]
    assert calls[0].arguments == {"path": "x"}
    assert calls[2].arguments == {}
    assert [call.error for call in calls[3:]] == ["the call names no function"] * 3


def test_the_older_function_call_is_read() -> None:
    (call,) = parse(completion("", function_call={"name": "ls", "arguments": "{}"})).tool_calls
    assert call.name == "ls"


@pytest.mark.parametrize(
    ("reason", "limit", "finish"),
    [
        ("stop", None, "stop"),
        ("tool_calls", None, "stop"),
        (None, None, "stop"),
        ("length", None, "length"),
        ("length", 200, "length"),
        ("length", 110, "context"),
        ("MAX_TOKENS", None, "length"),
        ("model_length", None, "context"),
        ("content_filter", None, "content_filter"),
    ],
)
def test_the_reason_to_stop_is_kept_and_a_full_context_recognised(reason: Any, limit: int | None, finish: str) -> None:
    said = parse(completion("half a sen", finish=reason), ChatOptions(model="m", context_limit=limit))
    assert (said.finish, said.text) == (finish, "half a sen")


@pytest.mark.parametrize(
    ("usage", "prices", "cost"),
    [
        ({"prompt_tokens": 1000, "completion_tokens": 100}, None, None),
        ({"prompt_tokens": 1000, "completion_tokens": 100}, Prices(input=2, output=10), 0.003),
        (
            {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_cache_hit_tokens": 500},
            Prices(input=2, output=10, cached=0.2),
            0.0021,
        ),
        ({"prompt_tokens": 10, "completion_tokens": 0, "cached_tokens": 99}, Prices(input=2, output=1, cached=0), 0.0),
        ({"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.5}, Prices(input=1, output=1), 0.5),
        ({"prompt_tokens": 1, "completion_tokens": 1, "cost": "free"}, None, None),
        ({"completion_tokens": 1}, Prices(input=1, output=1), None),
        ({"prompt_tokens": -5, "completion_tokens": True}, Prices(input=1, output=1), None),
        ("many", None, None),
    ],
)
def test_the_cost_is_the_stated_one_or_follows_from_prices(
    usage: Any, prices: Prices | None, cost: float | None
) -> None:
    said = parse(completion("x", usage=usage), ChatOptions(model="m", prices=prices))
    assert said.usage.cost_usd == (None if cost is None else pytest.approx(cost))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><body><h1>502 Bad Gateway</h1></body></html>",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"choices": []}',
        b'{"choices": null}',
        b'{"choices": ["x"]}',
        b'{"choices": [{}]}',
        b'{"choices": [{"message": "x"}]}',
        b'{"error": {"message": "overloaded", "code": 529}}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
    ],
)
def test_a_body_that_is_no_completion_is_not_an_answer(body: bytes) -> None:
    with pytest.raises(NotAnAnswer) as caught:
        parse_answer(body, OPTIONS, 1)
    assert len(str(caught.value)) < 1000


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "message", "tool_calls", "function", "name", "arguments", "content", "id", "usage",
             "prompt_tokens", "finish_reason", "error", "reasoning_content", "prompt_tokens_details", "model"]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip


@pytest.mark.slow
@given(message=_json, usage=_json, reason=_json)
def test_no_json_at_all_breaks_the_parser(message: Any, usage: Any, reason: Any) -> None:
    body = {"choices": [{"message": message, "finish_reason": reason}], "usage": usage}
    try:
        said = parse(body)
    except NotAnAnswer:
        return
    json.dumps(said.model_dump()).encode()
    assert len({call.id for call in said.tool_calls}) == len(said.tool_calls)


def test_an_error_inside_a_200_carries_its_status() -> None:
    with pytest.raises(NotAnAnswer) as caught:
        parse({"error": {"message": "slow down", "code": "429"}})
    assert (caught.value.status, str(caught.value)) == (429, "slow down")
    with pytest.raises(NotAnAnswer) as caught:
        parse({"choices": [{"error": {"message": "lost", "code": 502}}]})
    assert caught.value.status == 502


CONTEXT_ERRORS = [
    (400, '{"error": {"message": "x", "code": "context_length_exceeded"}}'),
    (500, '{"error": {"message": "x", "code": "context_length_exceeded"}}'),
    (400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"),
    (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    (400, "Requested token count exceeds the model's maximum context length of 8192 tokens."),
    (400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
    (400, "prompt is too long: 210000 tokens > 200000 maximum"),
    (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    (400, "Please reduce the length of the messages or completion."),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096"),
    (400, "the request exceeds the available context size. try increasing the context size"),
    (400, "Input is too long for requested model."),
    (400, "too many tokens: total number of tokens in the prompt exceeds the limit"),
    (413, "Prompt too large for the model's context window"),
]


@pytest.mark.parametrize(("status", "text"), CONTEXT_ERRORS)
def test_a_full_context_is_recognised_in_every_wording(status: int, text: str) -> None:
    body = text if text.startswith("{") else json.dumps({"error": {"message": text}})
    assert is_context_error(status, body.encode())
    assert meaning(status, body.encode()) is Meaning.CONTEXT


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "max_tokens is too large: 99999. This model supports at most 4096 completion tokens"),
        (400, "Unsupported parameter: 'max_tokens' is not supported with this model."),
        (429, "Request too large for gpt in organization on tokens per minute (TPM)"),
        (400, "Invalid value for 'temperature'"),
        (500, "internal error while reading the context length"),
        (401, "context_length_exceeded"),
    ],
)
def test_other_errors_are_not_mistaken_for_it(status: int, text: str) -> None:
    assert not is_context_error(status, json.dumps({"error": {"message": text}}).encode())


@pytest.mark.parametrize(
    ("status", "body", "meant"),
    [
        (200, b"{}", Meaning.ANSWER),
        (301, b"", Meaning.REJECTED),
        (400, b"no", Meaning.REJECTED),
        (401, b"", Meaning.REFUSED),
        (402, b"", Meaning.EXHAUSTED),
        (403, b"", Meaning.REFUSED),
        (404, b"", Meaning.REJECTED),
        (408, b"", Meaning.AGAIN),
        (409, b"", Meaning.AGAIN),
        (422, b"", Meaning.REJECTED),
        (429, b"", Meaning.LIMITED),
        (429, b'{"error": {"code": "insufficient_quota"}}', Meaning.EXHAUSTED),
        (500, b"", Meaning.AGAIN),
        (502, b"", Meaning.AGAIN),
        (503, b"", Meaning.AGAIN),
        (529, b"", Meaning.AGAIN),
        (599, b"", Meaning.AGAIN),
    ],
)
def test_every_status_has_one_meaning(status: int, body: bytes, meant: Meaning) -> None:
    assert meaning(status, body) is meant


def test_error_texts_are_short_and_readable() -> None:
    assert error_text(b'{"error": {"message": "no such model"}}') == "no such model"
    assert error_text(b'{"detail": "Not Found"}') == "Not Found"
    assert error_text(b"<html><style>b{}</style><h1>502</h1> Bad Gateway</html>") == "an HTML page: 502 Bad Gateway"
    assert error_text(b"") == "an empty body"
    assert len(error_text(b"x" * 100_000)) < 700


def test_the_request_says_what_the_options_say() -> None:
    options = ChatOptions(
        model="m",
        temperature=0,
        top_p=0.9,
        max_tokens=50,
        max_tokens_field="max_completion_tokens",
        extra_body={"top_k": 5},
    )
    tool = ToolSpec(name="bash", description="runs", parameters={"type": "object"})
    history = to_wire([Message(role="user", content="hi")])
    assert request_body(options, history, [tool], seed=7) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [
            {"type": "function", "function": {"name": "bash", "description": "runs", "parameters": {"type": "object"}}}
        ],
        "temperature": 0.0,
        "top_p": 0.9,
        "max_completion_tokens": 50,
        "seed": 7,
        "top_k": 5,
    }
    assert request_body(OPTIONS, history, []) == {"model": "m", "messages": history}


@pytest.mark.parametrize(
    ("name", "raw", "sent_name", "sent"),
    [
        ("bash", '{"a":  1}', "bash", '{"a":  1}'),
        ("bash", '{"a": ', "bash", '{"unparsable": "{\\"a\\": "}'),
        ("bash", '{"a": NaN}', "bash", '{"unparsable": "{\\"a\\": NaN}"}'),
        ("no such/tool", "{}", "no_such_tool", "{}"),
        ("", "{}", "unnamed", "{}"),
    ],
)
def test_a_call_the_model_got_wrong_is_sent_back_in_a_form_that_servers_take(
    name: str, raw: str, sent_name: str, sent: str
) -> None:
    (wire,) = to_wire([AssistantMessage(tool_calls=(ToolCall.parse("c", name, raw),))])
    assert wire["tool_calls"] == [{"id": "c", "type": "function", "function": {"name": sent_name, "arguments": sent}}]


def test_reasoning_goes_back_only_on_request() -> None:
    said = AssistantMessage(text="x", reasoning="why")
    assert "reasoning_content" not in to_wire([said])[0]
    assert to_wire([said], reasoning=True)[0]["reasoning_content"] == "why"


@pytest.mark.parametrize("number", [10**400, -(10**400), float("inf"), float("nan"), 1e300, True, "5"])
def test_counts_that_are_nonsense_are_as_good_as_not_told(number: Any) -> None:
    usage = {"prompt_tokens": number, "completion_tokens": number, "cost": number, "cached_tokens": number}
    said = parse({"choices": [{"message": {"content": "x"}, "finish_reason": "st\ud83dop"}], "usage": usage})
    assert {said.usage.prompt_tokens, said.usage.completion_tokens, said.usage.cached_tokens, said.usage.cost_usd} == {
        None
    }
    said.model_dump_json()
    with pytest.raises(NotAnAnswer):
        parse({"error": {"message": "x", "code": "9" * 5000}})
