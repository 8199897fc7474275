"""Rendering over a tokenizer's own chat template, for models that no package knows.

The whole prompt is what the template says. A bridge to the next turn is accepted only where it is proven on the
conversation at hand, by rendering it as text before and after the new messages (text only; nothing old is tokenised):

1. the prompt is unchanged by the assistant's turn, and both are unchanged by the new messages (prefix-stable);
2. the sampled stop token is found where the template ends the turn: behind the answer (as ChatML does) or at the head
   of what follows (as GLM does), and nothing but white space stands between it and the next message;
3. the text behind it, encoded together with the stop token, begins with that very token, so that no merge of tokens
   crosses the cut.

Otherwise the answer is `Refused` with the reason. See `render.Renderer` for the methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jinja2 import TemplateError

from envkit.failure import UserError, did_you_mean
from envkit.messages import AssistantMessage, ToolSpec
from envkit.tokens.formats import FORMATS, Reader, guess_format
from envkit.tokens.render import AnyMessage, Parsed, Refused, Rendered, template_messages, template_tools
from envkit.tokens.shield import RenderError, Shield, Tokenizer

__all__ = ["TemplateRenderer"]


class TemplateRenderer:
    """The chat template as the truth, bridged where that can be shown to be right.

    Args:
        tool_format: `hermes`, `xml`, `json` or `none`; by default what the template's words suggest.
        stop_tokens: Tokens that end a turn, as text, beside the tokenizer's end-of-sequence token.
        kwargs: Handed to the template (`enable_thinking`, ...).

    Raises:
        UserError: There is no chat template, or an option names something that does not exist.
    """

    name = "template"

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        tool_format: str | None = None,
        stop_tokens: Iterable[str] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        template = getattr(tokenizer, "chat_template", None)
        if not template:
            raise UserError("expected a tokenizer with a chat template, found none; name a renderer instead")
        if tool_format is not None and tool_format not in FORMATS:
            raise UserError(
                f"unknown tool_format {tool_format!r}{did_you_mean(tool_format, FORMATS)}; one of {FORMATS}"
            )
        self._tokenizer = tokenizer
        self._shield = Shield(tokenizer)
        self._kwargs = dict(kwargs or {})
        self._format = tool_format or guess_format(str(template))
        self._reader = Reader(tokenizer, self._format)
        stops: dict[int, str] = {}
        added = tokenizer.get_added_vocab()
        if tokenizer.eos_token_id is not None:
            stops[tokenizer.eos_token_id] = tokenizer.decode([tokenizer.eos_token_id], skip_special_tokens=False)
        for text in stop_tokens:
            if text not in added:
                raise UserError(f"stop token {text!r} is no token of the tokenizer{did_you_mean(text, list(added))}")
            stops[added[text]] = text
        if not stops:
            raise UserError("the tokenizer has no end-of-sequence token; name one in stop_tokens")
        self._stops = stops
        self.stop_ids = frozenset(stops)

    def describe(self) -> dict[str, Any]:
        return {
            "renderer": self.name,
            "options": {"tool_format": self._format, "stop_tokens": list(self._stops.values()), "kwargs": self._kwargs},
        }

    # ---- messages to ids ----------------------------------------------------------------------------------------

    def _text(
        self, messages: Sequence[AnyMessage], tools: Sequence[ToolSpec] | None, *, generation_prompt: bool
    ) -> str:
        covered = [
            {k: v if k == "role" else self._shield.cover(v) for k, v in m.items()} for m in template_messages(messages)
        ]
        try:
            out = self._tokenizer.apply_chat_template(
                covered,
                tools=self._shield.cover(template_tools(tools)),
                tokenize=False,
                add_generation_prompt=generation_prompt,
                **self._kwargs,
            )
        except (TemplateError, ValueError, TypeError, KeyError) as error:
            raise RenderError(f"the chat template refuses this conversation: {error}") from error
        return str(out)

    def render(self, messages: Sequence[AnyMessage], tools: Sequence[ToolSpec] | None) -> Rendered:
        text = self._text(messages, tools, generation_prompt=True)
        return Rendered(ids=self._shield.encode(text), state=text)

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
        if not completion:
            return Refused("the previous turn has no tokens")
        if self.parse(completion, tail, tools).open_reasoning:
            return Refused("the previous turn ended inside its reasoning, which the template would close by itself")
        said = [*before, answer]
        try:
            prompt = state if isinstance(state, str) else self._text(before, tools, generation_prompt=True)
            answered = self._text(said, tools, generation_prompt=False)
            whole = self._text([*said, *new], tools, generation_prompt=True)
        except RenderError as error:
            return Refused(str(error))
        if not answered.startswith(prompt):
            return Refused("not prefix-stable: the template renders the prompt differently once it is answered")
        if not whole.startswith(answered):
            return Refused("not prefix-stable: the template renders earlier turns differently once more is said")
        turn, delta = answered[len(prompt) :], whole[len(answered) :]
        last = int(completion[-1])
        follows = self._after_stop(last, turn, delta) if last in self._stops else self._after_cut(turn, delta)
        if isinstance(follows, Refused):
            return follows
        stop, text, sampled = follows
        ids = self._shield.encode(self._stops[stop] + text)
        if not ids or ids[0] != stop:
            return Refused(f"the stop token {self._stops[stop]!r} does not stand alone when the text goes on")
        return Rendered(ids=ids[1:] if sampled else ids, state=whole)

    def _after_stop(self, stop: int, turn: str, delta: str) -> tuple[int, str, bool] | Refused:
        """The text behind a sampled stop token: (the token, the text, True)."""
        text = self._stops[stop]
        _, found, rest = turn.rpartition(text)
        if found:
            if rest.strip():
                return Refused(f"the template writes {rest.strip()!r} between the stop token and the next message")
            return stop, rest + delta, True
        if delta.startswith(text):
            return stop, delta[len(text) :], True
        return Refused(f"the template shows no {text!r} where the model stopped")

    def _after_cut(self, turn: str, delta: str) -> tuple[int, str, bool] | Refused:
        """The text behind a turn that was cut short: (the closing token, the text, False)."""
        for stop, text in self._stops.items():
            _, found, rest = turn.rpartition(text)
            if found and not rest.strip():
                return stop, rest + delta, False
            if not found and delta.startswith(text):
                return stop, delta[len(text) :], False
        return Refused("the turn was cut short and the template shows no token that closes it")

    # ---- ids to messages ----------------------------------------------------------------------------------------

    def parse(self, ids: Sequence[int], tail: Sequence[int], tools: Sequence[ToolSpec] | None) -> Parsed:
        end = next((i for i, id in enumerate(ids) if id in self.stop_ids), len(ids))
        return self._reader.read(list(ids[:end]), list(tail), tools)

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))
