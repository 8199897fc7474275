"""The policies of the storm: the oracle, held until all are there, and with one thing broken on purpose.

Named `storm_parts:Class`; used by `storm.py` only. A fault strikes a trial's first attempt, in the middle of its work.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from envkit.messages import AssistantMessage, Observation
from envkit.policy.base import PolicyContext
from envkit.policy.oracle import OraclePolicy


class Held(OraclePolicy):
    """The oracle; before its final answer it says that it is there and waits until a file, `gate`, exists."""

    def __init__(self, gate: str, ready: str) -> None:
        super().__init__()
        self._gate, self._ready = Path(gate), Path(ready)
        self.attempt = 0

    async def start(self, context: PolicyContext) -> None:
        self.attempt, self.logs = context.attempt, context.logs
        await super().start(context)

    async def act(self, observation: Observation) -> AssistantMessage:
        message = await super().act(observation)
        if not message.tool_calls:
            (self._ready / str(os.getpid())).touch()
            while not self._gate.exists():
                await asyncio.sleep(0.2)
            if self.attempt == 1:
                await self.strike()
        return message

    async def strike(self) -> None:
        """Nothing: this one is left alone."""


class SandboxKill(Held):
    """Everything in the sandbox is killed from outside."""

    async def strike(self) -> None:
        for pid in below(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.5)


class ServerKill(Held):
    """The tool servers' process is killed, and work goes on: it is started again."""

    def __init__(self, gate: str, ready: str) -> None:
        super().__init__(gate, ready)
        self._struck = False

    async def act(self, observation: Observation) -> AssistantMessage:
        message = await super().act(observation)
        if message.tool_calls and not self._struck and self.attempt == 1:
            self._struck = True
            servers = [pid for pid in below(os.getpid()) if b"/opt/envkit/serve.py" in command(pid)]
            if not servers:
                raise RuntimeError("this trial has no tool server to kill")
            for pid in servers:
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.5)
        return message


class TrialKill(Held):
    """The trial's own process is killed."""

    async def strike(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class DiskFull(Held):
    """There is no room for the final state: what is written there meets a full device."""

    async def strike(self) -> None:
        (self.logs / "final.partial").symlink_to("/dev/full")


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def below(root: int) -> list[int]:
    """Every process below one."""
    children: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = Path(f"/proc/{entry}/stat").read_text()
        except OSError:
            continue
        children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]
