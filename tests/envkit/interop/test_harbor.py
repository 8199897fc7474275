"""Harbor both ways, with Harbor itself: our harness as its agent, its environments as our sandbox.

Run where Harbor is installed. The environment is Harbor's own kind with our local sandbox inside (`EnvkitEnvironment`):
the docker environment needs Compose, which CI's machine has not.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
NAME = "lantern-payment-terms"
CALL = {"name": "bash", "arguments": {"command": "ls Engagements", "description": "looks"}}
WHERE = "envkit.interop.harbor_environment:EnvkitEnvironment"


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


sys.path.append(str(ROOT))  # for what the examples import of each other; last, so that it shadows no package
fake = load("fake_openai_for_harbor", ROOT / "tests" / "envkit" / "policy" / "fake_openai.py")
shown = load("demonstrations_for_harbor", ROOT / "examples" / "tiny" / "demonstrations.py")
RIGHT = shown.DEMONSTRATIONS[NAME].answer.replace("{days}", "45").replace("{rate}", "4")


async def run(*command: str) -> str:
    # Harbor reports its use to its makers unless told otherwise, and waits for minutes where it can't.
    env = {**os.environ, "HARBOR_TELEMETRY": "0"}
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=env
    )
    out, _ = await process.communicate()
    return out.decode(errors="replace")


async def in_harbor(task: Path, url: str, jobs: Path) -> Any:
    """Harbor's result of one trial: its command, our agent."""
    said = await run(
        str(Path(sys.executable).parent / "harbor"), "run", "-p", str(task), "-e", WHERE, "-y", "-q", "-o", str(jobs),
        "-a", "envkit.interop.harbor_agent:EnvkitAgent", "-m", "scripted", "-n", "1",
        "--ak", "harness=opencode", "--ak", f'policy_options={json.dumps({"base_url": url})}',
    )  # fmt: skip
    results = [path for path in jobs.rglob("result.json") if (path.parent / "agent").is_dir()]
    assert results, said
    (result,) = results
    return json.loads(result.read_text()), result.parent, said


async def natively(url: str, folder: Path, *more: str) -> Any:
    """What the same model gets in a trial of ours."""
    said = await run(
        str(Path(sys.executable).parent / "envkit"), "run", f"office/{NAME}", "--harness", "opencode",
        "--out", str(folder), "--json", "--policy", f"chat:model=scripted,base_url={url}", *more,
    )  # fmt: skip
    return json.loads(said[said.index("{") :])["result"]


async def test_an_office_task_has_the_same_reward_in_harbor_under_our_harness(tmp_path: Path) -> None:
    from envkit.tasks.office import OfficePack

    task = tmp_path / NAME
    OfficePack().export_task(NAME, task)
    rewards = []
    for number, answer in enumerate((RIGHT, RIGHT.replace("45", "30"))):
        turns = [{"text": "", "calls": [CALL]}, {"text": answer}]
        async with fake.FakeOpenAI(fake.conversation(turns)) as endpoint:
            result, folder, said = await in_harbor(task, endpoint.url, tmp_path / f"jobs-{number}")
            assert result["exception_info"] is None, (result["exception_info"], said)
            assert "Lantern" in json.dumps(endpoint.requests[1].json["messages"][-1]), "the tool worked in there"
            ours = await natively(endpoint.url, tmp_path / f"run-{number}")
        reward = result["verifier_result"]["rewards"]["reward"]
        assert reward == ours["reward"]
        rewards.append(reward)
        assert result["agent_result"]["n_output_tokens"] == 40
        trajectory = json.loads((folder / "agent" / "trajectory.json").read_text())
        assert trajectory["steps"][-1]["message"] == answer
    assert rewards[0] == 1.0
    assert rewards[1] < 1.0


async def test_an_environment_of_harbors_is_a_sandbox_of_ours(tmp_path: Path) -> None:
    turns = [{"text": "", "calls": [CALL]}, {"text": RIGHT}]
    async with fake.FakeOpenAI(fake.conversation(turns)) as endpoint:
        result = await natively(endpoint.url, tmp_path / "run", "--sandbox", f"harbor:environment={WHERE}")
        assert result["status"] == "scored", result["failure"]
        assert result["reward"] == 1.0
        assert "Lantern" in json.dumps(endpoint.requests[1].json["messages"][-1])


async def test_commands_streams_and_snapshots_in_an_environment_of_harbors() -> None:
    """What a harness needs of a sandbox, through commands that run to their end."""
    from envkit.failure import UserError
    from envkit.interop.harbor_sandbox import HarborProvider
    from envkit.plugins import construct, resolve
    from envkit.sandbox.base import SandboxSpec

    assert construct("sandboxes", "harbor:docker").environment == "docker"
    with pytest.raises(UserError, match="without names"):
        resolve("sandboxes", "host:docker")
    async with HarborProvider(WHERE).create(SandboxSpec(start_timeout_s=120.0)) as sandbox:
        done = await sandbox.exec(["sh", "-c", "cat; echo no >&2; exit 3"], stdin=b"a" * 100_000, timeout_s=60.0)
        assert (done.exit_code, len(done.stdout), done.stderr) == (3, 100_000, b"no\n")
        late = await sandbox.exec(["sh", "-c", "setsid sleep 300 & sleep 300"], timeout_s=1.0)
        assert late.timed_out
        listed = await sandbox.exec(["sh", "-c", "ps -e -o args= 2>/dev/null | grep -c '[s]leep 300' || true"])
        assert listed.stdout.strip() in (b"0", b""), "a deadline kills inside"
        process = await sandbox.spawn(["cat"])
        await process.write(b"hello")
        assert await process.read() == b"hello"
        await process.close_stdin()
        assert await process.wait() == 0
        await sandbox.exec(["sh", "-c", "head -c 5000000 /dev/urandom > /filesystem/large"], timeout_s=60.0)
        total = sum([len(piece) async for piece in sandbox.snapshot()])
        assert total > 5_000_000
    assert not sandbox.alive
