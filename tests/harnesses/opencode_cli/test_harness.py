"""The real OpenCode inside a sandbox, answered turn by turn: work, limits, ends, and what becomes of a killed one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import envkit
from envkit.env import AsyncEnv
from envkit.failure import Boundary, CapabilityError, EnvkitError, FailureKind, UserError
from envkit.harnesses.opencode_cli import OpenCodeCliHarness
from envkit.harnesses.opencode_cli.install import install
from envkit.messages import AssistantMessage, Observation, ObservationKind, ToolCall, Usage
from envkit.registry import DirectoryPack
from envkit.sandbox.local import LocalProvider

pytestmark = [pytest.mark.opencode, pytest.mark.timeout(700)]

TASK = "office/aalsund-tender-deadline"


@pytest.fixture(scope="module", autouse=True)
def program() -> Path:
    return install()


class Agent:
    """The model's part, played by the test."""

    def __init__(self, env: AsyncEnv) -> None:
        self.env = env
        self.turn = 0

    async def say(self, *calls: tuple[str, dict[str, Any] | str], text: str = "", **more: Any) -> Any:
        """One message; the observation, or the tuple of the end."""
        self.turn += 1
        parsed = tuple(
            ToolCall.parse(f"call_{self.turn}_{n}", name, given if isinstance(given, str) else json.dumps(given))
            for n, (name, given) in enumerate(calls)
        )
        result = await self.env.step(AssistantMessage(text=text, tool_calls=parsed, **more))
        return result[0] if result[0] is not None else result


@pytest.fixture
async def started() -> AsyncIterator[Any]:
    """`env, first, agent = await started(option=..., limits={...})`."""
    envs: list[AsyncEnv] = []

    async def start(*, limits: dict[str, Any] | None = None, training: bool = False, **options: Any) -> Any:
        env = envkit.make_async(
            TASK, harness="opencode-cli", harness_options=options, limits=limits, training=training, timeout_s=600
        )
        envs.append(env)
        first, _ = await env.reset(seed=0)
        return env, first, Agent(env)

    yield start
    for env in envs:
        await env.close()


def told(observation: Any) -> list[str]:
    assert isinstance(observation, Observation), observation
    assert observation.kind is ObservationKind.APPEND
    assert observation.thread == "main"
    return [m.content for m in observation.messages]  # type: ignore[union-attr]


async def test_the_real_program_works_on_a_task_step_by_step(started: Any) -> None:
    env, first, agent = await started()
    assert [m.role for m in first.messages] == ["system", "user"]
    assert first.messages[1].content == env.task.steps[0].instruction
    assert {t.name for t in first.tools} == {"bash", "edit", "glob", "grep", "read", "todowrite", "write"}
    listing, found = told(
        await agent.say(("bash", {"command": "pwd; ls", "description": "d"}), ("glob", {"pattern": "**/Addendum*"}))
    )
    assert listing.startswith("/filesystem\n")
    assert found.split() == sorted(found.split()) or "Addendum 2.pdf" in found
    # A tool that does not exist, and arguments that are no JSON, go through the program's own repair.
    odd = told(await agent.say(("nothing", {}), ("read", '{"filePath": ')))
    assert "unavailable tool" in odd[0]
    assert "JSON" in odd[1]
    (wrote,) = told(await agent.say(("write", {"filePath": "/filesystem/note.txt", "content": "ä €"})))
    assert "successfully" in wrote
    end = await agent.say(text="By 27 February 2026, 10:00, through Udbudsnet.")
    assert end[0] is None
    assert (end[1], env.stop, env.final_answer) == (1.0, "answered", "By 27 February 2026, 10:00, through Udbudsnet.")
    assert [getattr(m, "role", "assistant") for m in env.messages[:4]] == ["system", "user", "assistant", "tool"]


async def test_it_begins_in_the_working_folder_that_a_task_names(tmp_path: Path) -> None:
    files = {
        "task.toml": 'schema_version = "1.4"\n[task]\nname = "test/app"\n[environment]\nworkdir = "/app"\n',
        "instruction.md": "Write 42 into answer.txt.\n",
        "tests/test.sh": '[ "$(cat /app/answer.txt)" = 42 ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n',
    }
    for name, text in files.items():
        (tmp_path / "app" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "app" / name).write_text(text)
    pack = DirectoryPack(tmp_path, "test")
    provider = LocalProvider(office=False)
    env = AsyncEnv(pack.load("app"), pack=pack, harness=OpenCodeCliHarness(), provider=provider, timeout_s=600)
    async with env:
        await env.reset(seed=0)
        agent = Agent(env)
        (place,) = told(await agent.say(("bash", {"command": "pwd", "description": "d"})))
        assert place == "/app\n"
        (wrote,) = told(await agent.say(("write", {"filePath": "/app/answer.txt", "content": "42"})))
        assert "successfully" in wrote
        end = await agent.say(text="Done.")
        assert end[:2] == (None, 1.0)


