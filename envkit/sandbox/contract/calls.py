"""The contract of functions called inside: values, failures, ends."""

from __future__ import annotations

import asyncio

import pytest

from envkit.deadline import Deadline
from envkit.failure import Boundary, DeadlineExceeded
from envkit.sandbox.base import InsideError, InsideKilled, InsideModule
from envkit.sandbox.contract.under_test import CALLS, Contract, behaviour


@behaviour
async def test_values_come_back_as_they_went(contract: Contract) -> None:
    contract.needs(python=True)
    async with contract.create() as sandbox:
        for value in (None, True, 0, -1, 2**62, 1.5, "", "ü", b"\x00\xff", [], [1, [2]], {}, {"a": {"b": [None]}}):
            assert await sandbox.call(CALLS, "echo", {"value": value}) == value
        assert len(await sandbox.call(CALLS, "big", {"size": 5 << 20})) == 5 << 20


@behaviour
async def test_a_call_runs_as_the_agent_and_leaves_nothing(contract: Contract) -> None:
    contract.needs(python=True)
    async with contract.create(env={"FOO": "bar"}) as sandbox:
        uid = int((await sandbox.exec(["id", "-u"])).stdout)
        assert await sandbox.call(CALLS, "where", {}) == ["/filesystem", uid, "bar"]
        assert [await sandbox.call(CALLS, "count", {}) for _ in range(2)] == [1, 1]


@behaviour
async def test_a_calls_failure_is_named(contract: Contract) -> None:
    contract.needs(python=True)
    async with contract.create() as sandbox:
        with pytest.raises(InsideError, match="KeyError: 'nope'") as caught:
            await sandbox.call(CALLS, "fail", {})
        assert caught.value.error_type == "KeyError"
        with pytest.raises(InsideError):
            await sandbox.call(CALLS, "odd", {})
        with pytest.raises(InsideError, match="ZeroDivisionError"):
            await sandbox.call(InsideModule("broken", "1/0"), "f", {})
        assert await sandbox.call(CALLS, "talk", {}) == "said"


@behaviour
async def test_a_killed_call_is_the_agents_doing(contract: Contract) -> None:
    contract.needs(python=True)
    async with contract.create() as sandbox:
        with pytest.raises(InsideKilled) as killed:
            await sandbox.call(CALLS, "die", {})
        assert killed.value.boundary is Boundary.POLICY
        assert await sandbox.call(CALLS, "echo", {"value": 1}) == 1


@behaviour
async def test_a_deadline_ends_a_call(contract: Contract) -> None:
    contract.needs(python=True)
    async with contract.create() as sandbox:
        with pytest.raises(DeadlineExceeded):
            await sandbox.call(CALLS, "spin", {}, deadline=Deadline.after(0.5))
        assert await sandbox.call(CALLS, "echo", {"value": 1}) == 1
        assert await sandbox.kill_all() == 0


@behaviour
async def test_calls_at_once(contract: Contract) -> None:
    contract.needs(python=True)
    async with contract.create() as sandbox:
        values = await asyncio.gather(*(sandbox.call(CALLS, "echo", {"value": n}) for n in range(20)))
        assert values == list(range(20))
