"""What is Docker's own: the container's hardening, mounts, seeds from the image, death, labels, remote daemons."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from envkit.failure import CapabilityError, EnvkitError, FailureKind, SandboxDied, UserError
from envkit.sandbox.base import InsideModule, SandboxSpec
from envkit.sandbox.docker import DockerProvider

pytestmark = pytest.mark.docker

SMALL = {"memory_mb": 128, "disk_mb": 16, "side_disk_mb": 4}


def containers(provider: DockerProvider, run: str) -> list[dict]:
    return provider.daemon.ask("list", "containers", all=True, filters={"label": [f"envkit.run={run}"]})


async def test_the_container_is_hardened_and_labelled(provider):
    labels = {"run": "hard", "trial": "t1", "owner_pid": "1", "expires_at": "4102444800"}
    async with provider.create(SandboxSpec(**SMALL, processes=50, cpus=0.5, labels=labels)) as sandbox:
        found = provider.daemon.ask("inspect", "inspect_container", sandbox.container)
        host = found["HostConfig"]
        assert host["NetworkMode"] == "none"
        assert host["ReadonlyRootfs"] is True
        assert host["CapDrop"] == ["ALL"]
        assert "no-new-privileges" in host["SecurityOpt"]
        assert any(option.startswith("seccomp=") for option in host["SecurityOpt"])
        assert host["Memory"] == host["MemorySwap"] > 128 << 20
        assert 50 <= host["PidsLimit"] <= 100
        assert host["NanoCpus"] == 500_000_000
        assert host["LogConfig"]["Type"] == "none"
        assert found["Config"]["User"] == "1000:1000"
        marks = found["Config"]["Labels"]
        assert marks["envkit.run"] == "hard"
        assert marks["envkit.expires_at"] == "4102444800"
        assert marks["envkit.owner_pid"] == str(os.getpid())  # who made it, whatever was said
        assert not (await sandbox.exec(["sh", "-c", "ls /var/run/docker.sock /root/.ssh"])).ok
    assert containers(provider, "hard") == []


async def test_a_killed_container_fails_pending_and_later_calls_at_once(provider):
    module = InsideModule("sleeper", "import time\ndef f(): time.sleep(1000)")
    async with provider.create(SandboxSpec(**SMALL)) as sandbox:
        process = await sandbox.spawn(["sleep", "1000"])
        work = (sandbox.exec(["sleep", "1000"]), sandbox.call(module, "f", {}), process.read(), process.wait())
        waiting = [asyncio.create_task(each) for each in work]
        await asyncio.sleep(0.5)
        await provider.daemon.call("kill", "kill", sandbox.container)
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 15)
        assert [type(outcome) for outcome in outcomes] == [SandboxDied] * 4, outcomes
        assert not sandbox.alive
        with pytest.raises(SandboxDied):
            await sandbox.download("/x")


async def test_what_an_image_has_at_writable_places_is_there_and_writable(provider, base, open_folder):
    (open_folder / "Dockerfile").write_text(
        f"FROM {base}\nENV GREETING=hello\nRUN mkdir -p /app/sub && echo world > /app/sub/f && chmod 600 /app/sub/f"
        " && ln -s sub/f /app/link && echo seed > /tmp/ignored\n"
    )
    made = DockerProvider(pull="never", build_network="none")
    spec = SandboxSpec(**SMALL, build=open_folder, workdir="/app")
    for _ in range(2):  # the second time out of what was kept
        async with made.create(spec) as sandbox:
            shown = await sandbox.exec(["sh", "-c", "pwd; cat link; echo $GREETING; echo more >> sub/f; wc -l < sub/f"])
            assert shown.stdout.split() == [b"/app", b"world", b"hello", b"2"], shown.stderr


async def test_an_image_is_built_once_and_anew_when_its_folder_changes(base, open_folder):
    dockerfile = open_folder / "Dockerfile"
    dockerfile.write_text(f"FROM {base}\nCOPY note /note\n")
    (open_folder / "note").write_text("one")
    made = DockerProvider(pull="never", build_network="none")
    first, again = await asyncio.gather(*(made.images.get(None, open_folder) for _ in range(2)))
    assert first == again
    (open_folder / "note").write_text("two")
    assert (await made.images.get(None, open_folder)).id != first.id
    dockerfile.write_text(f"FROM {base}\nRUN echo the reason; exit 3\n")
    with pytest.raises(EnvkitError, match="the reason") as caught:
        await made.create(SandboxSpec(**SMALL, build=open_folder)).start()
    assert caught.value.kind is FailureKind.SANDBOX_START
    with pytest.raises(UserError, match="Dockerfile"):
        await made.images.get(None, open_folder / "nowhere")


async def test_a_volume_that_an_image_declares_is_bounded(base, open_folder):
    (open_folder / "Dockerfile").write_text(
        f'FROM {base}\nRUN mkdir /data && echo kept > /data/f\nVOLUME /data\nENTRYPOINT ["false"]\n'
    )
    made = DockerProvider(pull="never", build_network="none")
    async with made.create(SandboxSpec(**SMALL, build=open_folder)) as sandbox:
        shown = await sandbox.exec(["sh", "-c", "cat /data/f; df -k /data | tail -1 | awk '{print $2}'"])
        assert shown.stdout.split() == [b"kept", b"4096"]


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.2, 0.6])
async def test_a_start_that_is_cancelled_leaves_no_container(provider, after_s):
    run = f"cancelled-{after_s}-{os.getpid()}"
    sandbox = provider.create(SandboxSpec(**SMALL, labels={"run": run}))
    task = asyncio.create_task(sandbox.start())
    await asyncio.sleep(after_s)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await sandbox.stop()
    for _ in range(100):
        if not containers(provider, run):
            break
        await asyncio.sleep(0.05)
    assert containers(provider, run) == []


async def test_an_image_that_is_not_there_says_so(provider):
    made = DockerProvider(image="envkit/no-such-image:x", pull="never")
    with pytest.raises(CapabilityError, match="no-such-image"):
        await made.create(SandboxSpec(**SMALL)).start()


class Echo:
    """A host service on a unix socket, in a thread."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        path.chmod(0o666)
        self.socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                with connection:
                    connection.sendall(b"echo " + connection.recv(100))


