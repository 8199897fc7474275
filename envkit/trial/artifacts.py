"""Artifacts: what an agent changed, as one small archive beside the verdict.

`changed.tar.gz` holds the files (and links and folders) of the final state that differ from the initial world or are
new, `manifest.json` names what was deleted. Initial world plus artifacts gives the final state again, enough to verify
it anew. The final state is an agent's work: members are read from its tar and written to another, never extracted.
"""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from envkit.trial.store import disk_error, write_atomic

__all__ = ["StepEnd", "earlier_steps", "rebuild", "write_artifacts", "write_step"]

_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How an earlier step of a task ended.

    Attributes:
        name: The step's.
        folder: With the artifacts of its final state.
        final_answer: As given then.
        turns: How many messages the model had said by then.
    """

    name: str
    folder: Path
    final_answer: str | None
    turns: int


def write_artifacts(final: Path, initial: Path | None, folder: Path) -> dict[str, Any]:
    """Writes `changed.tar.gz` and `manifest.json` into `folder` and returns the manifest.

    Args:
        final: The final state's tar.
        initial: The initial world's folder; None where there was none, and everything is new.

    Raises:
        EnvkitError: `DISK_FULL`.
        tarfile.TarError: The final state's tar can't be read.
    """
    before = set(_entries(initial)) if initial is not None else set()
    changed: list[dict[str, Any]] = []
    seen: set[str] = set()
    target = folder / "changed.tar.gz"
    partial = folder / ".changed.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            partial.open("wb") as raw,
            # No time and no name in the header: equal states give equal bytes.
            gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=1, mtime=0) as packed,
            tarfile.open(final, "r:") as source,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as out,
        ):
            for member in source:
                name = member.name.rstrip("/")
                seen.add(name)
                if _same(source, member, initial, name, name in before):
                    continue
                out.addfile(member, source.extractfile(member) if member.isreg() else None)
                changed.append({"path": name, "type": _type(member), "size": member.size, "new": name not in before})
        os.replace(partial, target)
        manifest = {"schema_version": 1, "changed": changed, "deleted": sorted(before - seen)}
        write_atomic(folder / "manifest.json", json.dumps(manifest, indent=1), durable=False)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise disk_error(error, target) from error
    return manifest


def write_step(final: Path, initial: Path | None, end: StepEnd) -> None:
    """Writes the artifacts of a step that others follow, and how it ended, into its folder (`step-N` below that of the
    last one's artifacts). Raises as `write_artifacts`."""
    write_artifacts(final, initial, end.folder)
    told = {"schema_version": 1, "name": end.name, "final_answer": end.final_answer, "turns": end.turns}
    write_atomic(end.folder / "step.json", json.dumps(told, indent=1), durable=False)


def earlier_steps(folder: Path) -> list[StepEnd]:
    """The steps before the one whose artifacts lie in `folder` itself, in order; none for a task of one step."""
    out: list[StepEnd] = []
    while (place := folder / f"step-{len(out) + 1}" / "step.json").is_file():
        told = json.loads(place.read_bytes())
        out.append(StepEnd(told["name"], place.parent, told["final_answer"], told["turns"]))
    return out


def rebuild(initial: Path | None, folder: Path, to: Path) -> None:
    """Writes the final state's tar again, from the initial world and the artifacts in `folder`."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    replaced = set(manifest["deleted"]) | {entry["path"] for entry in manifest["changed"]}
    with tarfile.open(to, "w", format=tarfile.PAX_FORMAT) as out, tarfile.open(folder / "changed.tar.gz") as changed:
        if initial is not None:
            for name in _entries(initial):
                if name not in replaced:
                    out.add(initial / name, arcname=name, recursive=False)
        for member in changed:
            out.addfile(member, changed.extractfile(member) if member.isreg() else None)


def _entries(root: Path) -> Iterator[str]:
    """Every entry of the two trees of a world, relative and sorted; links are not followed."""
    for tree in (".apps_data", "filesystem"):
        if not (root / tree).is_dir():
            continue
        yield tree
        for folder, folders, files in os.walk(root / tree):
            folders.sort()
            base = os.path.relpath(folder, root)
            for name in sorted([*folders, *files]):
                yield f"{base}/{name}"


def _same(source: tarfile.TarFile, member: tarfile.TarInfo, initial: Path | None, name: str, known: bool) -> bool:
    """Whether a member of the final state is as it was at the start. Times and owners don't count; content does."""
    if initial is None or not known:
        return False
    path = initial / name
    if member.isdir():
        return path.is_dir() and not path.is_symlink()
    if member.issym():
        return path.is_symlink() and os.readlink(path) == member.linkname
    if not member.isreg() or path.is_symlink() or not path.is_file():
        return False
    status = path.stat()
    if status.st_size != member.size or bool(status.st_mode & 0o100) != bool(member.mode & 0o100):
        return False
    stream = source.extractfile(member)
    assert stream is not None
    with path.open("rb") as file:
        return _equal(stream, file)


def _equal(left: IO[bytes], right: IO[bytes]) -> bool:
    while True:
        a, b = left.read(_CHUNK), right.read(_CHUNK)
        if a != b:
            return False
        if not a:
            return True


def _type(member: tarfile.TarInfo) -> str:
    if member.isdir():
        return "folder"
    if member.issym() or member.islnk():
        return "link"
    return "file" if member.isreg() else "other"
