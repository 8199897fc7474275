"""States and archives to test snapshots with."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from envkit.snapshot import (
    Fault,
    Snapshot,
    SnapshotError,
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
