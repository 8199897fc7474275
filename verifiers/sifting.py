"""A final state as a script may meet it: without links to where only the judge has files, and without pipes.

In the judging sandbox `/tests` holds what is expected. An agent that names its answer as a link there would be compared
with the answer itself; in its own sandbox there was nothing to link to, so such a link has no honest use. The same goes
for `/proc` and `/dev`, which are another sandbox's, and for pipes and sockets, at whose other end nobody is left: a
script that opens one waits until its time is over, and what the agent spoilt would count as a fault of ours. Such
members are left out, so that the script finds nothing of that name. Used by the verifier that runs scripts.
"""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from envkit.snapshot import SnapshotError
from envkit.snapshot.headers import DEVICE, LINK, read_headers

__all__ = ["sifted"]

#: What only the judging sandbox has, and what is a machine's own.
_JUDGES = frozenset({"tests", "solution", "logs"})
_MACHINES = frozenset({"proc", "dev"})
#: Where programs let their logs go; nothing is to be had there.
_HARMLESS = frozenset({"dev/null", "dev/stdout", "dev/stderr"})
#: As many links as a path may go through, as Linux has it.
_HOPS = 40


async def sifted(archives: Sequence[Path], scratch: Path) -> list[Path]:
    """The archives of a state (trees, working folder) without members that are not for scripts.

    Args:
        scratch: Where an archive is written anew that has such members; the others are given back as they are.
    """
    return await asyncio.to_thread(_sifted, archives, scratch)


def _sifted(archives: Sequence[Path], scratch: Path) -> list[Path]:
    links: dict[str, str] = {}
    pipes: set[str] = set()
    roots = {"filesystem", ".apps_data"}
    try:
        for archive in archives:
            with archive.open("rb") as stream:
                for number, header in enumerate(read_headers(stream)):
                    name = header.name.strip("/")
                    if number == 0:
                        roots.add(name)
                    if header.kind == LINK:
                        links[name] = header.link
                    elif header.kind == DEVICE:
                        pipes.add(name)
    except (SnapshotError, OSError):
        return list(archives)  # whoever unpacks it says what is wrong with it
    left_out = pipes | {name for name in links if _leads_astray(name, links, roots)}
    if not left_out:
        return list(archives)
    return [_without(archive, left_out, scratch / f"sifted-{number}.tar") for number, archive in enumerate(archives)]


def _leads_astray(name: str, links: Mapping[str, str], roots: set[str]) -> bool:
    """Whether a link leads to the judge's files, through other links or not."""
    todo = name.split("/")[::-1]
    at: list[str] = []
    hops = 0
    unsure = False
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            # Behind a link of the image's, which we don't know, the way up is another one.
            unsure = unsure or (bool(at) and not _within(at, roots))
            at = at[:-1]
            continue
        at.append(part)
        target = links.get("/".join(at))
        if target is None:
            continue
        hops += 1
        if hops > _HOPS:
            return False  # a circle, which nobody gets through
        at = [] if target.startswith("/") else at[:-1]
        todo += target.split("/")[::-1]
    if not at or _within(at, roots) or "/".join(at) in _HARMLESS:
        return False
    return at[0] in _JUDGES | _MACHINES or (unsure and not _JUDGES.isdisjoint(at))


def _within(at: Sequence[str], roots: set[str]) -> bool:
    path = "/".join(at)
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def _without(archive: Path, left_out: set[str], to: Path) -> Path:
    """The archive without these members, which is itself where it has none of them."""
    with tarfile.open(archive, errors="surrogateescape") as whole:
        if not any(member.name.strip("/") in left_out for member in whole):
            return archive
    with (
        tarfile.open(archive, errors="surrogateescape") as whole,
        tarfile.open(to, "w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as kept,
    ):
        for member in whole:
            if member.name.strip("/") not in left_out:
                kept.addfile(member, whole.extractfile(member) if member.isreg() else None)
    return to
