"""Tool servers that break: what is started again, what the model is told, and what is a fault. Real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import types

from envkit.deadline import Deadline
from envkit.failure import Boundary, DeadlineExceeded, EnvkitError, FailureKind, SandboxDied
from envkit.harnesses.archipelago import connection
from envkit.harnesses.archipelago.link import Link, ProcessLink
from envkit.harnesses.archipelago.toolserver import ToolServer, Trouble
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.host import HostProvider, HostSandbox

PROGRAM = Path(__file__).with_name("odd_server.py")
Make = Callable[..., ToolServer]


@pytest.fixture
async def sandbox() -> AsyncIterator[HostSandbox]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        provider = HostProvider()
    async with provider.create(SandboxSpec(network="public")) as made:
        yield made


@pytest.fixture
async def make(sandbox: HostSandbox) -> AsyncIterator[Make]:
    made: list[ToolServer] = []

    def server(*, deadline: Deadline | None = None, ready_s: float = 20.0, **options: Any) -> ToolServer:
        async def start() -> Link:
            return ProcessLink(await sandbox.spawn([sys.executable, "-S", str(PROGRAM), json.dumps(options)]))

        made.append(ToolServer("odd", start, deadline=deadline or Deadline.after(60), ready_s=ready_s))
        return made[-1]

    yield server
    for one in made:
        await one.close()


async def ask(server: ToolServer, tool: str, timeout_s: float = 20.0, *, acted: bool = False, **arguments: Any) -> str:
    """What the model would be told, as far as it is text."""
    result = await server.call(tool, arguments, timeout_s, acted=acted)
    if isinstance(result, Trouble):
        return "TROUBLE " + result.message
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def died(server: ToolServer, tool: str, **arguments: Any) -> EnvkitError:
    with pytest.raises(EnvkitError) as caught:
        await ask(server, tool, **arguments)
    assert (caught.value.kind, caught.value.boundary) == (FailureKind.TOOL_SERVER_DIED, Boundary.TOOL)
    return caught.value


async def test_it_opens_when_its_tools_are_listed_and_answers(make: Make) -> None:
    server = make()
    await server.open()
    assert server.tools[0].name == "echo"
    assert await ask(server, "echo", request={"text": "Überblick €"}) == "Überblick €"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "says"),
    [({"die": True}, "can't find the data"), ({"empty": True}, "no tools"), ({"slow": 30}, "did not list its tools")],
)
async def test_a_server_that_is_not_ready_is_a_fault_that_names_it(
    make: Make, options: dict[str, Any], says: str
) -> None:
    server = make(ready_s=1.5, **options)
    since_s = time.monotonic()
    with pytest.raises(EnvkitError) as caught:
        await server.open()
    assert caught.value.kind is FailureKind.TOOL_SERVER_DIED
    assert "'odd'" in str(caught.value)
    assert says in str(caught.value)
    assert time.monotonic() - since_s < 15


async def test_a_program_that_is_not_there_is_a_fault_that_says_so(sandbox: HostSandbox) -> None:
    async def start() -> Link:
        return ProcessLink(await sandbox.spawn(["/no/such/server"]))

    server = ToolServer("absent", start, deadline=Deadline.after(30), ready_s=5)
    with pytest.raises(EnvkitError, match="absent"):
        await server.open()


async def test_killed_between_calls_it_is_started_again_and_nobody_notices(make: Make) -> None:
    server = make()
    await server.open()
    pid = int(await ask(server, "pid"))
    os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(0.3)
    assert await ask(server, "echo", request={"text": "still here"}) == "still here"
    assert server.restarts == 1
    assert int(await ask(server, "pid")) != pid


async def test_killed_during_a_call_the_model_is_told_that_it_may_have_been_carried_out(make: Make) -> None:
    server = make()
    await server.open()
    told = await ask(server, "kill", acted=True, n=9)
    assert "ended by signal 9" in told
    assert "started again" in told
    assert "look before you repeat" in told
    assert await ask(server, "echo", request={"text": "back"}) == "back"


async def test_a_call_that_only_reads_is_repeated_in_silence(make: Make, tmp_path: Path) -> None:
    server = make()
    await server.open()
    assert await ask(server, "peek", after_kill=str(tmp_path / "killed")) == "peeked"
    assert server.restarts == 1


async def test_a_server_that_exits_by_itself_is_a_fault_with_its_last_words(make: Make) -> None:
    server = make()
    await server.open()
    error = await died(server, "exit", n=7)
    assert "status 7" in str(error)
    assert "a bug" in str(error)


@pytest.mark.slow
async def test_once_the_agent_has_run_programs_no_end_of_the_server_is_a_way_out(make: Make, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    server = make(die_when=str(flag))
    await server.open()
    for _ in range(5):
        assert "ended while this call was running" in await ask(server, "exit", acted=True, n=1)
    flag.touch()  # as an agent that kills whatever starts
    told = await ask(server, "kill", acted=True, n=15)
    assert "can't be started again" in told
    assert "Nothing was done" in await ask(server, "echo", acted=True, request={"text": "x"})
    flag.unlink()
    assert await ask(server, "echo", acted=True, request={"text": "x"}) == "x"


@pytest.mark.slow
async def test_a_server_that_is_killed_again_and_again_by_nobody_is_a_fault(make: Make) -> None:
    server = make()
    await server.open()
    for _ in range(2):
        assert "signal 9" in await ask(server, "kill", n=9)
    assert "signal 9" in str(await died(server, "kill", n=9))


async def test_a_call_that_never_answers_ends_at_its_limit_and_is_cancelled(make: Make, tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = make(log=str(log))
    await server.open()
    since_s = time.monotonic()
    assert "stopped after 1 s" in await ask(server, "mute", timeout_s=1.0)
    assert 0.9 < time.monotonic() - since_s < 8
    assert await ask(server, "echo", request={"text": "alive"}) == "alive"
    assert server.restarts == 0
    assert "cancelled" in log.read_text()


@pytest.mark.slow
async def test_a_slow_call_within_its_limit_succeeds_beside_others(make: Make) -> None:
    server = make()
    await server.open()
    slow = asyncio.ensure_future(ask(server, "sleep", n=1))
    assert await ask(server, "echo", request={"text": "meanwhile"}) == "meanwhile"
    assert not slow.done()
    assert await slow == "slept"


@pytest.mark.slow
async def test_a_server_that_answers_nothing_any_more_is_started_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PING_S", 0.5)
    server = make()
    await server.open()
    pid = int(await ask(server, "pid"))
    assert "stopped after 1 s" in await ask(server, "deaf", timeout_s=1.0)
    assert int(await ask(server, "pid")) != pid


@pytest.mark.slow
async def test_a_half_open_pipe_is_an_end(make: Make) -> None:
    server = make()
    await server.open()
    told = await ask(server, "half", acted=True)
    assert "closed its output" in told
    assert await ask(server, "echo", request={"text": "back"}) == "back"


@pytest.mark.slow
async def test_an_answer_of_50_mib_arrives_whole(make: Make) -> None:
    server = make()
    await server.open()
    told = await ask(server, "big", n=50)
    assert len(told) == (50 << 20) + 3
    assert told.endswith("END")


async def test_noise_on_its_output_is_set_aside(make: Make) -> None:
    server = make()
    await server.open()
    assert await ask(server, "garbage") == "after the noise"
    assert await ask(server, "surrogate") == "half \ufffd pair"
    assert "not a message of the protocol" in await ask(server, "nonsense")
    assert await ask(server, "echo", request={"text": "fine"}) == "fine"


@pytest.mark.slow
async def test_the_trials_deadline_is_a_fault_and_no_answer(make: Make) -> None:
    server = make(deadline=Deadline.after(3.0))
    await server.open()
    with pytest.raises(DeadlineExceeded):
        await ask(server, "mute", timeout_s=3.5)


async def test_a_sandbox_that_died_is_that_fault(make: Make, sandbox: HostSandbox) -> None:
    server = make()
    await server.open()
    call = asyncio.ensure_future(ask(server, "sleep", n=30))
    await asyncio.sleep(0.3)
    await sandbox.stop()
    with pytest.raises(SandboxDied):
        await call
