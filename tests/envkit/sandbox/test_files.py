"""Files in and out: no name leads anywhere it should not, and a snapshot is complete or an error."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from types import SimpleNamespace

import pytest

from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded, EnvkitError
from envkit.sandbox.base import SandboxSpec, SnapshotTooBig


def tar_of(*members, format=tarfile.GNU_FORMAT) -> bytes:
    """A tar of (name, content or None for a folder, {TarInfo fields})."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format, errors="surrogateescape") as tar:
        for name, content, *fields in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o644
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            else:
                info.size = len(content)
            for key, value in (fields[0] if fields else {}).items():
                setattr(info, key, value)
            if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                info.size = 0
            tar.addfile(info, io.BytesIO(content or b""))
    return out.getvalue()


LINK = {"type": tarfile.SYMTYPE}
HARD = {"type": tarfile.LNKTYPE}


async def members_of(sandbox, *paths) -> dict[str, SimpleNamespace]:
    data = b"".join([piece async for piece in sandbox.snapshot(*([paths] if paths else []))])
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as tar:
        found = {}
        for member in tar.getmembers():
            assert member.name not in found
            found[member.name] = SimpleNamespace(
                type=member.type,
                linkname=member.linkname,
                mode=member.mode,
                mtime=member.mtime,
                content=tar.extractfile(member).read() if member.isreg() else None,
            )
        return found


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_upload_places_what_the_tar_holds(run, format):
    long = "l" * (90 if format == tarfile.USTAR_FORMAT else 200)
    deep = "/".join(["d" * 30] * 5)

    async def body(sandbox):
        await sandbox.upload(
            tar_of(
                ("filesystem/a/b.txt", b"content", {"mode": 0o640, "mtime": 1_500_000_000}),
                ("filesystem/" + deep + "/f", b"deep"),
                ("filesystem/" + long, b"long"),
                ("filesystem/ü €", b"unicode"),
                ("filesystem/empty", None, {"mode": 0o700}),
                ("filesystem/locked", None, {"mode": 0o500}),
                ("filesystem/locked/inner", b"x"),
                ("filesystem/link", b"", {**LINK, "linkname": "/etc/passwd"}),
                ("filesystem/hard", b"", {**HARD, "linkname": "filesystem/a/b.txt"}),
                (".apps_data/mail/inbox", b"mail"),
                format=format,
            )
        )
        assert await sandbox.download("/filesystem/a/b.txt") == b"content"
        assert await sandbox.download(f"/filesystem/{deep}/f") == b"deep"
        assert await sandbox.download(f"/filesystem/{long}") == b"long"
        assert await sandbox.download("/filesystem/ü €") == b"unicode"
        assert await sandbox.download("/filesystem/hard") == b"content"
        assert await sandbox.download("/.apps_data/mail/inbox") == b"mail"
        shown = await sandbox.exec(["stat", "-c", "%a %Y %U", "a/b.txt"])
        assert shown.stdout == b"640 1500000000 agent\n"
        assert (await sandbox.exec(["stat", "-c", "%a", "locked", "empty"])).stdout.split() == [b"500", b"700"]

    run(body)


def test_upload_takes_a_file_and_a_stream(run, open_folder):
    data = tar_of(("big", os.urandom(5 << 20)))
    (open_folder / "t.tar").write_bytes(data)

    async def stream():
        for at in range(0, len(data), 10_000):
            yield data[at : at + 10_000]

    async def body(sandbox):
        await sandbox.upload(open_folder / "t.tar", to="/filesystem/one/two")
        await sandbox.upload(stream(), to="/tmp")
        same = await sandbox.exec(["cmp", "/filesystem/one/two/big", "/tmp/big"])
        assert same.ok, same.stderr

    run(body)


