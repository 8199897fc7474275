"""How a black box's answers are counted and its ends read; the real program is in its harness's tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from envkit.deadline import Deadline
from envkit.failure import EnvkitError
from envkit.harness import Limits, SessionContext
from envkit.messages import AssistantMessage, Message, Observation, ObservationKind, StopReason, ToolCall, ToolSpec
from envkit.proxy import BlackBoxSession

TOOLS = (ToolSpec(name="bash", description="", parameters={}),)
ASK = (Message(role="user", content="x"),)
MAIN = Observation(messages=ASK, tools=TOOLS)
CALL = AssistantMessage(tool_calls=(ToolCall.parse("1", "bash", '{"command": "kill 7"}'),))
FINE = "it ended with status 0"


class Program:
    name = "agent"

    def __init__(self, trouble: str | None) -> None:
        self._trouble = trouble

    async def start(self, sandbox: Any, url: str, token: str) -> Any:
        raise NotImplementedError

    def said(self, event: Mapping[str, Any]) -> None: ...

    def trouble(self) -> str | None:
        return self._trouble


def session(trouble: str | None = None) -> BlackBoxSession:
    context = SessionContext(deadline=Deadline.never(), limits=Limits(), seed=0, training=False)
    return BlackBoxSession(Program(trouble), None, context, socket=Path("m.sock"))  # type: ignore[arg-type]


def side(number: int, tools: tuple[ToolSpec, ...] = ()) -> Observation:
    return Observation(thread=f"side-{number}", kind=ObservationKind.SIDE, messages=ASK, tools=tools)


def test_a_cut_turn_ends_as_under_the_white_box_harnesses() -> None:
    assert session()._counted(MAIN, AssistantMessage(finish="context")) is StopReason.CONTEXT
    assert session()._counted(MAIN, AssistantMessage(text="and", finish="length")) is StopReason.TURN_LENGTH
    assert session()._counted(MAIN, CALL.model_copy(update={"finish": "length"})) is None
    assert session()._counted(MAIN, AssistantMessage(text="Done.")) is None


def test_a_few_titles_are_free_and_a_stream_of_them_is_turns() -> None:
    one = session()
    one._counted(MAIN, CALL)
    for number in range(50):
        one._counted(side(number), AssistantMessage(text="t"))
    assert 20 <= one._count.turns < 50


def test_a_side_thread_without_room_is_a_limit_where_the_program_fails_by_it() -> None:
    one = session("no summary")
    one._counted(MAIN, CALL)
    one._counted(side(1), AssistantMessage(finish="context"))
    assert one._finished("it ended with status 1").stop is StopReason.CONTEXT
    killed = session()
    killed._counted(MAIN, CALL)
    killed._counted(side(1), AssistantMessage(finish="context"))
    with pytest.raises(EnvkitError, match="signal 9"):
        killed._finished("it was ended by signal 9")


def test_a_fault_says_what_was_being_carried_out() -> None:
    one = session()
    one._counted(MAIN, CALL)
    with pytest.raises(EnvkitError, match=r"signal 9 \(while it carried out bash .*kill 7"):
        one._finished("it was ended by signal 9")


def test_the_answer_is_the_works_own_and_not_a_sub_agents() -> None:
    one = session()
    one._counted(MAIN, CALL)
    one._counted(side(1, TOOLS), AssistantMessage(text="found"))
    with pytest.raises(EnvkitError, match="in the middle of its work"):
        one._finished(FINE)
    one._counted(MAIN, AssistantMessage(text="All done."))
    one._counted(side(2), AssistantMessage(text="A title"))
    assert one._finished(FINE).final_answer == "All done."
    # An agent with nothing but one question, which looked like a summary.
    only = session()
    only._counted(side(1), AssistantMessage(text="In short."))
    assert only._finished(FINE).final_answer == "In short."
