"""Signals of single turns, up to the advantage of their tokens."""

from __future__ import annotations

from envkit.backend import Rollout, RolloutRequest
from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.algorithms.config import TurnRewards
from envkit.backends.data import Group, prepare
from envkit.messages import AssistantMessage, Message, ToolCall
from envkit.tokens.export import export
from envkit.tokens.trace import Trace


def traced(*turns: tuple[list[ToolCall], list[str], str]) -> Trace:
    """Turns of (calls, ids of those whose answers are errors, finish)."""
    trace = Trace()
    context = trace.add_context([1, 2], [Message(role="user", content="do it")])
    for calls, errors, finish in turns:
        message = AssistantMessage(tool_calls=tuple(calls))
        node = trace.add_sampled(context.index, message, [3, 4], [-0.5, -0.5], [0, 0], finish=finish)
        answers = [Message(role="tool", content="-", tool_call_id=c.id, is_error=c.id in errors) for c in calls]
        context = trace.add_context([5], answers, parent=node.index)
    return trace


GOOD = ToolCall.parse("a", "read", "{}")
BROKEN = ToolCall.parse("c", "read", "{")


def test_the_penalty_reaches_the_tokens_of_the_turn() -> None:
    config = AlgorithmConfig(turn_rewards=TurnRewards(weights={"invalid_action": -0.1}, baseline=False))
    rollouts = []
    bad = traced(([GOOD], [], "stop"), ([BROKEN], ["c"], "stop"))
    good = traced(([GOOD], [], "stop"))
    for attempt, (trace, signals) in enumerate([(bad, {"invalid_action": {3: 1.0}}), (good, {})]):
        request = RolloutRequest("office/x", "g", attempt, seed=0, version=0, engine_urls=())
        rollouts.append(Rollout(request, 1.0, samples=export(trace).samples, signals=signals))
    done = prepare([Group("g", "office/x", tuple(rollouts))], config, step=1, ranks=1, tokens_per_micro_batch=99)
    found = {row.trial: row.advantages[row.mask].tolist() for row in done.batch.rows}
    assert found == {"g/0": [0, 0, -0.1, -0.1], "g/1": [0, 0]}


def test_spans_are_exactly_what_trains() -> None:
    trace = traced(([GOOD], [], "stop"), ([GOOD], [], "stop"), ([], [], "stop"))
    for longest, spans in [(None, ((1, 2, 4), (3, 5, 7), (5, 8, 10))), (6, ((1, 2, 4), (3, 5, 6))), (3, ((1, 2, 3),))]:
        (sample,) = export(trace, max_tokens=longest).samples
        assert sample.spans == spans
        covered = {at for _, start, end in sample.spans for at in range(start, end)}
        assert covered == set(sample.mask.nonzero()[0].tolist())
