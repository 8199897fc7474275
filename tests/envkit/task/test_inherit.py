"""What a step inherits, and what Harbor's accident changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envkit.failure import UserError
from envkit.task import Task, load_task_dir

TASK = """
artifacts = ["/shared"]
[agent]
timeout_sec = 100
user = "worker"
network_mode = "allowlist"
allowed_hosts = ["a.example"]
[verifier]
timeout_sec = 50
user = "checker"
env = {BOTH = "task", TASK = "t"}
[[verifier.collect]]
command = "first"
[environment]
memory_mb = 512
network_mode = "no-network"
healthcheck = {command = "up"}
[[steps]]
name = "bare"
[[steps]]
name = "own"
artifacts = ["/own"]
min_reward = 0.5
healthcheck = {command = "ready"}
agent = {timeout_sec = 7, user = 0, network_mode = "public"}
[steps.verifier]
timeout_sec = 9
user = "root"
env = {BOTH = "step", STEP = "s"}
environment = {docker_image = "v:1", network_mode = "public"}
collect = [{command = "second"}]
"""


@pytest.fixture
def task(make_dir: Any) -> Task:
    return load_task_dir(_dir(make_dir))


def _dir(make_dir: Any) -> Path:
    files = {
        "instruction.md": None, "steps/bare/instruction.md": "bare", "steps/own/instruction.md": "own",
        "tests/test.sh": "", "steps/own/tests/test.sh": "", "solution/solve.sh": "", "steps/own/solution/solve.sh": "",
        "steps/own/workdir/setup.sh": "", "steps/own/trajectory.json": "{}",
    }  # fmt: skip
    root: Path = make_dir(TASK, files=files)
    return root


def test_a_step_that_states_nothing_has_the_tasks_values(task: Task) -> None:
    step = task.step("bare")
    assert (step.agent.timeout_sec, step.agent.user) == (100, "worker")
    assert (step.agent.network_mode, step.agent.allowed_hosts) == ("allowlist", ["a.example"])
    assert (step.verifier.timeout_sec, step.verifier.user) == (50, "checker")
    assert step.verifier.env == {"BOTH": "task", "TASK": "t"}
    assert (step.verifier.network_mode, step.verifier.environment_mode, step.verifier.environment) == (
        "no-network",
        "shared",
        None,
    )
    assert [hook.command for hook in step.verifier.collect] == ["first"]
    assert [artifact.source for artifact in step.artifacts] == ["/shared"]
    assert (step.tests_dir, step.shared_tests_dir) == (task.dir / "tests", None)
    assert (step.solution_dir, step.workdir, step.trajectory) == (task.dir / "solution", None, None)
    assert step.environment.memory_mb == 512


def test_a_step_that_states_its_own_has_its_own_and_maps_and_lists_are_joined(task: Task) -> None:
    step, folder = task.step("own"), task.dir / "steps" / "own"
    assert (step.agent.timeout_sec, step.agent.user, step.agent.network_mode) == (7, 0, "public")
    assert step.agent.allowed_hosts is None  # the policy is taken as a whole
    assert (step.verifier.timeout_sec, step.verifier.user) == (9, "root")
    assert step.verifier.env == {"BOTH": "step", "TASK": "t", "STEP": "s"}
    assert step.verifier.environment_mode == "separate"
    assert step.verifier.environment is not None
    assert (step.verifier.environment.docker_image, step.verifier.network_mode) == ("v:1", "public")
    assert [hook.command for hook in step.verifier.collect] == ["first", "second"]
    assert [artifact.source for artifact in step.artifacts] == ["/shared", "/own"]
    assert (step.tests_dir, step.shared_tests_dir) == (folder / "tests", task.dir / "tests")
    assert (step.solution_dir, step.workdir) == (folder / "solution", folder / "workdir")
    assert step.trajectory == folder / "trajectory.json"
    assert step.min_reward == 0.5


def test_healthchecks_run_the_environments_once_and_then_the_steps(task: Task) -> None:
    commands = [[check.command for check in step.healthchecks] for step in task.steps]
    assert commands == [["up"], ["ready"]]


def test_harbors_accident_is_kept_only_on_request(make_dir: Any) -> None:
    task = load_task_dir(_dir(make_dir), harbor_compat=True)
    assert [step.verifier.timeout_sec for step in task.steps] == [600, 9]
    assert task.harbor_compat


def test_a_single_step_task_has_one_step_without_a_name(make_dir: Any) -> None:
    root = make_dir(
        "[verifier]\ncollect=[{command='x'}]\nenv={A='b'}\n[environment]\nhealthcheck={command='up'}",
        files={"trajectory.json": "{}", "tests/t": "", "solution/solve.sh": ""},
    )
    task = load_task_dir(root, id="acme/q1")
    (step,) = task.steps
    assert (task.id, task.name, step.name, task.is_multi_step) == ("acme/q1", "q1", "", False)
    assert step.instruction == "Do it.\n"
    assert (step.agent.timeout_sec, step.verifier.timeout_sec) == (None, 600)
    assert [hook.command for hook in step.verifier.collect] == ["x"]  # once, not twice
    assert [check.command for check in step.healthchecks] == ["up"]
    assert (step.tests_dir, step.solution_dir, step.workdir) == (root / "tests", root / "solution", None)
    assert step.trajectory == root / "trajectory.json"
    with pytest.raises(UserError, match="has no step 'x'"):
        task.step("x")


def test_separate_mode_without_an_environment_copies_the_tasks(make_dir: Any) -> None:
    root = make_dir("[verifier]\nenvironment_mode='separate'\n[environment]\nmemory_mb=99\nnetwork_mode='no-network'")
    verifier = load_task_dir(root).steps[0].verifier
    assert verifier.environment is not None
    assert (verifier.environment.memory_mb, verifier.network_mode) == (99, "no-network")


def test_a_step_may_say_shared_where_the_task_says_separate(make_dir: Any) -> None:
    root = make_dir(
        "[verifier.environment]\ndocker_image='v'\n[[steps]]\nname='a'\nverifier={environment_mode='shared'}\n[[steps]]\nname='b'",
        files={"instruction.md": None, "steps/a/instruction.md": "a", "steps/b/instruction.md": "b"},
    )
    modes = [(s.verifier.environment_mode, s.verifier.environment is None) for s in load_task_dir(root).steps]
    assert modes == [("shared", True), ("separate", False)]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("<!-- harbor-canary GUID 1 -->\n# CANARY x\n\n\nDo it.\n# canary stays\n", "Do it.\n# canary stays\n"),
        ("\n\nDo it.", "Do it."),
        ("# A heading\nDo it.", "# A heading\nDo it."),
        ("Do it.\r\nNow.\r\n", "Do it.\nNow.\n"),
    ],
)
def test_leading_canary_lines_are_not_shown(make_dir: Any, text: str, seen: str) -> None:
    root = make_dir(files={"instruction.md": None})
    (root / "instruction.md").write_bytes(text.encode())
    assert load_task_dir(root).steps[0].instruction == seen
