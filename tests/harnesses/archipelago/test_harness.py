"""The harness in whole episodes: our servers and a task's own in a real sandbox, and what a result says of it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from envkit import plugins
from envkit.deadline import Deadline
from envkit.directory_pack import DirectoryPack
from envkit.env import AsyncEnv
from envkit.failure import Boundary, EnvkitError, FailureKind, UserError
from envkit.harness import Harness
from envkit.harnesses.archipelago import ArchipelagoHarness
from envkit.harnesses.archipelago.sources import task_source
from envkit.harnesses.archipelago.toolset import Source, Toolset
from envkit.messages import AssistantMessage, Message, Observation, ToolCall
from envkit.sandbox.base import Sandbox, SandboxSpec
from envkit.sandbox.local import LocalProvider
from envkit.task import McpServerConfig
from envkit.trial.result import Plugin, TrialResult, TrialSpec
from envkit.trial.trial import run_attempt

HERE = Path(__file__).parent
TOML = """
schema_version = "1.4"
[task]
name = "test/sum"
[metadata.envkit]
world = "worlds/shop"
{more}
"""
CHECKS = """
schema_version = "1"
[[check]]
id = "total"
kind = "answer"
number = {value = 6}
[[check]]
id = "report"
kind = "text"
path = "/filesystem/report.txt"
contains = ["total: 6"]
"""
PLAIN = {"servers": ["filesystem", "code"]}


def write_pack(root: Path, more: str = "") -> DirectoryPack:
    world = root / "worlds" / "shop"
    (world / "filesystem" / "tools").mkdir(parents=True)
    (world / ".apps_data").mkdir()
    (world / "filesystem" / "sales.csv").write_text("item,amount\na,1\nb,2\nc,3\n")
    shutil.copy(HERE / "odd_server.py", world / "filesystem" / "tools" / "odd_server.py")
    task = root / "sum"
    (task / "tests").mkdir(parents=True)
    (task / "task.toml").write_text(TOML.format(more=more))
    (task / "instruction.md").write_text("Sum the amounts in sales.csv, write report.txt, and answer with the total.\n")
    (task / "tests" / "verifier.toml").write_text(CHECKS)
    (task / "tests" / "test.sh").write_text("exit 1\n")
    return DirectoryPack(root, "test")


def made(pack: DirectoryPack, **options: Any) -> AsyncEnv:
    harness = ArchipelagoHarness(**{**PLAIN, **options})
    return AsyncEnv(pack.load("sum"), pack=pack, harness=harness, provider=LocalProvider())


def calls(*given: tuple[str, dict[str, Any]]) -> AssistantMessage:
    return AssistantMessage(
        tool_calls=tuple(ToolCall(id=f"c{n}", name=name, arguments=args) for n, (name, args) in enumerate(given))
    )


async def told(env: AsyncEnv, *given: tuple[str, dict[str, Any]]) -> list[Message]:
    observation, *_ = await env.step(calls(*given))
    assert isinstance(observation, Observation)
    return [message for message in observation.messages if isinstance(message, Message)]


def code(command: str) -> tuple[str, dict[str, Any]]:
    return "code_execution_server_code_exec", {"code": command}


async def test_an_episode_from_reset_to_reward(tmp_path: Path) -> None:
    env = made(write_pack(tmp_path))
    try:
        observation, _ = await env.reset()
        assert next(tool.name for tool in observation.tools or ()) == "filesystem_server_list_files"
        assert isinstance(env.harness, Harness)
        (listed,) = await told(env, ("filesystem_server_list_files", {}))
        assert "sales.csv" in listed.content
        (ran,) = await told(env, code("pwd; date -u +%Y; echo 'total: 6' > report.txt"))
        assert "/filesystem" in ran.content
        _, reward, terminated, _, _ = await env.step("The total is 6.")
    finally:
        await env.close()
    assert (reward, terminated) == (1.0, True)


async def test_an_agent_can_kill_what_it_can_reach_and_stays_scored(tmp_path: Path) -> None:
    env = made(write_pack(tmp_path))
    try:
        await env.reset()
        for _ in range(2):
            await told(env, code("kill -9 -1; pkill -9 python; pkill -f serve.py"))
        (listed,) = await told(env, ("filesystem_server_list_files", {}))
        assert "sales.csv" in listed.content
        _, reward, *_ = await env.step("6")
    finally:
        await env.close()
    assert reward == 0.5


@pytest.mark.slow
async def test_a_dead_sandbox_is_a_fault_and_no_tool_output(tmp_path: Path) -> None:
    env = made(write_pack(tmp_path))
    try:
        await env.reset()
        assert env.sandbox is not None
        await env.sandbox.stop()
        with pytest.raises(EnvkitError) as caught:
            await env.step(calls(("filesystem_server_list_files", {})))
    finally:
        await env.close()
    assert (caught.value.kind, caught.value.boundary) == (FailureKind.SANDBOX_DIED, Boundary.SANDBOX)


STDIO = """
[[environment.mcp_servers]]
name = "odd.tools"
transport = "stdio"
command = "python3"
args = ["/filesystem/tools/odd_server.py"{options}]
"""


async def test_a_tasks_own_server_runs_inside_and_has_its_prefix(tmp_path: Path) -> None:
    env = made(write_pack(tmp_path, STDIO.format(options="")))
    try:
        observation, _ = await env.reset()
        names = [tool.name for tool in observation.tools or ()]
        assert "odd_tools_echo" in names
        assert all(len(name) <= 64 for name in names)
        echoed, killed = await told(env, ("odd_tools_echo", {"text": "hello"}), ("odd_tools_kill", {"n": 9}))
        assert echoed.content == "hello"
        assert killed.is_error
        assert "signal 9" in killed.content
        (back,) = await told(env, ("odd_tools_echo", {"text": "again"}))
        assert back.content == "again"
    finally:
        await env.close()


async def test_a_tasks_server_that_does_not_start_is_named(tmp_path: Path) -> None:
    env = made(write_pack(tmp_path, STDIO.format(options=""", '{"die": true}'""")), ready_s=10)
    try:
        with pytest.raises(EnvkitError, match=r"odd\.tools") as caught:
            await env.reset()
    finally:
        await env.close()
    assert caught.value.kind is FailureKind.TOOL_SERVER_DIED
    assert "can't find the data" in str(caught.value)


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    spec = ArchipelagoHarness(**PLAIN).sandbox(SandboxSpec())
    async with LocalProvider().create(spec) as running:
        yield running


async def shouted(toolset: Toolset) -> str:
    await toolset.open()
    try:
        (name,) = toolset.offers
        assert name == "crier_shout"
        return (await toolset.call(ToolCall(id="1", name=name, arguments={"text": "hear"}), 10)).text
    finally:
        await toolset.close()


def over(source: Source) -> Toolset:
    return Toolset([source], shortener=None, max_image_bytes=0)


async def test_a_loopback_url_of_a_task_means_the_sandboxs_own(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRIER_KEY", "k-123")
    process = await sandbox.spawn(["python3", "-c", (HERE / "http_server.py").read_text(), "8765"])
    assert await process.read() == b"8765\n"
    config = McpServerConfig(
        name="crier", transport="http", url="http://127.0.0.1:8765/mcp", headers={"X-Key": "${CRIER_KEY}"}
    )
    assert await shouted(over(task_source(config, sandbox, Deadline.after(30), 15))) == "HEAR k-123"


@pytest.mark.slow
async def test_any_other_url_is_reached_from_here(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, str(HERE / "http_server.py")], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            monkeypatch.setattr("envkit.harnesses.archipelago.sources._is_loopback", lambda url: False)
            config = McpServerConfig(name="crier", transport="http", url=f"http://127.0.0.1:{port}/mcp")
            assert await shouted(over(task_source(config, sandbox, Deadline.after(30), 15))) == "HEAR no key"
            gone = over(task_source(config, sandbox, Deadline.after(30), 1.5))
        finally:
            server.kill()
    with pytest.raises(EnvkitError, match="'crier' is not ready") as caught:
        await asyncio.wait_for(gone.open(), 20)
    assert caught.value.kind is FailureKind.TOOL_SERVER_DIED


async def test_a_blocked_answer_is_in_the_result_and_the_history_is_kept(tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    write_pack(pack)
    script = """{"calls": [
      [{"name": "toolbelt_add_tool", "arguments": {"tool_name": "filesystem_server_list_files"}}],
      [{"name": "final_answer", "arguments": {"answer": "No access.", "status": "blocked"}},
       {"name": "filesystem_server_list_files", "arguments": {}}]], "answer": ""}"""
    (pack / "sum" / "solution").mkdir()
    (pack / "sum" / "solution" / "archipelago.json").write_text(script)
    options = {**PLAIN, "agent": "toolbelt"}
    spec = TrialSpec(
        task=str(pack / "sum"), harness=Plugin(name="archipelago", options=options), policy=Plugin(name="oracle")
    )
    result = await run_attempt(spec, 1, tmp_path / "attempt")
    assert result.failure is None
    assert (result.answer_status, result.final_answer) == ("blocked", "No access.")
    text = (tmp_path / "attempt" / "trajectory.json").read_text()
    assert "sales.csv" in text  # the call beside the answer was carried out, and its result kept
    assert TrialResult.of(spec, [result]).answer_status == "blocked"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"agents": "loop"}, "did you mean 'agent'"),
        ({"servers": ["sheet"]}, "did you mean 'sheets'"),
        ({"compaction": {"shar": 1}}, "did you mean 'share'"),
        ({"mode": "both"}, "mode"),
        ({"gateway_url": "ftp://x"}, "http://localhost:8080"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        plugins.construct("harnesses", "archipelago", options)


def test_servers_may_come_as_text_from_a_command_line() -> None:
    assert ArchipelagoHarness(servers="mail,sheets_server").options.servers == ("mail", "sheets")
