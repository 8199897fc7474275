"""The contract of a sandbox's life: start, stop, death, and what is left behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envkit.failure import EnvkitError, SandboxDied
from envkit.sandbox.base import ProviderReport
from envkit.sandbox.contract.under_test import CALLS, Contract, behaviour


@behaviour
async def test_a_provider_has_a_name_and_a_report(contract: Contract) -> None:
    report = contract.provider.doctor()
    assert isinstance(report, ProviderReport)
    assert report.usable, report
    assert report.name == contract.provider.name


@behaviour
async def test_start_stop_and_stop_again(contract: Contract) -> None:
    sandbox = contract.create()
    lives = [sandbox.alive]
    await sandbox.start()
    lives.append(sandbox.alive)
    began = time.monotonic()
    await sandbox.stop()
    await sandbox.stop()
    assert time.monotonic() - began < 20
    assert [*lives, sandbox.alive] == [False, True, False]


@behaviour
async def test_what_was_not_started_or_is_stopped_is_dead(contract: Contract) -> None:
    sandbox = contract.create()
    with pytest.raises(SandboxDied):
        await sandbox.exec(["true"])
    async with sandbox:
        with pytest.raises(EnvkitError):
            await sandbox.start()
    with pytest.raises(SandboxDied):
        await sandbox.exec(["true"])
    with pytest.raises(SandboxDied):
        await sandbox.kill_all()
    with pytest.raises(SandboxDied):
        await anext(aiter(sandbox.snapshot()))


@behaviour
async def test_a_stop_that_was_never_started_is_nothing(contract: Contract) -> None:
    await contract.create().stop()


@behaviour
async def test_a_stop_ends_what_waits_with_sandbox_died(contract: Contract) -> None:
    sandbox = contract.create()
    await sandbox.start()
    waiting = [asyncio.create_task(sandbox.exec(["sleep", "1000"])) for _ in range(2)]
    if contract.can.python:
        waiting.append(asyncio.create_task(sandbox.call(CALLS, "spin", {})))
    await asyncio.sleep(0.5)
    await sandbox.stop()
    outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 20)
    assert [type(outcome) for outcome in outcomes] == [SandboxDied] * len(waiting)


@behaviour
async def test_sandboxes_start_and_stop_at_once(contract: Contract) -> None:
    async def one(number: int) -> bytes:
        async with contract.create() as sandbox:
            return (await sandbox.exec(["echo", str(number)])).stdout

    assert await asyncio.gather(*(one(n) for n in range(4))) == [b"%d\n" % n for n in range(4)]


@behaviour
async def test_every_sandbox_starts_empty(contract: Contract) -> None:
    for _ in range(2):
        async with contract.create() as sandbox:
            listed = await sandbox.exec(["ls", "-A", "/filesystem", "/.apps_data", "/tests", "/logs"])
            assert listed.stdout.split() == [b"/.apps_data:", b"/filesystem:", b"/logs:", b"/tests:"]
            await sandbox.exec(["touch", "/filesystem/left", "/tests/left"])


def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="envkit-contract-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "tool").write_text("#!/bin/sh\necho from outside\n")
        (folder / "tool").chmod(0o755)
        yield folder


@behaviour
async def test_a_folder_of_the_host_is_shown(contract: Contract) -> None:
    contract.needs(isolated=True)
    for folder in _folder():
        async with contract.create(readonly={"/opt/brought": str(folder)}) as sandbox:
            assert (await sandbox.exec(["/opt/brought/tool"])).stdout == b"from outside\n"
            await sandbox.exec(["sh", "-c", "echo spoilt > /opt/brought/tool"])
        assert "from outside" in (folder / "tool").read_text()


@behaviour
async def test_collect_spares_the_living(contract: Contract) -> None:
    async with contract.create(labels={"run": "contract", "trial": "t"}) as sandbox:
        contract.provider.collect()
        assert (await sandbox.exec(["true"])).ok


_OWNER = """
import asyncio, sys
from envkit.sandbox.contract.under_test import Contract
async def main():
    sandbox = Contract(sys.argv[1]).create(labels={"run": sys.argv[2], "trial": "t1"})
    await sandbox.start()
    print("started", flush=True)
    await sandbox.exec(["sleep", "1000"])
asyncio.run(main())
"""


def test_what_a_killed_owner_left_is_collected_by_its_labels(contract: Contract, envkit_provider: str) -> None:
    run = f"contract-{os.getpid()}"
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, envkit_provider, run], stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
    )
    assert owner.stdout is not None
    try:
        assert owner.stdout.readline().strip() == "started"
        assert not [line for line in contract.provider.collect(dry_run=True) if run in line]
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    would = [line for line in contract.provider.collect(dry_run=True) if run in line]
    assert bool(would) == bool([line for line in contract.provider.collect() if run in line])
    assert not [line for line in contract.provider.collect(dry_run=True) if run in line]
