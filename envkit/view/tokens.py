"""A trace for the token view: its nodes, and any stretch of its tokens with what is known of each.

Tokens are addressed by their position in the concatenation of all nodes, in order of arrival. A token was shown
(context), sampled and trains, or was sampled and is masked (in no training sample: `samples.safetensors` where the
trial left one decides, else the trace's own export). The gap is trainer minus engine, where `envkit tokens audit
--keep` left a trainer's logprobs. Parsed traces are kept, a few at a time. Used by the viewer's pages.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from envkit.messages import AssistantMessage
from envkit.tokens.export import Export, export
from envkit.tokens.samples import SAMPLES, read_samples
from envkit.tokens.scored import SCORED, read_scored
from envkit.tokens.store import TRACE_JOURNAL, TRACE_JSON, read_trace
from envkit.tokens.trace import Node, Trace, TraceError
from envkit.view.vocabulary import Vocabulary, load_vocabulary

__all__ = ["TokenView", "TokenViews", "trace_folder"]

CONTEXT, TRAINS, MASKED = 0, 1, 2
_KEPT = 3
#: Most tokens in one answer.
MOST = 8_192


def trace_folder(attempt: Path) -> Path | None:
    """Where an attempt's trace lies; None where it left none."""
    folder = attempt / "logs" / "trace"
    return folder if any((folder / name).is_file() for name in (TRACE_JSON, TRACE_JOURNAL)) else None


class TokenView:
    """One trace, laid out flat."""

    def __init__(self, folder: Path) -> None:
        trace = read_trace(folder)
        self.meta = {str(k): v for k, v in trace.meta.items() if isinstance(v, str | int | float | bool)}
        self.notes: list[str] = []
        nodes = list(trace)
        self._starts = np.concatenate([[0], np.cumsum([len(n.ids) for n in nodes])]).astype(np.int64)
        self.total = int(self._starts[-1])
        self._ids = _flat([n.ids for n in nodes], np.int32)
        self._kind = np.zeros(self.total, np.int8)
        self._logprobs = np.full(self.total, np.nan, np.float32)
        self._versions = np.full(self.total, -1, np.int32)
        self._gaps = np.full(self.total, np.nan, np.float32)
        self.has_gap = False
        for node in nodes:
            if node.sampling is not None:
                at = self._span(node.index)
                self._kind[at] = MASKED
                self._logprobs[at] = node.sampling.logprobs
                self._versions[at] = node.sampling.versions
        self._mark(trace, folder)
        self._score(trace, folder)
        self.vocabulary: Vocabulary | None = load_vocabulary(str(trace.meta.get("tokenizer") or ""))
        if self.vocabulary is None:
            self.notes.append(
                f"the tokenizer {trace.meta.get('tokenizer')!r} is not on this machine: tokens are shown as their ids"
            )
        self._nodes = [self._node(node) for node in nodes]

    def _span(self, index: int) -> slice:
        return slice(int(self._starts[index]), int(self._starts[index + 1]))

    def _mark(self, trace: Trace, folder: Path) -> None:
        out: Export | None = None
        try:
            out = read_samples(folder) if (folder / SAMPLES).is_file() else export(trace)
        except TraceError as error:
            self.notes.append(f"nothing may be trained on this trace: {error}")
        for sample in out.samples if out is not None else ():
            for index, start, end in sample.spans:
                if 0 <= index < len(trace):
                    first = int(self._starts[index])
                    self._kind[first : min(first + end - start, int(self._starts[index + 1]))] = TRAINS
        self.dropped = dict(out.dropped) if out is not None else {}
        self.samples = len(out.samples) if out is not None else 0

    def _score(self, trace: Trace, folder: Path) -> None:
        try:
            found = read_scored(folder, trace)
        except TraceError as error:
            self.notes.append(str(error))
            return
        if found is None:
            return
        theirs, about = found
        sampled = self._kind != CONTEXT
        self._gaps[sampled] = theirs - self._logprobs[sampled]
        self.has_gap = True
        self.meta["trainer"] = str(about.get("model"))

    def _node(self, node: Node) -> dict[str, Any]:
        at = self._span(node.index)
        gaps = np.abs(self._gaps[at])
        scored = gaps[~np.isnan(gaps)]
        out: dict[str, Any] = {
            "index": node.index,
            "parent": node.parent,
            "thread": node.thread,
            "edge": node.edge.value,
            "start": int(self._starts[node.index]),
            "count": len(node.ids),
            "path": node.start,
            "sampled": node.sampled,
            "note": node.note,
            "roles": [m.role if not isinstance(m, AssistantMessage) else "assistant" for m in node.messages][:20],
            "head": _head(node),
            "trains": int((self._kind[at] == TRAINS).sum()),
        }
        if node.sampling is not None and len(node.ids):
            out |= {
                "finish": node.sampling.finish,
                "attempts": node.sampling.attempts,
                "logprob": round(float(node.sampling.logprobs.mean()), 4),
                "lowest": round(float(node.sampling.logprobs.min()), 4),
                "versions": [int(node.sampling.versions.min()), int(node.sampling.versions.max())],
                "gap": round(float(scored.mean()), 5) if len(scored) else None,
                "largest_gap": round(float(scored.max()), 5) if len(scored) else None,
            }
        return out

    def about(self) -> dict[str, Any]:
        """The trace as a whole, with a line for each node."""
        sampled = self._kind != CONTEXT
        gaps = np.abs(self._gaps[~np.isnan(self._gaps)])
        versions = self._versions[sampled]
        return {
            "meta": self.meta,
            "notes": self.notes,
            "total": self.total,
            "sampled": int(sampled.sum()),
            "trains": int((self._kind == TRAINS).sum()),
            "dropped": self.dropped,
            "samples": self.samples,
            "versions": [int(versions.min()), int(versions.max())] if len(versions) else None,
            "logprob": float(self._logprobs[sampled].mean()) if sampled.any() else None,
            "gap": _spread(gaps) if len(gaps) else None,
            "texts": self.vocabulary is not None,
            "nodes": self._nodes,
        }  # fmt: skip

    def stretch(self, start: int, count: int) -> dict[str, Any]:
        """Tokens from `start` on, at most `MOST`, as parallel lists; None where a token has no such figure."""
        at = slice(max(0, start), min(self.total, max(0, start) + min(count, MOST)))
        ids = self._ids[at].tolist()
        words = self.vocabulary
        return {
            "start": at.start,
            "ids": ids,
            "texts": None if words is None else [words.text(id) for id in ids],
            "special": [] if words is None else [n for n, id in enumerate(ids) if id in words.special],
            "kinds": self._kind[at].tolist(),
            "logprobs": _figures(self._logprobs[at]),
            "versions": self._versions[at].tolist(),
            "gaps": _figures(self._gaps[at]) if self.has_gap else None,
        }

    def extremes(self, what: str, most: int = 200) -> list[int]:
        """Positions of the tokens with the largest gap (`gap`) or the lowest logprob (`logprob`), worst first."""
        values = -np.abs(self._gaps) if what == "gap" else self._logprobs
        known = np.flatnonzero(~np.isnan(values))
        order = np.argsort(values[known], kind="stable")[:most]
        return [int(position) for position in known[order]]


