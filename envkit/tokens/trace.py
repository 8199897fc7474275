"""The trace: what a model was shown and what it sampled, token by token, once.

A trace is a graph. A node holds only the tokens it *adds* to its parent's path: a context node the rendered tokens of
the messages that entered together (and the generation prompt behind them), a sampled node exactly the ids an engine
sampled, each with its logprob and the policy version that sampled it. A conversation that is only ever appended to is
one path; a rewritten history opens a branch, a sub-agent or a side call a root of its own, and both remember where
they came from. Nothing is ever changed once it is in, so memory is linear in the tokens that exist and adding a turn
costs what the turn adds. Used by policies and the model proxy (which write), by export, audit and viewers (which read).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from envkit.failure import EnvkitError
from envkit.messages import AssistantMessage, Message, ToolSpec

__all__ = ["Edge", "FloatArray", "IntArray", "Node", "NodeSink", "Sampling", "Trace", "TraceError"]

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]

#: Ids are stored as int32; no vocabulary comes near the bound.
_MAX_ID = 2**31 - 1


class TraceError(EnvkitError):
    """The trace was handed something that can't be true of one conversation (lengths differ, a NaN logprob...)."""


class Edge(StrEnum):
    """How a node relates to what its thread said before."""

    APPEND = "append"  # its tokens follow the parent's; the normal case, and the only one for sampled nodes
    REWRITE = "rewrite"  # the history was changed (compaction, an edited past, a template that re-renders): a branch
    SIDE = "side"  # the start of a thread of its own: a title, a summary, a sub-agent


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a sampled node knows beside its ids; arrays run parallel to `Node.ids`.

    Attributes:
        logprobs: Of the distribution sampled from (after temperature), one per id.
        versions: Policy version that sampled each id, never negative.
        finish: `stop`, `length`, `context`, `abort` or what the engine said.
        params: The sampling parameters of the request, as sent.
        request_id: The engine's name for the request, if it gave one.
        attempts: Requests sent until one came back whole (>= 1); tokens of the others were never seen by anybody.
    """

    logprobs: FloatArray
    versions: IntArray
    finish: str
    params: Mapping[str, Any] = field(default_factory=dict)
    request_id: str | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Node:
    """One step of a path.

    Attributes:
        index: Position in the trace, in order of arrival.
        parent: The node whose path these tokens follow; None for a root.
        thread: The observation thread it belongs to.
        edge: How it came to be; `origin` is the node the thread (or its opener) stood at for rewrites and side threads.
        start: Tokens on the path before this node.
        ids: The tokens it adds.
        messages: What it says; exactly one assistant message for sampled nodes.
        ends: For context nodes, where each message's tokens end in `ids`, when the renderer told (the rest is the
            generation prompt); empty when it did not.
        tools: The tools offered from here on, None when unchanged.
        sampling: Present on sampled nodes only.
        note: Why a branch was opened, for people.
    """

    index: int
    parent: int | None
    thread: str
    edge: Edge
    origin: int | None
    start: int
    ids: IntArray
    messages: tuple[Message | AssistantMessage, ...]
    ends: tuple[int, ...] = ()
    tools: tuple[ToolSpec, ...] | None = None
    sampling: Sampling | None = None
    note: str | None = None

    @property
    def end(self) -> int:
        """Tokens on the path up to and including this node."""
        return self.start + len(self.ids)

    @property
    def sampled(self) -> bool:
        return self.sampling is not None


class NodeSink(Protocol):
    """Where nodes go as they are added (`store.TraceWriter`)."""

    def append(self, node: Node) -> None: ...


def as_ids(values: Sequence[int] | IntArray) -> IntArray:
    """Token ids as a read-only int32 array. Raises `TraceError` for anything that is not a list of token ids."""
    wide = np.asarray(values) if len(values) else np.empty(0, np.int64)
    if wide.ndim != 1 or wide.dtype.kind not in "iu":
        raise TraceError(f"token ids must be a flat list of integers, found {wide.dtype} with {wide.ndim} dimensions")
    if len(wide) and (int(wide.min()) < 0 or int(wide.max()) > _MAX_ID):
        raise TraceError(f"token ids must lie in 0..{_MAX_ID}, found {int(wide.min())}..{int(wide.max())}")
    out = np.array(wide, dtype=np.int32)
    out.flags.writeable = False
    return out


class Trace:
    """The graph of one trial (or of one episode step). Not thread-safe; one writer.

    Args:
        meta: JSON-shaped facts about the whole (model, tokenizer, renderer), kept with the trace.
        sink: Gets every node before it becomes visible, so that what readers saw is also stored.
    """

    def __init__(self, meta: Mapping[str, Any] | None = None, sink: NodeSink | None = None) -> None:
        self.meta: dict[str, Any] = dict(meta or {})
        self._nodes: list[Node] = []
        self._children: list[list[int]] = []
        self._sink = sink

    @classmethod
    def of(cls, nodes: Iterable[Node], meta: Mapping[str, Any], sink: NodeSink | None = None) -> Trace:
        """Rebuilds a trace from stored nodes, checking them as if they were added anew; `sink` gets later ones only."""
        trace = cls(meta)
        for node in nodes:
            trace._add(node)
        trace._sink = sink
        return trace

    # ---- writing ------------------------------------------------------------------------------------------------

    def add_context(
        self,
        ids: Sequence[int] | IntArray,
        messages: Sequence[Message | AssistantMessage],
        *,
        thread: str = "main",
        parent: int | None = None,
        edge: Edge = Edge.APPEND,
        origin: int | None = None,
        ends: Sequence[int] = (),
        tools: Sequence[ToolSpec] | None = None,
        note: str | None = None,
    ) -> Node:
        """Adds what the model is shown next. Raises `TraceError` when it can't follow `parent`."""
        node = Node(
            index=len(self._nodes),
            parent=parent,
            thread=thread,
            edge=edge,
            origin=origin,
            start=0 if parent is None else self.node(parent).end,
            ids=as_ids(ids),
            messages=tuple(messages),
            ends=tuple(ends),
            tools=None if tools is None else tuple(tools),
            note=note,
        )
        return self._add(node)

    def add_sampled(
        self,
        parent: int,
        message: AssistantMessage,
        ids: Sequence[int] | IntArray,
        logprobs: Sequence[float] | FloatArray,
        versions: Sequence[int] | IntArray,
        *,
        finish: str,
        params: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        attempts: int = 1,
    ) -> Node:
        """Adds what an engine sampled after `parent`. Partial and unparsable generations are added all the same."""
        before = self.node(parent)
        lps = np.array(logprobs, dtype=np.float32).reshape(-1)
        vers = np.array(versions, dtype=np.int32).reshape(-1)
        lps.flags.writeable = vers.flags.writeable = False
        node = Node(
            index=len(self._nodes),
            parent=parent,
            thread=before.thread,
            edge=Edge.APPEND,
            origin=None,
            start=before.end,
            ids=as_ids(ids),
            messages=(message,),
            sampling=Sampling(
                logprobs=lps,
                versions=vers,
                finish=finish,
                params=dict(params or {}),
                request_id=request_id,
                attempts=attempts,
            ),
        )
        return self._add(node)

    def _add(self, node: Node) -> Node:
        self._check(node)
        if self._sink is not None:
            self._sink.append(node)
        self._nodes.append(node)
        self._children.append([])
        if node.parent is not None:
            self._children[node.parent].append(node.index)
        return node

    def _check(self, node: Node) -> None:
        where = f"node {node.index} of thread {node.thread!r}"
        if node.index != len(self._nodes):
            raise TraceError(f"{where}: expected index {len(self._nodes)}; nodes were lost or reordered")
        for other in (node.parent, node.origin):
            if other is not None and not 0 <= other < node.index:
                raise TraceError(f"{where}: refers to node {other}, which does not come before it")
        if node.start != (0 if node.parent is None else self._nodes[node.parent].end):
            raise TraceError(f"{where}: starts at {node.start}, but its parent's path ends elsewhere")
        if node.parent is None and node.sampled:
            raise TraceError(f"{where}: a sampled node needs a context before it")
        if node.edge is Edge.SIDE and node.parent is not None:
            raise TraceError(f"{where}: a side thread has a root of its own, it can't continue node {node.parent}")
        if node.ends and (
            list(node.ends) != sorted(node.ends)
            or len(node.ends) != len(node.messages)
            or node.ends[-1] > len(node.ids)
        ):
            raise TraceError(f"{where}: message ends {node.ends} don't partition {len(node.ids)} tokens")
        s = node.sampling
        if s is None:
            return
        if not len(node.ids) == len(s.logprobs) == len(s.versions):
            raise TraceError(
                f"{where}: {len(node.ids)} ids, {len(s.logprobs)} logprobs and {len(s.versions)} versions; "
                "the engine must return one of each per sampled token"
            )
        if len(node.messages) != 1 or not isinstance(node.messages[0], AssistantMessage):
            raise TraceError(f"{where}: a sampled node carries exactly one assistant message")
        if len(node.ids) and (not np.isfinite(s.logprobs).all() or float(s.logprobs.max()) > 1e-3):
            raise TraceError(f"{where}: logprobs must be finite and not above 0")
        if len(node.ids) and int(s.versions.min()) < 0:
            raise TraceError(f"{where}: policy versions must not be negative, found {int(s.versions.min())}")

    # ---- reading ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def node(self, index: int) -> Node:
        if not 0 <= index < len(self._nodes):
            raise TraceError(f"no node {index} in a trace of {len(self._nodes)}")
        return self._nodes[index]

    def children(self, index: int) -> tuple[Node, ...]:
        return tuple(self._nodes[i] for i in self._children[index])

    def roots(self) -> tuple[Node, ...]:
        return tuple(n for n in self._nodes if n.parent is None)

    def leaves(self) -> tuple[Node, ...]:
        """Nodes without children, in order of arrival: the ends of the root-to-leaf paths."""
        return tuple(n for n in self._nodes if not self._children[n.index])

    def path(self, index: int) -> list[Node]:
        """The nodes from the root to `index`."""
        out: list[Node] = []
        current: int | None = index
        while current is not None:
            node = self.node(current)
            out.append(node)
            current = node.parent
        out.reverse()
        return out

    def ids(self, index: int) -> IntArray:
        """All tokens of the path to `index`: what an engine would be sent."""
        chunks = [n.ids for n in self.path(index)]
        return np.concatenate(chunks) if chunks else np.empty(0, np.int32)

    def messages(self, index: int) -> list[Message | AssistantMessage]:
        """The conversation along the path to `index`."""
        return [m for n in self.path(index) for m in n.messages]

    @property
    def sampled_tokens(self) -> int:
        """How many tokens were sampled in all."""
        return sum(len(n.ids) for n in self._nodes if n.sampled)
