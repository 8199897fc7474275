"""Finding runs: the folders that were named, or every run below them. Used by `envkit view`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from envkit.failure import UserError

__all__ = ["find_runs", "is_run"]

#: How many levels below a named folder runs are looked for.
_DEPTH = 3
_MOST = 500


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's: it has `trials/` (also an empty one)."""
    return os.path.isdir(folder / "trials")  # no error where we may not look


def find_runs(folders: Iterable[Path]) -> dict[str, Path]:
    """Runs by a key that is unique among them and can stand in an address: the newest first within each folder named.

    Raises:
        UserError: A folder is not there, or no run is in it or below.
    """
    out: dict[str, Path] = {}
    for folder in folders:
        if not folder.exists():
            raise UserError(f"there is no {folder}; expected a run folder, as `envkit eval` writes it, or one above")
        found = [folder] if is_run(folder) else sorted(_below(folder, _DEPTH), key=_age)
        if not found:
            raise UserError(
                f"{folder} holds no run, nor does a folder below it (a run has a folder trials/); "
                "expected what `envkit eval` or `run` wrote"
            )
        for run in found[:_MOST]:
            resolved = run.resolve()
            if resolved not in out.values():
                out[_key(resolved, out)] = resolved
    return out


def _below(folder: Path, depth: int) -> Iterable[Path]:
    try:
        entries = sorted(e.path for e in os.scandir(folder) if e.is_dir(follow_symlinks=False))
    except OSError:
        return
    for path in map(Path, entries):
        if is_run(path):
            yield path
        elif depth > 1 and not path.name.startswith("."):
            yield from _below(path, depth - 1)


def _age(folder: Path) -> float:
    """For sorting: the newest first."""
    try:
        return -max((folder / name).stat().st_mtime for name in ("job.json", "trials") if (folder / name).exists())
    except (OSError, ValueError):
        return 0.0


def _key(folder: Path, taken: dict[str, Path]) -> str:
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in folder.name).strip(".") or "run"
    key, number = name, 2
    while key in taken:
        key, number = f"{name}~{number}", number + 1
    return key
