"""The contract of files: in and out by name, and no name leads anywhere it should not."""

from __future__ import annotations

import os
import tarfile
from collections.abc import AsyncIterator

import pytest

from envkit.failure import EnvkitError
from envkit.sandbox.base import SnapshotTooBig
from envkit.sandbox.contract.under_test import Contract, behaviour, members_of, tar_of

_LINK = {"type": tarfile.SYMTYPE}
_HARD = {"type": tarfile.LNKTYPE}


@behaviour
async def test_an_upload_places_what_the_tar_holds(contract: Contract) -> None:
    long, deep = "l" * 200, "/".join(["d" * 30] * 5)
    async with contract.create() as sandbox:
        for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            await sandbox.upload(
                tar_of(
                    ("filesystem/a/b.txt", b"content", {"mode": 0o640, "mtime": 1_500_000_000}),
                    (f"filesystem/{deep}/f", b"deep"),
                    (f"filesystem/{long}", b"long"),
                    ("filesystem/ü €", b"unicode"),
                    ("filesystem/run", b"#!/bin/sh\necho ran\n", {"mode": 0o755}),
                    ("filesystem/empty", None),
                    (".apps_data/mail/inbox", b"mail"),
                    form=form,
                )
            )
        assert await sandbox.download("/filesystem/a/b.txt") == b"content"
        assert await sandbox.download(f"/filesystem/{deep}/f") == b"deep"
        assert await sandbox.download(f"/filesystem/{long}") == b"long"
        assert await sandbox.download("/filesystem/ü €") == b"unicode"
        assert await sandbox.download("/.apps_data/mail/inbox") == b"mail"
        assert (await sandbox.exec(["./run"])).stdout == b"ran\n"
        assert (await sandbox.exec(["stat", "-c", "%a %Y", "a/b.txt"])).stdout == b"640 1500000000\n"


@behaviour
async def test_uploaded_files_are_the_agents_own(contract: Contract) -> None:
    async with contract.create() as sandbox:
        await sandbox.upload(tar_of(("f", b"x", {"uid": 0, "gid": 0})), to="/filesystem")
        assert (await sandbox.exec(["sh", "-c", "echo more >> f && chmod 600 f && rm f"])).ok


@behaviour
async def test_an_upload_makes_its_folder_and_replaces_files(contract: Contract) -> None:
    async with contract.create() as sandbox:
        for content in (b"first", b"second"):
            await sandbox.upload(tar_of(("f", content)), to="/filesystem/one/two")
        assert await sandbox.download("/filesystem/one/two/f") == b"second"


@behaviour
async def test_an_upload_may_be_a_stream(contract: Contract) -> None:
    content = os.urandom(3 << 20)
    data = tar_of(("big", content))

    async def stream() -> AsyncIterator[bytes]:
        for at in range(0, len(data), 100_000):
            yield data[at : at + 100_000]

    async with contract.create() as sandbox:
        await sandbox.upload(stream(), to="/tmp")
        assert await sandbox.download("/tmp/big") == content


async def _refused(contract: Contract, *members: object) -> None:
    async with contract.create() as sandbox:
        with pytest.raises(EnvkitError):
            await sandbox.upload(tar_of(*members), to="/filesystem/target")
        assert not (await sandbox.exec(["ls", "/tmp/x", "/filesystem/x", "/x"])).stdout


@behaviour
async def test_an_absolute_member_is_refused(contract: Contract) -> None:
    await _refused(contract, ("/filesystem/x", b"x"))


@behaviour
async def test_a_member_above_is_refused(contract: Contract) -> None:
    await _refused(contract, ("a/../../x", b"x"))


@behaviour
async def test_a_member_through_a_link_it_brings_is_refused(contract: Contract) -> None:
    await _refused(contract, ("d", b"", {**_LINK, "linkname": "/tmp"}), ("d/x", b"x"))


@behaviour
async def test_a_hard_link_to_outside_is_refused(contract: Contract) -> None:
    await _refused(contract, ("x", b"", {**_HARD, "linkname": "/etc/passwd"}))


@behaviour
async def test_a_device_is_refused(contract: Contract) -> None:
    await _refused(contract, ("x", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}))


@behaviour
async def test_links_that_are_there_are_not_followed(contract: Contract) -> None:
    async with contract.create() as sandbox:
        await sandbox.exec(["sh", "-c", "ln -s /tmp folder"])
        with pytest.raises(EnvkitError):
            await sandbox.upload(tar_of(("folder/x", b"new")), to="/filesystem")
        assert not (await sandbox.exec(["ls", "/tmp/x"])).ok


@behaviour
async def test_links_are_placed_as_they_are(contract: Contract) -> None:
    async with contract.create() as sandbox:
        soft, hard = {**_LINK, "linkname": "/etc/passwd"}, {**_HARD, "linkname": "f"}
        await sandbox.upload(tar_of(("f", b"x"), ("link", b"", soft), ("hard", b"", hard)), to="/filesystem")
        assert (await sandbox.exec(["readlink", "link"])).stdout == b"/etc/passwd\n"
        assert await sandbox.download("/filesystem/hard") == b"x"


