"""What of the initial state a set of checks needs, and how it is gathered.

The initial state is the task's own and trusted; it is read before the judging process gives up its rights, and only
as far as needed: contents where a judge compares inside files (mail, chat, calendar), digests where it compares whole
files. The same selection, as an archive, travels with a task that other programs run (`portable.py`).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.office.problem import Problem, Unreadable
from envkit.verifiers.schema import CalendarCheck, ChatCheck, FileCheck, MailCheck, UnchangedCheck
from envkit.verifiers.tree import MemoryTree, matches, walk_folder

__all__ = ["Needs", "from_archive", "gather", "needs_of", "to_archive"]

#: Contents of the initial state that are held at once.
MAX_BYTES = 256 << 20
_DIGESTS = "digests.json"


@dataclass(frozen=True, slots=True)
class Needs:
    """Patterns of files whose contents, or digests, the checks compare with."""

    contents: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.contents or self.digests)


def needs_of(checks: Iterable[Any]) -> Needs:
    """What the checks need of the initial state."""
    contents: list[str] = []
    digests: list[str] = []
    for check in checks:
        match check:
            case MailCheck():
                contents += [check.mailbox, f"{check.mailbox}/**/*.mbox"]
            case ChatCheck():
                contents.append(f"{check.root}/**/*.json")
            case CalendarCheck():
                contents.append(f"{check.root}/**/*.ics")
            case FileCheck() if check.unchanged or check.changed:
                digests.append(check.path)
            case UnchangedCheck():
                digests += check.paths
            case _:
                pass
        if isinstance(check, FileCheck) and check.same_as is not None:
            digests.append(check.same_as)
    return Needs(tuple(dict.fromkeys(contents)), tuple(dict.fromkeys(digests)))


def gather(needs: Needs, folder: Path | None) -> MemoryTree | None:
    """Reads what is needed from a state folder; None where there is no folder.

    Raises:
        Unreadable: It is more than can be held, or can't be read.
    """
    if folder is None:
        return None
    if not folder.is_dir():
        raise Unreadable(Problem.MISSING, f"the initial state {folder} is not a folder")
    contents: dict[str, bytes] = {}
    digests: dict[str, str] = {}
    links: dict[str, str] = {}
    if not needs:
        return MemoryTree({})
    files, links = walk_folder(folder)
    room = MAX_BYTES
    for path, file in files.items():
        if matches(path, needs.contents):
            data = file.read_bytes()
            room -= len(data)
            if room < 0:
                raise Unreadable(Problem.TOO_BIG, f"the checks compare with more than {MAX_BYTES} bytes of it")
            contents[path] = data
        elif matches(path, needs.digests):
            with file.open("rb") as stream:
                digests[path] = hashlib.file_digest(stream, "sha256").hexdigest()
    return MemoryTree(contents, digests, links)


def to_archive(tree: MemoryTree) -> bytes:
    """The gathered state as a tar, the same bytes for the same state."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        only = {p: d for p, d in tree.digests.items() if p not in tree.contents}
        listing = json.dumps({"digests": only, "links": tree.links}, sort_keys=True, indent=0).encode()
        for name, data in [(_DIGESTS, listing), *sorted(tree.contents.items())]:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def from_archive(data: bytes) -> MemoryTree:
    """The state that `to_archive` wrote. Raises `Unreadable`."""
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for member in tar:
                stream = tar.extractfile(member)
                contents[member.name] = stream.read() if stream is not None else b""
        listing = json.loads(contents.pop(_DIGESTS))
        return MemoryTree(contents, listing["digests"], listing["links"])
    except (tarfile.TarError, ValueError, KeyError, OSError) as error:
        raise Unreadable(Problem.CORRUPT, f"the archive of the initial state is broken: {error}") from error
