"""Against the real Harbor 0.26: it loads what we write, and reads every config as we do, field by field.

Harbor's models are installed from PyPI into an environment of their own (its 100 other dependencies are not needed to
read tasks) and asked through a pipe. `ENVKIT_TEST_HARBOR_PYTHON` names the Python of one that has it already.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envkit.task import StepConfig, TaskConfig, VerifierConfig, harbor_problems, parse_task_toml, write_task_dir
from envkit.task.inherit import effective_agent, effective_verifier
from envkit.task.toml_write import dump_toml

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]

Ask = Callable[[dict[str, Any]], dict[str, Any]]

SERVER = """
import json, sys, warnings
warnings.simplefilter("ignore")
from harbor.models.task.config import TaskConfig, VerifierEnvironmentMode
from harbor.models.task.task import Task
from harbor.models.task.verifier_mode import (
    resolve_effective_verifier_env_config, resolve_step_verifier_mode, resolve_task_verifier_mode)
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, VerifierConfig
from harbor.trial.network_policy import resolve_trial_network_plan

def effective(config):
    for step in config.steps or [None]:
        mode = resolve_step_verifier_mode(config, step) if step else resolve_task_verifier_mode(config)
        environment = resolve_effective_verifier_env_config(config, step)
        plan = resolve_trial_network_plan(
            config, AgentConfig(), EnvironmentConfig(), VerifierConfig(), step, verifier_mode=mode)
        yield {
            "mode": mode.value,
            "environment": environment.model_dump(mode="json") if environment else None,
            "agent_policy": plan.agent_phase.model_dump(mode="json"),
            "verifier_policy": plan.verifier_phase.model_dump(mode="json"),
            "verifier_timeout": (step or config).verifier.timeout_sec,
        }

for line in sys.stdin:
    request = json.loads(line)
    try:
        if "toml" in request:
            config = TaskConfig.model_validate_toml(request["toml"])
            answer = {"config": config.model_dump(mode="json"), "effective": list(effective(config))}
        else:
            task = Task(request["dir"])
            steps = [task.step_instruction(s.name) for s in task.config.steps or []] or [task.instruction]
            answer = {"valid": Task.is_valid_dir(request["dir"]), "name": task.name, "instructions": steps,
                      "config": task.config.model_dump(mode="json")}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module")
