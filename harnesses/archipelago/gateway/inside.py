"""Runs inside the sandbox: moves an unpacked archive from where it was staged into its place. Python 3.8 or newer."""

from __future__ import annotations

import os
import shutil
import stat
from typing import Any

__all__ = ["discard", "merge"]


def merge(stage: str, target: str) -> dict[str, Any]:
    """Moves everything below `stage` over what is below `target`. First looks whether that can be done, then does it:
    a file never takes the place of a folder that holds something, and nothing is written through a link."""
    os.makedirs(target, exist_ok=True)
    moves: list[tuple[str | None, str]] = []
    for folder, folders, files in os.walk(stage):
        inner = os.path.relpath(folder, stage)
        for name in sorted(folders):
            path = os.path.normpath(os.path.join(target, inner, name))
            if os.path.islink(os.path.join(folder, name)):
                files.append(name)
            elif os.path.lexists(path) and not stat.S_ISDIR(os.lstat(path).st_mode):
                return {"error": "a folder of the archive is a file or a link here: " + path}
            else:
                moves.append((None, path))
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(folder, name))]
        for name in sorted(files):
            path = os.path.normpath(os.path.join(target, inner, name))
            if os.path.lexists(path) and stat.S_ISDIR(os.lstat(path).st_mode):
                return {"error": "a file of the archive is a folder here: " + path}
            moves.append((os.path.join(folder, name), path))
    for source, path in moves:
        if source is None:
            os.makedirs(path, exist_ok=True)
        else:
            os.replace(source, path)
    shutil.rmtree(stage, ignore_errors=True)
    return {"error": None}


def discard(stage: str) -> None:
    """Removes what was staged."""
    shutil.rmtree(stage, ignore_errors=True)
