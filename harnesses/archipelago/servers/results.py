"""What a call comes to, as data that travels from the child that made it to the client: blocks, an object, an error.

A result is never null: what a handler left out is left out of the object too. Text beyond the cap is cut with a notice
that says so; an object or an image beyond it is an error that says how large it was. Nothing here knows the protocol.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from envkit.harnesses.archipelago.servers.app import Image, ToolError

__all__ = ["MAX_IMAGE", "MAX_TEXT", "Outcome", "from_value", "plain"]

#: Characters of text in one result.
MAX_TEXT = 2_000_000
#: Bytes of one image.
MAX_IMAGE = 20 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call comes to.

    Attributes:
        blocks: MCP content blocks: `{type: text, text}` and `{type: image, data, mimeType}`.
        structured: The same as an object, where the tool gives one.
        error: Whether the call failed; the text says why.
        fault: Where the failure is a fault of ours, not of the arguments: its trace.
    """

    blocks: list[dict[str, Any]] = field(default_factory=list)
    structured: dict[str, Any] | None = None
    error: bool = False
    fault: str | None = None

    @classmethod
    def failed(cls, message: str, *, fault: str | None = None, structured: dict[str, Any] | None = None) -> Outcome:
        return cls([{"type": "text", "text": message}], structured, error=True, fault=fault)

    @property
    def text(self) -> str:
        """All of its text."""
        return "\n".join(block["text"] for block in self.blocks if block["type"] == "text")

    def dump(self) -> bytes:
        content: dict[str, Any] = {"blocks": self.blocks, "error": self.error}
        if self.structured is not None:
            content["structured"] = self.structured
        if self.fault is not None:
            content["fault"] = self.fault
        return json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def load(cls, data: bytes) -> Outcome:
        """Raises `ValueError` for what is no outcome."""
        content = json.loads(data)
        if not isinstance(content, dict) or not isinstance(content.get("blocks"), list):
            raise ValueError("expected an object with blocks")
        return cls(content["blocks"], content.get("structured"), bool(content.get("error")), content.get("fault"))


def plain(value: Any) -> Any:
    """A value as JSON holds it, without nulls: models and objects lose their unset fields. Lists keep their length."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return ["" if item is None else plain(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, str):
        return _sound(value)
    return value


def from_value(value: Any) -> Outcome:
    """The outcome of what a handler returned. Raises `ToolError` where it is too large."""
    if isinstance(value, BaseModel):
        content = plain(value)
        return structured(content if isinstance(content, dict) else {"result": content})
    return Outcome(blocks_of(value))


def structured(content: dict[str, Any], *, also_text: bool = True, blocks: Sequence[dict[str, Any]] = ()) -> Outcome:
    """An object, and the same as JSON text. Raises `ToolError` where it is too large."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    if len(text) > MAX_TEXT:
        raise ToolError(
            f"the result has {len(text):,} characters; at most {MAX_TEXT:,} are given back. Ask for a part of it"
        )
    return Outcome([{"type": "text", "text": text}, *blocks], content if also_text else None)


def blocks_of(value: Any) -> list[dict[str, Any]]:
    """Text and images as blocks; a model within a list is JSON text."""
    if isinstance(value, Image):
        if len(value.data) > MAX_IMAGE:
            raise ToolError(f"the image has {len(value.data):,} bytes; at most {MAX_IMAGE:,} are given back")
        data = base64.b64encode(value.data).decode("ascii")
        return [{"type": "image", "data": data, "mimeType": value.mime}]
    if isinstance(value, (list, tuple)):
        return [block for item in value for block in blocks_of(item)]
    if isinstance(value, (BaseModel, dict)):
        return structured(plain(value)).blocks
    if not isinstance(value, str):
        raise TypeError(f"a handler returns text, a model, an image or a list of these; found {type(value).__name__}")
    return [{"type": "text", "text": cut(_sound(value)) or "(empty)"}]


def cut(text: str) -> str:
    """Text within the cap, with a notice where it was cut."""
    if len(text) <= MAX_TEXT:
        return text
    return (
        f"{text[:MAX_TEXT]}\n[cut here: the result has {len(text):,} characters, of which the first {MAX_TEXT:,} are "
        "shown; ask for a part of it]"
    )


def _sound(text: str) -> str:
    """Without lone surrogates, which no JSON reader takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text
