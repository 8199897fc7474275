"""Calls that change the same file, or the same app's state, run one after another.

Within one server the order is that of arrival, kept in memory. Between servers of one machine (an app started alone
beside the others) it is kept by `flock` on files outside the world's trees, taken in the call's own process, so that
the kernel gives them up when that process ends, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Claim", "Locks", "across_processes"]

#: How long another server's lock is waited for.
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that a call needs for itself (`alone`), or together with others who only need it to stay."""

    key: str
    alone: bool = True


class Locks:
    """Claims held and waited for, first come, first served."""

    def __init__(self) -> None:
        self._held: list[Sequence[Claim]] = []
        self._waiting: list[tuple[Sequence[Claim], asyncio.Future[None]]] = []

    @contextlib.asynccontextmanager
    async def hold(self, claims: Sequence[Claim]) -> AsyncIterator[None]:
        """Waits until none of the claims is in somebody's way, and holds them."""
        if claims:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append((claims, turn))
            self._advance()
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._held.remove(claims)
                self._waiting = [entry for entry in self._waiting if entry[1] is not turn]
                self._advance()
                raise
        try:
            yield
        finally:
            if claims:
                self._held.remove(claims)
                self._advance()

    def _advance(self) -> None:
        blocked: list[Sequence[Claim]] = []
        still = []
        for claims, turn in self._waiting:
            if turn.done():
                continue
            if any(_clash(claims, other) for other in (*self._held, *blocked)):
                blocked.append(claims)
                still.append((claims, turn))
            else:
                self._held.append(claims)
                turn.set_result(None)
        self._waiting = still


def _clash(ours: Sequence[Claim], others: Sequence[Claim]) -> bool:
    return any(a.key == b.key and (a.alone or b.alone) for a in ours for b in others)


def across_processes(claims: Sequence[Claim], folder: Path) -> None:
    """Takes the claims against other servers too, until this process ends (in a call's process, which has a deadline).

    Where the folder can't be made or is somebody else's, the order within one server is what remains.
    """
    if not claims:
        return
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.lstat().st_uid != os.getuid():
            return
        # In one order everywhere, so that two never wait for each other.
        for claim in sorted(claims, key=lambda claim: claim.key):
            _take(folder / hashlib.sha256(claim.key.encode(errors="surrogateescape")).hexdigest()[:32], claim.alone)
    except OSError:
        return


def _take(path: Path, alone: bool) -> None:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if not _locked(fd, fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
            return
        try:
            same = os.fstat(fd).st_ino == os.stat(path).st_ino
        except FileNotFoundError:
            same = False
        if same:
            return  # kept open until the process ends
        os.close(fd)  # somebody removed it meanwhile: others would lock another file


def _locked(fd: int, how: int) -> bool:
    """Whether the lock was got in time. Longer than a call of ours holds it, only a process of the agent's would."""
    end_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end_s:
                return False
            time.sleep(0.01)
        else:
            return True
