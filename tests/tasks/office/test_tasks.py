"""Tasks: read strictly, solved by their solutions in a real sandbox, worth nothing untouched, lost by hasty work."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from envkit.task import load_task_dir
from envkit.tasks.office import OfficePack
from envkit.tasks.office.catalog import TASKS, WORLDS

#: One task of each world, together of every family and kind of file; the slow tests take them all.
SAMPLE = ("steerco-deck-refresh", "fjord-budget-postings", "nda-status-post", "compliance-certificate-fix")
MANY = [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.slow) for name in sorted(TASKS)]


def _job(name: str) -> Any:
    module = importlib.import_module(f"envkit.tasks.office.jobs.{WORLDS[TASKS[name].world].module}")
    return module.jobs()[name]


def test_every_task_has_a_job_and_every_job_is_listed() -> None:
    for world, entry in WORLDS.items():
        jobs = importlib.import_module(f"envkit.tasks.office.jobs.{entry.module}").jobs()
        assert sorted(jobs) == sorted(name for name, task in TASKS.items() if task.world == world)


@pytest.mark.parametrize("name", MANY)
def test_a_task_is_read_strictly_and_says_what_it_is(name: str) -> None:
    task = OfficePack().load(name)
    assert task.id == f"office/{name}"
    assert (task.metadata.world, task.metadata.split) == (TASKS[name].world, WORLDS[TASKS[name].world].split)
    assert load_task_dir(task.dir).config == task.config
    assert 100 <= len(task.steps[0].instruction) <= 2400
    assert (task.dir / "tests/test.sh").stat().st_mode & 0o111
    assert (task.dir / "solution/solve.sh").stat().st_mode & 0o111


@pytest.mark.parametrize("name", MANY)
async def test_the_solution_scores_one_in_a_sandbox(desk: Any, name: str) -> None:
    verdict = await desk.in_a_sandbox(name)
    assert verdict.reward == 1.0, [c for c in verdict.criteria if c.score != 1.0]


@pytest.mark.parametrize("name", MANY)
def test_doing_nothing_is_worth_nothing(desk: Any, name: str) -> None:
    assert desk.judge(name, desk.only_answers(name)).reward == 0.0


@pytest.mark.parametrize("name", sorted(TASKS))
def test_a_task_has_a_few_checks_and_gates_carry_no_weight(name: str) -> None:
    checks = _job(name).checks
    counted = [check for check in checks if check["weight"] > 0]
    assert 2 <= len(counted) <= 7
    assert all(check["weight"] == 0 for check in checks if check.get("gate"))


ANSWERS = [name for name in sorted(TASKS) if TASKS[name].family == "answer"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_the_scripted_answer_is_right_and_the_hasty_one_loses_the_main_point(desk: Any, name: str) -> None:
    job = _job(name)
    assert job.scripted
    assert job.wrong
    assert desk.judge(name, desk.only_answers(name, job.scripted)).reward == 1.0
    verdict = desk.judge(name, desk.only_answers(name, job.wrong))
    heaviest = max(c.weight for c in verdict.criteria)
    assert any(c.score == 0 for c in verdict.criteria if c.weight == heaviest)
    assert verdict.reward is not None
    assert verdict.reward < 0.5


def test_scripted_solutions_play_calls_and_end_with_an_answer() -> None:
    scripted = 0
    for name in sorted(TASKS):
        job = _job(name)
        path = OfficePack().load(name).dir / "solution/opencode.json"
        assert path.exists() == (job.scripted is not None)
        if path.exists():
            script = json.loads(path.read_text())
            assert script["calls"]
            assert script["answer"] == job.scripted
            scripted += 1
    assert scripted >= 12
