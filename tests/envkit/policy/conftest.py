"""Puts the fake endpoint beside these tests on the path, and makes real tasks for policies to work on."""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from envkit.deadline import Deadline
from envkit.harness import SessionContext
from envkit.harnesses.opencode import OpenCodeHarness
from envkit.messages import AssistantMessage, End, Message, Observation
from envkit.policy.base import Policy, PolicyContext
from envkit.sandbox.base import Sandbox, SandboxSpec
from envkit.sandbox.local import LocalProvider
from envkit.task import Task, load_task_dir

sys.path.insert(0, str(Path(__file__).parent))

MakeTask = Callable[..., Task]


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """Writes a task directory and loads it: `make_task({"solution/solve.sh": "..."}, toml="...")`."""

    def make(files: dict[str, str] | None = None, *, name: str = "memo", toml: str = "") -> Task:
        folder = tmp_path / "tasks" / name
        base = {
            "instruction.md": "Write the memo.\n",
            "task.toml": 'schema_version = "1.4"\n' + toml,
            "environment/Dockerfile": "FROM scratch\n",
            "tests/test.sh": "#!/bin/bash\n",
        }
        for path, content in {**base, **(files or {})}.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
            target.chmod(0o755 if path.endswith(".sh") else 0o644)
        return load_task_dir(folder, id=f"test/{name}")

    return make


@dataclass
class Played:
    """What an episode was: everything said, how it ended, and the world it left (path below / -> bytes)."""

    messages: list[Message | AssistantMessage]
    end: End
    world: dict[str, bytes]
    inside: str

    @property
    def results(self) -> list[Message]:
        return [m for m in self.messages if isinstance(m, Message) and m.role == "tool"]


Play = Callable[..., Awaitable[Played]]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Plays one step of a task with a policy: real sandbox, real harness, no verification."""

    async def run(
        policy: Policy, task: Task, *, step: int = 0, sandbox: Sandbox | None = None, deadline_s: float = 60.0
    ) -> Played:
        if sandbox is None:
            async with LocalProvider().create(SandboxSpec()) as fresh:
                return await run(policy, task, step=step, sandbox=fresh, deadline_s=deadline_s)
        deadline = Deadline.after(deadline_s)
        harness = OpenCodeHarness()
        context = PolicyContext(
            task=task,
            step=task.steps[step],
            sandbox=sandbox,
            harness=harness.name,
            seed=0,
            attempt=1,
            deadline=deadline,
            logs=tmp_path,
        )
        session = harness.session(task, task.steps[step], sandbox, SessionContext(deadline=deadline))
        messages: list[Message | AssistantMessage] = []
        try:
            await policy.start(context)
            state: Observation | End = await session.open()
            while isinstance(state, Observation):
                messages.extend(state.messages)
                messages.append(said := await policy.act(state))
                state = await session.step(said)
            messages.extend(state.messages)
        finally:
            await session.close()
            await policy.close()
        listed = await sandbox.exec(["bash", "-c", "ls -AR /solution /logs; ps axo args 2>/dev/null"], timeout_s=10)
        await sandbox.kill_all()
        tar = b"".join([piece async for piece in sandbox.snapshot()])
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            files = {m.name: archive.extractfile(m) for m in archive.getmembers() if m.isfile()}
            world = {name: file.read() for name, file in files.items() if file is not None}
        return Played(messages, state, world, listed.stdout.decode())

    return run
