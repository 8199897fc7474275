"""Ray: a job on a cluster of two nodes, one of which is killed; stops, faults and kills of the driver."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from trial_fixtures import NO_RETRIES, PLUGINS, Leftovers, spec_for

from envkit.failure import EnvkitError, FailureKind, UserError
from envkit.trial import gc
from envkit.trial.job import Job, JobResult
from envkit.trial.progress import Silent, Tally
from envkit.trial.ray_executor import RayExecutor
from envkit.trial.result import Status
from envkit.trial.server import process_age
from envkit.trial.store import RunStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

MakeTask = Callable[..., Path]

#: Of killing and resuming, by the random generator's seed.
ROUNDS = 4

#: Nodes that are killed are noticed within seconds instead of half a minute.
QUICK = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 3}


@contextlib.contextmanager
def ray_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without places and two nodes with two places each, in processes of this machine."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    import ray

    temp = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # short, for the names of sockets below it
    monkeypatch.setenv("RAY_TMPDIR", str(temp))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    store = {"object_store_memory": 100 << 20, "num_cpus": 1}
    made = cluster_utils.Cluster(
        initialize_head=True, head_node_args={"include_dashboard": False, "_system_config": QUICK, **store}
    )
    made.trial_nodes = [made.add_node(resources={"envkit_trials": 2}, **store) for _ in range(2)]
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        shutil.rmtree(temp, ignore_errors=True)


@pytest.fixture
def cluster(leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """One for a test that breaks it; what is left of its processes is left of the test."""
    with ray_cluster(monkeypatch) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One for tests that leave it as it was."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        temp = tmp_path_factory.mktemp("shared")
        monkeypatch.setenv("TMPDIR", str(temp))
        with ray_cluster(monkeypatch) as made:
            made.temp = temp
            yield made


def executor(cluster: Any, **options: Any) -> RayExecutor:
    return RayExecutor(**{"address": cluster.address, "trials_per_host": 2, **options})


class At(Silent):
    """Does something once, when so many trials are done."""

    def __init__(self, done: int, what: Callable[[], object]) -> None:
        self._at, self._what = done, what
        self.happened = False

    def update(self, tally: Tally) -> None:
        if not self.happened and tally.done >= self._at:
            self.happened = True
            self._what()


def assert_each_scored_once(folder: Path, outcome: JobResult) -> None:
    ids = [result.trial_id for result in outcome.results]
    assert len(set(ids)) == len(ids)
    for result in outcome.results:
        attempts = RunStore(folder).attempts(result.trial_id)
        assert [a.status for a in attempts].count(Status.SCORED) == 1, result
    lines = [json.loads(line)["trial_id"] for line in (folder / "results.jsonl").read_text().splitlines()]
    assert Counter(lines) == Counter(ids)


async def test_a_node_that_is_killed_half_way_costs_attempts_and_no_result(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers, cluster: Any
) -> None:
    task = make_task()
    specs = [spec_for(task, "sabotage:Sleepy", {"s": 1.0}, sample=i) for i in range(16)]
    display = At(4, lambda: cluster.remove_node(cluster.trial_nodes[1], allow_graceful=False))
    outcome = await Job(specs, tmp_path / "run", concurrency=4, executor=executor(cluster), progress=display).run()
    assert display.happened
    assert [(r.status, r.reward) for r in outcome.results] == [(Status.SCORED, 1.0)] * len(specs)
    assert outcome.exit_code == 0
    assert_each_scored_once(tmp_path / "run", outcome)
    retried = [r for r in outcome.results if len(r.attempts) > 1]
    assert retried, "the node ran nothing when it was killed"
    for result in retried:
        assert {a.failure_kind for a in result.attempts[:-1]} == {FailureKind.TRIAL_DIED}
    # The evidence is here, as if it had been written here.
    attempt = tmp_path / "run" / "trials" / outcome.results[0].trial_id / f"attempt-{len(outcome.results[0].attempts)}"
    assert {"result.json", "verdict.json", "trajectory.json", "artifacts", "logs"} <= set(os.listdir(attempt))
    cluster.shutdown()
    gc.collect(providers=["local"])  # what was on the node's disk
    leftovers.assert_none_within()


async def test_faults_keep_their_kinds_and_their_logs_and_a_stop_is_clean(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers, shared: Any
) -> None:
    task = make_task()
    specs = [
        spec_for(task, "sabotage:KillsTrial"),
        spec_for(task, "sabotage:KillsSandboxBetweenSteps"),
        spec_for(task, "sabotage:Wedges", timeout_s=3.0, verify_reserve_s=0.5),
        spec_for(make_task("undecided", metadata='verifier = "sabotage:UndecidedVerifier"'), "noop"),
    ]
    gated = [spec_for(task, "sabotage:Gated", {"gate": str(tmp_path / "gate")}, sample=i) for i in range(5)]
    job = Job(
        [*specs, *gated],
        tmp_path / "run",
        concurrency=4,
        retries=NO_RETRIES,
        kill_grace_s=1.0,
        executor=executor(shared),
    )

    async def stop_when_four_wait() -> None:
        while len(list(tmp_path.glob("gate.*"))) < 4:
            await asyncio.sleep(0.1)
        job.stop()

    stopping = asyncio.create_task(stop_when_four_wait())
    outcome = await job.run()
    await stopping
    assert (outcome.interrupted, outcome.exit_code) == (True, 130)
    by_id = {result.trial_id: result for result in outcome.results}
    broken = [by_id[spec.trial_id] for spec in specs]
    assert [(r.status, r.failure.kind) for r in broken if r.failure is not None] == [
        (Status.FAILED, FailureKind.TRIAL_DIED),
        (Status.FAILED, FailureKind.SANDBOX_DIED),
        (Status.FAILED, FailureKind.DEADLINE),
        (Status.UNSCORED, FailureKind.JUDGE_UNREACHABLE),
    ]
    stopped = [r for r in outcome.results if r.status is Status.CANCELLED]
    assert len(stopped) == 4
    for result in stopped:  # cleanly: by themselves, with what they had done
        assert (tmp_path / "run" / "trials" / result.trial_id / "attempt-1" / "trajectory.json").exists()
    assert len(outcome.missing) == 1
    (tmp_path / "gate").touch()
    again = await Job([*specs, *gated], tmp_path / "run", concurrency=4, retries=NO_RETRIES, kill_grace_s=1.0).run()
    assert [r.status for r in again.results[-5:]] == [Status.SCORED] * 5  # resumed by another executor
    leftovers.assert_none_within()
    assert not list(shared.temp.rglob("*.tar"))


async def test_a_cluster_without_places_is_refused_with_the_remedy(
    tmp_path: Path, make_task: MakeTask, shared: Any
) -> None:
    specs = [spec_for(make_task())]
    with pytest.raises(UserError, match=r"--resources='\{\"trials\": 64\}'"):
        await Job(specs, tmp_path / "a", executor=executor(shared, resource="trials")).run()
    with pytest.raises(UserError, match=r"no Ray cluster at '127.0.0.1:1'"):
        await Job(specs, tmp_path / "b", executor=RayExecutor(address="127.0.0.1:1")).run()
    spec = spec_for(make_task("other"), "no_such_module:Policy")
    with pytest.raises(UserError, match=r"no Ray node can run these trials: .*no_such_module"):
        await Job([spec], tmp_path / "c", executor=executor(shared)).run()
    # A place that never comes: the job ends and can be resumed.
    waiting = executor(shared, resource="trials", autoscaling=True, patience_s=3.0)
    with pytest.raises(EnvkitError, match="no place for a trial for 3 s"):
        await Job(specs, tmp_path / "d", executor=waiting).run()
    outcome = await Job(specs, tmp_path / "d", executor=executor(shared, resource="CPU", per_trial=0.2)).run()
    assert [r.reward for r in outcome.results] == [1.0]


@pytest.mark.timeout(900)
async def test_a_job_killed_at_random_points_is_resumed_exactly(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers, shared: Any
) -> None:
    task = make_task()
    random.seed(21)
    options = json.dumps({"address": shared.address, "trials_per_host": 2})
    for round_ in range(ROUNDS):
        folder = tmp_path / f"run-{round_}"
        specs = [spec_for(task, "sabotage:Sleepy", {"s": 0.3}, sample=i) for i in range(6)]
        (tmp_path / "specs.json").write_text(json.dumps([s.model_dump(mode="json") for s in specs]))
        command = [sys.executable, str(Path(PLUGINS, "run_job.py")), PLUGINS, str(folder)]
        job = subprocess.Popen(
            [*command, str(tmp_path / "specs.json"), "4", "ray", options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(random.uniform(1.0, 12.0))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        before = {
            s.trial_id: found.finished_at
            for s in specs
            if (found := RunStore(folder).read_trial(s.trial_id)) is not None and found.status is Status.SCORED
        }
        outcome = await Job(specs, folder, concurrency=4, executor=executor(shared)).run()
        assert [(r.status, r.reward) for r in outcome.results] == [(Status.SCORED, 1.0)] * 6
        assert_each_scored_once(folder, outcome)
        assert {i: r.finished_at for r in outcome.results if (i := r.trial_id) in before} == before
    gc.collect(providers=["local"])
    leftovers.assert_none_within()


async def test_a_cluster_that_the_job_starts_ends_with_it_however_it_ends(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers
) -> None:
    task = make_task()
    specs = [spec_for(task, "sabotage:Sleepy", {"s": 2.0}, sample=i) for i in range(4)]
    (tmp_path / "specs.json").write_text(json.dumps([s.model_dump(mode="json") for s in specs]))
    command = [sys.executable, str(Path(PLUGINS, "run_job.py")), PLUGINS, str(tmp_path / "run")]
    command += [str(tmp_path / "specs.json"), "2", "ray", json.dumps({"address": "local"})]
    job = subprocess.Popen(command)
    end_s = time.monotonic() + 200
    while not leftovers.sandboxes and time.monotonic() < end_s:
        time.sleep(0.1)
    assert leftovers.sandboxes
    job.kill()
    job.wait()
    own = f"envkit-ray-{job.pid}-"
    end_s = time.monotonic() + 30
    while processes_of(own) and time.monotonic() < end_s:
        time.sleep(0.2)
    assert not processes_of(own)
    # Its workers end a little later; until then what is theirs stays.
    end_s = time.monotonic() + 30
    while (leftovers.left() or any(n.startswith(own) for n in os.listdir("/tmp"))) and time.monotonic() < end_s:
        gc.collect(providers=["local"])
        time.sleep(0.5)
    assert not any(name.startswith(own) for name in os.listdir("/tmp"))
    leftovers.assert_none_within(1)
    assert subprocess.run(command).returncode == 0
    assert not any(name.startswith("envkit-ray-") and not alive(name) for name in os.listdir("/tmp"))


def processes_of(mark: str) -> list[str]:
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if mark.encode() in Path("/proc", entry, "cmdline").read_bytes():
                found.append(entry)
    return found


def alive(name: str) -> bool:
    return process_age(int(name.split("-")[2])) is not None
