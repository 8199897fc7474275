"""Files that an attempt changed: what they are from its manifest, and each one's two sides from the worker.

The worker is started when first asked, asked one thing at a time, and ended and started anew where it does not answer
in time. Its last answers are kept. Used by the viewer's pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from envkit.failure import EnvkitError
from envkit.view.index import listed, load_json

__all__ = ["FileReader", "changed_files", "states"]

_TIMEOUT_S = 300.0
_ANSWER_BYTES = 512 << 20
_KEPT = 12
_MOST = 5_000


def states(attempt: Path) -> list[dict[str, Any]]:
    """The final states that were kept, one a step, the last one last: `key` names it in addresses."""
    root = attempt / "artifacts"
    out = []
    number = 1
    while (root / f"step-{number}" / "manifest.json").is_file() and not (root / f"step-{number}").is_symlink():
        told = load_json(root / f"step-{number}" / "step.json") or {}
        out.append({"key": f"step-{number}", "name": str(told.get("name") or f"step {number}")})
        number += 1
    if (root / "manifest.json").is_file():
        out.append({"key": "", "name": "final state"})
    return out


def changed_files(attempt: Path, state: str = "") -> dict[str, Any]:
    """What changed, by path; a file whose path can't stand in an address has a `key` for it.

    Raises:
        FileNotFoundError: No such state was kept.
    """
    folder = _state_folder(attempt, state)
    manifest = load_json(folder / "manifest.json")
    if manifest is None:
        raise FileNotFoundError(f"{folder / 'manifest.json'} can't be read")
    files: list[dict[str, Any]] = [
        {
            "path": str(entry.get("path")),
            "type": str(entry.get("type")),
            "size": entry.get("size"),
            "change": "added" if entry.get("new") else "changed",
        }
        for entry in listed(manifest, "changed")
        if isinstance(entry, dict)
    ]
    files += [{"path": str(p), "type": "file", "size": None, "change": "removed"} for p in listed(manifest, "deleted")]
    for file in files:
        if (key := _key(file["path"])) is not None:
            file["key"] = key
    # What people work on before the state of apps.
    files.sort(key=lambda f: (f["type"] == "folder", not f["path"].startswith("filesystem/"), f["path"]))
    return {"states": states(attempt), "state": state, "files": files[:_MOST], "count": len(files)}


def _key(path: str) -> str | None:
    """What names a file in an address where its path can't: an address has no halves of surrogate pairs, by which a
    name that is no text stands in JSON. Begins with a slash, as no path does."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "/" + quote(path.encode("utf-8", "surrogatepass"))
    return None


def _state_folder(attempt: Path, state: str) -> Path:
    if state not in {known["key"] for known in states(attempt)}:
        raise FileNotFoundError(f"no state {state!r} was kept")
    return attempt / "artifacts" / state if state else attempt / "artifacts"


class FileReader:
    """Asks the worker. For one event loop."""

    def __init__(self, timeout_s: float = _TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._answers: OrderedDict[tuple[Any, ...], dict[str, Any]] = OrderedDict()

    async def file(self, attempt: Path, state: str, path: str, task: str, digest: str | None) -> dict[str, Any]:
        """Both sides of a changed file, by its path or key, with the findings.

        Raises:
            FileNotFoundError: It is not among the changed ones.
            EnvkitError: The worker found no answer, or the archive is no file.
        """
        entry, archive = self._entry(attempt, state, path)
        path = entry["path"]
        status = archive.stat() if archive.is_file() else None
        key = (str(archive), path, task, status.st_mtime_ns if status else 0)
        if key in self._answers:
            self._answers.move_to_end(key)
            return self._answers[key]
        request = {
            "op": "file",
            "task": task,
            "digest": digest,
            "archive": str(archive),
            "path": path,
            "before": entry["change"] != "added",
            "after": entry["change"] != "removed",
        }
        answer = {**await self._ask(request), "change": entry["change"]}
        self._answers[key] = answer
        while len(self._answers) > _KEPT:
            self._answers.popitem(last=False)
        return answer

    async def raw(self, attempt: Path, state: str, path: str, task: str, side: str) -> bytes:
        """One side's bytes. Raises as `file`."""
        entry, archive = self._entry(attempt, state, path)
        with tempfile.NamedTemporaryFile(prefix="envkit-view-") as target:
            asked = {"op": "raw", "task": task, "archive": str(archive), "path": entry["path"]}
            asked |= {"side": side, "to": target.name}
            await self._ask(asked)
            return await asyncio.to_thread(Path(target.name).read_bytes)

    async def close(self) -> None:
        """Ends the worker."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _entry(self, attempt: Path, state: str, path: str) -> tuple[dict[str, Any], Path]:
        found = next((f for f in changed_files(attempt, state)["files"] if path in (f["path"], f.get("key"))), None)
        if found is None:
            raise FileNotFoundError(f"{path!r} is not among the files that changed")
        archive = _state_folder(attempt, state) / "changed.tar.gz"
        if archive.is_symlink() or (archive.exists() and not archive.is_file()):
            raise EnvkitError(f"{archive} is no regular file")
        return found, archive

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        async with self._lock:
            try:
                async with asyncio.timeout(self._timeout_s):
                    answer = await self._answer(request)
            except TimeoutError:
                await self.close()
                raise EnvkitError(f"reading the file was given up after {self._timeout_s:g} s") from None
            except (BrokenPipeError, ConnectionResetError, ValueError) as error:
                await self.close()
                raise EnvkitError(f"the process that reads files died: {error}") from error
            except asyncio.CancelledError:
                await self.close()  # its answer would be taken for the next one's
                raise
        if "error" in answer:
            raise EnvkitError(str(answer["error"]))
        return answer

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "envkit.view.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_ANSWER_BYTES,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        if not line:
            raise ConnectionResetError("it ended without an answer")
        found: dict[str, Any] = json.loads(line)
        return found
