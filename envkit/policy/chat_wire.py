"""The Chat Completions form of messages: requests built, answers parsed, errors told apart. Pure functions.

Whatever an endpoint sends, parsing ends in an `AssistantMessage` or in `NotAnAnswer`. What the *model* got wrong (tool
arguments that are no JSON, a call without a name) stays in the message, for the harness to tell the model; what the
*endpoint* got wrong (no choices, an error page) is `NotAnAnswer`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from envkit.messages import AssistantMessage, Message, ToolCall, ToolSpec, Usage, openai_messages, well_formed
from envkit.policy.chat_options import ChatOptions, Prices

__all__ = ["NotAnAnswer", "error_text", "is_context_error", "is_quota_error", "parse_answer", "request_body", "to_wire"]

_SHOWN_CHARS = 600
#: Above what any endpoint counts or charges: beyond it (and NaN) is nonsense, and as good as not told.
_MOST = 10**12


class NotAnAnswer(Exception):
    """A body that is no chat completion. `status` is set where it carries an error with an HTTP-like code."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def request_body(
    options: ChatOptions, messages: list[dict[str, Any]], tools: Sequence[ToolSpec], seed: int | None = None
) -> dict[str, Any]:
    """The JSON body of a request, from messages that are already in wire form."""
    body: dict[str, Any] = {"model": options.model, "messages": messages}
    if tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in tools
        ]
    for name, value in (
        ("temperature", options.temperature),
        ("top_p", options.top_p),
        (options.max_tokens_field, options.max_tokens),
        ("seed", seed),
    ):
        if value is not None:
            body[name] = value
    return {**body, **options.extra_body}


def to_wire(
    messages: Sequence[Message | AssistantMessage], *, reasoning: bool = False, vision: bool = False
) -> list[dict[str, Any]]:
    """Messages as they stand in the history of a request, images included where the model sees.

    A server refuses the whole request when a call in the history has arguments that are no JSON or a name that no
    function can have; but what the model got wrong must not end the trial. So such a call is shown in a form that every
    server takes; the tool's result tells the model what it wrote.
    """
    out = openai_messages(messages, vision=vision)
    sampled = (m for m in messages if isinstance(m, AssistantMessage) or m.role == "assistant")
    for wire, message in zip((entry for entry in out if entry["role"] == "assistant"), sampled, strict=True):
        if not isinstance(message, AssistantMessage):
            continue
        for call, shown in zip(message.tool_calls, wire.get("tool_calls", ()), strict=False):
            function = shown["function"]
            function["name"] = _NO_NAME.sub("_", call.name)[:64] or "unnamed"
            if not _is_strict_object(function["arguments"]):
                function["arguments"] = json.dumps({"unparsable": function["arguments"]})
        if reasoning and message.reasoning:
            wire["reasoning_content"] = message.reasoning
    return out


_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def _is_strict_object(text: str) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        return isinstance(json.loads(text, parse_constant=refuse), dict)
    except (ValueError, RecursionError):
        return False


def parse_answer(body: bytes, options: ChatOptions, turn: int) -> AssistantMessage:
    """Reads the body of a successful answer.

    Args:
        turn: Makes up ids for tool calls that have none, unique within the conversation.

    Raises:
        NotAnAnswer: It is no chat completion.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise NotAnAnswer(f"expected JSON, found {shown(body)}") from None
    if not isinstance(value, dict):
        raise NotAnAnswer(f"expected a JSON object, found {shown(body)}")
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        if value.get("error"):
            raise NotAnAnswer(error_text(body), _error_status(value["error"]))
        raise NotAnAnswer(f"the answer has no choices: {shown(body)}")
    choice = choices[0]
    if choice.get("error") and not choice.get("message"):
        raise NotAnAnswer(error_text(json.dumps(choice).encode()), _error_status(choice["error"]))
    said = choice.get("message")
    if not isinstance(said, dict):
        raise NotAnAnswer(f"the first choice has no message: {shown(body)}")
    text = well_formed(_text(said.get("content")) or _text(said.get("refusal")))
    usage = _usage(value.get("usage"), options)
    model = value.get("model")
    return AssistantMessage(
        text=text,
        tool_calls=_tool_calls(said, turn),
        reasoning=well_formed(_text(said.get("reasoning_content")) or _text(said.get("reasoning"))) or None,
        raw=text,
        finish=_finish(choice.get("finish_reason"), usage),
        usage=usage,
        model=well_formed(model) if isinstance(model, str) and model else options.model,
    )


def _text(content: Any) -> str:
    """Text of a content field: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return "".join(text for text in texts if isinstance(text, str))
    return ""


