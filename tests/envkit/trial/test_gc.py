"""Collection: what dead runs left goes, what living ones use stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from trial_fixtures import PLUGINS, Leftovers, run_one, spec_for

from envkit.failure import EnvkitError, FailureKind
from envkit.sandbox.local import LocalProvider
from envkit.trial import gc
from envkit.trial.server import own_folder, pid_namespace, process_age, temp_root

MakeTask = Callable[..., Path]


def dead_pid() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(gc, "RAY_TEMP", str(tmp_path))
    monkeypatch.setattr(gc, "SHARED_MEMORY", str(tmp_path / "shared"))
    return tmp_path


def test_folders_of_the_dead_go_and_of_the_living_stay(temp: Path) -> None:
    dead = temp_root() / f"{dead_pid()}-123-{pid_namespace()}"
    # This pid is alive, but that folder's owner started at another time.
    reused = temp_root() / f"{os.getpid()}-1-{pid_namespace()}"
    elsewhere = temp_root() / f"{dead_pid()}-123-7"  # in a container that shares this disk: nobody here can tell
    forgotten = temp_root() / f"{dead_pid()}-124-7"
    living = own_folder(os.getpid())
    scratch = temp / f"envkit-env-{dead_pid()}-abc"
    living_scratch = temp / f"envkit-env-{os.getpid()}-abc"
    foreign = temp / "envkit-notes"
    # Weights for engines, of a trainer that was killed, of one in another container, of a living one.
    left = temp / "shared" / f"envkit-weights-{dead_pid()}-{pid_namespace()}-abc"
    theirs = temp / "shared" / f"envkit-weights-{dead_pid()}-7-abc"
    mine = temp / "shared" / f"envkit-weights-{os.getpid()}-{pid_namespace()}-abc"
    for folder in (dead, reused, living, scratch, living_scratch, foreign, elsewhere, forgotten, left, theirs, mine):
        (folder / "deep").mkdir(parents=True)
    (dead / "run").write_text("/runs/first")
    os.utime(forgotten, (time.time() - 8 * 86400,) * 2)
    would = gc.collect(dry_run=True, providers=[])
    wanted = [f"folder {dead} (run /runs/first)", *(f"folder {f}" for f in (reused, scratch, forgotten, left))]
    assert sorted(would) == sorted(wanted)
    assert dead.exists()
    assert gc.collect(providers=[]) == would
    assert [f.exists() for f in (dead, reused, scratch, forgotten, left)] == [False] * 5
    assert [f.exists() for f in (living, living_scratch, foreign, elsewhere, theirs, mine)] == [True] * 6
    assert gc.collect(providers=[]) == []


def test_a_link_in_the_place_of_a_folder_is_not_followed(temp: Path) -> None:
    precious = temp / "precious"
    precious.mkdir()
    (temp / f"envkit-env-{dead_pid()}-abc").symlink_to(precious)
    assert gc.collect(providers=[]) == []
    assert precious.exists()


@pytest.mark.slow
async def test_a_server_and_its_trials_killed_together_are_collected_by_the_next_run(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers
) -> None:
    """The hardest case: job and fork server die at the same moment, so nobody is left to clean up."""
    import json

    task = make_task()
    spec = spec_for(task, "sabotage:Wedges")
    (tmp_path / "specs.json").write_text(json.dumps([spec.model_dump(mode="json")]))
    run_job = [sys.executable, str(Path(PLUGINS, "run_job.py")), PLUGINS, str(tmp_path / "run")]
    job = subprocess.Popen([*run_job, str(tmp_path / "specs.json"), "1"])
    end_s = time.monotonic() + 30
    while not leftovers.sandboxes and time.monotonic() < end_s:
        time.sleep(0.05)
    time.sleep(0.5)
    server = int(next(temp_root().iterdir()).name.split("-")[0])
    job.send_signal(signal.SIGSTOP)  # so that it can't react to the server's death
    os.kill(server, signal.SIGKILL)
    job.kill()
    job.wait()
    end_s = time.monotonic() + 5
    while leftovers.left().get("processes") and time.monotonic() < end_s:
        time.sleep(0.05)
    left = leftovers.left()
    assert "processes" not in left  # the kernel saw to that
    assert process_age(server) is None
    gc.collect()
    leftovers.assert_none_within(1)


@pytest.mark.slow
async def test_a_trial_that_died_is_collected_by_its_own_server(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers
) -> None:
    result = await run_one(tmp_path / "run", spec_for(make_task(), "sabotage:KillsTrial"))
    assert result.failure is not None
    assert result.failure.kind is FailureKind.TRIAL_DIED
    leftovers.assert_none_within()


def test_a_folder_that_its_owner_removes_meanwhile_is_no_error(temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = temp / f"envkit-env-{dead_pid()}-abc"
    scratch.mkdir()

    def removed_meanwhile(pid: int) -> str | None:
        scratch.rmdir()
        return process_age(pid)

    monkeypatch.setattr(gc, "process_age", removed_meanwhile)
    assert gc.collect(providers=()) == []


def test_a_provider_that_cannot_be_asked_keeps_nobody_else_from_being_collected(
    temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: LocalProvider, *, dry_run: bool = False) -> list[str]:
        raise EnvkitError("its daemon is out of its mind")

    monkeypatch.setattr(LocalProvider, "collect", refuse)
    scratch = temp / f"envkit-env-{dead_pid()}-abc"
    scratch.mkdir()
    problems: list[str] = []
    assert gc.collect(providers=["local"], problems=problems) == [f"folder {scratch}"]
    assert problems == ["local: its daemon is out of its mind"]
    assert not scratch.exists()


def test_what_a_dead_jobs_ray_cluster_still_runs_goes_with_its_folder(temp: Path) -> None:
    dead, living = temp / f"envkit-ray-{dead_pid()}-abc", temp / f"envkit-ray-{os.getpid()}-abc"
    agents = []
    for folder in (dead, living):
        folder.mkdir()
        with (folder / "agent.log").open("w") as log:
            agents.append(subprocess.Popen(["sleep", "1000"], stdout=log))
    try:
        would = gc.collect(providers=[], dry_run=True)
        assert would == [f"folder {dead}", f"process {agents[0].pid}, which uses {dead}"]
        assert [agent.poll() for agent in agents] == [None, None]
        assert gc.collect(providers=[]) == would
        assert agents[0].wait(10) == -signal.SIGKILL
        assert agents[1].poll() is None
        assert (dead.exists(), living.exists()) == (False, True)
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()
