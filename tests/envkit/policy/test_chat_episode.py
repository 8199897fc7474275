"""A whole episode: the demonstration endpoint as a program of its own, the chat policy, a real harness and sandbox."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envkit.messages import AssistantMessage, StopReason
from envkit.policy.chat import ChatPolicy
from envkit.task import Task

TURNS = [
    {"calls": [{"name": "bash", "arguments": {"command": "echo 12.4 > q3.txt", "description": "writes"}}]},
    {"text": "Checking.", "calls": [{"name": "read", "arguments": {"filePath": "/filesystem/q3.txt"}}]},
    {"text": "It is 12.4 million EUR."},
]


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    script = tmp_path / "turns.json"
    script.write_text(json.dumps(TURNS))
    command = [sys.executable, str(Path(__file__).with_name("fake_openai.py")), "--port", "0", "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+/v1", process.stdout.readline())
        assert found is not None
        yield found[0]
        process.terminate()


async def test_a_model_behind_an_endpoint_works_in_the_sandbox_and_answers(
    endpoint: str, make_task: Callable[..., Task], play: Callable[..., Awaitable[Any]]
) -> None:
    policy = ChatPolicy(model="demo", base_url=endpoint, prices={"input": 1, "output": 2})
    played = await play(policy, make_task())
    assert played.end.stop is StopReason.ANSWERED
    assert played.end.final_answer == "It is 12.4 million EUR."
    assert played.world["filesystem/q3.txt"] == b"12.4\n"
    assert "12.4" in played.results[1].content
    said = [m for m in played.messages if isinstance(m, AssistantMessage)]
    assert len(said) == 3
    prompts = [m.usage.prompt_tokens or 0 for m in said]
    assert prompts == sorted(prompts)
    assert all((m.usage.cost_usd or 0) > 0 and m.model == "fake-1" for m in said)
