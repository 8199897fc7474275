"""Limits are enforced, and running into one leaves the sandbox alive."""

from __future__ import annotations

import os
import time

import pytest

from envkit.sandbox import cgroup
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="cgroups need root")


@needs_root
async def test_a_memory_bomb_is_killed_and_named(provider):
    spec = SandboxSpec(memory_mb=64, disk_mb=8, side_disk_mb=4)
    async with provider.create(spec) as sandbox:
        bomb = "data = []\nwhile True: data.append(bytearray(1 << 20))"
        result = await sandbox.exec(["python3", "-c", bomb], timeout_s=60)
        assert result.exit_code == -9
        assert result.oom_killed
        calm = await sandbox.exec(["echo", "alive"])
        assert (calm.stdout, calm.oom_killed) == (b"alive\n", False)


@pytest.mark.slow
@needs_root
async def test_memory_in_many_processes_is_bounded_too(provider):
    spec = SandboxSpec(memory_mb=64, disk_mb=8, side_disk_mb=4)
    async with provider.create(spec) as sandbox:
        eat = "import os, time\nfor _ in range(20): os.fork() or (bytearray(40 << 20), time.sleep(1000))"
        result = await sandbox.exec(["python3", "-c", eat + "\ntime.sleep(3)"], timeout_s=6)
        assert result.oom_killed
        assert await sandbox.kill_all() >= 0
        assert (await sandbox.exec(["true"])).ok


@needs_root
async def test_root_without_cgroups_falls_back_to_rlimits():
    provider = LocalProvider(office=False)
    provider._layout = cgroup.Layout()
    assert provider.capabilities().limits == {"disk", "file", "processes"}
    async with provider.create(SandboxSpec(memory_mb=128, processes=30)) as sandbox:
        result = await sandbox.exec(["python3", "-c", "bytearray(400 << 20)"])
        assert b"MemoryError" in result.stderr
        bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
        assert (await sandbox.exec(["python3", "-c", bomb], timeout_s=0.5)).timed_out
        assert (await sandbox.exec(["true"])).ok


def test_without_cgroups_one_process_still_can_not_take_more(run_as_each):
    async def body(sandbox):
        result = await sandbox.exec(["python3", "-c", "bytearray(400 << 20)"])
        if os.geteuid() != 0:
            assert b"MemoryError" in result.stderr
        else:
            assert result.exit_code == -9
        assert (await sandbox.exec(["python3", "-c", "bytearray(50 << 20)"])).ok

    run_as_each(body, memory_mb=128, disk_mb=8, side_disk_mb=4)


def test_a_full_disk_is_an_error_and_nothing_else(run_as_each):
    async def body(sandbox):
        for place in ("/filesystem", "/.apps_data", "/tmp", "/home/agent", "/logs", "/dev/shm"):
            full = await sandbox.exec(["dd", "if=/dev/zero", f"of={place}/full", "bs=1M"], merge_stderr=True)
            assert full.exit_code == 1
            assert b"No space left on device" in full.stdout
            assert not full.oom_killed
        assert (await sandbox.exec(["echo", "alive"])).stdout == b"alive\n"
        eat = await sandbox.exec(["python3", "-c", "x = bytearray(40 << 20); print(len(x))"])
        assert eat.ok  # the disks did not take the memory

    run_as_each(body, disk_mb=20, side_disk_mb=10, memory_mb=64)


def test_a_file_beyond_its_limit_is_refused(run_as_each):
    async def body(sandbox):
        write = (
            "f = open('big', 'wb')\ntry:\n    f.write(bytes(6 << 20)); f.flush()\nexcept OSError as e: print(e.errno)"
        )
        assert (await sandbox.exec(["python3", "-c", write])).stdout == b"27\n"  # EFBIG
        grow = await sandbox.exec(["truncate", "-s", "6M", "sparse"])
        assert not grow.ok
        assert (await sandbox.exec(["dd", "if=/dev/zero", "of=ok", "bs=1M", "count=4"])).ok

    run_as_each(body, file_mb=5)


def test_open_files_and_core_dumps(run):
    async def body(sandbox):
        shown = await sandbox.exec(["sh", "-c", "ulimit -n; ulimit -Hn; ulimit -c"])
        assert shown.stdout.split() == [b"64", b"64", b"0"]

    run(body, open_files=64)


def test_processes_are_limited(run_as_each):
    async def body(sandbox):
        script = (
            "import os, time\nn = 0\ntry:\n    while True:\n        n += 1\n        os.fork() or time.sleep(1000)\n"
        )
        script += "except OSError: print(n)\n"
        result = await sandbox.exec(["python3", "-c", script], timeout_s=1.5)
        assert result.timed_out  # its children hold the output
        assert 20 <= int(result.stdout) <= 40

    run_as_each(body, processes=40)


@needs_root
async def test_cpu_is_limited_roughly(provider):
    async with provider.create(SandboxSpec(cpus=0.25)) as sandbox:
        burn = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
        began = time.monotonic()
        result = await sandbox.exec(["python3", "-c", burn])
        used = float(result.stdout)
        assert used / (time.monotonic() - began) < 0.45


@pytest.mark.slow
@needs_root
async def test_the_supervisor_answers_while_the_agent_burns_its_quota(provider):
    async with provider.create(SandboxSpec(cpus=0.5, processes=64)) as sandbox:
        await sandbox.exec(["sh", "-c", "for i in 1 2 3 4; do (while :; do :; done) >/dev/null 2>&1 & done"])
        began = time.monotonic()
        await sandbox.ping()
        assert time.monotonic() - began < 2.0
        assert await sandbox.kill_all() >= 4


@pytest.mark.slow
async def test_many_small_files_count_as_memory_and_do_not_hurt_the_supervisor(provider):
    async with provider.create(SandboxSpec(memory_mb=64, disk_mb=8, side_disk_mb=4)) as sandbox:
        script = "import os\ntry:\n    for i in range(10**6): os.mkdir(str(i))\nexcept OSError as e: print(e.errno)"
        await sandbox.exec(["python3", "-c", script], timeout_s=5)
        await sandbox.kill_all()
        assert (await sandbox.ping())["ok"]
