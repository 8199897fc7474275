"""A trainer's logprobs beside a trace: each stands at the token that it is of."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from envkit.messages import AssistantMessage, Message
from envkit.tokens.export import export
from envkit.tokens.scored import read_scored, score_trace, write_scored
from envkit.tokens.trace import FloatArray, IntArray, Trace


def traced() -> Trace:
    """Two answers on one path, an abandoned one beside the second, and a side thread."""
    trace = Trace({"model": "m"})
    start = trace.add_context([1, 2, 3], [Message(role="user", content="a")])
    first = trace.add_sampled(start.index, AssistantMessage(text="b"), [4, 5], [-0.1] * 2, [3] * 2, finish="stop")
    between = trace.add_context([6], [Message(role="user", content="c")], parent=first.index)
    trace.add_sampled(between.index, AssistantMessage(text="d"), [7, 8, 9], [-0.2] * 3, [4] * 3, finish="abort")
    trace.add_sampled(between.index, AssistantMessage(text="e"), [10], [-0.3], [4], finish="stop")
    side = trace.add_context([11], [Message(role="user", content="t")], thread="title")
    trace.add_sampled(side.index, AssistantMessage(text="t"), [12, 13], [-0.4] * 2, [4] * 2, finish="stop")
    return trace


def score(ids: IntArray) -> FloatArray:
    """A trainer that finds every token as likely as its id says."""
    return (-ids[1:] / 100).astype(np.float32)


def test_each_logprob_stands_at_its_token(tmp_path: Path) -> None:
    trace = traced()
    out = export(trace)
    found = score_trace(trace, out, score)
    assert np.allclose(found, [-0.04, -0.05, -0.07, -0.08, -0.09, -0.10, -0.12, -0.13])
    only = score_trace(trace, out, score, version=3)
    assert np.isnan(only).tolist() == [False, False, *[True] * 6]
    write_scored(tmp_path, found, {"model": "trainer", "version": None})
    read = read_scored(tmp_path, trace)
    assert read is not None
    assert np.array_equal(read[0], found)
    assert read[1] == {"model": "trainer", "version": None}
    assert read_scored(tmp_path / "nowhere", trace) is None
