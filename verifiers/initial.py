"""What of the initial state a set of checks needs, and how it is gathered.

The initial state is the task's own and trusted; it is read before the judging process gives up its rights, and only
as far as needed: contents where a judge compares inside files (mail, chat, calendar), digests where it compares whole
files. The same selection, as an archive, travels with a task that other programs run (`portable.py`).
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from envkit.office.problem import Problem, Unreadable
from envkit.snapshot import ROOTS, Entry, Kind, Snapshot
from envkit.verifiers.patterns import matches
from envkit.verifiers.schema import CalendarCheck, ChangesCheck, ChatCheck, FileCheck, MailCheck, UnchangedCheck

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
                (contents if check.compare == "meaning" else digests).extend(check.paths)
            case ChangesCheck():
                contents.append(check.before or check.path)
            case _:
                pass
        if isinstance(check, FileCheck) and check.same_as is not None:
            digests.append(check.same_as)
    return Needs(tuple(dict.fromkeys(contents)), tuple(dict.fromkeys(digests)))


def gather(needs: Needs, folder: Path | None) -> Snapshot | None:
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
    if not needs or not any((folder / root).is_dir() for root in ROOTS):
        return Snapshot({})
    state = Snapshot.from_folders(folder)
    links = {path: entry.target for path, entry in state.entries.items() if entry.kind is Kind.LINK}
    room = MAX_BYTES
    for path in (path for path, entry in state.entries.items() if entry.kind is Kind.FILE):
        if matches(path, needs.contents):
            data = state.read(path, MAX_BYTES)
            room -= len(data)
            if room < 0:
                raise Unreadable(Problem.TOO_BIG, f"the checks compare with more than {MAX_BYTES} bytes of it")
            contents[path] = data
        elif matches(path, needs.digests):
            digests[path] = state.digest(path)
    return _kept(contents, digests, links)


def _kept(contents: Mapping[str, bytes], digests: Mapping[str, str], links: Mapping[str, str]) -> Snapshot:
    """A state of which the contents of some files and the digests of others are held in memory."""

    def opener(data: bytes) -> Callable[[], BinaryIO]:
        return lambda: io.BytesIO(data)

    entries = {path: Entry(path, Kind.FILE) for path in digests}
    entries |= {path: Entry(path, Kind.FILE, len(data), opener=opener(data)) for path, data in contents.items()}
    entries |= {path: Entry(path, Kind.LINK, target=target) for path, target in links.items()}
    return Snapshot(entries, digests=digests)


def to_archive(state: Snapshot) -> bytes:
    """The gathered state as a tar, the same bytes for the same state."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        files = [entry for entry in state.entries.values() if entry.kind is Kind.FILE]
        only = {entry.path: state.digest(entry.path) for entry in files if entry.opener is None}
        links = {path: entry.target for path, entry in state.entries.items() if entry.kind is Kind.LINK}
        listing = json.dumps({"digests": only, "links": links}, sort_keys=True, indent=0).encode()
        contents = [(e.path, state.read(e.path, MAX_BYTES)) for e in files if e.opener is not None]
        for name, data in [(_DIGESTS, listing), *contents]:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def from_archive(data: bytes) -> Snapshot:
    """The state that `to_archive` wrote. Raises `Unreadable`."""
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for member in tar:
                stream = tar.extractfile(member)
                contents[member.name] = stream.read() if stream is not None else b""
        listing = json.loads(contents.pop(_DIGESTS))
        return _kept(contents, listing["digests"], listing["links"])
    except (tarfile.TarError, ValueError, KeyError, OSError) as error:
        raise Unreadable(Problem.CORRUPT, f"the archive of the initial state is broken: {error}") from error
