"""Policies, verifiers and harnesses that break in every way the fault tests need, named `sabotage:Class`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from envkit.failure import Boundary, Failure, FailureKind
from envkit.messages import AssistantMessage, Observation, ToolCall
from envkit.policy.base import PolicyContext
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider
from envkit.verifier import Criterion, Outcome, Verdict, VerifyRequest


class _Policy:
    name = "sabotage"

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.turn = 0

    def describe(self) -> dict[str, Any]:
        return {"name": type(self).__name__, **self.options}

    async def start(self, context: PolicyContext) -> None:
        self.context = context

    async def close(self) -> None:
        pass

    def bash(self, *commands: str, timeout_s: float | None = None) -> AssistantMessage:
        self.turn += 1
        more = {"timeout": int(timeout_s * 1000)} if timeout_s else {}
        return AssistantMessage(
            tool_calls=tuple(
                ToolCall(
                    id=f"c{self.turn}-{i}", name="bash", arguments={"command": c, "description": "runs it", **more}
                )
                for i, c in enumerate(commands)
            )
        )


class Commands(_Policy):
    """Runs `commands` one per turn through the bash tool, then answers `answer`."""

    async def act(self, observation: Observation) -> AssistantMessage:
        commands: list[str] = self.options["commands"]
        if self.turn < len(commands):
            return self.bash(commands[self.turn], timeout_s=self.options.get("timeout_s"))
        if self.options.get("log"):
            with open(self.options["log"], "a") as file:
                file.write("answered\n")
        return AssistantMessage(text=self.options.get("answer", "done"))


class Flaky(_Policy):
    """Raises in its first `times` attempts, then answers. Counts attempts in a file."""

    async def act(self, observation: Observation) -> AssistantMessage:
        if self.context.attempt <= self.options["times"]:
            raise ConnectionError(f"attempt {self.context.attempt} goes wrong")
        return AssistantMessage(text="done")


class Sleepy(_Policy):
    """Works for `s` seconds, then answers: so that a job takes a while."""

    async def act(self, observation: Observation) -> AssistantMessage:
        if self.turn == 0:
            return self.bash(f"sleep {self.options['s']}; echo ready > report.txt")
        return AssistantMessage(text="done")


class Gated(_Policy):
    """Works until the file `gate` is there; leaves one beside it, named for its process, where it begins to wait."""

    async def act(self, observation: Observation) -> AssistantMessage:
        if self.turn == 0:
            return self.bash("echo hello")
        gate = Path(self.options["gate"])
        gate.with_name(f"{gate.name}.{os.getpid()}").touch()
        while not gate.exists():
            await asyncio.sleep(0.05)
        return AssistantMessage(text="done")


class KillsSandboxBetweenSteps(_Policy):
    async def act(self, observation: Observation) -> AssistantMessage:
        if self.turn == 1:
            kill_children()
            await asyncio.sleep(0.2)
        return self.bash("echo hello")


class KillsSandboxInMidExec(_Policy):
    async def act(self, observation: Observation) -> AssistantMessage:
        if self.turn == 1:
            self.killer = asyncio.get_running_loop().call_later(0.5, kill_children)
            return self.bash("sleep 100")
        return self.bash("echo hello")


class KillsTrial(_Policy):
    async def act(self, observation: Observation) -> AssistantMessage:
        if self.turn == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.bash("setsid sleep 1000 >/dev/null 2>&1 & echo started")


class Exits(_Policy):
    async def act(self, observation: Observation) -> AssistantMessage:
        sys.exit(0)


class Raises(_Policy):
    async def act(self, observation: Observation) -> AssistantMessage:
        raise RuntimeError("nobody expected this")


class Wedges(_Policy):
    """Blocks the event loop for good: no deadline inside the process can fire."""

    async def act(self, observation: Observation) -> AssistantMessage:
        if self.turn == 0:
            return self.bash("echo hello")
        time.sleep(10_000)
        raise AssertionError


class BadMessage(_Policy):
    """Gives back something that is no message."""

    async def act(self, observation: Observation) -> Any:
        return {"text": 7, "unknown": True}


class RaisingVerifier:
    name = "raising"

    @staticmethod
    def applies(tests: Path | None) -> bool:
        return True

    async def verify(self, request: VerifyRequest) -> Verdict:
        raise KeyError("the verifier's own fault")


class HangingVerifier(RaisingVerifier):
    async def verify(self, request: VerifyRequest) -> Verdict:
        await asyncio.sleep(10_000)
        raise AssertionError


class DyingVerifier(RaisingVerifier):
    async def verify(self, request: VerifyRequest) -> Verdict:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class RaisingHarness:
    name = "raising"
    version = "1"

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    def session(self, *args: object) -> Any:
        raise ZeroDivisionError("the harness's own fault")


class RaisingProvider(LocalProvider):
    """Creates sandboxes that can't be started, by an exception of its own."""

    name = "raising"

    def create(self, spec: SandboxSpec) -> Any:
        raise IndexError("the provider's own fault")


def kill_children() -> None:
    """Kills every process below this one: the sandbox's, from outside."""
    for pid in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    found, frontier = [], [root]
    while frontier:
        frontier = [pid for pid, parent in parents.items() if parent in frontier]
        found += frontier
    return found


class UndecidedVerifier(RaisingVerifier):
    """One criterion passes, the judge of the other can't be reached."""

    async def verify(self, request: VerifyRequest) -> Verdict:
        failure = Failure.of(FailureKind.JUDGE_UNREACHABLE, Boundary.JUDGE, "no answer from the judge")
        criteria = (
            Criterion(id="file", outcome=Outcome.PASSED, score=1.0),
            Criterion(id="tone", outcome=Outcome.MISSING, failure=failure),
        )
        return Verdict(criteria=criteria, reward=None, lower=0.5, upper=1.0, verifier="undecided")


class ReadyVerifier(RaisingVerifier):
    """Sound, for a change: 1.0 where report.txt says 'ready'."""

    name = "ready"

    async def verify(self, request: VerifyRequest) -> Verdict:
        reward = 0.0
        with tarfile.open(request.final) as tar:
            for member in tar:
                if member.name == "filesystem/report.txt" and member.isreg():
                    stream = tar.extractfile(member)
                    reward = 1.0 if stream is not None and stream.read().strip() == b"ready" else 0.0
        return Verdict(reward=reward, lower=reward, upper=reward, rewards={"reward": reward}, verifier=self.name)
