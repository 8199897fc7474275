"""Tasks, jobs and a look at what is left over, shared by the tests of trials."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from envkit.failure import FailureKind
from envkit.home import envkit_home
from envkit.trial.job import Job, JobResult
from envkit.trial.result import Plugin, TrialResult, TrialSpec
from envkit.trial.server import process_age, temp_root

#: Where `module:Class` finds the plug-ins of these tests.
PLUGINS = str(Path(__file__).parent)

CHECKS = """\
schema_version = "1"
scoring = "weighted_mean"

[[check]]
id = "report"
kind = "text"
path = "/filesystem/report.txt"
contains = ["ready"]
"""

SOLVE = "echo ready > /filesystem/report.txt\nmkdir -p /logs/agent\necho done > /logs/agent/answer.txt\n"


def write_task(
    folder: Path,
    *,
    checks: str | None = CHECKS,
    script: str | None = None,
    solve: str = SOLVE,
    calls: list[Any] | None = None,
    metadata: str = "",
    environment: str = "",
    verifier: str = "",
) -> Path:
    """A small Harbor task; `script` makes it one with a tests/test.sh."""
    (folder / "tests").mkdir(parents=True)
    (folder / "solution").mkdir()
    (folder / "task.toml").write_text(
        'schema_version = "1.4"\n'
        f"[metadata.envkit]\n{metadata}\n"
        f'[environment]\nnetwork_mode = "no-network"\n{environment}\n[verifier]\n{verifier}\n'
    )
    (folder / "instruction.md").write_text("Write the word 'ready' into report.txt.\n")
    world = folder / "environment" / "world"
    (world / "filesystem").mkdir(parents=True)
    (world / ".apps_data").mkdir()
    (world / "filesystem" / "notes.txt").write_text("some notes\n")
    (folder / "solution" / "solve.sh").write_text(solve)
    if calls is not None:
        (folder / "solution" / "opencode.json").write_text(json.dumps({"calls": calls, "answer": "done"}))
    if checks is not None and script is None:
        (folder / "tests" / "verifier.toml").write_text(checks)
    if script is not None:
        (folder / "tests" / "test.sh").write_text(script)
    return folder


def spec_for(task: Path, policy: str = "oracle", options: dict[str, Any] | None = None, **fields: Any) -> TrialSpec:
    base: dict[str, Any] = {"timeout_s": 120.0, "verify_reserve_s": 40.0}
    return TrialSpec(task=str(task), policy=Plugin(name=policy, options=options or {}), **{**base, **fields})


async def run_job(folder: Path, specs: list[TrialSpec], **options: Any) -> JobResult:
    return await Job(specs, folder, **{"retries": NO_RETRIES, **options}).run()


async def run_one(folder: Path, spec: TrialSpec, **options: Any) -> TrialResult:
    outcome = await run_job(folder, [spec], **options)
    assert len(outcome.results) == 1, outcome
    return outcome.results[0]


NO_RETRIES = dict.fromkeys(FailureKind, 0)


class Leftovers:
    """Watches what the trials of one test create on this machine, and says what of it is still there.

    Sandboxes are known by the records their provider writes while they live (`run` label below the test's folder);
    everything in their cgroups is noted. Trial processes carry the test's own TMPDIR in their environment.
    """

    def __init__(self, root: Path, temp: Path) -> None:
        self.temp = temp
        self.sandboxes = 0
        self._root = str(root)
        self._seen: dict[str, set[str]] = {"cgroups": set(), "folders": set()}
        self._pids: set[tuple[int, str | None]] = set()
        self._records: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def processes_seen(self) -> int:
        """Processes that were seen inside sandboxes: with none, their absence afterwards says nothing."""
        return len(self._pids)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            for path in (envkit_home() / "sandboxes").glob("*.json"):
                if path.name not in self._records:
                    self._note(path)
            for group in list(self._seen["cgroups"]):
                self._note_processes(Path(group))

    def _note(self, path: Path) -> None:
        try:
            record = json.loads(path.read_text())
        except (OSError, ValueError):
            return  # being written, or gone already
        self._records.add(path.name)
        if not str(record["labels"].get("run", "")).startswith(self._root):
            return
        self.sandboxes += 1
        self._seen["cgroups"] |= set(record["cgroups"])
        self._seen["folders"] |= {*record["folders"], str(path)}

    def _note_processes(self, group: Path) -> None:
        for file in ("cgroup.procs", "agent/cgroup.procs"):
            try:
                pids = (group / file).read_text().split()
            except OSError:
                continue
            self._pids |= {(int(pid), age) for pid in pids[:500] if (age := process_age(int(pid))) is not None}

    def left(self) -> dict[str, list[str]]:
        """What is still there, by kind; empty kinds are left out."""
        marked = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid() and process_age(int(entry)) is not None:
                try:
                    if f"TMPDIR={self.temp}".encode() in Path(f"/proc/{entry}/environ").read_bytes():
                        marked.append(f"{entry} {Path(f'/proc/{entry}/cmdline').read_bytes()[:200]!r}")
                except OSError:
                    continue
        inside = [f"{pid} (inside)" for pid, age in list(self._pids) if process_age(pid) == age]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        # The watching thread adds to these meanwhile.
        groups, folders = list(self._seen["cgroups"]), list(self._seen["folders"])
        places = [str(self.temp), *folders]
        found = {
            "processes": marked + inside,
            "mounts": [line for line in mounts if any(place in line for place in places)],
            "cgroups": [path for path in groups if Path(path).exists()],
            "folders": [path for path in folders if Path(path).exists()]
            + [str(path) for path in self.temp.rglob("*") if path != temp_root()],
        }
        return {kind: things for kind, things in found.items() if things}

    def assert_none_within(self, seconds: float = 20.0) -> None:
        end_s = time.monotonic() + seconds
        while (left := self.left()) and time.monotonic() < end_s:
            time.sleep(0.1)
        assert not left, left
