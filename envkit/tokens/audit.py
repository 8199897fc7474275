"""Auditing a finished trace: where would a loop that keeps messages instead of ids have trained on other tokens?

The conversation is rendered anew from its messages and compared with the ids that were really used, node by node. Each
difference is reported with its cause: `retokenised` (the same text as other ids), `retemplated` (the template writes
the turn differently: spacing of arguments, dropped reasoning, another order), `rewritten` (the history itself was
changed; the trace holds a branch). None of these is an error of the trace, which keeps what was sampled; they are the
errors it avoids. `logprob_gap` compares the engine's logprobs with a trainer's. Used by `envkit tokens audit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from envkit.tokens.export import Sample
from envkit.tokens.render import Renderer
from envkit.tokens.shield import RenderError
from envkit.tokens.trace import Edge, FloatArray, IntArray, Node, Trace

__all__ = ["Audit", "Cause", "Drift", "LogprobGap", "audit", "logprob_gap"]

_NEEDLE = 24  # ids that find the next node again behind a difference
_SHOWN = 160


class Cause(StrEnum):
    """Why ids differ."""

    RETOKENISED = "retokenised"  # the same text, split differently
    RETEMPLATED = "retemplated"  # the template writes it differently
    REWRITTEN = "rewritten"  # the history was changed; the trace has a branch here
    REFUSED = "refused"  # the template can't render the conversation at all


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference.

    Attributes:
        node: Index of the node in which it begins; `sampled` says whether those were sampled tokens.
        at: Position on the node's path.
        actual, rendered: The text that was used and the text that rendering gives, from where they begin to differ.
        tokens: Ids of the node from the first different one on.
    """

    cause: Cause
    node: int
    thread: str
    sampled: bool
    at: int
    tokens: int
    actual: str
    rendered: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """All differences, in the order of the trace."""

    drifts: tuple[Drift, ...]
    tokens: int
    sampled_tokens: int

    @property
    def counts(self) -> dict[str, int]:
        out: dict[str, int] = {}
        for drift in self.drifts:
            out[drift.cause.value] = out.get(drift.cause.value, 0) + 1
        return out


def audit(trace: Trace, renderer: Renderer) -> Audit:
    """Renders every path of a trace anew and reports each difference once."""
    drifts: list[Drift] = []
    seen: set[int] = set()
    for node in trace:
        if node.edge is Edge.REWRITE:
            drifts.append(
                Drift(
                    Cause.REWRITTEN,
                    node.index,
                    node.thread,
                    False,
                    node.start,
                    len(node.ids),
                    _shown(renderer.decode(node.ids[:_SHOWN].tolist())),
                    "",
                    node.note,
                )
            )
    for leaf in trace.leaves():
        path = trace.path(leaf.index)
        contexts = [n for n in path if not n.sampled]
        if contexts:
            drifts += _compare(trace, path[: path.index(contexts[-1]) + 1], renderer, seen)
        if leaf.sampled and leaf.index not in seen:
            drifts += _alone(leaf, renderer)
        seen.update(n.index for n in path)
    drifts.sort(key=lambda d: (d.node, d.at))
    return Audit(tuple(drifts), sum(len(n.ids) for n in trace), trace.sampled_tokens)


def _compare(trace: Trace, path: Sequence[Node], renderer: Renderer, seen: set[int]) -> list[Drift]:
    """Walks a path and its rendering side by side; behind a difference the next node's first ids find the way back."""
    messages = [m for n in path for m in n.messages]
    tools = next((n.tools for n in reversed(path) if n.tools is not None), None)
    last = path[-1]
    try:
        rendered = np.array(renderer.render(messages, tools).ids, np.int32)
    except RenderError as error:
        return [Drift(Cause.REFUSED, last.index, last.thread, False, last.start, len(last.ids), "", "", str(error))]
    out: list[Drift] = []
    at = 0  # in the rendering
    for number, node in enumerate(path):
        n = _common(node.ids, rendered[at:])
        if n == len(node.ids):
            at += n
            continue
        follower = path[number + 1] if number + 1 < len(path) else None
        end = len(rendered)
        if follower is not None:
            found = _find(rendered, follower.ids[:_NEEDLE], at + n)
            end = len(rendered) if found is None else found
        if node.index not in seen:
            out.append(_drift(node, n, node.ids[n:], rendered[at + n : end], renderer))
        at = end
    return out


def _drift(node: Node, n: int, actual: IntArray, rendered: IntArray, renderer: Renderer) -> Drift:
    ours, theirs = renderer.decode(actual.tolist()), renderer.decode(rendered.tolist())
    return Drift(
        Cause.RETOKENISED if ours == theirs else Cause.RETEMPLATED,
        node.index,
        node.thread,
        node.sampled,
        node.start + n,
        len(actual),
        _shown(ours),
        _shown(theirs),
    )


def _alone(node: Node, renderer: Renderer) -> list[Drift]:
    """The last answer of a path, which no rendering follows: would its text come back as the same ids?"""
    text = renderer.decode(node.ids.tolist())
    again = np.array(renderer.encode(text), np.int32)
    n = _common(node.ids, again)
    if n == len(node.ids) == len(again):
        return []
    drift = _drift(node, n, node.ids[n:], again[n:], renderer)
    return [drift]


def _common(a: IntArray, b: IntArray) -> int:
    n = min(len(a), len(b))
    differ = np.flatnonzero(a[:n] != b[:n])
    return int(differ[0]) if len(differ) else n


def _find(hay: IntArray, needle: IntArray, start: int) -> int | None:
    """The first place of `needle` in `hay` from `start` on."""
    if not len(needle):
        return start
    for place in np.flatnonzero(hay[start:] == needle[0]).tolist():
        i = start + place
        if len(hay) - i >= len(needle) and bool((hay[i : i + len(needle)] == needle).all()):
            return int(i)
    return None


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "\u2026"


@dataclass(frozen=True, slots=True)
class LogprobGap:
    """The difference between the engine's logprobs and a trainer's, over tokens of one policy version."""

    tokens: int
    mean: float
    largest: float


def logprob_gap(
    samples: Iterable[Sample], score: Callable[[IntArray], FloatArray], *, version: int | None = None
) -> LogprobGap:
    """Compares logprobs token by token.

    Args:
        score: Gives, for a row of n ids, the n-1 logprobs of ids 1..n-1 under the trainer's weights, at the
            temperature of sampling.
        version: Only tokens sampled by this version count (those of the weights that `score` has); None for all.
    """
    gaps: list[FloatArray] = []
    for sample in samples:
        mask = sample.mask if version is None else sample.mask & (sample.versions == version)
        if mask[1:].any():
            gaps.append(np.abs(sample.logprobs[1:] - score(sample.ids))[mask[1:]])
    if not gaps:
        return LogprobGap(0, 0.0, 0.0)
    every = np.concatenate(gaps)
    return LogprobGap(len(every), float(every.mean()), float(every.max()))
