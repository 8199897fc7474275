"""Ranks as actors over two nodes of a real Ray cluster, one of which is lost in the middle of a run: the run says so in
one line, goes back to its last checkpoint, and reaches its end with every group of its buffer trained once."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import megatron_run
import pytest

from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.data import screen
from envkit.backends.loop import Event, Loop, Shuffled, StepDone
from envkit.backends.loop.events import CheckpointDone, Fault
from envkit.backends.loop.ledger import Ledger
from envkit.backends.megatron.config import MegatronTrainerConfig, RayRanks
from envkit.backends.megatron.layout import Layout
from envkit.backends.megatron.trainer import MegatronTrainer
from envkit.backends.torch.config import OptimizerConfig
from envkit.deadline import Deadline
from envkit.failure import CapabilityError, UserError

pytestmark = [pytest.mark.megatron, pytest.mark.timeout(900)]

#: Nodes that are killed are noticed within seconds instead of half a minute.
QUICK = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 6}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without room for ranks, and two nodes with room for one each, in processes of this machine."""
    from ray.cluster_utils import Cluster

    temp = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # short, for the names of sockets below it
    monkeypatch.setenv("RAY_TMPDIR", str(temp))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    store = {"object_store_memory": 100 << 20}
    head = {"include_dashboard": False, "_system_config": QUICK, "num_cpus": 0, **store}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.room = {"num_cpus": 1, **store}
    made.places = [made.add_node(**made.room) for _ in range(2)]
    try:
        yield made
    finally:
        made.shutdown()
        shutil.rmtree(temp, ignore_errors=True)


def config(folder: Path, **ray: Any) -> MegatronTrainerConfig:
    return MegatronTrainerConfig(
        model=folder,
        world=2,
        layout=Layout(tensor=2),
        threads=1,
        logprob_chunk=16,
        hf_checkpoints=False,
        optimizer=OptimizerConfig(lr=1e-3, grad_clip=1.0),
        ray=RayRanks(cpus=1.0, strategy="STRICT_SPREAD", **ray),
    )


async def test_a_node_that_is_lost_costs_time_and_nothing_else(
    cluster: Any, folders: dict[str, Path], tmp_path: Path
) -> None:
    own = config(folders["tied"], address=cluster.address, patience_s=300)
    trainer = MegatronTrainer(own, AlgorithmConfig(), logs=tmp_path / "ranks")
    # As on nodes that don't see the run's folder: what ranks print has to come through Ray.
    (tmp_path / "ranks" / ".logs").write_text("another folder of that name")
    engines, events, done = megatron_run.Engines(), list[Event](), set[str]()
    trials, ledger = megatron_run.Trials(engines), Ledger(megatron_run.PLAN)

    def lose(event: Event) -> None:
        """A node goes after step 3, when there is a checkpoint; another comes."""
        if isinstance(event, CheckpointDone):
            done.add("durable")
        elif isinstance(event, StepDone) and event.step == 3:
            done.add("third")
        if done == {"durable", "third"}:
            done.add("lost")
            cluster.remove_node(cluster.places[1], allow_graceful=False)
            cluster.add_node(**cluster.room)

    loop = Loop(
        megatron_run.PLAN,
        folder=tmp_path,
        trials=trials,
        engines=engines,
        trainer=trainer,
        tasks=Shuffled(["task-0", "task-1", "task-2"], seed=0),
        screen=partial(screen, config=AlgorithmConfig(), min_valid_rows=2),
        prepare=partial(megatron_run.make_batch, ranks=trainer.ranks),
        observers=[ledger, events.append, lose, trials],
    )
    end = await loop.run()
    assert end.failure is None
    assert end.step == megatron_run.PLAN.steps
    assert trainer.restarts == 1
    (fault,) = [event for event in events if isinstance(event, Fault)]
    assert fault.where == "train"
    assert "is gone (The actor died" in fault.failure.message
    assert "during step 4" in fault.failure.message
    assert "\n" not in fault.failure.message
    finished = [event for event in events if isinstance(event, StepDone)]
    order = [(event.step, event.replayed) for event in finished]
    assert order == [(1, False), (2, False), (3, False), (3, True), (4, False), (5, False)]
    first, again = (event for event in finished if event.step == 3)
    assert [group.id for group in first.groups] == [group.id for group in again.groups]
    assert abs(first.metrics["loss"] - again.metrics["loss"]) < 1e-6
    ledger.check(drained=False)
    logs = [(tmp_path / "ranks" / f"rank-{n}.log").read_text() for n in range(2)]
    assert all("megatron" in log.lower() for log in logs)
    import ray

    assert not ray.is_initialized()

    # What the cluster has no room for, and a cluster that is not there, are said at once.
    small = MegatronTrainer(config(folders["tied"], address=cluster.address, patience_s=1), AlgorithmConfig())
    cluster.remove_node(cluster.places[0], allow_graceful=False)
    try:
        with pytest.raises(CapabilityError, match=r"no room for 2 ranks of \{'CPU': 1.0\} \(STRICT_SPREAD\)"):
            await small.start(Deadline.after(120))
    finally:
        with contextlib.suppress(Exception):
            await small.close()
    with pytest.raises(UserError, match=r"no Ray cluster at '127.0.0.1:1'"):
        MegatronTrainer(config(folders["tied"], address="127.0.0.1:1"), AlgorithmConfig())