HOSTILE = {
    "absolute": [("/filesystem/x", b"x")],
    "dot dot": [("filesystem/../../x", b"x")],
    "dot dot in the middle": [("a/../../../tmp/x", b"x")],
    "through a link it brings": [("d", b"", {**LINK, "linkname": "/tmp"}), ("d/x", b"x")],
    "through a link to a folder, deeper": [("d", b"", {**LINK, "linkname": "/"}), ("d/tmp/x", b"x")],
    "a folder over a link": [("d", b"", {**LINK, "linkname": "/tmp"}), ("d", None), ("d/x", b"x")],
    "hard link outside": [("h", b"", {**HARD, "linkname": "/etc/passwd"})],
    "hard link above": [("h", b"", {**HARD, "linkname": "../../etc/passwd"})],
    "hard link to a link": [("l", b"", {**LINK, "linkname": "/tmp/secret"}), ("h", b"", {**HARD, "linkname": "l"})],
    "device": [("dev", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})],
    "block device": [("dev", b"", {"type": tarfile.BLKTYPE, "devmajor": 8, "devminor": 0})],
    "unknown type": [("odd", b"", {"type": b"Z"})],
    "no name": [("", b"x")],
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_upload_refuses_what_leads_out(sandbox, name):
    await sandbox.exec(["sh", "-c", "echo secret > /tmp/secret"])
    with pytest.raises(EnvkitError) as caught:
        await sandbox.upload(tar_of(*HOSTILE[name]), to="/filesystem/target")
    assert "upload to /filesystem/target" in str(caught.value)
    assert (await sandbox.exec(["ls", "/tmp"])).stdout == b"secret\n"


async def test_upload_never_writes_through_what_is_already_there(sandbox):
    await sandbox.exec(["sh", "-c", "echo keep > /tmp/victim; ln -s /tmp/victim link; ln -s /tmp folder; mkfifo pipe"])
    await sandbox.upload(tar_of(("link", b"new"), ("pipe", b"new")), to="/filesystem")
    assert (await sandbox.exec(["cat", "/tmp/victim", "link", "pipe"])).stdout == b"keep\nnewnew"
    with pytest.raises(EnvkitError, match="folder/x"):
        await sandbox.upload(tar_of(("folder/x", b"new")), to="/filesystem")
    assert (await sandbox.exec(["ls", "/tmp"])).stdout == b"victim\n"


async def test_a_damaged_tar_is_an_error_and_places_nothing_half(sandbox):
    good = tar_of(("file", b"x" * 10_000))
    for bad in (b"", b"not a tar" * 1000, good[:600], good[:5000], b"\x1f\x8b" + good):
        with pytest.raises(EnvkitError):
            await sandbox.upload(bad, to="/filesystem")
    assert (await sandbox.ping())["jobs"] == 0


async def test_upload_into_a_full_or_forbidden_place_names_the_member(provider):
    async with provider.create(SandboxSpec(disk_mb=2, file_mb=1)) as sandbox:
        with pytest.raises(EnvkitError, match="No space left"):
            await sandbox.upload(tar_of(*((f"many/{i}", b"x" * 900_000) for i in range(5))), to="/filesystem")
        with pytest.raises(EnvkitError, match="Read-only"):
            await sandbox.upload(tar_of(("usr/bin/evil", b"x")), to="/")
        with pytest.raises(EnvkitError, match="too large"):
            await sandbox.upload(tar_of(("big", b"x" * (2 << 20))), to="/tmp")


def test_download_resolves_inside_and_refuses_what_is_no_file(run):
    async def body(sandbox):
        await sandbox.exec(["sh", "-c", "ln -s /etc/passwd p; mkfifo f; mkdir d; ln -s loop loop; printf 12345 > five"])
        assert b"agent" in await sandbox.download("/filesystem/p")
        assert b"agent" in await sandbox.download("/filesystem/../etc/passwd")
        with pytest.raises(FileNotFoundError):
            await sandbox.download("/filesystem/none")
        with pytest.raises(FileNotFoundError):
            await sandbox.download("/etc/shadow")
        with pytest.raises(IsADirectoryError):
            await sandbox.download("/filesystem/d")
        with pytest.raises(EnvkitError, match="neither a file"):
            await asyncio.wait_for(sandbox.download("/filesystem/f"), 10)
        with pytest.raises(EnvkitError):
            await sandbox.download("/filesystem/loop")
        with pytest.raises(FileNotFoundError) as missing:
            await sandbox.download("/filesystem/\udcff")
        str(missing.value).encode()  # can be logged
        assert await sandbox.download("/filesystem/five", max_bytes=5) == b"12345"
        with pytest.raises(EnvkitError, match="larger than 4"):
            await sandbox.download("/filesystem/five", max_bytes=4)
        with pytest.raises(EnvkitError, match="Permission denied"):
            await sandbox.download("/proc/1/mem")
        with pytest.raises(EnvkitError, match="larger"):
            await sandbox.download("/bin/bash", max_bytes=10)
        with pytest.raises(EnvkitError, match="neither a file"):
            await sandbox.download("/dev/zero")

    run(body)


