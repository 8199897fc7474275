"""What a hostile agent can see and reach from inside: nothing of the host, of another sandbox, of the supervisor."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from pathlib import Path

import pytest

from envkit.failure import CapabilityError, UserError
from envkit.sandbox import seccomp
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider

REPO = Path(__file__).parents[3]


def test_host_files_are_not_there(run_as_each):
    async def body(sandbox):
        for path in (
            str(REPO),
            "/root",
            "/etc/shadow",
            "/etc/sudoers",
            "/var/lib",
            "/home/agent/../../root",
            "/sys",
            "/boot",
        ):
            assert (await sandbox.exec(["ls", path])).exit_code == 2, path
        listed = await sandbox.exec(["ls", "-A", "/home", "/var", "/usr/local"])
        assert listed.stdout.split() == [b"/home:", b"agent", b"/usr/local:", b"/var:", b"tmp"]
        passwd = (await sandbox.exec(["cut", "-d:", "-f1", "/etc/passwd"])).stdout.split()
        assert passwd == [b"root", b"agent", b"nobody"]
        named = await sandbox.exec(
            ["sh", "-c", "hostname; id -u; id -g; id -G; date +%Z; locale 2>/dev/null | head -1"]
        )
        assert named.stdout.split() == [b"sandbox", b"1000", b"1000", b"1000", b"UTC", b"LANG=C.UTF-8"]

    run_as_each(body)


def test_the_environment_holds_nothing_of_the_host(run):
    async def body(sandbox):
        env = (await sandbox.exec(["env", "-0"])).stdout.decode()
        assert "SECRET" not in env
        everywhere = await sandbox.exec(
            ["sh", "-c", "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep SECRET"]
        )
        assert everywhere.stdout == b""

    os.environ["ENVKIT_TEST_SECRET"] = "SECRET-value"
    try:
        run(body)
    finally:
        del os.environ["ENVKIT_TEST_SECRET"]


def test_only_the_writable_places_are_writable(run_as_each):
    async def body(sandbox):
        for place in (
            "/",
            "/usr",
            "/usr/local",
            "/etc",
            "/dev",
            "/run",
            "/var",
            "/home",
            "/usr/lib/python3/dist-packages",
        ):
            made = await sandbox.exec(["sh", "-c", f"touch {place}/x || mkdir {place}/x"])
            assert made.exit_code == 1, place
            assert b"Read-only" in made.stderr or b"No such file" in made.stderr, (place, made.stderr)
        places = (
            "/filesystem",
            "/.apps_data",
            "/tmp",
            "/var/tmp",
            "/home/agent",
            "/logs",
            "/solution",
            "/tests",
            "/dev/shm",
            "/x/y",
        )
        for place in places:
            assert (await sandbox.exec(["sh", "-c", f"touch {place}/x && rm {place}/x"])).ok, place
        for attack in ("mount -o remount,rw /", "mount -t tmpfs x /usr", "umount /filesystem", "umount /usr/local"):
            assert not (await sandbox.exec(["sh", "-c", attack])).ok
        inside = await sandbox.exec(["sh", "-c", "echo 1 > /proc/sys/kernel/panic; echo b > /proc/sysrq-trigger"])
        assert not inside.ok

    run_as_each(body, writable=("/logs", "/solution", "/tests", "/x/y"))


def test_there_is_no_network_and_no_host_socket(run):
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    hidden = socket.socket(socket.AF_UNIX)
    hidden.bind("\0envkit-test-abstract")
    hidden.listen()

    async def body(sandbox):
        probe = (
            "import socket\n"
            "def tried(family, address):\n"
            "    try:\n"
            "        s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(2); s.connect(address)\n"
            "        return 'CONNECTED'\n"
            "    except OSError as e: return type(e).__name__\n"
            f"print(tried(socket.AF_INET, ('127.0.0.1', {port})), tried(socket.AF_INET, ('192.0.2.1', 80)),\n"
            "  tried(socket.AF_UNIX, '\\0envkit-test-abstract'), tried(socket.AF_INET6, ('2001:db8::1', 80)))\n"
        )
        result = await sandbox.exec(["python3", "-c", probe])
        assert b"CONNECTED" not in result.stdout
        assert result.stdout.split()[:3] == [b"ConnectionRefusedError", b"OSError", b"ConnectionRefusedError"]
        devices = (await sandbox.exec(["cat", "/proc/net/dev"])).stdout.splitlines()[2:]
        assert [line.split(b":")[0].strip() for line in devices] == [b"lo"]

    try:
        run(body)
    finally:
        listener.close()
        hidden.close()


@pytest.mark.skipif(seccomp.program() is None, reason="no filter for this machine")
def test_system_calls_that_nobody_needs_are_refused(run):
    async def body(sandbox):
        probe = (
            "import ctypes, errno, socket, platform\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "def call(*a):\n"
            "    ctypes.set_errno(0); libc.syscall(*a); return errno.errorcode.get(ctypes.get_errno(), 'OK')\n"
            "x86 = platform.machine() == 'x86_64'\n"
            "print(call(250 if x86 else 219, 0, -3, 0), call(321 if x86 else 280, 0, 0, 0), call(425, 8, 0),\n"
            "      call(272 if x86 else 97, 0x10000000))\n"
            "for family in (40, 38, 17, 31):\n"
            "    try: socket.socket(family, socket.SOCK_DGRAM if family == 17 else socket.SOCK_STREAM); print('OPEN')\n"
            "    except OSError as e: print(errno.errorcode[e.errno])\n"
            "socket.socket(socket.AF_UNIX); socket.socket(socket.AF_INET)\n"
            "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)\n"
            "print('fine')\n"
        )
        result = await sandbox.exec(["python3", "-c", probe])
        assert result.stdout.split() == [b"EPERM"] * 4 + [b"EAFNOSUPPORT"] * 4 + [b"fine"], result.stderr

    run(body)


def test_no_user_namespace_can_be_made_inside(run):
    async def body(sandbox):
        assert not (await sandbox.exec(["unshare", "-Ur", "true"])).ok
        clone = "import ctypes; print(ctypes.CDLL(None).clone(0, 0, 0x10000000, 0))"
        raw = "import ctypes\nlibc = ctypes.CDLL(None)\npid = libc.syscall(56, 0x10000011, 0, 0, 0, 0)\nprint(pid)"
        result = await sandbox.exec(["python3", "-c", raw])
        assert result.stdout.strip() == b"-1", clone

    run(body)


def test_the_supervisor_can_be_neither_traced_nor_read(run_as_each):
    async def body(sandbox):
        probe = (
            "import ctypes, os, errno\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "def err(r): return errno.errorcode.get(ctypes.get_errno(), '?') if r < 0 else 'DONE'\n"
            "for pid in (1, os.getppid()):\n"
            "    print('attach', err(libc.ptrace(16, pid, 0, 0)), 'seize', err(libc.ptrace(0x4206, pid, 0, 0)))\n"
            "    buffer = ctypes.create_string_buffer(8)\n"
            "    class iovec(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]\n"
            "    l, r = iovec(ctypes.addressof(buffer), 8), iovec(0x400000, 8)\n"
            "    print('readv', err(libc.process_vm_readv(pid, ctypes.byref(l), 1, ctypes.byref(r), 1, 0)))\n"
            "    fd = os.pidfd_open(pid)\n"
            "    print('getfd', err(libc.syscall(438, fd, 0, 0)))\n"
            "    for name in ('mem', 'environ', 'fd', 'maps', 'exe', 'root', 'cwd', 'auxv', 'map_files'):\n"
            "        try:\n"
            "            path = f'/proc/{pid}/{name}'\n"
            "            folder = name in ('fd', 'root', 'cwd', 'map_files')\n"
            "            (os.listdir if folder else lambda p: open(p, 'rb').read(10))(path)\n"
            "            print(name, 'READ')\n"
            "        except OSError as e: print(name, errno.errorcode[e.errno])\n"
            "    def tried(name, f, *a):\n"
            "        try: f(*a); print(name, 'DONE')\n"
            "        except OSError as e: print(name, errno.errorcode[e.errno])\n"
            "    import resource\n"
            "    tried('prlimit', resource.prlimit, pid, resource.RLIMIT_NOFILE, (3, 3))\n"
            "    tried('cpu', resource.prlimit, pid, resource.RLIMIT_CPU, (1, 1))\n"
            "    tried('nice', os.setpriority, os.PRIO_PROCESS, pid, 19)\n"
            "    tried('nice all', os.setpriority, os.PRIO_USER, 0, 19)\n"
            "    tried('idle', os.sched_setscheduler, pid, os.SCHED_IDLE, os.sched_param(0))\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50)); os.nice(1)\n"
        )
        result = await sandbox.exec(["python3", "-c", probe])
        assert result.ok, result.stderr
        said = result.stdout.decode()
        assert "DONE" not in said, said
        assert "READ" not in said, said
        assert (await sandbox.exec(["true"])).ok

    run_as_each(body)


def test_output_that_imitates_the_protocol_is_just_output(run):
    async def body(sandbox):
        from envkit.sandbox.supervisor import wire

        forged = b"".join(wire.frame(wire.RESPONSE, n, wire.encode({"exit": 0, "ok": True})) for n in range(1, 9))
        result = await sandbox.exec(["sh", "-c", "cat; exit 3"], stdin=forged)
        assert (result.exit_code, result.stdout) == (3, forged)
        writable = await sandbox.exec(["sh", "-c", "for f in /proc/*/fd/*; do echo x > $f; done 2>/dev/null; exit 4"])
        assert writable.exit_code == 4
        assert (await sandbox.exec(["true"])).ok

    run(body)


async def test_two_sandboxes_do_not_see_each_other(provider):
    async with provider.create(SandboxSpec()) as one, provider.create(SandboxSpec()) as two:
        await one.exec(["sh", "-c", "echo secret > /tmp/x; echo secret > /dev/shm/x"])
        await one.exec(["sh", "-c", "setsid sleep 1234 >/dev/null 2>&1 </dev/null &"])
        seen = await two.exec(["sh", "-c", "ls /tmp /dev/shm; ps -eo args; ipcs -m; cat /proc/net/unix"])
        assert b"secret" not in seen.stdout
        assert b"1234" not in seen.stdout
        await two.exec(["sh", "-c", "kill -9 -1"], timeout_s=10)
        assert await one.kill_all() == 1


class EchoServer:
    """A host service on a unix socket, in a thread."""

    def __init__(self, path, mode=0o666):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        os.chmod(path, mode)
        self.socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"echo " + connection.recv(100))


CONNECT = (
    "import socket, sys\n"
    "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b'hi'); print(s.recv(100).decode())"
)


@pytest.mark.parametrize("inside", ["/run/model/sock", "/srv/model.sock", "/tmp/model.sock"])
def test_a_host_service_is_reachable_through_its_socket(run, open_folder, inside):
    server = EchoServer(open_folder / "service.sock")

    async def body(sandbox):
        result = await sandbox.exec(["python3", "-c", CONNECT, inside])
        assert result.stdout == b"echo hi\n", result.stderr

    try:
        run(body, sockets={inside: str(open_folder / "service.sock")})
    finally:
        server.socket.close()


async def test_a_service_that_starts_later_is_reachable_too(provider, open_folder):
    spec = SandboxSpec(sockets={"/run/model/sock": str(open_folder / "late.sock")})
    async with provider.create(spec) as sandbox:
        assert not (await sandbox.exec(["python3", "-c", CONNECT, "/run/model/sock"])).ok
        server = EchoServer(open_folder / "late.sock")
        assert (await sandbox.exec(["python3", "-c", CONNECT, "/run/model/sock"])).stdout == b"echo hi\n"
        removed = await sandbox.exec(["sh", "-c", "rm -f /run/model/sock /run/sockets/0/late.sock"])
        assert not removed.ok
        server.socket.close()


def test_a_socket_that_could_not_work_is_refused_with_the_reason(provider, open_folder):
    (open_folder / "file").write_text("x")
    with pytest.raises(UserError, match="must be a unix socket"):
        provider.check(SandboxSpec(sockets={"/run/s": str(open_folder / "file")}))
    with pytest.raises(UserError, match="folder of its own"):
        provider.check(SandboxSpec(sockets={"/run/s": str(open_folder / "later.sock")}))
    with pytest.raises(UserError, match="neither does its folder"):
        provider.check(SandboxSpec(sockets={"/run/s": str(open_folder / "no" / "later.sock")}))
    if os.geteuid() == 0:
        server = EchoServer(open_folder / "closed.sock", mode=0o600)
        with pytest.raises(UserError, match="0666"):
            provider.check(SandboxSpec(sockets={"/run/s": str(open_folder / "closed.sock")}))
        server.socket.close()


def test_what_local_cant_do_is_refused_by_name():
    provider = LocalProvider(office=False)
    with pytest.raises(CapabilityError, match="docker"):
        provider.check(SandboxSpec(image="debian:12"))
    with pytest.raises(CapabilityError, match="docker"):
        provider.check(SandboxSpec(network="public"))
    with pytest.raises(UserError, match="absolute"):
        provider.check(SandboxSpec(writable=("relative",)))
    with pytest.raises(UserError, match="plain"):
        provider.check(SandboxSpec(writable=("/tmp/../etc",)))


async def test_concurrent_sandboxes_have_users_of_their_own(provider):
    if os.geteuid() != 0:
        pytest.skip("only root can give out users")
    sandboxes = [provider.create(SandboxSpec()) for _ in range(4)]
    await asyncio.gather(*(sandbox.start() for sandbox in sandboxes))
    users = {os.stat(f"/proc/{sandbox.pid}").st_uid for sandbox in sandboxes}
    await asyncio.gather(*(sandbox.stop() for sandbox in sandboxes))
    assert len(users) == 4
    assert 0 not in users


async def test_a_read_only_folder_of_the_host_is_shown_and_stays_as_it_is(
    provider: LocalProvider, open_folder: Path
) -> None:
    (open_folder / "tool").write_text("#!/bin/sh\necho from outside\n")
    (open_folder / "tool").chmod(0o755)
    spec = SandboxSpec(readonly={"/opt/brought/tools": str(open_folder)})
    provider.check(spec)
    async with provider.create(spec) as sandbox:
        ran = await sandbox.exec(["/opt/brought/tools/tool"])
        assert ran.stdout == b"from outside\n"
        spoilt = await sandbox.exec(["sh", "-c", "echo x > /opt/brought/tools/tool; rm -f /opt/brought/tools/tool"])
        assert not spoilt.ok
    assert (open_folder / "tool").read_text().endswith("from outside\n")
    with pytest.raises(UserError, match="must be a folder on this machine"):
        provider.check(SandboxSpec(readonly={"/opt/x": str(open_folder / "tool")}))
    with pytest.raises(UserError, match="absolute and plain"):
        provider.check(SandboxSpec(readonly={"/opt/../x": str(open_folder)}))