def _tool_calls(said: dict[str, Any], turn: int) -> tuple[ToolCall, ...]:
    listed = said.get("tool_calls")
    entries = list(listed) if isinstance(listed, list) else []
    if not entries and isinstance(said.get("function_call"), dict):
        entries = [{"function": said["function_call"]}]  # the older form
    calls: list[ToolCall] = []
    taken: set[str] = set()
    for position, entry in enumerate(entries):
        made_up = f"call_{turn}_{position}"
        given = entry.get("id") if isinstance(entry, dict) else None
        id = well_formed(given) if isinstance(given, str) and given and given not in taken else made_up
        taken.add(id)
        function = entry.get("function") if isinstance(entry, dict) else None
        if not isinstance(function, dict):
            error = "the call names no function"
            calls.append(ToolCall(id=id, name="", raw_arguments=well_formed(json.dumps(entry)), error=error))
            continue
        name = function.get("name")
        arguments = function.get("arguments")
        if not isinstance(arguments, str):  # some servers send the object itself
            arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
        call = ToolCall.parse(id, well_formed(name) if isinstance(name, str) else "", well_formed(arguments))
        if not call.name and call.error is None:
            call = call.model_copy(update={"error": "the call names no function"})
        calls.append(call)
    return tuple(calls)


_FINISH = {"tool_calls": "stop", "function_call": "stop", "max_tokens": "length", "model_length": "context"}


def _finish(reason: Any, usage: Usage) -> str:
    if not isinstance(reason, str) or not reason:
        return "stop"
    finish = _FINISH.get(reason.lower(), well_formed(reason)[:_SHOWN_CHARS])
    full = usage.context_limit is not None and (usage.context_tokens or 0) >= usage.context_limit
    return "context" if finish == "length" and full else finish


def _usage(value: Any, options: ChatOptions) -> Usage:
    usage = value if isinstance(value, dict) else {}
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    for other in ("prompt_cache_hit_tokens", "cached_tokens"):
        cached = _count(usage.get(other)) if cached is None else cached
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        context_tokens=None if prompt is None else prompt + (completion or 0),
        context_limit=options.context_limit,
        cost_usd=_cost(usage.get("cost"), prompt, completion, cached, options.prices),
    )


def _cost(
    stated: Any, prompt: int | None, completion: int | None, cached: int | None, prices: Prices | None
) -> float | None:
    if isinstance(stated, (int, float)) and not isinstance(stated, bool) and 0 <= stated <= _MOST:
        return float(stated)
    if prices is None or prompt is None:
        return None
    hits = min(cached or 0, prompt)
    hit_price = prices.input if prices.cached is None else prices.cached
    return ((prompt - hits) * prices.input + hits * hit_price + (completion or 0) * prices.output) / 1e6


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MOST:
        return None
    return int(value)


def _error_status(error: Any) -> int | None:
    code = error.get("code", error.get("status")) if isinstance(error, dict) else None
    if isinstance(code, str) and code.isdecimal() and len(code) == 3:
        code = int(code)
    return code if isinstance(code, int) and 400 <= code <= 599 else None


_CONTEXT_CODE = re.compile(
    r"context_length_exceeded|context_window_exceeded|context_too_long|exceed_context_size_error"
)
_CONTEXT_WORDS = re.compile(
    r"maximum context length|context (length|window|size|limit)|maximum model length|max_model_len|max_seq_len"
    r"|prompt is too long|(input|prompt|request) (is )?too (long|large) for"
    r"|too many (input |prompt )?tokens|input token count|reduce the length of"
    r"|maximum (number of|allowed) (input )?tokens|input (length|tokens)\b.{0,80}\b(exceed|longer|must be)"
    r"|inputs?`? tokens \+|longer than the model|exceeds? the model.s max",
    re.IGNORECASE | re.DOTALL,
)
_ABOUT_PARAMETER = re.compile(
    r"unsupported parameter|unknown parameter|unrecognized|rate limit|per minute", re.IGNORECASE
)


def is_context_error(status: int, body: bytes) -> bool:
    """Whether an error says that the conversation no longer fits the model's context, in whatever words."""
    if status not in (400, 413, 422, 500):
        return False
    text = body[:20_000].decode("utf-8", "replace")
    if _CONTEXT_CODE.search(text):
        return True
    return status != 500 and bool(_CONTEXT_WORDS.search(text)) and not _ABOUT_PARAMETER.search(text)


def is_quota_error(status: int, body: bytes) -> bool:
    """Whether a key's credit is used up, so that waiting does not help."""
    if status == 402:
        return True
    text = body[:20_000].decode("utf-8", "replace")
    return status == 429 and bool(re.search(r"insufficient_quota|billing_hard_limit|credit balance", text))


def error_text(body: bytes) -> str:
    """What an error's body says, for a message: its `message`, else its visible text, shortened."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return shown(body)
    for key in ("error", "message", "detail"):
        inner = value.get(key) if isinstance(value, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("message"), str) and inner["message"]:
            inner = inner["message"]
        if isinstance(inner, str) and inner:
            return well_formed(inner)[:_SHOWN_CHARS]
    return shown(body)


def shown(body: bytes) -> str:
    """A body as one short line: of an HTML page, the text."""
    text = body[:50_000].decode("utf-8", "replace")
    if re.search(r"<html|<!doctype|<body", text, re.IGNORECASE):
        text = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", text, flags=re.IGNORECASE | re.DOTALL)
        text = "an HTML page: " + " ".join(text.split())
    text = " ".join(text.split())
    if not text:
        return "an empty body"
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
