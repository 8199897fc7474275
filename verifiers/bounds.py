"""How much an agent may leave behind and still be judged: a bound on the number of files, before anything else is done.

Listing a state takes time for every file in it, and the verifier's time is the task's. Without a bound, an agent that
expects to fail could leave so many files that its verification runs out of time, which is nobody's failure. What lies
beyond it is the agent's own doing: the verdict is a failed criterion that says so. Used by the verifiers.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from envkit.snapshot import ROOTS, SnapshotError
from envkit.snapshot.headers import read_headers
from envkit.verifier import Criterion, Outcome, Verdict, VerifyRequest

__all__ = ["MAX_NEW", "MIN_NEW", "beyond_bounds", "new_entries"]

#: Files and folders that a state may have beyond the initial one, however long its verifier may take.
MAX_NEW = 50_000
#: And however short.
MIN_NEW = 5_000
#: For each second that the verifier may take: a tenth of what a slow machine lists.
PER_SECOND = 1_000
_TURN = 500


def new_entries(timeout_s: float | None) -> int:
    """How many entries a state may have beyond the initial one, for a verifier that may take so many seconds."""
    if timeout_s is None:
        return MAX_NEW
    return int(min(MAX_NEW, max(MIN_NEW, PER_SECOND * timeout_s)))


async def beyond_bounds(request: VerifyRequest, verifier: str) -> Verdict | None:
    """The verdict on a final state that holds too many files; None for one that can be judged.

    A broken archive is nobody's failure either, and is left for whoever reads it.
    """
    allowed = new_entries(request.step.verifier.timeout_sec)
    found = await _count(request.final, allowed) + await _count(request.work, allowed)
    if found <= allowed:
        return None
    at_start = request.work_at_start + (_count_folder(request.initial) if request.initial is not None else 0)
    most = allowed + at_start
    if await _count(request.final, most) + await _count(request.work, most) <= most:
        return None
    message = (
        f"the final state holds more than {allowed} files and folders beyond the {at_start} of the initial state, "
        "which are more than are judged"
    )
    criterion = Criterion(
        id="final-state",
        description="the final state can be judged",
        gate=True,
        outcome=Outcome.FAILED,
        score=0.0,
        expected=f"at most {allowed + at_start} files and folders",
        message=message,
    )
    return Verdict(criteria=(criterion,), reward=0.0, lower=0.0, upper=0.0, rewards={"reward": 0.0}, verifier=verifier)


async def _count(final: Path | None, up_to: int) -> int:
    """The entries of a state's archive, counted no further than just beyond `up_to`. Other tasks go on meanwhile."""
    count = 0
    if final is None:
        return count
    try:
        with final.open("rb") as stream:
            for _ in read_headers(stream):
                count += 1
                if count > up_to:
                    break
                if count % _TURN == 0:
                    await asyncio.sleep(0)
    except (SnapshotError, OSError):
        return 0
    return count


def _count_folder(folder: Path) -> int:
    return sum(1 + len(files) for root in ROOTS for _, _, files in os.walk(folder / root))
