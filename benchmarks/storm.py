"""Trials by the hundred on one machine: does each end as it should, at what cost, and is anything left behind?

    nice python benchmarks/storm.py [--trials 500] [--office 64] [--no-faults] [--json]

Every trial is an oracle's and real: sandbox, tools, snapshot, verification, records. Each does its work and then waits,
so that all of them are alive at once (as many as the job's admission lets in); then all end together, which is harder
than what models do. Four storms: `--trials` under the OpenCode harness, `--office` under the Archipelago harness with
its office servers, and both again with something broken in every tenth trial:

- the sandbox is killed: `sandbox_died`, tried again, scored;
- the trial's process is killed (OpenCode): `trial_died`, tried again, scored;
- the tool servers are killed (Archipelago): started again, scored in the same attempt;
- the judge answers 429 for good: `judge_unreachable`, tried again by rule, in the end unscored with bounds;
- no room for the trial's final state: `disk_full`, failed at once, for the run's own disk has room.

The numbers: system failures (want: none but those), trials a second, the memory they took at most (by the machine's
available memory, so other work on it counts), processes at the peak, and what is left behind (want: nothing).
Exit code 1 where something is not as it should be.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from storm_parts import below

from envkit import registry
from envkit.failure import FailureKind
from envkit.home import envkit_home
from envkit.trial.host import memory_available_mb
from envkit.trial.job import Job, JobResult
from envkit.trial.result import Plugin, Status, TrialResult, TrialSpec
from envkit.trial.server import process_age, temp_root

HERE = str(Path(__file__).resolve().parent)

#: What strikes: policy, harnesses that it makes sense for, and how the trial must end: status and kinds of failures of
#: all attempts but a scored last.
FAULTS: dict[str, tuple[str, tuple[str, ...], Status, tuple[FailureKind, ...]]] = {
    "sandbox kill": ("SandboxKill", ("opencode", "archipelago"), Status.SCORED, (FailureKind.SANDBOX_DIED,)),
    "trial kill": ("TrialKill", ("opencode",), Status.SCORED, (FailureKind.TRIAL_DIED,)),
    "server kill": ("ServerKill", ("archipelago",), Status.SCORED, ()),
    "judge 429": ("Held", ("opencode",), Status.UNSCORED, (FailureKind.JUDGE_UNREACHABLE,) * 3),
    "disk full": ("DiskFull", ("opencode", "archipelago"), Status.FAILED, (FailureKind.DISK_FULL,)),
}

TASK = """\
schema_version = "1.4"
[environment]
network_mode = "no-network"
cpus = 1
"""
CHECKS = """\
schema_version = "1"
[[check]]
id = "report"
kind = "text"
path = "/filesystem/report.txt"
contains = ["ready"]
[[check]]
id = "tone"
kind = "judge"
criterion = "CRITERION"
"""
COMMANDS = [
    "ls -la",
    "python3 -c \"import openpyxl; b = openpyxl.Workbook(); b.active.append(['ready']); b.save('model.xlsx')\"",
    "grep -n some notes.txt",
    "echo ready > report.txt",
]
REFUSED = "This one is refused."


def write_task(folder: Path, criterion: str) -> Path:
    for part in ("tests", "solution", "environment/world/filesystem", "environment/world/.apps_data"):
        (folder / part).mkdir(parents=True)
    (folder / "task.toml").write_text(TASK)
    (folder / "instruction.md").write_text("Write the word 'ready' into report.txt.\n")
    (folder / "tests" / "verifier.toml").write_text(CHECKS.replace("CRITERION", criterion))
    (folder / "environment" / "world" / "filesystem" / "notes.txt").write_text("some notes\n" * 50)
    calls = [{"name": "bash", "arguments": {"command": c, "description": "works"}} for c in COMMANDS]
    (folder / "solution" / "opencode.json").write_text(json.dumps({"calls": calls, "answer": "done"}))
    return folder


@contextlib.asynccontextmanager
async def judge(folder: Path) -> AsyncIterator[None]:
    """A judge's endpoint on this machine, in `ENVKIT_JUDGE`: passes everything, and refuses what names `REFUSED`."""
    verdict = json.dumps({"rationale": "It is so.", "verdict": "pass"})
    answer = json.dumps(
        {
            "id": "1",
            "object": "chat.completion",
            "model": "judge",
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": verdict}},
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    )

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
                refused = REFUSED.encode() in await reader.readexactly(length)
                body = b'{"error": {"message": "too many requests"}}' if refused else answer.encode()
                status = "429 Too Many Requests" if refused else "200 OK"
                head_out = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head_out.encode() + body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    config = folder / "judge.toml"
    config.write_text(
        f'model = "judge"\nbase_url = "http://127.0.0.1:{port}/v1"\napi_key_env = ["STORM_JUDGE_KEY"]\n'
        "cache = false\nmax_attempts = 4\nfirst_delay_s = 0.2\n"
    )
    os.environ |= {"ENVKIT_JUDGE": str(config), "STORM_JUDGE_KEY": "storm-judge-key-1"}
    try:
        yield
    finally:
        server.close()
        for name in ("ENVKIT_JUDGE", "STORM_JUDGE_KEY"):
            del os.environ[name]


class Watch:
    """Looks at the machine while a storm is on, and opens the gate when everybody who may be there is."""

    def __init__(self, root: Path, wanted: int) -> None:
        self.gate, self.ready = root / "gate", root / "ready"
        self.ready.mkdir()
        self.most_alive = self.most_processes = 0
        self.least_mb = self.start_mb = memory_available_mb() or 0.0
        self._root, self._wanted = root, wanted
        self._records: dict[str, dict[str, Any]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        last, since_s = -1, time.monotonic()
        while not self._stop.wait(0.25):
            self.least_mb = min(self.least_mb, memory_available_mb() or self.least_mb)
            for path in (envkit_home() / "sandboxes").glob("*.json"):
                if path.name not in self._records:
                    with contextlib.suppress(OSError, ValueError):
                        self._records[path.name] = json.loads(path.read_text())
            if self.gate.exists():
                continue
            there = len(os.listdir(self.ready))
            if there != last:
                last, since_s = there, time.monotonic()
            self.most_alive = there
            if there >= self._wanted or time.monotonic() - since_s > 60.0:
                self.most_processes = len(below(os.getpid()))
                self.gate.touch()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def left(self) -> dict[str, list[str]]:
        """What is still there of this storm's, by kind."""
        mine = [r for r in self._records.values() if str(r["labels"].get("run", "")).startswith(str(self._root))]
        places = {str(self._root / "tmp"), *(folder for record in mine for folder in record["folders"])}
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found = {
            "processes": [str(pid) for pid in self._marked()],
            "cgroups": [group for record in mine for group in record["cgroups"] if Path(group).exists()],
            "mounts": [line for line in mounts if any(place in line for place in places)],
            "records": [r["id"] for r in mine if (envkit_home() / "sandboxes" / f"{r['id']}.json").exists()],
            "folders": [folder for record in mine for folder in record["folders"] if Path(folder).exists()]
            + [str(path) for path in (self._root / "tmp").rglob("*") if path != temp_root()],
        }
        return {kind: things for kind, things in found.items() if things}

    def _marked(self) -> list[int]:
        mark = f"TMPDIR={self._root / 'tmp'}".encode()
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if int(entry) != os.getpid() and mark in Path(f"/proc/{entry}/environ").read_bytes():
                    found += [int(entry)] if process_age(int(entry)) is not None else []
        return found


def plan(root: Path, harness: str, count: int, every: int | None) -> list[tuple[TrialSpec, str | None]]:
    """The trials, and what strikes each: something every so many trials, or nothing."""
    gate = {"gate": str(root / "gate"), "ready": str(root / "ready")}
    if harness == "archipelago":
        solved = [i for i in registry.expand(["office/*"]) if scripted(i)]
        if not solved:
            raise SystemExit("no task of the office pack has a solution for the Archipelago harness")
    kinds = [name for name, (_, where, _, _) in FAULTS.items() if harness in where]
    out: list[tuple[TrialSpec, str | None]] = []
    for number in range(count):
        struck = every is not None and number % every == every - 1
        fault = kinds[number // every % len(kinds)] if every is not None and struck else None
        if harness == "archipelago":
            task = solved[number % len(solved)]
        else:
            task = str(root / ("refused" if fault == "judge 429" else "task"))
        policy = Plugin(name=f"storm_parts:{FAULTS[fault][0] if fault else 'Held'}", options=gate)
        spec = TrialSpec(
            task=task,
            harness=Plugin(name=harness),
            policy=policy,
            sample=number,
            timeout_s=3600,
            verify_reserve_s=900,
        )
        out.append((spec, fault))
    return out


def scripted(task: str) -> bool:
    _, loaded = registry.find(task)
    return any(s.solution_dir is not None and (s.solution_dir / "archipelago.json").is_file() for s in loaded.steps)


def wrong(result: TrialResult, fault: str | None) -> str | None:
    """What is not as it should be with one trial."""
    status, kinds = (FAULTS[fault][2], FAULTS[fault][3]) if fault else (Status.SCORED, ())
    found = tuple(a.failure_kind for a in result.attempts if a.status is not Status.SCORED)
    if result.status is status and found == kinds and (status is not Status.SCORED or result.reward == 1.0):
        return None
    message = next((a.failure_message for a in result.attempts if a.failure_message), "")
    return (
        f"{result.trial_id} ({fault or 'no fault'}): expected {status} after {[str(k) for k in kinds]}, found "
        f"{result.status}, reward {result.reward}, after {[str(k) for k in found]}: {message}"
    )


async def storm(root: Path, harness: str, count: int, *, every: int | None) -> dict[str, Any]:
    """One storm, in which something strikes every so many trials (None: nothing does); returns its numbers."""
    root.mkdir(parents=True)
    (root / "tmp").mkdir()
    if harness == "opencode":
        write_task(root / "task", "The report is ready.")
        write_task(root / "refused", REFUSED)
    planned = plan(root, harness, count, every)
    old, tempfile.tempdir = tempfile.tempdir, str(root / "tmp")
    os.environ["TMPDIR"] = tempfile.tempdir
    watch = Watch(root, count)
    try:
        since_s = time.monotonic()
        outcome: JobResult = await Job([spec for spec, _ in planned], root / "run", concurrency=count).run()
        took_s = time.monotonic() - since_s
        end_s = time.monotonic() + 10.0
        while (left := watch.left()) and time.monotonic() < end_s:
            await asyncio.sleep(0.2)
    finally:
        watch.close()
        tempfile.tempdir = old
        del os.environ["TMPDIR"]
    by_id = {result.trial_id: result for result in outcome.results}
    problems = [f"{spec.trial_id} has no result" for spec, _ in planned if spec.trial_id not in by_id]
    problems += [p for spec, fault in planned if (r := by_id.get(spec.trial_id)) is not None and (p := wrong(r, fault))]
    struck = Counter(fault for _, fault in planned if fault)
    return {
        "harness": harness,
        "trials": count,
        "alive_at_once": watch.most_alive,
        "scored": sum(r.status is Status.SCORED for r in outcome.results),
        "attempts": sum(len(r.attempts) for r in outcome.results),
        "struck": dict(struck),
        "wrong": problems,
        "left_behind": left,
        "seconds": round(took_s, 1),
        "trials_per_s": round(len(outcome.results) / took_s, 2),
        "peak_memory_mib": round(watch.start_mb - watch.least_mb),
        "processes": watch.most_processes,
        "job_stopped": outcome.failure.message if outcome.failure else None,
    }


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=500, help="under the OpenCode harness; 0 for none")
    parser.add_argument("--office", type=int, default=64, help="under the Archipelago harness; 0 for none")
    parser.add_argument("--no-faults", action="store_true", help="only the two storms without faults")
    parser.add_argument("--only-faults", action="store_true", help="only the two storms with faults")
    parser.add_argument("--json", action="store_true", help="print one JSON value only")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="storm-"))
    reports = []
    try:
        async with judge(root):
            for faults in (False, True):
                if args.no_faults if faults else args.only_faults:
                    continue
                for harness, count in (("opencode", args.trials), ("archipelago", args.office)):
                    if count:
                        report = await storm(root / f"{harness}-{faults}", harness, count, every=10 if faults else None)
                        reports.append(report)
                        if not args.json:
                            show(report)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if args.json:
        print(json.dumps({"cores": len(os.sched_getaffinity(0)), "storms": reports}, indent=1))
    return int(any(r["wrong"] or r["left_behind"] or r["job_stopped"] for r in reports))


def show(report: dict[str, Any]) -> None:
    struck = ", ".join(f"{count} {name}" for name, count in report["struck"].items())
    print(
        f"{report['trials']} trials, {report['harness']}{f', struck: {struck}' if struck else ''}\n"
        f"  {report['alive_at_once']} alive at once in {report['processes']} processes, "
        f"{report['peak_memory_mib']} MiB at most\n"
        f"  {report['scored']} scored in {report['attempts']} attempts, {report['seconds']} s, "
        f"{report['trials_per_s']} trials/s\n"
        f"  not as it should be: {len(report['wrong'])}; left behind: {report['left_behind'] or 'nothing'}",
        flush=True,
    )
    for problem in report["wrong"][:20]:
        print(f"    {problem}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, HERE)
    sys.exit(asyncio.run(main()))
