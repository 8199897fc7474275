"""Agent limits, driven by a clock of the test's own."""

import math

from envkit.behaviours.limits import LimitCount
from envkit.harness import Limits
from envkit.messages import AssistantMessage, StopReason, ToolCall, Usage


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def _message(tokens: int = 10, raw: str = "{}") -> AssistantMessage:
    return AssistantMessage(tool_calls=(ToolCall.parse("1", "read", raw),), usage=Usage(completion_tokens=tokens))


def _count(**limits: object) -> tuple[LimitCount, Clock]:
    clock = Clock()
    count = LimitCount(Limits.model_validate({"max_turns": None, **limits}), clock)
    count.start()
    return count, clock


def test_turns_end_with_the_last_one_and_it_is_known_one_turn_before() -> None:
    count, _ = _count(max_turns=2)
    count.message(_message())
    assert count.stop_after_calls() is None
    assert count.next_is_last
    count.message(_message())
    assert count.stop_before_calls() is None
    assert count.stop_after_calls() is StopReason.TURNS


def test_tokens_are_summed() -> None:
    count, _ = _count(max_tokens=25)
    for expected in (None, None, StopReason.TOKENS):
        count.message(_message())
        assert count.stop_after_calls() is expected


def test_unparsable_turns_count_only_in_a_row() -> None:
    count, _ = _count(max_unparsable=2)
    for raw, expected in (("{", None), ("{}", None), ("{", None), ("{", StopReason.UNPARSABLE)):
        count.message(_message(raw=raw))
        assert count.stop_before_calls() is expected


def test_working_time_leaves_out_what_is_excused() -> None:
    count, clock = _count(working_time_s=10)
    clock.now_s += 30
    count.excuse(25)
    assert count.working_s == 5
    assert count.working_left_s == 5
    assert count.stop_before_calls() is None
    clock.now_s += 5
    assert count.stop_before_calls() is StopReason.WORKING_TIME


def test_without_limits_nothing_ends() -> None:
    count, clock = _count()
    clock.now_s += 1e9
    for _ in range(4):
        count.message(_message(10**9))
    assert (count.stop_before_calls(), count.stop_after_calls(), count.next_is_last) == (None, None, False)
    assert math.isinf(count.working_left_s)


def test_what_a_policy_waited_for_a_rate_limit_is_no_working_time() -> None:
    count, clock = _count(working_time_s=60)
    clock.now_s += 300
    count.message(AssistantMessage(text="x", usage=Usage(waited_s=290)))
    assert count.stop_before_calls() is None
    clock.now_s += 51
    assert count.stop_before_calls() is StopReason.WORKING_TIME


def test_a_summary_costs_tokens_but_is_no_turn() -> None:
    count, _ = _count(max_turns=1, max_tokens=10)
    count.aside(AssistantMessage(text="x", usage=Usage(completion_tokens=11)))
    assert (count.turns, count.stop_after_calls()) == (0, StopReason.TOKENS)
