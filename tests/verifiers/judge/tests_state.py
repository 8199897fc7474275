"""States on disk for the judge's tests."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def write_world(root: Path, files: Mapping[str, bytes]) -> Path:
    (root / "filesystem").mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root
