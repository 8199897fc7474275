"""Process trees: at a deadline everything a command started is dead, however it tried to get away."""

from __future__ import annotations

import asyncio
import time

import pytest

from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded

ESCAPES = {
    "background": "sleep 1000 & sleep 1000",
    "setsid": "setsid sleep 1000 & sleep 1000",
    "nohup": "nohup sleep 1000 >/dev/null 2>&1 & sleep 1000",
    "double fork": "(setsid sh -c 'sleep 1000 & sleep 1000 &' &) ; sleep 1000",
    "ignores TERM": "trap '' TERM HUP INT; sleep 1000 & wait",
    "stopped": "kill -STOP $$",
    "python daemon": (
        "python3 -c 'import os,time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "time.sleep(1000)' & sleep 1000"
    ),
    "fast forks": (
        "python3 -c 'import os,time\nwhile True:\n    if os.fork(): os._exit(0)\n    os.setsid()' & sleep 1000"
    ),
    "main thread gone": (
        "python3 -c 'import ctypes,threading,time\n"
        "threading.Thread(target=time.sleep, args=(1000,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)'"
    ),
}


async def processes(sandbox) -> list[bytes]:
    """What runs inside beside the supervisor and the listing itself."""
    listed = await sandbox.exec(["ps", "-eo", "pid,stat,args", "--no-headers"])
    return [line for line in listed.stdout.splitlines() if b"supervisor" not in line and b"ps -eo" not in line]


FAST = ("setsid", "double fork", "fast forks", "main thread gone")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in ESCAPES])
def test_a_timeout_kills_the_whole_tree(run, name):
    async def body(sandbox):
        result = await sandbox.exec(["bash", "-c", ESCAPES[name]], timeout_s=0.4)
        assert result.timed_out
        assert result.exit_code is None
        assert await processes(sandbox) == []
        assert (await sandbox.ping())["jobs"] == 0

    run(body)


async def test_a_deadline_raises_and_kills_too(sandbox):
    with pytest.raises(DeadlineExceeded, match="the budget"):
        await sandbox.exec(["sh", "-c", "setsid sleep 1000 & sleep 1000"], deadline=Deadline.after(0.3, "the budget"))
    assert await processes(sandbox) == []


async def test_the_earlier_of_timeout_and_deadline_counts(sandbox):
    result = await sandbox.exec(["sleep", "1000"], timeout_s=0.2, deadline=Deadline.after(60))
    assert result.timed_out


async def test_output_before_the_timeout_is_kept(sandbox):
    result = await sandbox.exec(["sh", "-c", "echo before; sleep 1000"], timeout_s=0.4)
    assert (result.timed_out, result.stdout) == (True, b"before\n")


async def test_a_child_in_the_background_that_holds_the_output_is_waited_for(sandbox):
    began = time.monotonic()
    result = await sandbox.exec(["sh", "-c", "(sleep 0.5; echo late) & echo early"])
    assert result.stdout == b"early\nlate\n"
    assert time.monotonic() - began >= 0.5
    held = await sandbox.exec(["sh", "-c", "sleep 1000 & echo early"], timeout_s=0.3)
    assert (held.timed_out, held.stdout) == (True, b"early\n")


async def test_a_daemon_that_let_go_of_the_output_lives_on_until_kill_all(sandbox):
    result = await sandbox.exec(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo started"])
    assert (result.exit_code, result.stdout) == (0, b"started\n")
    assert len(await processes(sandbox)) == 1
    assert await sandbox.kill_all() == 1
    assert await processes(sandbox) == []
    assert await sandbox.kill_all() == 0


async def test_cancelling_the_wait_kills_what_runs_inside(sandbox):
    task = asyncio.create_task(sandbox.exec(["sh", "-c", "setsid sleep 1000 & sleep 1000"]))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(100):
        if not await processes(sandbox):
            break
        await asyncio.sleep(0.02)
    assert await processes(sandbox) == []


@pytest.mark.parametrize("victim", ["1", "-1"])
def test_killing_everybody_from_inside_leaves_the_supervisor(run, victim):
    async def body(sandbox):
        await sandbox.exec(["sh", "-c", f"kill -9 {victim}; kill -STOP 1; kill -SEGV 1"], timeout_s=5)
        for number in ("TERM", "HUP", "INT", "USR1", "CHLD", "PIPE", "ABRT", "QUIT", "CONT", "TSTP"):
            await sandbox.exec(["sh", "-c", f"kill -{number} {victim}"], timeout_s=5)
        assert (await sandbox.exec(["echo", "alive"])).stdout == b"alive\n"
        assert await processes(sandbox) == []

    run(body)


def test_a_command_that_kills_its_leader_takes_its_tree_along(run_as_each):
    async def body(sandbox):
        script = "setsid sleep 1000 & kill -9 $PPID; sleep 1000"
        result = await sandbox.exec(["bash", "-c", script], timeout_s=10)
        assert result.exit_code == -9
        assert not result.timed_out
        assert await processes(sandbox) == []

    run_as_each(body)


def test_a_stopped_leader_does_not_outlive_the_timeout(run):
    async def body(sandbox):
        result = await sandbox.exec(["bash", "-c", "kill -STOP $PPID; sleep 1000"], timeout_s=0.4)
        assert result.timed_out
        assert await processes(sandbox) == []

    run(body)


def test_a_pipe_passed_to_another_process_does_not_hold_up_the_answer(run):
    """The output's last holder may be outside the killed tree: descriptors travel over unix sockets."""
    keeper = (
        "import socket, time\n"
        "s = socket.socket(socket.AF_UNIX); s.bind('/tmp/k'); s.listen()\n"
        "c, _ = s.accept(); keep = socket.recv_fds(c, 10, 4); time.sleep(1000)"
    )
    giver = (
        "import socket, time\n"
        "s = socket.socket(socket.AF_UNIX); s.connect('/tmp/k'); socket.send_fds(s, [b'x'], [1, 2])\n"
        "print('given', flush=True); time.sleep(1000)"
    )

    async def body(sandbox):
        process = await sandbox.spawn(["python3", "-c", keeper])
        wait = 'while [ ! -S /tmp/k ]; do sleep 0.01; done; exec python3 -c "$0"'
        result = await sandbox.exec(["sh", "-c", wait, giver], timeout_s=1.5)
        assert (result.timed_out, result.stdout) == (True, b"given\n")
        await process.kill()

    run(body)


BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"


def test_a_fork_bomb_is_contained_and_ends_with_its_timeout(run_as_each):
    async def body(sandbox):
        result = await sandbox.exec(["python3", "-c", BOMB], timeout_s=1.0)
        assert result.timed_out
        assert await processes(sandbox) == []
        assert (await sandbox.exec(["echo", "fine"])).stdout == b"fine\n"

    run_as_each(body, processes=64)


def test_kill_all_recovers_from_a_fork_bomb_that_detached(run):
    async def body(sandbox):
        await sandbox.exec(["sh", "-c", f"setsid python3 -c '{BOMB}' >/dev/null 2>&1 </dev/null &"])
        await asyncio.sleep(1.0)
        refused = await sandbox.exec(["sh", "-c", "true | true"], timeout_s=20)
        assert refused.exit_code != 0  # no process is left to be had, and it says so
        assert await sandbox.kill_all() >= 30
        assert (await sandbox.exec(["echo", "fine"])).stdout == b"fine\n"
        assert await processes(sandbox) == []

    run(body, processes=48)
