"""Rendering for the template families that the `renderers` package knows (Qwen3, GLM, DeepSeek, Kimi, MiniMax, ...).

The package renders a conversation in Python and bridges to the next turn from the ids that were really sampled. What
we add: contents go through the shield; a bridge is accepted only if it extends prompt and completion id for id (the
package may cut what follows a stop token; we refuse then); and the cost of a turn does not grow with the history,
because the package's bridges read no more of the prompt than what stands behind the previous completion.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from envkit.failure import UserError
from envkit.messages import AssistantMessage, Message, ToolCall, ToolSpec
from envkit.tokens.render import (
    AnyMessage,
    Parsed,
    Refused,
    Rendered,
    arguments_json,
    template_messages,
    template_tools,
)
from envkit.tokens.shield import RenderError, Shield, Tokenizer

__all__ = ["FamilyRenderer", "detect_family", "family_names"]

#: Encodes through its own vocabulary (fetched at first use), which the shield can't reach and need not:
#: it never reads contents as control tokens. Chosen by name only.
_HARMONY = "gpt-oss"
_NOT_FAMILIES = {"auto", "default", "custom"}


def _package() -> Any:
    try:
        import renderers
        import renderers.base
    except ImportError as error:
        raise UserError(
            "rendering for known model families needs the `renderers` package: pip install 'envkit-rl[tokens]', "
            "or choose renderer='template'"
        ) from error
    return renderers


@cache
def family_names() -> tuple[str, ...]:
    """The families of the installed `renderers` package, empty without it."""
    try:
        import renderers.configs
    except ImportError:
        return ()
    names = (
        field.default
        for cls in vars(renderers.configs).values()
        if isinstance(cls, type) and (field := getattr(cls, "model_fields", {}).get("name")) is not None
    )
    return tuple(sorted({n for n in names if isinstance(n, str)} - _NOT_FAMILIES))


class FamilyRenderer:
    """A renderer of the package, made exact. See `render.Renderer` for the methods."""

    def __init__(self, tokenizer: Tokenizer, name: str, options: Mapping[str, Any]) -> None:
        package = _package()
        self.name = name
        self._options = dict(options)
        self._tokenizer = tokenizer
        self._shield = Shield(tokenizer)
        self._shielded = name != _HARMONY
        try:
            config = TypeAdapter(package.RendererConfig).validate_python({"name": name, **options})
        except ValidationError as error:
            raise UserError(f"renderer {name!r}: {error}") from error
        try:
            self._inner = package.create_renderer(self._shield if self._shielded else tokenizer, config)
        except (AssertionError, ValueError, TypeError) as error:
            raise UserError(f"the tokenizer does not fit renderer {name!r}: {error}") from error
        except Exception as error:
            if type(error).__name__ != "HarmonyError":
                raise
            raise UserError(
                f"renderer {name!r} needs its vocabulary: {error}; set TIKTOKEN_ENCODINGS_BASE to a folder that has it"
            ) from error
        self.stop_ids = frozenset(self._inner.get_stop_token_ids())

    def describe(self) -> dict[str, Any]:
        return {"renderer": self.name, "renderers": _package().__version__, "options": self._options}

    def _covered(self, value: Any) -> Any:
        return self._shield.cover(value) if self._shielded else value

    def _messages(self, messages: Sequence[AnyMessage], before: Sequence[AnyMessage] = ()) -> list[dict[str, Any]]:
        return [
            {k: v if k == "role" else self._covered(v) for k, v in m.items()}
            for m in template_messages(messages, before)
        ]

    def render(self, messages: Sequence[AnyMessage], tools: Sequence[ToolSpec] | None) -> Rendered:
        try:
            out = self._inner.render(
                self._messages(messages), tools=self._covered(template_tools(tools)), add_generation_prompt=True
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RenderError(f"renderer {self.name!r} can't render this conversation: {error}") from error
        return Rendered(ids=list(out.token_ids), ends=_ends(out.message_indices, len(messages)))

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
        prompt, sampled = list(tail), list(completion)
        try:
            out = self._inner.bridge_to_next_turn(
                prompt,
                sampled,
                self._messages(new, [answer]),
                tools=self._covered(template_tools(tools)),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return Refused(f"renderer {self.name!r} can't extend this turn: {error}")
        if out is None:
            return Refused(_why_refused(new, self._inner))
        known = len(prompt) + len(sampled)
        if list(out.token_ids[:known]) != prompt + sampled:
            return Refused(f"renderer {self.name!r} would change ids that were already sampled")
        indices = list(out.message_indices[known:])
        return Rendered(ids=list(out.token_ids[known:]), ends=_ends(indices, len(new)))

    def parse(self, ids: Sequence[int], tail: Sequence[int], tools: Sequence[ToolSpec] | None) -> Parsed:
        try:
            out = self._inner.parse_response(list(ids), tools=template_tools(tools), prompt_ids=list(tail))
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            # The package's parsers are not total; a model may sample anything, and its ids are kept all the same.
            warnings.warn(f"renderer {self.name!r} could not read a completion: {error}", stacklevel=2)
            return Parsed(text=self.decode(ids))
        calls: list[ToolCall] = []
        for number, call in enumerate(out.tool_calls):
            id = call.id or f"call_{number}"
            if call.status != "ok" or not call.name:
                calls.append(
                    ToolCall(
                        id=id,
                        name=call.name or "",
                        raw_arguments=call.raw,
                        error=f"the tool call could not be read ({str(call.status).replace('_', ' ')})",
                    )
                )
            elif isinstance(call.arguments, dict):
                calls.append(
                    ToolCall(
                        id=id, name=call.name, arguments=call.arguments, raw_arguments=arguments_json(call.arguments)
                    )
                )
            else:
                calls.append(ToolCall.parse(id, call.name, _argument_text(call.arguments)))
        return Parsed(
            text=out.content,
            reasoning=out.reasoning_content,
            tool_calls=tuple(calls),
            open_reasoning=out.reasoning_complete is False,
        )

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def _argument_text(arguments: Any) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else arguments_json(arguments)


def _why_refused(new: Sequence[AnyMessage], inner: Any) -> str:
    if any(m.role == "assistant" for m in new if isinstance(m, Message)) or any(
        isinstance(m, AssistantMessage) for m in new
    ):
        return "the new messages contain an assistant turn that was not sampled here"
    retention = getattr(inner, "effective_thinking_retention", None)
    if retention in ("template", "tool_cycle") and any(m.role == "user" for m in new if isinstance(m, Message)):
        return (
            "the template drops earlier reasoning when the user speaks (thinking_retention="
            f"{retention}); thinking_retention='all' keeps what was sampled"
        )
    return "the previous turn ended where the template has no way to go on (inside its reasoning, say)"


def _ends(indices: Sequence[int], n: int) -> tuple[int, ...]:
    """Where each message's tokens end; empty when the messages' tokens are not in order."""
    ends = [0] * n
    highest = -1
    for at, owner in enumerate(indices):
        if owner < 0:
            continue
        if owner < highest or owner >= n:
            return ()
        highest = owner
        ends[owner] = at + 1
    for i in range(1, n):
        ends[i] = max(ends[i], ends[i - 1])
    return tuple(ends)


# ---- choosing a family ----------------------------------------------------------------------------------------------

_PROBE_TOOL = ToolSpec(
    name="read",
    description="Reads a file",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)


def _probes() -> list[tuple[list[AnyMessage], list[ToolSpec] | None]]:
    system = Message(role="system", content="You work in an office.")
    user = Message(role="user", content="Read a.txt,\nplease.")
    call = AssistantMessage(text="", tool_calls=(ToolCall.parse("call_0", "read", '{"path": "a.txt"}'),))
    result = Message(role="tool", content="12 \u20ac", tool_call_id="call_0", name="read")
    answer = AssistantMessage(text="It says 12 \u20ac.")
    return [
        ([user], None),
        ([system, user], None),
        ([system, user, answer, user], None),
        ([system, user], [_PROBE_TOOL]),
        ([system, user, call, result], [_PROBE_TOOL]),
        ([system, user, call, result, answer, user], [_PROBE_TOOL]),
    ]


def detect_family(tokenizer: Tokenizer, options: Mapping[str, Any] | None = None) -> str | None:
    """The family registered for the tokenizer's name, or one that renders every probe as its chat template does."""
    names = family_names()
    if not names:
        return None
    package = _package()
    registered = package.base.MODEL_RENDERER_MAP.get(getattr(tokenizer, "name_or_path", ""))
    if registered in names:
        return str(registered)
    if not getattr(tokenizer, "chat_template", None):
        return None
    from jinja2 import TemplateError

    unfit = (TemplateError, ValueError, TypeError, KeyError, AttributeError, UserError, RenderError)
    try:
        wanted = [_template_ids(tokenizer, m, t) for m, t in _probes()]
    except unfit:  # the template refuses a probe: nothing can be shown equal
        return None
    for name in names:
        if name == _HARMONY:
            continue
        try:
            candidate = FamilyRenderer(tokenizer, name, options or {})
            if all(candidate.render(m, t).ids == w for (m, t), w in zip(_probes(), wanted, strict=True)):
                return name
        except unfit:
            continue
    return None


def _template_ids(tokenizer: Tokenizer, messages: Sequence[AnyMessage], tools: Sequence[ToolSpec] | None) -> list[int]:
    text = tokenizer.apply_chat_template(
        template_messages(messages), tools=template_tools(tools), tokenize=False, add_generation_prompt=True
    )
    return list(tokenizer.encode(text, add_special_tokens=False))
