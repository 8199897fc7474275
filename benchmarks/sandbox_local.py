"""The local sandbox against bare bubblewrap, in one run: start, exec, call, file transfer, and private memory.

    python benchmarks/sandbox_local.py [--repeats 30]

"Bare" is one bubblewrap process per command with the same mounts and no supervisor. Ratios compare medians of this run;
`min` is nearer to an idle machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import os
import statistics
import subprocess
import tarfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from envkit.sandbox import bwrap
from envkit.sandbox.base import InsideModule, SandboxSpec
from envkit.sandbox.local import LocalProvider, LocalSandbox, writable_places

MODULE = InsideModule("bench", "def echo(value): return value")


def private_kib(pid: int) -> int:
    """Memory that belongs to this process alone, and would be free without it."""
    total = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Clean", "Private_Dirty")):
            total += int(line.split()[1])
    return total


def tree(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += tree(int(child))
    return found


class Table:
    def __init__(self) -> None:
        self.medians: dict[str, float] = {}

    def add(self, name: str, times_s: list[float], base: str | None = None) -> None:
        median = self.medians[name] = statistics.median(times_s)
        ratio = f"   {median / self.medians[base]:5.2f} x {base}" if base else ""
        print(f"{name:34s} median {median * 1e3:7.2f} ms   min {min(times_s) * 1e3:7.2f} ms{ratio}", flush=True)


async def timed(repeats: int, work: Callable[[], Awaitable[object]]) -> list[float]:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        await work()
        times.append(time.perf_counter() - began)
    return times


async def main(repeats: int) -> None:
    provider = LocalProvider(office=False)
    spec = SandboxSpec()
    interpreter, packages = provider.inside()
    root = os.geteuid() == 0
    mounts = bwrap.Mounts(interpreter, packages, writable_places(spec))
    before, identity = bwrap.as_user(40_000) if root else ([], {})
    bare = [*before, str(bwrap.find(root)), *bwrap.arguments(mounts), "--"]

    async def run_bare(*command: str) -> None:
        subprocess.run([*bare, *command], check=True, env={}, **identity)

    table = Table()
    await run_bare("true")
    table.add("bare bwrap: true", await timed(repeats, lambda: run_bare("true")))
    python = (interpreter.path, "-I", "-S", "-c", "pass")
    table.add("bare bwrap: python3 -c pass", await timed(repeats, lambda: run_bare(*python)))

    starts, stops = [], []
    warm = provider.create(spec)
    async with warm:
        pass
    for _ in range(repeats):
        sandbox = provider.create(spec)
        began = time.perf_counter()
        await sandbox.start()
        starts.append(time.perf_counter() - began)
        began = time.perf_counter()
        await sandbox.stop()
        stops.append(time.perf_counter() - began)
    table.add("sandbox: start to answering", starts, "bare bwrap: python3 -c pass")
    table.add("sandbox: stop", stops)

    async with provider.create(spec) as sandbox:
        table.add("sandbox: exec true", await timed(3 * repeats, lambda: sandbox.exec(["true"])), "bare bwrap: true")
        await sandbox.call(MODULE, "echo", {"value": 1})
        table.add("sandbox: call", await timed(3 * repeats, lambda: sandbox.call(MODULE, "echo", {"value": 1})))
        await files(sandbox, table, repeats)
    await memory(provider, spec)


async def files(sandbox: LocalSandbox, table: Table, repeats: int) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for number in range(50):
            info = tarfile.TarInfo(f"filesystem/folder{number % 7}/file{number}")
            info.size = 40_000
            tar.addfile(info, io.BytesIO(os.urandom(info.size)))

    async def snapshot() -> None:
        async for _ in sandbox.snapshot():
            pass

    table.add("sandbox: upload 50 files, 2 MB", await timed(repeats, lambda: sandbox.upload(out.getvalue())))
    table.add("sandbox: snapshot of them", await timed(repeats, snapshot))


async def memory(provider: LocalProvider, spec: SandboxSpec) -> None:
    names = ("bwrap", "supervisor")
    async with contextlib.AsyncExitStack() as stack:
        sandboxes = [await stack.enter_async_context(provider.create(spec)) for _ in range(8)]
        sizes = []
        for sandbox in sandboxes:
            await sandbox.exec(["true"])
            await sandbox.call(MODULE, "echo", {"value": 1})
            while (await sandbox.ping())["children"]:
                await asyncio.sleep(0.01)
            assert sandbox.pid is not None
            sizes.append({name: private_kib(pid) for name, pid in zip(names, tree(sandbox.pid), strict=True)})
        each = {name: statistics.mean(size[name] for size in sizes) / 1024 for name in sizes[0]}
        parts = ", ".join(f"{name} {size:.2f}" for name, size in each.items())
        print(f"private memory per sandbox, of 8: {sum(each.values()):.2f} MiB ({parts})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30)
    asyncio.run(main(parser.parse_args().repeats))