ODDITIES = r"""
import os, socket
os.chdir(b'/filesystem')
open('plain', 'w').write('plain'); os.chmod('plain', 0o640); os.utime('plain', (10**9, 10**9))
open(b'\xff\xfe latin', 'w').write('raw'); os.mkdir(b'\xe9t\xe9'); open(b'\xe9t\xe9/\xff', 'w').close()
open('new\nline\ttab', 'w').write('control')
open('x' * 255, 'w').write('long')
deep = '/'.join(['d' * 200] * 10); os.makedirs(deep); open(deep + '/f', 'w').close()
os.mkfifo('fifo'); s = socket.socket(socket.AF_UNIX); s.bind('socket')
open('secret', 'w').write('unreadable'); os.chmod('secret', 0)
os.mkdir('closed'); open('closed/inner', 'w').write('inner'); os.chmod('closed', 0)
os.mkdir('noread'); open('noread/inner', 'w').write('inner'); os.chmod('noread', 0o311)
os.mkdir('nosearch'); open('nosearch/inner', 'w').write('inner'); os.chmod('nosearch', 0o644)
os.symlink('/etc/passwd', 'out'); os.symlink('nowhere', 'dangling'); os.symlink('.', 'self')
os.symlink('y' * 300, 'far')
os.link('plain', 'hard')
with open('sparse', 'wb') as f: f.seek(3 << 20); f.write(b'end')
open('old', 'w').close(); os.utime('old', (-10**9, -10**9))
open('future', 'w').close(); os.utime('future', (2**35, 2**35))
open('suid', 'w').close(); os.chmod('suid', 0o4755)
"""


def test_a_snapshot_copes_with_whatever_an_agent_made(run_as_each):
    async def body(sandbox):
        made = await sandbox.exec(["python3", "-c", ODDITIES])
        assert made.ok, made.stderr
        await sandbox.kill_all()
        found = await members_of(sandbox)
        content = {name.removeprefix("filesystem/"): member.content for name, member in found.items()}
        assert content["plain"] == content["hard"] == b"plain"
        assert content["\udcff\udcfe latin"] == b"raw"
        assert "\udce9t\udce9/\udcff" in content
        assert content["new\nline\ttab"] == b"control"
        assert content["x" * 255] == b"long"
        assert "/".join(["d" * 200] * 10) + "/f" in content
        assert content["secret"] == b"unreadable"
        assert content["closed/inner"] == content["noread/inner"] == content["nosearch/inner"] == b"inner"
        assert content["sparse"] == bytes(3 << 20) + b"end"
        assert found["filesystem/fifo"].type == tarfile.FIFOTYPE
        assert found["filesystem/socket"].type == tarfile.FIFOTYPE
        assert found["filesystem/out"].linkname == "/etc/passwd"
        assert found["filesystem/dangling"].type == tarfile.SYMTYPE
        assert found["filesystem/far"].linkname == "y" * 300
        assert (found["filesystem/plain"].mode, found["filesystem/plain"].mtime) == (0o640, 10**9)
        assert found["filesystem/old"].mtime == 0
        assert ".apps_data" in found
        names = [name for name in found if name.startswith("filesystem/")]
        tops = [name for name in names if name.count("/") == 1]
        assert tops == sorted(tops, key=lambda name: name.encode("utf-8", "surrogateescape"))
        modes = await sandbox.exec(["stat", "-c", "%a", "secret", "closed", "noread", "nosearch"])
        assert modes.stdout.split() == [b"0", b"0", b"311", b"644"]  # as they were

        first = b"".join([piece async for piece in sandbox.snapshot()])
        assert first == b"".join([piece async for piece in sandbox.snapshot()])

    run_as_each(body)


async def test_a_snapshot_can_be_uploaded_into_another_sandbox_as_it_was(provider, sandbox):
    await sandbox.exec(["python3", "-c", ODDITIES.replace("s.bind('socket')", "pass")])
    before = b"".join([piece async for piece in sandbox.snapshot()])
    async with provider.create(SandboxSpec()) as other:
        await other.upload(before)
        after = await members_of(other)
        for name, member in (await members_of(sandbox)).items():
            twin = after[name]
            assert (twin.type, twin.linkname, twin.content) == (member.type, member.linkname, member.content), name
            if member.type != tarfile.SYMTYPE:
                assert twin.mode == member.mode & 0o777, name


