"""Trajectories: nothing is lost between a conversation and its file, and the file is what ATIF 1.8 says."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from envkit.atif import Trajectory, build_trajectory, read_trajectory, to_messages, write_trajectory
from envkit.failure import UserError
from envkit.messages import AssistantMessage, Image, Message, StopReason, ToolCall, ToolSpec, Usage

TOOL = ToolSpec(name="bash", description="runs", parameters={"type": "object", "properties": {"command": {}}})
LONG = "zeile ü 漢字 \n" * 50_000


def call(id: str, raw: str) -> ToolCall:
    return ToolCall.parse(id, "bash", raw)


CONVERSATION: list[Message | AssistantMessage] = [
    Message(role="system", content="You work in an office."),
    Message(role="user", content="Sum it up."),
    AssistantMessage(
        text="Looking.",
        reasoning="First the file.",
        raw="<think>First the file.</think>Looking.",
        tool_calls=(call("c1", '{"command": "ls"}'), call("c2", '{"command":"cat  x"}'), call("c3", '{"command": "un')),
        usage=Usage(
            prompt_tokens=100,
            completion_tokens=20,
            cached_tokens=64,
            context_tokens=120,
            context_limit=8192,
            cost_usd=0.001,
            waited_s=1.5,
        ),
        model="m-1",
    ),
    Message(role="tool", content=LONG, tool_call_id="c1", name="bash"),
    Message(role="tool", content="", tool_call_id="c2"),
    Message(role="tool", content="bad arguments", tool_call_id="c3", is_error=True),
    Message(role="user", content="Go on."),
    Message(role="tool", content="late", tool_call_id="c1"),
    Message(role="assistant", content="(words put into its mouth)"),
    AssistantMessage(text="", finish="length", usage=Usage(prompt_tokens=300, completion_tokens=7)),
    AssistantMessage(text="12.4 million EUR"),
]


def build(messages: list[Message | AssistantMessage], **more: Any) -> Trajectory:
    return build_trajectory(
        messages,
        agent_name="chat",
        agent_version="0.1.0",
        task="office/q3",
        harness="opencode",
        model="m-1",
        tools=[TOOL],
        stop=StopReason.ANSWERED,
        **more,
    )


def wire(messages: list[Message | AssistantMessage]) -> list[dict[str, Any]]:
    return [message.to_openai() for message in messages]


def test_a_conversation_survives_the_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "a" / "trajectory.json"
    write_trajectory(path, build(CONVERSATION))
    back = to_messages(read_trajectory(path))
    assert wire(back) == wire(CONVERSATION)
    plain = {"raw_arguments": None}
    for before, after in zip(CONVERSATION, back, strict=True):
        if isinstance(before, AssistantMessage):
            assert isinstance(after, AssistantMessage)
            assert after.model_copy(update={"tool_calls": ()}) == before.model_copy(update={"tool_calls": ()})
            for ours, theirs in zip(before.tool_calls, after.tool_calls, strict=True):
                assert ours.model_copy(update=plain) == theirs.model_copy(update=plain)
        else:
            assert after == before
    assert [p.name for p in path.parent.iterdir()] == ["trajectory.json"]


def test_the_head_says_what_was_run_and_the_sums_are_right() -> None:
    value = build(CONVERSATION, session_id="s", extra={"attempt": 2}).to_json()
    assert value["schema_version"] == "ATIF-v1.8"
    ours = {"task": "office/q3", "harness": "opencode", "stop": "answered", "attempt": 2}
    assert value["extra"]["envkit"] == ours
    assert value["agent"]["tool_definitions"][0]["function"]["name"] == "bash"
    totals = value["final_metrics"]
    assert (totals["total_prompt_tokens"], totals["total_completion_tokens"]) == (400, 27)
    assert (totals["total_cached_tokens"], totals["total_cost_usd"]) == (64, 0.001)
    assert totals["total_steps"] == len(value["steps"])
    assert [s["step_id"] for s in value["steps"]] == list(range(1, len(value["steps"]) + 1))


def test_a_result_stands_with_the_step_whose_call_it_answers() -> None:
    steps = build(CONVERSATION).to_json()["steps"]
    agent = next(step for step in steps if step["source"] == "agent")
    assert [r.get("source_call_id") for r in agent["observation"]["results"]] == ["c1", "c2", "c3"]
    assert agent["observation"]["results"][2]["extra"] == {"is_error": True}
    assert agent["tool_calls"][2]["arguments"] == {}
    assert agent["tool_calls"][2]["extra"]["raw_arguments"] == '{"command": "un'


def test_times_are_kept_where_known() -> None:
    when = dt.datetime(2026, 1, 15, 9, tzinfo=dt.UTC)
    steps = build(CONVERSATION, times=[when, None]).to_json()["steps"]
    assert steps[0]["timestamp"] == "2026-01-15T09:00:00+00:00"
    assert "timestamp" not in steps[1]


def test_what_json_or_utf8_cannot_carry_is_replaced_and_the_file_stays_strict_json(tmp_path: Path) -> None:
    odd = AssistantMessage(text="a\ud800b", tool_calls=(call("c", '{"x": NaN, "y": "\\ud800", "z": Infinity}'),))
    path = tmp_path / "t.json"
    write_trajectory(path, build([odd]))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    value = json.loads(path.read_bytes().decode("utf-8"), parse_constant=refuse)
    assert value["steps"][0]["message"] == "a\ufffdb"
    assert value["steps"][0]["tool_calls"][0]["arguments"]["x"] == "nan"
    back = to_messages(read_trajectory(path))[0]
    assert isinstance(back, AssistantMessage)
    assert back.tool_calls[0].arguments_text == '{"x": NaN, "y": "\\ud800", "z": Infinity}'


def test_no_message_is_no_trajectory() -> None:
    with pytest.raises(ValueError, match="at least one message"):
        build([])


def test_copied_context_is_left_out_on_request() -> None:
    value = build(CONVERSATION).to_json()
    value["steps"][2]["is_copied_context"] = True
    trajectory = Trajectory.model_validate(value)
    sampled = [m for m in to_messages(trajectory, copied=False) if isinstance(m, AssistantMessage)]
    assert [m.text for m in sampled] == ["", "12.4 million EUR"]


MINIMAL: dict[str, Any] = {
    "schema_version": "ATIF-v1.8",
    "agent": {"name": "a", "version": "1"},
    "steps": [{"step_id": 1, "source": "user", "message": "hi"}],
}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"loss_mask": [1]}, "loss_mask"),
        ({"schema_version": "ATIF-v2.0"}, "schema_version"),
        ({"steps": []}, "steps"),
        ({"steps": [{"step_id": 2, "source": "user", "message": "hi"}]}, "step 1 carries step_id 2"),
        ({"steps": [{"step_id": 1, "source": "user", "message": "hi", "tool_calls": []}]}, "steps.0"),
        ({"steps": [{"step_id": 1, "source": "robot", "message": "hi"}]}, "steps.0.source"),
        ({"steps": [{"step_id": 1, "source": "user", "message": "hi", "timestamp": "noon"}]}, "steps.0.timestamp"),
        (
            {
                "steps": [
                    {
                        "step_id": 1,
                        "source": "agent",
                        "message": "",
                        "observation": {"results": [{"source_call_id": "x", "content": ""}]},
                    }
                ]
            },
            "steps.0",
        ),
        ({"subagent_trajectories": [MINIMAL]}, "trajectory_id"),
        ({"agent": {"name": "a", "version": "1", "mood": "good"}}, "agent.mood"),
    ],
)
def test_what_the_format_does_not_allow_is_refused_with_file_and_place(
    tmp_path: Path, change: dict[str, Any], place: str
) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(MINIMAL | change))
    with pytest.raises(UserError) as caught:
        read_trajectory(path)
    assert str(path) in str(caught.value)
    assert place in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_no_trajectory_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"t\.json"):
        read_trajectory(path)
    with pytest.raises(UserError, match="no trajectory at"):
        read_trajectory(tmp_path / "none.json")


def test_older_versions_and_parts_are_read(tmp_path: Path) -> None:
    value = json.loads(json.dumps(MINIMAL))
    value["schema_version"] = "ATIF-v1.0"
    value["steps"][0]["message"] = [
        {"type": "text", "text": "see "},
        {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}},
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(value))
    assert to_messages(read_trajectory(path)) == [Message(role="user", content="see [image: a.png]")]


def test_a_failed_write_leaves_what_was_there_and_no_rubbish(tmp_path: Path) -> None:
    taken = tmp_path / "t.json"
    taken.mkdir()
    with pytest.raises(OSError, match=r"t\.json"):
        write_trajectory(taken, build(CONVERSATION))
    assert list(tmp_path.iterdir()) == [taken]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_harbor_accepts_what_we_write(tmp_path: Path, harbor_python: str) -> None:
    """Harbor 0.26's own validator."""
    validator = [harbor_python, "-m", "harbor.utils.trajectory_validator"]
    odd = AssistantMessage(text="a\ud800b", tool_calls=(call("c", '{"x": NaN, "y": "\\ud800"}'),))
    sub = build([Message(role="user", content="title?"), AssistantMessage(text="A title")], trajectory_id="side-1")
    orphan: list[Message | AssistantMessage] = [Message(role="tool", content="?", tool_call_id="x")]
    cases = {
        "full": build(CONVERSATION, session_id="s", trajectory_id="t", subagents=[sub]),
        "odd": build([odd]),
        "orphan": build(orphan),
        "empty-answer": build([Message(role="user", content=""), AssistantMessage()]),
    }
    for name, trajectory in cases.items():
        path = tmp_path / f"{name}.json"
        write_trajectory(path, trajectory)
        done = subprocess.run(
            [*validator, path],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    spoilt = json.loads((tmp_path / "full.json").read_text()) | {"loss_mask": []}
    (tmp_path / "spoilt.json").write_text(json.dumps(spoilt))
    refused = subprocess.run(
        [*validator, tmp_path / "spoilt.json"],
        capture_output=True,
        check=False,
    )
    assert refused.returncode == 1, "the validator must be the real one"


def test_images_survive_the_file_and_are_parts_there(tmp_path: Path) -> None:
    image = Image(mime="image/png", data="iVBORw0KGgo=")
    said: list[Message | AssistantMessage] = [
        Message(role="user", content="Look.", images=(image,)),
        AssistantMessage(tool_calls=(call("c1", "{}"),)),
        Message(role="tool", content="[image]", tool_call_id="c1", images=(image, image)),
    ]
    path = tmp_path / "trajectory.json"
    write_trajectory(path, build(said))
    assert to_messages(read_trajectory(path))[0] == said[0]
    assert to_messages(read_trajectory(path))[2] == said[2]
    result = json.loads(path.read_text())["steps"][1]["observation"]["results"][0]
    assert [part["type"] for part in result["content"]] == ["text", "image", "image"]


def test_what_is_not_ours_in_extra_is_told(tmp_path: Path) -> None:
    messages = [Message(role="user", content="go"), AssistantMessage(text="done")]
    value = build_trajectory(messages, agent_name="a", agent_version="1", task="t").to_json()
    value["steps"][0]["extra"] = {"name": 7}
    (tmp_path / "trajectory.json").write_text(json.dumps(value))
    with pytest.raises(UserError, match="extra"):
        to_messages(read_trajectory(tmp_path / "trajectory.json"))
