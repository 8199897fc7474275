"""The unisolated provider: the same protocol, in a folder, and nothing of it left afterwards."""

from __future__ import annotations

import io
import tarfile
import warnings

import pytest

from envkit.failure import CapabilityError
from envkit.sandbox.base import InsideModule, SandboxSpec
from envkit.sandbox.host import HostProvider, UnisolatedWarning


@pytest.fixture
def host() -> HostProvider:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnisolatedWarning)
        return HostProvider()


def test_it_warns():
    with pytest.warns(UnisolatedWarning, match="isolates nothing"):
        HostProvider()


async def test_the_protocol_works_in_a_folder(host):
    async with host.create(SandboxSpec()) as sandbox:
        root = sandbox.root
        assert (await sandbox.exec(["pwd"])).stdout.decode().strip() == f"{root}/filesystem"
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            info = tarfile.TarInfo("filesystem/a/b")
            info.size = 3
            tar.addfile(info, io.BytesIO(b"abc"))
        await sandbox.upload(out.getvalue())
        assert (await sandbox.exec(["cat", "a/b"])).stdout == b"abc"
        assert await sandbox.download("/filesystem/a/b") == b"abc"
        data = b"".join([piece async for piece in sandbox.snapshot()])
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            names = tar.getnames()
        assert names == ["filesystem", "filesystem/a", "filesystem/a/b", ".apps_data"]
        module = InsideModule("m", "import os\ndef f(x): return [x, os.getcwd()]")
        assert await sandbox.call(module, "f", {"x": 1}) == [1, f"{root}/filesystem"]
        with pytest.raises(FileNotFoundError):
            await sandbox.download("/etc/passwd")  # a path of the protocol lies in the folder
        timed = await sandbox.exec(["sh", "-c", "setsid sleep 1000 & sleep 1000"], timeout_s=0.3)
        assert timed.timed_out
        await sandbox.exec(
            ["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null & mkdir -p locked/x; chmod 0 locked"]
        )
        assert await sandbox.kill_all() == 1
        await sandbox.exec(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null &"])
    assert not root.exists()


async def test_it_refuses_what_it_can_not_do_honestly(host):
    with pytest.raises(CapabilityError):
        host.check(SandboxSpec(image="x"))
    with pytest.raises(CapabilityError):
        host.check(SandboxSpec(sockets={"/run/x": "/tmp/x"}))
    assert not host.capabilities().isolated