CONNECT = (
    "import socket, sys\n"
    "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b'hi'); print(s.recv(100).decode())"
)


@pytest.mark.parametrize("inside", ["/run/model/service.sock", "/run/other/name.sock", "/tmp/model.sock"])
@pytest.mark.parametrize("late", [False, True])
async def test_a_host_service_is_reachable_through_its_socket(provider, open_folder, inside, late):
    path = open_folder / "service.sock"
    server = None if late else Echo(path)
    async with provider.create(SandboxSpec(**SMALL, sockets={inside: str(path)})) as sandbox:
        server = server or Echo(path)
        result = await sandbox.exec(["python3", "-c", CONNECT, inside])
        assert result.stdout == b"echo hi\n", result.stderr
    server.socket.close()


def test_a_socket_that_could_not_work_is_refused_with_the_reason(provider, open_folder):
    server = Echo(open_folder / "closed.sock")
    (open_folder / "closed.sock").chmod(0o600)
    with pytest.raises(UserError, match="0666"):
        provider.check(SandboxSpec(sockets={"/run/s": str(open_folder / "closed.sock")}))
    with pytest.raises(UserError, match="neither does its folder"):
        provider.check(SandboxSpec(sockets={"/run/s": str(open_folder / "no" / "later.sock")}))
    server.socket.close()


