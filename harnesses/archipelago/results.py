"""What a tool gave back, as the model is shown it: text, images, and whether it is an error.

A result is never empty: one without content says so. An error is marked as one in the text too, since most chat
templates show nothing else. Long texts are cut to head and tail; the whole lies in a file that the agent can read.
Used by `toolset.Toolset` and by the gateway's client.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp import types

from envkit.behaviours.truncate import keep_head, keep_tail, save_inside
from envkit.messages import Image

if TYPE_CHECKING:
    from envkit.deadline import Deadline
    from envkit.sandbox.base import Sandbox

__all__ = ["Answer", "Shortener", "read_result"]

_FOLDER = "/tmp/tool-output"
#: Image types that endpoints take.
_SEEN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model is told about one call."""

    text: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


def read_result(result: types.CallToolResult, *, max_image_bytes: int) -> Answer:
    """A result as an answer. Images that are too large or of a kind that no endpoint takes are named in the text."""
    texts: list[str] = []
    images: list[Image] = []
    for block in result.content:
        if isinstance(block, types.TextContent):
            texts.append(block.text)
        elif isinstance(block, types.ImageContent):
            texts.append(_image(block.data, block.mimeType, images, max_image_bytes))
        elif isinstance(block, types.AudioContent):
            texts.append(f"[a sound ({block.mimeType}) was returned, which can't be played here]")
        elif isinstance(block, types.ResourceLink):
            texts.append(f"[{block.name}: {block.uri}]")
        elif isinstance(block.resource, types.TextResourceContents):
            texts.append(block.resource.text)
        else:
            mime = block.resource.mimeType or "unknown type"
            if mime in _SEEN:
                texts.append(_image(block.resource.blob, mime, images, max_image_bytes))
            else:
                texts.append(f"[{block.resource.uri}: {len(block.resource.blob) * 3 // 4} bytes of {mime}]")
    text = "\n".join(text for text in texts if text)
    if not text and result.structuredContent is not None:
        text = json.dumps(result.structuredContent, ensure_ascii=False)
    is_error = bool(result.isError)
    if is_error and not text.lower().startswith("error"):
        text = f"Error: {text or 'the tool failed and gave no reason.'}"
    return Answer(text or "(The tool returned nothing.)", is_error, tuple(images))


def _image(data: str, mime: str, images: list[Image], max_bytes: int) -> str:
    try:
        size = len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return f"[an image ({mime}) was returned that can't be decoded]"
    if mime not in _SEEN:
        return f"[an image of type {mime} ({size} bytes) was returned, which can't be shown]"
    if size > max_bytes:
        return f"[an image ({mime}, {size} bytes) was returned; at most {max_bytes} bytes can be shown]"
    images.append(Image(mime=mime, data=data))
    return f"[image: {mime}, {size} bytes]"


class Shortener:
    """Cuts long answers and saves the whole inside the sandbox.

    Args:
        sandbox: Where the whole is saved; None: nowhere.
        reader: What can read the saved file, in words for the model; None: nothing, hence nothing is saved.
        head_bytes, tail_bytes: Kept of a text that is longer than both together.
    """

    def __init__(
        self, sandbox: Sandbox | None, deadline: Deadline, *, head_bytes: int, tail_bytes: int, reader: str | None
    ) -> None:
        self._sandbox = sandbox
        self._deadline = deadline
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._reader = reader
        self._saved = 0

    async def shorten(self, answer: Answer) -> Answer:
        """The answer within the limit. Raises what `Sandbox.exec` raises."""
        data = answer.text.encode("utf-8", "replace")
        if len(data) <= self._head_bytes + self._tail_bytes:
            return answer
        lines = answer.text.count("\n") + 1
        head = keep_head(answer.text, max_lines=lines, max_bytes=self._head_bytes).text
        tail = keep_tail(answer.text, max_lines=lines, max_bytes=self._tail_bytes).text if self._tail_bytes else ""
        missing = len(data) - len(head.encode("utf-8", "replace")) - len(tail.encode("utf-8", "replace"))
        where = await self._save(data)
        note = f"[... {missing} of {len(data)} bytes are left out here. {where} ...]"
        return Answer("\n".join(part for part in (head, note, tail) if part), answer.is_error, answer.images)

    async def _save(self, data: bytes) -> str:
        if self._sandbox is None or self._reader is None:
            return "Ask for a smaller part."
        self._saved += 1
        path = f"{_FOLDER}/{self._saved:03d}.txt"
        if await save_inside(self._sandbox, path, data, deadline=self._deadline):
            return f"The whole is in {path}, which {self._reader} can read."
        return "The whole could not be saved, since the disk has no room for it; ask for a smaller part."
