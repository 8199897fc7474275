"""Tasks that work in a folder of their image's: what is judged is what the agent left there, and nothing else."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from envkit.deadline import Deadline
from envkit.env import AsyncEnv
from envkit.episode import StateGone, write_snapshot
from envkit.failure import EnvkitError, FailureKind
from envkit.harnesses.opencode import OpenCodeHarness
from envkit.messages import AssistantMessage, ToolCall
from envkit.registry import DirectoryPack
from envkit.regrade import regrade_run
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.host import HostProvider, UnisolatedWarning
from envkit.sandbox.local import LocalProvider
from envkit.trial.job import Job
from envkit.trial.result import Plugin, Status, TrialSpec
from envkit.verifiers import bounds
from envkit.work import replace

WORKDIR = '[environment]\nworkdir = "/app"\n'
#: Right is: the answer alone in its folder, a new file in a new folder with its mode, and the old file gone.
TEST = """\
cd / && echo 0 > /logs/verifier/reward.txt
[ "$(cat /app/answer.txt)" = 42 ] || exit 0
[ -x /app/src/run.sh ] && [ ! -e /app/seed.txt ] && [ ! -e /app/.hidden ] && [ -L /app/link ] || exit 0
[ "$(ls -A /app | wc -l)" = 3 ] && echo 1 > /logs/verifier/reward.txt
"""
SOLVE = (
    "rm -f seed.txt .hidden; echo 42 > answer.txt; mkdir src; echo echo > src/run.sh; chmod +x src/run.sh; "
    "ln -s src link"
)


def write(root: Path, *, toml: str = WORKDIR, files: Mapping[str, str] | None = None) -> DirectoryPack:
    """A pack of one task in the manner of Terminal-Bench."""
    every = {
        "task.toml": f'schema_version = "1.4"\n[task]\nname = "test/app"\n[verifier]\ntimeout_sec = 60\n{toml}',
        "instruction.md": "Write the answer into answer.txt and tidy up.\n",
        "tests/test.sh": TEST,
        "solution/solve.sh": SOLVE,
        **(files or {}),
    }
    for name, text in every.items():
        path = root / "app" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return DirectoryPack(root, "test")


def make(pack: DirectoryPack, provider: Any) -> AsyncEnv:
    return AsyncEnv(pack.load("app"), pack=pack, harness=OpenCodeHarness(), provider=provider, timeout_s=120)


def call(name: str, **arguments: str) -> AssistantMessage:
    return AssistantMessage(tool_calls=(ToolCall(id="c1", name=name, arguments=arguments),))


async def reward(env: AsyncEnv, *calls: AssistantMessage) -> float | None:
    await env.reset()
    for message in calls:
        await env.step(message)
    return (await env.step("done"))[1]


def test_which_folder_has_to_be_carried_over() -> None:
    def work(workdir: str) -> str | None:
        return SandboxSpec(workdir=workdir).work

    assert (work("/app"), work("/filesystem-2"), work("/root")) == ("/app", "/filesystem-2", "/root")
    assert {
        work(p)
        for p in ("/", "app", "/app/../etc", "/filesystem", "/filesystem/a", "/.apps_data", "/tmp/x", "/logs", "/tests")
    } == {None}


async def test_what_was_left_in_the_working_folder_is_judged(tmp_path: Path) -> None:
    async with make(write(tmp_path), LocalProvider(office=False)) as env:
        observation, _ = await env.reset()
        assert "/app" in observation.messages[0].content
        assert "/filesystem" not in str(observation.tools)
        found = (await env.step(call("bash", command=f"pwd; {SOLVE}")))[0]
        assert found is not None
        assert found.messages[0].content == "/app\n"
        await env.step(call("write", filePath="answer.txt", content="42"))  # as seen from there
        assert (await env.step("done"))[1] == 1.0
        assert await reward(env, call("bash", command=f"{SOLVE}; rm answer.txt")) == 0.0
        assert await reward(env) == 0.0


async def test_more_files_than_are_judged_are_the_agents_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "new_entries", lambda timeout_s: 20)
    async with make(write(tmp_path), LocalProvider(office=False)) as env:
        assert await reward(env, call("bash", command=f"{SOLVE}; for i in $(seq 30); do : > f$i; done")) == 0.0
        assert env.verdict is not None
        assert [c.id for c in env.verdict.criteria] == ["final-state"]


async def test_links_to_what_is_expected_and_pipes_are_no_answers(tmp_path: Path) -> None:
    compare = (
        "echo 0 > /logs/verifier/reward.txt\n"
        "cmp /app/answer.txt /tests/expected.txt && cmp /filesystem/answer.txt /tests/expected.txt || exit 0\n"
        "echo 1 > /logs/verifier/reward.txt\n"
    )
    pack = write(tmp_path, files={"tests/test.sh": compare, "tests/expected.txt": "42\n"})
    both = "echo 42 > real; ln -s real answer.txt; echo 42 > /filesystem/answer.txt"
    async with make(pack, LocalProvider(office=False)) as env:
        assert await reward(env, call("bash", command=both)) == 1.0
        for cheat in (
            "ln -sf /tests/expected.txt answer.txt",
            "ln -sf /tests/expected.txt /filesystem/answer.txt",
            "ln -s / up; ln -sf up/tests/expected.txt answer.txt",
            "ln -sf /proc/self/root/tests/expected.txt answer.txt",
            "rm answer.txt; mkfifo answer.txt",  # a script that opens it would wait for ever
        ):
            assert await reward(env, call("bash", command=f"{both}; {cheat}")) == 0.0, cheat


@pytest.mark.parametrize("end", ["rm -rf ../app", "mv ../app ../gone && ln -s gone ../app", "rm -r ../app; : > ../app"])
async def test_a_working_folder_that_is_gone_is_the_agents_failure(tmp_path: Path, end: str) -> None:
    with pytest.warns(UnisolatedWarning):
        provider = HostProvider()
    async with make(write(tmp_path), provider) as env:
        assert await reward(env, call("bash", command=f"{SOLVE}; {end}")) == 0.0
        assert env.verdict is not None
        assert [c.id for c in env.verdict.criteria] == ["final-state"]


async def test_a_folder_of_ours_that_is_gone_is_nobodys_failure(tmp_path: Path) -> None:
    async with LocalProvider(office=False).create(SandboxSpec(workdir="/app")) as sandbox:
        with pytest.raises(FileNotFoundError):
            await write_snapshot(sandbox, tmp_path / "removed" / "work.tar", ("/app",))
        with pytest.raises(StateGone, match="/gone"):
            await write_snapshot(sandbox, tmp_path / "work.tar", ("/gone",))
    assert list(tmp_path.iterdir()) == []


async def test_no_folder_of_the_host_is_emptied(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    archive = tmp_path / "work.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(precious / "file", arcname=f"{precious}/left")
    with pytest.warns(UnisolatedWarning):
        provider = HostProvider()
    async with provider.create(SandboxSpec(workdir=str(precious))) as sandbox:
        await sandbox.exec(["touch", "old", ".old", "..old"])
        await replace(sandbox, str(precious), archive, Deadline.after(60))
        assert (await sandbox.exec(["ls", "-A"])).stdout == b"left\n"
        with pytest.raises(EnvkitError, match="can't be emptied"):
            await replace(sandbox, "/not-there", archive, Deadline.after(60))
    assert (precious / "file").read_text() == "kept"


@pytest.mark.slow
async def test_a_trial_is_scored_and_says_why_it_cannot_be_judged_again(tmp_path: Path) -> None:
    write(tmp_path)
    spec = TrialSpec(task=str(tmp_path / "app"), policy=Plugin(name="oracle"), timeout_s=120, verify_reserve_s=40)
    result = (await Job([spec], tmp_path / "run").run()).results[0]
    assert (result.status, result.reward) == (Status.SCORED, 1.0)
    assert not list((tmp_path / "run").rglob("*.tar"))
    (again,) = await regrade_run(tmp_path / "run")
    assert again.failure is not None
    assert again.failure.kind is FailureKind.CAPABILITY
    assert "/app" in again.failure.message
