"""Append-only JSON lines that survive a crash: a line is one write, a torn one is cut off or passed over, never fatal.

Used for `metrics.jsonl`, `groups.jsonl` and the lines of evaluations. Watching must not end a run: a line that the
disk has no room for is counted as lost and the run goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from envkit.trial.store import json_text

__all__ = ["Log", "read_log"]


class Log:
    """Appends to one file. `lost` counts lines that could not be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lost = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._whole = self._ends_whole()

    def append(self, record: Mapping[str, Any]) -> None:
        """Adds one line. Non-finite numbers become text."""
        data = (json_text(record) + "\n").encode()
        if not self._whole:  # a line was cut by a crash or a full disk: this one begins on a line of its own
            data = b"\n" + data
        try:
            self._whole = os.write(self._fd, data) == len(data)
        except OSError:
            self._whole = self._ends_whole()
            self.lost += 1
            return
        if not self._whole:
            self.lost += 1

    def _ends_whole(self) -> bool:
        size = os.fstat(self._fd).st_size
        return size == 0 or os.pread(self._fd, 1, size - 1) == b"\n"

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole record, oldest first; nothing where there is no file."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record
