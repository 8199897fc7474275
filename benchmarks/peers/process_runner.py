"""What a process of its own costs in `peers.py`, on top of `bare_runner.py`: forked from a server that has loaded what
envkit's trials need, it does the bare trial and ends.

python process_runner.py local TRIALS CONCURRENCY IMAGE

It is no contestant, as `bare_runner.py` is none. What a design pays that keeps trials apart from each other (one that
crashes, hangs or fills its memory ends alone) and from the machine.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import bare_runner
from work import cpu_s, tell

from envkit.plugins import Group
from envkit.trial.client import ForkServer

#: What a trial of `envkit_runner.py` is forked with.
LOADED: list[tuple[Group, str]] = [
    ("harnesses", "opencode"),
    ("sandboxes", "local"),
    ("verifiers", "checks"),
    ("verifiers", "script"),
]


def child(request: dict[str, Any], lease: int) -> int:
    """One trial, in a process of its own; 0 where it was right."""
    right, _, _ = asyncio.run(bare_runner.batch(1, 1))
    return int(right != 1)


async def batch(trials: int, concurrency: int) -> tuple[int, float]:
    """Trials that were right, and the time from the first one's start to the last one's end."""
    room = asyncio.Semaphore(concurrency)
    async with ForkServer(plugins=LOADED, target="process_runner:child", sweep=None) as server:
        first_s = time.time()

        async def one() -> bool:
            async with room:
                return (await server.run({}, limit_s=60.0)).code == 0

        right = sum(await asyncio.gather(*(one() for _ in range(trials))))
        return right, time.time() - first_s


def main() -> None:
    trials, concurrency = int(sys.argv[2]), int(sys.argv[3])
    since_s = time.time()
    spent = [cpu_s()]
    asyncio.run(batch(1, 1))
    before_s = time.time() - since_s
    spent.append(cpu_s())
    right, wall_s = asyncio.run(batch(trials, concurrency))
    spent.append(cpu_s())
    tell(trials=trials, right=right, wall_s=wall_s, before_s=before_s, cpu=(*spent,))


if __name__ == "__main__":
    main()
