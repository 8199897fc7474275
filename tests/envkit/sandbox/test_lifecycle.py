"""Start and end: a sandbox that dies is an error at once, and nothing outlives its owner."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envkit.failure import CapabilityError, EnvkitError, FailureKind, SandboxDied
from envkit.sandbox import bwrap, cgroup, registry
from envkit.sandbox.base import InsideModule, SandboxSpec
from envkit.sandbox.local import LocalProvider

ROOT = os.geteuid() == 0
REPO = Path(__file__).parents[3]


def groups_of(identity: str) -> list[Path]:
    return [path for path in cgroup.planned(cgroup.read_layout(), identity) if path.exists()]


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *descendants(child)]
    return found


def running(pid: int) -> bool:
    return registry.start_time(pid) is not None


async def gone(pids: list[int], within_s: float = 5.0) -> list[int]:
    end = time.monotonic() + within_s
    while time.monotonic() < end and any(map(running, pids)):
        await asyncio.sleep(0.02)
    return [pid for pid in pids if running(pid)]


async def test_stop_leaves_no_process_and_no_cgroup(provider):
    sandbox = provider.create(SandboxSpec())
    await sandbox.start()
    await sandbox.exec(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null &"])
    process = sandbox.pid
    pids = [process, *descendants(process)]
    assert len(pids) >= 4
    assert bool(groups_of(sandbox.id)) == ROOT
    await sandbox.stop()
    assert not [pid for pid in pids if running(pid)]
    assert groups_of(sandbox.id) == []
    assert not (registry._folder() / f"{sandbox.id}.json").exists()
    await sandbox.stop()  # again: nothing to do
    assert not sandbox.alive
    with pytest.raises(SandboxDied, match="stopped"):
        await sandbox.exec(["true"])


async def test_a_sandbox_that_was_not_started_and_one_started_twice(provider):
    sandbox = provider.create(SandboxSpec())
    with pytest.raises(SandboxDied, match="not started"):
        await sandbox.exec(["true"])
    async with sandbox:
        with pytest.raises(EnvkitError, match="started before"):
            await sandbox.start()


@pytest.mark.parametrize("victim", ["supervisor", "bubblewrap"])
async def test_a_killed_sandbox_fails_pending_and_later_calls_at_once(provider, victim):
    module = InsideModule("sleeper", "import time\ndef f(): time.sleep(1000)")
    async with provider.create(SandboxSpec()) as sandbox:
        await sandbox.exec(["sh", "-c", "head -c 50000000 /dev/zero > big"])
        process = await sandbox.spawn(["sleep", "1000"])

        async def read_all():
            async for _ in sandbox.snapshot():
                await asyncio.sleep(0.05)

        async def never():
            yield b"x"
            await asyncio.sleep(1000)

        waiting = [
            asyncio.create_task(work)
            for work in (
                sandbox.exec(["sleep", "1000"]),
                sandbox.call(module, "f", {}),
                process.read(),
                process.wait(),
                read_all(),
            )
        ]
        await asyncio.sleep(0.3)
        outer = sandbox.pid
        inner = descendants(outer)
        os.kill(inner[0] if victim == "supervisor" else outer, signal.SIGKILL)
        began = time.monotonic()
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
        assert time.monotonic() - began < 5
        assert [type(outcome) for outcome in outcomes] == [SandboxDied] * 5, outcomes
        assert not sandbox.alive
        for later in (sandbox.exec(["true"]), sandbox.kill_all(), sandbox.download("/x"), sandbox.upload(b"")):
            with pytest.raises(SandboxDied):
                await later
        with pytest.raises(SandboxDied):
            await anext(sandbox.snapshot())
        assert await gone([outer, *inner]) == []


@pytest.mark.slow
async def test_a_supervisor_that_falls_silent_is_given_up(provider, monkeypatch):
    monkeypatch.setattr("envkit.sandbox.supervised.GRACE_S", 0.5)
    async with provider.create(SandboxSpec()) as sandbox:
        inner = descendants(sandbox.pid)
        os.kill(inner[0], signal.SIGSTOP)  # from outside: inside, nobody can
        with pytest.raises(SandboxDied, match="did not answer"):
            await sandbox.exec(["true"], timeout_s=0.2)
        with pytest.raises(SandboxDied):
            await sandbox.exec(["true"])
    assert await gone(inner) == []


async def test_a_start_that_fails_says_what_bubblewrap_said(provider, monkeypatch):
    real = bwrap.arguments
    monkeypatch.setattr(bwrap, "arguments", lambda *a, **k: [*real(*a, **k), "--no-such-option"])
    sandbox = provider.create(SandboxSpec())
    with pytest.raises(EnvkitError, match="no-such-option") as caught:
        await sandbox.start()
    assert caught.value.kind is FailureKind.SANDBOX_START
    assert groups_of(sandbox.id) == []


async def test_a_supervisor_that_never_comes_up_is_a_failed_start(provider, monkeypatch):
    monkeypatch.setattr("envkit.sandbox.bundle.compiled", lambda python: b"garbage")
    with pytest.raises(EnvkitError, match="did not start") as caught:
        await provider.create(SandboxSpec()).start()
    assert caught.value.kind is FailureKind.SANDBOX_START


async def test_no_bubblewrap_is_a_capability_error_with_the_remedy(monkeypatch):
    monkeypatch.setenv("ENVKIT_BWRAP", "/no/such/bwrap")
    bwrap.find.cache_clear()
    try:
        provider = LocalProvider(office=False)
        with pytest.raises(CapabilityError, match="pip install"):
            provider.check(SandboxSpec())
        with pytest.raises(CapabilityError, match="pip install"):
            await provider.create(SandboxSpec()).start()
        report = provider.doctor()
        assert not report.usable
        assert "pip install" in report.remedy
    finally:
        monkeypatch.undo()
        bwrap.find.cache_clear()


@pytest.mark.parametrize(
    "words",
    [
        "bwrap: No permissions to create new namespace, likely because the kernel does not allow it",
        "bwrap: setting up uid map: Permission denied",
        "bwrap: Creating new namespace failed: No space left on device",
    ],
)
def test_a_machine_without_user_namespaces_gets_the_remedy(words):
    known = bwrap.diagnose(words)
    assert isinstance(known, CapabilityError)
    assert "sysctl" in str(known)
    assert bwrap.diagnose("bwrap: Can't find source path /x") is None


@pytest.mark.slow
async def test_many_sandboxes_start_and_stop_at_once(provider):
    async def one(number: int) -> bytes:
        async with provider.create(SandboxSpec(memory_mb=256)) as sandbox:
            return (await sandbox.exec(["echo", str(number)])).stdout

    assert await asyncio.gather(*(one(n) for n in range(12))) == [b"%d\n" % n for n in range(12)]


OWNER = """
import asyncio, os, sys
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider
async def main():
    sandbox = LocalProvider(office=False).create(SandboxSpec(labels={"run": "r1", "trial": "t1"}))
    await sandbox.start()
    await sandbox.exec(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null &"])
    print(sandbox.id, sandbox.pid, flush=True)
    await sandbox.exec(["sleep", "1000"])
asyncio.run(main())
"""


@pytest.fixture
def owner():
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(REPO)}
    )
    identity, outer = process.stdout.readline().split()
    yield process, identity, int(outer)
    process.kill()
    process.wait()
    process.stdout.close()


async def test_a_killed_owner_takes_every_process_along_and_collect_removes_the_rest(provider, owner):
    process, identity, outer = owner
    await asyncio.sleep(0.2)
    pids = [outer, *descendants(outer)]
    assert len(pids) >= 5
    assert not [line for line in provider.collect(dry_run=True) if identity in line]  # its owner lives
    process.kill()
    process.wait()
    assert await gone(pids) == []
    if ROOT:
        assert groups_of(identity)
        listed = provider.collect(dry_run=True)
        assert [line for line in listed if identity in line and "run r1, trial t1" in line]
        assert groups_of(identity)
    provider.collect()
    assert groups_of(identity) == []
    assert not [line for line in provider.collect(dry_run=True) if identity in line]


async def test_collect_spares_the_living_and_what_is_not_ours(provider, sandbox):
    before = groups_of(sandbox.id)
    provider.collect()
    assert groups_of(sandbox.id) == before
    assert (await sandbox.exec(["true"])).ok


def test_collect_judges_owners_by_more_than_their_number(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVKIT_HOME", str(tmp_path))
    for name in ("envkit-a", "envkit-b", "envkit-c", "envkit-d", "precious"):
        (tmp_path / name).mkdir()

    def record(name: str, **changes: object) -> None:
        registry.write(name, "local", {}, folders=[tmp_path / name])
        path = registry._folder() / f"{name}.json"
        if changes:
            import json

            path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    record("envkit-a")  # us: alive
    record("envkit-b", owner_start=1)  # our number, but another process
    record("envkit-c", pid_namespace="pid:[1]")  # can't be judged
    record("envkit-d", pid_namespace="pid:[1]", expires_at=1.0)  # nor this, but it has expired
    record("envkit-e", owner_start=1, folders=[str(tmp_path / "precious")])  # names what is not ours
    (registry._folder() / "envkit-f.json").write_text("{half")
    removed = registry.collect("local")
    assert sorted(line.split()[1] for line in removed) == [str(tmp_path / "envkit-b"), str(tmp_path / "envkit-d")]
    left = sorted(path.name for path in tmp_path.iterdir() if path.is_dir() and path.name != "sandboxes")
    assert left == ["envkit-a", "envkit-c", "precious"]
    assert registry.collect("other") == []


def group_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text().splitlines()[-1]


@pytest.mark.skipif(not (ROOT and os.access("/sys/fs/cgroup/unified", os.W_OK)), reason="needs a writable cgroup2")
async def test_on_a_real_v2_hierarchy_children_move_into_the_agents_group():
    """Through the host's descriptors, out of a user namespace and a cgroup namespace; limits need no part in it."""
    provider = LocalProvider(office=False)
    provider._layout = cgroup.Layout(v2=Path("/sys/fs/cgroup/unified"), v2_controllers=())
    async with provider.create(SandboxSpec()) as sandbox:
        await sandbox.spawn(["sleep", "1000"])
        supervisor, leader, sleeper = descendants(sandbox.pid)
        groups = [group_of(pid) for pid in (supervisor, leader, sleeper)]
        assert groups == [f"0::/{sandbox.id}/{name}" for name in ("supervisor", "agent", "agent")]
    assert sandbox.id not in os.listdir("/sys/fs/cgroup/unified")


def test_doctor_names_what_it_found():
    report = LocalProvider().doctor()
    assert report.usable, report
    assert report.details["user namespaces"] == "work"
    assert {"bubblewrap", "cgroups", "python inside", "office runtime", "system call filter", "user"} <= set(
        report.details
    )


async def test_the_pinned_spec_of_limits_is_reported(provider):
    limits = provider.capabilities().limits
    assert {"disk", "file"} <= limits
    if ROOT and not cgroup.read_layout().problems:
        assert limits == {"memory", "cpu", "processes", "disk", "file"}
