"""A dataset that was written from the layout's description alone, by a script of its own, loads, and its tasks run
under both harnesses."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_judge import judging, prompt_of
from fake_openai import FakeOpenAI, Request
from odd_dataset import ANSWERS

import envkit
from envkit import registry
from envkit.messages import AssistantMessage, ToolCall

LOOK: dict[str, tuple[str, dict[str, Any]]] = {
    "opencode": ("bash", {"command": "find /filesystem -name '*.txt' -exec cat {} +"}),
    "archipelago": (
        "code_execution_server_code_exec",
        {"code": "find /filesystem -name '*.txt' -exec cat {} +"},
    ),
}


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd") / "data"
    subprocess.run([sys.executable, str(Path(__file__).with_name("odd_dataset.py")), str(folder)], check=True)
    return folder


def test_every_odd_task_loads_with_its_world(odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVKIT_APEX_DATA", str(odd))
    ids = registry.expand("apex/*")
    assert len(ids) == len(ANSWERS)
    for id, fact in zip(ids, ANSWERS, strict=True):
        pack, task = registry.find(id)
        world = pack.world(task)
        assert world is not None
        texts = [path.read_text(encoding="utf-8") for path in sorted((world / "filesystem").rglob("*.txt"))]
        assert any(f"The fee is {fact}." in text for text in texts), id
        assert not list(world.rglob("__MACOSX"))
        assert task.steps[0].instruction.strip()
    assert "費用" in registry.load_task("apex/task-2").steps[0].instruction


def decide(request: Request) -> str:
    prompt = prompt_of(request)
    fact = prompt.partition("States that the fee is ")[2].partition("\n")[0].strip().strip('"<')
    return "pass" if any(f"It is {wanted}" in prompt and fact.startswith(wanted) for wanted in ANSWERS) else "fail"


def play(task: int, harness: str) -> tuple[float, dict[str, Any], str]:
    env = envkit.make(f"apex/task-{task}", harness=harness, sandbox="local")
    name, arguments = LOOK[harness]
    try:
        env.reset(seed=0)
        seen, *_ = env.step(AssistantMessage(tool_calls=(ToolCall(id="c1", name=name, arguments=arguments),)))
        _, reward, terminated, _, info = env.step(f"It is {ANSWERS[task]}")
        assert terminated
    finally:
        env.close()
    return float(reward), info, str(seen)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("machine_home")
@pytest.mark.parametrize("harness", ["opencode", "archipelago"])
async def test_every_odd_task_runs_under_both_harnesses(
    harness: str, odd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVKIT_APEX_DATA", str(odd))
    monkeypatch.setenv("JUDGE_KEY_1", "sk-first-key-123456")
    config = tmp_path / "judge.toml"
    monkeypatch.setenv("ENVKIT_JUDGE", str(config))
    async with FakeOpenAI(judging(decide)) as server:
        config.write_text(
            f'model = "judge-1"\nbase_url = "{server.url}"\ncache = false\nbudget_s = 20\n'
            'api_key_env = ["JUDGE_KEY_1"]\n'
        )
        for task, fact in enumerate(ANSWERS):
            reward, info, seen = await asyncio.to_thread(play, task, harness)
            assert f"The fee is {fact}" in seen, (task, seen)
            assert reward == 1.0, (task, info)
