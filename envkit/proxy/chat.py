"""Chat Completions (`POST /v1/chat/completions`): the dialect that most agents speak."""

from __future__ import annotations

import time
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
    usage_of,
)

__all__ = ["ChatDialect"]


class ChatDialect:
    name = "chat"

    def read(self, body: Mapping[str, Any]) -> ModelRequest:
        messages = require(body, "messages", list, "a list of messages")
        if not messages:
            raise BadRequest("messages: expected at least one message, found an empty list")
        if body.get("n") not in (None, 1):
            raise BadRequest(
                f"n: this endpoint gives one answer a request, found n={body['n']!r}; ask again for another"
            )
        if body.get("functions"):
            raise BadRequest("functions: the form before `tools` is not served; send tools")
        options = body.get("stream_options")
        return ModelRequest(
            messages=tuple(self._message(m, f"messages[{n}]") for n, m in enumerate(messages)),
            tools=tuple(self._tool(t, f"tools[{n}]") for n, t in enumerate(list_of(body, "tools"))),
            stream=body.get("stream") is True,
            model=str(body.get("model") or "envkit"),
            max_tokens=number_of(body, "max_completion_tokens", "max_tokens"),
            include_usage=isinstance(options, Mapping) and options.get("include_usage") is True,
        )

    def _message(self, message: Any, where: str) -> AnyMessage:
        if not isinstance(message, Mapping):
            raise BadRequest(f"{where}: expected an object, found {type(message).__name__}")
        role = message.get("role")
        text, images = content_of(message.get("content"), f"{where}.content")
        if role in ("system", "developer"):
            return Message(role="system", content=text, images=images)
        if role == "user":
            return Message(role="user", content=text, images=images)
        if role == "tool":
            call_id = message.get("tool_call_id")
            return Message(
                role="tool", content=text, tool_call_id=None if call_id is None else str(call_id), images=images
            )
        if role == "assistant":
            calls = []
            for number, call in enumerate(list_of(message, "tool_calls", f"{where}.")):
                function = call.get("function") if isinstance(call, Mapping) else None
                if not isinstance(function, Mapping):
                    raise BadRequest(f"{where}.tool_calls[{number}]: expected a function call")
                raw = function.get("arguments")
                calls.append(
                    ToolCall.parse(
                        str(call.get("id") or f"call-{number}"),
                        str(function.get("name") or ""),
                        raw if isinstance(raw, str) else "",
                    )
                )
            reasoning = message.get("reasoning_content")
            return AssistantMessage(
                text=text, tool_calls=tuple(calls), reasoning=reasoning if isinstance(reasoning, str) else None
            )
        raise BadRequest(f"{where}.role: expected system, developer, user, assistant or tool, found {role!r}")

    def _tool(self, tool: Any, where: str) -> ToolSpec:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise BadRequest(f"{where}: expected a tool of type function, found {tool!r:.200}")
        return ToolSpec(
            name=function["name"],
            description=str(function.get("description") or ""),
            parameters=schema_of(function.get("parameters"), where),
        )

    def answer(self, request: ModelRequest, reply: AssistantMessage, id: str) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": reply.text if reply.text or not reply.tool_calls else None,
        }
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.tool_calls:
            message["tool_calls"] = [self._call(call) for call in reply.tool_calls]
        return {
            "id": f"chatcmpl-{id}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": request.model,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish_of(reply)}],
            "usage": self._usage(reply),
        }

    def events(self, request: ModelRequest, reply: AssistantMessage, id: str) -> Iterator[bytes]:
        head = {
            "id": f"chatcmpl-{id}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": request.model,
        }

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            return sse({**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]})

        yield chunk({"role": "assistant", "content": ""})
        if reply.reasoning:
            yield chunk({"reasoning_content": reply.reasoning})
        if reply.text:
            yield chunk({"content": reply.text})
        for number, call in enumerate(reply.tool_calls):
            yield chunk({"tool_calls": [{"index": number, **self._call(call)}]})
        yield chunk({}, finish_of(reply))
        if request.include_usage:
            yield sse({**head, "choices": [], "usage": self._usage(reply)})
        yield sse("[DONE]")

    def _call(self, call: ToolCall) -> dict[str, Any]:
        return {
            "id": call.id,
            "type": "function",
            "function": {"name": name_of(call), "arguments": call.arguments_text},
        }

    def _usage(self, reply: AssistantMessage) -> dict[str, Any]:
        prompt, completion, cached = usage_of(reply)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    def opening(self) -> bytes:
        return b": waiting\n\n"

    def keep_alive(self) -> bytes:
        return b": waiting\n\n"

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": _error_type(status), "param": None, "code": None}}

    def error_event(self, status: int, message: str) -> bytes:
        return sse(self.error(status, message))


def _error_type(status: int) -> str:
    if status == 401:
        return "authentication_error"
    return "invalid_request_error" if status < 500 else "server_error"
