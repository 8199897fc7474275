"""Rollouts with real traces: what a trial would hand over, made from turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from envkit.backend import Rollout, RolloutRequest
from envkit.backends.data import Group
from envkit.failure import Boundary, Failure, FailureKind
from envkit.messages import AssistantMessage, Message, StopReason
from envkit.tokens.export import export
from envkit.tokens.trace import Edge, Trace

#: (tokens of the prompt or of a tool's answer, tokens sampled) of every turn.
Turns = list[tuple[int, int]]


def _traced(turns: Turns, *, branch: Turns | None, version: int, base: int) -> Trace:
    trace = Trace()
    parent: int | None = None
    fresh = iter(range(base, base + 10**6))

    def add(context: int, sampled: int, edge: Edge = Edge.APPEND, origin: int | None = None) -> int:
        nonlocal parent
        ids = [next(fresh) for _ in range(context)]
        node = trace.add_context(ids, [Message(role="user", content="go on")], parent=parent, edge=edge, origin=origin)
        parent = trace.add_sampled(
            node.index,
            AssistantMessage(text="yes"),
            [next(fresh) for _ in range(sampled)],
            [-0.5] * sampled,
            [version] * sampled,
            finish="stop",
        ).index
        return node.index

    first = None
    for context, sampled in turns:
        node = add(context, sampled)
        first = node if first is None else first
    if branch is not None:
        origin, parent = parent, first
        for number, (context, sampled) in enumerate(branch):
            rewrite = number == 0
            add(context, sampled, Edge.REWRITE if rewrite else Edge.APPEND, origin if rewrite else None)
    return trace


@pytest.fixture
def rollout() -> Callable[..., Rollout]:
    """`rollout(reward, turns, ...)`; without a reward it is a failed one. `branch` goes on after the first prompt."""

    def make(
        reward: float | None,
        turns: Turns = [(3, 2), (2, 3)],  # noqa: B006
        *,
        branch: Turns | None = None,
        attempt: int = 0,
        stop: StopReason = StopReason.ANSWERED,
        version: int = 4,
        signals: Mapping[str, Mapping[int, float]] | None = None,
        group: str = "g",
        **extra: Any,
    ) -> Rollout:
        request = RolloutRequest("office/x", group, attempt, seed=attempt, version=version, engine_urls=())
        if reward is None:
            gone = Failure.of(FailureKind.SANDBOX_DIED, Boundary.SANDBOX, "it is gone")
            return Rollout(request, None, failure=gone)
        out = export(_traced(turns, branch=branch, version=version, base=1000 * attempt))
        return Rollout(
            request,
            reward,
            stop=stop,
            samples=out.samples,
            sampled_tokens=out.sampled,
            signals=signals or {},
            **extra,
        )

    return make


@pytest.fixture
def group(rollout: Callable[..., Rollout]) -> Callable[..., Group]:
    """`group(rewards, ...)`: a rollout per reward, None for a failed one; other arguments are the rollouts'."""

    def make(rewards: list[float | None], *, id: str = "g", **each: Any) -> Group:
        made = tuple(rollout(r, attempt=i, group=id, **each) for i, r in enumerate(rewards))
        return Group(id, "office/x", made)

    return make