@behaviour
async def test_a_damaged_archive_is_an_error(contract: Contract) -> None:
    good = tar_of(("file", b"x" * 10_000))
    async with contract.create() as sandbox:
        for bad in (b"", b"not a tar" * 1000, good[:5000]):
            with pytest.raises(EnvkitError):
                await sandbox.upload(bad, to="/filesystem")
        assert (await sandbox.exec(["true"])).ok


@behaviour
async def test_an_upload_to_a_read_only_place_is_an_error(contract: Contract) -> None:
    contract.needs(isolated=True)
    async with contract.create() as sandbox:
        with pytest.raises(EnvkitError):
            await sandbox.upload(tar_of(("usr/bin/evil", b"x")), to="/")


@behaviour
async def test_a_download_is_one_file_or_the_reason(contract: Contract) -> None:
    async with contract.create() as sandbox:
        await sandbox.exec(["sh", "-c", "mkdir d; mkfifo p; printf 12345 > five; : > empty"])
        assert await sandbox.download("/filesystem/five", max_bytes=5) == b"12345"
        assert await sandbox.download("/filesystem/empty") == b""
        with pytest.raises(FileNotFoundError):
            await sandbox.download("/filesystem/none")
        with pytest.raises(IsADirectoryError):
            await sandbox.download("/filesystem/d")
        with pytest.raises(EnvkitError, match="larger than 4"):
            await sandbox.download("/filesystem/five", max_bytes=4)
        with pytest.raises(EnvkitError, match="neither a file"):
            await sandbox.download("/filesystem/p")


@behaviour
async def test_a_snapshot_holds_both_trees_sorted(contract: Contract) -> None:
    async with contract.create() as sandbox:
        await sandbox.exec(["sh", "-c", "for n in c a b; do echo $n > $n; done; mkdir -p z/y; echo 1 > /.apps_data/m"])
        found = await members_of(sandbox)
        names = [name for name in found if name.startswith("filesystem/") and name.count("/") == 1]
        assert names == ["filesystem/a", "filesystem/b", "filesystem/c", "filesystem/z"]
        assert found["filesystem/a"].content == b"a\n"
        assert found["filesystem/z/y"].type == tarfile.DIRTYPE
        assert found[".apps_data/m"].content == b"1\n"


@behaviour
async def test_a_snapshot_copes_with_odd_names_and_kinds(contract: Contract) -> None:
    async with contract.create() as sandbox:
        made = await sandbox.exec(
            [
                "sh",
                "-c",
                "printf raw > \"$(printf '\\377\\376 latin')\"; printf nl > \"$(printf 'new\\nline')\"; mkfifo fifo;"
                f" printf long > {'x' * 255}; ln -s nowhere dangling; ln -s /etc/passwd out; printf h > h; ln h hard;"
                " printf s > ' lead and trail '",
            ]
        )
        assert made.ok, made.stderr
        found = {name.removeprefix("filesystem/"): member for name, member in (await members_of(sandbox)).items()}
        assert found["\udcff\udcfe latin"].content == b"raw"
        assert found["new\nline"].content == b"nl"
        assert found["x" * 255].content == b"long"
        assert found[" lead and trail "].content == b"s"
        assert found["h"].content == found["hard"].content == b"h"
        assert (found["out"].type, found["out"].linkname) == (tarfile.SYMTYPE, "/etc/passwd")
        assert found["dangling"].linkname == "nowhere"
        assert found["fifo"].type == tarfile.FIFOTYPE


@behaviour
async def test_a_snapshot_of_what_is_not_there_is_an_error(contract: Contract) -> None:
    async with contract.create() as sandbox:
        with pytest.raises(FileNotFoundError, match="/nowhere"):
            await members_of(sandbox, "/filesystem", "/nowhere")


@behaviour
async def test_a_snapshot_too_big_is_the_agents_doing(contract: Contract) -> None:
    async with contract.create(max_snapshot_mb=1) as sandbox:
        await sandbox.exec(["sh", "-c", "head -c 3000000 /dev/zero > big"])
        with pytest.raises(SnapshotTooBig):
            await members_of(sandbox)


@behaviour
async def test_a_snapshot_goes_into_another_sandbox_as_it_was(contract: Contract) -> None:
    async with contract.create() as one, contract.create() as two:
        await one.exec(["sh", "-c", "mkdir -p a/b; echo x > a/b/c; ln -s a link; chmod 700 a; chmod 600 a/b/c"])
        await two.upload(one.snapshot())
        before, after = await members_of(one), await members_of(two)
        assert list(before) == list(after)
        for name, member in before.items():
            twin = after[name]
            assert (twin.type, twin.linkname, twin.content) == (member.type, member.linkname, member.content)


@behaviour
async def test_only_the_writable_places_are_writable(contract: Contract) -> None:
    contract.needs(isolated=True)
    async with contract.create(writable=("/logs", "/x/y")) as sandbox:
        for place in ("/", "/usr", "/etc", "/usr/bin"):
            assert not (await sandbox.exec(["sh", "-c", f": > {place}/x"])).ok, place
        for place in ("/filesystem", "/.apps_data", "/tmp", "/var/tmp", "/home/agent", "/logs", "/dev/shm", "/x/y"):
            assert (await sandbox.exec(["sh", "-c", f": > {place}/x && rm {place}/x"])).ok, place
