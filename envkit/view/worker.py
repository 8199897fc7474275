"""The viewer's worker: a process of its own that reads files of worlds and of final states, and compares them.

Files are an agent's, and a task pack's code builds worlds; neither belongs into the process that serves pages, which
has threads besides, while parsing in confined children needs a caller that has none. Requests come as JSON, one a line,
on standard input, answers go out the same way; the process ends when its input does. Used by `files`.

    {"op": "file", "task": ..., "archive": ..., "path": "filesystem/memo.docx", "before": true, "after": true}
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import sys
import tarfile
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from envkit import plugins, registry
from envkit.failure import EnvkitError, UserError
from envkit.office.gate import MAX_FILE_BYTES
from envkit.office.parse import confined
from envkit.office.problem import Unreadable
from envkit.view.content import align, render

__all__ = ["main"]

_FINDINGS = 3_000


def main() -> int:
    """Answers until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # whatever a pack prints is no answer
    for line in sys.stdin:
        try:
            answer = _answer(json.loads(line))
        except EnvkitError as error:
            answer = {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - the capture point: one file's fault costs no other
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    if request["op"] == "raw":
        data, why = _side(request)
        if data is None:
            raise UserError(why or "there is no such file")
        target = Path(request["to"])
        target.write_bytes(data)
        return {"size": len(data)}
    if request["op"] != "file":
        raise UserError(f"no operation {request['op']!r}")
    path = request["path"]
    before, no_before = _before(request) if request.get("before", True) else (None, None)
    after, no_after = _after(request) if request.get("after", True) else (None, None)
    out: dict[str, Any] = {
        "path": path,
        "notes": [note for note in (no_before, no_after, _other_task(request)) if note],
        "before": None if before is None else _content(path, before),
        "after": None if after is None else _content(path, after),
        "findings": [],
    }
    if before is not None and after is not None:
        findings, note = _findings(path, before, after)
        out["findings"] = findings[:_FINDINGS]
        out["count"] = len(findings)
        out["notes"] += [note] if note else []
    sides = [out[side] for side in ("before", "after")]
    if any(side is not None and side.get("kind") == "lines" for side in sides):
        lines = [side["lines"] if side is not None and side.get("kind") == "lines" else [] for side in sides]
        out["rows"] = align(*lines)
    return out


def _side(request: dict[str, Any]) -> tuple[bytes | None, str | None]:
    return _before(request) if request.get("side") == "before" else _after(request)


def _before(request: dict[str, Any]) -> tuple[bytes | None, str | None]:
    """The file as it was in the initial world, and why not where there is no telling."""
    folder, why, _ = _world(request["task"])
    if folder is None:
        return None, why
    place = Path(folder, *_parts(request["path"]))
    if place.is_symlink() or not place.is_file() or not place.resolve().is_relative_to(Path(folder).resolve()):
        return None, None
    if place.stat().st_size > MAX_FILE_BYTES:
        return None, f"the file before has {place.stat().st_size:,} bytes; at most {MAX_FILE_BYTES:,} are shown"
    return place.read_bytes(), None


def _after(request: dict[str, Any]) -> tuple[bytes | None, str | None]:
    """The file as the agent left it, read from the archive and never unpacked under its own name."""
    path = "/".join(_parts(request["path"]))
    with tarfile.open(request["archive"], "r:gz") as archive:
        for member in archive:
            if member.name.rstrip("/") != path:
                continue
            if member.issym() or member.islnk():
                return None, f"it is a link to {member.linkname}"
            if not member.isreg():
                return None, "it is no regular file"
            if member.size > MAX_FILE_BYTES:
                return None, f"the file has {member.size:,} bytes; at most {MAX_FILE_BYTES:,} are shown"
            stream = archive.extractfile(member)
            return (stream.read() if stream is not None else None), None
    return None, None


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if parts[0] not in ("filesystem", ".apps_data") or any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise UserError(f"{path!r} is no path of a world")
    return parts


@lru_cache(maxsize=64)
def _world(task: str) -> tuple[str | None, str | None, str | None]:
    """The initial world's folder, or why it is not to be had, and the task's digest."""
    try:
        pack, found = registry.find(task)
        folder = pack.world(found)
    except (EnvkitError, OSError) as error:
        return None, f"the files before are not to be had, since the task's world is not: {error}", None
    return (str(folder), None, found.digest) if folder is not None else (None, None, found.digest)


def _other_task(request: dict[str, Any]) -> str | None:
    digest, ran = _world(request["task"])[2], request.get("digest")
    if digest is None or not ran or digest == ran:
        return None
    return "the task is another today than the one that was run: the files before may differ from what the agent saw"


def _content(path: str, data: bytes) -> dict[str, Any]:
    try:
        return {"size": len(data), **confined(lambda: render(path, data))}
    except (Unreadable, ImportError) as error:
        return {"size": len(data), "kind": "none", "why": str(error)}


def _findings(path: str, before: bytes, after: bytes) -> tuple[list[dict[str, Any]], str | None]:
    """What `envkit diff` finds, where that is installed: the command is a wing's, found by its name."""
    if "diff" not in plugins.names("commands"):
        return [], "no command `diff` is installed; the two sides are shown without findings"
    command = plugins.resolve("commands", "diff")
    suffix = re.sub(r"[^a-z0-9]", "", path.rsplit("/", 1)[-1].rpartition(".")[2].lower())[:10] or "bin"
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    with tempfile.TemporaryDirectory(prefix="envkit-view-") as scratch:
        places = []
        for side, data in (("before", before), ("after", after)):
            place = Path(scratch, side, f"file.{suffix}")
            place.parent.mkdir()
            place.write_bytes(data)
            places.append(str(place))
        told = io.StringIO()
        try:
            with contextlib.redirect_stdout(told):
                command.run(parser.parse_args([*places, "--json"]))
            found = json.loads(told.getvalue())
        except (EnvkitError, ValueError, ImportError) as error:
            return [], f"the two could not be compared: {error}"
    return [f for f in found if isinstance(f, dict)], None


if __name__ == "__main__":
    sys.exit(main())