async def test_a_snapshot_that_would_be_too_big_is_the_agents_doing_and_found_out_first(provider):
    async with provider.create(SandboxSpec(max_snapshot_mb=1)) as sandbox:
        await sandbox.exec(["truncate", "-s", "2M", "sparse"])
        with pytest.raises(SnapshotTooBig, match="1 MiB"):
            await anext(sandbox.snapshot())  # not one byte came
        await sandbox.exec(["rm", "sparse"])
        await sandbox.exec(["python3", "-c", "for i in range(3000): open(str(i), 'w').close()"])
        with pytest.raises(SnapshotTooBig):
            await members_of(sandbox)


@pytest.mark.slow
async def test_more_files_than_can_be_read_in_time_are_too_many(provider):
    async with provider.create(SandboxSpec()) as sandbox:
        many = "import os\nfor i in range(1000):\n    os.mkdir(str(i))\n    for j in range(201): os.mkdir(f'{i}/{j}')"
        assert (await sandbox.exec(["python3", "-c", many])).ok
        with pytest.raises(SnapshotTooBig, match="files and folders"):
            await anext(sandbox.snapshot())


async def test_a_tree_too_deep_to_name_is_too_big(sandbox):
    dig = "import os\nfor i in range(3000):\n    os.mkdir('dd'); os.chdir('dd')\nopen('bottom', 'w').close()"
    assert (await sandbox.exec(["python3", "-c", dig])).ok
    with pytest.raises(SnapshotTooBig, match="longer than"):
        await members_of(sandbox)
    below = "import os\nfor i in range(1000):\n    os.mkdir('dd'); os.chdir('dd')\nopen('bottom', 'w').close()"
    assert (await sandbox.exec(["python3", "-c", below], cwd="/.apps_data")).ok
    assert "/".join([".apps_data", *["dd"] * 1000, "bottom"]) in await members_of(sandbox, "/.apps_data")


async def test_a_snapshot_of_what_is_not_there_is_an_error(sandbox):
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        await members_of(sandbox, "/filesystem", "/nowhere")


@pytest.mark.slow
async def test_a_file_that_changes_meanwhile_is_an_error_not_a_torn_copy(sandbox):
    grow = "import time\nf = open('log', 'ab', 0)\nwhile True: f.write(b'x' * 4096); time.sleep(0.0005)"
    await sandbox.exec(
        ["sh", "-c", f'head -c 30000000 /dev/zero > big; setsid python3 -c "{grow}" >/dev/null 2>&1 </dev/null &']
    )

    async def until_it_fails():
        for _ in range(20):
            await members_of(sandbox)

    with pytest.raises(EnvkitError, match="while it was read"):
        await until_it_fails()
    await sandbox.kill_all()
    assert "filesystem/log" in await members_of(sandbox)


async def test_a_reader_that_stops_early_ends_the_snapshot_inside(sandbox):
    await sandbox.exec(["sh", "-c", "head -c 50000000 /dev/zero > big"])
    stream = sandbox.snapshot()
    await anext(stream)
    await asyncio.sleep(0.2)
    assert (await sandbox.ping())["jobs"] == 1  # it waits for us, not the other way round
    await stream.aclose()
    for _ in range(100):
        if (await sandbox.ping())["jobs"] == 0:
            break
        await asyncio.sleep(0.02)
    assert (await sandbox.ping())["jobs"] == 0


async def test_file_work_has_deadlines(sandbox):
    async def never():
        yield tar_of(("a", b"x"))[:512]
        await asyncio.sleep(1000)

    with pytest.raises((DeadlineExceeded, TimeoutError)):
        await asyncio.wait_for(sandbox.upload(never(), to="/tmp"), 0.5)
    await sandbox.exec(["sh", "-c", "head -c 50000000 /dev/zero > big"])

    async def read_slowly():
        async for _ in sandbox.snapshot(deadline=Deadline.after(0.3)):
            await asyncio.sleep(0.1)

    with pytest.raises(DeadlineExceeded):
        await read_slowly()
