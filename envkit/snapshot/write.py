"""Writing snapshots in Archipelago's layout: `filesystem/<path>` and `.apps_data/<path>`, the same bytes for the same
state.

Files alone in a zip; files and symbolic links in a tar.gz. Empty folders, fifos and devices are lost in both, as they
are there. Members are streamed, sorted, with a fixed time; the executable bit is kept. A target appears only when it
is whole.
"""

from __future__ import annotations

import contextlib
import gzip
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from envkit.snapshot.names import shown
from envkit.snapshot.problem import Fault, SnapshotError
from envkit.snapshot.state import Entry, Kind, Snapshot

__all__ = ["write_tar_gz", "write_zip"]

_CHUNK = 1 << 20
#: The first moment that a zip can express.
_TIME = (1980, 1, 1, 0, 0, 0)
_REGULAR = 0o100000


def write_zip(snapshot: Snapshot, target: Path) -> None:
    """Writes the regular files as a zip, which is what graders are given.

    Raises:
        SnapshotError: UNWRITABLE: a name is not UTF-8, which a zip can't hold; or the source is broken.
        OSError: The target can't be written.
    """

    def fill(draft: Path) -> None:
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for entry in snapshot.entries.values():
                if entry.kind is not Kind.FILE:
                    continue
                try:
                    entry.path.encode("utf-8")
                except UnicodeEncodeError:
                    raise SnapshotError(
                        Fault.UNWRITABLE, f"a zip can't hold the name {shown(entry.path)!r}; write a tar.gz"
                    ) from None
                info = zipfile.ZipInfo(entry.path, _TIME)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.create_system = 3
                info.external_attr = (_REGULAR | _mode(entry)) << 16
                info.file_size = entry.size
                with snapshot.open(entry.path) as source, archive.open(info, "w") as sink:
                    shutil.copyfileobj(source, sink, _CHUNK)

    _whole(target, fill)


def write_tar_gz(snapshot: Snapshot, target: Path) -> None:
    """Writes files and symbolic links as a tar.gz, which is what the environment's own snapshots are.

    Raises:
        SnapshotError: The source is broken.
        OSError: The target can't be written.
    """

    def fill(draft: Path) -> None:
        with (
            draft.open("wb") as raw,
            gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
        ):
            for entry in snapshot.entries.values():
                info = tarfile.TarInfo(entry.path)
                info.mode = _mode(entry)
                if entry.kind is Kind.LINK:
                    info.type, info.linkname = tarfile.SYMTYPE, entry.target
                    tar.addfile(info)
                elif entry.kind is Kind.FILE:
                    info.size = entry.size
                    with snapshot.open(entry.path) as source:
                        tar.addfile(info, source)

    _whole(target, fill)


def _mode(entry: Entry) -> int:
    return 0o755 if entry.executable else 0o644


def _whole(target: Path, fill: Callable[[Path], None]) -> None:
    with _draft(target) as draft:
        fill(draft)
        draft.replace(target)


@contextlib.contextmanager
def _draft(target: Path) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile(prefix=f".{target.name}.", dir=target.parent, delete=False) as file:
        draft = Path(file.name)
    try:
        draft.chmod(0o644)
        yield draft
    finally:
        draft.unlink(missing_ok=True)
