"""The diff of archives: their files as a tree, each pair compared by the differ of its type, as deep as is sane.

Order, packing, timestamps, entries for folders with files are noise. Kinds: `file`, `file.name`, those of the types of
the files inside, `folder` (an empty one), `link`.
"""

from __future__ import annotations

from envkit.office.archive import Archive
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.nested import nested
from envkit.verifiers.diff.sequences import one

__all__ = ["diff_archive"]


def diff_archive(before: Archive, after: Archive) -> list[Finding]:
    """The differences of two archives."""
    ours, theirs = ({m.path: m for m in side.members} for side in (before, after))
    gone = [p for p in ours if p not in theirs]
    come = [p for p in theirs if p not in ours]
    out: list[Finding] = []
    for path in list(gone):
        same = sorted((p for p in come if theirs[p].sha256 == ours[path].sha256 and theirs[p].data),
                      key=lambda p: (p.rpartition("/")[2] != path.rpartition("/")[2], p))  # fmt: skip
        # Of several with one content, which is which can't be told in both directions alike.
        alone = sum(ours[p].sha256 == ours[path].sha256 for p in gone) == 1 and len(same) == 1
        if alone:
            gone.remove(path)
            come.remove(same[0])
            out.append(one("file.name", Change.MOVED, path, same[0], path, same[0]))
    out += [one("file", Change.REMOVED, p, None, f"{len(ours[p].data)} bytes") for p in gone]
    out += [one("file", Change.ADDED, None, p, None, f"{len(theirs[p].data)} bytes") for p in come]
    for path, member in ours.items():
        if path in theirs and theirs[path].sha256 != member.sha256:
            for finding in nested(path, member.data, theirs[path].data):
                to = None if finding.to is None else f"{path} / {finding.to}"
                out.append(finding.model_copy(update={"where": f"{path} / {finding.where}", "to": to}))
    for kind, a, b in (("folder", before.folders, after.folders), ("link", _links(before), _links(after))):
        out += [one(kind, Change.REMOVED, text, None, text) for text in a if text not in b]
        out += [one(kind, Change.ADDED, None, text, None, text) for text in b if text not in a]
    return out


def _links(archive: Archive) -> tuple[str, ...]:
    return tuple(f"{path} -> {target}" for path, target in archive.links)
