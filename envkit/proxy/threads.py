"""Whose turn a request is: an agent's requests told apart into threads, and each said as an observation.

An agent sends its whole conversation with every request. Where that is what its thread said before plus something new,
the observation appends: only the new messages, so that the sampled tokens before them stay as they are. A conversation
that differs is a `rewrite` of its thread (the agent compacted or edited its past) or, with another system text and
other tools, a thread of its own: a title, a summary, a sub-agent. An agent may re-tell our own answer in other words
(a call under another name, arguments in another order, text and calls as two messages, an empty answer left out): the
ids of its calls say that it is ours. Where a guess is wrong the trace stays honest: a `rewrite` too many is a branch.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from envkit.messages import AssistantMessage, Message, Observation, ObservationKind, ToolSpec
from envkit.proxy.dialect import AnyMessage, ModelRequest

__all__ = ["SideCall", "ThreadBook", "looks_like_side_call"]

#: Says whether a request that belongs to no thread is a side call of the agent's (a title, say) and not its main work.
SideCall = Callable[[ModelRequest], bool]

_TITLE_TOKENS = 128
#: Where a system text says what it is for; further down any agent's may speak of titles.
_HEAD = 300
_CHORES = re.compile(r"\b(titles?|summary|summaries|summari[sz](e|es|ing|er|ation))\b", re.IGNORECASE)
#: Threads that are remembered; the least recently used of the others is forgotten.
_MAX_THREADS = 64


def looks_like_side_call(request: ModelRequest) -> bool:
    """The default: a request without tools that asks for a few tokens only, or whose system text begins by
    speaking of a title or a summary."""
    if request.tools:
        return False
    if request.max_tokens is not None and request.max_tokens <= _TITLE_TOKENS:
        return True
    first = request.messages[0] if request.messages else None
    text = first.content if isinstance(first, Message) and first.role == "system" else ""
    return _CHORES.search(text[:_HEAD]) is not None


@dataclass(slots=True)
class _Thread:
    name: str
    tools: bytes
    history: list[AnyMessage] = field(default_factory=list)  # as the agent was last seen to tell it, answers as ours


class ThreadBook:
    """The threads of one trial's agent. `observe` a request, then `replied` with its answer."""

    def __init__(self, is_side_call: SideCall = looks_like_side_call) -> None:
        self._is_side_call = is_side_call
        self._threads: dict[str, _Thread] = {}
        self._latest: list[str] = []  # least recently used first
        self._sides = 0

    def observe(self, request: ModelRequest) -> Observation:
        """The observation that a request makes. Its thread's history becomes what the request says."""
        told = list(request.messages)
        tools = _tools_key(request.tools)
        best: _Thread | None = None
        common = at = -1  # messages of the thread's history and of the request that are the same
        for name in reversed(self._latest):
            thread = self._threads[name]
            shared, until = _shared(thread.history, told)
            if shared > common and (shared == len(thread.history) or self._same_identity(thread, told, tools)):
                best, common, at = thread, shared, until
        if best is None:
            return self._open(request, told, tools)
        whole = common == len(best.history) and len(told) > at
        new = told[at:]
        appends = whole and not any(isinstance(m, AssistantMessage) for m in new) and self._answered(best)
        changed = tools != best.tools
        best.tools = tools
        # Our own answers stay as we gave them: their tokens are what counts.
        best.history = best.history[:common] + new
        self._use(best.name)
        return Observation(
            thread=best.name,
            kind=ObservationKind.APPEND if appends else ObservationKind.REWRITE,
            messages=tuple(new if appends else best.history),
            tools=request.tools if changed else None,
        )

    def replied(self, thread: str, answer: AssistantMessage) -> None:
        """Notes what the thread was answered."""
        self._threads[thread].history.append(answer)

    def history(self, thread: str) -> tuple[AnyMessage, ...]:
        """A thread's conversation, with our answers as we gave them."""
        return tuple(self._threads[thread].history)

    def _answered(self, thread: _Thread) -> bool:
        return bool(thread.history) and isinstance(thread.history[-1], AssistantMessage)

    def _same_identity(self, thread: _Thread, told: Sequence[AnyMessage], tools: bytes) -> bool:
        """Whether a conversation that differs from a thread's is still that thread's: the same tools, and the same
        system text or the same first words of the user. A side call without tools is never gone back to."""
        if tools != thread.tools or not thread.history or (thread.name != "main" and tools == _NO_TOOLS):
            return False
        return any(
            (mine := _first(thread.history, role)) is not None and mine == _first(told, role)
            for role in ("system", "user")
        )

    def _open(self, request: ModelRequest, told: list[AnyMessage], tools: bytes) -> Observation:
        main = self._threads.get("main")
        if main is not None and main.tools == _NO_TOOLS and request.tools:
            # What came first was no work, though nothing said so: a title, a question of what the model can do.
            main.tools, main.history = tools, told
            self._use("main")
            return Observation(kind=ObservationKind.REWRITE, messages=tuple(told), tools=request.tools)
        side = main is not None or self._is_side_call(request)
        self._sides += side
        name = f"side-{self._sides}" if side else "main"
        self._threads[name] = _Thread(name, tools, told)
        self._use(name)
        return Observation(
            thread=name,
            kind=ObservationKind.SIDE if side else ObservationKind.APPEND,
            messages=tuple(told),
            tools=request.tools,
        )

    def _use(self, name: str) -> None:
        if name in self._latest:
            self._latest.remove(name)
        self._latest.append(name)
        if len(self._latest) > _MAX_THREADS:
            oldest = next(other for other in self._latest if other != "main")
            self._latest.remove(oldest)
            del self._threads[oldest]


