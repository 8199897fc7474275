"""The trace graph and its export: nothing is lost, nothing trains twice, and impossible input is refused."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.messages import AssistantMessage, Message
from envkit.tokens import Edge, PromptIds, Trace, TraceError, drop_finishes, export

USER = Message(role="user", content="hello")


def sampled(trace: Trace, parent: int, n: int, *, version: int = 0, finish: str = "stop") -> int:
    at = trace.sampled_tokens
    node = trace.add_sampled(
        parent,
        AssistantMessage(text=f"answer {at}"),
        range(10_000 + at, 10_000 + at + n),
        [-0.5 - k / 1000 for k in range(n)],
        [version] * n,
        finish=finish,
        params={"temperature": 1.0},
    )
    return node.index


# One instruction per step: where to hang the next turn, how many tokens, how it ended.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "rewrite", "branch", "side", "retry"]),
        st.integers(0, 6),
        st.integers(0, 6),
        st.sampled_from(["stop", "length", "abort"]),
        st.integers(0, 10**6),
    ),
    min_size=1,
    max_size=25,
)


def build(steps: list[tuple[str, int, int, str, int]]) -> Trace:
    trace = Trace()
    context = trace.add_context([1, 2, 3], [USER])
    head = sampled(trace, context.index, 2)
    for number, (kind, n_context, n_sampled, finish, pick) in enumerate(steps):
        any_sampled = [n for n in trace if n.sampled]
        if kind == "retry":
            contexts = [n for n in trace if not n.sampled]
            head = sampled(trace, contexts[pick % len(contexts)].index, n_sampled, version=number, finish=finish)
            continue
        if kind == "rewrite":
            node = trace.add_context([7] * n_context, [USER], edge=Edge.REWRITE, origin=head, note="compaction")
        elif kind == "branch":
            parent = any_sampled[pick % len(any_sampled)]
            node = trace.add_context(
                [8] * n_context, [USER], parent=parent.index, edge=Edge.REWRITE, origin=head, thread=parent.thread
            )
        elif kind == "side":
            node = trace.add_context([9] * n_context, [USER], thread=f"side-{number}", edge=Edge.SIDE, origin=head)
        else:
            node = trace.add_context([6] * n_context, [USER], parent=head, thread=trace.node(head).thread)
        head = sampled(trace, node.index, n_sampled, version=number, finish=finish)
    return trace


@given(STEPS, st.one_of(st.none(), st.integers(1, 60)), st.booleans())
@settings(max_examples=200, deadline=None)
def test_every_sampled_token_trains_once_or_is_dropped_for_a_reason(
    steps: list[Any], max_tokens: int | None, without_aborted: bool
) -> None:
    trace = build(steps)
    out = export(trace, max_tokens=max_tokens, drop=drop_finishes("abort") if without_aborted else None)

    # sampled ids are unique by construction, so "exactly once" can be read off the ids themselves
    trained = [int(i) for s in out.samples for i in s.ids[s.mask]]
    everything = {int(i) for n in trace if n.sampled for i in n.ids}
    assert len(trained) == len(set(trained))
    assert set(trained) <= everything
    assert len(everything) - len(trained) == sum(out.dropped.values())
    if max_tokens is None and not without_aborted:
        assert set(trained) == everything
    for s in out.samples:
        path = trace.ids(s.nodes[-1])
        np.testing.assert_array_equal(s.ids, path[: len(s.ids)])
        assert s.mask[-1], "a sample ends with the last token it trains on"
        assert max_tokens is None or len(s.ids) <= max_tokens


def test_logprobs_and_versions_stay_with_their_tokens() -> None:
    trace = Trace()
    c = trace.add_context([1, 2], [USER])
    a = trace.add_sampled(c.index, AssistantMessage(text="x"), [5, 6, 7], [-0.1, -0.2, -0.3], [3, 3, 4], finish="stop")
    c2 = trace.add_context([8], [USER], parent=a.index)
    trace.add_sampled(c2.index, AssistantMessage(text="y"), [9], [-0.4], [5], finish="stop")
    (sample,) = export(trace).samples
    assert sample.ids.tolist() == [1, 2, 5, 6, 7, 8, 9]
    assert sample.mask.tolist() == [False, False, True, True, True, False, True]
    np.testing.assert_allclose(sample.logprobs, [0, 0, -0.1, -0.2, -0.3, 0, -0.4], rtol=1e-6)
    assert sample.versions.tolist() == [-1, -1, 3, 3, 4, -1, 5]


def test_the_conversation_that_went_on_owns_the_shared_prefix() -> None:
    trace = Trace()
    c = trace.add_context([1], [USER])
    first = sampled(trace, c.index, 4)
    c2 = trace.add_context([2], [USER], parent=first)
    sampled(trace, c2.index, 3, finish="abort")  # a retry replaced this one
    last = sampled(trace, c2.index, 5)
    out = export(trace, drop=drop_finishes("abort"))
    (sample,) = out.samples
    assert sample.nodes[-1] == last
    assert int(sample.mask.sum()) == 9
    assert out.dropped == {"abort": 3}


def test_threads_left_out_are_counted_not_forgotten() -> None:
    trace = Trace()
    c = trace.add_context([1], [USER])
    main = sampled(trace, c.index, 2)
    side = trace.add_context([5], [USER], thread="title", edge=Edge.SIDE, origin=main)
    sampled(trace, side.index, 7)
    assert export(trace, threads={"main"}).dropped == {"thread_not_exported": 7}
    assert len(export(trace).samples) == 2


@pytest.mark.parametrize(
    ("ids", "logprobs", "versions"),
    [
        ([1, 2], [-0.1], [0, 0]),
        ([1, 2], [-0.1, -0.2], [0]),
        ([1], [float("nan")], [0]),
        ([1], [float("-inf")], [0]),
        ([1], [0.5], [0]),
        ([1], [-0.1], [-1]),
        ([-1], [-0.1], [0]),
        ([2**40], [-0.1], [0]),
        ([1.5], [-0.1], [0]),
        ([[1]], [-0.1], [0]),
    ],
)
def test_what_can_not_be_true_of_a_generation_is_refused(ids: Any, logprobs: Any, versions: Any) -> None:
    trace = Trace()
    c = trace.add_context([1], [USER])
    with pytest.raises(TraceError):
        trace.add_sampled(c.index, AssistantMessage(text=""), ids, logprobs, versions, finish="stop")
    assert len(trace) == 1, "a refused node leaves no trace"


def test_a_side_thread_can_not_continue_another_and_parents_come_first() -> None:
    trace = Trace()
    c = trace.add_context([1], [USER])
    with pytest.raises(TraceError, match="root of its own"):
        trace.add_context([1], [USER], parent=c.index, edge=Edge.SIDE)
    with pytest.raises(TraceError, match="no node 7"):
        trace.add_context([1], [USER], parent=7)


def test_export_refuses_a_tampered_trace() -> None:
    trace = Trace()
    c = trace.add_context([1], [USER])
    sampled(trace, c.index, 3)
    object.__setattr__(trace.node(1).sampling, "versions", np.array([0, -1, 0], np.int32))
    with pytest.raises(TraceError, match="no policy version"):
        export(trace)


def test_memory_is_linear_in_the_tokens_that_exist() -> None:
    def held(turns: int) -> int:
        trace = Trace()
        node = trace.add_context([0] * 500, [USER])
        for _ in range(turns):
            node = trace.add_context([1] * 400, [USER], parent=sampled(trace, node.index, 100))
        return sum(n.ids.nbytes for n in trace)

    assert held(20) == 4 * (500 + 20 * 500)
    assert held(300) == 4 * (500 + 300 * 500)


@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=20), max_size=10))
def test_the_prompts_json_is_the_json_of_its_ids(chunks: list[list[int]]) -> None:
    import json

    prompt = PromptIds()
    for chunk in chunks:
        prompt.extend(chunk)
    flat = [i for c in chunks for i in c]
    assert json.loads(prompt.json) == flat
    assert prompt.array().tolist() == flat
    assert len(prompt) == len(flat)


def test_tokens_are_not_kept_as_python_objects() -> None:
    prompt = PromptIds(range(100_000))
    held = sys.getsizeof(prompt.json) + prompt.array().nbytes
    assert held < 1_100_000
