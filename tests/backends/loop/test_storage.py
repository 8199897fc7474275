"""Where a loop keeps its state: a folder, an object store, memory; and checkpoints that are marked when whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from envkit.backends.loop import (
    AdmissionConfig,
    CheckpointConfig,
    Event,
    LocalStorage,
    LoopConfig,
    RealClock,
    StepDone,
    StoreStorage,
)
from envkit.backends.loop.checkpoint import Checkpoints
from envkit.backends.loop.clock import run_real, run_virtual
from envkit.backends.loop.ledger import Ledger
from envkit.backends.loop.simulator import Scenario, SimulatedTrainer, loop_of
from envkit.backends.loop.waits import FirstFailure
from envkit.failure import UserError
from envkit.storage import Store, open_store


def test_local_storage_keeps_the_contract(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "run")
    storage.put("a/b/one", b"1")
    storage.put_many([("a/b/two", b"2"), ("a/c", b"3")])
    storage.put("a/b/one", b"11")
    assert storage.keys("a/") == ["a/b/one", "a/b/two", "a/c"]
    assert storage.get("a/b/one") == b"11"
    storage.delete("a/b/one")
    storage.delete("a/b/two")
    storage.delete("a/b/two")
    assert storage.keys("a/") == ["a/c"]
    assert not (tmp_path / "run/a/b").exists()
    with pytest.raises(FileNotFoundError):
        storage.get("a/b/one")
    for text in ("old", "new"):
        staged = storage.staging()
        (staged / "deep").mkdir()
        (staged / "deep/file").write_text(text)
        storage.put_folder("f/step", staged)
        assert not staged.exists()
        assert (storage.get_folder("f/step") / "deep/file").read_text() == text
    storage.delete_folder("f/step")
    with pytest.raises(FileNotFoundError):
        storage.get_folder("f/step")


@pytest.fixture(params=["folder", pytest.param("s3", marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    if request.param == "folder":
        yield open_store(tmp_path / "store")
        return
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    boto3.session.Session().client("s3").create_bucket(Bucket="runs")
    yield open_store("s3://runs/one")
    server.stop()


def test_a_run_lives_in_an_object_store_and_goes_on_elsewhere(store: Store, tmp_path: Path) -> None:
    """Stopped on one machine, resumed on another, which has nothing but the store."""
    scenario = Scenario(tasks=4, turns=1, entry_tokens=20_000, graded=True)
    plan = LoopConfig(
        steps=3,
        groups_per_step=1,
        group_size=2,
        max_staleness=1,
        admission=AdmissionConfig(poll_s=600),
        checkpoint=CheckpointConfig(every=2, keep=1),
    )
    ledger = Ledger(plan)

    def stop(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == 2:
            first.stop()

    first, _, _, _ = loop_of(plan, scenario, storage=StoreStorage(store, tmp_path / "here"), observers=[ledger, stop])
    assert run_virtual(first.run()).interrupted
    second, _, _, trainer = loop_of(plan, scenario, storage=StoreStorage(store, tmp_path / "there"), observers=[ledger])
    outcome = run_virtual(second.run())
    assert outcome.failure is None
    ledger.check()
    assert trainer.version == 3
    keys = [entry.key for entry in store.entries()]
    assert {key.split("/")[1] for key in keys if key.startswith("checkpoints/")} == {"latest.json", "step-000003"}
    assert not [key for key in keys if key.startswith("buffer/groups/")], "what is covered was not removed"


def test_one_process_writes_to_a_storage(tmp_path: Path) -> None:
    one, other = LocalStorage(tmp_path), LocalStorage(tmp_path)
    leftover = one.staging()
    one.lock()
    assert not leftover.exists()
    with pytest.raises(UserError, match="another"):
        other.lock()
    one.unlock()
    other.lock()
    other.unlock()


def test_checkpoints_are_marked_when_they_are_whole_and_old_ones_go(tmp_path: Path) -> None:
    async def main() -> None:
        storage = LocalStorage(tmp_path, durable=False)
        checkpoints = Checkpoints(storage, RealClock(), keep=2)
        assert await checkpoints.open() is None
        trainer = SimulatedTrainer(Scenario(save_s=0.0))
        for step in (1, 2, 3):
            trainer._version = step
            staged = await checkpoints.save(trainer, 10, 1, FirstFailure())
            assert (await Checkpoints(storage, RealClock(), keep=2).open() is None) == (step == 1)
            await checkpoints.publish(staged, step, step * 10)
            await checkpoints.prune()
        assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == [
            "latest.json",
            "step-000002",
            "step-000003",
        ]
        found = await Checkpoints(storage, RealClock(), keep=2).open()
        assert found is not None
        assert (found.step, found.next_ordinal) == (3, 30)
        other = SimulatedTrainer(Scenario())
        await checkpoints.load(other, found, 10, 1)
        assert (other.version, other.digest) == (3, trainer.digest)

    run_real(main())
