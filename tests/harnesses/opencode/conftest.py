"""Runs the real OpenCode against a scripted model on loopback, and our harness beside it.

The real program comes from npm, pinned, into a folder outside the repository (`ENVKIT_OPENCODE_CACHE`, or one below the
temporary folder), with ripgrep from npm too. It sees nothing of this machine's settings: HOME and all XDG folders are
empty ones.
"""

from __future__ import annotations

import io
import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from envkit.deadline import Deadline
from envkit.harness import Limits, SessionContext
from envkit.harnesses.opencode import OpenCodeHarness
from envkit.messages import AssistantMessage, Message, Observation, ToolCall
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider
from envkit.task import load_task_dir

OPENCODE_VERSION = "1.18.33"
RIPGREP_VERSION = "1.18.0"  # of the npm package, which holds ripgrep 15

Call = tuple[str, dict[str, Any] | str]
"""A tool's name and its arguments; a string is sent as it is, to try arguments that are no JSON."""


@dataclass
class Answered:
    """What a model was told about one call."""

    name: str
    arguments: Any
    text: str


@dataclass
class _Script:
    turns: list[list[Call]]
    requests: list[dict[str, Any]] = field(default_factory=list)


class _Model(BaseHTTPRequestHandler):
    """Plays one turn of the script per request, as a streamed chat completion."""

    script: _Script
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        turn: list[Call] = []
        if body.get("tools"):
            self.script.requests.append(body)
            number = len(self.script.requests) - 1
            turn = self.script.turns[number] if number < len(self.script.turns) else []
        calls = [
            {
                "index": index,
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
            }
            for index, (name, given) in enumerate(turn)
        ]
        delta = {"role": "assistant", "content": "", "tool_calls": calls} if calls else {"content": "done"}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for choice in (
            {"index": 0, "delta": delta, "finish_reason": None},
            {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"},
        ):
            chunk = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


@dataclass(frozen=True)
class RealOpenCode:
    """The installed program and its ripgrep."""

    program: Path
    ripgrep: Path

    def play(self, folder: Path, turns: list[list[Call]]) -> list[list[Answered]]:
        """Plays the turns in `folder` and returns what the model was told, turn by turn."""
        script = _Script(turns)
        handler = type("Model", (_Model,), {"script": script})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with tempfile.TemporaryDirectory(prefix="envkit-opencode-home-") as home:
                self._run(folder, Path(home), server.server_address[1])
        finally:
            server.shutdown()
            server.server_close()
        answers = []
        for number, turn in enumerate(turns):
            assert number + 1 < len(script.requests), (
                f"OpenCode stopped after turn {number} of {len(turns)}: {turn}; "
                f"its last answers: {script.requests[-1]['messages'][-3:] if script.requests else 'none'}"
            )
            told = {
                message["tool_call_id"]: message["content"]
                for message in script.requests[number + 1]["messages"]
                if message["role"] == "tool"
            }
            answers.append(
                [
                    Answered(name, given, told[f"call_{number}_{index}"].replace(str(folder), "/filesystem"))
                    for index, (name, given) in enumerate(turn)
                ]
            )
        return answers

    def _run(self, folder: Path, home: Path, port: int) -> None:
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Scripted",
            "options": {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "none"},
            "models": {"m": {"name": "m", "tool_call": True, "limit": {"context": 10_000_000, "output": 8192}}},
        }
        config = {
            "model": "scripted/m",
            "small_model": "scripted/m",
            "autoupdate": False,
            "share": "disabled",
            "permission": {"*": "allow"},
            "provider": {"scripted": provider},
            "agent": {"build": {"prompt": "x", "tools": {"webfetch": False, "task": False, "skill": False}}},
        }
        env = {
            "PATH": f"{self.ripgrep.parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "OPENCODE_CONFIG_CONTENT": json.dumps(config),
            "OPENCODE_DISABLE_FFF": "1",
            **{f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE", "STATE")},
            **{
                f"OPENCODE_DISABLE_{what}": "1"
                for what in ("MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
            },
        }
        done = subprocess.run(
            [str(self.program), "run", "--format", "json", "--title", "t", "--dir", str(folder)],
            input=b"go",
            env=env,
            cwd=folder,
            capture_output=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"OpenCode ended with {done.returncode}: {done.stderr[-2000:]!r}"


def _install(cache: Path, package: str, version: str) -> Path:
    """Installs one npm package and returns its folder; fails the test, never skips it."""
    home = cache / package.replace("/", "+").replace("@", "") / version
    found = home / "node_modules" / package
    if (found / "package.json").exists():
        return found
    if shutil.which("npm") is None:
        pytest.fail("npm is not installed; the conformance test needs it to get the real OpenCode (apt install npm)")
    home.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(home)]
    done = subprocess.run([*command, f"{package}@{version}"], capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        pytest.fail(f"npm could not install {package}@{version}: {done.stderr[-1500:]}")
    return found


@pytest.fixture(scope="session")
def real_opencode() -> RealOpenCode:
    cache = Path(os.environ.get("ENVKIT_OPENCODE_CACHE") or Path(tempfile.gettempdir()) / "envkit-opencode")
    machine = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    build = machine
    if machine == "x64" and "avx2" not in Path("/proc/cpuinfo").read_text():
        build = "x64-baseline"
    opencode = _install(cache, f"opencode-linux-{build}", OPENCODE_VERSION) / "bin" / "opencode"
    ripgrep = _install(cache, f"@vscode/ripgrep-linux-{machine}", RIPGREP_VERSION) / "bin" / "rg"
    return RealOpenCode(opencode, ripgrep)


@pytest.fixture
def work_folder() -> Iterator[Path]:
    """A folder that is in no git repository and has no ignore file above it."""
    with tempfile.TemporaryDirectory(prefix="envkit-opencode-work-") as folder:
        yield Path(folder).resolve()


# --- our own harness, in a real sandbox ---


class Ours:
    """A session of our harness with the model's part played by the test."""

    def __init__(self, session: Any, sandbox: Any) -> None:
        self.session = session
        self.sandbox = sandbox
        self.seen: list[Any] = []
        self._turn = 0

    async def say(self, *calls: Call, text: str = "", **more: Any) -> Any:
        """Hands over one message with these calls; returns the observation or the end."""
        self._turn += 1
        parsed = tuple(
            ToolCall.parse(f"call_{self._turn}_{index}", name, given if isinstance(given, str) else json.dumps(given))
            for index, (name, given) in enumerate(calls)
        )
        return await self.session.step(AssistantMessage(text=text, tool_calls=parsed, **more))

    async def call(self, name: str, **arguments: Any) -> Message:
        """One call; its tool message."""
        return (await self.turn((name, arguments)))[0]

    async def turn(self, *calls: Call) -> list[Message]:
        """The calls of one message; their tool messages, in call order."""
        told = await self.say(*calls)
        assert isinstance(told, Observation)
        assert [message.tool_call_id for message in told.messages] == [
            f"call_{self._turn}_{index}" for index in range(len(calls))
        ]
        return list(told.messages)  # type: ignore[arg-type]

    async def put(self, files: dict[str, bytes]) -> None:
        """Lays files below /filesystem; an empty name's end (`dir/`) makes a folder."""
        await self.sandbox.upload(tar_of(files), "/filesystem")

    async def content(self, path: str) -> bytes:
        return await self.sandbox.download(path if path.startswith("/") else f"/filesystem/{path}")

    async def tree(self) -> dict[str, bytes]:
        """Every file below /filesystem with its bytes; a symbolic link's are its target."""
        data = b"".join([block async for block in self.sandbox.snapshot(["/filesystem"])])
        found = {}
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for member in tar:
                name = member.name.removeprefix("filesystem").lstrip("/")
                if member.issym():
                    found[name] = b"-> " + member.linkname.encode()
                elif member.isreg():
                    content = tar.extractfile(member)
                    assert content is not None
                    found[name] = content.read()
                elif name:
                    found[name + "/"] = b""
        return found


def tar_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name.rstrip("/"))
            if name.endswith("/"):
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            elif content.startswith(b"-> "):
                info.type, info.linkname = tarfile.SYMTYPE, content[3:].decode()
                tar.addfile(info)
            else:
                info.size, info.mode = len(content), 0o644
                tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Ours]]]:
    """Opens sessions: `await opened(max_turns=3, prompt="compact", training=True, spec={...}, files={...})`."""
    async with AsyncExitStack() as stack:

        async def make(
            *,
            instruction: str = "Do the work.",
            files: dict[str, bytes] | None = None,
            spec: dict[str, Any] | None = None,
            training: bool = False,
            deadline_s: float = 100.0,
            limits: dict[str, Any] | None = None,
            **options: Any,
        ) -> Ours:
            folder = tmp_path / "task"
            folder.mkdir(exist_ok=True)
            (folder / "task.toml").write_text('schema_version = "1.4"\n', encoding="utf-8")
            (folder / "instruction.md").write_text(instruction, encoding="utf-8")
            task = load_task_dir(folder, lenient=True)
            sandbox = await stack.enter_async_context(LocalProvider().create(SandboxSpec(**(spec or {}))))
            context = SessionContext(
                deadline=Deadline.after(deadline_s, "the test's deadline"),
                limits=Limits(**{"max_turns": None, **(limits or {})}),
                training=training,
            )
            session = OpenCodeHarness(**options).session(task, task.steps[0], sandbox, context)
            ours = Ours(session, sandbox)
            stack.push_async_callback(session.close)
            if files:
                await ours.put(files)
            ours.seen.append(await session.open())
            return ours

        yield make
