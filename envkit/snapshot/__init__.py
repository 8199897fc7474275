"""The state of a world: what is in `/filesystem` and `/.apps_data` at one moment, and what changed between two.

A `Snapshot` is read from world folders (a task's world with its overlays: the initial state), from the tar that a
sandbox streamed, or from an Archipelago archive (zip, tar, tar.gz), and written in that layout. Members are only read,
one by one, under a limit; nothing is ever extracted by a name that an agent chose. `changes(initial, final)` compares
by content. Used by verifiers, the judge, the diff, and by whoever imports or exports worlds.
"""

from __future__ import annotations

from envkit.snapshot.compare import Changes, Rename, changes
from envkit.snapshot.limits import Limits
from envkit.snapshot.names import ROOTS, shown
from envkit.snapshot.problem import Fault, SnapshotError
from envkit.snapshot.state import Entry, Kind, Snapshot
from envkit.snapshot.write import write_tar_gz, write_zip

__all__ = [
    "ROOTS",
    "Changes",
    "Entry",
    "Fault",
    "Kind",
    "Limits",
    "Rename",
    "Snapshot",
    "SnapshotError",
    "changes",
    "shown",
    "write_tar_gz",
    "write_zip",
]
