"""Names of members: what is accepted, how they are compared, and how they are shown. Pure functions.

A name is a path below the root, `filesystem/a/b.xlsx`, with single slashes. Bytes that are not UTF-8 are kept as lone
surrogates (as the `os` module does), so that different files have different names; `shown` makes any name printable.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable

from envkit.snapshot.problem import Fault, SnapshotError

__all__ = ["IGNORED", "ROOTS", "clean_name", "is_ignored", "member_name", "shown", "wrapping"]

#: The two trees of a world.
ROOTS = ("filesystem", ".apps_data")
#: State of the machinery, not of the world.
IGNORED = ".apps_data/.coordinator"
#: What macOS adds to a zip.
_MAC = "__MACOSX"
_UTF8_FLAG = 0x800


def clean_name(name: str) -> str:
    """A member's name with `./` and doubled slashes removed; "" for the root itself.

    Raises:
        SnapshotError: HOSTILE_NAME: it is absolute or leads upwards. No program that packs a world writes such names.
    """
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        raise SnapshotError(
            Fault.HOSTILE_NAME, f"the archive has a member {shown(name)!r}, which leads out of it; it is not read"
        )
    return "/".join(part for part in parts if part not in ("", "."))


def member_name(info: zipfile.ZipInfo) -> str:
    """The name of a zip's member. Without the UTF-8 flag it is taken for UTF-8 all the same (as Linux programs write
    it), since code page 437 is hardly ever meant."""
    if info.flag_bits & _UTF8_FLAG:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return info.filename  # the name came from the Unicode extra field


def is_ignored(path: str) -> bool:
    return path == IGNORED or path.startswith(IGNORED + "/")


def wrapping(names: Iterable[str]) -> str | None:
    """The folder that the two trees lie in, with a slash at its end ("" for none); None where there are no trees.

    The shallowest one counts, so that a folder called `filesystem` inside a world is no world.

    Raises:
        SnapshotError: AMBIGUOUS: several folders of one depth hold trees.
    """
    best: set[str] = set()
    depth = -1
    seen: set[str] = set()
    for name in names:
        parts = name.split("/")
        if parts[0] == _MAC:
            continue
        at = next((i for i, part in enumerate(parts) if part in ROOTS), -1)
        if at < 0 or (depth >= 0 and at > depth):
            continue
        prefix = "".join(part + "/" for part in parts[:at])
        if prefix in seen:
            continue
        seen.add(prefix)
        if depth < 0 or at < depth:
            best, depth = set(), at
        best.add(prefix)
    if len(best) > 1:
        listed = ", ".join(shown(prefix) for prefix in sorted(best)[:5])
        raise SnapshotError(Fault.AMBIGUOUS, f"the archive holds several worlds, in {listed}; expected one")
    return next(iter(best), None)


def shown(name: str) -> str:
    r"""A name for messages: bytes that are no UTF-8 and control characters as `\xNN`."""
    raw = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in raw)