def ask(harbor_python: str) -> Iterator[Ask]:
    with subprocess.Popen(
        [harbor_python, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def call(request: dict[str, Any]) -> dict[str, Any]:
            print(json.dumps(request), file=server.stdin, flush=True)
            answer: dict[str, Any] = json.loads(server.stdout.readline())  # type: ignore[union-attr]
            return answer

        yield call
        server.stdin.close()
        server.wait(10)


def _as_harbor(config: TaskConfig) -> dict[str, Any]:
    """Our model in Harbor's form: its defaults where ours says "not stated", free metadata as it is."""
    data = config.model_dump(mode="json")
    data["metadata"] = config.model_dump(mode="json", exclude_unset=True).get("metadata", {})
    machines = [data["environment"]]
    for owner in (data, *(data["steps"] or [])):
        if owner["verifier"]["timeout_sec"] is None:
            owner["verifier"]["timeout_sec"] = 600.0
        machines.append(owner["verifier"]["environment"])
    for machine in machines:
        _without_empty_headers(machine)
    return data


def _without_empty_headers(machine: dict[str, Any] | None) -> None:
    for server in (machine or {}).get("mcp_servers", []):
        if not server["headers"]:
            del server["headers"]


@given(data=st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_harbor_reads_generated_configs_as_we_do(
    ask: Ask, task_tables: st.SearchStrategy[dict[str, Any]], data: st.DataObject
) -> None:
    text = dump_toml(data.draw(task_tables))
    config = parse_task_toml(text)

    assert ask({"toml": text})["config"] == _as_harbor(config)
    assert ask({"toml": config.to_toml()})["config"] == _as_harbor(config)


@given(data=st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_steps_inherit_as_harbor_resolves_them(
    ask: Ask, task_tables: st.SearchStrategy[dict[str, Any]], data: st.DataObject
) -> None:
    text = dump_toml(data.draw(task_tables))
    config = parse_task_toml(text)
    theirs = ask({"toml": text})["effective"]
    for step, expected in zip(config.steps or [None], theirs, strict=True):  # type: ignore[list-item]
        agent, verifier = effective_agent(config, step), effective_verifier(config, step, harbor_compat=True)
        environment = verifier.environment.model_dump(mode="json") if verifier.environment else None
        _without_empty_headers(environment)
        assert {
            "mode": verifier.environment_mode,
            "environment": environment,
            "agent_policy": {"network_mode": agent.network_mode, "allowed_hosts": agent.allowed_hosts or []},
            "verifier_policy": {"network_mode": verifier.network_mode, "allowed_hosts": verifier.allowed_hosts or []},
            "verifier_timeout": verifier.timeout_sec,
        } == expected


def _rules() -> list[tuple[str, str]]:
    spec = importlib.util.spec_from_file_location("envkit_test_read_cases", Path(__file__).with_name("test_read.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rules: list[tuple[str, str]] = module.RULES
    return rules


@pytest.mark.parametrize("toml", [toml for toml, _ in _rules()])
def test_a_rule_we_never_relax_is_harbors_too(ask: Ask, toml: str) -> None:
    assert "error" in ask({"toml": toml}), "Harbor reads this; lenient reading must as well"


def test_harbor_ignores_the_typo_that_we_refuse(ask: Ask) -> None:
    assert ask({"toml": "[verifier]\ntimeout_secs = 5\n"})["config"]["verifier"]["timeout_sec"] == 600


def test_harbor_loads_the_single_step_directory_we_write(ask: Ask, tmp_path: Path) -> None:
    config = TaskConfig.model_validate(
        {
            "task": {"name": "acme/q3-memo", "keywords": ["memo"]},
            "metadata": {"envkit": {"world": "worlds/acme", "difficulty": "hard"}, "free": {"x": [1, {"y": 2}]}},
            "agent": {"timeout_sec": 900},
            "verifier": {"timeout_sec": 120, "env": {"KEY": "${KEY:-x}"}},
            "environment": {"memory_mb": 512, "healthcheck": {"command": "true"}},
        }
    )
    files = {
        "instruction.md": "<!-- harbor-canary GUID 1 -->\n\nWrite the memo.\n", "tests/test.sh": "exit 0\n",
        "environment/Dockerfile": "FROM debian\n", "solution/solve.sh": "true\n",
    }  # fmt: skip
    task = write_task_dir(tmp_path / "q3-memo", config, files)

    theirs = ask({"dir": str(task.dir)})

    assert harbor_problems(task) == []
    assert (theirs["valid"], theirs["name"]) == (True, "acme/q3-memo")
    assert theirs["instructions"] == [task.steps[0].instruction] == ["Write the memo.\n"]
    assert theirs["config"] == _as_harbor(config)


def test_harbor_loads_the_multi_step_directory_we_write(ask: Ask, tmp_path: Path) -> None:
    config = TaskConfig(
        multi_step_reward_strategy="final",
        artifacts=["/filesystem/out"],
        steps=[
            StepConfig(name="draft", min_reward=0.5),
            StepConfig(name="final", verifier=VerifierConfig(environment_mode="separate")),
        ],
    )
    files = {
        "steps/draft/instruction.md": "Draft.\n",
        "steps/draft/workdir/setup.sh": "true\n",
        "steps/final/instruction.md": "Finish.\n",
        "steps/final/tests/test.sh": "exit 0\n",
        "tests/test.sh": "exit 0\n",
        "environment/Dockerfile": "FROM debian\n",
    }
    task = write_task_dir(tmp_path / "memo", config, files)

    theirs = ask({"dir": str(task.dir)})

    assert harbor_problems(task) == []
    assert (theirs["valid"], theirs["instructions"]) == (True, ["Draft.\n", "Finish.\n"])
    assert theirs["config"] == _as_harbor(config)


@pytest.mark.parametrize("lacking", ["tests/test.sh", "environment/Dockerfile"])
def test_what_harbor_refuses_harbor_problems_names(ask: Ask, tmp_path: Path, lacking: str) -> None:
    files = {"instruction.md": "x", "tests/test.sh": "true\n", "environment/Dockerfile": "FROM debian\n"}
    del files[lacking]
    task = write_task_dir(tmp_path / "q", TaskConfig(), files)
    theirs = ask({"dir": str(task.dir)})
    assert len(harbor_problems(task)) == 1
    assert theirs.get("valid") is not True
