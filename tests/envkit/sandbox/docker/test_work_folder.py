"""A task whose image works in a folder of its own: agent and tests meet there, in two containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.env import AsyncEnv
from envkit.harnesses.opencode import OpenCodeHarness
from envkit.messages import AssistantMessage, ToolCall
from envkit.registry import DirectoryPack
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.docker import DockerProvider

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

TEST = """\
cd / && echo 0 > /logs/verifier/reward.txt
[ "$(cat /app/answer.txt)" = 42 ] && [ ! -e /app/seed.txt ] && [ -e /app/kept.txt ] || exit 0
[ "$(ls -A /app | wc -l)" = 2 ] && echo 1 > /logs/verifier/reward.txt
"""


@pytest.fixture
def pack(base: str, tmp_path: Path) -> DirectoryPack:
    files = {
        "task.toml": 'schema_version = "1.4"\n[task]\nname = "test/app"\n[verifier]\ntimeout_sec = 60\n',
        "instruction.md": "Write the answer into answer.txt, and remove seed.txt.\n",
        "environment/Dockerfile": f"FROM {base}\nWORKDIR /app\nCOPY *.txt ./\n",
        "environment/seed.txt": "old\n",
        "environment/kept.txt": "kept\n",
        "tests/test.sh": TEST,
    }
    for name, text in files.items():
        path = tmp_path / "pack" / "app" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return DirectoryPack(tmp_path / "pack", "test")


async def test_what_was_left_in_the_images_folder_is_judged(pack: DirectoryPack) -> None:
    async def reward(command: str) -> float | None:
        provider = DockerProvider(pull="never")
        env = AsyncEnv(pack.load("app"), pack=pack, harness=OpenCodeHarness(), provider=provider, timeout_s=240)
        async with env:
            await env.reset()
            shell = ToolCall(id="c1", name="bash", arguments={"command": command})
            await env.step(AssistantMessage(tool_calls=(shell,)))
            return (await env.step("done"))[1]

    assert await reward("cat kept.txt && echo 42 > answer.txt && rm seed.txt") == 1.0
    assert await reward("echo 42 > answer.txt") == 0.0, "the image's file is there, since the agent left it there"


async def test_a_world_of_ours_is_worked_on_in_its_own_place(pack: DirectoryPack) -> None:
    (pack.path / "app" / "environment" / "world" / "filesystem").mkdir(parents=True)
    provider = DockerProvider(pull="never")
    async with AsyncEnv(pack.load("app"), pack=pack, harness=OpenCodeHarness(), provider=provider) as env:
        await env.reset()
        assert env.spec is not None
        assert (env.spec.workdir, env.spec.work) == ("/filesystem", None)


async def test_a_provider_says_where_an_image_works(provider: DockerProvider, base: str, busybox: str) -> None:
    plain = DockerProvider(pull="never")
    assert await plain.workdir_of(SandboxSpec(image=base)) == "/workspace"
    assert await plain.workdir_of(SandboxSpec(image=busybox)) is None
    assert await provider.workdir_of(SandboxSpec(image=busybox)) is None, "its own image stands in for the task's"
