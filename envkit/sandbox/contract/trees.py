"""The contract of ends: timeouts, deadlines and `kill_all` reach whatever a command started; long-lived processes."""

from __future__ import annotations

import asyncio

import pytest

from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded, EnvkitError
from envkit.sandbox.contract.under_test import Contract, behaviour, processes

#: Nobody else's: looked for in command lines.
_MARK = "98761"


async def _killed(contract: Contract, script: str) -> None:
    async with contract.create() as sandbox:
        result = await sandbox.exec(["sh", "-c", script], timeout_s=1.0)
        assert result.timed_out
        assert result.exit_code is None
        assert await processes(sandbox, _MARK) == 0
        assert (await sandbox.exec(["echo", "alive"])).stdout == b"alive\n"


@behaviour
async def test_a_timeout_kills_the_command(contract: Contract) -> None:
    await _killed(contract, f"exec sleep {_MARK}")


@behaviour
async def test_a_timeout_kills_what_is_in_the_background(contract: Contract) -> None:
    await _killed(contract, f"sleep {_MARK} & sleep {_MARK}")


@behaviour
async def test_a_timeout_kills_setsid_children(contract: Contract) -> None:
    await _killed(contract, f"setsid sleep {_MARK} & sleep {_MARK}")


@behaviour
async def test_a_timeout_kills_what_forked_twice(contract: Contract) -> None:
    await _killed(contract, f"(setsid sh -c 'sleep {_MARK} & sleep {_MARK} &' &) ; sleep {_MARK}")


@behaviour
async def test_a_timeout_kills_what_ignores_signals(contract: Contract) -> None:
    await _killed(contract, f"trap '' TERM HUP INT; sleep {_MARK} & wait")


@behaviour
async def test_a_timeout_kills_what_has_stopped(contract: Contract) -> None:
    await _killed(contract, f"(sleep {_MARK} & kill -STOP $!; wait) ; sleep {_MARK}")


@behaviour
async def test_output_before_the_timeout_is_kept(contract: Contract) -> None:
    async with contract.create() as sandbox:
        result = await sandbox.exec(["sh", "-c", "echo before; sleep 1000"], timeout_s=1.5)
        assert (result.timed_out, result.stdout) == (True, b"before\n")


@behaviour
async def test_a_deadline_raises_and_kills(contract: Contract) -> None:
    async with contract.create() as sandbox:
        with pytest.raises(DeadlineExceeded, match="the budget"):
            await sandbox.exec(["sh", "-c", f"sleep {_MARK} & wait"], deadline=Deadline.after(1.0, "the budget"))
        assert await processes(sandbox, _MARK) == 0


@behaviour
async def test_cancelling_the_wait_kills(contract: Contract) -> None:
    async with contract.create() as sandbox:
        task = asyncio.create_task(sandbox.exec(["sh", "-c", f"sleep {_MARK} & wait"]))
        for _ in range(100):
            if await processes(sandbox, f"sleep {_MARK}"):
                break
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(100):
            if await processes(sandbox, _MARK) == 0:
                break
            await asyncio.sleep(0.05)
        assert await processes(sandbox, _MARK) == 0


@behaviour
async def test_a_command_that_left_children_with_its_output_is_waited_for(contract: Contract) -> None:
    async with contract.create() as sandbox:
        result = await sandbox.exec(["sh", "-c", "(sleep 0.5; echo late) & echo early"])
        assert result.stdout == b"early\nlate\n"


@behaviour
async def test_a_daemon_lives_until_kill_all(contract: Contract) -> None:
    async with contract.create() as sandbox:
        started = await sandbox.exec(["sh", "-c", f"setsid sleep {_MARK} >/dev/null 2>&1 </dev/null & echo started"])
        assert (started.exit_code, started.stdout) == (0, b"started\n")
        assert await processes(sandbox, _MARK) == 1
        assert await sandbox.kill_all() == 1
        assert await processes(sandbox, _MARK) == 0
        assert await sandbox.kill_all() == 0


@behaviour
async def test_kill_everybody_from_inside_ends_only_the_agents(contract: Contract) -> None:
    contract.needs(python=True, isolated=True)
    async with contract.create() as sandbox:
        await sandbox.exec(["sh", "-c", "kill -9 -1"], timeout_s=5)
        await sandbox.exec(["sh", "-c", "kill -9 1; kill -STOP 1; kill -TERM 1; kill -INT 1"], timeout_s=5)
        assert (await sandbox.exec(["echo", "alive"])).stdout == b"alive\n"


@behaviour
async def test_a_spawned_process_has_streams(contract: Contract) -> None:
    async with contract.create() as sandbox:
        echo = await sandbox.spawn(["cat"])
        await echo.write(b"hello")
        assert await echo.read() == b"hello"
        await echo.close_stdin()
        assert await echo.read() == b""
        assert await echo.wait(Deadline.after(30)) == 0


@behaviour
async def test_unread_output_blocks_a_spawned_process(contract: Contract) -> None:
    async with contract.create() as sandbox:
        flood = await sandbox.spawn(["sh", "-c", "head -c 20000000 /dev/zero; echo done >&2"])
        await asyncio.sleep(1.0)
        assert flood.stderr_tail == b""
        total = 0
        while piece := await flood.read():
            total += len(piece)
        assert total == 20_000_000
        assert await flood.wait(Deadline.after(30)) == 0
        assert flood.stderr_tail == b"done\n"


@behaviour
async def test_stderr_of_a_spawned_process_is_kept_to_its_tail(contract: Contract) -> None:
    async with contract.create() as sandbox:
        process = await sandbox.spawn(["sh", "-c", "head -c 1000000 /dev/zero >&2; echo end >&2"])
        assert await process.read() == b""
        await process.wait(Deadline.after(30))
        assert len(process.stderr_tail) == 65536
        assert process.stderr_tail.endswith(b"end\n")


@behaviour
async def test_a_spawned_process_that_cant_start_says_why(contract: Contract) -> None:
    async with contract.create() as sandbox:
        with pytest.raises(EnvkitError, match="command not found"):
            await sandbox.spawn(["no-such-command"])


@behaviour
async def test_killing_a_spawned_process_takes_all_it_started(contract: Contract) -> None:
    async with contract.create() as sandbox:
        process = await sandbox.spawn(["sh", "-c", f"setsid sleep {_MARK} & sleep {_MARK}"])
        with pytest.raises(DeadlineExceeded):
            await process.wait(Deadline.after(0.3))
        await process.kill()
        assert await processes(sandbox, _MARK) == 0
        assert await process.wait(Deadline.after(30)) != 0
