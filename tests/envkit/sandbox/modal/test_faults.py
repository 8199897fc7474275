"""What Modal can do to us: every fault ends in time, as a typed failure, and leaves no sandbox that nobody owns."""

from __future__ import annotations

import asyncio
import hashlib
import time
from types import ModuleType
from typing import Any

import pytest
from grpclib import Status
from modal_proto import api_pb2

from envkit.deadline import Deadline
from envkit.failure import CapabilityError, EnvkitError, FailureKind, SandboxDied
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.modal import ModalProvider, ModalSandbox

pytestmark = pytest.mark.slow  # a service that makes one wait

SPEC = SandboxSpec(memory_mb=256)


def _slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def _provider(**options: Any) -> ModalProvider:
    return ModalProvider(**{"image": "python:3.11-slim-bookworm", **options})


async def _nothing_lives(fake: Any) -> None:
    for _ in range(100):
        if not fake.living():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(fake.living())


async def _does_not_start(fake: Any, start_timeout_s: float = 3.0) -> EnvkitError:
    began = time.monotonic()
    with pytest.raises(EnvkitError) as caught:
        await _provider().create(SandboxSpec(start_timeout_s=start_timeout_s)).start()
    assert time.monotonic() - began < 30
    await _nothing_lives(fake)
    return caught.value


@pytest.mark.parametrize(
    "call", [_slow("AppGetOrCreate"), "SandboxCreateV2", _slow("TaskExecStart"), "TaskExecStdinWrite"]
)
async def test_a_hiccup_is_waited_out(fake: Any, faults: ModuleType, call: str) -> None:
    fake.fault(call, faults.unavailable(), times=2)
    async with _provider().create(SPEC) as sandbox:
        assert (await sandbox.exec(["echo", "fine"])).stdout == b"fine\n"
    await _nothing_lives(fake)


@pytest.mark.parametrize(
    "call", ["SandboxCreateV2", _slow("TaskExecStart"), _slow("TaskExecStdioRead"), _slow("TaskExecStdinWrite")]
)
async def test_a_service_that_stays_away_is_a_start_that_failed(fake: Any, faults: ModuleType, call: str) -> None:
    fake.fault(call, faults.unavailable())
    assert (await _does_not_start(fake)).kind is FailureKind.SANDBOX_START


@pytest.mark.parametrize(
    "call",
    [_slow("SandboxCreateV2"), _slow("SandboxGetCommandRouterAccess"), _slow("TaskExecStart"), "TaskExecStdioRead"],
)
async def test_a_service_that_takes_requests_and_says_nothing(fake: Any, faults: ModuleType, call: str) -> None:
    fake.fault(call, faults.half_open())
    assert (await _does_not_start(fake, 2.0)).kind is FailureKind.SANDBOX_START


async def test_a_sandbox_whose_answer_was_lost_is_ended_by_its_name(fake: Any, faults: ModuleType) -> None:
    fake.fault("SandboxCreateV2", faults.answer_lost(faults.half_open()))
    before = len(fake.boxes)
    await _does_not_start(fake, 3.0)
    assert len(fake.boxes) == before + 1  # it was made


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status.RESOURCE_EXHAUSTED, FailureKind.SANDBOX_START),
        _slow(Status.INTERNAL, FailureKind.SANDBOX_START),
        _slow(Status.DEADLINE_EXCEEDED, FailureKind.SANDBOX_START),
        _slow(Status.UNKNOWN, FailureKind.SANDBOX_START),
        (Status.INVALID_ARGUMENT, FailureKind.CAPABILITY),
        _slow(Status.PERMISSION_DENIED, FailureKind.CAPABILITY),
        _slow(Status.UNIMPLEMENTED, FailureKind.CAPABILITY),
    ],
)
async def test_refusals_and_faults_are_told_apart(
    fake: Any, faults: ModuleType, status: Status, kind: FailureKind
) -> None:
    fake.fault("SandboxCreateV2", faults.status(status, "words of the service"))
    error = await _does_not_start(fake)
    assert error.kind is kind
    if kind is FailureKind.CAPABILITY:
        assert "words of the service" in str(error)


async def test_credentials_that_are_refused(fake: Any) -> None:
    fake.refuse_tokens = True
    error = await _does_not_start(fake)
    assert isinstance(error, CapabilityError)
    assert "modal token new" in str(error)


@pytest.mark.slow
async def test_doctor_says_that_credentials_are_refused(fake: Any) -> None:
    fake.refuse_tokens = True
    report = await asyncio.to_thread(_provider().doctor)
    assert not report.usable
    assert "modal token new" in str(report.remedy)


@pytest.mark.parametrize(
    "call", [_slow("AppGetOrCreate"), "SandboxCreateV2", _slow("TaskExecStart"), "TaskExecStdioRead"]
)
async def test_garbage_is_a_fault_in_words(fake: Any, faults: ModuleType, call: str) -> None:
    fake.fault(call, faults.garbage())
    assert (await _does_not_start(fake)).kind is FailureKind.SANDBOX_START


@pytest.mark.slow
async def test_a_slow_service_is_slow_and_no_fault(fake: Any, faults: ModuleType) -> None:
    fake.fault("SandboxCreateV2", faults.slow(1.0), times=1)
    fake.fault("TaskExecStdinWrite", faults.slow(0.2), times=4)
    async with _provider().create(SPEC) as sandbox:
        assert (await sandbox.exec(["echo", "fine"])).stdout == b"fine\n"


