"""code_exec over a real server process: output in order and bounded, the whole tree ended at the deadline."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import pytest_asyncio

from envkit.harnesses.archipelago.servers.code import running

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools(server_starter, tmp_path_factory):
    starter = server_starter(tmp_path_factory.mktemp("world"))
    yield await starter(
        ("filesystem", "code"), env={"CODE_EXEC_COMMAND_TIMEOUT": "20", "SECRET_TOKEN": "x", "LC_ALL": "C.UTF-8"}
    )
    await starter.close()


async def run(tools, code, **options):
    answer = await tools.call("code_exec", {"request": {"code": code}}, **options)
    assert not answer.error, answer.text
    return answer.data["success"], answer.data["output"]


async def test_it_runs_where_the_files_are_and_shows_errors_and_exit_codes(tools):
    (tools.root / "a.txt").write_text("hello")
    assert await run(tools, "pwd; cat a.txt") == (True, f"{tools.root}\nhello")
    success, output = await run(tools, "echo one; echo two >&2; echo three; exit 3")
    assert (success, output) == (False, "one\ntwo\nthree\n[exit code 3]")
    assert await run(tools, "true") == (True, "(no output)")
    assert "(a command was not found)" in (await run(tools, "no-such-command"))[1]
    assert await run(tools, "echo $BASH_VERSION | grep -c .") == (True, "1")


async def test_the_environment_holds_only_what_is_allowed(tools):
    _, output = await run(tools, "env")
    names = {line.partition("=")[0] for line in output.splitlines()}
    assert "PATH" in names
    assert not names & {"SECRET_TOKEN", "PYTHONPATH", "TMPDIR", "CODE_EXEC_COMMAND_TIMEOUT"}


async def test_long_output_keeps_its_beginning_and_end(tools):
    success, output = await run(tools, "seq 1 100000")
    assert success
    assert len(output) < running.MAX_OUTPUT + 500
    assert output.startswith("1\n2\n3\n")
    assert output.endswith("99999\n100000")
    assert "588,895 bytes were printed" in output


async def test_a_long_script_and_strange_bytes(tools):
    filler = "# " + "x" * 200_000
    assert await run(tools, f"{filler}\necho done") == (True, "done")
    assert await run(tools, "printf '\\xff\\x00é'") == (True, "\N{REPLACEMENT CHARACTER}\x00é")


@pytest.mark.slow
async def test_past_its_time_all_of_it_is_ended(tools):
    marker = tools.root / "pids"
    code = f"(setsid sleep 77001 & echo $! >> {marker}); sleep 77002 & echo $! >> {marker}; echo begun; wait"
    success, output = await run(tools, code, timeout_s=2)
    assert not success
    assert output.startswith("begun\n[ended after ")
    assert "with everything it had started" in output
    for pid in marker.read_text().split():
        assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_what_runs_in_the_background_goes_on_and_is_told(tools):
    began = asyncio.get_running_loop().time()
    _, output = await run(tools, "sleep 77003 & echo $!")
    assert asyncio.get_running_loop().time() - began < 15
    pid, note = output.splitlines()
    assert note == "[1 process that it started still runs in the background]"
    assert await run(tools, f"kill {pid}; sleep 0.1; kill -0 {pid} 2>/dev/null || echo gone") == (True, "gone")


@pytest.mark.parametrize(
    "code", ["import os\nprint(os.getcwd())", "print('x')", "for i in [1]:\n  pass", "def f(): return 1"]
)
async def test_python_is_told_how_to_be_run(tools, code):
    answer = await tools.call("code_exec", {"code": code})
    assert answer.error
    assert "python3 - <<'EOF'" in answer.text


@pytest.mark.parametrize(
    "code", ["x=1", "ls", "for i in 1; do echo; done", "if true; then echo; fi", "#!/bin/sh\necho", "pwd; ls"]
)
async def test_bash_is_not_taken_for_python(tools, code):
    assert not running._is_python(code)


async def test_wrong_calls_are_told(tools):
    assert (await tools.call("code_exec", {"code": " "})).error
    answer = await tools.call("code_exec", {"request": {"command": "ls"}})
    assert answer.error
    assert "`code` is required" in answer.text


_TRIES = """
import fcntl, os, signal
tries = (
    lambda: os.pidfd_open({pid}),
    lambda: signal.pidfd_send_signal(os.open("/proc/{pid}", 0), 9),
    lambda: fcntl.fcntl(os.pipe()[0], 10, 9),
)
for attempt in tries:
    try:
        attempt()
    except OSError as error:
        print(error.errno)
"""


async def test_the_server_can_not_be_signalled(tools):
    _, output = await run(
        tools, f"kill -9 {tools.pid}; kill -STOP {tools.pid}; kill -9 -{tools.pid}; kill -9 $PPID; echo on"
    )
    assert output.count("Operation not permitted") == 4
    assert output.endswith("on")
    (tools.root / "try.py").write_text(_TRIES.format(pid=tools.pid))
    assert await run(tools, "python3 try.py") == (True, "1\n38\n1")
    assert not (await tools.call("list_files")).error
