"""The toolbelt agent: its belt, its list, its end. Each fault of the original's agent has a test here."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from envkit.harnesses.archipelago.agents.todo import TodoList
from envkit.messages import End, StopReason

Play = Callable[..., Awaitable[Any]]
META = [
    "toolbelt_list_tools",
    "toolbelt_inspect_tool",
    "toolbelt_add_tool",
    "toolbelt_remove_tool",
    "todo_write",
    "final_answer",
]


def add(name: str) -> tuple[str, dict[str, str]]:
    return "toolbelt_add_tool", {"tool_name": name}


async def test_the_list_is_the_meta_tools_and_stays_so(play: Play) -> None:
    ours = await play(agent="toolbelt")
    assert [tool.name for tool in ours.first.tools] == META
    assert "toolbelt_add_tool" in ours.first.messages[0].content
    observation = await ours.say(add("echo"), ("toolbelt_list_tools", {}), add("nope"), add("ECHO"))
    assert observation.tools is None
    added, listed, unknown, again = observation.messages
    shown = json.loads(added.content)
    assert (shown["success"], shown["toolbelt_size"]) == (True, 1)
    assert shown["tool"]["parameters"]["required"] == ["text"]
    assert "note" in json.loads(listed.content)
    assert "echo" not in json.loads(listed.content)
    assert unknown.is_error
    assert "no tool 'nope'" in json.loads(unknown.content)["error"]
    assert json.loads(again.content)["toolbelt_size"] == 1


async def test_a_tool_outside_the_belt_is_not_called_and_the_way_is_told(play: Play) -> None:
    ours = await play(agent="toolbelt")
    (told,) = await ours.turn(("pid", {}))
    assert told.is_error
    assert 'toolbelt_add_tool and {"tool_name": "pid"}' in told.content
    _, ran = await ours.turn(add("pid"), ("pid", {}))
    assert ran.content.isdigit()
    removed, gone = await ours.turn(("toolbelt_remove_tool", {"tool_name": "pid"}), ("pid", {}))
    assert json.loads(removed.content) == {"success": True, "toolbelt_size": 0}
    assert gone.is_error
    unknown, inspected = await ours.turn(("pids", {}), ("toolbelt_inspect_tool", {"tool_name": "pid"}))
    assert "did you mean 'pid'" in unknown.content
    assert set(json.loads(inspected.content)) == {"name", "description", "parameters"}


async def test_the_belt_has_an_end(play: Play) -> None:
    ours = await play(agent="toolbelt", max_belt=1)
    _, full = await ours.turn(add("pid"), add("echo"))
    assert full.is_error
    assert "full" in json.loads(full.content)["error"]


async def test_on_request_added_tools_join_the_list(play: Play) -> None:
    ours = await play(agent="toolbelt", belt_in_list=True)
    observation = await ours.say(add("pid"))
    assert [tool.name for tool in observation.tools] == [*META, "pid"]
    assert (await ours.say(("pid", {}))).tools is None


async def test_calls_beside_the_final_answer_run_first_wherever_they_stand(play: Play) -> None:
    ours = await play(agent="toolbelt")
    await ours.turn(
        add("note"), ("todo_write", {"todos": [{"id": "1", "content": "x", "status": "pending"}], "merge": True})
    )
    end = await ours.say(
        ("final_answer", {"answer": "It is 42.", "status": "completed"}),
        ("note", {"text": "saved at last"}),
        ("todo_write", {"todos": [{"id": "1", "status": "completed"}], "merge": True}),
    )
    assert isinstance(end, End)
    assert (end.stop, end.final_answer, end.answer_status) == (StopReason.ANSWERED, "It is 42.", "completed")
    assert [message.tool_call_id for message in end.messages] == ["call_3", "call_4", "call_5"]  # no call is orphaned
    assert end.messages[1].content == "noted"


async def test_a_refused_final_answer_drops_no_call_beside_it(play: Play) -> None:
    ours = await play(agent="toolbelt")
    todos = [
        {"id": "a", "content": "read", "status": "in_progress"},
        {"id": "b", "content": "write", "status": "completed"},
    ]
    await ours.turn(add("note"), ("todo_write", {"todos": todos, "merge": False}))
    refused, noted = await ours.turn(
        ("final_answer", {"answer": "early", "status": "completed"}), ("note", {"text": "kept"})
    )
    assert refused.is_error
    assert "a (in_progress): read" in refused.content
    assert "b (" not in refused.content
    assert noted.content == "noted"


@pytest.mark.parametrize("status", ["blocked", "failed"])
async def test_the_answers_status_reaches_the_end(play: Play, status: str) -> None:
    ours = await play(agent="toolbelt")
    end = await ours.say(("final_answer", {"answer": "The file is missing.", "status": status}))
    assert (end.answer_status, end.stop.truncated) == (status, False)


async def test_an_answer_that_is_none_does_not_end_it(play: Play) -> None:
    ours = await play(agent="toolbelt")
    told = await ours.turn(
        ("final_answer", {"status": "completed"}),
        ("final_answer", {"answer": "x", "status": "done"}),
        ("final_answer", "{"),
    )
    assert [message.is_error for message in told] == [True] * 3
    end = await ours.say(
        ("final_answer", {"answer": "one", "status": "completed"}), ("final_answer", {"answer": "two"})
    )
    assert end.final_answer == "one"
    assert "not counted" in end.messages[1].content


async def test_a_message_without_calls_is_answered_by_the_user(play: Play) -> None:
    ours = await play(agent="toolbelt", limits={"max_turns": 2})
    (told,) = await ours.turn(text="I am done.")
    assert told.role == "user"
    assert "final_answer" in told.content
    assert "last one" in told.content  # the limit is announced here too
    assert (await ours.say(text="Still.")).stop is StopReason.TURNS


def test_the_list_is_merged_or_replaced_and_says_what_it_could_not_use() -> None:
    todo = TodoList()
    first = todo.write([{"id": 1, "content": "a", "status": "pending"}, {"id": "2", "content": "b"}], False)
    assert (first["success"], first["created"], first["updated"]) == (True, 2, 0)
    second = todo.write([{"id": "2", "status": "done"}, {"id": "3"}, "x", {"id": "1", "status": "cancelled"}], True)
    assert (second["success"], second["updated"], len(second["errors"])) == (False, 1, 3)
    assert second["summary"] == {"total": 2, "pending": 1, "in_progress": 0, "completed": 0, "cancelled": 1}
    assert [entry["id"] for entry in todo.unfinished] == ["2"]
    assert todo.write([], False)["summary"]["total"] == 0
    assert not todo.write("nonsense", False)["success"]