def _shared(ours: Sequence[AnyMessage], told: Sequence[AnyMessage]) -> tuple[int, int]:
    """How many messages of each both begin with. One answer may be told in several messages, several in one, and an
    empty one not at all."""
    i = j = 0
    while i < len(ours):
        mine = ours[i]
        if j < len(told) and _same(mine, told[j]):
            i, j = i + 1, j + 1
            continue
        if not isinstance(mine, AssistantMessage):
            break
        here = _run(told, j)
        if len(here) > 1 and _same(mine, _joined(here)):
            i, j = i + 1, j + len(here)
            continue
        both = _run(ours, i)
        if here and len(both) > 1 and _same(_joined(both), told[j]):
            i, j = i + len(both), j + 1
            continue
        if mine.text.strip() or mine.tool_calls or here or j == len(told):
            break
        i += 1
    return i, j


def _run(messages: Sequence[AnyMessage], start: int) -> list[AssistantMessage]:
    """The assistant's messages that stand together from here on."""
    out: list[AssistantMessage] = []
    while start < len(messages) and isinstance(message := messages[start], AssistantMessage):
        out.append(message)
        start += 1
    return out


def _joined(messages: Sequence[AssistantMessage]) -> AssistantMessage:
    return AssistantMessage(
        text="".join(m.text for m in messages), tool_calls=tuple(c for m in messages for c in m.tool_calls)
    )


def _same(ours: AnyMessage, told: AnyMessage) -> bool:
    if isinstance(ours, AssistantMessage) and isinstance(told, AssistantMessage):
        if ours.tool_calls or told.tool_calls:
            return [c.id for c in ours.tool_calls] == [c.id for c in told.tool_calls]
        return ours.text.strip() == told.text.strip()
    if isinstance(ours, Message) and isinstance(told, Message):
        return (ours.role, ours.content, ours.tool_call_id, ours.images) == (
            told.role,
            told.content,
            told.tool_call_id,
            told.images,
        )
    return False


def _first(messages: Sequence[AnyMessage], role: str) -> str | None:
    for message in messages:
        if isinstance(message, Message) and message.role == role:
            return message.content
    return None


def _tools_key(tools: Sequence[ToolSpec]) -> bytes:
    text = json.dumps([t.model_dump(mode="json") for t in tools], sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


_NO_TOOLS = _tools_key(())
