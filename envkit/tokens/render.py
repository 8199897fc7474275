"""Between messages and token ids: the protocol of renderers, and the choice of one for a tokenizer.

A renderer turns a conversation into a prompt (`render`), extends a prompt and a sampled completion by new messages
without touching an id that is already there (`bridge`), and reads text, reasoning and tool calls out of sampled ids
(`parse`). `families` speaks for templates that the `renderers` package knows; `template` for all others, where a bridge
counts only if it is proven on the conversation at hand. Where no bridge is possible the answer is `Refused`, and the
caller opens a branch: a guess is never made. Used by `conversation` and `audit`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from envkit.failure import UserError
from envkit.messages import AssistantMessage, Message, ToolCall, ToolSpec

if TYPE_CHECKING:
    from envkit.tokens.shield import Tokenizer

__all__ = [
    "Parsed",
    "Refused",
    "Rendered",
    "Renderer",
    "load_renderer",
    "load_tokenizer",
    "shared_renderer",
    "template_messages",
    "template_tools",
]

AnyMessage = Message | AssistantMessage


@dataclass(frozen=True, slots=True)
class Rendered:
    """Token ids to append, ending in the generation prompt.

    Attributes:
        ids: For `render` the whole prompt, for `bridge` what follows the completion.
        ends: Where each message's tokens end, or empty when the renderer can't tell.
        state: The renderer's own, to be handed to the next `bridge` of the thread.
    """

    ids: list[int]
    ends: tuple[int, ...] = ()
    state: Any = None


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no sound way to extend these ids; `reason` is for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a completion says. `open_reasoning`: sampling ended inside the reasoning part."""

    text: str
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    open_reasoning: bool = False


class Renderer(Protocol):
    """Stateless between calls; safe to share among the threads of one conversation."""

    name: str
    stop_ids: frozenset[int]

    def describe(self) -> dict[str, Any]:
        """Name, versions and options, as they go into the trace."""
        ...

    def render(self, messages: Sequence[AnyMessage], tools: Sequence[ToolSpec] | None) -> Rendered:
        """The whole prompt for a conversation. Raises `RenderError`."""
        ...

    def bridge(
        self,
        tail: Sequence[int],
        completion: Sequence[int],
        before: Sequence[AnyMessage],
        answer: AssistantMessage,
        new: Sequence[AnyMessage],
        tools: Sequence[ToolSpec] | None,
        state: Any,
    ) -> Rendered | Refused:
        """The ids that follow `completion` so that `new` has been said.

        Args:
            tail: The ids of the last context node: the end of the prompt, from behind the previous completion on.
            completion: The sampled ids, unchanged.
            before: The conversation up to the context node, `answer` the parsed completion, `new` what follows.
            state: `Rendered.state` of the context node.
        """
        ...

    def parse(self, ids: Sequence[int], tail: Sequence[int], tools: Sequence[ToolSpec] | None) -> Parsed:
        """Reads a completion. Never raises on what a model may sample; broken calls carry `ToolCall.error`."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The raw text, control tokens included; bytes that are no UTF-8 become U+FFFD."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of a text in which control tokens count as such; for audits, never for contents."""
        ...


def template_messages(messages: Sequence[AnyMessage], before: Sequence[AnyMessage] = ()) -> list[dict[str, Any]]:
    """Messages as chat templates expect them: arguments as objects, tool results with the tool's name."""
    names: dict[str, str] = {}
    for m in before:
        if isinstance(m, AssistantMessage):
            names.update((c.id, c.name) for c in m.tool_calls)
    out: list[dict[str, Any]] = []
    for m in messages:
        if not isinstance(m, AssistantMessage):
            entry: dict[str, Any] = {"role": m.role, "content": m.plain}
            if m.role == "tool":
                entry["tool_call_id"] = m.tool_call_id
                name = m.name or names.get(m.tool_call_id or "")
                if name:
                    entry["name"] = name
            out.append(entry)
            continue
        names.update((c.id, c.name) for c in m.tool_calls)
        calls = [c for c in m.tool_calls if c.arguments is not None]
        text = m.text
        if len(calls) < len(m.tool_calls) and not text:
            # An unparsable call has no form in a template; what the model wrote stands in for it.
            text = "\n".join(c.arguments_text for c in m.tool_calls if c.arguments is None)
        entry = {"role": "assistant", "content": text}
        if m.reasoning:
            entry["reasoning_content"] = m.reasoning
        if calls:
            entry["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": dict(c.arguments or {})}}
                for c in calls
            ]
        out.append(entry)
    return out


def template_tools(tools: Sequence[ToolSpec] | None) -> list[dict[str, Any]] | None:
    """Tools as chat templates expect them; None where there are none."""
    if not tools:
        return None
    return [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
        for t in tools
    ]


def load_tokenizer(source: str) -> Tokenizer:
    """Loads a Hugging Face tokenizer from a folder (or a cached model name).

    Raises:
        UserError: `transformers` is missing, or there is no tokenizer at `source`.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise UserError("token policies need `transformers`: pip install 'envkit-rl[tokens]'") from error
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise UserError(f"expected a tokenizer at {source!r}, found none: {error}") from error
    return cast("Tokenizer", tokenizer)


def load_renderer(tokenizer: Tokenizer, name: str = "auto", options: Mapping[str, Any] | None = None) -> Renderer:
    """A renderer for a tokenizer.

    Args:
        name: A family of the `renderers` package (`qwen3`, `glm-4.5`, ...), `template` for our own bridge over the
            tokenizer's chat template, or `auto`: the family registered for the tokenizer's name, else one whose output
            equals the chat template's on a set of probes, else `template`.
        options: The renderer's own options, validated by it.

    Raises:
        UserError: An unknown name, an option that does not exist, or a tokenizer without the family's tokens.
    """
    from envkit.tokens.families import FamilyRenderer, detect_family, family_names
    from envkit.tokens.template import TemplateRenderer

    options = dict(options or {})
    if name == "auto":
        name = detect_family(tokenizer, options) or "template"
    if name == "template":
        return TemplateRenderer(tokenizer, **options)
    if name not in family_names():
        from envkit.failure import did_you_mean

        raise UserError(
            f"expected a renderer's name, `template` or `auto`, found {name!r}"
            f"{did_you_mean(name, [*family_names(), 'template', 'auto'])}"
        )
    return FamilyRenderer(tokenizer, name, options)


_shared: dict[str, Renderer] = {}


def shared_renderer(tokenizer: str, name: str = "auto", options: Mapping[str, Any] | None = None) -> Renderer:
    """The renderer of a tokenizer (given as for `load_tokenizer`), loaded once per process and inherited by its forks.

    Raises:
        UserError: As `load_tokenizer` and `load_renderer`.
    """
    key = json.dumps([tokenizer, name, dict(options or {})], sort_keys=True, default=repr)
    if key not in _shared:
        _shared[key] = load_renderer(load_tokenizer(tokenizer), name, options)
    return _shared[key]


def arguments_json(value: Any) -> str:
    """Arguments as compact JSON text, for `ToolCall.raw_arguments` of formats that are not JSON themselves."""
    return json.dumps(value, ensure_ascii=False)
