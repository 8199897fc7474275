"""A session of either agent over a real tool server process, and a hand that plays the model."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from envkit.deadline import Deadline
from envkit.harness import Limits, SessionContext
from envkit.harnesses.archipelago.agents.base import AgentSession
from envkit.harnesses.archipelago.agents.loop import LoopSession
from envkit.harnesses.archipelago.agents.toolbelt import ToolbeltSession
from envkit.harnesses.archipelago.link import Link, ProcessLink
from envkit.harnesses.archipelago.options import ArchipelagoOptions
from envkit.harnesses.archipelago.results import Shortener
from envkit.harnesses.archipelago.toolserver import ToolServer
from envkit.harnesses.archipelago.toolset import Source, Toolset
from envkit.messages import AssistantMessage, End, Message, Observation, ToolCall, Usage
from envkit.sandbox.base import Sandbox, SandboxSpec
from envkit.sandbox.local import LocalProvider
from envkit.task import load_task_dir

PROGRAM = Path(__file__).parents[1] / "odd_server.py"
INSIDE = "/tmp/odd_server.py"
Call = tuple[str, dict[str, Any] | str]


class Played:
    """A session, what it showed, and everything said so far."""

    def __init__(self, session: AgentSession, sandbox: Sandbox) -> None:
        self.session = session
        self.sandbox = sandbox
        self.seen: list[Observation | End] = []
        self._calls = 0

    async def open(self) -> Observation:
        self.seen.append(await self.session.open())
        return self.first

    @property
    def first(self) -> Observation:
        assert isinstance(self.seen[0], Observation)
        return self.seen[0]

    async def say(self, *calls: Call, text: str = "", usage: Usage | None = None, finish: str = "stop") -> Any:
        made = []
        for name, arguments in calls:
            self._calls += 1
            id = f"call_{self._calls}"
            made.append(
                ToolCall.parse(id, name, arguments)
                if isinstance(arguments, str)
                else ToolCall(id=id, name=name, arguments=arguments)
            )
        message = AssistantMessage(text=text, tool_calls=tuple(made), usage=usage or Usage(), finish=finish)
        self.seen.append(await self.session.step(message))
        return self.seen[-1]

    async def turn(self, *calls: Call, **more: Any) -> list[Message]:
        """The messages that answer a turn which does not end the work."""
        observation = await self.say(*calls, **more)
        assert isinstance(observation, Observation)
        return [message for message in observation.messages if isinstance(message, Message)]


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with LocalProvider().create(SandboxSpec()) as made:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(PROGRAM, arcname=INSIDE.lstrip("/"))
        await made.upload(packed.getvalue(), "/")
        yield made


@pytest.fixture
async def play(sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """`await play(agent="toolbelt", limits={...}, server={...}, **options)` opens a session."""
    task = tmp_path / "task"
    (task / "tests").mkdir(parents=True)
    (task / "instruction.md").write_text("Add up the figures.\n")
    (task / "task.toml").write_text('schema_version = "1.4"\n[task]\nname = "test/x"\n')
    (task / "tests" / "test.sh").write_text("exit 0\n")
    sessions: list[AgentSession] = []

    async def open_one(
        *,
        limits: dict[str, Any] | None = None,
        training: bool = False,
        deadline: Deadline | None = None,
        server: dict[str, Any] | None = None,
        **options: Any,
    ) -> Played:
        read = ArchipelagoOptions.of(options)
        end = deadline or Deadline.after(60)
        context = SessionContext(deadline=end, limits=Limits(**(limits or {})), training=training)

        async def prepare() -> Toolset:
            async def start() -> Link:
                argv = ["python3", "-S", INSIDE, json.dumps(server or {})]
                return ProcessLink(await sandbox.spawn(argv))

            shortener = Shortener(
                sandbox,
                end,
                head_bytes=read.result_head_bytes,
                tail_bytes=read.result_tail_bytes,
                reader="code_exec",
            )
            source = Source(ToolServer("odd", start, deadline=end, ready_s=read.ready_s))
            return Toolset([source], shortener=shortener, max_image_bytes=read.max_image_bytes)

        kind = ToolbeltSession if read.agent == "toolbelt" else LoopSession
        session = kind(load_task_dir(task).steps[0], context, read, prepare)
        sessions.append(session)
        played = Played(session, sandbox)
        await played.open()
        return played

    yield open_one
    for session in sessions:
        await session.close()
