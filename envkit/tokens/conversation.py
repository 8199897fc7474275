"""One trial's conversation: observations in, prompts out; sampled ids in, assistant messages out; all of it traced.

`observe` turns an observation into the prompt to sample from. In the normal case it appends: the renderer bridges from
the ids that were sampled, and no earlier id is touched. Where that is impossible (the agent rewrote its history, the
tool list changed, the template renders the past differently) the whole history is rendered anew as a *branch*, with the
reason in the trace; a branch shares the nodes that still hold, and where an agent goes back to something that was said
before, it goes on from the ids of then. `record` takes what an engine sampled, whatever it is, and gives the message.
Used by `TokenPolicy` and by the model proxy.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envkit.messages import (
    AssistantMessage,
    Observation,
    ObservationKind,
    ToolCall,
    ToolSpec,
    Usage,
    sound,
    well_formed,
)
from envkit.tokens.prompt import PromptIds
from envkit.tokens.render import AnyMessage, Refused, Rendered, Renderer
from envkit.tokens.trace import Edge, FloatArray, IntArray, Node, Trace, TraceError

__all__ = ["BranchWarning", "Conversation", "Turn"]

_OUR_CALL_ID = re.compile(r"call_\d+")


class BranchWarning(UserWarning):
    """A history could not be extended in place and was rendered anew as a branch."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A prompt that awaits its answer: the context node that ends it, and all its tokens.

    `prompt` is the thread's own and grows when the turn is recorded; sample from it before that.
    """

    node: Node
    prompt: PromptIds
    tools: tuple[ToolSpec, ...]


@dataclass(slots=True)
class _Thread:
    """Where a thread stands."""

    head: int
    prompt: PromptIds
    tools: tuple[ToolSpec, ...]
    states: dict[int, Any]  # context node -> the renderer's state there; the latest few only


class Conversation:
    """Drives one trace with one renderer. Not thread-safe; several threads of talk may interleave."""

    def __init__(self, renderer: Renderer, trace: Trace) -> None:
        self.renderer = renderer
        self.trace = trace
        self._threads: dict[str, _Thread] = {}
        self._digests: dict[int, bytes] = {}  # node -> digest of everything said up to it
        self._said: dict[bytes, int] = {}  # digest -> the latest sampled node after which exactly that was said

    # ---- observations to prompts --------------------------------------------------------------------------------

    def observe(self, observation: Observation) -> Turn:
        """Adds what the model is shown next and gives the prompt.

        Raises:
            RenderError: The template refuses the conversation.
            TraceError: An observation without messages where there is nothing to go on from.
        """
        thread = self._threads.get(observation.thread)
        if observation.kind is ObservationKind.SIDE or thread is None:
            return self._open(observation)
        if observation.kind is ObservationKind.REWRITE:
            return self._rewrite(observation, thread)
        head = self.trace.node(thread.head)
        if not head.sampled and not observation.messages:
            return Turn(head, thread.prompt, thread.tools)  # asked again: the same prompt is still unanswered

        def branch(why: str, *, warn: bool = False) -> Turn:
            history = [*self.trace.messages(head.index), *observation.messages]  # costs what the history is long
            tools = thread.tools if observation.tools is None else observation.tools
            return self._branch(observation.thread, thread, history, tools, why, warn=warn)

        if observation.tools is not None and observation.tools != thread.tools:
            return branch("the tool list changed")
        if not head.sampled:
            return branch("the last prompt was never answered")
        bridged = self._bridge(thread, head, observation.messages, thread.tools)
        if isinstance(bridged, Refused):
            return branch(bridged.reason, warn=True)
        return self._extend(observation.thread, thread, head, bridged, observation.messages, Edge.APPEND)

    def _open(self, observation: Observation) -> Turn:
        if not observation.messages:
            raise TraceError(f"thread {observation.thread!r} begins with an observation without messages")
        main = self._threads.get("main")
        side = observation.kind is ObservationKind.SIDE
        tools = observation.tools or ()
        rendered = self.renderer.render(observation.messages, tools)
        node = self.trace.add_context(
            rendered.ids,
            observation.messages,
            thread=observation.thread,
            edge=Edge.SIDE if side else Edge.APPEND,
            origin=main.head if side and main is not None else None,
            ends=rendered.ends,
            tools=tools,
        )
        prompt = PromptIds(node.ids)
        self._threads[observation.thread] = _Thread(node.index, prompt, tools, {node.index: rendered.state})
        self._digest(node, tools)
        return Turn(node, prompt, tools)

    def _bridge(
        self, thread: _Thread, head: Node, new: Sequence[AnyMessage], tools: Sequence[ToolSpec]
    ) -> Rendered | Refused:
        context = self.trace.node(head.parent) if head.parent is not None else None
        answer = head.messages[0]
        if context is None or not isinstance(answer, AssistantMessage):
            return Refused("there is no sampled turn to go on from")
        if not new:
            return Refused("there is nothing new to answer")
        before = _LazyMessages(self.trace, context.index)
        return self.renderer.bridge(
            context.ids.tolist(),
            head.ids.tolist(),
            before,
            answer,
            new,
            tools,
            thread.states.get(context.index),
        )

    def _extend(
        self,
        name: str,
        thread: _Thread,
        parent: Node,
        rendered: Rendered,
        new: Sequence[AnyMessage],
        edge: Edge,
        origin: int | None = None,
        note: str | None = None,
    ) -> Turn:
        node = self.trace.add_context(
            rendered.ids,
            new,
            thread=name,
            parent=parent.index,
            edge=edge,
            origin=origin,
            ends=rendered.ends,
            note=note,
        )
        if parent.index == thread.head:
            thread.prompt.extend(node.ids)
            thread.states.pop(min(thread.states), None) if len(thread.states) > 1 else None
        else:
            thread.prompt = PromptIds.of_path(self.trace, node.index)
        thread.head = node.index
        thread.states[node.index] = rendered.state
        self._digest(node, thread.tools)
        return Turn(node, thread.prompt, thread.tools)

    def _rewrite(self, observation: Observation, thread: _Thread) -> Turn:
        messages = observation.messages
        tools = thread.tools if observation.tools is None else observation.tools
        if not messages:
            raise TraceError(f"thread {observation.thread!r}: a rewritten history has no messages")
        at, known = self._longest_said(messages, tools)
        new = messages[known:]
        if at is not None and new and not any(_key(m)[0] == "assistant" for m in new):
            head = self.trace.node(at)
            bridged = self._bridge(thread, head, new, tools)
            if isinstance(bridged, Rendered):
                thread.tools = tools
                if at == thread.head:
                    return self._extend(observation.thread, thread, head, bridged, new, Edge.APPEND)
                why = "the agent went back to an earlier point"
                return self._extend(observation.thread, thread, head, bridged, new, Edge.REWRITE, thread.head, why)
        return self._branch(observation.thread, thread, messages, tools, "the agent rewrote its history")

    def _branch(
        self,
        name: str,
        thread: _Thread,
        history: Sequence[AnyMessage],
        tools: Sequence[ToolSpec],
        why: str,
        *,
        warn: bool = False,
    ) -> Turn:
        if warn:
            warnings.warn(f"thread {name!r} goes on as a branch: {why}", BranchWarning, stacklevel=5)
        rendered = self.renderer.render(history, tools)
        shared, said = self._shared(thread.head, rendered.ids, history) if tuple(tools) == thread.tools else (None, 0)
        start = 0 if shared is None else self.trace.node(shared).end
        node = self.trace.add_context(
            rendered.ids[start:],
            history[said:],
            thread=name,
            parent=shared,
            edge=Edge.REWRITE,
            origin=thread.head,
            ends=tuple(max(0, e - start) for e in rendered.ends[said:]),
            tools=tuple(tools) if shared is None else None,
            note=why,
        )
        thread.head = node.index
        thread.prompt = PromptIds(rendered.ids)
        thread.tools = tuple(tools)
        thread.states = {node.index: rendered.state}
        self._digest(node, thread.tools)
        return Turn(node, thread.prompt, thread.tools)

    def _shared(self, head: int, ids: Sequence[int], history: Sequence[AnyMessage]) -> tuple[int | None, int]:
        """The last node of the current path that the new rendering leaves as it is, and how many messages it covers."""
        shared: int | None = None
        said = 0
        for node in self.trace.path(head):
            count = said + len(node.messages)
            if count >= len(history) or node.end >= len(ids):
                break
            if node.ids.tolist() != list(ids[node.start : node.end]):
                break
            if [_key(m) for m in node.messages] != [_key(m) for m in history[said:count]]:
                break
            shared, said = node.index, count
        return shared, said

    # ---- generations to messages --------------------------------------------------------------------------------

    def record(
        self,
        turn: Turn,
        ids: Sequence[int] | IntArray,
        logprobs: Sequence[float] | FloatArray,
        versions: Sequence[int] | IntArray,
        *,
        finish: str,
        params: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        attempts: int = 1,
        usage: Usage | None = None,
        model: str | None = None,
    ) -> AssistantMessage:
        """Adds what was sampled for a turn; partial, aborted and unparsable generations too. Gives the message."""
        sampled = [int(i) for i in ids]
        parsed = self.renderer.parse(sampled, turn.node.ids.tolist(), turn.tools)
        index = len(self.trace)
        calls = tuple(
            _sound_call(c.model_copy(update={"id": f"call_{index}_{n}"}) if _OUR_CALL_ID.fullmatch(c.id) else c)
            for n, c in enumerate(parsed.tool_calls)
        )
        message = AssistantMessage(
            text=well_formed(parsed.text),
            tool_calls=calls,
            reasoning=None if parsed.reasoning is None else well_formed(parsed.reasoning),
            raw=well_formed(self.renderer.decode(sampled)),
            finish=finish,
            usage=usage or Usage(),
            model=model,
            node=index,
        )
        node = self.trace.add_sampled(
            turn.node.index,
            message,
            ids,
            logprobs,
            versions,
            finish=finish,
            params=params,
            request_id=request_id,
            attempts=attempts,
        )
        thread = self._threads[turn.node.thread]
        if thread.head == turn.node.index:
            thread.prompt.extend(node.ids)
        else:
            thread.prompt = PromptIds.of_path(self.trace, node.index)
        thread.head = node.index
        self._digest(node, thread.tools)
        self._said[self._digests[node.index]] = node.index
        return message

    # ---- what was said before -----------------------------------------------------------------------------------

    def _digest(self, node: Node, tools: Sequence[ToolSpec]) -> None:
        digest = self._digests[node.parent] if node.parent is not None else _tools_digest(tools)
        for message in node.messages:
            digest = _chain(digest, message)
        self._digests[node.index] = digest

    def _longest_said(self, messages: Sequence[AnyMessage], tools: Sequence[ToolSpec]) -> tuple[int | None, int]:
        found: tuple[int | None, int] = (None, 0)
        digest = _tools_digest(tools)
        for number, message in enumerate(messages, 1):
            digest = _chain(digest, message)
            node = self._said.get(digest)
            if node is not None:
                found = (node, number)
        return found


class _LazyMessages(Sequence[AnyMessage]):
    """The conversation up to a node, walked only if a renderer asks for it (those of `families` never do)."""

    def __init__(self, trace: Trace, index: int) -> None:
        self._trace = trace
        self._index = index
        self._all: list[AnyMessage] | None = None

    def _list(self) -> list[AnyMessage]:
        if self._all is None:
            self._all = self._trace.messages(self._index)
        return self._all

    def __len__(self) -> int:
        return len(self._list())

    def __getitem__(self, at: Any) -> Any:
        return self._list()[at]


def _key(message: AnyMessage) -> tuple[Any, ...]:
    """What makes two messages the same to a model; ids of calls and costs do not."""
    if isinstance(message, AssistantMessage):
        return ("assistant", message.text, tuple(map(_call_key, message.tool_calls)))
    if message.role == "assistant":
        return ("assistant", message.content, ())
    return (message.role, message.plain)


def _call_key(call: ToolCall) -> tuple[str, str]:
    if call.arguments is None:
        return call.name, call.arguments_text
    return call.name, json.dumps(call.arguments, sort_keys=True)


def _chain(digest: bytes, message: AnyMessage) -> bytes:
    text = json.dumps(_key(message), ensure_ascii=False)
    return hashlib.blake2b(digest + text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _tools_digest(tools: Sequence[ToolSpec]) -> bytes:
    text = json.dumps([t.model_dump(mode="json") for t in tools], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _sound_call(call: ToolCall) -> ToolCall:
    """A sampled call that every record can hold: without lone surrogates, and unread where it has no bottom."""
    texts: dict[str, Any] = {
        "id": well_formed(call.id),
        "name": well_formed(call.name),
        "raw_arguments": None if call.raw_arguments is None else well_formed(call.raw_arguments),
        "error": None if call.error is None else well_formed(call.error),
    }
    try:
        texts["arguments"] = None if call.arguments is None else sound(call.arguments)
    except ValueError as error:
        texts |= {"arguments": None, "error": f"arguments are {error}"}
    return ToolCall(**texts)
