"""What the three dialects of the model proxy have in common: a request read, an answer written.

A dialect turns the body of a request into our messages, and an assistant message into the body or the events that its
SDKs expect. It knows nothing about trials, threads or policies. Refused is whatever would change what the model is
asked in a way we don't carry out; settings of sampling are the policy's and are left aside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from envkit.messages import AssistantMessage, Image, Message, ToolCall, ToolSpec, sound

__all__ = [
    "AnyMessage",
    "BadRequest",
    "Dialect",
    "ModelRequest",
    "content_of",
    "finish_of",
    "list_of",
    "name_of",
    "number_of",
    "require",
    "schema_of",
    "sse",
    "text_of",
    "usage_of",
]

_DATA_URL = re.compile(r"data:(image/[a-z0-9.+-]+);base64,([A-Za-z0-9+/]+={0,2})", re.IGNORECASE)

AnyMessage = Message | AssistantMessage


class BadRequest(Exception):
    """A request that can't be carried out as it stands; `status` is the HTTP status of the answer."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request of an agent to its model.

    Attributes:
        messages: The whole conversation as the agent tells it.
        tools: What it offers; empty for none.
        stream: Whether it wants events.
        model: The name it asked for; it is echoed and means nothing.
        max_tokens: The completion it asked for at most, if it said so.
        include_usage: Chat Completions only: a last chunk with the usage.
        previous: Responses only: the id of the answer that this request goes on from.
    """

    messages: tuple[AnyMessage, ...]
    tools: tuple[ToolSpec, ...]
    stream: bool
    model: str
    max_tokens: int | None = None
    include_usage: bool = False
    previous: str | None = None


class Dialect(Protocol):
    """One API. `name` goes into answers' ids and records."""

    name: str

    def read(self, body: Mapping[str, Any]) -> ModelRequest:
        """Raises `BadRequest` for what can't be carried out."""
        ...

    def answer(self, request: ModelRequest, reply: AssistantMessage, id: str) -> dict[str, Any]: ...

    def events(self, request: ModelRequest, reply: AssistantMessage, id: str) -> Iterator[bytes]: ...

    def opening(self) -> bytes:
        """What a stream may begin with before the answer is there, so that a client's timer starts anew."""
        ...

    def keep_alive(self) -> bytes: ...

    def error(self, status: int, message: str) -> dict[str, Any]: ...

    def error_event(self, status: int, message: str) -> bytes: ...


def sse(data: Mapping[str, Any] | str, event: str | None = None) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {text}\n\n".encode("utf-8", "replace")


def text_of(content: Any, where: str, text_types: Sequence[str] = ("text", "input_text", "output_text")) -> str:
    """The text of a message's content: a string, or a list of parts. A part that is no text is named in its place.

    Raises:
        BadRequest: It is neither.
    """
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(_named(p, where, text_types) for p in _parts(content, where))


def content_of(content: Any, where: str) -> tuple[str, tuple[Image, ...]]:
    """The text of a message's content, and the images that it carries in itself. Others are named like other parts.

    Raises:
        BadRequest: It is neither a string nor a list of parts.
    """
    if not isinstance(content, list):
        return text_of(content, where), ()
    texts: list[str] = []
    images: list[Image] = []
    for part in _parts(content, where):
        image = _image_of(part) if isinstance(part, Mapping) else None
        if image is not None:
            images.append(image)
        else:
            texts.append(_named(part, where))
    return "\n".join(texts), tuple(images)


def _parts(content: Any, where: str) -> list[Any]:
    if not isinstance(content, list):
        raise BadRequest(f"{where}: expected a string or a list of parts, found {type(content).__name__}")
    return content


def _named(part: Any, where: str, text_types: Sequence[str] = ("text", "input_text", "output_text")) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise BadRequest(f"{where}: expected parts that are objects, found {type(part).__name__}")
    kind = part.get("type")
    if kind in text_types and isinstance(part.get("text"), str):
        return str(part["text"])
    if kind == "refusal":
        return str(part.get("refusal") or "")
    return f"[{kind or 'a part without a type'}: not shown to this model]"


def _image_of(part: Mapping[str, Any]) -> Image | None:
    """The image in a part of any of the dialects, where its bytes are there and need not be fetched."""
    kind, url = part.get("type"), part.get("image_url")
    if kind == "image":
        source = part.get("source")
        if not isinstance(source, Mapping) or source.get("type") != "base64":
            return None
        url = f"data:{source.get('media_type')};base64,{source.get('data')}"
    elif kind == "image_url" and isinstance(url, Mapping):
        url = url.get("url")
    elif kind not in ("image_url", "input_image"):
        return None
    found = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
    return None if found is None else Image(mime=found[1].lower(), data=found[2])


def list_of(body: Mapping[str, Any], key: str, where: str = "") -> list[Any]:
    """A list that may be missing. Raises `BadRequest`."""
    value = body.get(key)
    if value is not None and not isinstance(value, list):
        raise BadRequest(f"{where}{key}: expected a list, found {type(value).__name__}")
    return value or []


def schema_of(value: Any, where: str) -> dict[str, Any]:
    """A tool's parameters; an empty object where there are none. Raises `BadRequest` for a schema without bottom."""
    if not isinstance(value, Mapping):
        return {"type": "object", "properties": {}}
    try:
        return dict(sound(dict(value)))
    except ValueError as error:
        raise BadRequest(f"{where}: the parameters are {error}") from error


def finish_of(reply: AssistantMessage) -> str:
    """`length`, `tool_calls` or `stop`."""
    if reply.finish in ("length", "context"):
        return "length"
    return "tool_calls" if reply.tool_calls else "stop"


def usage_of(reply: AssistantMessage) -> tuple[int, int, int]:
    """Tokens of the prompt, of the completion, and of the prompt from a cache; 0 where the policy does not know."""
    usage = reply.usage
    return usage.prompt_tokens or 0, usage.completion_tokens or 0, usage.cached_tokens or 0


def name_of(call: ToolCall) -> str:
    """A name that an SDK accepts, also for a call whose name could not be read."""
    return call.name or "unparsable_call"


def require(body: Mapping[str, Any], key: str, kind: type | tuple[type, ...], what: str) -> Any:
    """A field that must be there. Raises `BadRequest`."""
    value = body.get(key)
    if not isinstance(value, kind):
        raise BadRequest(f"{key}: expected {what}, found {type(value).__name__ if key in body else 'nothing'}")
    return value


def number_of(body: Mapping[str, Any], *keys: str) -> int | None:
    """The first of these fields that holds a count."""
    for key in keys:
        value = body.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
