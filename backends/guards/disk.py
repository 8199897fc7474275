"""Is there room for what a run will write: checkpoints in its folder, weights on their way to the engines?"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from envkit.backends.guards.verdict import Status, Verdict

__all__ = ["disk"]

#: A checkpoint holds weights, two moments and a copy to serve from, all in float32: so much per byte sent to engines.
_CHECKPOINT = {"float32": 4.0, None: 4.0}
_HALF = 8.0
#: Trials, reports, logs.
_BESIDE_BYTES = 1 << 30


def disk(folder: Path, *, sent_bytes: float, dtype: str | None, keep: int | None, transfer: Path | None) -> Verdict:
    """Compares what is free with what is needed.

    Args:
        sent_bytes: Of one version of the weights, as engines get them.
        dtype: Theirs.
        keep: Checkpoints that are kept at a time; None for all, of which two are asked for.
        transfer: Where weights are put for engines, if that is on this host.
    """
    one = sent_bytes * _CHECKPOINT.get(dtype, _HALF)
    need = one * ((keep or 1) + 1) + _BESIDE_BYTES
    free = shutil.disk_usage(_existing(folder)).free
    figures: dict[str, Any] = {"free_bytes": free, "needed_bytes": round(need), "checkpoint_bytes": round(one)}
    line = f"{_size(free)} free at {folder}; {_size(need)} wanted (a checkpoint takes about {_size(one)})"
    if free < need:
        return Verdict("disk", Status.FAILED, f"{line}: choose another --out or keep fewer checkpoints", figures)
    if transfer is not None:
        room = shutil.disk_usage(_existing(transfer)).free
        figures["transfer_free_bytes"] = room
        if room < 1.2 * sent_bytes:
            line = f"{_size(room)} free at {transfer}, where weights are put for engines: {_size(sent_bytes)} needed"
            return Verdict("disk", Status.FAILED, line, figures)
    return Verdict("disk", Status.OK, line, figures)


def _existing(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
