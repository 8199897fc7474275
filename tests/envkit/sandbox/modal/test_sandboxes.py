"""Sandboxes at our fake of Modal: what is asked of the service, what is inside, and that nothing is left."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from modal_proto import api_pb2

from envkit.failure import CapabilityError, UserError
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.modal import ModalProvider


def _provider(**options: Any) -> ModalProvider:
    return ModalProvider(**{"image": "python:3.11-slim-bookworm", **options})


async def test_what_is_asked_of_the_service(fake: Any) -> None:
    labels = {"run": "r1", "trial": "t/1", "expires_at": str(time.time() + 1000)}
    spec = SandboxSpec(cpus=0.5, memory_mb=700, labels=labels)
    async with _provider(region="eu-west", cloud="aws").create(spec) as sandbox:
        box = fake.box(sandbox.sandbox_id)
        definition = box.definition
        assert definition.network_access.network_access_type == api_pb2.NetworkAccess.BLOCKED
        assert (definition.resources.milli_cpu, definition.resources.milli_cpu_max) == (500, 500)
        assert (definition.resources.memory_mb, definition.resources.memory_mb_max) == (700, 956)
        assert 1000 < definition.timeout_secs <= 1060
        assert definition.idle_timeout_secs == 60
        assert list(definition.scheduler_placement.regions) == ["eu-west"]
        assert definition.cloud_provider_str == "aws"
        assert not definition.secret_ids
        assert box.tags["envkit"] == "sandbox"
        assert box.tags["envkit_run"] == "r1"
        assert box.tags["envkit_trial"] == "t/1"
        assert box.tags["envkit_owner_pid"] == str(os.getpid())
        assert box.tags["envkit_expires_at"] == labels["expires_at"]
        assert box.tags["envkit_id"] == sandbox.id == definition.name
    assert fake.living() == []


async def test_a_sandbox_lives_no_longer_than_it_may(fake: Any) -> None:
    for labels, expected in (({}, 7200), ({"expires_at": "nonsense"}, 7200), ({"expires_at": "5"}, 60)):
        async with _provider(lifetime_s=7200).create(SandboxSpec(labels=labels)) as sandbox:
            assert fake.box(sandbox.sandbox_id).definition.timeout_secs == expected


async def test_who_and_where_a_command_is(fake: Any) -> None:
    async with _provider().create(SandboxSpec(env={"MINE": "1"})) as sandbox:
        found = await sandbox.exec(
            ["sh", "-c", "id -u; id -un; pwd; echo $HOME $FROM_IMAGE $MINE; env; touch /x; ls -ld /"]
        )
        lines = found.stdout.decode().splitlines()
        assert lines[:4] == ["1000", "agent", "/filesystem", "/home/agent yes 1"]
        assert not [line for line in lines if line.startswith("MODAL_")]
        assert b"/x" in found.stderr  # the root is root's
        asked = await sandbox.exec(
            ["sh", "-c", "tr '\\0' ' ' </proc/[0-9]*/cmdline; grep -h NoNewPrivs /proc/self/status"]
        )
        assert b"expires" not in asked.stdout
        assert b"NoNewPrivs:\t1" in asked.stdout


async def test_root_inside_is_asked_for_by_name(fake: Any) -> None:
    provider = _provider(user="0:0")
    assert not provider.capabilities().isolated
    async with provider.create(SandboxSpec()) as sandbox:
        assert (await sandbox.exec(["id", "-u"])).stdout == b"0\n"


async def test_folders_of_the_host_are_roots_inside(fake: Any, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("read me")
    (tmp_path / "private").chmod(0o600)
    (tmp_path / "link").symlink_to("private")
    async with _provider().create(SandboxSpec(readonly={"/opt/brought": str(tmp_path)})) as sandbox:
        shown = await sandbox.exec(
            ["sh", "-c", "cat /opt/brought/link; echo x > /opt/brought/private; rm -f /opt/brought/link"]
        )
        assert shown.stdout == b"read me"
        assert not shown.ok
        assert (await sandbox.exec(["cat", "/opt/brought/private"])).stdout == b"read me"


async def test_an_image_without_python_is_refused_with_the_remedy(fake: Any) -> None:
    fake.without_python = True
    with pytest.raises(CapabilityError, match="add_python"):
        await _provider().create(SandboxSpec()).start()
    assert fake.living() == []


async def _serve(path: str) -> asyncio.Server:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    return await asyncio.start_unix_server(echo, path)


_TALK = """
import socket, sys, threading
sizes = [int(size) for size in sys.argv[2:]]
def one(size):
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
    def feed():
        for _ in range(size // 65536): s.sendall(bytes(65536))
        s.sendall(bytes(size % 65536)); s.shutdown(socket.SHUT_WR)
    threading.Thread(target=feed).start()
    got = 0
    while data := s.recv(65536): got += len(data)
    print(got == size)
threads = [threading.Thread(target=one, args=(size,)) for size in sizes]
for t in threads: t.start()
for t in threads: t.join()
"""


async def test_sockets_of_the_host_are_reached_through_the_tunnel(fake: Any, tmp_path: Path) -> None:
    server = await _serve(str(tmp_path / "s"))
    spec = SandboxSpec(sockets={"/run/host/echo.sock": str(tmp_path / "s"), "/run/later.sock": str(tmp_path / "later")})
    async with _provider().create(spec) as sandbox:
        talk = ["python3", "-c", _TALK, "/run/host/echo.sock"]
        sizes = ["0", "1", "65536", "3000000", "3000000", "77"]
        assert (await sandbox.exec([*talk, *sizes], timeout_s=60)).stdout.split() == [b"True"] * len(sizes)
        refused = await sandbox.exec(["python3", "-c", _TALK, "/run/later.sock", "5"], timeout_s=30)
        assert b"False" in refused.stdout or not refused.ok
        later = await _serve(str(tmp_path / "later"))
        assert (await sandbox.exec(["python3", "-c", _TALK, "/run/later.sock", "5"], timeout_s=30)).stdout == b"True\n"
        await sandbox.kill_all()
        assert (await sandbox.exec([*talk, "9"], timeout_s=30)).stdout == b"True\n"  # out of the agent's reach
        later.close()
    server.close()
    assert fake.living() == []


_FETCH = (
    "import sys, urllib.request\n"
    "try: print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())\n"
    "except OSError as e: print(type(e).__name__, e)\n"
)


async def test_only_listed_hosts_are_reached(fake: Any) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nthru")
        await writer.drain()
        writer.close()

    servers = [await asyncio.start_server(serve, "127.0.0.1", 0) for _ in range(2)]
    listed, other = (server.sockets[0].getsockname()[1] for server in servers)
    spec = SandboxSpec(
        network="allowlist", allowed_hosts=(f"127.0.0.1:{listed}",), env={"NO_PROXY": "", "no_proxy": ""}
    )
    async with _provider().create(spec) as sandbox:
        assert (
            fake.box(sandbox.sandbox_id).definition.network_access.network_access_type == api_pb2.NetworkAccess.BLOCKED
        )
        assert (await sandbox.exec(["python3", "-c", _FETCH, f"http://127.0.0.1:{listed}/"])).stdout == b"thru\n"
        assert b"403" in (await sandbox.exec(["python3", "-c", _FETCH, f"http://127.0.0.1:{other}/"])).stdout
        direct = f"import socket; socket.create_connection(('127.0.0.1', {listed}), 3)"
        assert not (await sandbox.exec(["python3", "-c", direct])).ok
    for server in servers:
        server.close()


def test_what_cant_be_is_refused_before_anything_starts(fake: Any, tmp_path: Path) -> None:
    provider = _provider()
    (tmp_path / "file").touch()
    for wrong in (
        SandboxSpec(network="allowlist", allowed_hosts=("*",)),
        SandboxSpec(readonly={"/opt/x": str(tmp_path / "file")}),
        SandboxSpec(sockets={"/run/x": str(tmp_path / "file")}),
        SandboxSpec(sockets={"/run/x": "/no/such/folder/x.sock"}),
    ):
        with pytest.raises(UserError):
            provider.check(wrong)
    for options in ({"user": "agent"}, {"lifetime_s": 5}, {"silence_s": 1}):
        with pytest.raises(UserError):
            _provider(**options)
    assert fake.living() == []


def test_no_credentials(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MODAL_TOKEN_ID")
    provider = _provider()
    with pytest.raises(CapabilityError, match="modal token new"):
        provider.check(SandboxSpec())
    report = provider.doctor()
    assert not report.usable
    assert "modal token new" in str(report.remedy)
    before = sum(fake.calls.values())
    assert provider.collect() == []
    assert sum(fake.calls.values()) == before


@pytest.mark.slow
def test_doctor_and_collect_leave_no_thread_behind(fake: Any) -> None:
    """Whoever collects garbage forks trials: it must not have the SDK's threads."""
    script = """
        import sys, threading
        from envkit.sandbox.modal import ModalProvider
        provider = ModalProvider()
        assert provider.doctor().usable, provider.doctor()
        assert provider.collect() == []
        print(threading.active_count(), len(list(__import__("os").scandir("/proc/self/task"))))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["1", "1"], done.stderr


@pytest.mark.slow
async def test_what_has_no_tag_of_ours_is_never_touched(fake: Any) -> None:
    import modal

    from envkit.sandbox.modal_client import client

    provider = _provider(app="shared")
    made = await client()
    app = await modal.App.lookup.aio("shared", client=made, create_if_missing=True)
    image = await modal.Image.from_registry("x").build.aio(app)
    strangers = []
    for tags in (None, {"envkit": "sandbox"}, {"envkit_owner_pid": "1"}):
        strangers.append(await modal.Sandbox.create.aio("sleep", "1000", app=app, image=image, tags=tags, client=made))
    dead = {
        "envkit": "sandbox",
        "envkit_id": "envkit-x",
        "envkit_owner_pid": "1",
        "envkit_owner_start": "1",
        "envkit_boot": "another",
        "envkit_machine": "another",
        "envkit_run": "r",
        "envkit_expires_at": "5",
    }
    ours = [
        await modal.Sandbox.create.aio("sleep", "1000", app=app, image=image, tags=tags, client=made)
        for tags in ([dead] * 5 + [{**dead, "envkit_expires_at": str(time.time() + 100)}])
    ]
    alive = ours.pop()
    would = await asyncio.to_thread(lambda: provider.collect(dry_run=True))
    assert len(would) == 5  # more than a page
    assert all("run r" in line for line in would)
    assert len(await asyncio.to_thread(provider.collect)) == 5
    assert sorted(fake.living()) == sorted(sandbox.object_id for sandbox in [*strangers, alive])
    for sandbox in [*strangers, alive]:
        await sandbox.terminate.aio()


@pytest.mark.slow
def test_a_forked_process_makes_a_client_of_its_own(fake: Any) -> None:
    script = """
        import asyncio, os, sys
        from envkit.sandbox.base import SandboxSpec
        from envkit.sandbox.modal import ModalProvider
        async def one(provider):
            async with provider.create(SandboxSpec()) as sandbox:
                return (await sandbox.exec(["echo", "fine"])).stdout
        provider = ModalProvider(image="python:3.11")
        assert asyncio.run(one(provider)) == b"fine\\n"
        pid = os.fork()
        if pid == 0:
            try:
                ok = asyncio.run(one(provider)) == b"fine\\n"
            except BaseException:
                import traceback; traceback.print_exc(); ok = False
            os._exit(0 if ok else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert asyncio.run(one(provider)) == b"fine\\n"
        print("done")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=100)
    assert done.stdout == "done\n", done.stderr
    assert fake.living() == []
