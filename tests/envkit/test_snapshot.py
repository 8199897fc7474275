"""Snapshots: what is read, what is refused, what changed, and what survives writing and reading again."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envkit.office.problem import Problem, Unreadable
from envkit.snapshot import (
    Changes,
    Fault,
    Kind,
    Limits,
    Rename,
    Snapshot,
    SnapshotError,
    changes,
    shown,
    write_tar_gz,
    write_zip,
)

Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, data: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    info.size = len(data) if kind == tarfile.REGTYPE else 0
    return info, data


def tar_bytes(members: Iterable[Member] | Mapping[str, bytes]) -> bytes:
    pairs = [member(n, d) for n, d in members.items()] if isinstance(members, Mapping) else list(members)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for info, data in pairs:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def state(files: Iterable[Member] | Mapping[str, bytes]) -> Snapshot:
    return Snapshot.from_tar(io.BytesIO(tar_bytes(files)))


def folder(root: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def fault_of(make: Callable[[], object]) -> Fault:
    with pytest.raises(SnapshotError) as caught:
        make()
    return caught.value.fault


# Reading


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


# Hostile archives


@pytest.mark.parametrize("name", ["/filesystem/a", "filesystem/../../etc/x", "../filesystem/a", "a/../filesystem/b"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    assert fault_of(lambda: state({name: b""})) is Fault.HOSTILE_NAME
    with zipfile.ZipFile(tmp_path / "w.zip", "w") as archive:
        archive.writestr(name, b"")
    assert fault_of(lambda: Snapshot.from_archive(tmp_path / "w.zip")) is Fault.HOSTILE_NAME


@pytest.mark.parametrize(
    "names",
    [
        ["filesystem/a", "filesystem/a"],
        ["filesystem/a", "./filesystem//a"],
        ["filesystem/a", "filesystem/a/b"],
        ["filesystem/a/b", "filesystem/a"],
    ],
)
def test_a_path_twice_is_refused(tmp_path: Path, names: list[str]) -> None:
    assert fault_of(lambda: state([member(name, b"x") for name in names])) is Fault.DUPLICATE
    path = tmp_path / "w.zip"
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings(action="ignore"):
        for name in names:
            archive.writestr(name, b"")
    assert fault_of(lambda: Snapshot.from_archive(path)) is Fault.DUPLICATE


def test_a_folder_may_be_listed_twice() -> None:
    found = state([member("filesystem", kind=tarfile.DIRTYPE), member("filesystem/", kind=tarfile.DIRTYPE)])
    assert found.folders == {"filesystem"}


@pytest.mark.parametrize("cut", [100, 512, 700, 1024 + 512])
def test_a_torn_tar_is_refused(cut: int) -> None:
    whole = tar_bytes({"filesystem/a": b"x" * 600})
    assert fault_of(lambda: Snapshot.from_tar(io.BytesIO(whole[:cut]))) is Fault.CORRUPT


def test_a_cut_off_or_broken_gzip_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(tar_bytes({"filesystem/a": os.urandom(5000)}))
    for damaged in (packed[:-20], packed[:2000] + b"\0\0\0" + packed[2003:]):
        (tmp_path / "w.tar.gz").write_bytes(damaged)
        assert fault_of(lambda: Snapshot.from_archive(tmp_path / "w.tar.gz")) is Fault.CORRUPT


@pytest.mark.parametrize("extra", [-1, 0, 1, 1 << 20])
def test_a_gzip_is_unpacked_whole_at_any_length(tmp_path: Path, extra: int) -> None:
    content = b"abc" * ((1 << 20) // 3)
    data = tar_bytes({"filesystem/a": content + b"z" * (2048 + extra)})
    (tmp_path / "one.tar.gz").write_bytes(gzip.compress(data) + bytes(700))
    (tmp_path / "two.tar.gz").write_bytes(gzip.compress(data[:5000]) + gzip.compress(data[5000:]))
    for name in ("one.tar.gz", "two.tar.gz"):
        with Snapshot.from_archive(tmp_path / name) as found:
            assert found.read("filesystem/a") == content + b"z" * (2048 + extra)


def test_bombs_are_refused_before_they_unpack(tmp_path: Path) -> None:
    limits = Limits(total_mb=40, ratio=100, ratio_from_mb=4)
    with zipfile.ZipFile(tmp_path / "ratio.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("filesystem/zeros", bytes(8 << 20))
    with zipfile.ZipFile(tmp_path / "total.zip", "w", zipfile.ZIP_STORED) as archive:
        for number in range(5):
            archive.writestr(f"filesystem/{number}", bytes(9 << 20))
    (tmp_path / "ratio.tar.gz").write_bytes(gzip.compress(tar_bytes({"filesystem/zeros": bytes(8 << 20)})))
    for name in ("ratio.zip", "total.zip", "ratio.tar.gz"):
        with pytest.raises(SnapshotError) as caught:
            Snapshot.from_archive(tmp_path / name, limits)
        assert caught.value.fault is Fault.BOMB


def test_too_many_members_are_refused() -> None:
    data = tar_bytes({f"filesystem/{number}": b"" for number in range(11)})
    assert fault_of(lambda: Snapshot.from_tar(io.BytesIO(data), Limits(members=10))) is Fault.TOO_MANY


def test_a_header_that_asks_for_memory_is_refused() -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 64 << 20
    data = info.tobuf(tarfile.GNU_FORMAT) + bytes(64 << 20) + tar_bytes({"filesystem/a": b""})
    assert fault_of(lambda: Snapshot.from_tar(io.BytesIO(data))) is Fault.BOMB


def test_a_zip_whose_directory_lies_is_found_out_on_reading(tmp_path: Path) -> None:
    path = tmp_path / "w.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("filesystem/a", b"the true content")
    path.write_bytes(path.read_bytes().replace(b"the true content", b"another content!"))
    with Snapshot.from_archive(path) as found:
        assert fault_of(lambda: found.read("filesystem/a")) is Fault.CORRUPT
        assert fault_of(lambda: found.digest("filesystem/a")) is Fault.CORRUPT


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("filesystem/a", b"data")
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    assert fault_of(lambda: Snapshot.from_archive(path)) is Fault.ENCRYPTED


def plain_header(name: bytes, template: bytes = tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT)) -> bytes:
    block = bytearray(template)
    block[: len(name)] = name
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_members_are_read_in_seconds(count: int) -> None:
    data = b"".join(plain_header(b"filesystem/folder%d/file%d.txt" % (n % 1000, n)) for n in range(count))
    begun = time.process_time()
    found = Snapshot.from_tar(io.BytesIO(data + bytes(1024)))
    assert len(found.entries) == count
    assert time.process_time() - begun < 15  # of processor time; on an idle machine some two for the larger one


def test_a_sparse_member_is_refused() -> None:
    info = tarfile.TarInfo("filesystem/a")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.name": "filesystem/b", "GNU.sparse.realsize": "99999999"}
    data = info.tobuf(tarfile.PAX_FORMAT) + bytes(1024)
    assert fault_of(lambda: Snapshot.from_tar(io.BytesIO(data))) is Fault.CORRUPT


NAMES = st.text(st.sampled_from("ab é漢\\\n\udcff"), min_size=1, max_size=12).filter(lambda n: n.strip("."))


@given(
    st.dictionaries(NAMES, st.binary(max_size=1200), max_size=6),
    st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    st.integers(0, 240),
)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_tars_of_every_format_are_read_as_the_standard_library_reads_them(
    files: dict[str, bytes], form: int, depth: int
) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as tar:
        for name, data in files.items():
            folders = ["d" * (depth // 2), "e" * (depth // 2)] if depth > 1 else []
            info = tarfile.TarInfo("/".join(["filesystem", *folders, name]))
            info.size = len(data)
            try:
                tar.addfile(info, io.BytesIO(data))
            except ValueError:
                return  # ustar can't hold the name
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as tar:
        members = [(member.name, tar.extractfile(member)) for member in tar]
        expected = {name: stream.read() for name, stream in members if stream is not None}
    found = Snapshot.from_tar(io.BytesIO(out.getvalue()))
    assert {path: found.read(path) for path in found.paths()} == expected


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_tar_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    whole = bytearray(tar_bytes({"filesystem/a": b"x" * 700, "filesystem/" + "b" * 150: b"y", ".apps_data/c": b""}))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = Snapshot.from_tar(io.BytesIO(bytes(whole[: data.draw(st.integers(0, len(whole)))])))
        for path in found.paths():
            found.digest(path)
    except (SnapshotError, Unreadable):
        pass


def test_names_that_are_not_utf8_stay_apart_and_can_be_shown(tmp_path: Path) -> None:
    bad = b"filesystem/\xff\xfe.txt".decode("utf-8", "surrogateescape")
    found = state([member(bad, b"1"), member("filesystem/ÿ.txt", b"2")])
    assert {found.read(path) for path in found.paths()} == {b"1", b"2"}
    assert shown(bad) == r"filesystem/\xff\xfe.txt"
    assert shown("a\nb") == r"a\nb"
    write_tar_gz(found, tmp_path / "w.tar.gz")
    with Snapshot.from_archive(tmp_path / "w.tar.gz") as again:
        assert again.content_id() == found.content_id()
    assert fault_of(lambda: write_zip(found, tmp_path / "w.zip")) is Fault.UNWRITABLE
    assert not (tmp_path / "w.zip").exists()


def test_raw_utf8_names_of_a_zip_without_the_flag_are_read(tmp_path: Path) -> None:
    path = tmp_path / "w.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("filesystem/Muxxller.txt", b"x")
    path.write_bytes(path.read_bytes().replace(b"Muxxller", "Müxller".encode()))
    with Snapshot.from_archive(path) as found:
        assert list(found.paths()) == ["filesystem/Müxller.txt"]


# Changes


def test_a_change_of_the_same_size_is_found() -> None:
    found = changes(state({"filesystem/a.docx": b"12.4"}), state({"filesystem/a.docx": b"12.5"}))
    assert found == Changes(modified=("filesystem/a.docx",))


def test_created_deleted_modified_and_renamed() -> None:
    before = {"filesystem/keep": b"k", "filesystem/old.txt": b"moved", "filesystem/gone": b"g", "filesystem/m": b"1"}
    after = {
        "filesystem/keep": b"k",
        "filesystem/new/old.txt": b"moved",
        "filesystem/fresh": b"f",
        "filesystem/m": b"2",
    }
    found = changes(state(before), state(after))
    assert found.created == ("filesystem/fresh",)
    assert found.deleted == ("filesystem/gone",)
    assert found.modified == ("filesystem/m",)
    assert found.renamed == (Rename("filesystem/old.txt", "filesystem/new/old.txt"),)
    assert found.created_folders == ("filesystem/new",)
    assert found.outputs == ("filesystem/fresh", "filesystem/m", "filesystem/new/old.txt")


def test_renames_are_paired_by_name_then_folder_then_order() -> None:
    before = {"filesystem/a/x": b"same", "filesystem/b/y": b"same", "filesystem/c/z": b"same"}
    after = {"filesystem/q/z": b"same", "filesystem/b/w": b"same", "filesystem/p/v": b"same", "filesystem/r/u": b"same"}
    found = changes(state(before), state(after))
    assert found.renamed == (
        Rename("filesystem/a/x", "filesystem/p/v"),
        Rename("filesystem/b/y", "filesystem/b/w"),
        Rename("filesystem/c/z", "filesystem/q/z"),
    )
    assert found.created == ("filesystem/r/u",)


def test_empty_files_and_folders() -> None:
    before = [member("filesystem/empty1"), member("filesystem/d", kind=tarfile.DIRTYPE)]
    after = [member("filesystem/empty2"), member("filesystem/e", kind=tarfile.DIRTYPE)]
    found = changes(state(before), state(after))
    assert (found.created, found.deleted, found.renamed) == (("filesystem/empty2",), ("filesystem/empty1",), ())
    assert (found.created_folders, found.deleted_folders) == (("filesystem/e",), ("filesystem/d",))
    assert not changes(state(before[1:]), state(after[1:]))


def test_a_file_that_became_a_link_is_modified_and_modes_are_not() -> None:
    before = [member("filesystem/a", b"x"), member("filesystem/b", b"x", mode=0o644)]
    after = [member("filesystem/a", kind=tarfile.SYMTYPE, link="b"), member("filesystem/b", b"x", mode=0o755)]
    assert changes(state(before), state(after)).modified == ("filesystem/a",)


def test_without_an_initial_state_everything_is_created() -> None:
    assert changes(None, state({"filesystem/a": b"x"})) == Changes(
        created=("filesystem/a",), created_folders=("filesystem",)
    )


PATHS = st.sampled_from([f"filesystem/{d}{n}" for d in ("", "d/", "e/") for n in ("a", "b", "c.txt")])
STATES = st.dictionaries(PATHS, st.sampled_from([b"", b"1", b"2", b"22"]), max_size=7)


@given(STATES, STATES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_changes_explain_the_difference_whole_and_mirror(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    first, last = state(before), state(after)
    there, back = changes(first, last), changes(last, first)
    rebuilt = {p: d for p, d in before.items() if p not in there.deleted}
    for rename in there.renamed:
        rebuilt[rename.new] = rebuilt.pop(rename.old)
    assert all(after[p] != before[p] for p in there.modified)
    rebuilt |= {p: after[p] for p in (*there.created, *there.modified)}
    assert rebuilt == after
    assert (back.created, back.deleted, back.modified) == (there.deleted, there.created, there.modified)
    assert sorted((r.new, r.old) for r in back.renamed) == sorted((r.old, r.new) for r in there.renamed)
    assert bool(there) == (before != after)


# Writing


def test_both_layouts_survive_and_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    world = folder(tmp_path / "world", {"filesystem/ä/run.sh": b"#!", "filesystem/b.bin": os.urandom(3 << 20)})
    (world / "filesystem/ä/run.sh").chmod(0o755)
    (world / "filesystem/link").symlink_to("b.bin")
    (world / "filesystem/hollow").mkdir()
    first = Snapshot.from_folders(world)
    for name, write in (("w.zip", write_zip), ("w.tar.gz", write_tar_gz)):
        write(first, tmp_path / name)
        once = (tmp_path / name).read_bytes()
        write(first, tmp_path / name)
        assert (tmp_path / name).read_bytes() == once
        with Snapshot.from_archive(tmp_path / name) as again:
            expected = ["filesystem/b.bin", *(["filesystem/link"] if name == "w.tar.gz" else []), "filesystem/ä/run.sh"]
            assert list(again.paths()) == expected
            assert again.digest("filesystem/b.bin") == first.digest("filesystem/b.bin")
            assert again.entries["filesystem/ä/run.sh"].executable
            assert not changes(first, again).created
    with zipfile.ZipFile(tmp_path / "w.zip") as archive:
        assert sorted(archive.namelist()) == ["filesystem/b.bin", "filesystem/ä/run.sh"]
        assert stat.S_IMODE(archive.getinfo("filesystem/ä/run.sh").external_attr >> 16) == 0o755


def test_zip_links_of_other_programs_are_links(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("filesystem/link")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "w.zip", "w") as archive:
        archive.writestr("filesystem/a", b"content")
        archive.writestr(info, "a")
    with Snapshot.from_archive(tmp_path / "w.zip") as found:
        assert found.entries["filesystem/link"].kind is Kind.LINK
        assert found.read("filesystem/link") == b"content"
