"""From a trace to training samples, with the bookkeeping proven to the token.

A sample is one root-to-leaf path. Where several paths share a prefix, its sampled tokens train in exactly one of them
(the path that ends last, so that an abandoned retry never owns the main conversation) and are context in the others.
What is not delivered is counted under a reason. Every export checks, and raises `TraceError` otherwise:

    len(ids) == len(mask) == len(logprobs) == len(versions)           for every sample
    delivered + sum(dropped.values()) == sampled tokens of the trace   to the token
    mask 0  =>  logprob 0.0 and version -1

Used by trainers and by `envkit tokens`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from envkit.tokens.trace import FloatArray, IntArray, Node, Trace, TraceError

__all__ = ["Drop", "Export", "Sample", "drop_finishes", "export"]

#: Decides whether a sampled node is kept out of training: a reason, or None to train on it.
Drop = Callable[[Node], str | None]

TOO_LONG = "too_long"
THREAD = "thread_not_exported"


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of training data; all arrays have one entry per token.

    Attributes:
        ids: Tokens of the path, cut behind the last trained one.
        mask: True where the token was sampled and trains here.
        logprobs: Logprob at sampling where `mask`, else 0.0.
        versions: Policy version where `mask`, else -1.
        thread: The thread of the path's end.
        nodes: The path's node indices (those that lie in the cut part too).
        finish: How the last sampled node on the path ended.
        spans: (node, start, end) of each node that trains here, in order: its tokens are `ids[start:end]`.
    """

    ids: IntArray
    mask: npt.NDArray[np.bool_]
    logprobs: FloatArray
    versions: IntArray
    thread: str
    nodes: tuple[int, ...]
    finish: str
    spans: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Export:
    """Samples, oldest path first, and where every sampled token went."""

    samples: tuple[Sample, ...]
    sampled: int
    delivered: int
    dropped: dict[str, int]


def drop_finishes(*finishes: str) -> Drop:
    """Keeps generations that ended in one of `finishes` (such as `abort`) out of training; the reason is its name."""

    def decide(node: Node) -> str | None:
        assert node.sampling is not None
        return node.sampling.finish if node.sampling.finish in finishes else None

    return decide


def export(
    trace: Trace,
    *,
    drop: Drop | None = None,
    threads: Collection[str] | None = None,
    max_tokens: int | None = None,
) -> Export:
    """Cuts a trace into training samples.

    Args:
        drop: Names a reason for sampled nodes that must not train; by default everything trains.
        threads: Only nodes of these threads train (their reason otherwise: `thread_not_exported`); None for all.
        max_tokens: Longest sample; sampled tokens behind it are dropped as `too_long`.

    Raises:
        TraceError: An invariant does not hold; nothing may be trained on.
    """
    dropped: dict[str, int] = {}
    trains: set[int] = set()
    for node in trace:
        if not node.sampled:
            continue
        reason = THREAD if threads is not None and node.thread not in threads else drop(node) if drop else None
        if reason is None:
            trains.add(node.index)
        elif len(node.ids):
            dropped[reason] = dropped.get(reason, 0) + len(node.ids)

    owned: dict[int, set[int]] = {}
    taken: set[int] = set()
    for leaf in reversed(trace.leaves()):
        mine: set[int] = set()
        current: int | None = leaf.index
        while current is not None and current not in taken:
            if current in trains:
                mine.add(current)
            taken.add(current)
            current = trace.node(current).parent
        if mine:
            owned[leaf.index] = mine

    samples: list[Sample] = []
    for leaf_index in sorted(owned):
        sample, cut = _sample(trace, leaf_index, owned[leaf_index], max_tokens)
        if cut:
            dropped[TOO_LONG] = dropped.get(TOO_LONG, 0) + cut
        if sample is not None:
            samples.append(sample)
    out = Export(
        samples=tuple(samples),
        sampled=trace.sampled_tokens,
        delivered=sum(int(s.mask.sum()) for s in samples),
        dropped=dropped,
    )
    check(out)
    return out


def _sample(trace: Trace, leaf: int, mine: set[int], max_tokens: int | None) -> tuple[Sample | None, int]:
    path = trace.path(leaf)
    length = max((n.end for n in path if n.index in mine and len(n.ids)), default=0)
    wanted = sum(len(n.ids) for n in path if n.index in mine)
    if max_tokens is not None:
        length = min(length, max_tokens)
    ids = np.empty(length, np.int32)
    mask = np.zeros(length, np.bool_)
    logprobs = np.zeros(length, np.float32)
    versions = np.full(length, -1, np.int32)
    spans: list[tuple[int, int, int]] = []
    for node in path:
        if node.start >= length:
            break
        n = min(node.end, length) - node.start
        at = slice(node.start, node.start + n)
        ids[at] = node.ids[:n]
        if node.index in mine and node.sampling is not None:
            mask[at] = True
            logprobs[at] = node.sampling.logprobs[:n]
            versions[at] = node.sampling.versions[:n]
            if n:
                spans.append((node.index, node.start, node.start + n))
    kept = int(mask.sum())
    if not kept:
        return None, wanted
    last = int(np.flatnonzero(mask)[-1]) + 1
    finish = next(n.sampling.finish for n in reversed(path) if n.index in mine and n.sampling is not None)
    sample = Sample(
        ids=ids[:last],
        mask=mask[:last],
        logprobs=logprobs[:last],
        versions=versions[:last],
        thread=path[-1].thread,
        nodes=tuple(n.index for n in path),
        finish=finish,
        spans=tuple(spans),
    )
    return sample, wanted - kept


def check(out: Export) -> None:
    """Raises `TraceError` unless the invariants of the module's docstring hold."""
    for number, s in enumerate(out.samples):
        if not len(s.ids) == len(s.mask) == len(s.logprobs) == len(s.versions):
            raise TraceError(
                f"sample {number}: {len(s.ids)} ids, {len(s.mask)} mask, {len(s.logprobs)} logprobs and "
                f"{len(s.versions)} versions must be equally many"
            )
        context = ~s.mask
        if s.logprobs[context].any() or (s.versions[context] != -1).any():
            raise TraceError(f"sample {number}: a position that was not sampled carries a logprob or a version")
        if (s.versions[s.mask] < 0).any():
            raise TraceError(f"sample {number}: a sampled position carries no policy version")
    missing = out.sampled - out.delivered - sum(out.dropped.values())
    if missing:
        raise TraceError(
            f"{out.sampled} tokens were sampled, {out.delivered} delivered and {out.dropped} dropped: "
            f"{missing} are unaccounted for"
        )
