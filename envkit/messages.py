"""Messages: what model, harness and environment say to one another.

An observation carries only the *new* messages of its thread (`kind="append"`), so that what a turn costs is
proportional to what the turn adds. Everything is frozen and JSON-shaped; `to_openai` gives the Chat Completions form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envkit.failure import UserError

__all__ = [
    "AssistantMessage",
    "End",
    "Image",
    "Message",
    "Observation",
    "ObservationKind",
    "StopReason",
    "ToolCall",
    "ToolSpec",
    "Usage",
    "openai_messages",
    "sound",
    "well_formed",
]


#: Levels of objects and lists in a call's arguments or a tool's schema; what is deeper no record could hold.
MAX_DEPTH = 64


def well_formed(text: str) -> str:
    """Text that UTF-8 can carry: lone halves of surrogate pairs (a JSON escape makes them, and a text that was cut
    within a character) become U+FFFD, two halves that meet become their character."""
    if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def sound(value: Any, levels: int = MAX_DEPTH) -> Any:
    """A JSON value that every file and every tokenizer can take: its texts are `well_formed`.

    Raises:
        ValueError: It is nested deeper than `levels`.
    """
    if isinstance(value, str):
        return well_formed(value)
    if not isinstance(value, dict | list):
        return value
    if levels < 1:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        return {sound(k): sound(v, levels - 1) for k, v in value.items()}
    return [sound(v, levels - 1) for v in value]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolSpec(_Frozen):
    """A tool as the model sees it. `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolCall(_Frozen):
    """One call the model made.

    Attributes:
        id: Unique within the conversation; answers refer to it.
        name: The tool's name as the model wrote it.
        arguments: The parsed arguments, or None where they could not be parsed.
        raw_arguments: The text the model wrote, kept beside the parsed form.
        error: Why the call could not be parsed; the harness tells the model, who may try again.
    """

    id: str
    name: str
    arguments: dict[str, Any] | None = None
    raw_arguments: str | None = None
    error: str | None = None

    @classmethod
    def parse(cls, id: str, name: str, raw_arguments: str) -> ToolCall:
        """Parses arguments written as JSON text; an empty text is an empty object. Never raises."""
        try:
            value = json.loads(raw_arguments) if raw_arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            return cls(id=id, name=name, raw_arguments=raw_arguments, error=f"arguments are not valid JSON: {error}")
        if not isinstance(value, dict):
            return cls(
                id=id,
                name=name,
                raw_arguments=raw_arguments,
                error=f"arguments must be a JSON object, found {type(value).__name__}",
            )
        try:
            return cls(id=id, name=name, arguments=sound(value), raw_arguments=raw_arguments)
        except ValueError as error:
            return cls(id=id, name=name, raw_arguments=raw_arguments, error=f"arguments are {error}")

    @property
    def arguments_text(self) -> str:
        """The arguments as text: as the model wrote them where known."""
        if self.raw_arguments is not None:
            return self.raw_arguments
        return json.dumps(self.arguments or {}, ensure_ascii=False)


class Usage(_Frozen):
    """What one sampled message cost, in template tokens.

    `context_tokens` counts prompt plus completion of this call; the context nudge and the limits use it. `waited_s` is
    the part of the call's time that went into queueing and rate limits; working time excludes it.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    context_tokens: int | None = None
    context_limit: int | None = None
    cost_usd: float | None = None
    waited_s: float = 0.0


class Image(_Frozen):
    """An image in a message: its type (`image/png`) and its bytes in Base64."""

    mime: str
    data: str

    @property
    def url(self) -> str:
        """It as a `data:` URL."""
        return f"data:{self.mime};base64,{self.data}"


class Message(_Frozen):
    """A message of any role but a *sampled* assistant turn (see `AssistantMessage`).

    `images` come with the text, for a model that sees; `plain` is what one is told that doesn't.
    """

    role: Literal["system", "user", "tool", "assistant"]
    content: str
    tool_call_id: str | None = None
    name: str | None = None
    is_error: bool = False
    images: tuple[Image, ...] = ()

    @property
    def plain(self) -> str:
        """The text; with a word about images that are left out, where there are any."""
        if not self.images:
            return self.content
        what = "The image is" if len(self.images) == 1 else f"The {len(self.images)} images are"
        return f"{self.content}\n[{what} left out: you can't be shown images.]"

    def to_openai(self) -> dict[str, Any]:
        """The Chat Completions form without images. `openai_messages` gives a conversation with them."""
        out: dict[str, Any] = {"role": self.role, "content": self.plain}
        if self.role == "tool":
            out["tool_call_id"] = self.tool_call_id
        return out


class AssistantMessage(_Frozen):
    """What a policy answers: text and tool calls, with the raw text beside the parsed form.

    Attributes:
        text: The visible text; with no tool calls it is the final answer.
        finish: Why sampling stopped: `stop`, `length`, `context`, `abort`, or what the endpoint said.
        node: The node of the trace that holds the sampled ids, where there is a trace.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    raw: str | None = None
    finish: str = "stop"
    usage: Usage = Field(default_factory=Usage)
    model: str | None = None
    node: int | None = None

    def to_openai(self) -> dict[str, Any]:
        out: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            out["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments_text}}
                for c in self.tool_calls
            ]
        return out

    @classmethod
    def from_openai(cls, message: dict[str, Any]) -> AssistantMessage:
        """Reads the Chat Completions form of an assistant message. Calls that can't be parsed are kept as such."""
        calls = []
        for number, call in enumerate(message.get("tool_calls") or ()):
            function = call.get("function") or {}
            raw = function.get("arguments")
            text = raw if isinstance(raw, str) else json.dumps(raw if raw is not None else {}, ensure_ascii=False)
            calls.append(ToolCall.parse(str(call.get("id") or f"call-{number}"), str(function.get("name")), text))
        return cls(
            text=message.get("content") or "",
            tool_calls=tuple(calls),
            reasoning=message.get("reasoning_content"),
        )

    @classmethod
    def coerce(cls, action: AssistantMessage | dict[str, Any] | str) -> AssistantMessage:
        """Accepts what `Env.step` accepts: a message, its dict (ours or OpenAI's), or a plain string.

        Raises:
            UserError: It is none of these; says what is wrong with it.
        """
        if isinstance(action, AssistantMessage):
            return action
        if isinstance(action, str):
            return cls(text=action, raw=action)
        if not isinstance(action, dict):
            raise UserError(f"an action is an AssistantMessage, its dict or a string, found {type(action).__name__}")
        try:
            if "content" in action or "role" in action:
                return cls.from_openai(action)
            return cls.model_validate(action)
        except (ValidationError, AttributeError, TypeError) as error:
            raise UserError(f"not an assistant message: {error}") from error


def openai_messages(messages: Iterable[Message | AssistantMessage], *, vision: bool = False) -> list[dict[str, Any]]:
    """A conversation, or a part of one that ends with a turn's last tool message, in Chat Completions form.

    A tool's message takes no image there; so where the model sees, a run of tool messages is followed by one user
    message with all their images, in order.
    """
    out: list[dict[str, Any]] = []
    owed: list[Image] = []

    def pay() -> None:
        if owed:
            text = "The images that the tools returned, in order:"
            out.append({"role": "user", "content": [{"type": "text", "text": text}, *map(_image_part, owed)]})
            owed.clear()

    for message in messages:
        images = message.images if vision and isinstance(message, Message) else ()
        if not (isinstance(message, Message) and message.role == "tool"):
            pay()
        wire = message.to_openai()
        if images and isinstance(message, Message):
            if message.role == "tool":
                wire["content"] = message.content
                owed.extend(images)
            else:
                wire["content"] = [{"type": "text", "text": message.content}, *map(_image_part, images)]
        out.append(wire)
    pay()
    return out


def _image_part(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": image.url}}


class ObservationKind(StrEnum):
    """How an observation relates to what its thread said before."""

    APPEND = "append"  # only the new messages; the normal case
    REWRITE = "rewrite"  # the full history, after a compaction or an agent that edits its past
    SIDE = "side"  # a title, a summary, a sub-agent: a thread of its own


class Observation(_Frozen):
    """What the model must answer next. `tools` is None when unchanged since the thread's last observation."""

    thread: str = "main"
    kind: ObservationKind = ObservationKind.APPEND
    messages: tuple[Message | AssistantMessage, ...]
    tools: tuple[ToolSpec, ...] | None = None


class StopReason(StrEnum):
    """Why an episode ended. All of these are results, verified and scored; faults are `failure.FailureKind`s."""

    ANSWERED = "answered"  # the model finished of its own accord
    TURNS = "turns"  # the turn limit
    TOKENS = "tokens"  # the token budget
    CONTEXT = "context"  # the context is full
    TURN_LENGTH = "turn_length"  # one turn ran into its length limit
    WORKING_TIME = "working_time"  # the agent's working time (queueing and start-up don't count)
    UNPARSABLE = "unparsable"  # too many unparsable turns in a row

    @property
    def truncated(self) -> bool:
        """Gymnasium's word for it: a limit ended the episode, not the task."""
        return self is not StopReason.ANSWERED


class End(_Frozen):
    """A session's end: no further answer is awaited.

    Attributes:
        answer_status: What the model itself says of its work, where the harness asks: `completed`, `blocked`, `failed`.
    """

    stop: StopReason
    final_answer: str | None = None
    answer_status: str | None = None
    messages: tuple[Message, ...] = ()
