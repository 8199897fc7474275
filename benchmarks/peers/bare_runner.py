"""What isolation alone costs in `peers.py`: a folder, a bubblewrap with a shell that runs the commands, a file read.

python bare_runner.py local TRIALS CONCURRENCY IMAGE

It is no contestant: there is no supervisor, no limit, no other user, no record and no verdict, and nobody waits for a
command before telling the next. Whoever isolates a trial in this way pays at least this.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from work import COMMANDS, EXPECTED, RESULT, cpu_s, tell

from envkit.sandbox import bwrap

#: New namespaces of every kind, the machine's programs, and the trial's own folder.
ISOLATED = (
    "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
    "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
    "--tmpfs", "/tmp", "--chdir", "/work",
)  # fmt: skip


async def batch(trials: int, concurrency: int) -> tuple[int, float, float]:
    program = str(bwrap.find(False))
    since_s = time.time()
    room = asyncio.Semaphore(concurrency)
    first_s = time.time()

    async def one() -> bool:
        async with room:
            with tempfile.TemporaryDirectory(dir=".") as folder:
                place = Path(folder).absolute()
                arguments = [*ISOLATED, "--bind", str(place), "/work", "sh", "-e"]
                process = await asyncio.create_subprocess_exec(
                    program,
                    *arguments,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                )
                said, _ = await process.communicate("\n".join(COMMANDS).encode())
                if process.returncode:
                    raise SystemExit(said.decode(errors="replace"))
                return EXPECTED in (place / RESULT).read_text()

    right = sum(await asyncio.gather(*(one() for _ in range(trials))))
    return right, time.time() - first_s, first_s - since_s


async def main() -> None:
    trials, concurrency = int(sys.argv[2]), int(sys.argv[3])
    spent = [cpu_s()]
    await batch(1, 1)
    spent.append(cpu_s())
    right, wall_s, before_s = await batch(trials, concurrency)
    spent.append(cpu_s())
    tell(trials=trials, right=right, wall_s=wall_s, before_s=before_s, cpu=(*spent,))


if __name__ == "__main__":
    asyncio.run(main())
