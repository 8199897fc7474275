"""One trial's tool servers: all apps in one process, against one process per app, in the same run.

    python benchmarks/mcp_servers.py [--repeats 5] [--apps filesystem,code,...] [--no-sdk]

Ready means that every server has shaken hands and listed its tools. Memory is the proportional set size of the server
processes, idle after that. Compared with one process for all apps, in a sandbox, are: one process per app of the same
program, in a sandbox, whose imports are trimmed as much; and one process per app of the same program that imports the
SDK as everybody does (`import mcp`), outside a sandbox, where its web stack is installed. The target is against the
latter: at least 5 times sooner and 5 times less memory. As a guide, on an idle machine, at most 1.6 s and 150 MiB.
Last, the tokens of the tool block in both modes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from envkit.harnesses.archipelago import bundle, schemas
from envkit.harnesses.archipelago.servers import catalog
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider, LocalSandbox

_ORDINARY = """\
import sys
sys.path.insert(0, sys.argv.pop())
import mcp.server.fastmcp
from envkit.harnesses.archipelago.servers.__main__ import main
raise SystemExit(main(["--apps", sys.argv[1], "--root", sys.argv[2], "--apps-data", sys.argv[2]]))
"""


class Pipe(Protocol):
    async def write(self, data: bytes) -> None: ...

    async def read(self, max_bytes: int = 65536) -> bytes: ...


class Client:
    """As much of MCP as it takes to see that a server is ready, so that the client costs nothing."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._buffer = b""
        self._id = 0

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._id += 1
        await self._say({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        while b"\n" not in self._buffer:
            piece = await self._pipe.read(1 << 20)
            if not piece:
                raise SystemExit(f"the server ended: {getattr(self._pipe, 'stderr_tail', b'').decode()[-2000:]}")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        found: dict[str, Any] = json.loads(line)["result"]
        return found

    async def _say(self, message: dict[str, Any]) -> None:
        await self._pipe.write(json.dumps(message).encode() + b"\n")

    async def ready(self) -> int:
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        await self.request("initialize", about)
        await self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return len((await self.request("tools/list", {}))["tools"])


def below(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in task.read_text().split():
                found += [int(child), *below(int(child))]
    return found


def memory_mib(pids: Sequence[int]) -> float:
    """Proportional set size of the server processes among these."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"serve.py" in command or b"mcp.server.fastmcp" in command:
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


@dataclass
class Sample:
    ready_s: float
    memory_mib: float
    tools: int


@contextlib.asynccontextmanager
async def sandbox() -> AsyncIterator[LocalSandbox]:
    async with LocalProvider().create(bundle.with_servers(SandboxSpec(cpus=None))) as started:
        yield started


async def in_sandbox(groups: Sequence[Sequence[str]]) -> Sample:
    """One server process per group of apps, all started at once."""
    async with sandbox() as place:
        began = time.perf_counter()

        async def one(apps: Sequence[str]) -> int:
            return await Client(await bundle.start_servers(place, apps=apps)).ready()

        tools = sum(await asyncio.gather(*(one(apps) for apps in groups)))
        ready_s = time.perf_counter() - began
        assert place.pid is not None
        return Sample(ready_s, memory_mib(below(place.pid)), tools)


class Outside:
    """A process of this machine as a pipe."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self.process = process

    async def write(self, data: bytes) -> None:
        self._in.write(data)
        await self._in.drain()

    async def read(self, max_bytes: int = 65536) -> bytes:
        return await self._out.read(max_bytes)


async def ordinary(apps: Sequence[str]) -> Sample:
    """One process per app outside, the SDK and the app's modules imported at start."""
    with tempfile.TemporaryDirectory() as folder:
        pipes: list[Outside] = []

        async def one(app: str) -> int:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _ORDINARY, app, folder, str(bundle.ensure_bundle()),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
                limit=1 << 24,
            )  # fmt: skip
            pipes.append(Outside(process))
            return await Client(pipes[-1]).ready()

        began = time.perf_counter()
        tools = sum(await asyncio.gather(*(one(app) for app in apps)))
        ready_s = time.perf_counter() - began
        found = memory_mib([pipe.process.pid for pipe in pipes])
        for pipe in pipes:
            pipe.process.terminate()
            await pipe.process.wait()
        return Sample(ready_s, found, tools)


def tokens(text: str) -> int:
    """About as many tokens as a current tokenizer makes of it: words in pieces of six letters, signs one by one."""
    return len(re.findall(r" ?[^\W\d_]{1,6}|\d{1,3}|[^\w\s]+|\s+|_", text))


def tool_block(apps: Sequence[str], mode: catalog.Mode) -> tuple[int, int, str]:
    """Tools, about how many tokens the list has as the model is shown it, and the largest."""
    sizes = {}
    for name, entry in catalog.published(apps, mode).items():
        parameters, _ = schemas.flatten(entry.input_schema)
        shown = {"name": name, "description": entry.description, "parameters": parameters}
        sizes[name] = tokens(json.dumps(shown, ensure_ascii=False, separators=(",", ":")))
    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    return len(sizes), sum(sizes.values()), ", ".join(f"{name} {sizes[name]}" for name in largest)


def row(name: str, samples: Sequence[Sample]) -> Sample:
    ready_s = statistics.median(sample.ready_s for sample in samples)
    memory = statistics.median(sample.memory_mib for sample in samples)
    least = min(sample.ready_s for sample in samples)
    print(
        f"{name:44s} ready median {ready_s:6.2f} s  min {least:6.2f} s   memory {memory:7.1f} MiB   "
        f"{samples[0].tools} tools",
        flush=True,
    )
    return Sample(ready_s, memory, samples[0].tools)


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--apps", help="comma-separated; the nine of a standard run where left out")
    parser.add_argument("--no-sdk", action="store_true", help="leave out the processes with ordinary imports")
    args = parser.parse_args()
    apps = catalog.chosen(args.apps.split(",") if args.apps else None)
    print(f"{len(apps)} apps, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}: {', '.join(apps)}")
    bundle.ensure_bundle()
    together, apart, usual = [], [], []
    await in_sandbox([apps])  # caches
    for _ in range(args.repeats):
        together.append(await in_sandbox([apps]))
        apart.append(await in_sandbox([[app] for app in apps]))
        if not args.no_sdk:
            usual.append(await ordinary(apps))
    ours = row("one process for all apps", together)
    met = True
    for name, samples in (("one process of ours per app", apart), ("one process per app, ordinary imports", usual)):
        if samples:
            other = row(name, samples)
            sooner, less = other.ready_s / ours.ready_s, other.memory_mib / ours.memory_mib
            print(f"  all in one is ready {sooner:.1f} times sooner and takes {less:.1f} times less memory")
            if samples is not apart or args.no_sdk:
                met = sooner >= 5 and less >= 5
    print(f"targets: 5 times sooner and 5 times less than one process per app: {'met' if met else 'NOT met'}")
    print(f"guide: 1.6 s and 150 MiB: {ours.ready_s:.2f} s and {ours.memory_mib:.0f} MiB")
    modes: tuple[catalog.Mode, ...] = ("meta", "individual")
    for mode in modes:
        count, total, largest = tool_block(apps, mode)
        print(f"tool block, {mode}: {count} tools, about {total:,} tokens (largest: {largest})")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
