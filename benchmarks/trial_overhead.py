"""What a trial costs beyond the commands it runs: time and memory.

    python benchmarks/trial_overhead.py [--repeats 15] [--concurrent 8] [--json]

Time: an oracle trial of ten tool calls under the OpenCode harness, through the fork server (fork, sandbox, session, ten
calls, snapshot, verification, records on disk), against the same ten commands, each in a bubblewrap process of its own
with the same mounts. Both run in turns in one run, and medians are compared. Two sets of commands: trivial ones
(`echo`, `ls`: what is measured is our own work) and office ones (Python with openpyxl, as an agent works).

Memory: private memory (Private_Clean + Private_Dirty of smaps_rollup) of a trial's process and of everything in its
sandbox, while many trials are in the middle of their work. Shared pages (the preloaded server's, the runtime's files)
are not counted: they are there once, however many trials run. What the agent writes into the sandbox's file systems is
its own and not in these numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from envkit.messages import AssistantMessage, Observation
from envkit.policy.oracle import OraclePolicy
from envkit.trial.client import ForkServer
from envkit.trial.preload import preloads
from envkit.trial.result import AttemptResult, Plugin, Status, TrialSpec
from envkit.trial.trial import AttemptRequest

TRIVIAL = [
    "echo ready > report.txt",
    "ls -la",
    "cat notes.txt",
    "wc -c notes.txt",
    "grep -n some notes.txt",
    "cp notes.txt copy.txt",
    "sort notes.txt",
    "head -5 copy.txt",
    "mkdir -p out && mv copy.txt out/",
    "find . -type f",
]

_WRITE = (
    'python3 -c "import openpyxl; b = openpyxl.Workbook(); s = b.active\n'
    "for r in range(200): s.append([r, r * 1.5, '=A%d*2' % (r + 1)])\n"
    "b.save('model.xlsx')\""
)
_READ = (
    "python3 -c \"import openpyxl; s = openpyxl.load_workbook('model.xlsx').active\n"
    'print(sum(row[0].value for row in s.iter_rows()))"'
)
_DOCX = "python3 -c \"import docx; d = docx.Document(); d.add_heading('Memo'); d.save('memo.docx')\""
_STDLIB = "python3 -c \"import csv; csv.writer(open('t.csv', 'w')).writerows([[i, i * i] for i in range(1000)])\""
OFFICE = [
    "echo ready > report.txt",
    "ls -la",
    _WRITE,
    _READ,
    "cat notes.txt",
    _DOCX,
    _STDLIB,
    "head -20 t.csv",
    _READ,
    "ls -la *.xlsx *.docx",
]

CHECKS = """\
schema_version = "1"
scoring = "weighted_mean"

