"""Splits by world: tasks that share a world are in one split, or what is learned from some gives the others away."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envkit.directory_pack import DirectoryPack
from envkit.failure import UserError

__all__ = ["split_by_world", "write_splits"]


def split_by_world(worlds: Mapping[str, str], share: float, seed: int = 0) -> dict[str, list[str]]:
    """Splits tasks into `train` and `eval`.

    Args:
        worlds: Task name to world; a task without one is its own.
        share: Of the tasks, in (0, 1), that shall be for evaluation. Worlds are whole, so it is met as nearly as they
            allow; each side has at least one world.
        seed: Decides among worlds of the same size.

    Raises:
        UserError: There are fewer than two worlds, or the share is none.
    """
    if not 0 < share < 1:
        raise UserError(f"the share for evaluation must be between 0 and 1, found {share:g}")
    members: dict[str, list[str]] = {}
    for task, world in sorted(worlds.items()):
        members.setdefault(world, []).append(task)
    if len(members) < 2:
        raise UserError(
            f"all {len(worlds)} tasks share one world: they can't be split without giving the evaluation away"
        )
    order = sorted(members)
    random.Random(f"split/{seed}").shuffle(order)
    # the sums that sets of worlds can reach, each with the first set that reaches it
    reachable: dict[int, tuple[str, ...]] = {0: ()}
    wanted = share * len(worlds)
    nearest = min((max(1, int(wanted)), int(wanted) + 1), key=lambda total: (abs(total - wanted), total))
    for world in order:
        if nearest in reachable:
            break  # no other set comes nearer, and later worlds change no set: thousands of worlds take no time
        for total, chosen in sorted(reachable.items(), reverse=True):
            if len(chosen) + 1 < len(order):
                reachable.setdefault(total + len(members[world]), (*chosen, world))
    best = min((total for total in reachable if total > 0), key=lambda total: (abs(total - wanted), total))
    held = set(reachable[best])
    return {
        "train": sorted(task for task, world in worlds.items() if world not in held),
        "eval": sorted(task for task, world in worlds.items() if world in held),
    }


def write_splits(pack: DirectoryPack, splits: Mapping[str, Sequence[str]]) -> Path:
    """Writes splits into a pack's pack.toml, and into each task.toml that says otherwise; the rest of both stays as it
    is, comments included. Returns the pack.toml."""
    import tomlkit

    from envkit.trial.store import write_atomic

    file = pack.path / "pack.toml"
    document = tomlkit.parse(file.read_text(encoding="utf-8")) if file.exists() else tomlkit.document()
    table = tomlkit.table()
    for split, names in splits.items():
        table[split] = list(names)
        for name in names:
            place = pack.path / name / "task.toml"
            stated: Any = tomlkit.parse(place.read_text(encoding="utf-8"))
            ours = stated.get("metadata", {}).get("envkit", {})
            if ours.get("split") not in (None, split):
                ours["split"] = split
                write_atomic(place, tomlkit.dumps(stated))
    document["splits"] = table
    write_atomic(file, tomlkit.dumps(document))
    return file
