"""An office task as an environment of `verifiers`, with its native reward. Run where verifiers is installed."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parents[3]
TASK = "office/lantern-payment-terms"
CALL = {"name": "bash", "arguments": {"command": "ls Engagements", "description": "looks"}}


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


sys.path.append(str(ROOT))  # for what the examples import of each other; last, so that it shadows no package
fake = load("fake_openai_for_interop", ROOT / "tests" / "envkit" / "policy" / "fake_openai.py")
shown = load("demonstrations_for_interop", ROOT / "examples" / "tiny" / "demonstrations.py")
RIGHT = shown.DEMONSTRATIONS["lantern-payment-terms"].answer.replace("{days}", "45").replace("{rate}", "4")
WRONG = RIGHT.replace("45", "30")


@asynccontextmanager
async def model(answer: str) -> Any:
    """An endpoint whose model looks once, then answers."""
    turns = [{"text": "", "calls": [CALL]}, {"text": answer}]
    async with fake.FakeOpenAI(fake.conversation(turns)) as endpoint:
        yield endpoint


async def natively(url: str, run: Path) -> float | None:
    """What the same model gets in a trial of ours."""
    envkit = str(Path(sys.executable).parent / "envkit")  # not `python -m`, which puts this folder on the path
    command = [envkit, "run", TASK, "--harness", "opencode", "--out", str(run), "--json"]
    command += ["--policy", f"chat:model=scripted,base_url={url}"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    reward: float | None = json.loads(out)["result"]["reward"]
    return reward


async def served(env: Any, url: str, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Any:
    """What it gets in verifiers: the rollout's row of its evaluation."""
    from verifiers.types import ClientConfig

    monkeypatch.setenv("NO_KEY", "none")
    client = ClientConfig(api_key_var="NO_KEY", api_base_url=url)
    out = await env.evaluate(client, "scripted", num_examples=1, rollouts_per_example=1, **more)
    (row,) = out["outputs"]
    return row


@pytest.mark.timeout(600)
async def test_an_office_task_in_verifiers_has_the_same_reward_as_natively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import verifiers as vf

    env = vf.load_environment("envkit", tasks=TASK, harness="opencode")
    rewards = []
    for number, answer in enumerate((RIGHT, WRONG)):
        async with model(answer) as endpoint:
            row = await served(env, endpoint.url, monkeypatch, state_columns=["envkit_stop"])
            seen = endpoint.requests[0].json
            assert row["error"] is None
            assert row["envkit_stop"] == "answered"
            assert seen["messages"][-1]["role"] == "user"
            assert any(tool["function"]["name"] == "bash" for tool in seen["tools"])
            # The model saw what the tool found.
            assert "Lantern" in json.dumps(endpoint.requests[1].json["messages"][-1])
            assert row["reward"] == await natively(endpoint.url, tmp_path / f"run-{number}")
            rewards.append(row["reward"])
    assert rewards[0] == 1.0
    assert rewards[1] < 1.0


@pytest.mark.timeout(600)
async def test_a_fault_of_ours_is_an_error_there_and_a_full_context_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import verifiers as vf

    broken = tmp_path / "broken"
    (broken / "tests").mkdir(parents=True)
    (broken / "instruction.md").write_text("Do it.\n")
    (broken / "task.toml").write_text('schema_version = "1.4"\n')
    (broken / "tests" / "test.sh").write_text("exit 0\n")  # leaves no reward
    async with model("Done.") as endpoint:
        row = await served(vf.load_environment("envkit", tasks=str(broken)), endpoint.url, monkeypatch)
        assert "reward_missing" in str(row["error"])
    full = fake.error(400, "This model's maximum context length is 100 tokens", code="context_length_exceeded")
    async with fake.FakeOpenAI(fake.answer("", [("bash", CALL["arguments"])]), full) as endpoint:
        env = vf.load_environment("envkit", tasks=TASK)
        row = await served(env, endpoint.url, monkeypatch, state_columns=["envkit_stop"])
        assert row["error"] is None
        assert (row["envkit_stop"], row["reward"]) == ("context", 0.0)
        assert not env._episodes, "nothing is left running"
    for limit_s in (0.05, 8.0):  # while it is set up; while the model is asked
        async with fake.FakeOpenAI(fake.silence) as endpoint:
            env = vf.load_environment("envkit", tasks=TASK, timeout_seconds=limit_s)
            row = await served(env, endpoint.url, monkeypatch)
            assert "no verdict" in str(row["error"])
            assert not env._episodes
