"""Anthropic Messages (`POST /v1/messages`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from envkit.messages import AssistantMessage, Message, ToolCall, ToolSpec
from envkit.proxy.dialect import (
    AnyMessage,
    BadRequest,
    ModelRequest,
    content_of,
    finish_of,
    list_of,
    name_of,
    number_of,
    require,
    schema_of,
    sse,
    text_of,
    usage_of,
)

__all__ = ["AnthropicDialect"]

_STOPS = {"length": "max_tokens", "tool_calls": "tool_use", "stop": "end_turn"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
#: The input of a call whose arguments are no JSON object: the dialect has no way to carry the text as it stands.
UNPARSED = "__unparsed__"


class AnthropicDialect:
    name = "anthropic"

    def read(self, body: Mapping[str, Any]) -> ModelRequest:
        messages = require(body, "messages", list, "a list of messages")
        if not messages:
            raise BadRequest("messages: expected at least one message, found an empty list")
        out: list[AnyMessage] = []
        system = body.get("system")
        if system:
            out.append(Message(role="system", content=text_of(system, "system")))
        for number, message in enumerate(messages):
            out.extend(self._messages(message, f"messages[{number}]"))
        return ModelRequest(
            messages=tuple(out),
            tools=tuple(self._tool(t, f"tools[{n}]") for n, t in enumerate(list_of(body, "tools"))),
            stream=body.get("stream") is True,
            model=str(body.get("model") or "envkit"),
            max_tokens=number_of(body, "max_tokens"),
        )

    def _messages(self, message: Any, where: str) -> Iterator[AnyMessage]:
        if not isinstance(message, Mapping):
            raise BadRequest(f"{where}: expected an object, found {type(message).__name__}")
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant", "system"):
            raise BadRequest(f"{where}.role: expected user or assistant, found {role!r}")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(blocks, list) or not all(isinstance(b, Mapping) for b in blocks):
            raise BadRequest(f"{where}.content: expected a string or a list of blocks")
        if role == "system":
            yield Message(role="system", content=text_of(blocks, where))
        elif role == "user":
            yield from self._user(blocks, where)
        else:
            yield self._assistant(blocks, where)

    def _user(self, blocks: list[Any], where: str) -> Iterator[AnyMessage]:
        """Tool results are messages of their own; the texts between them are the user's."""
        said: list[Any] = []
        for block in blocks:
            if block.get("type") != "tool_result":
                said.append(block)
                continue
            if said:
                yield self._said(said, where)
                said = []
            text, images = content_of(block.get("content"), f"{where}.tool_result")
            yield Message(
                role="tool",
                content=text,
                tool_call_id=str(block.get("tool_use_id")),
                is_error=block.get("is_error") is True,
                images=images,
            )
        if said:
            yield self._said(said, where)

    def _said(self, blocks: list[Any], where: str) -> Message:
        text, images = content_of(blocks, where)
        return Message(role="user", content=text, images=images)

    def _assistant(self, blocks: list[Any], where: str) -> AssistantMessage:
        texts, calls, reasoning = [], [], []
        for block in blocks:
            kind = block.get("type")
            if kind == "text":
                texts.append(str(block.get("text") or ""))
            elif kind == "thinking":
                reasoning.append(str(block.get("thinking") or ""))
            elif kind == "tool_use":
                given = block.get("input")
                if isinstance(given, Mapping) and set(given) == {UNPARSED}:
                    raw = str(given[UNPARSED])
                else:
                    raw = json.dumps(given if given is not None else {}, ensure_ascii=False)
                calls.append(ToolCall.parse(str(block.get("id")), str(block.get("name") or ""), raw))
            elif kind != "redacted_thinking":
                raise BadRequest(f"{where}: an assistant's block of type {kind!r} is not served")
        return AssistantMessage(text="".join(texts), tool_calls=tuple(calls), reasoning="".join(reasoning) or None)

    def _tool(self, tool: Any, where: str) -> ToolSpec:
        if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
            raise BadRequest(f"{where}: expected a tool with a name, found {tool!r:.200}")
        if tool.get("type") not in (None, "custom") or not isinstance(tool.get("input_schema"), Mapping):
            raise BadRequest(f"{where}: a tool that the provider itself runs ({tool.get('type')!r}) is not served")
        return ToolSpec(
            name=tool["name"],
            description=str(tool.get("description") or ""),
            parameters=schema_of(tool["input_schema"], where),
        )

    def _blocks(self, reply: AssistantMessage) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        if reply.reasoning:
            out.append({"type": "thinking", "thinking": reply.reasoning, "signature": ""})
        if reply.text:
            out.append({"type": "text", "text": reply.text})
        for call in reply.tool_calls:
            given = call.arguments if call.arguments is not None else {UNPARSED: call.arguments_text}
            out.append({"type": "tool_use", "id": call.id, "name": name_of(call), "input": given})
        return out

    def answer(self, request: ModelRequest, reply: AssistantMessage, id: str) -> dict[str, Any]:
        return {
            **self._head(request, reply, id),
            "content": self._blocks(reply),
            "stop_reason": _STOPS[finish_of(reply)],
            "usage": self._usage(reply),
        }

    def _head(self, request: ModelRequest, reply: AssistantMessage, id: str) -> dict[str, Any]:
        return {
            "id": f"msg_{id}",
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**self._usage(reply), "output_tokens": 0},
        }

    def _usage(self, reply: AssistantMessage) -> dict[str, int]:
        prompt, completion, cached = usage_of(reply)
        return {
            "input_tokens": max(0, prompt - cached),
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": completion,
        }

    def events(self, request: ModelRequest, reply: AssistantMessage, id: str) -> Iterator[bytes]:
        def event(kind: str, **fields: Any) -> bytes:
            return sse({"type": kind, **fields}, kind)

        yield event("message_start", message=self._head(request, reply, id))
        for index, block in enumerate(self._blocks(reply)):
            kind = block["type"]
            if kind == "thinking":
                empty = {"type": kind, "thinking": "", "signature": ""}
                delta = {"type": "thinking_delta", "thinking": block["thinking"]}
            elif kind == "text":
                empty = {"type": kind, "text": ""}
                delta = {"type": "text_delta", "text": block["text"]}
            else:
                empty = {**block, "input": {}}
                given = json.dumps(block["input"], ensure_ascii=False)
                delta = {"type": "input_json_delta", "partial_json": given}
            yield event("content_block_start", index=index, content_block=empty)
            yield event("content_block_delta", index=index, delta=delta)
            yield event("content_block_stop", index=index)
        stop = {"stop_reason": _STOPS[finish_of(reply)], "stop_sequence": None}
        yield event("message_delta", delta=stop, usage=self._usage(reply))
        yield event("message_stop")

    def opening(self) -> bytes:
        return self.keep_alive()

    def keep_alive(self) -> bytes:
        return sse({"type": "ping"}, "ping")

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": _ERRORS.get(status, "api_error"), "message": message}}

    def error_event(self, status: int, message: str) -> bytes:
        return sse(self.error(status, message), "error")
