"""Replay in a real sandbox: the same messages again, and every difference in what came back is known."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from envkit.atif import build_trajectory, write_trajectory
from envkit.failure import Boundary, EnvkitError, FailureKind, UserError
from envkit.messages import AssistantMessage, Message, Observation, ObservationKind, ToolCall
from envkit.policy.base import Policy
from envkit.policy.oracle import OraclePolicy
from envkit.policy.replay import ReplayPolicy, find_trajectory
from envkit.task import Task

MakeTask = Callable[..., Task]
Play = Callable[..., Awaitable[Any]]

CALLS = {
    "calls": [
        [
            {"name": "bash", "arguments": {"command": "echo ${LUCK:-same}; date +%Y >/dev/null", "description": "a"}},
            {"name": "read", "arguments": {"filePath": "/filesystem/none.txt"}},
        ],
        {"name": "bash", "arguments": {"command": "echo two | tee x.txt", "description": "b"}},
    ],
    "answer": "done",
}


def keep(path: Path, messages: list[Message | AssistantMessage], task: str = "test/memo") -> Path:
    write_trajectory(path, build_trajectory(messages, agent_name="oracle", agent_version="1", task=task))
    return path


@pytest.fixture
def task(make_task: MakeTask) -> Task:
    return make_task({"solution/opencode.json": json.dumps(CALLS)})


async def test_a_recorded_trial_plays_again_without_a_difference(task: Task, play: Play, tmp_path: Path) -> None:
    recorded = await play(OraclePolicy(), task)
    keep(tmp_path / "trial" / "attempt-1" / "trajectory.json", recorded.messages)
    policy = ReplayPolicy(path=tmp_path / "trial", strict=True)
    assert isinstance(policy, Policy)
    again = await play(policy, task)
    assert again.world == recorded.world
    assert again.end == recorded.end
    assert [m.content for m in again.results] == [m.content for m in recorded.results]
    assert policy.divergences == []
    report = json.loads((tmp_path / "replay.json").read_text())
    assert (report["played"], report["recorded"], report["divergences"]) == (3, 3, [])


async def test_a_different_result_is_noted_or_raised(task: Task, play: Play, tmp_path: Path) -> None:
    recorded = await play(OraclePolicy(), task)
    for index, message in enumerate(recorded.messages):
        if isinstance(message, Message) and message.role == "tool" and message.content.startswith("two"):
            recorded.messages[index] = message.model_copy(update={"content": "tw" + "O" + message.content[3:]})
    path = keep(tmp_path / "t.json", recorded.messages)
    policy = ReplayPolicy(path=path)
    played = await play(policy, task)
    assert played.end.final_answer == "done"
    (divergence,) = policy.divergences
    assert (divergence.turn, divergence.at) == (2, 2)
    assert str(divergence.expected).startswith("O")
    assert str(divergence.found).startswith("o")
    with pytest.raises(EnvkitError, match="turn 2") as caught:
        await play(ReplayPolicy(path=path, strict=True), task)
    assert (caught.value.kind, caught.value.boundary) == (FailureKind.POLICY_ERROR, Boundary.POLICY)


async def test_a_recording_that_is_cut_short_ends_in_a_clear_error(task: Task, play: Play, tmp_path: Path) -> None:
    recorded = await play(OraclePolicy(), task)
    path = keep(tmp_path / "t.json", recorded.messages[:-1])
    with pytest.raises(EnvkitError, match="2 messages of the agent and all have been played") as caught:
        await play(ReplayPolicy(path=path), task)
    assert caught.value.kind is FailureKind.POLICY_ERROR


async def test_missing_and_unexpected_results_are_differences(play: Play, make_task: MakeTask, tmp_path: Path) -> None:
    call = ToolCall.parse("c", "bash", '{"command": "echo x", "description": "x"}')
    messages: list[Message | AssistantMessage] = [
        Message(role="user", content="go"),
        AssistantMessage(tool_calls=(call,)),
        Message(role="tool", content="from a call that is not made", tool_call_id="gone"),
        AssistantMessage(text="end"),
    ]
    policy = ReplayPolicy(path=keep(tmp_path / "t.json", messages))
    await play(policy, make_task())
    assert [(d.call, d.expected is None, d.found is None) for d in policy.divergences] == [
        ("gone", False, True),
        ("c", True, False),
    ]


async def test_side_threads_do_not_use_up_the_recording(make_task: MakeTask, tmp_path: Path) -> None:
    path = keep(tmp_path / "t.json", [Message(role="user", content="go"), AssistantMessage(text="end")])
    policy = ReplayPolicy(path=path)
    context: Any = type("Context", (), {"logs": None, "task": make_task()})()
    await policy.start(context)
    user = (Message(role="user", content="a title?"),)
    await policy.act(Observation(thread="title", kind=ObservationKind.SIDE, messages=user))
    assert (await policy.act(Observation(messages=user))).text == "end"


def test_the_recording_is_found_in_folders_of_every_kind(tmp_path: Path) -> None:
    said: list[Message | AssistantMessage] = [AssistantMessage(text="x")]
    run = tmp_path / "run"
    keep(run / "trials" / "one" / "attempt-1" / "trajectory.json", said, "office/one")
    last = keep(run / "trials" / "one" / "attempt-10" / "trajectory.json", said, "office/one")
    keep(run / "trials" / "one" / "attempt-9" / "trajectory.json", said, "office/one")
    other = keep(run / "trials" / "two" / "attempt-1" / "trajectory.json", said, "office/two")
    assert find_trajectory(last) == last
    assert find_trajectory(last.parent) == last
    assert find_trajectory(run / "trials" / "one") == last
    assert find_trajectory(run, "office/two") == other
    with pytest.raises(UserError, match="no recording of office/three"):
        find_trajectory(run, "office/three")
    keep(run / "trials" / "three" / "attempt-1" / "trajectory.json", said, "office/two")
    with pytest.raises(UserError, match="2 recordings of office/two"):
        find_trajectory(run, "office/two")
    with pytest.raises(UserError, match="no recording at"):
        find_trajectory(tmp_path / "nowhere")


async def test_what_is_no_recording_is_refused(make_task: MakeTask, play: Play, tmp_path: Path) -> None:
    empty = keep(tmp_path / "e.json", [Message(role="user", content="go")])
    with pytest.raises(UserError, match="nothing to replay"):
        await play(ReplayPolicy(path=empty), make_task())
    with pytest.raises(UserError, match="path"):
        ReplayPolicy(strict=True)
