"""Files of attempts that ran elsewhere: whole and with the record last, or no record at all."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from envkit.failure import EnvkitError, FailureKind
from envkit.trial.ray_host import _pack
from envkit.trial.shipment import Shipment
from envkit.trial.store import RunStore


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    folder = tmp_path / "there" / "attempt-1"
    (folder / "logs" / "empty").mkdir(parents=True)
    (folder / "logs" / "stdout.log").write_text("hello\n")
    (folder / "logs" / "big.bin").write_bytes(os.urandom(300_000))
    (folder / "logs" / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "logs" / "pipe")
    (folder / "result.json").write_text('{"whole": true}')
    return folder


def ship(package: bytes, to: Path, sha256: str, piece: int = 65_536) -> None:
    with Shipment(to) as shipment:
        for start in range(0, len(package), piece):
            shipment.add(package[start : start + piece])
        shipment.unpack(sha256)


def tree(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def test_files_arrive_as_they_were_and_links_and_pipes_stay_behind(tmp_path: Path, attempt: Path) -> None:
    size, sha256 = _pack(attempt, tmp_path / "package.tar")
    here = tmp_path / "here" / "attempt-1"
    here.mkdir(parents=True)
    ship((tmp_path / "package.tar").read_bytes(), here, sha256)
    (attempt / "logs" / "link").unlink()
    (attempt / "logs" / "pipe").unlink()
    assert tree(here) == tree(attempt)
    assert size == (tmp_path / "package.tar").stat().st_size
    assert os.listdir(here.parent) == ["attempt-1"]  # nothing beside it


@pytest.mark.parametrize("damage", ["cut", "changed", "leads out"])
def test_a_damaged_package_leaves_no_record(tmp_path: Path, attempt: Path, damage: str) -> None:
    _, sha256 = _pack(attempt, tmp_path / "package.tar")
    package = (tmp_path / "package.tar").read_bytes()
    if damage == "cut":
        package = package[: len(package) // 2]
    elif damage == "changed":
        package = package[:1000] + b"x" + package[1001:]
    else:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name in ("result.json", "../../escaped"):
                tar.addfile(tarfile.TarInfo(name))
        package = buffer.getvalue()
        sha256 = hashlib.sha256(package).hexdigest()
    here = tmp_path / "here" / "attempt-1"
    here.mkdir(parents=True)
    with pytest.raises(EnvkitError) as caught:
        ship(package, here, sha256)
    assert caught.value.kind is FailureKind.TRIAL_DIED
    assert not (here / "result.json").exists()
    assert not (tmp_path / "escaped").exists()
    assert os.listdir(here.parent) == ["attempt-1"]


@pytest.mark.slow
def test_a_full_disk_is_said_and_leaves_no_record(tmp_path: Path, attempt: Path) -> None:
    _, sha256 = _pack(attempt, tmp_path / "package.tar")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)], check=True)
    try:
        here = disk / "attempt-1"
        here.mkdir()
        with pytest.raises(EnvkitError) as caught:
            ship((tmp_path / "package.tar").read_bytes(), here, sha256)
        assert caught.value.kind is FailureKind.DISK_FULL
        assert not (here / "result.json").exists()
        assert os.listdir(disk) == ["attempt-1"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_what_killed_writers_left_is_removed_by_the_next_job(tmp_path: Path) -> None:
    keep = ["job.json", "results.jsonl", "trials/t/result.json", "trials/t/attempt-1/result.json", "trials/t/.mine"]
    drop = [
        ".results.jsonl.123.tmp",
        "trials/t/.result.json.99.tmp",
        "trials/t/.attempt-2.tar",
        "trials/t/attempt-1/.verdict.json.7.tmp",
        "trials/t/attempt-1/artifacts/.changed.partial",
        "trials/t/attempt-1/artifacts/step-1/.manifest.json.7.tmp",
    ]
    for name in [*keep, *drop]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    RunStore(tmp_path).drop_partial()
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()) == sorted(keep)
