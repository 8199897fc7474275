"""Compaction under an agent: asked of the same policy on the side, a rewrite that keeps calls with their results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from envkit.messages import AssistantMessage, Message, ObservationKind, StopReason, Usage

Play = Callable[..., Awaitable[Any]]
SETTINGS = {"enabled": True, "share": 0.5, "min_messages": 4, "keep_messages": 4}


def used(tokens: int) -> Usage:
    return Usage(context_tokens=tokens, context_limit=100_000, completion_tokens=5)


def is_whole(messages: Sequence[Message | AssistantMessage]) -> bool:
    """Whether every result follows its call and every call has its result."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            assert not open_calls
            open_calls = [call.id for call in message.tool_calls]
        elif message.role == "tool":
            assert message.tool_call_id in open_calls
            open_calls.remove(message.tool_call_id)
    return not open_calls


async def test_the_older_part_becomes_a_summary_and_the_rest_keeps_its_form(play: Play) -> None:
    ours = await play(compaction=SETTINGS, limits={"max_turns": 50})
    for n in range(2):
        await ours.turn(("echo", {"text": f"figure {n}"}), ("pid", {}), usage=used(1000))
    asked = await ours.say(("echo", {"text": "figure 2"}), usage=used(60_000))
    assert (asked.kind, asked.thread) == (ObservationKind.SIDE, "compaction-1")
    assert asked.messages[:2] == ours.first.messages
    assert asked.messages[-2].content == "figure 2"
    assert "summary" in asked.messages[-1].content
    assert is_whole(asked.messages)
    turns = ours.session._count.turns
    after = await ours.say(text="Figures 0 and 1 were read.", usage=used(61_000))
    assert ours.session._count.turns == turns  # a summary is no turn at the task
    assert ours.session._count.tokens == 20
    assert (after.kind, after.thread, after.tools) == (ObservationKind.REWRITE, "main", None)
    system, user, *rest = after.messages
    assert system == ours.first.messages[0]
    assert user.content.startswith(ours.first.messages[1].content)
    assert "Figures 0 and 1 were read." in user.content
    assert [m.role if isinstance(m, Message) else "assistant" for m in rest] == ["assistant", "tool"]
    assert is_whole(after.messages)
    (told,) = await ours.turn(("echo", {"text": "on"}), usage=used(2000))
    assert told.content == "on"


async def test_a_second_summary_stands_below_the_instruction_once(play: Play) -> None:
    ours = await play(compaction=SETTINGS)
    for n in (1, 2):
        for _ in range(4):
            observation = await ours.say(("pid", {}), usage=used(60_000))
            if observation.kind is ObservationKind.SIDE:
                break
        assert observation.thread == f"compaction-{n}"
        after = await ours.say(text=f"summary {n}")
    assert "summary 2" in after.messages[1].content
    assert "summary 1" not in after.messages[1].content


async def test_without_a_summary_the_conversation_goes_on_as_it_was(play: Play) -> None:
    ours = await play(compaction=SETTINGS)
    for _ in range(2):
        await ours.turn(("pid", {}), usage=used(1000))
    assert (await ours.say(("echo", {"text": "kept"}), usage=used(60_000))).kind is ObservationKind.SIDE
    after = await ours.say(text="  ")
    assert (after.kind, after.thread) == (ObservationKind.APPEND, "main")
    assert [message.content for message in after.messages] == ["kept"]
    assert (await ours.say(("pid", {}), usage=used(60_000))).kind is ObservationKind.APPEND  # not again at once


async def test_a_full_context_is_compacted_from_a_shortened_history_once(play: Play) -> None:
    ours = await play(compaction=SETTINGS)
    for _ in range(2):
        await ours.turn(("big", {"n": 0.0}), ("echo", {"text": "y" * 9000}), usage=used(1000))
    asked = await ours.say(finish="context")
    assert asked.kind is ObservationKind.SIDE
    assert max(len(message.content) for message in asked.messages[2:] if isinstance(message, Message)) < 1200
    after = await ours.say(text="so far")
    assert after.kind is ObservationKind.REWRITE
    assert is_whole(after.messages)
    assert (await ours.say(finish="context")).stop is StopReason.CONTEXT


async def test_it_is_off_for_the_loop_agent_unless_set(play: Play) -> None:
    ours = await play(compaction={"min_messages": 1, "share": 0.1})
    for _ in range(3):
        assert (await ours.say(("pid", {}), usage=used(90_000))).kind is ObservationKind.APPEND
    assert (await ours.say(finish="context")).stop is StopReason.CONTEXT
    belt = await play(agent="toolbelt", compaction={"min_messages": 1, "share": 0.1})
    await belt.say(("toolbelt_list_tools", {}), usage=used(90_000))
    assert belt.seen[-1].kind is ObservationKind.SIDE
