"""Snapshots: what is read, from folders, tars and archives."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from snapshot_states import fault_of, folder, member, state, tar_bytes

from envkit.office.problem import Problem, Unreadable
from envkit.snapshot import (
    Fault,
    Kind,
    Snapshot,
    changes,
)


def test_the_initial_state_is_the_world_with_its_overlays(tmp_path: Path) -> None:
    world = folder(tmp_path / "world", {"filesystem/a.txt": b"a", "filesystem/old/b.txt": b"b", ".apps_data/x": b"x"})
    overlay = folder(tmp_path / "over", {"filesystem/a.txt": b"new", "filesystem/old": b"a file now", "stray": b"no"})
    first = Snapshot.from_folders(world, overlay)
    assert first.read("filesystem/a.txt") == b"new"
    assert first.read("filesystem/old") == b"a file now"
    assert list(first.paths()) == [".apps_data/x", "filesystem/a.txt", "filesystem/old"]


def test_an_input_file_is_no_change(tmp_path: Path) -> None:
    world = folder(tmp_path / "world", {"filesystem/a.txt": b"a"})
    overlay = folder(tmp_path / "over", {"filesystem/brief.docx": b"task input"})
    final = state({"filesystem/a.txt": b"a", "filesystem/brief.docx": b"task input"})
    assert not changes(Snapshot.from_folders(world, overlay), final)
    assert changes(Snapshot.from_folders(world), final).created == ("filesystem/brief.docx",)


def test_a_folder_without_a_world_is_refused(tmp_path: Path) -> None:
    assert fault_of(lambda: Snapshot.from_folders(tmp_path)) is Fault.NO_WORLD


@pytest.mark.parametrize("wrapper", ["", "world_17/", "export/2025/world_17/"])
@pytest.mark.parametrize("form", ["zip", "tar", "tar.gz"])
def test_archives_are_read_with_any_wrapping_folder(tmp_path: Path, wrapper: str, form: str) -> None:
    files = {
        f"{wrapper}filesystem/a/filesystem/b.txt": b"inner folder of the same name",
        f"{wrapper}.apps_data/mail/sent.mbox": b"From x",
        f"{wrapper}.apps_data/.coordinator/config.json": b"{}",
        f"{wrapper}notes.txt": b"outside",
    }
    path = tmp_path / "world"
    if form == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
            archive.writestr(f"__MACOSX/{wrapper}filesystem/._a", b"mac")
    else:
        data = tar_bytes(files)
        path.write_bytes(gzip.compress(data) if form == "tar.gz" else data)
    with Snapshot.from_archive(path) as found:
        assert list(found.paths()) == [".apps_data/mail/sent.mbox", "filesystem/a/filesystem/b.txt"]
        assert found.read("filesystem/a/filesystem/b.txt") == b"inner folder of the same name"


def test_two_worlds_in_one_archive_are_ambiguous(tmp_path: Path) -> None:
    (tmp_path / "w.tar").write_bytes(tar_bytes({"w1/filesystem/a": b"", "w2/filesystem/a": b""}))
    assert fault_of(lambda: Snapshot.from_archive(tmp_path / "w.tar")) is Fault.AMBIGUOUS
    (tmp_path / "n.tar").write_bytes(tar_bytes({"home/a": b""}))
    assert fault_of(lambda: Snapshot.from_archive(tmp_path / "n.tar")) is Fault.NO_WORLD


def test_a_sandbox_tar_has_no_wrapping_folder() -> None:
    found = state({"filesystem/a": b"1", "wrapped/filesystem/b": b"2"})
    assert list(found.paths()) == ["filesystem/a"]
    assert found.ignored == 1


def test_contents_are_read_under_a_limit_and_hashed_without_one() -> None:
    found = state({"filesystem/big": b"x" * 3_000_000})
    with pytest.raises(Unreadable) as caught:
        found.read("filesystem/big", max_bytes=1000)
    assert caught.value.problem is Problem.TOO_BIG
    assert found.digest("filesystem/big") == hashlib.sha256(b"x" * 3_000_000).hexdigest()
    with found.open("filesystem/big") as stream:
        stream.seek(-2, os.SEEK_END)
        assert stream.read() == b"xx"


def test_hashing_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    info = tarfile.TarInfo("filesystem/big")
    info.size = 200 << 20
    path = tmp_path / "big.tar"
    with tarfile.open(path, "w") as tar, open("/dev/zero", "rb") as zeros:
        tar.addfile(info, zeros)
    with Snapshot.from_tar(path) as found:
        tracemalloc.start()
        found.digest("filesystem/big")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 8 << 20


# Links


def test_links_are_resolved_inside_the_snapshot_alone() -> None:
    found = state(
        [
            member("filesystem/real/a.txt", b"content"),
            member("filesystem/abs", kind=tarfile.SYMTYPE, link="/filesystem/real/a.txt"),
            member("filesystem/dir", kind=tarfile.SYMTYPE, link="real"),
            member(".apps_data/up", kind=tarfile.SYMTYPE, link="../filesystem/dir/a.txt"),
            member("filesystem/out", kind=tarfile.SYMTYPE, link="/etc/passwd"),
            member("filesystem/climb", kind=tarfile.SYMTYPE, link="../../../../etc/passwd"),
            member("filesystem/loop", kind=tarfile.SYMTYPE, link="loop"),
            member("filesystem/hard", kind=tarfile.LNKTYPE, link="filesystem/real/a.txt"),
        ]
    )
    for path in ("filesystem/abs", "filesystem/dir/a.txt", ".apps_data/up", "filesystem/hard"):
        assert found.read(path) == b"content"
    for path in ("filesystem/out", "filesystem/climb", "filesystem/loop", "filesystem/dir"):
        with pytest.raises(Unreadable) as caught:
            found.find(path)
        assert caught.value.problem is Problem.NOT_A_FILE
    assert found.entries["filesystem/hard"].kind is Kind.FILE


def test_a_link_in_a_world_folder_is_not_followed_to_the_host(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host")
    world = folder(tmp_path / "world", {"filesystem/a": b"a"})
    (world / "filesystem" / "link").symlink_to(secret)
    with pytest.raises(Unreadable):
        Snapshot.from_folders(world).read("filesystem/link")


def test_devices_and_fifos_are_no_files() -> None:
    found = state([member("filesystem/fifo", kind=tarfile.FIFOTYPE), member("filesystem/dev", kind=tarfile.CHRTYPE)])
    assert {entry.kind for entry in found.entries.values()} == {Kind.OTHER}
    with pytest.raises(Unreadable):
        found.read("filesystem/fifo")
