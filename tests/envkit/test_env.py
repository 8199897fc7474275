"""The env over real parts: bubblewrap, the OpenCode harness, the typed checks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from envkit.env import AsyncEnv
from envkit.failure import (
    CapabilityError,
    DeadlineExceeded,
    EnvkitError,
    FailureKind,
    NoVerdict,
    SandboxDied,
    UserError,
    capture,
)
from envkit.harness import Limits
from envkit.harnesses.opencode import OpenCodeHarness
from envkit.messages import AssistantMessage, End, Message, Observation, ObservationKind, StopReason, ToolCall
from envkit.registry import DirectoryPack
from envkit.sandbox.local import LocalProvider

TOML = """
schema_version = "1.4"
[task]
name = "test/sum"
[agent]
timeout_sec = 60
[verifier]
timeout_sec = 60
[metadata.envkit]
world = "worlds/shop"
{more}
"""

CHECKS = """
schema_version = "1"
[[check]]
id = "total"
kind = "answer"
number = {value = 6}
[[check]]
id = "report"
kind = "text"
path = "/filesystem/report.txt"
contains = ["total: 6"]
"""


def write_pack(root: Path, *, checks: str = CHECKS, more: str = "", script: str | None = None) -> DirectoryPack:
    """A pack of one task over a world of one file."""
    world = root / "worlds" / "shop"
    (world / "filesystem").mkdir(parents=True)
    (world / ".apps_data").mkdir()
    (world / "filesystem" / "sales.csv").write_text("item,amount\na,1\nb,2\nc,3\n")
    task = root / "sum"
    (task / "tests").mkdir(parents=True)
    (task / "task.toml").write_text(TOML.format(more=more))
    (task / "instruction.md").write_text("Sum the amounts in sales.csv, write report.txt, and answer with the total.\n")
    if script is None:
        (task / "tests" / "verifier.toml").write_text(checks)
        (task / "tests" / "test.sh").write_text("exit 1\n")
    else:
        (task / "tests" / "test.sh").write_text(script)
    return DirectoryPack(root, "test")


def bash(command: str, id: str = "c1") -> AssistantMessage:
    return AssistantMessage(tool_calls=(ToolCall(id=id, name="bash", arguments={"command": command}),))


def make(pack: DirectoryPack, **options: Any) -> AsyncEnv:
    options.setdefault("harness", OpenCodeHarness())
    options.setdefault("provider", LocalProvider())
    return AsyncEnv(pack.load("sum"), pack=pack, **options)


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DirectoryPack:
    return write_pack(tmp_path / "pack")


@pytest.fixture
async def env(pack: DirectoryPack) -> AsyncIterator[AsyncEnv]:
    made = make(pack)
    yield made
    await made.close()


async def test_an_episode_from_reset_to_reward(env: AsyncEnv) -> None:
    observation, info = await env.reset(seed=3)
    assert info == {"task": "test/sum", "step": 0}
    assert {tool.name for tool in observation.tools or ()} >= {"bash", "read", "write", "edit"}
    assert "Sum the amounts" in observation.messages[-1].content  # type: ignore[union-attr]

    observation, reward, terminated, truncated, info = await env.step(bash("cat sales.csv; pwd"))
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert observation is not None
    assert "b,2" in observation.messages[-1].content  # type: ignore[union-attr]
    assert "/filesystem" in observation.messages[-1].content  # type: ignore[union-attr]

    await env.step(bash("echo 'total: 6' > report.txt"))
    observation, reward, terminated, truncated, info = await env.step("The total is 6.")
    assert (observation, reward, terminated, truncated) == (None, 1.0, True, False)
    assert info["stop"] == "answered"
    assert {c["id"]: c["outcome"] for c in info["verdict"]["criteria"]} == {"total": "passed", "report": "passed"}
    assert env.sandbox is None


async def test_a_wrong_answer_is_scored_and_a_right_file_still_counts(env: AsyncEnv) -> None:
    await env.reset()
    await env.step(bash("echo 'total: 6' > report.txt"))
    _, reward, *_ = await env.step("The total is 7.")
    assert reward == 0.5


async def test_reset_starts_over_from_the_initial_world(env: AsyncEnv) -> None:
    await env.reset()
    await env.step(bash("echo 'total: 6' > report.txt; rm sales.csv"))
    await env.reset()
    observation, *_ = await env.step(bash("ls"))
    assert observation is not None
    text = observation.messages[-1].content  # type: ignore[union-attr]
    assert "sales.csv" in text
    assert "report.txt" not in text


async def test_nothing_starts_before_reset_and_close_may_be_called_twice(pack: DirectoryPack) -> None:
    env = make(pack)
    assert env.sandbox is None
    await env.close()
    await env.close()


async def test_step_before_reset_and_after_the_end_is_the_users_mistake(env: AsyncEnv) -> None:
    with pytest.raises(UserError, match="reset"):
        await env.step("x")
    await env.reset()
    await env.step("6")
    with pytest.raises(UserError, match="reset"):
        await env.step("x")


async def test_a_turn_limit_truncates_and_is_scored(pack: DirectoryPack) -> None:
    env = make(pack, limits=Limits(max_turns=2))
    await env.reset()
    await env.step(bash("echo 'total: 6' > report.txt"))
    _, reward, terminated, truncated, _ = await env.step(bash("true"))
    assert (reward, terminated, truncated) == (0.5, False, True)
    assert env.stop is StopReason.TURNS
    await env.close()


async def test_an_expired_budget_is_a_fault_not_a_reward(pack: DirectoryPack) -> None:
    env = make(pack, timeout_s=3.0)
    await env.reset()
    with pytest.raises(DeadlineExceeded):
        await env.step(bash("setsid sleep 1000 & sleep 1000"))
    assert env.verdict is None
    assert env.sandbox is None
    await env.close()


async def test_a_dead_sandbox_is_a_fault_not_tool_output(env: AsyncEnv) -> None:
    await env.reset()
    assert env.sandbox is not None
    await env.sandbox.stop()
    with pytest.raises(SandboxDied):
        await env.step(bash("true"))


async def test_a_daemon_of_the_agents_is_dead_before_verification(env: AsyncEnv) -> None:
    await env.reset()
    await env.step(
        bash(
            'nohup setsid bash -c \'while true; do echo "total: 6" > /filesystem/report.txt;'
            " rm -f /filesystem/report.txt; sleep 0.01; done' >/dev/null 2>&1 & echo started"
        )
    )
    await env.step(bash("echo 'total: 6' > /filesystem/report2.txt"))
    _, reward, *_ = await env.step("6")
    assert reward in (0.5, 1.0)  # the file was there or not at the moment of the kill; the verdict is whole either way
    assert env.verdict is not None


async def test_a_broken_verifier_file_gives_no_reward(tmp_path: Path) -> None:
    env = make(write_pack(tmp_path / "p", checks='schema_version = "1"\n[[check]]\nid = "x"\nkind = "nonsense"\n'))
    await env.reset()
    with pytest.raises(NoVerdict) as caught:
        await env.step("6")
    assert capture(caught.value).boundary == "verifier"
    await env.close()


async def test_a_test_script_decides_and_its_lack_of_a_reward_is_no_reward(tmp_path: Path) -> None:
    good = 'test "$(cat /filesystem/report.txt)" = ok && echo 0.75 > /logs/verifier/reward.txt; true\n'
    env = make(write_pack(tmp_path / "p", script=good))
    await env.reset()
    await env.step(bash("echo ok > report.txt"))
    _, reward, *_ = await env.step("")
    assert reward == 0.75
    await env.reset()
    with pytest.raises(Exception) as caught:  # noqa: PT011
        await env.step("")
    assert capture(caught.value).kind is FailureKind.REWARD_MISSING
    await env.close()


async def test_a_task_that_needs_an_image_is_refused_before_anything_starts(tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "p")
    toml = (pack.path / "sum" / "task.toml").read_text().replace('[metadata.envkit]\nworld = "worlds/shop"', "")
    (pack.path / "sum" / "task.toml").write_text(toml + '[environment]\ndocker_image = "python:3.12"\n')
    env = make(pack)
    with pytest.raises(CapabilityError, match="docker"):
        await env.reset()
    assert env.sandbox is None


async def test_a_public_network_is_refused_by_the_local_sandbox(tmp_path: Path) -> None:
    env = make(write_pack(tmp_path / "p", more='[environment]\nnetwork_mode = "public"\n'))
    with pytest.raises(CapabilityError, match="network"):
        await env.reset()


async def test_concurrent_steps_queue_in_order(env: AsyncEnv) -> None:
    await env.reset()
    await asyncio.gather(*(env.step(bash(f"echo {n} >> order.txt", id=f"c{n}")) for n in range(5)))
    observation, *_ = await env.step(bash("cat order.txt"))
    assert observation is not None
    assert "0\n1\n2\n3\n4" in observation.messages[-1].content  # type: ignore[union-attr]


async def test_sandbox_settings_can_be_overridden_and_unknown_ones_are_named(pack: DirectoryPack) -> None:
    env = make(pack, sandbox_overrides={"memory_md": 100})
    with pytest.raises(UserError, match="memory_mb"):
        await env.reset()


MULTI = """
schema_version = "1.4"
multi_step_reward_strategy = "mean"
[task]
name = "test/two"
[metadata.envkit]
world = "worlds/shop"
[[steps]]
name = "one"
min_reward = 0.5
[[steps]]
name = "two"
"""


def write_two_steps(root: Path) -> DirectoryPack:
    pack = write_pack(root)
    task = root / "sum"
    (task / "instruction.md").unlink()
    (task / "tests" / "verifier.toml").unlink()
    (task / "task.toml").write_text(MULTI)
    for name, wanted in (("one", "1"), ("two", "2")):
        step = task / "steps" / name
        (step / "tests").mkdir(parents=True)
        (step / "workdir").mkdir()
        (step / "workdir" / f"given-{name}.txt").write_text(name)
        (step / "instruction.md").write_text(f"Step {name}\n")
        (step / "tests" / "test.sh").write_text("exit 1\n")
        (step / "tests" / "verifier.toml").write_text(
            f'schema_version = "1"\n[[check]]\nid = "n"\nkind = "answer"\nnumber = {{value = {wanted}}}\n'
        )
    return pack


async def test_two_steps_share_the_sandbox_and_each_has_a_verdict(tmp_path: Path) -> None:
    env = make(write_two_steps(tmp_path / "p"))
    observation, _ = await env.reset()
    assert "Step one" in observation.messages[-1].content  # type: ignore[union-attr]
    await env.step(bash("echo kept > mine.txt"))
    observation, reward, terminated, truncated, info = await env.step("1")
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["step_rewards"] == [1.0]
    assert observation is not None
    assert observation.thread != "main"
    assert "Step two" in observation.messages[-1].content  # type: ignore[union-attr]
    observation, *_ = await env.step(bash("cat mine.txt given-one.txt given-two.txt"))
    assert observation is not None
    assert "kept" in observation.messages[-1].content  # type: ignore[union-attr]
    assert "two" in observation.messages[-1].content  # type: ignore[union-attr]
    _, reward, terminated, *_ = await env.step("3")
    assert (reward, terminated) == (0.5, True)
    assert env.verdict is not None
    assert {c.id for c in env.verdict.criteria} == {"one/n", "two/n"}
    await env.close()


async def test_a_failed_gate_skips_the_remaining_steps(tmp_path: Path) -> None:
    env = make(write_two_steps(tmp_path / "p"))
    await env.reset()
    observation, reward, terminated, *_ = await env.step("7")
    assert (observation, reward, terminated) == (None, 0.0, True)
    await env.close()


async def test_a_task_that_nothing_could_judge_starts_nothing(tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "pack")
    for file in (tmp_path / "pack" / "sum" / "tests").iterdir():
        file.unlink()
    env = make(pack)
    with pytest.raises(EnvkitError, match=r"tests/verifier.toml or a tests/test.sh") as caught:
        await env.reset()
    assert caught.value.kind is FailureKind.TASK_INVALID
    assert (env.sandbox, env.timings) == (None, {})
    await env.close()


@pytest.mark.parametrize("named", ["os:system", "os:abort", "json:JSONDecoder"])
async def test_a_task_has_no_function_called_that_is_no_verifier(tmp_path: Path, named: str) -> None:
    env = make(write_pack(tmp_path / "pack", more=f'verifier = "{named}"'))
    with pytest.raises(UserError, match="no verifier class"):
        await env.reset()
    await env.close()


async def test_a_world_that_does_not_fit_is_told_so(tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "pack")
    (tmp_path / "pack" / "worlds" / "shop" / "filesystem" / "big").write_bytes(b"x" * (12 << 20))
    env = make(pack, sandbox_overrides={"disk_mb": 4})
    with pytest.raises(EnvkitError, match="storage_mb") as caught:
        await env.reset()
    assert caught.value.kind is FailureKind.SETUP_FAILED
    await env.close()


async def test_a_steps_own_tests_lie_over_the_shared_ones(tmp_path: Path) -> None:
    pack = write_two_steps(tmp_path / "p")
    shared, own = tmp_path / "p" / "sum" / "tests", tmp_path / "p" / "sum" / "steps" / "one" / "tests"
    (shared / "value.txt").write_text("0.25\n")
    (shared / "which.txt").write_text("shared\n")
    (own / "which.txt").write_text("own\n")
    (own / "verifier.toml").unlink()
    (own / "test.sh").write_text(
        'test "$(cat /tests/which.txt)" = own && cp /tests/value.txt /logs/verifier/reward.txt'
    )
    env = make(pack)
    await env.reset()
    *_, info = await env.step("x")
    assert info["step_rewards"] == [0.25]
    await env.close()


class Compacting:
    """A harness whose session asks for a summary on the side, rewrites its history, and ends."""

    name, version = "compacting", "1"

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    def session(self, *_: Any) -> Compacting:
        return self

    async def open(self) -> Observation:
        self.seen: list[AssistantMessage] = []
        return Observation(messages=(Message(role="system", content="s"), Message(role="user", content="u")), tools=())

    async def step(self, message: AssistantMessage) -> Observation | End:
        self.seen.append(message)
        if len(self.seen) == 1:
            asked = Message(role="user", content="summarise")
            return Observation(thread="summary", kind=ObservationKind.SIDE, messages=(asked,))
        if len(self.seen) == 2:
            history = (Message(role="system", content="s"), Message(role="user", content="u, so far: " + message.text))
            return Observation(kind=ObservationKind.REWRITE, messages=history)
        return End(stop=StopReason.ANSWERED, final_answer=message.text, answer_status="blocked")

    async def close(self) -> None:
        pass


async def test_a_side_thread_stays_aside_and_a_rewrite_adds_only_what_is_new(pack: DirectoryPack) -> None:
    env = make(pack, harness=Compacting())
    try:
        await env.reset()
        for said in ("one", "the summary", "the end"):
            *_, info = await env.step(said)
    finally:
        await env.close()
    texts = [m.text if isinstance(m, AssistantMessage) else m.content for m in env.messages]
    assert texts == ["s", "u", "one", "u, so far: the summary", "the end"]
    assert info["answer_status"] == env.answer_status == "blocked"


class Delegating(Compacting):
    """A harness whose session has a sub-agent that works for several turns."""

    async def step(self, message: AssistantMessage) -> Observation | End:
        self.seen.append(message)
        if len(self.seen) in (1, 2):
            kind = ObservationKind.SIDE if len(self.seen) == 1 else ObservationKind.APPEND
            return Observation(thread="side-1", kind=kind, messages=(Message(role="user", content="look"),))
        if len(self.seen) == 3:
            return Observation(messages=(Message(role="tool", content="it looked", tool_call_id="1"),))
        return End(stop=StopReason.ANSWERED, final_answer=message.text)


async def test_what_a_sub_agent_goes_on_to_say_is_not_the_main_conversations(pack: DirectoryPack) -> None:
    env = make(pack, harness=Delegating())
    try:
        await env.reset()
        for said in ("go", "I look", "I looked", "the end"):
            await env.step(said)
    finally:
        await env.close()
    texts = [m.text if isinstance(m, AssistantMessage) else m.content for m in env.messages]
    assert texts == ["s", "u", "go", "it looked", "the end"]
