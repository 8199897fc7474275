"""The attack really attacks, from inside a real sandbox, and gets nowhere that a verifier looks."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from envkit.deadline import Deadline
from envkit.messages import AssistantMessage, Message, Observation, StopReason
from envkit.policy.base import PolicyContext
from envkit.policy.forge import ATTACKS, ForgePolicy
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider
from envkit.task import Task

MakeTask = Callable[..., Task]
Play = Callable[..., Awaitable[Any]]

MISCHIEF = "cat /logs/verifier/reward.txt /tests/test.sh 2>&1; cat /filesystem/.forge/ticks"


@pytest.mark.parametrize(("name", "script"), ATTACKS)
def test_every_attack_is_a_script_that_bash_can_read(name: str, script: str) -> None:
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), name


async def test_it_plays_all_attacks_as_the_agent_and_ends_like_doing_nothing(
    make_task: MakeTask, play: Play, tmp_path: Path
) -> None:
    async with LocalProvider().create(SandboxSpec()) as sandbox:
        played = await play(ForgePolicy(), make_task(), sandbox=sandbox)
        assert sandbox.alive
    said = [m for m in played.messages if isinstance(m, AssistantMessage)]
    assert [call.name for m in said for call in m.tool_calls] == ["bash"] * len(ATTACKS)
    assert played.end.stop is StopReason.ANSWERED
    assert not played.end.final_answer
    assert all(name.startswith("filesystem/.forge/") for name in played.world), "it plants nothing outside its folder"
    assert not any(b"root:" in content for name, content in played.world.items() if "passwd" in name)
    log = (tmp_path / "forge.jsonl").read_text()
    assert all(name in log for name, _ in ATTACKS)


@pytest.mark.slow
async def test_without_a_bash_tool_it_acts_through_the_sandbox_and_its_daemon_outlives_the_turn(
    make_task: MakeTask,
) -> None:
    task = make_task()
    policy = ForgePolicy()
    async with LocalProvider().create(SandboxSpec()) as sandbox:
        await policy.start(
            PolicyContext(
                task=task,
                step=task.steps[0],
                sandbox=sandbox,
                harness="other",
                seed=0,
                attempt=1,
                deadline=Deadline.after(60),
            )
        )
        said = await policy.act(Observation(messages=(Message(role="user", content="go"),)))
        assert said == AssistantMessage()
        ticks = []
        for _ in range(2):
            await asyncio.sleep(0.4)
            seen = await sandbox.exec(["/usr/bin/env", "bash", "-c", MISCHIEF])
            ticks.append(seen.stdout)
        assert ticks[0] != ticks[1], "the daemon must be at work for the test to mean anything"
        assert b"1.0" in ticks[1]
        assert await sandbox.kill_all() > 0
        after = [
            (await sandbox.exec(["bash", "-c", MISCHIEF])).stdout for _ in range(2) if not await asyncio.sleep(0.3)
        ]
        assert after[0] == after[1], "nothing it started may be alive after the barrier"
        await policy.close()