async def test_streams_that_break_go_on_where_they_were(fake: Any, faults: ModuleType) -> None:
    """Output is read by offset and input written by offset: what was lost is sent again, and nothing twice."""
    async with _provider().create(SPEC) as sandbox:
        box = fake.box(sandbox.sandbox_id)
        box.cuts = 3
        made = await sandbox.exec(
            ["python3", "-c", "import os; os.write(1, bytes(range(256)) * 8192)"], output_cap=1 << 22
        )
        assert hashlib.sha256(made.stdout).digest() == hashlib.sha256(bytes(range(256)) * 8192).digest()
        assert box.cuts == 0
        fake.fault("TaskExecStdinWrite", faults.answer_lost(faults.unavailable()), times=3)
        data = bytes(range(256)) * 4096
        counted = await sandbox.exec(["sha256sum"], stdin=data)
        assert counted.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("way", ["terminated", _slow("its time"), _slow("its first process")])
async def test_a_sandbox_that_is_ended_under_us_died(fake: Any, way: str) -> None:
    async with _provider().create(SPEC) as sandbox:
        waiting = asyncio.create_task(sandbox.exec(["sleep", "1000"]))
        await asyncio.sleep(0.3)
        status = api_pb2.GenericResult
        codes = {
            "terminated": status.GENERIC_STATUS_TERMINATED,
            "its time": status.GENERIC_STATUS_TIMEOUT,
            "its first process": status.GENERIC_STATUS_SUCCESS,
        }
        await asyncio.to_thread(fake.end, sandbox.sandbox_id, codes[way])
        with pytest.raises(SandboxDied) as caught:
            await asyncio.wait_for(waiting, 30)
        expected = {"terminated": "Modal ended it", "its time": "was over", "its first process": "first process"}
        assert expected[way] in str(caught.value)
        assert not sandbox.alive
        with pytest.raises(SandboxDied):
            await sandbox.exec(["true"])


async def test_garbage_from_a_running_sandbox_ends_it(fake: Any, faults: ModuleType) -> None:
    async with _provider().create(SPEC) as sandbox:
        box = fake.box(sandbox.sandbox_id)
        for run in box.execs.values():
            run.out += b"\xff" * 64  # not the protocol
        with pytest.raises(SandboxDied):
            await asyncio.wait_for(sandbox.exec(["echo", "x"]), 30)
    await _nothing_lives(fake)


@pytest.mark.slow
async def test_a_stop_that_is_refused_is_bounded(fake: Any, faults: ModuleType) -> None:
    sandbox = _provider().create(SPEC)
    await sandbox.start()
    fake.fault("SandboxTerminateV2", faults.half_open())
    began = time.monotonic()
    await sandbox.stop()
    assert time.monotonic() - began < 15
    assert fake.living() == [sandbox.sandbox_id]  # tagged, for the next collection
    fake.mend()
    await asyncio.to_thread(fake.end, sandbox.sandbox_id)


async def test_a_supervisor_that_hears_nothing_ends(fake: Any) -> None:
    """As when our process was killed: nothing else tells the other side."""
    provider = _provider()
    provider.silence_s = 1.0
    sandbox = provider.create(SPEC)
    await sandbox.start()
    box = fake.box(sandbox.sandbox_id)
    for _ in range(200):
        if all(run.code is not None for run in box.execs.values()):
            break
        await asyncio.sleep(0.05)
    assert all(run.code is not None for run in box.execs.values())  # idle: the service ends it
    with pytest.raises(SandboxDied):
        await sandbox.exec(["true"])
    await sandbox.stop()
    await _nothing_lives(fake)


@pytest.mark.slow
async def test_a_worker_that_is_gone_without_a_word(fake: Any) -> None:
    async with _provider().create(SPEC) as sandbox:
        fake.box(sandbox.sandbox_id).mute = True
        began = time.monotonic()
        with pytest.raises(SandboxDied, match="did not answer"):
            await sandbox.exec(["echo", "x"], deadline=Deadline.after(1.0))
        assert time.monotonic() - began < 40
    await _nothing_lives(fake)


@pytest.mark.slow
async def test_a_beat_finds_out_that_a_connection_is_half_open(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from envkit.sandbox import modal_sandbox

    monkeypatch.setattr(modal_sandbox, "_BEAT_S", 0.5)
    monkeypatch.setattr(modal_sandbox, "_ANSWER_S", 1.0)
    sandbox: ModalSandbox = _provider().create(SPEC)
    async with sandbox:
        waiting = asyncio.create_task(sandbox.exec(["sleep", "1000"]))  # without any deadline
        await asyncio.sleep(1.5)
        assert not waiting.done()
        fake.box(sandbox.sandbox_id).mute = True
        with pytest.raises(SandboxDied):
            await asyncio.wait_for(waiting, 60)


@pytest.mark.slow
async def test_collecting_from_a_service_that_is_away_is_nothing_and_bounded(fake: Any, faults: ModuleType) -> None:
    fake.fault("SandboxListV2", faults.status(Status.INTERNAL))
    assert await asyncio.to_thread(_provider().collect) == []
