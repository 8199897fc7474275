"""Ray: a job on a cluster of two nodes, one of which is killed; stops, faults and kills of the driver."""

from __future__ import annotations

import asyncio
import json
import os
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
from trial_fixtures import PLUGINS, Leftovers, spec_for

from envkit.failure import FailureKind, UserError
from envkit.trial import gc
from envkit.trial.job import Job, JobResult
from envkit.trial.progress import Silent, Tally
from envkit.trial.ray_executor import RayExecutor
from envkit.trial.result import Status
from envkit.trial.store import RunStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

MakeTask = Callable[..., Path]

#: Nodes that are killed are noticed within seconds instead of half a minute.
QUICK = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 3}


@pytest.fixture
def cluster(leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without places and two nodes with two places each, in processes of this machine."""
    temp = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # short, for the names of sockets below it
    monkeypatch.setenv("RAY_TMPDIR", str(temp))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    import ray

    made = cluster_utils.Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 1,
            "include_dashboard": False,
            "object_store_memory": 100 << 20,
            "_system_config": QUICK,
        },
    )
    made.trial_nodes = [
        made.add_node(num_cpus=1, resources={"envkit_trials": 2}, object_store_memory=100 << 20) for _ in range(2)
    ]
    yield made
    ray.shutdown()
    made.shutdown()
    shutil.rmtree(temp)


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
    leftovers.assert_none_within(10)
