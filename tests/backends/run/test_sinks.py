"""What is written beside the run: lines that survive a crash, event files as TensorBoard reads them, and wandb."""

from __future__ import annotations

import os
import struct
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from envkit.backends.run.events_file import EventsFile, _masked_crc
from envkit.backends.run.log import Log, read_log
from envkit.backends.run.plan import WandbPlan
from envkit.backends.run.sinks import Guarded, TensorBoardSink, WandbSink
from envkit.failure import UserError


def test_lines_survive_a_torn_end_and_damage_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "a" / "metrics.jsonl"
    log = Log(path)
    log.append({"step": 1, "bad": float("nan"), "text": "half \ud800"})
    log.append({"step": 2})
    log.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"step": 3, "met')  # killed in the middle of a write
    assert [r["step"] for r in read_log(path)] == [1, 2]
    log = Log(path)
    log.append({"step": 4})
    log.close()
    path.write_bytes(path.read_bytes() + b"\xff\xfe\n[1]\n")
    assert [r["step"] for r in read_log(path)] == [1, 2, 4], "the torn line took nobody with it"
    assert list(read_log(tmp_path / "none.jsonl")) == []
    assert next(iter(read_log(path)))["bad"] == "nan"


def test_a_full_disk_costs_lines_and_not_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path / "m.jsonl")
    log.append({"step": 1})
    real = os.write

    def full(descriptor: int, data: Any) -> int:
        if descriptor == log._fd:
            real(descriptor, bytes(data)[:4])  # some of it still fits
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    log.append({"step": 2})
    monkeypatch.setattr(os, "write", real)
    log.append({"step": 3})
    log.close()
    assert log.lost == 1
    assert [r["step"] for r in read_log(tmp_path / "m.jsonl")] == [1, 3]


@pytest.mark.slow  # TensorBoard takes seconds to import
def test_tensorboard_reads_what_we_write(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    file = EventsFile(tmp_path / "tb")
    expected = {1: 0.25, 2: -1.5e-7, 300: 3.4e20}
    for step, value in expected.items():
        file.scalars(step, {"reward/mean": value, "größe": value * 2})
    file.close()
    with file.path.open("ab") as torn:
        torn.write(struct.pack("<Q", 500) + b"half")
    found = EventAccumulator(str(tmp_path / "tb"))
    found.Reload()
    assert sorted(found.Tags()["scalars"]) == ["größe", "reward/mean"]
    assert {e.step: e.value for e in found.Scalars("reward/mean")} == pytest.approx(expected)


@pytest.mark.parametrize(("data", "crc"), [(b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA)])
def test_checksums_are_those_of_the_record_format(data: bytes, crc: int) -> None:
    # The published values of CRC-32C (RFC 3720), masked as the format says.
    assert _masked_crc(data) == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


class FakeWandb(types.ModuleType):
    """Stands where `wandb` would be: another company's service."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.asked: dict[str, Any] = {}
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.finished = False

    def init(self, **asked: Any) -> FakeWandb:
        self.asked = asked
        return self

    def log(self, figures: dict[str, float], step: int) -> None:
        assert not self.logged or step >= self.logged[-1][0], "wandb drops what comes behind a later step"
        self.logged.append((step, figures))

    def finish(self) -> None:
        self.finished = True


def test_wandb_gets_figures_in_order_and_a_resumed_run_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = []
    for _ in range(2):
        fake = FakeWandb()
        monkeypatch.setitem(sys.modules, "wandb", fake)
        sink = WandbSink(WandbPlan(project="p", mode="offline"), tmp_path / "run-a", {"loop": {"steps": 3}})
        sink.scalars(1, {"reward/mean": 0.1})
        sink.scalars(2, {"reward/mean": 0.2})
        sink.scalars(1, {"eval/reward/mean": 0.3})  # an evaluation of weights from before
        sink.close()
        assert [step for step, _ in fake.logged] == [1, 2, 2]
        assert fake.finished
        assert fake.asked["name"] == "run-a"
        assert fake.asked["config"] == {"loop": {"steps": 3}}
        assert fake.asked["resume"] == "allow"
        ids.append(fake.asked["id"])
    assert ids[0] == ids[1]


def test_wandb_that_is_not_installed_is_told_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match="pip install wandb"):
        WandbSink(WandbPlan(project="p"), tmp_path, {})


def test_a_sink_that_fails_is_left_out_and_told_once(tmp_path: Path) -> None:
    said: list[str] = []
    sink = TensorBoardSink(tmp_path)
    guarded = Guarded(sink, said.append)
    guarded.scalars(1, {"a": 1.0})
    sink._file._file.close()
    for step in (2, 3):
        guarded.scalars(step, {"a": 1.0})
    guarded.close()
    assert len(said) == 1
    assert "tensorboard" in said[0]
