"""Ctrl-C and SIGKILL of the job at random moments: nothing lives on, and a resume completes the set, none twice.
The same where the job and all that is below it die at one moment, so that nobody is left to clean up but the resume."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from sabotage import descendants
from trial_fixtures import PLUGINS, Leftovers, spec_for

from envkit.trial.job import Job
from envkit.trial.plan import Rerun
from envkit.trial.result import Status, TrialResult
from envkit.trial.server import process_age
from envkit.trial.store import RunStore

MakeTask = Callable[..., Path]

TRIALS = 6


def start(folder: Path, specs_file: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(Path(PLUGINS, "run_job.py")), PLUGINS, str(folder), str(specs_file), "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def kill_tree(root: int) -> None:
    """Kills a process and everything below it at once: stopped first, so that none of them can react. Returns when the
    last of them is dead: a resume that still found one alive would rightly leave it its folder."""
    os.kill(root, signal.SIGSTOP)
    found = {pid: process_age(pid) for pid in (root, *descendants(root))}
    for which in (signal.SIGSTOP, signal.SIGKILL):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, which)
    end_s = time.monotonic() + 30
    while any(age is not None and process_age(pid) == age for pid, age in found.items()):
        assert time.monotonic() < end_s, f"still alive after SIGKILL: {found}"
        time.sleep(0.01)


async def interrupt_and_resume(
    tmp_path: Path, task: Path, leftovers: Leftovers, which: signal.Signals, delay_s: float, *, tree: bool = False
) -> None:
    folder = tmp_path / f"run-{which.name}-{tree}-{delay_s:.3f}"
    specs = [spec_for(task, "sabotage:Sleepy", {"s": 0.3}, sample=i) for i in range(TRIALS)]
    specs_file = tmp_path / "specs.json"
    specs_file.write_text(json.dumps([s.model_dump(mode="json") for s in specs]))
    job = start(folder, specs_file)
    time.sleep(delay_s)
    if tree and job.poll() is None:
        kill_tree(job.pid)
    else:
        job.send_signal(which)
    code = job.wait(30)
    if code != 0:  # 0: it was through already
        # 1: the interpreter itself was interrupted, before anything of ours was loaded.
        assert code in (-which, 130) or (code == 1 and not folder.exists())
    if not tree:
        leftovers.assert_none_within()

    before = scored(folder, [s.trial_id for s in specs])
    outcome = await Job(specs, folder, concurrency=3, unscored=Rerun.NEVER).run()
    assert [(r.status, r.reward) for r in outcome.results] == [(Status.SCORED, 1.0)] * TRIALS
    lines = [json.loads(line)["trial_id"] for line in (folder / "results.jsonl").read_text().splitlines()]
    assert Counter(lines) == Counter(s.trial_id for s in specs)
    for result in outcome.results:
        # Exactly one attempt is scored, and a trial that had a verdict was not run again.
        attempts = RunStore(folder).attempts(result.trial_id)
        assert [a.status for a in attempts].count(Status.SCORED) == 1
        if result.trial_id in before:
            assert result.finished_at == before[result.trial_id].finished_at
            assert result.verdict == before[result.trial_id].verdict
    assert not [path for path in folder.rglob(".*") if path.is_file()]  # nothing half written is left
    leftovers.assert_none_within()


def scored(folder: Path, ids: list[str]) -> dict[str, TrialResult]:
    store = RunStore(folder)
    found = {trial_id: store.read_trial(trial_id) for trial_id in ids}
    return {trial_id: r for trial_id, r in found.items() if r is not None and r.status is Status.SCORED}


@pytest.mark.slow
@pytest.mark.parametrize(("which", "delay_s"), [(signal.SIGKILL, 1.7), (signal.SIGINT, 1.9)])
async def test_interrupted_in_the_middle(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers, which: signal.Signals, delay_s: float
) -> None:
    await interrupt_and_resume(tmp_path, make_task(), leftovers, which, delay_s)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("which", "tree", "points"),
    [(signal.SIGKILL, False, 20), (signal.SIGKILL, True, 8), (signal.SIGINT, False, 20)],
    ids=["job", "tree", "ctrl-c"],
)
async def test_interrupted_at_random_points(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers, which: signal.Signals, tree: bool, points: int
) -> None:
    task = make_task()
    random.seed(20)
    for _ in range(points):
        await interrupt_and_resume(tmp_path, task, leftovers, which, random.uniform(0.05, 4.5), tree=tree)


@pytest.mark.slow
async def test_a_second_ctrl_c_ends_at_once(tmp_path: Path, make_task: MakeTask, leftovers: Leftovers) -> None:
    task = make_task()
    specs = [spec_for(task, "sabotage:Wedges", {}, sample=i) for i in range(2)]
    specs_file = tmp_path / "specs.json"
    specs_file.write_text(json.dumps([s.model_dump(mode="json") for s in specs]))
    job = start(tmp_path / "run", specs_file)
    end_s = time.monotonic() + 60
    while leftovers.sandboxes < 2 and time.monotonic() < end_s:
        time.sleep(0.05)
    time.sleep(1.0)
    job.send_signal(signal.SIGINT)
    time.sleep(0.7)
    assert job.poll() is None  # wedged trials don't end by themselves; the first Ctrl-C gives them their time
    since_s = time.monotonic()
    job.send_signal(signal.SIGINT)
    assert job.wait(10) == 130
    assert time.monotonic() - since_s < 6
    processes = leftovers.left().get("processes", [])
    assert processes == []