[[check]]
id = "report"
kind = "text"
path = "/filesystem/report.txt"
contains = ["ready"]
"""

TASK = """\
schema_version = "1.4"
[environment]
network_mode = "no-network"
cpus = 2
"""


class HoldingOracle(OraclePolicy):
    """The oracle, which waits before its final answer until a file is there: a trial in the middle of its work."""

    def __init__(self, gate: str, ready: str) -> None:
        super().__init__()
        self._gate, self._ready = Path(gate), Path(ready)

    async def act(self, observation: Observation) -> AssistantMessage:
        message = await super().act(observation)
        if not message.tool_calls:
            (self._ready / str(os.getpid())).touch()
            while not self._gate.exists():
                await asyncio.sleep(0.05)
        return message


def write_task(folder: Path, commands: list[str]) -> Path:
    """A task whose solution is these commands, one tool call each."""
    for part in ("tests", "solution", "environment/world/filesystem", "environment/world/.apps_data"):
        (folder / part).mkdir(parents=True)
    (folder / "task.toml").write_text(TASK)
    (folder / "instruction.md").write_text("Write the word 'ready' into report.txt.\n")
    (folder / "tests" / "verifier.toml").write_text(CHECKS)
    (folder / "solution" / "solve.sh").write_text("echo ready > /filesystem/report.txt\n")
    (folder / "environment" / "world" / "filesystem" / "notes.txt").write_text("some notes\n" * 50)
    calls = [{"name": "bash", "arguments": {"command": c, "description": "runs a command"}} for c in commands]
    (folder / "solution" / "opencode.json").write_text(json.dumps({"calls": calls, "answer": "done"}))
    return folder


def spec_of(task: Path, policy: Plugin | None = None, sample: int = 0) -> TrialSpec:
    return TrialSpec(
        task=str(task), policy=policy or Plugin(name="oracle"), timeout_s=300, verify_reserve_s=60, sample=sample
    )


async def run_trial(server: ForkServer, spec: TrialSpec, folder: Path, on_start: Any = None) -> AttemptResult:
    (folder / "logs").mkdir(parents=True)
    request = AttemptRequest(spec=spec, attempt=1, folder=str(folder), run_id=str(folder.parent))
    ended = await server.run(
        request.model_dump(mode="json"),
        limit_s=360,
        stdout=folder / "logs" / "stdout.log",
        stderr=folder / "logs" / "stderr.log",
        on_start=on_start,
    )
    path = folder / "result.json"
    if not path.exists():
        raise SystemExit(f"a trial left no result: {ended.describe()}; see {folder / 'logs'}")
    result = AttemptResult.model_validate_json(path.read_bytes())
    if result.status is not Status.SCORED or result.reward != 1.0:
        raise SystemExit(f"a trial was not scored 1.0, so its time says nothing: {result.model_dump_json(indent=1)}")
    return result


def bare(commands: list[str], work: Path, mounts: list[str]) -> None:
    """Each command in a bubblewrap process of its own, on one folder."""
    shutil.rmtree(work / "filesystem", ignore_errors=True)
    (work / "filesystem").mkdir(parents=True)
    (work / "filesystem" / "notes.txt").write_text("some notes\n" * 50)
    program = [*mounts, "--bind", str(work / "filesystem"), "/filesystem", "--chdir", "/filesystem", "bash", "-c"]
    for command in commands:
        done = subprocess.run([*program, command], capture_output=True)
        if done.returncode:
            raise SystemExit(f"bare bubblewrap failed at {command!r}: {done.stderr.decode(errors='replace')}")


def bare_mounts() -> list[str]:
    """bubblewrap with what an office command needs: the system read-only, the office packages, namespaces."""
    from envkit.sandbox import bwrap
    from envkit.sandbox.local import LocalProvider

    _, packages = LocalProvider().inside()
    out = [str(bwrap.find(False)), "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            out += ["--symlink", os.readlink(path), str(path)]
        elif path.exists():
            out += ["--ro-bind", str(path), str(path)]
    out += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    if packages is not None:
        out += ["--ro-bind", str(packages), str(packages), "--setenv", "PYTHONPATH", str(packages)]
    return [*out, "--setenv", "PYTHONDONTWRITEBYTECODE", "1"]


def private_kib(pid: int) -> int:
    """Private memory of one process, in KiB; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def family(root: int) -> list[int]:
    """A process and everything below it."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


async def measure_time(server: ForkServer, root: Path, name: str, commands: list[str], repeats: int) -> dict[str, Any]:
    task = write_task(root / f"task-{name}", commands)
    mounts = bare_mounts()
    spec = spec_of(task)
    await run_trial(server, spec, root / f"{name}-warm")
    bare(commands, root / f"{name}-bare", mounts)
    trials, bares, stages = [], [], []
    for number in range(repeats):
        since_s = time.perf_counter()
        result = await run_trial(server, spec, root / f"{name}-{number}")
        trials.append(time.perf_counter() - since_s)
        stages.append(result.timings)
        since_s = time.perf_counter()
        bare(commands, root / f"{name}-bare", mounts)
        bares.append(time.perf_counter() - since_s)
    return {
        "trial_median_ms": round(1000 * statistics.median(trials), 1),
        "bare_median_ms": round(1000 * statistics.median(bares), 1),
        "ratio": round(statistics.median(trials) / statistics.median(bares), 3),
        "stages_ms": {
            stage: round(1000 * statistics.median(s.get(stage, 0.0) for s in stages), 1) for stage in stages[0]
        },
    }


async def measure_memory(server: ForkServer, root: Path, name: str, commands: list[str], count: int) -> dict[str, Any]:
    task = write_task(root / f"task-memory-{name}", commands)
    gate, ready = root / f"gate-{name}", root / f"ready-{name}"
    ready.mkdir()
    pids: dict[int, int] = {}
    policy = Plugin(name="trial_overhead:HoldingOracle", options={"gate": str(gate), "ready": str(ready)})
    runs = [
        asyncio.create_task(
            run_trial(
                server,
                spec_of(task, policy, sample),
                root / f"memory-{name}-{sample}",
                on_start=lambda number, pid: pids.__setitem__(number, pid),
            )
        )
        for sample in range(count)
    ]
    peak: dict[int, int] = {}
    while len(os.listdir(ready)) < count:
        for run in runs:
            if run.done():
                run.result()
        for pid in pids.values():
            peak[pid] = max(peak.get(pid, 0), private_kib(pid))
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.5)
    trials, sandboxes, processes = [], [], []
    for pid in pids.values():
        own = private_kib(pid)
        below = {p: private_kib(p) for p in family(pid)[1:]}
        trials.append(own / 1024)
        sandboxes.append(sum(below.values()) / 1024)
        processes.append(len(below))
    server_mib = private_kib(server.pid or 0) / 1024
    gate.touch()
    await asyncio.gather(*runs)
    total = [t + s for t, s in zip(trials, sandboxes, strict=True)]
    return {
        "concurrent": count,
        "private_mib_per_trial": round(statistics.mean(total), 1),
        "private_mib_max": round(max(total), 1),
        "of_it_trial_process_mib": round(statistics.mean(trials), 1),
        "of_it_sandbox_mib": round(statistics.mean(sandboxes), 1),
        "sandbox_processes": max(processes),
        "trial_process_peak_mib": round(max(peak.values()) / 1024, 1),
        "server_private_mib": round(server_mib, 1),
    }


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--concurrent", type=int, default=8)
    parser.add_argument("--json", action="store_true", help="print one JSON value only")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="trial-overhead-"))
    sets = {"trivial": TRIVIAL, "office": OFFICE}
    specs = [spec_of(root), spec_of(root, Plugin(name="trial_overhead:HoldingOracle"))]
    report: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "repeats": args.repeats}
    try:
        async with ForkServer(**preloads(specs), log=root / "server.log") as server:
            report["server_load_s"] = round(server.info["load_s"], 2)
            for name, commands in sets.items():
                report[name] = {
                    "time": await measure_time(server, root, name, commands, args.repeats),
                    "memory": await measure_memory(server, root, name, commands, args.concurrent),
                }
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if args.json:
        print(json.dumps(report, indent=1))
        return 0
    for name in sets:
        timing, memory = report[name]["time"], report[name]["memory"]
        print(
            f"{name}: trial {timing['trial_median_ms']} ms, "
            f"ten bare bubblewrap processes {timing['bare_median_ms']} ms, ratio {timing['ratio']} (target <= 2)\n"
            f"  stages (ms): {timing['stages_ms']}\n"
            f"  private memory per trial at {memory['concurrent']} concurrent: {memory['private_mib_per_trial']} MiB "
            f"(target <= 32): trial process {memory['of_it_trial_process_mib']}, sandbox {memory['of_it_sandbox_mib']} "
            f"in {memory['sandbox_processes']} processes; peak of a trial process {memory['trial_process_peak_mib']}"
        )
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(asyncio.run(main()))
