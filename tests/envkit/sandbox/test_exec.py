"""Commands: exit codes, streams, environment, caps and their order."""

from __future__ import annotations

import asyncio
import signal

import pytest

from envkit.deadline import Deadline
from envkit.failure import CapabilityError, DeadlineExceeded
from envkit.sandbox.base import SandboxSpec


def test_exit_codes_and_signals_are_reported(run_as_each):
    async def body(sandbox):
        assert (await sandbox.exec(["true"])).exit_code == 0
        assert (await sandbox.exec(["sh", "-c", "exit 42"])).exit_code == 42
        assert (await sandbox.exec(["sh", "-c", "kill -TERM $$"])).exit_code == -signal.SIGTERM
        assert (await sandbox.exec(["sh", "-c", "kill -KILL $$"])).exit_code == -signal.SIGKILL
        assert (await sandbox.exec(["python3", "-c", "import os; os.abort()"])).exit_code == -signal.SIGABRT

    run_as_each(body)


def test_a_command_that_cant_be_started_is_a_result_with_the_reason(run):
    async def body(sandbox):
        missing = await sandbox.exec(["no-such-command"])
        assert (missing.exit_code, missing.stderr) == (127, b"no-such-command: command not found\n")
        assert (await sandbox.exec(["/no/such/file"])).exit_code == 127
        denied = await sandbox.exec(["/etc/passwd"])
        assert denied.exit_code == 126
        assert b"Permission denied" in denied.stderr
        nowhere = await sandbox.exec(["true"], cwd="/no/such/folder")
        assert nowhere.exit_code == 126
        assert b"/no/such/folder" in nowhere.stderr
        merged = await sandbox.exec(["no-such-command"], merge_stderr=True)
        assert b"not found" in merged.stdout
        assert (await sandbox.exec(["true", "a\0b"])).exit_code == 126
        assert (await sandbox.exec(["true"], cwd="/a\0b")).exit_code == 126

    run(body)


def test_a_script_without_an_interpreter_line_runs_under_sh(run):
    async def body(sandbox):
        await sandbox.exec(["sh", "-c", "printf 'echo script $1' > s; chmod +x s"])
        assert (await sandbox.exec(["./s", "ran"])).stdout == b"script ran\n"

    run(body)


def test_stdin_cwd_and_environment(run):
    async def body(sandbox):
        assert (await sandbox.exec(["cat"], stdin=b"a\0b" * 1000)).stdout == b"a\0b" * 1000
        assert (await sandbox.exec(["cat"])).stdout == b""
        assert (await sandbox.exec(["cat"], stdin=b"")).stdout == b""
        assert (await sandbox.exec(["pwd"])).stdout == b"/filesystem\n"
        assert (await sandbox.exec(["pwd"], cwd="/tmp")).stdout == b"/tmp\n"
        shown = await sandbox.exec(["sh", "-c", "echo $FOO $BAR $HOME $LANG"], env={"FOO": "1", "HOME": "/tmp"})
        assert shown.stdout == b"1 spec /tmp C.UTF-8\n"

    run(body, env={"BAR": "spec"})


@pytest.mark.parametrize("workdir", ["/filesystem/deeper/place", "/elsewhere/space"])
async def test_another_working_directory_is_made(provider, workdir):
    async with provider.create(SandboxSpec(workdir=workdir)) as sandbox:
        assert (await sandbox.exec(["pwd"])).stdout.decode() == f"{workdir}\n"
        assert (await sandbox.exec(["touch", "x"])).ok


def test_stdin_larger_than_every_buffer_and_a_command_that_ignores_it(run):
    async def body(sandbox):
        data = bytes(range(256)) * (40 << 10)  # 10 MiB
        summed = await sandbox.exec(["sh", "-c", "wc -c"], stdin=data)
        assert int(summed.stdout) == len(data)
        ignored = await sandbox.exec(["true"], stdin=data)
        assert ignored.exit_code == 0

    run(body)


def test_output_beyond_the_cap_is_counted_from_either_end(run):
    async def body(sandbox):
        command = ["python3", "-c", "import sys; sys.stdout.write('a' * 10 + 'b' * 99980 + 'c' * 10)"]
        head = await sandbox.exec(command, output_cap=20)
        assert (head.stdout, head.stdout_dropped) == (b"a" * 10 + b"b" * 10, 99980)
        tail = await sandbox.exec(command, output_cap=20, keep="tail")
        assert (tail.stdout, tail.stdout_dropped) == (b"b" * 10 + b"c" * 10, 99980)
        exact = await sandbox.exec(command, output_cap=100000)
        assert (len(exact.stdout), exact.stdout_dropped) == (100000, 0)
        none = await sandbox.exec(command, output_cap=0)
        assert (none.stdout, none.stdout_dropped) == (b"", 100000)

    run(body)


