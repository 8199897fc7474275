"""Snapshots: archives that are broken or attack whoever reads them are refused."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import time
import warnings
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snapshot_states import fault_of, member, state, tar_bytes

from envkit.office.problem import Unreadable
from envkit.snapshot import (
    Fault,
    Limits,
    Snapshot,
    SnapshotError,
    shown,
    write_tar_gz,
    write_zip,
)


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


@pytest.mark.slow
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
