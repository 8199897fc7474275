"""Rendering over a tokenizer's own chat template, for models that no package knows.

The whole prompt is what the template says. A bridge to the next turn is accepted only where it is proven on the
conversation at hand, by rendering it as text before and after the new messages (text only; nothing old is tokenised,
and nothing old is rendered again where `program` shows that its text can't have changed):

1. the prompt is unchanged by the assistant's turn, and both are unchanged by the new messages (prefix-stable);
2. the sampled stop token is found where the template ends the turn: behind the answer (as ChatML does) or at the head
   of what follows (as GLM does), and nothing but white space stands between it and the next message;
3. the text behind it, encoded together with the stop token, begins with that very token, so that no merge of tokens
   crosses the cut.

Otherwise the answer is `Refused` with the reason. See `render.Renderer` for the methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from envkit.failure import UserError, did_you_mean
from envkit.messages import AssistantMessage, ToolSpec
from envkit.tokens.formats import FORMATS, Reader, guess_format
from envkit.tokens.program import Mark, Program, shown
from envkit.tokens.render import AnyMessage, Parsed, Refused, Rendered, template_messages, template_tools
from envkit.tokens.shield import RenderError, Shield, Tokenizer

__all__ = ["TemplateRenderer"]


@dataclass(frozen=True, slots=True)
class _State:
    """A rendered prompt, to go on from.

    Attributes:
        messages: As the template is shown them.
        names: Tools by the ids of their calls, for the results to come.
        tools: What was asked for, and what the template is shown of it.
        mark: Where the template can go on; `tail`: the prompt's text behind it (all of it where there is no mark).
        resumable: Whether the template is rendered by our program, which gave the very same prompt.
    """

    messages: list[dict[str, Any]]
    names: dict[str, str]
    tools: tuple[Sequence[ToolSpec] | None, Any]
    mark: Mark | None
    tail: str
    resumable: bool


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
        self._program = Program.of(tokenizer, self._kwargs)
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

    def _covered(self, messages: Sequence[AnyMessage], names: dict[str, str]) -> list[dict[str, Any]]:
        """Messages as chat templates expect them, without control literals; `names` learns of their calls."""
        out: list[dict[str, Any]] = []
        for said, m in zip(messages, template_messages(messages), strict=True):
            if isinstance(said, AssistantMessage):
                names.update((c.id, c.name) for c in said.tool_calls)
            elif said.role == "tool" and "name" not in m and names.get(m["tool_call_id"] or ""):
                m["name"] = names[m["tool_call_id"]]
            out.append({k: v if k == "role" else self._shield.cover(v) for k, v in m.items()})
        return out

    def _text(self, messages: list[dict[str, Any]], tools: Any, *, generation_prompt: bool) -> str:
        """The whole conversation by the tokenizer's own means."""
        try:
            out = self._tokenizer.apply_chat_template(
                messages, tools=tools, tokenize=False, add_generation_prompt=generation_prompt, **self._kwargs
            )
        except (TemplateError, ValueError, TypeError, KeyError) as error:
            raise RenderError(f"the chat template refuses this conversation: {error}") from error
        return str(out)

    def render(self, messages: Sequence[AnyMessage], tools: Sequence[ToolSpec] | None) -> Rendered:
        names: dict[str, str] = {}
        text, state = self._begin(self._covered(messages, names), names, tools)
        return Rendered(ids=self._shield.encode(text), state=state)

    def _begin(
        self, messages: list[dict[str, Any]], names: dict[str, str], tools: Sequence[ToolSpec] | None
    ) -> tuple[str, _State]:
        """The whole prompt as text, and where to go on from it."""
        covered = self._shield.cover(template_tools(tools))
        text = self._text(messages, covered, generation_prompt=True)
        if self._program is not None:
            view, view_tools = shown(self._tokenizer, messages, covered)
            run = self._program.run(view, view_tools, generation_prompt=True, start=None)
            if run is not None and run.text == text:
                return text, _State(view, names, (tools, view_tools), run.mark, run.tail, True)
        return text, _State(messages, names, (tools, covered), None, text, False)

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
        try:
            if not isinstance(state, _State) or state.tools[0] != tools:
                names: dict[str, str] = {}
                _, state = self._begin(self._covered(before, names), names, tools)
            prompt, answered, whole, after = self._three(state, answer, new)
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
        return Rendered(ids=ids[1:] if sampled else ids, state=after)

    def _three(
        self, state: _State, answer: AssistantMessage, new: Sequence[AnyMessage]
    ) -> tuple[str, str, str, _State]:
        """The prompt, with the answer, and with what follows, all from the same place on; and where to go on next."""
        tools, names = state.tools[1], dict(state.names)
        more = self._covered([answer, *new], names)
        if self._program is not None and state.resumable:
            more = shown(self._tokenizer, more, None)[0]
            said, whole = [*state.messages, more[0]], [*state.messages, *more]
            a = self._program.run(said, tools, generation_prompt=False, start=state.mark)
            w = self._program.run(whole, tools, generation_prompt=True, start=state.mark)
            if a is not None and w is not None and (state.mark is None or (a.resumed and w.resumed)):
                mark, tail = (w.mark, w.tail) if w.mark is not None else (state.mark, w.text)
                return state.tail, a.text, w.text, _State(whole, names, state.tools, mark, tail, True)
        else:
            said, whole = [*state.messages, more[0]], [*state.messages, *more]
        before = self._text(state.messages, tools, generation_prompt=True) if state.mark else state.tail
        a_text = self._text(said, tools, generation_prompt=False)
        w_text = self._text(whole, tools, generation_prompt=True)
        run = None
        if self._program is not None and state.resumable:
            run = self._program.run(whole, tools, generation_prompt=True, start=None)
        if run is not None and run.text == w_text:
            after = _State(whole, names, state.tools, run.mark, run.tail, True)
        else:
            after = _State(whole, names, state.tools, None, w_text, False)
        return before, a_text, w_text, after

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
