"""The contract of limits: enforced, survived, and told apart; and of isolation."""

from __future__ import annotations

import socket

import pytest

from envkit.failure import UserError
from envkit.sandbox.contract.under_test import Contract, behaviour


@behaviour
async def test_a_memory_bomb_is_killed_and_named(contract: Contract) -> None:
    contract.needs(limit="memory", python=True)
    async with contract.create(memory_mb=64, disk_mb=8, side_disk_mb=4) as sandbox:
        bomb = "data = []\nwhile True: data.append(bytearray(1 << 20))"
        result = await sandbox.exec(["python3", "-c", bomb], timeout_s=80)
        assert result.exit_code == -9
        assert result.oom_killed
        calm = await sandbox.exec(["echo", "alive"])
        assert (calm.stdout, calm.oom_killed) == (b"alive\n", False)


@behaviour
async def test_a_full_disk_is_an_error_and_nothing_else(contract: Contract) -> None:
    contract.needs(limit="disk")
    async with contract.create(disk_mb=8, side_disk_mb=4) as sandbox:
        for place in ("/filesystem", "/.apps_data", "/tmp", "/home/agent", "/dev/shm"):
            full = await sandbox.exec(["dd", "if=/dev/zero", f"of={place}/full", "bs=1M"], merge_stderr=True)
            assert not full.ok, place
            assert b"No space left on device" in full.stdout
            assert not full.oom_killed
        assert (await sandbox.exec(["echo", "alive"])).stdout == b"alive\n"


@behaviour
async def test_a_file_beyond_its_limit_is_refused(contract: Contract) -> None:
    contract.needs(limit="file", python=True)
    async with contract.create(file_mb=2) as sandbox:
        assert not (await sandbox.exec(["dd", "if=/dev/zero", "of=big", "bs=1M", "count=4"])).ok
        assert (await sandbox.exec(["dd", "if=/dev/zero", "of=small", "bs=1M", "count=1"])).ok


@behaviour
async def test_processes_are_limited_and_a_fork_bomb_is_survived(contract: Contract) -> None:
    contract.needs(limit="processes", python=True)
    async with contract.create(processes=40) as sandbox:
        bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
        result = await sandbox.exec(["python3", "-c", bomb], timeout_s=2.0)
        assert result.timed_out
        assert (await sandbox.exec(["echo", "fine"])).stdout == b"fine\n"


@behaviour
async def test_kill_all_ends_a_fork_bomb_that_detached(contract: Contract) -> None:
    contract.needs(limit="processes", python=True)
    async with contract.create(processes=40) as sandbox:
        bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
        await sandbox.exec(["sh", "-c", f"setsid python3 -c '{bomb}' >/dev/null 2>&1 </dev/null & sleep 1"])
        refused = await sandbox.exec(["sh", "-c", "sleep 0 | sleep 0"], timeout_s=20)
        assert refused.exit_code != 0  # no process is left to be had, which is a result
        assert await sandbox.kill_all() >= 20
        assert (await sandbox.exec(["echo", "fine"])).stdout == b"fine\n"


@behaviour
async def test_open_files_and_core_dumps_are_limited(contract: Contract) -> None:
    contract.needs(python=True, isolated=True)
    async with contract.create(open_files=64) as sandbox:
        assert (await sandbox.exec(["sh", "-c", "ulimit -n; ulimit -c"])).stdout.split() == [b"64", b"0"]


@behaviour
async def test_cpu_is_limited_roughly(contract: Contract) -> None:
    contract.needs(limit="cpu", python=True)
    async with contract.create(cpus=0.25) as sandbox:
        burn = (
            "import time\nt = time.monotonic()\nwhile time.monotonic() - t < 2: pass\n"
            "print(time.process_time() / (time.monotonic() - t))"
        )
        assert float((await sandbox.exec(["python3", "-c", burn])).stdout) < 0.5


@behaviour
async def test_there_is_no_network(contract: Contract) -> None:
    contract.needs(isolated=True)
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        async with contract.create() as sandbox:
            devices = (await sandbox.exec(["cat", "/proc/net/dev"])).stdout.splitlines()[2:]
            assert [line.split(b":")[0].strip() for line in devices] == [b"lo"]
            if contract.can.python:
                port = listener.getsockname()[1]
                probe = f"import socket; socket.create_connection(('127.0.0.1', {port}), 3)"
                assert not (await sandbox.exec(["python3", "-c", probe])).ok
    finally:
        listener.close()


@behaviour
async def test_no_privilege_can_be_had(contract: Contract) -> None:
    contract.needs(isolated=True)
    async with contract.create() as sandbox:
        for attack in ("mount -t tmpfs x /tmp", "unshare -Ur true", "chroot / true", "mknod /tmp/d b 8 0"):
            assert not (await sandbox.exec(["sh", "-c", attack])).ok, attack


@behaviour
async def test_the_supervisor_can_be_neither_read_nor_slowed(contract: Contract) -> None:
    contract.needs(python=True, isolated=True)
    probe = (
        "import os, resource\n"
        "def tried(f, *a):\n"
        "    try: f(*a); return 'DONE'\n"
        "    except OSError: return 'refused'\n"
        "print(tried(lambda: open('/proc/1/mem', 'rb')), tried(os.listdir, '/proc/1/fd'),\n"
        "  tried(resource.prlimit, 1, resource.RLIMIT_CPU, (1, 1)), tried(os.setpriority, os.PRIO_PROCESS, 1, 19),\n"
        "  tried(os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0)))\n"
    )
    async with contract.create() as sandbox:
        assert (await sandbox.exec(["python3", "-c", probe])).stdout.split() == [b"refused"] * 5


@behaviour
async def test_sandboxes_do_not_see_each_other(contract: Contract) -> None:
    contract.needs(isolated=True)
    async with contract.create() as one, contract.create() as two:
        await one.exec(["sh", "-c", "echo secret > /tmp/x; setsid sleep 54321 >/dev/null 2>&1 </dev/null &"])
        assert b"54321" not in (await two.exec(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"])).stdout
        assert not (await two.exec(["cat", "/tmp/x"])).ok


@behaviour
async def test_paths_that_are_not_plain_are_refused(contract: Contract) -> None:
    contract.needs(isolated=True)
    for path in ("relative", "/tmp/../etc", "/"):
        with pytest.raises(UserError):
            contract.provider.check(contract.spec(writable=(path,)))


@behaviour
async def test_networks_that_it_does_not_have_are_refused(contract: Contract) -> None:
    for network in ("public", "allowlist"):
        if network not in contract.can.networks:
            with pytest.raises(UserError):
                contract.provider.check(contract.spec(network=network))