class TokenViews:
    """Parsed traces, kept while their files stay the same. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[Any, ...], TokenView] = OrderedDict()

    def get(self, attempt: Path) -> TokenView:
        """Raises `FileNotFoundError` where there is no trace, `TraceError` for a damaged one."""
        folder = trace_folder(attempt)
        if folder is None:
            raise FileNotFoundError("this attempt left no trace; only the token policy and training leave one")
        marks = []
        for name in (TRACE_JSON, TRACE_JOURNAL, SAMPLES, SCORED):
            path = folder / name
            marks.append((path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else None)
        key = (str(folder), *marks)
        with self._lock:
            if key not in self._found:
                self._found[key] = TokenView(folder)
                while len(self._found) > _KEPT:
                    self._found.popitem(last=False)
            self._found.move_to_end(key)
            return self._found[key]


def _spread(gaps: npt.NDArray[np.float32]) -> dict[str, Any]:
    return {"tokens": len(gaps), "mean": float(gaps.mean()), "largest": float(gaps.max())}


def _flat(chunks: list[Any], dtype: Any) -> npt.NDArray[Any]:
    return np.concatenate(chunks) if chunks else np.empty(0, dtype)


def _figures(values: npt.NDArray[np.float32]) -> list[float | None]:
    return [None if value != value else round(value, 4) for value in values.tolist()]


def _head(node: Node) -> str:
    for message in reversed(node.messages):
        if isinstance(message, AssistantMessage):
            calls = ", ".join(call.name for call in message.tool_calls)
            said = " · ".join(t for t in (calls, message.text.strip()) if t)
        else:
            said = message.content.strip()
        if said:
            return said[:160].replace("\n", " ")
    return ""