async def test_the_turn_limit_ends_it_after_the_calls_of_the_last_turn(started: Any) -> None:
    env, _, agent = await started(limits={"max_turns": 2})
    (last,) = told(await agent.say(("bash", {"command": "true", "description": "d"})))
    assert "your next message is the last one" in last
    end = await agent.say(("bash", {"command": "echo kept > last.txt", "description": "d"}))
    assert end[0] is None
    assert env.stop == "turns"
    assert b"last.txt" in env.final.read_bytes()


async def test_working_time_and_a_full_context_are_limits_not_faults(started: Any) -> None:
    env, _, agent = await started(limits={"working_time_s": 4})
    end = await agent.say(("bash", {"command": "sleep 60", "description": "d"}))
    assert end[0] is None
    assert env.stop == "working_time"
    env, _, agent = await started()
    end = await agent.say(finish="context")
    assert end[0] is None
    assert env.stop == "context"


async def test_the_nudge_is_in_what_the_model_sees_and_not_in_the_programs_history(started: Any) -> None:
    _, _, agent = await started(training=True, nudge_share=0.5, nudge_text="wrap up ({percent} %)")
    usage = Usage(context_tokens=60, context_limit=100)
    (seen,) = told(await agent.say(("bash", {"command": "echo one", "description": "d"}), usage=usage))
    assert "wrap up" in seen
    # The next request is still an append: what the program tells is what it was told.
    (seen,) = told(await agent.say(("bash", {"command": "echo two", "description": "d"}), usage=usage))
    assert seen == "two\n"


async def test_its_own_compaction_is_a_side_call_and_then_a_rewrite(started: Any) -> None:
    _, _, agent = await started(context_limit=9000, max_turn_tokens=1000)
    big = Usage(prompt_tokens=8500, completion_tokens=10, context_tokens=8510, context_limit=9000)
    asked = await agent.say(("bash", {"command": "echo one", "description": "d"}), usage=big)
    assert asked.kind is ObservationKind.SIDE
    assert not asked.tools
    after = await agent.say(text="We have looked around.")
    assert (after.thread, after.kind) == ("main", ObservationKind.REWRITE)
    assert after.messages[0].content == "".join(m.content for m in after.messages[:1])
    assert any("We have looked around." in getattr(m, "text", "") for m in after.messages)
    end = await agent.say(text="Done.")
    assert end[0] is None


@pytest.mark.parametrize("when", ["thinking", "working"])
async def test_a_killed_program_is_a_system_failure(started: Any, when: str) -> None:
    env, _, agent = await started()

    def kill() -> None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                    mine = str(env.sandbox.pid).encode() in _ancestors(int(entry.name))
                except OSError:
                    continue
                if mine and command.startswith(b"/opt/opencode/opencode"):
                    os.kill(int(entry.name), signal.SIGKILL)

    if when == "thinking":
        kill()
        doing = asyncio.create_task(agent.say(("bash", {"command": "true", "description": "d"})))
    else:
        doing = asyncio.create_task(agent.say(("bash", {"command": "sleep 100", "description": "d"})))
        await asyncio.sleep(2)
        kill()
    with pytest.raises(EnvkitError, match="ended by signal 9") as caught:
        await doing
    assert (caught.value.kind, caught.value.boundary) == (FailureKind.HARNESS_ERROR, Boundary.HARNESS)
    assert not env.is_open


def _ancestors(pid: int) -> set[bytes]:
    seen: set[bytes] = set()
    while pid > 1:
        seen.add(str(pid).encode())
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return seen


