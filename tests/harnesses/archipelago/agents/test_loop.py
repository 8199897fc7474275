"""The loop agent: what opens it, how calls are answered, which limits end it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from envkit.deadline import Deadline
from envkit.failure import EnvkitError, FailureKind
from envkit.harness import Session
from envkit.messages import End, Observation, StopReason, Usage

Play = Callable[..., Awaitable[Any]]


async def test_it_opens_with_prompt_instruction_and_every_tool(play: Play) -> None:
    ours = await play(limits={"max_turns": 7})
    system, user = ours.first.messages
    assert (system.role, user.role) == ("system", "user")
    assert user.content.strip() == "Add up the figures."
    assert "/filesystem" in system.content
    assert "7 messages" in system.content
    assert "code_exec runs bash" in system.content
    names = [tool.name for tool in ours.first.tools]
    assert names[:2] == ["echo", "note"]
    assert len(names) == 18
    assert isinstance(ours.session, Session)
    assert (await ours.say(("echo", {"text": "hi"}))).tools is None


async def test_envelopes_are_off_for_the_model_and_on_for_the_server(play: Play) -> None:
    ours = await play()
    echo = ours.first.tools[0]
    assert echo.parameters["required"] == ["text"]
    assert set(echo.parameters["properties"]) == {"text"}
    told = await ours.turn(
        ("echo", {"text": "flat"}),
        ("echo", {"request": {"text": "wrapped"}}),
        ("echo", {"request": '{"text": "as text"}'}),
    )
    assert [message.content for message in told] == ["flat", "wrapped", "as text"]


async def test_calls_of_one_message_are_answered_each_in_its_place(play: Play) -> None:
    ours = await play()
    told = await ours.turn(
        ("note", {"text": "one"}),
        ("peek", {}),
        ("pid", {}),
        ("nosuch", {}),
        ("Echo", {"text": "any case"}),
        ("echo", '{"text": '),
        ("fail", {}),
        ("empty", {}),
        ("image", {}),
    )
    assert [message.is_error for message in told] == [False] * 3 + [True, False, True, True, False, False]
    assert [message.tool_call_id for message in told] == [f"call_{n}" for n in range(1, 10)]
    assert "no tool named 'nosuch'" in told[3].content
    assert told[4].content == "any case"
    assert "not valid JSON" in told[5].content
    assert told[6].content == "Error: no such file"  # an MCP isError is marked where the model sees it
    assert told[7].content == "(The tool returned nothing.)"
    assert told[8].content.startswith("[image: image/png")
    assert [image.mime for image in told[8].images] == ["image/png"]


async def test_an_image_that_is_too_large_is_named_and_left_out(play: Play) -> None:
    ours = await play(max_image_bytes=10)
    (told,) = await ours.turn(("image", {}))
    assert told.images == ()
    assert "at most 10 bytes" in told.content


async def test_an_answer_without_calls_ends_the_work(play: Play) -> None:
    ours = await play()
    assert await ours.say(text="It is 42.") == End(stop=StopReason.ANSWERED, final_answer="It is 42.")
    with pytest.raises(RuntimeError, match="over"):
        await ours.say(text="again")


async def test_a_long_result_shows_its_ends_and_lies_whole_inside(play: Play) -> None:
    ours = await play(result_head_bytes=1000, result_tail_bytes=300)
    (told,) = await ours.turn(("big", {"n": 5}))
    assert len(told.content) < 1600
    assert told.content.endswith("END")
    assert "/tmp/tool-output/001.txt, which code_exec can read" in told.content
    assert len(await ours.sandbox.download("/tmp/tool-output/001.txt")) == (5 << 20) + 3


@pytest.mark.parametrize(
    ("limits", "usage", "stop"),
    [
        ({"max_turns": 1}, None, StopReason.TURNS),
        ({"max_tokens": 10}, Usage(completion_tokens=11), StopReason.TOKENS),
        ({"working_time_s": 0.4}, None, StopReason.WORKING_TIME),
    ],
)
async def test_limits_end_the_work_with_what_was_done(play: Play, limits: Any, usage: Usage, stop: StopReason) -> None:
    ours = await play(limits=limits)
    end = await ours.say(("sleep", {"n": 0.5}), usage=usage)
    assert isinstance(end, End)
    assert end.stop is stop
    assert len(end.messages) == 1


async def test_the_agents_own_limits_hold_where_the_run_sets_none(play: Play) -> None:
    assert (await play()).session.limits.max_turns == 100
    assert (await play(agent="toolbelt")).session.limits.max_turns == 250
    both = (await play(max_steps=5, limits={"max_turns": 9, "working_time_s": None})).session.limits
    assert (both.max_turns, both.working_time_s) == (5, None)
    assert (await play(limits={"max_turns": 9})).session.limits.max_turns == 9


async def test_unparsable_turns_in_a_row_end_it_and_a_cut_turn_too(play: Play) -> None:
    ours = await play(limits={"max_unparsable": 2})
    assert isinstance(await ours.say(("echo", "{")), Observation)
    assert (await ours.say(("echo", "{"))).stop is StopReason.UNPARSABLE
    other = await play()
    assert (await other.say(text="half a", finish="length")).stop is StopReason.TURN_LENGTH
    third = await play()
    assert (await third.say(finish="context")).stop is StopReason.CONTEXT


async def test_the_last_turn_is_announced_and_the_nudge_comes_once_in_training(play: Play) -> None:
    ours = await play(limits={"max_turns": 3}, training=True)
    full = Usage(context_tokens=850, context_limit=1000)
    (first,) = await ours.turn(("pid", {}), usage=full)
    assert "85% of your context" in first.content
    (second,) = await ours.turn(("pid", {}), usage=full)
    assert "context" not in second.content
    assert "the last one" in second.content
    evaluating = await play()
    (plain,) = await evaluating.turn(("pid", {}), usage=full)
    assert plain.content.isdigit()


@pytest.mark.slow
async def test_a_call_is_stopped_at_its_limit_and_the_trials_end_is_a_fault(play: Play) -> None:
    ours = await play(limits={"tool_timeout_s": 0.5})
    (told,) = await ours.turn(("mute", {}))
    assert told.is_error
    assert "stopped after 0.5 s" in told.content
    late = await play(deadline=Deadline.after(2.5))
    with pytest.raises(EnvkitError) as caught:
        await late.say(("mute", {}))
    assert caught.value.kind is FailureKind.DEADLINE


async def test_a_server_that_is_not_ready_opens_no_session(play: Play) -> None:
    with pytest.raises(EnvkitError, match="can't find the data") as caught:
        await play(server={"die": True}, ready_s=1.0)
    assert caught.value.kind is FailureKind.TOOL_SERVER_DIED
