"""The oracle in a real sandbox: it plays what the task's author wrote, says clearly when it can't, leaves no trace."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from envkit.failure import Boundary, DeadlineExceeded, EnvkitError, FailureKind, UserError
from envkit.messages import AssistantMessage, StopReason
from envkit.policy.base import Policy
from envkit.policy.noop import NoopPolicy
from envkit.policy.oracle import OraclePolicy
from envkit.policy.solution import pack
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider
from envkit.task import Task

MakeTask = Callable[..., Task]
Play = Callable[..., Awaitable[Any]]

SOLVE = """#!/bin/bash
set -e
pwd
/solution/tools/part.sh > memo.txt
printf 'It is 12.4 million EUR.\\n' > /logs/agent/answer.txt
"""


async def broken(awaitable: Awaitable[Any]) -> str:
    with pytest.raises(EnvkitError) as caught:
        await awaitable
    assert (caught.value.kind, caught.value.boundary) == (FailureKind.SOLUTION_FAILED, Boundary.POLICY)
    return str(caught.value)


async def test_the_script_runs_in_the_world_and_its_answer_is_the_final_message(
    make_task: MakeTask, play: Play, tmp_path: Path
) -> None:
    policy = OraclePolicy()
    assert isinstance(policy, Policy)
    files = {"solution/solve.sh": SOLVE, "solution/tools/part.sh": "#!/bin/bash\necho part\n"}
    played = await play(policy, make_task(files))
    assert played.end.stop is StopReason.ANSWERED
    assert played.end.final_answer == "It is 12.4 million EUR."
    assert played.world["filesystem/memo.txt"] == b"part\n"
    assert (tmp_path / "solution.log").read_text() == "/filesystem\n"
    assert len([m for m in played.messages if isinstance(m, AssistantMessage)]) == 1
    assert "solve.sh" not in played.inside
    assert "answer.txt" not in played.inside


async def test_a_script_without_an_answer_answers_with_nothing(make_task: MakeTask, play: Play) -> None:
    played = await play(OraclePolicy(), make_task({"solution/solve.sh": "echo x > y.txt\n"}))
    assert played.end.final_answer in (None, "")
    assert played.world["filesystem/y.txt"] == b"x\n"


CALLS = {
    "calls": [
        {"name": "write", "arguments": {"filePath": "/filesystem/a.txt", "content": "one\n"}},
        [
            {"name": "bash", "arguments": {"command": "cat a.txt; ls -A /sol*", "description": "looks"}},
            {"name": "read", "arguments": {"filePath": "/filesystem/none.txt"}},
        ],
        {"name": "no_such_tool", "arguments": {}},
        {"name": "bash", "arguments": {"command": "cp a.txt b.txt", "description": "copies"}},
    ],
    "answer": "done",
}


async def test_scripted_calls_are_preferred_and_go_on_after_tool_errors(make_task: MakeTask, play: Play) -> None:
    files = {"solution/solve.sh": "exit 1\n", "solution/opencode.json": json.dumps(CALLS)}
    played = await play(OraclePolicy(), make_task(files))
    assert played.end.final_answer == "done"
    assert played.world["filesystem/b.txt"] == b"one\n"
    said = [m for m in played.messages if isinstance(m, AssistantMessage)]
    assert [len(m.tool_calls) for m in said] == [1, 2, 1, 1, 0]
    assert len(played.results) == 5
    assert played.results[1].content.strip() == "one"
    ids = [call.id for m in said for call in m.tool_calls]
    assert len(set(ids)) == len(ids)


async def test_calls_that_use_solution_files_find_them_and_leave_none(make_task: MakeTask, play: Play) -> None:
    command = "bash /solution/build.sh; ls -A /solution"
    call = {"name": "bash", "arguments": {"command": command, "description": "builds"}}
    files = {"solution/build.sh": "echo built > out.txt\n", "solution/opencode.json": json.dumps({"calls": [call]})}
    played = await play(OraclePolicy(), make_task(files))
    assert played.world["filesystem/out.txt"] == b"built\n"
    assert "opencode.json" not in played.results[0].content
    assert "build.sh" not in played.inside


async def test_another_harness_gets_the_script(make_task: MakeTask, play: Play) -> None:
    files = {"solution/solve.sh": "echo s > by.txt\n", "solution/archipelago.json": json.dumps(CALLS)}
    played = await play(OraclePolicy(), make_task(files))
    assert played.world["filesystem/by.txt"] == b"s\n"


async def test_the_form_can_be_insisted_on(make_task: MakeTask, play: Play) -> None:
    both = {"solution/solve.sh": "echo s > by.txt\n", "solution/opencode.json": json.dumps(CALLS)}
    task = make_task(both)
    assert "filesystem/by.txt" in (await play(OraclePolicy(play="script"), task)).world
    assert "filesystem/b.txt" in (await play(OraclePolicy(play="calls"), task)).world
    only = make_task({"solution/solve.sh": "true\n"}, name="only")
    assert "opencode.json" in await broken(play(OraclePolicy(play="calls"), only))
    with pytest.raises(UserError, match="play"):
        OraclePolicy(play="by ear")


async def test_a_failing_script_says_how_and_shows_its_last_words(make_task: MakeTask, play: Play) -> None:
    script = "for i in $(seq 20000); do echo line $i; done; echo 'no such sheet' >&2; exit 3\n"
    said = await broken(play(OraclePolicy(), make_task({"solution/solve.sh": script})))
    assert "exit code 3" in said
    assert said.endswith("no such sheet")
    assert len(said) < 6000


async def test_a_script_killed_by_a_signal_says_so(make_task: MakeTask, play: Play) -> None:
    assert "signal 9" in await broken(play(OraclePolicy(), make_task({"solution/solve.sh": "kill -9 $$\n"})))


async def test_a_script_past_the_deadline_ends_as_a_deadline(make_task: MakeTask, play: Play) -> None:
    task = make_task({"solution/solve.sh": "sleep 60\n"})
    with pytest.raises(DeadlineExceeded):
        await play(OraclePolicy(), task, deadline_s=1.5)


async def test_without_a_solution_it_says_what_is_missing(make_task: MakeTask, play: Play) -> None:
    assert "no solution folder" in await broken(play(OraclePolicy(), make_task()))
    other = make_task({"solution/notes.md": "soon\n"}, name="other")
    said = await broken(play(OraclePolicy(), other))
    assert "solve.sh" in said
    assert "opencode.json" in said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "opencode.json:1:2: not JSON"),
        ("[]", "top level"),
        ('{"calls": {}}', "calls: expected a list of calls, found dict"),
        ('{"calls": [], "anwser": "x"}', "anwser: unknown (did you mean 'answer'?)"),
        ('{"calls": [{"name": "bash", "args": {}}]}', "calls[0][0].args: unknown"),
        ('{"calls": [[{"name": "bash"}, {"arguments": {}}]]}', "calls[0][1].name"),
        ('{"calls": [{"name": "bash", "arguments": "ls"}]}', "calls[0][0].arguments"),
        ('{"calls": [[]]}', "turn 0 is an empty list"),
        ('{"calls": ["ls"]}', "calls[0][0]"),
    ],
)
async def test_a_script_of_calls_is_read_strictly(make_task: MakeTask, play: Play, content: str, says: str) -> None:
    said = await broken(play(OraclePolicy(), make_task({"solution/opencode.json": content})))
    assert says in said
    assert "opencode.json" in said


@pytest.mark.slow
async def test_the_solutions_environment_comes_from_the_host_and_its_secrets_are_not_shown(
    make_task: MakeTask, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOLVE_TOKEN", "tok-1234567")
    toml = '[solution.env]\nTOKEN = "${SOLVE_TOKEN}"\nMODE = "${SOLVE_MODE:-fast}"\n'
    script = 'echo "$MODE ${#TOKEN}" > env.txt; echo "$TOKEN"; exit ${FAIL:-0}\n'
    played = await play(OraclePolicy(), make_task({"solution/solve.sh": script}, toml=toml))
    assert played.world["filesystem/env.txt"] == b"fast 11\n"
    assert (tmp_path / "solution.log").read_text() == "[scrubbed]\n"
    failing = make_task({"solution/solve.sh": script + "exit 1\n"}, name="failing", toml=toml + 'FAIL = "1"\n')
    assert "tok-1234567" not in await broken(play(OraclePolicy(), failing))
    monkeypatch.delenv("SOLVE_TOKEN")
    with pytest.raises(UserError, match="SOLVE_TOKEN"):
        await play(OraclePolicy(), make_task({"solution/solve.sh": script}, name="unset", toml=toml))


async def test_an_earlier_steps_answer_is_not_the_next_ones(make_task: MakeTask, play: Play) -> None:
    steps = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    files = {
        "steps/one/instruction.md": "First.\n",
        "steps/one/solution/solve.sh": "echo first > /logs/agent/answer.txt; touch one.txt\n",
        "steps/one/tests/test.sh": "true\n",
        "steps/two/instruction.md": "Second.\n",
        "steps/two/solution/solve.sh": "ls /solution > seen.txt\n",
        "steps/two/tests/test.sh": "true\n",
    }
    task = make_task(files, toml=steps)
    policy = OraclePolicy()
    async with LocalProvider().create(SandboxSpec()) as sandbox:
        first = await play(policy, task, step=0, sandbox=sandbox)
        second = await play(policy, task, step=1, sandbox=sandbox)
    assert first.end.final_answer == "first"
    assert second.end.final_answer in (None, "")
    assert second.world["filesystem/seen.txt"] == b"solve.sh\n"


def test_the_packed_solution_keeps_modes_and_links_and_is_equal_each_time(tmp_path: Path) -> None:
    folder = tmp_path / "solution"
    (folder / "sub").mkdir(parents=True)
    (folder / "solve.sh").write_text("x")
    (folder / "solve.sh").chmod(0o755)
    (folder / "sub" / "data.txt").write_text("y")
    (folder / "sub" / "data.txt").chmod(0o640)
    (folder / "link").symlink_to("sub/data.txt")
    tar = pack(folder)
    os.utime(folder / "solve.sh", (1, 1))
    assert pack(folder) == tar
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        found = {m.name: (m.type, m.mode, m.linkname) for m in archive.getmembers()}
    assert found["solution/solve.sh"] == (tarfile.REGTYPE, 0o755, "")
    assert found["solution/sub/data.txt"] == (tarfile.REGTYPE, 0o640, "")
    assert found["solution/link"][::2] == (tarfile.SYMTYPE, "sub/data.txt")
    os.mkfifo(folder / "pipe")
    with pytest.raises(EnvkitError, match="pipe is neither"):
        pack(folder)


async def test_doing_nothing_is_an_empty_answer_at_once(make_task: MakeTask, play: Play) -> None:
    policy = NoopPolicy()
    assert isinstance(policy, Policy)
    played = await play(policy, make_task())
    assert played.end.stop is StopReason.ANSWERED
    assert not played.end.final_answer
    assert played.results == []
    with pytest.raises(UserError, match="noop"):
        NoopPolicy(effort="none")


@pytest.mark.parametrize(
    "made", ["mkfifo /logs/agent/answer.txt", "head -c 9000000 /dev/zero > /logs/agent/answer.txt"]
)
async def test_an_answer_that_cant_be_read_is_the_solutions_fault(make_task: MakeTask, play: Play, made: str) -> None:
    said = await broken(play(OraclePolicy(), make_task({"solution/solve.sh": f"{made}\n"})))
    assert "answer" in said