async def relay_to(unix: str) -> asyncio.Server:
    """A TCP port that leads to the daemon: as far as the provider can tell, another machine."""

    async def carry(reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    async def serve(reader, writer):
        far_reader, far_writer = await asyncio.open_unix_connection(unix)
        await asyncio.gather(carry(reader, far_writer), carry(far_reader, writer))
        writer.close()
        far_writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


async def test_a_daemon_elsewhere_needs_no_file_system_in_common(provider, base, open_folder):
    (open_folder / "tool").write_text("#!/bin/sh\necho copied\n")
    (open_folder / "tool").chmod(0o755)
    server = await relay_to(provider.daemon.endpoint.unix)
    try:
        port = server.sockets[0].getsockname()[1]
        far = await asyncio.to_thread(DockerProvider, image=base, pull="never", host=f"tcp://127.0.0.1:{port}")
        await asyncio.to_thread(far.daemon.info)
        async with far.create(SandboxSpec(**SMALL, readonly={"/opt/brought": str(open_folder)})) as sandbox:
            assert (await sandbox.exec(["/opt/brought/tool"])).stdout == b"copied\n"
            assert (await sandbox.exec(["cat"], stdin=b"x" * 100_000)).stdout == b"x" * 100_000
        with pytest.raises(CapabilityError, match="socket"):
            far.check(SandboxSpec(sockets={"/run/s": "/tmp/s"}))
    finally:
        server.close()


def test_no_daemon_is_a_capability_error_with_the_remedy(tmp_path):
    made = DockerProvider(host=f"unix://{tmp_path}/no.sock")
    with pytest.raises(CapabilityError, match="no Docker daemon"):
        made.check(SandboxSpec())
    report = made.doctor()
    assert not report.usable
    assert "DOCKER_HOST" in report.remedy
    assert made.collect() == []
    with pytest.raises(CapabilityError, match="ssh -nNT"):
        DockerProvider(host="ssh://host")
    with pytest.raises(UserError, match="numeric"):
        DockerProvider(user="root")


async def test_collect_takes_orphans_of_dead_runs_and_nothing_else(provider, base):
    """The owner is killed; its container is held in place as a daemon that lost its client would hold it."""
    client = provider.daemon.client()

    def made(name: str, labels: dict[str, str]) -> str:
        found = client.create_container(base, ["sleep", "1000"], name=name, labels=labels, network_disabled=True)
        return str(found["Id"])

    from envkit.sandbox import docker_container

    ours = docker_container.labels("envkit-x", SandboxSpec(labels={"run": "gc"}))
    dead = {**ours, "envkit.owner_pid": "999999999"}
    elsewhere = {**ours, "envkit.boot": "other", "envkit.machine": "other"}
    ids = {
        "living": made("envkit-gc-living", ours),
        "dead": made("envkit-gc-dead", dead),
        "reused": made("envkit-gc-reused", {**ours, "envkit.owner_start": "1"}),
        "elsewhere": made("envkit-gc-elsewhere", elsewhere),
        "expired": made("envkit-gc-expired", {**elsewhere, "envkit.expires_at": str(time.time() - 5)}),
        "nameless": made("envkit-gc-nameless", {"envkit": "x"}),
        "foreign": made("foreign-gc", {}),
    }
    try:
        would = [line.split()[1] for line in provider.collect(dry_run=True)]
        assert {"envkit-gc-dead", "envkit-gc-reused", "envkit-gc-expired"} == set(would)
        lines = provider.collect()
        assert any("run gc" in line for line in lines)
        left = {c["Id"] for c in client.containers(all=True)} & set(ids.values())
        assert left == {ids[name] for name in ("living", "elsewhere", "nameless", "foreign")}
    finally:
        for identity in ids.values():
            with contextlib.suppress(Exception):
                client.remove_container(identity, force=True)


OWNER = """
import asyncio, sys
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.docker import DockerProvider
async def main():
    sandbox = DockerProvider(image=sys.argv[1]).create(SandboxSpec(labels={"run": "killed"}))
    await sandbox.start()
    await sandbox.exec(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null &"])
    print("up", flush=True)
    await sandbox.exec(["sleep", "1000"])
asyncio.run(main())
"""


async def test_a_killed_owner_takes_its_container_down_and_gc_removes_it(provider, base):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, base], stdout=subprocess.PIPE, text=True)
    assert owner.stdout.readline().strip() == "up"
    owner.kill()
    owner.wait()
    owner.stdout.close()
    for _ in range(200):
        if all(c["State"] != "running" for c in containers(provider, "killed")):
            break
        await asyncio.sleep(0.05)
    assert [c["State"] for c in containers(provider, "killed")] == ["exited"]
    done = subprocess.run(
        [sys.executable, "-m", "envkit.cli.main", "gc"], capture_output=True, text=True, timeout=100, check=False
    )
    assert "run killed" in done.stdout, done.stdout + done.stderr
    assert containers(provider, "killed") == []
