"""A conversation under the harness: what opens it, in which order calls are answered, and what ends it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from envkit.failure import EnvkitError, FailureKind, UserError
from envkit.harness import FIXED_NOW, Harness, Session
from envkit.harnesses.opencode import OpenCodeHarness
from envkit.harnesses.opencode.prompt import system_prompt
from envkit.harnesses.opencode.tools import specs
from envkit.messages import AssistantMessage, End, Observation, StopReason, ToolCall, Usage

Open = Callable[..., Awaitable[Any]]
ECHO = ("bash", {"command": "echo hi"})


async def test_it_opens_with_prompt_instruction_and_seven_tools(opened: Open) -> None:
    ours = await opened(instruction="Add up  the {numbers}.\n", limits={"max_turns": 7})
    first: Observation = ours.seen[0]
    system, user = first.messages
    assert (system.role, user.role) == ("system", "user")
    assert user.content.rstrip("\n") == "Add up  the {numbers}."
    for said in ("/filesystem", "/.apps_data", "Thursday, 2026-01-15", "final answer", ": 7,"):
        assert said in system.content
    assert first.tools is not None
    assert [tool.name for tool in first.tools] == ["bash", "edit", "glob", "grep", "read", "todowrite", "write"]
    following = await ours.say(ECHO)
    assert following.tools is None
    assert isinstance(ours.session, Session)
    assert isinstance(OpenCodeHarness(), Harness)


def test_the_compact_prompt_leaves_room_in_a_small_context() -> None:
    def size(style: str) -> int:
        tools = json.dumps([tool.model_dump() for tool in specs(compact=style == "compact")])
        return len(system_prompt(style, FIXED_NOW, 100)) + len(tools)

    assert size("compact") < 2600  # some 700 tokens
    assert size("compact") < size("default") / 2


def test_the_prompt_is_the_same_every_time() -> None:
    now = dt.datetime(2026, 2, 3, tzinfo=dt.UTC)
    assert system_prompt("default", now, 5) == system_prompt("default", now, 5)
    assert "Tuesday, 2026-02-03" in system_prompt("compact", now, None)


async def test_calls_of_one_message_are_answered_in_order_and_see_each_other(opened: Open) -> None:
    ours = await opened(files={"a.txt": b"one\n"})
    told = await ours.turn(
        ("bash", {"command": "sleep 0.3; echo two >> a.txt"}),
        ("read", {"filePath": "a.txt"}),
        ("grep", {"pattern": "t"}),
        ("edit", {"filePath": "a.txt", "oldString": "one", "newString": "1"}),
        ("edit", {"filePath": "/filesystem/./a.txt", "oldString": "two", "newString": "2"}),
        ("bash", {"command": "cat a.txt"}),
        ("nosuch", {}),
        ("Read", '{"filePath": '),
    )
    assert [message.is_error for message in told] == [False] * 6 + [True] * 2
    assert "2: two" in told[1].content
    assert "Line 2: two" in told[2].content
    assert told[5].content == "1\n2\n"
    assert "no tool named 'nosuch'" in told[6].content
    assert "not valid JSON" in told[7].content


async def test_an_answer_without_calls_ends_the_episode(opened: Open) -> None:
    ours = await opened()
    assert await ours.say(text="It is 42.") == End(stop=StopReason.ANSWERED, final_answer="It is 42.")
    with pytest.raises(RuntimeError, match="over"):
        await ours.say(ECHO)


async def test_the_turn_limit_is_announced_one_turn_before_and_the_last_calls_are_carried_out(opened: Open) -> None:
    ours = await opened(limits={"max_turns": 2})
    first = await ours.say(("read", {"filePath": "."}), ECHO)
    assert "your next message is the last" not in first.messages[0].content
    assert first.messages[1].content.startswith("hi\n\n\n[Note: your next message is the last")
    end = await ours.say(("write", {"filePath": "late.txt", "content": "saved"}), text="one more")
    assert (end.stop, end.final_answer) == (StopReason.TURNS, None)
    assert end.messages[0].content == "Wrote /filesystem/late.txt."
    assert await ours.content("late.txt") == b"saved"


async def test_an_answer_on_the_last_turn_is_an_answer(opened: Open) -> None:
    ours = await opened(limits={"max_turns": 1})
    assert (await ours.say(text="done")).stop is StopReason.ANSWERED


async def test_the_token_budget_ends_after_the_calls(opened: Open) -> None:
    ours = await opened(limits={"max_tokens": 100})
    assert isinstance(await ours.say(ECHO, usage=Usage(completion_tokens=60)), Observation)
    end = await ours.say(ECHO, usage=Usage(completion_tokens=40))
    assert (end.stop, end.messages[0].content) == (StopReason.TOKENS, "hi\n")


async def test_working_time_cuts_a_command_short_and_ends_the_episode(opened: Open) -> None:
    ours = await opened(limits={"working_time_s": 2.0})
    ours.session.excuse(1000.0)
    ours.session.excuse(-5.0)
    assert isinstance(await ours.say(ECHO), Observation)
    ours = await opened(limits={"working_time_s": 1.5})
    end = await ours.say(("bash", {"command": "echo begun; sleep 60"}))
    assert end.stop is StopReason.WORKING_TIME


@pytest.mark.parametrize(
    ("finish", "calls", "text", "stop", "answer"),
    [
        ("context", (), "half an", StopReason.CONTEXT, "half an"),
        ("context", (ECHO,), "", StopReason.CONTEXT, None),
        ("length", (), "half an", StopReason.TURN_LENGTH, "half an"),
        ("length", (("bash", '{"comm'),), "", StopReason.TURN_LENGTH, None),
        ("stop", (), "", StopReason.ANSWERED, ""),
    ],
)
async def test_how_a_message_ended_decides(
    opened: Open, finish: str, calls: Any, text: str, stop: StopReason, answer: str | None
) -> None:
    ours = await opened()
    assert await ours.say(*calls, text=text, finish=finish) == End(stop=stop, final_answer=answer)


async def test_a_cut_message_with_a_whole_call_goes_on(opened: Open) -> None:
    ours = await opened()
    told = await ours.say(ECHO, ("bash", '{"comm'), finish="length")
    assert [message.is_error for message in told.messages] == [False, True]


async def test_an_aborted_message_is_the_policys_fault(opened: Open) -> None:
    ours = await opened()
    with pytest.raises(EnvkitError) as error:
        await ours.say(text="hal", finish="abort")
    assert error.value.kind is FailureKind.POLICY_ERROR


async def test_unparsable_turns_in_a_row_end_the_episode(opened: Open) -> None:
    ours = await opened(limits={"max_unparsable": 2})
    bad = ("read", "{'filePath': 'a'}")
    assert isinstance(await ours.say(bad), Observation)
    assert isinstance(await ours.say(ECHO), Observation)
    assert isinstance(await ours.say(bad), Observation)
    assert (await ours.say(bad)).stop is StopReason.UNPARSABLE


async def test_the_nudge_comes_once_in_training_only(opened: Open) -> None:
    full = Usage(context_tokens=900, context_limit=1000)
    ours = await opened(training=True, nudge={"share": 0.85, "text": "NUDGE {percent}"})
    assert (
        "NUDGE" not in (await ours.say(ECHO, usage=Usage(context_tokens=800, context_limit=1000))).messages[-1].content
    )
    told = await ours.say(ECHO, ECHO, usage=full)
    assert "NUDGE" not in told.messages[0].content
    assert told.messages[1].content.endswith("NUDGE 90")
    assert "NUDGE" not in (await ours.say(ECHO, usage=full)).messages[-1].content
    for options in ({"training": False}, {"training": True, "nudge": {"enabled": False}}):
        quiet = await opened(**options)
        assert (await quiet.say(ECHO, usage=full)).messages[-1].content == "hi\n"


async def test_a_call_is_answered_under_its_own_name_and_id(opened: Open) -> None:
    ours = await opened()
    call = ToolCall(id="x-1", name="READ", arguments={"filePath": "."})
    told = await ours.session.step(AssistantMessage(tool_calls=(call,)))
    assert (told.messages[0].tool_call_id, told.messages[0].name) == ("x-1", "READ")
    assert told.messages[0].to_openai()["tool_call_id"] == "x-1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"edit_mod": "exact"}, "did you mean 'edit_mode'"),
        ({"edit_mode": "fuzzy"}, "edit_mode: Input should be 'opencode' or 'exact', found 'fuzzy'"),
        ({"nudge": {"shar": 1}}, "did you mean 'share'"),
        ({"nudge": {"share": 2}}, "nudge.share"),
        ({"bash_default_timeout_s": 0}, "greater than 0"),
        ({"max_output_lines": 0}, "max_output_lines"),
    ],
)
def test_wrong_options_are_refused_with_a_reason(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        OpenCodeHarness(**options)
    assert said in str(error.value)


def test_what_goes_into_results() -> None:
    described = OpenCodeHarness(prompt="compact").describe()
    assert (described["name"], described["version"], described["options"]["prompt"]) == ("opencode", "1.18", "compact")
    json.dumps(described)