def test_a_hundred_mebibytes_neither_block_nor_vanish_unannounced(run):
    async def body(sandbox):
        size = 100 << 20
        result = await sandbox.exec(["head", "-c", str(size), "/dev/zero"], output_cap=1000)
        assert result.ok
        assert len(result.stdout) + result.stdout_dropped == size
        large = await sandbox.exec(["sh", "-c", f"head -c {20 << 20} /dev/zero >&2"], output_cap=32 << 20)
        assert (len(large.stderr), large.stderr_dropped) == (20 << 20, 0)

    run(body)


def test_merged_output_keeps_its_order(run):
    async def body(sandbox):
        script = "for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done"
        merged = await sandbox.exec(["sh", "-c", script], merge_stderr=True)
        assert merged.stdout.split() == [f"{name}{i}".encode() for i in range(1, 6) for name in ("out", "err")]
        assert merged.stderr == b""
        apart = await sandbox.exec(["sh", "-c", script])
        assert (apart.stdout.count(b"out"), apart.stderr.count(b"err")) == (5, 5)

    run(body)


def test_argv_survives_as_it_is(run):
    async def body(sandbox):
        words = ["", " ", "*", "$HOME", "ü", "a\nb", "\udcff", "--", "x" * 100_000]
        shown = await sandbox.exec(["printf", "%s|", *words])
        assert shown.stdout == b"|".join(w.encode("utf-8", "surrogateescape") for w in words) + b"|"

    run(body)


def test_a_command_inherits_no_descriptor_and_no_signal_setting(run_as_each):
    async def body(sandbox):
        listed = await sandbox.exec(["sh", "-c", "ls -l /proc/self/fd"])
        assert len([line for line in listed.stdout.splitlines() if b"->" in line]) == 4  # 0, 1, 2 and ls's own
        status = (await sandbox.exec(["grep", "-E", "^Sig(Blk|Ign)|NoNewPrivs|CapEff", "/proc/self/status"])).stdout
        fields = dict(line.split(b":\t") for line in status.splitlines())
        assert int(fields[b"SigBlk"], 16) == 0
        assert int(fields[b"SigIgn"], 16) & ~(3 << 31) == 0  # 32 and 33 belong to the C library
        assert int(fields[b"CapEff"], 16) == 0
        assert fields[b"NoNewPrivs"] == b"1"

    run_as_each(body)


def test_twenty_commands_at_once_do_not_mix(run):
    async def body(sandbox):
        results = await asyncio.gather(
            *(
                sandbox.exec(["sh", "-c", "cat; echo $N; sleep 0.1"], stdin=b"%d-" % n, env={"N": str(n)})
                for n in range(20)
            )
        )
        assert [r.stdout for r in results] == [b"%d-%d\n" % (n, n) for n in range(20)]

    run(body)


async def test_bad_arguments_are_refused_before_anything_runs(sandbox):
    with pytest.raises(ValueError, match="argv"):
        await sandbox.exec("ls -l")
    with pytest.raises(ValueError, match="argv"):
        await sandbox.exec([])
    with pytest.raises(CapabilityError, match="agent"):
        await sandbox.exec(["true"], user="root")
    with pytest.raises(DeadlineExceeded):
        await sandbox.exec(["true"], deadline=Deadline.after(-1))


async def test_a_spawned_process_has_streams_and_back_pressure(sandbox):
    echo = await sandbox.spawn(["cat"])
    await echo.write(b"hello")
    assert await echo.read() == b"hello"
    await echo.close_stdin()
    assert await echo.read() == b""
    assert await echo.wait() == 0

    flood = await sandbox.spawn(["sh", "-c", "yes | head -c 50000000; echo done >&2"])
    await asyncio.sleep(0.3)
    assert flood.stderr_tail == b""  # it is blocked: nobody reads
    total = 0
    while piece := await flood.read():
        total += len(piece)
    assert total == 50_000_000
    assert await flood.wait() == 0
    assert flood.stderr_tail == b"done\n"


async def test_a_spawned_process_that_floods_stderr_is_kept_to_its_tail(sandbox):
    process = await sandbox.spawn(["sh", "-c", "head -c 10000000 /dev/zero >&2; echo end >&2"])
    assert await process.read() == b""
    assert await process.wait() == 0
    assert len(process.stderr_tail) == 65536
    assert process.stderr_tail.endswith(b"end\n")


async def test_a_spawned_process_that_cant_start_says_why(sandbox):
    with pytest.raises(Exception, match="command not found"):
        await sandbox.spawn(["no-such-command"])


async def test_waiting_for_a_process_ends_with_the_deadline_and_kill_takes_all(sandbox):
    process = await sandbox.spawn(["sh", "-c", "setsid sleep 1000 & sleep 1000"])
    with pytest.raises(DeadlineExceeded):
        await process.wait(Deadline.after(0.1))
    await process.kill()
    assert await process.wait() == -9
    assert (await sandbox.ping())["children"] == 0
