"""Images without Python: commands, files and kills by shell, and a clear word where that is not enough."""

from __future__ import annotations

import asyncio
import io
import tarfile

import pytest

from envkit.deadline import Deadline
from envkit.failure import CapabilityError, DeadlineExceeded, EnvkitError, SandboxDied
from envkit.sandbox.base import InsideModule, SandboxSpec
from envkit.sandbox.contract.under_test import members_of, processes, tar_of
from envkit.sandbox.docker import DockerProvider

pytestmark = pytest.mark.docker

SMALL = {"memory_mb": 64, "disk_mb": 16, "side_disk_mb": 4}


@pytest.fixture(scope="module")
def plain(busybox: str) -> DockerProvider:
    return DockerProvider(image=busybox, pull="never")


async def test_commands_in_busybox(plain):
    async with plain.create(SandboxSpec(**SMALL, env={"FOO": "bar"})) as sandbox:
        assert (await sandbox.exec(["sh", "-c", "pwd; echo $FOO; id -u"])).stdout.split() == [
            b"/filesystem",
            b"bar",
            b"1000",
        ]
        assert (await sandbox.exec(["sh", "-c", "exit 7"])).exit_code == 7
        assert (await sandbox.exec(["cat"], stdin=bytes(range(256)) * 4000)).stdout == bytes(range(256)) * 4000
        assert (await sandbox.exec(["cat"])).stdout == b""
        missing = await sandbox.exec(["no-such-command"])
        assert missing.exit_code == 127
        assert b"not found" in missing.stderr
        assert (await sandbox.exec(["true"], cwd="/no/such")).exit_code == 126
        apart = await sandbox.exec(["sh", "-c", "echo out; echo err >&2"])
        assert (apart.stdout, apart.stderr) == (b"out\n", b"err\n")
        assert (await sandbox.exec(["sh", "-c", "echo o; echo e >&2"], merge_stderr=True)).stdout == b"o\ne\n"
        capped = await sandbox.exec(["head", "-c", "3000000", "/dev/zero"], output_cap=10)
        assert (len(capped.stdout), capped.stdout_dropped) == (10, 2_999_990)
        assert not (await sandbox.exec(["touch", "/etc/x"])).ok


async def test_a_timeout_kills_the_tree_without_any_timeout_program(plain):
    async with plain.create(SandboxSpec(**SMALL)) as sandbox:
        result = await sandbox.exec(["sh", "-c", "echo before; setsid sleep 98761 & sleep 98761"], timeout_s=1.0)
        assert (result.timed_out, result.stdout) == (True, b"before\n")
        assert await processes(sandbox, "98761") == 0
        with pytest.raises(DeadlineExceeded):
            await sandbox.exec(["sleep", "98761"], deadline=Deadline.after(0.5))
        await sandbox.exec(["sh", "-c", "env -i setsid sleep 98761 >/dev/null 2>&1 </dev/null &"])
        assert await processes(sandbox, "98761") == 1
        assert await sandbox.kill_all() == 1
        assert await processes(sandbox, "98761") == 0
        assert (await sandbox.exec(["echo", "alive"])).stdout == b"alive\n"


async def test_files_in_busybox(plain):
    async with plain.create(SandboxSpec(**SMALL, max_snapshot_mb=1)) as sandbox:
        await sandbox.upload(
            tar_of(("filesystem/d/f", b"x" * 1000, {"mode": 0o640}), ("filesystem/" + "l" * 150, b"long"))
        )
        assert await sandbox.download("/filesystem/d/f") == b"x" * 1000
        with pytest.raises(FileNotFoundError):
            await sandbox.download("/filesystem/none")
        with pytest.raises(IsADirectoryError):
            await sandbox.download("/filesystem/d")
        with pytest.raises(EnvkitError, match="larger"):
            await sandbox.download("/filesystem/d/f", max_bytes=10)
        found = await members_of(sandbox)
        assert list(found) == [
            ".apps_data",
            "filesystem",
            "filesystem/d",
            "filesystem/d/f",
            "filesystem/" + "l" * 150,
        ] or (found["filesystem/d/f"].content == b"x" * 1000)
        for bad in (("/abs", b"x"), ("../up", b"x")):
            with pytest.raises(EnvkitError):
                await sandbox.upload(tar_of(bad), to="/filesystem/t")
        await sandbox.exec(["ln", "-s", "/tmp", "folder"])
        with pytest.raises(EnvkitError, match="link"):
            await sandbox.upload(tar_of(("folder/x", b"new")), to="/filesystem")
        with pytest.raises(EnvkitError):
            await sandbox.upload(b"not a tar", to="/filesystem")
        await sandbox.exec(["sh", "-c", "head -c 2000000 /dev/zero > big"])
        with pytest.raises(EnvkitError, match="1 MiB"):
            await members_of(sandbox)


async def test_functions_are_refused_with_the_reason(plain, busybox):
    async with plain.create(SandboxSpec(**SMALL)) as sandbox:
        with pytest.raises(CapabilityError, match=f"{busybox} has no python3"):
            await sandbox.call(InsideModule("m", "def f(): return 1"), "f", {})
    told = DockerProvider(image=busybox, python=False)
    assert told.capabilities().python is False


async def test_a_long_lived_process_in_busybox(plain):
    async with plain.create(SandboxSpec(**SMALL)) as sandbox:
        process = await sandbox.spawn(["cat"])
        await process.write(b"hello")
        assert await process.read() == b"hello"
        await process.close_stdin()
        assert await process.read() == b""
        assert await process.wait(Deadline.after(20)) == 0
        with pytest.raises(EnvkitError, match="not found"):
            await sandbox.spawn(["nothing-of-the-kind"])


async def test_death_in_busybox(plain):
    async with plain.create(SandboxSpec(**SMALL)) as sandbox:
        waiting = asyncio.create_task(sandbox.exec(["sleep", "1000"]))
        await asyncio.sleep(1.0)
        await plain.daemon.call("kill", "kill", sandbox.container)
        with pytest.raises(SandboxDied):
            await asyncio.wait_for(waiting, 20)
        with pytest.raises(SandboxDied):
            await sandbox.exec(["true"])
        assert not sandbox.alive


def test_what_comes_out_is_sorted_and_hard_links_are_files() -> None:
    from envkit.sandbox.docker_archive import sorted_archive

    out = io.BytesIO()
    given = tar_of(("./b", b"x"), ("./a", b"", {"type": tarfile.LNKTYPE, "linkname": "./b"}))
    sorted_archive(io.BytesIO(given), out)
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as tar:
        assert [(m.name, tar.extractfile(m).read()) for m in tar] == [("a", b"x"), ("b", b"x")]
