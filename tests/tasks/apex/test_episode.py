"""The line our users type, `envkit.make("apex/task-123")`, on the synthetic dataset: whole episodes under both
harnesses, judged by a judge behind a local endpoint."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fake_judge import judging, prompt_of
from fake_openai import FakeOpenAI, Request
from synthetic import REGIONS

import envkit
from envkit.messages import AssistantMessage, ToolCall

#: How each harness is asked to look at the world and to leave a note.
LOOK = {
    "opencode": ("bash", {"command": "ls -R /filesystem; grep -c ^Subject: /.apps_data/mail/mailbox.mbox"}),
    "archipelago": ("sheets_server_sheets", {"request": {"action": "read_tab", "file_path": "/Sales/March.xlsx",
                                                         "tab_index": 0}}),
}  # fmt: skip
NOTE = {
    "opencode": ("bash", {"command": "echo 'West: 400 EUR' > /filesystem/Note.txt"}),
    "archipelago": ("code_execution_server_code_exec", {"code": "echo 'West: 400 EUR' > /filesystem/Note.txt"}),
}


def call(name: str, arguments: dict[str, Any]) -> AssistantMessage:
    return AssistantMessage(tool_calls=(ToolCall(id="c1", name=name, arguments=arguments),))


def decide(request: Request) -> str:
    """A judge that finds each fact in what it is shown."""
    prompt = prompt_of(request)
    if "Names the sheet" in prompt:
        return "pass" if "sheet March" in prompt else "fail"
    return "pass" if "400 EUR" in prompt.replace("are 400 EUR", "") else "fail"


def play(harness: str, answer: str, note: bool) -> tuple[float, dict[str, Any], str]:
    """One episode through the synchronous face."""
    env = envkit.make("apex/task-123", harness=harness, sandbox="local")
    try:
        first, _ = env.reset(seed=0)
        assert "What were March sales in West?" in str(first)
        seen, _, terminated, truncated, _ = env.step(call(*LOOK[harness]))
        assert not terminated
        assert not truncated
        if note:
            env.step(call(*NOTE[harness]))
        _, reward, terminated, _, info = env.step(answer)
        assert terminated
    finally:
        env.close()
    return float(reward), info, str(seen)


@pytest.mark.usefixtures("machine_home")
@pytest.mark.parametrize("harness", ["opencode", pytest.param("archipelago", marks=pytest.mark.slow)])
async def test_an_episode_is_judged_line_by_line(
    harness: str, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVKIT_APEX_DATA", str(dataset))
    monkeypatch.setenv("JUDGE_KEY_1", "sk-first-key-123456")
    config = tmp_path / "judge.toml"
    monkeypatch.setenv("ENVKIT_JUDGE", str(config))
    asked: list[str] = []

    def judge(request: Request) -> str:
        asked.append(prompt_of(request))
        return decide(request)

    async with FakeOpenAI(judging(judge)) as server:
        config.write_text(
            f'model = "judge-1"\nbase_url = "{server.url}"\ncache = false\nbudget_s = 20\n'
            'api_key_env = ["JUDGE_KEY_1"]\n'
        )
        reward, info, seen = await asyncio.to_thread(play, harness, "400 EUR, from sheet March.", True)
        assert all(word in seen for word in (REGIONS if harness == "archipelago" else ("March.xlsx", "Notes.txt")))
        assert reward == 1.0, info
        assert len(asked) == 3
        note = next(prompt for prompt in asked if "The note holds the figure" in prompt)
        assert "West: 400 EUR" in note  # the file the agent made
        assert "World 0. All amounts" not in note  # not the world's own text files
        assert "from sheet March" not in note  # nor the answer
        asked.clear()
        # Without a note its line fails, and nobody is asked about it; the others count by themselves.
        reward, _, _ = await asyncio.to_thread(play, harness, "300 EUR, from sheet March.", False)
        assert reward == pytest.approx(1 / 3)
        assert len(asked) == 2


@pytest.mark.usefixtures("machine_home")
async def test_the_experts_answer_is_the_oracle(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from envkit.trial.result import Plugin, Status, TrialSpec
    from envkit.trial.trial import run_attempt

    monkeypatch.setenv("ENVKIT_APEX_DATA", str(dataset))
    monkeypatch.setenv("JUDGE_KEY_1", "sk-first-key-123456")
    config = tmp_path / "judge.toml"
    monkeypatch.setenv("ENVKIT_JUDGE", str(config))
    async with FakeOpenAI(judging(decide)) as server:
        config.write_text(
            f'model = "judge-1"\nbase_url = "{server.url}"\ncache = false\napi_key_env = ["JUDGE_KEY_1"]\n'
        )
        spec = TrialSpec(task="apex/task-3", policy=Plugin(name="oracle"), timeout_s=100, verify_reserve_s=40)
        result = await run_attempt(spec, 1, tmp_path / "attempt-1")
    assert result.status is Status.SCORED, result.failure
    assert result.final_answer == "Sales in West were 400 EUR (sheet March)."
    # It makes no files: the line about a note fails, and what the rubric says of the answer passes.
    assert result.reward == pytest.approx(2 / 3)
