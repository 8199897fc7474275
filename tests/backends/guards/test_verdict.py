"""What guards say: lines, the error that ends a run, room on a disk, and the table of a plan."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from envkit.backends.guards import GuardsConfig, Status, Verdict, failed
from envkit.backends.guards.disk import disk
from envkit.backends.run.plan import make_plan
from envkit.failure import UserError

Usage = namedtuple("Usage", "total used free")


def test_every_failed_guard_is_in_the_error_and_nothing_else_is() -> None:
    verdicts = [
        Verdict("gap", Status.FAILED, "0.2 nats (gate 0.03)"),
        Verdict("determinism", Status.WARNING, "otherwise in company"),
        Verdict("disk", Status.FAILED, "no room"),
    ]
    error = failed(verdicts)
    assert error is not None
    assert "2 guards failed before anything was trained" in str(error)
    assert "gap: 0.2 nats" in str(error)
    assert "disk: no room" in str(error)
    assert "company" not in str(error)
    assert failed(verdicts[1:2]) is None


@pytest.mark.parametrize(("free", "status"), [(20e9, Status.FAILED), (60e9, Status.OK)])
def test_room_is_wanted_for_every_kept_checkpoint_and_the_next(
    free: float, status: Status, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1e12, 0, int(free)))
    # a billion bytes in bfloat16 are half a billion parameters: 8 GB of float32 weights and moments
    found = disk(tmp_path / "not" / "yet", sent_bytes=1e9, dtype="bfloat16", keep=2, transfer=None)
    assert found.status is status
    assert found.figures["checkpoint_bytes"] == 8e9
    assert "a checkpoint takes about 8.0 GB" in found.line


def test_room_is_wanted_where_weights_are_put_for_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shm = tmp_path / "shm"
    shm.mkdir()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1e12, 0, int(1e8 if Path(path) == shm else 1e12)))
    found = disk(tmp_path, sent_bytes=1e9, dtype=None, keep=1, transfer=shm)
    assert found.status is Status.FAILED
    assert "where weights are put for engines" in found.line


def test_the_table_of_a_plan_is_strict() -> None:
    table = {
        "backend": "torch",
        "tasks": {"include": ["office/*"]},
        "loop": {"steps": 1},
        "trainer": {"model": "m"},
        "guards": {"gap": 0.05},
    }
    assert make_plan(table).guards == GuardsConfig(gap=0.05)
    with pytest.raises(UserError, match="did you mean 'at_start'"):
        make_plan({**table, "guards": {"at_strat": False}})
