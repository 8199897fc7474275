"""Worlds out of the published zips, kept by content: each zip is unpacked once, and a task's own files are laid over it
without copying what doesn't change.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from envkit.failure import UserError
from envkit.home import envkit_home
from envkit.snapshot import ROOTS, Kind, Limits, Snapshot, SnapshotError
from envkit.worlds import build_world

__all__ = ["overlaid_world", "unpacked_world"]

#: A published world has about 170 files and 600 MB.
_LIMITS = Limits(total_mb=64 << 10)
_CHUNK = 1 << 20


def unpacked_world(archive: Path) -> Path:
    """The world of an archive (zip, tar, tar.gz), as a stored folder. Raises `UserError` for one that is broken or
    hostile."""

    def unpack(target: Path) -> None:
        for part in ROOTS:
            (target / part).mkdir()
        try:
            with Snapshot.from_archive(archive, _LIMITS) as world:
                for path in sorted(world.folders):
                    _place(target, path).mkdir(parents=True, exist_ok=True)
                for entry in world.entries.values():
                    if entry.kind is Kind.FILE:
                        place = _place(target, entry.path)
                        with world.open(entry.path) as content, place.open("wb") as sink:
                            shutil.copyfileobj(content, sink, _CHUNK)
                        if entry.executable:
                            place.chmod(0o755)
        except SnapshotError as error:
            raise UserError(f"the world {archive} can't be used: {error}; fetch it again") from error

    return build_world(f"apex-world-{_digest(archive)[:32]}", unpack)


def overlaid_world(world: Path, overlay: Mapping[str, Path], label: str) -> Path:
    """A world with a task's own files laid over it, as a stored folder. Files that stay are the stored world's own
    (hard links: both are read-only).

    Args:
        overlay: `filesystem/...` or `.apps_data/...` -> the file.

    Raises:
        UserError: A path is neither, or leads out of its tree.
    """
    for path in overlay:
        if path.split("/", 1)[0] not in ROOTS or ".." in path.split("/") or "/" not in path:
            raise UserError(f"{label} lays {path!r} over its world; expected filesystem/... or .apps_data/...")
    content = hashlib.sha256(world.name.encode())
    for path, file in sorted(overlay.items()):
        content.update(f"\n{path}\0{_digest(file)}".encode("utf-8", "surrogateescape"))

    def merge(target: Path) -> None:
        for part in ROOTS:
            (target / part).mkdir()
        for folder, folders, names in os.walk(world):
            inner = target / Path(folder).relative_to(world)
            for name in folders:
                (inner / name).mkdir(exist_ok=True)
            for name in names:
                _link(Path(folder, name), inner / name)
        for path, file in sorted(overlay.items()):
            place = _place(target, path)
            for parent in reversed(place.relative_to(target).parents):
                if (target / parent).is_file():
                    (target / parent).unlink()  # a folder in place of a file
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.is_dir():
                shutil.rmtree(place)
            place.unlink(missing_ok=True)  # it may be the stored world's own file: never write into it
            shutil.copyfile(file, place)

    return build_world(f"apex-world-{content.hexdigest()[:32]}", merge)


def _place(target: Path, path: str) -> Path:
    return target / os.fsdecode(path.encode("utf-8", "surrogateescape"))


def _link(source: Path, place: Path) -> None:
    try:
        os.link(source, place)
    except OSError:  # another file system, or no more links
        shutil.copy(source, place)


def _digest(path: Path) -> str:
    """SHA-256 of a file, remembered by what the file system says of it, as worlds are large."""
    found = path.stat()
    facts = repr((str(path.resolve()), found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns))
    memo = envkit_home() / "apex" / "digests" / hashlib.sha256(facts.encode("utf-8", "surrogateescape")).hexdigest()
    with contextlib.suppress(OSError):
        known = memo.read_text(encoding="ascii")
        if len(known) == 64:
            return known
    total = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_CHUNK):
            total.update(block)
    with contextlib.suppress(OSError):  # only a memory
        memo.parent.mkdir(parents=True, exist_ok=True)
        draft = memo.with_name(f".{memo.name}.{os.getpid()}")
        draft.write_text(total.hexdigest(), encoding="ascii")
        os.replace(draft, memo)
    return total.hexdigest()
