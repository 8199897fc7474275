"""The Responses API (`POST /v1/responses`). Answers are kept for the length of the trial, so that a request may go on
from `previous_response_id`; nothing else is stored."""

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
    schema_of,
    sse,
    text_of,
    usage_of,
)

__all__ = ["ResponsesDialect"]


class ResponsesDialect:
    name = "responses"

    def read(self, body: Mapping[str, Any]) -> ModelRequest:
        given = body.get("input")
        if not isinstance(given, str | list) or not given:
            raise BadRequest(f"input: expected a text or a list of items, found {type(given).__name__}")
        if body.get("background") is True:
            raise BadRequest("background: answers are given in the request itself; send background=false")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        messages: list[AnyMessage] = []
        instructions = body.get("instructions")
        if instructions:
            messages.append(Message(role="system", content=text_of(instructions, "instructions")))
        for number, item in enumerate(items):
            self._item(item, f"input[{number}]", messages)
        previous = body.get("previous_response_id")
        return ModelRequest(
            messages=tuple(messages),
            tools=tuple(self._tool(t, f"tools[{n}]") for n, t in enumerate(list_of(body, "tools"))),
            stream=body.get("stream") is True,
            model=str(body.get("model") or "envkit"),
            max_tokens=number_of(body, "max_output_tokens"),
            previous=None if previous is None else str(previous),
        )

    def _item(self, item: Any, where: str, out: list[AnyMessage]) -> None:
        """Adds one item. What one answer gave as several items (reasoning, text, calls) becomes one message again."""
        if not isinstance(item, Mapping):
            raise BadRequest(f"{where}: expected an object, found {type(item).__name__}")
        kind = item.get("type") or "message"
        if kind == "message":
            role = item.get("role")
            text, images = content_of(item.get("content"), f"{where}.content")
            if role in ("system", "developer"):
                out.append(Message(role="system", content=text, images=images))
            elif role == "user":
                out.append(Message(role="user", content=text, images=images))
            elif role == "assistant":
                self._join(out, AssistantMessage(text=text))
            else:
                raise BadRequest(f"{where}.role: expected system, developer, user or assistant, found {role!r}")
        elif kind == "function_call":
            raw = item.get("arguments")
            call = ToolCall.parse(
                str(item.get("call_id")), str(item.get("name") or ""), raw if isinstance(raw, str) else ""
            )
            self._join(out, AssistantMessage(tool_calls=(call,)))
        elif kind == "function_call_output":
            output, images = content_of(item.get("output"), f"{where}.output")
            out.append(Message(role="tool", content=output, tool_call_id=str(item.get("call_id")), images=images))
        elif kind == "reasoning":
            text = text_of(item.get("content") or item.get("summary") or "", where, _REASONING)
            self._join(out, AssistantMessage(reasoning=text or None))
        else:
            raise BadRequest(f"{where}.type: an item of type {kind!r} is not served")

    def _join(self, out: list[AnyMessage], new: AssistantMessage) -> None:
        last = out[-1] if out else None
        if not isinstance(last, AssistantMessage):
            out.append(new)
            return
        out[-1] = AssistantMessage(
            text=last.text + new.text,
            tool_calls=(*last.tool_calls, *new.tool_calls),
            reasoning="".join(r for r in (last.reasoning, new.reasoning) if r) or None,
        )

    def _tool(self, tool: Any, where: str) -> ToolSpec:
        if not isinstance(tool, Mapping) or tool.get("type") != "function" or not isinstance(tool.get("name"), str):
            kind = tool.get("type") if isinstance(tool, Mapping) else type(tool).__name__
            raise BadRequest(f"{where}: expected a tool of type function, found {kind!r}")
        return ToolSpec(
            name=tool["name"],
            description=str(tool.get("description") or ""),
            parameters=schema_of(tool.get("parameters"), where),
        )

    def _items(self, reply: AssistantMessage, id: str) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        if reply.reasoning:
            summary = [{"type": "summary_text", "text": reply.reasoning}]
            out.append({"type": "reasoning", "id": f"rs_{id}", "summary": summary})
        if reply.text or not reply.tool_calls:
            part = {"type": "output_text", "text": reply.text, "annotations": []}
            out.append(
                {"type": "message", "id": f"msg_{id}", "role": "assistant", "status": "completed", "content": [part]}
            )
        for number, call in enumerate(reply.tool_calls):
            out.append(
                {
                    "type": "function_call",
                    "id": f"fc_{id}_{number}",
                    "call_id": call.id,
                    "name": name_of(call),
                    "arguments": call.arguments_text,
                    "status": "completed",
                }
            )
        return out

    def answer(self, request: ModelRequest, reply: AssistantMessage, id: str) -> dict[str, Any]:
        return self._response(request, reply, id, self._items(reply, id), done=True)

    def _response(
        self, request: ModelRequest, reply: AssistantMessage, id: str, output: list[dict[str, Any]], *, done: bool
    ) -> dict[str, Any]:
        cut = finish_of(reply) == "length"
        prompt, completion, cached = usage_of(reply)
        usage = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + completion,
        }
        return {
            "id": f"resp_{id}",
            "object": "response",
            "created_at": int(time.time()),
            "status": ("incomplete" if cut else "completed") if done else "in_progress",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if done and cut else None,
            "instructions": None,
            "metadata": {},
            "model": request.model,
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": request.previous,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "usage": usage if done else None,
        }

    def events(self, request: ModelRequest, reply: AssistantMessage, id: str) -> Iterator[bytes]:
        number = 0

        def event(kind: str, **fields: Any) -> bytes:
            nonlocal number
            number += 1
            return sse({"type": kind, "sequence_number": number - 1, **fields}, kind)

        empty = self._response(request, reply, id, [], done=False)
        yield event("response.created", response=empty)
        yield event("response.in_progress", response=empty)
        items = self._items(reply, id)
        for index, item in enumerate(items):
            at = {"item_id": item["id"], "output_index": index}
            if item["type"] == "message":
                part = item["content"][0]
                where = {**at, "content_index": 0}
                bare = {**item, "status": "in_progress", "content": []}
                yield event("response.output_item.added", output_index=index, item=bare)
                yield event("response.content_part.added", **where, part={**part, "text": ""})
                yield event("response.output_text.delta", **where, delta=part["text"], logprobs=[])
                yield event("response.output_text.done", **where, text=part["text"], logprobs=[])
                yield event("response.content_part.done", **where, part=part)
            elif item["type"] == "function_call":
                bare = {**item, "status": "in_progress", "arguments": ""}
                yield event("response.output_item.added", output_index=index, item=bare)
                yield event("response.function_call_arguments.delta", **at, delta=item["arguments"])
                yield event(
                    "response.function_call_arguments.done", **at, name=item["name"], arguments=item["arguments"]
                )
            else:
                summary = item["summary"][0]
                where = {**at, "summary_index": 0}
                yield event("response.output_item.added", output_index=index, item={**item, "summary": []})
                yield event("response.reasoning_summary_part.added", **where, part={**summary, "text": ""})
                yield event("response.reasoning_summary_text.delta", **where, delta=summary["text"])
                yield event("response.reasoning_summary_text.done", **where, text=summary["text"])
                yield event("response.reasoning_summary_part.done", **where, part=summary)
            yield event("response.output_item.done", output_index=index, item=item)
        whole = self._response(request, reply, id, items, done=True)
        yield event(f"response.{whole['status']}", response=whole)

    def opening(self) -> bytes:
        return b": waiting\n\n"

    def keep_alive(self) -> bytes:
        return b": waiting\n\n"

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = "invalid_request_error" if status < 500 else "server_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def error_event(self, status: int, message: str) -> bytes:
        return sse({"type": "error", "code": str(status), "message": message, "param": None}, "error")


_REASONING = ("summary_text", "reasoning_text", "text")