async def test_a_program_that_cannot_run_says_why(tmp_path: Path) -> None:
    broken = Path("/var/lib") / f"envkit-test-{os.getpid()}" if os.geteuid() == 0 else tmp_path
    broken.mkdir(exist_ok=True)
    try:
        for name, text in (("opencode", "#!/bin/sh\necho no such feature >&2\nexit 3\n"), ("rg", "")):
            (broken / name).write_text(text)
            (broken / name).chmod(0o755)
        env = envkit.make_async(TASK, harness="opencode-cli", harness_options={"program": str(broken)})
        with pytest.raises(EnvkitError, match="ended with status 3; it said: no such feature"):
            await env.reset()
        await env.close()
        (broken / "rg").unlink()
        with pytest.raises(CapabilityError, match="needs rg in"):
            await envkit.make_async(TASK, harness="opencode-cli", harness_options={"program": str(broken)}).reset()
    finally:
        for path in broken.iterdir():
            path.unlink()
        if broken != tmp_path:
            broken.rmdir()


def test_options_are_strict() -> None:
    with pytest.raises(UserError, match=r"no such option; did you mean 'prompt'|did you mean"):
        OpenCodeCliHarness(promt="x")


async def test_nothing_is_left_when_it_is_closed(started: Any) -> None:
    env, _, _ = await started()
    socket = Path(env.spec.sockets["/run/model.sock"])
    assert socket.exists()
    await env.close()
    assert not socket.exists()


async def test_an_agent_that_ends_its_own_way_to_the_model_works_on(started: Any) -> None:
    _, _, agent = await started()
    (seen,) = told(await agent.say(("bash", {"command": "pkill -f 'python3 -[S]'; echo cut", "description": "d"})))
    assert seen.startswith("cut")
    end = await agent.say(text="Done.")
    assert end[0] is None


@pytest.mark.parametrize("command", ["kill -9 -1", "pkill -9 opencode; kill -9 $PPID; kill -STOP $PPID"])
async def test_an_agent_cannot_end_its_own_program_and_so_its_score(started: Any, command: str) -> None:
    env, _, agent = await started()
    (seen,) = told(await agent.say(("bash", {"command": f"{command}; echo still here", "description": "d"})))
    assert "still here" in seen
    assert "not permitted" in seen
    end = await agent.say(text="Whatever.")
    assert end[0] is None
    assert (end[1], env.stop) == (0.0, "answered")


@pytest.mark.parametrize("vision", [True, False])
async def test_pictures_reach_a_model_that_sees(started: Any, vision: bool) -> None:
    _, _, agent = await started(vision=vision)
    draw = "python3 -c \"import base64; open('dot.png', 'wb').write(base64.b64decode('" + DOT + "'))\""
    told(await agent.say(("bash", {"command": draw, "description": "d"})))
    seen = await agent.say(("read", {"filePath": "/filesystem/dot.png"}))
    images = [i for m in seen.messages for i in getattr(m, "images", ())]
    if vision:
        assert [(i.mime, i.data) for i in images] == [("image/png", DOT)]
    else:
        assert not images
        assert any("does not support image" in m.content for m in seen.messages)


#: One dot.
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

FORGE = """
import json, os, urllib.request
config = json.loads(os.environ["OPENCODE_CONFIG_CONTENT"])["provider"]["envkit"]["options"]
for n in range(30):
    body = {"model": "m", "messages": [{"role": "user", "content": "think for me %d" % n}]}
    headers = {"content-type": "application/json", "authorization": "Bearer " + config["apiKey"]}
    asked = urllib.request.Request(config["baseURL"] + "/chat/completions", json.dumps(body).encode(), headers)
    print(urllib.request.urlopen(asked).read().decode()[:40])
"""


async def test_forged_requests_with_the_trials_key_are_no_way_around_the_limits(started: Any) -> None:
    env, _, agent = await started(limits={"max_turns": 6})
    command = f"python3 - <<'EOF'\n{FORGE}\nEOF"
    following = await agent.say(("bash", {"command": command, "description": "d"}))
    asked = 0
    while isinstance(following, Observation):
        assert following.thread != "main"
        asked += 1
        following = await agent.say(text="a thought")
    assert env.stop == "turns"
    assert asked < 30


async def test_a_turn_cut_short_before_any_call_ends_as_under_the_white_box(started: Any) -> None:
    env, _, agent = await started()
    end = await agent.say(text="and then I", finish="length")
    assert end[0] is None
    assert env.stop == "turn_length"


def test_the_socket_is_where_a_sandboxs_user_can_go_even_in_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "trial"
    private.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    harness = OpenCodeCliHarness()
    folder = harness._socket().parent
    assert all(above.stat().st_mode & 0o001 for above in (folder, *folder.parents))
