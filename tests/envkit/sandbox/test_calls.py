"""Functions called inside: their values, their failures, their end, and what an agent can do to them."""

from __future__ import annotations

import asyncio

import pytest

from envkit.deadline import Deadline
from envkit.failure import Boundary, DeadlineExceeded, EnvkitError
from envkit.sandbox.base import InsideError, InsideKilled, InsideModule

MODULE = InsideModule(
    "inside_test",
    """
import os, sys, time
loaded = os.getpid()
calls = 0
def echo(value): return value
def where():
    place = {"cwd": os.getcwd(), "uid": os.getuid(), "home": os.environ["HOME"]}
    return {**place, "loaded": loaded, "pid": os.getpid()}
def count():
    global calls
    calls += 1
    return calls
def fail(): raise KeyError("nope")
def leave(): sys.exit(3)
def die(): os.kill(os.getpid(), 9)
def crash():
    import ctypes
    ctypes.string_at(0)
def spin(): time.sleep(1000)
def fork():
    if os.fork() == 0:
        os.setsid(); time.sleep(1000)
    return "parent"
def odd(): return {1: 2}
def unset(): return {1, 2}
def nested():
    value = []
    for _ in range(5000): value = [value]
    return value
def loop():
    value = []; value.append(value); return value
def huge(): return "x" * (70 << 20)
def big(size): return "x" * size
def talk(): print("hello", flush=True); os.write(1, b"garbage"); sys.stderr.write("noise"); return 1
def limits():
    import resource
    return [resource.getrlimit(resource.RLIMIT_NOFILE)[0], resource.getrlimit(resource.RLIMIT_FSIZE)[0]]
def descriptors(): return len(os.listdir("/proc/self/fd"))
""",
)

VALUES = [
    None,
    True,
    False,
    0,
    -1,
    2**62,
    1.5,
    float("inf"),
    "",
    "ü",
    "\udcff",
    b"\x00\xff",
    [],
    [1, [2]],
    {},
    {"a": {"b": [None]}},
]


def test_values_come_back_as_they_went(run):
    async def body(sandbox):
        for value in VALUES:
            assert await sandbox.call(MODULE, "echo", {"value": value}) == value
        assert await sandbox.call(MODULE, "echo", {"value": (1, 2)}) == [1, 2]
        assert len(await sandbox.call(MODULE, "big", {"size": 20 << 20})) == 20 << 20

    run(body)


def test_a_call_runs_as_the_agent_in_a_child_of_its_own(run_as_each):
    async def body(sandbox):
        place = await sandbox.call(MODULE, "where", {})
        assert (place["cwd"], place["uid"], place["home"]) == ("/filesystem", 1000, "/home/agent")
        assert place["loaded"] == 1
        assert place["pid"] != 1
        assert await sandbox.call(MODULE, "count", {}) == 1
        assert await sandbox.call(MODULE, "count", {}) == 1  # nothing stays
        assert await sandbox.call(MODULE, "limits", {}) == [100, 7 << 20]
        assert await sandbox.call(MODULE, "descriptors", {}) == 6  # 0, 1, 2, the status and result pipes, the listing

    run_as_each(body, open_files=100, file_mb=7)


async def test_failures_are_named(sandbox):
    with pytest.raises(InsideError, match="KeyError: 'nope'") as caught:
        await sandbox.call(MODULE, "fail", {})
    assert caught.value.error_type == "KeyError"
    assert "fail" in caught.value.trace
    with pytest.raises(InsideError, match="SystemExit"):
        await sandbox.call(MODULE, "leave", {})
    for function in ("die", "crash"):
        with pytest.raises(InsideKilled, match="SIG") as killed:
            await sandbox.call(MODULE, function, {})
        assert killed.value.boundary is Boundary.POLICY
    with pytest.raises(InsideError, match="no_such"):
        await sandbox.call(MODULE, "no_such", {})
    with pytest.raises(InsideError, match="unexpected keyword"):
        await sandbox.call(MODULE, "echo", {"other": 1})
    assert await sandbox.call(MODULE, "echo", {"value": 1}) == 1


@pytest.mark.parametrize("function", ["odd", "unset", "nested", "loop", "huge"])
async def test_results_that_are_no_values_are_the_modules_failure(sandbox, function):
    with pytest.raises(InsideError):
        await sandbox.call(MODULE, function, {})
    assert await sandbox.call(MODULE, "echo", {"value": 1}) == 1


async def test_what_a_function_prints_does_not_get_into_its_result(sandbox):
    assert await sandbox.call(MODULE, "talk", {}) == 1


async def test_arguments_that_are_no_values_are_refused_here(sandbox):
    with pytest.raises(EnvkitError, match="found set"):
        await sandbox.call(MODULE, "echo", {"value": {1}})
    with pytest.raises(EnvkitError, match="Upload large data"):
        await sandbox.call(MODULE, "echo", {"value": "x" * (20 << 20)})


async def test_a_module_that_does_not_load_says_so_every_time(sandbox):
    for source, error in (
        ("1/0", "ZeroDivisionError"),
        ("def (", "SyntaxError"),
        ("import no_such", "ModuleNotFoundError"),
    ):
        for _ in range(2):
            with pytest.raises(InsideError, match=error):
                await sandbox.call(InsideModule("broken", source), "f", {})
    assert await sandbox.call(InsideModule("broken", "def f(): return 1"), "f", {}) == 1


async def test_a_deadline_kills_the_call_and_what_it_forked(sandbox):
    with pytest.raises(DeadlineExceeded):
        await sandbox.call(MODULE, "spin", {}, deadline=Deadline.after(0.3))
    assert await sandbox.call(MODULE, "echo", {"value": 1}, deadline=Deadline.after(30)) == 1
    with pytest.raises((InsideKilled, DeadlineExceeded)):
        await sandbox.call(MODULE, "fork", {}, deadline=Deadline.after(5))
    ping = await sandbox.ping()
    assert (ping["jobs"], ping["children"]) == (0, 0)
    assert await sandbox.kill_all() == 0


async def test_many_calls_at_once(sandbox):
    values = await asyncio.gather(*(sandbox.call(MODULE, "echo", {"value": n}) for n in range(40)))
    assert values == list(range(40))


async def test_an_agent_can_end_a_call_but_not_answer_for_it(sandbox):
    killer = (
        "import os, signal\n"
        "while True:\n"
        "    for name in os.listdir('/proc'):\n"
        "        if name.isdigit() and int(name) not in (1, os.getpid(), os.getppid()):\n"
        "            for fd in (1, 3):\n"
        "                try: os.write(os.open(f'/proc/{name}/fd/{fd}', os.O_WRONLY), b'i' + bytes(7) + bytes([7]))\n"
        "                except OSError: pass\n"
        "            try: os.kill(int(name), signal.SIGKILL)\n"
        "            except OSError: pass\n"
    )
    process = await sandbox.spawn(["python3", "-c", killer])
    await asyncio.sleep(0.3)
    outcomes = set()
    for _ in range(30):
        try:
            assert await sandbox.call(MODULE, "echo", {"value": "true"}) == "true"
            outcomes.add("answered")
        except InsideKilled:
            outcomes.add("killed")
    assert outcomes <= {"answered", "killed"}
    await process.kill()
    assert await sandbox.call(MODULE, "echo", {"value": 1}) == 1
