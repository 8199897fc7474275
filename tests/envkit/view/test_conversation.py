"""Conversations of ours and of other programs, in pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envkit.view.conversation import Conversation, Conversations


def write(folder: Path, steps: list[Any], **more: Any) -> Conversation:
    folder.mkdir(exist_ok=True)
    (folder / "trajectory.json").write_text(json.dumps({"steps": steps, **more}))
    return Conversations().get(folder)


def test_calls_and_results_of_a_turn_are_two_items(tmp_path: Path) -> None:
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}
    found = write(
        tmp_path / "a",
        [
            {"source": "user", "message": "Do it."},
            {
                "source": "agent", "message": "I look.", "tool_calls": [call], "reasoning_content": "hm",
                "observation": {"results": [{"source_call_id": "c1", "content": "a\nb", "extra": {"is_error": True}}]},
            },
        ],
    )  # fmt: skip
    assert [item["kind"] for item in found.items] == ["user", "agent", "tool"]
    agent, tool = found.items[1:]
    assert [part["type"] for part in agent["parts"]] == ["reasoning", "text", "call"]
    assert agent["turn"] == tool["turn"] == 1
    assert tool["parts"][0]["name"] == "bash"
    assert tool["bad"]
    assert found.outline()[1][1] == "bash · I look."


def test_a_long_text_is_cut_and_its_pieces_make_the_whole(tmp_path: Path) -> None:
    text = "".join(chr(0x1F600 + n % 50) + "x" for n in range(20_000))
    found = write(tmp_path / "a", [{"source": "user", "message": text}])
    (item,) = found.page(0, 10)
    assert item["parts"][0]["size"] == len(text)
    assert len(item["parts"][0]["text"]) < len(text)
    pieces = [found.part(0, 0, start, 7_000)["text"] for start in range(0, len(text), 7_000)]
    assert "".join(pieces) == text
    with pytest.raises(IndexError):
        found.part(0, 5, 0, 10)


def test_arguments_that_could_not_be_read_are_shown_as_written(tmp_path: Path) -> None:
    call = {
        "tool_call_id": "c",
        "function_name": "bash",
        "arguments": {},
        "extra": {"raw_arguments": '{"a', "error": "cut"},
    }
    found = write(tmp_path / "a", [{"source": "agent", "message": "", "tool_calls": [call]}])
    (part,) = found.items[0]["parts"]
    assert part["text"] == '{"a'
    assert part["error"] == "cut"
    assert "args" not in part


def test_search_finds_every_place_without_regard_to_case(tmp_path: Path) -> None:
    found = write(tmp_path / "a", [{"source": "user", "message": "Net net NET"}, {"source": "agent", "message": "no"}])
    assert [hit[2] for hit in found.search("net")] == [0, 4, 8]
    assert found.search("nothing") == []


def test_images_come_only_as_pictures(tmp_path: Path) -> None:
    good, bad = "data:image/png;base64,AAAA", "data:text/html;base64,AAAA"
    parts = [
        {"type": "image", "source": {"media_type": "image/png", "path": path}} for path in (good, bad, "http://x/y.png")
    ]
    found = write(tmp_path / "a", [{"source": "user", "message": parts}])
    kinds = [part["type"] for part in found.items[0]["parts"]]
    assert kinds == ["image", "text", "text"]


def test_odd_trajectories_are_shown_as_far_as_they_go(tmp_path: Path) -> None:
    steps: list[Any] = [
        7, None, {}, {"source": "robot", "message": ["x", {"type": "text", "text": "kept"}]},
        {"source": "agent", "tool_calls": [3, {"function_name": 4}], "observation": {"results": [None]}},
    ]  # fmt: skip
    found = write(
        tmp_path / "a", steps, agent=[], subagent_trajectories=[1, {"steps": [{"source": "user", "message": "m"}]}]
    )
    assert "kept" in json.dumps(found.page(0, 10))
    assert list(found.threads) == ["thread 2"]
    for number, value in enumerate(([], {"steps": 3}, 5)):
        folder = tmp_path / f"b{number}"
        folder.mkdir()
        (folder / "trajectory.json").write_text(json.dumps(value))
        with pytest.raises(ValueError, match="no trajectory"):
            Conversations().get(folder)


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    kept = Conversations()
    for said in ("one", "another one"):
        (tmp_path / "trajectory.json").write_text(json.dumps({"steps": [{"source": "user", "message": said}]}))
        assert kept.get(tmp_path).items[0]["parts"][0]["text"] == said
