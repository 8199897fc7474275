"""Demonstrations against the real environment: the careful clerk is right, every hasty fact costs something."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from envkit import make_async
from envkit.messages import AssistantMessage, ToolCall
from envkit.tasks.office.catalog import TASKS, WORLDS
from examples.tiny.demonstrations import DEMONSTRATIONS, OVERFIT_32, Take, take
from examples.tiny.takes import first_call

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[3]


async def play(task: str, shown: Take) -> float | None:
    env: Any = make_async(f"office/{task}", harness="opencode", harness_options={"prompt": "compact"})
    try:
        await env.reset(seed=0)
        name, arguments = shown.call
        call = ToolCall(id="call_0", name=name, arguments=arguments)
        observation, *_ = await env.step(AssistantMessage(tool_calls=(call,)))
        said = observation.messages[-1]
        assert not said.is_error, said.content
        assert "No matches" not in said.content
        _, reward, *_ = await env.step(AssistantMessage(text=shown.answer))
        return None if reward is None else float(reward)
    finally:
        await env.close()


@pytest.mark.parametrize("task", sorted(OVERFIT_32))
async def test_careful_work_is_right_and_hasty_work_is_not(task: str) -> None:
    best = OVERFIT_32[task].best
    assert await play(task, take(task, random.Random(0), careful=True)) == pytest.approx(best, abs=1e-3)
    hasty = take(task, random.Random(0), care=0.0)
    assert not hasty.right
    reward = await play(task, hasty)
    assert reward is not None
    assert reward < 0.5 * best


def test_takes_differ_and_are_drawn_from_a_seed() -> None:
    for task in OVERFIT_32:
        drawn = [take(task, random.Random(seed)) for seed in range(60)]
        assert drawn == [take(task, random.Random(seed)) for seed in range(60)]
        right = sum(t.right for t in drawn)
        assert 0 < right < 45, f"{task}: {right} of 60 takes are right"
        assert "{" not in drawn[0].answer


def test_the_longer_run_has_the_quickstarts_tasks_and_the_plan_names_all() -> None:
    plan = tomllib.loads((ROOT / "examples" / "overfit-32.toml").read_text())
    assert plan["tasks"]["include"] == [f"office/{task}" for task in OVERFIT_32]
    assert len(OVERFIT_32) == 32
    quickstart = tomllib.loads((ROOT / "examples" / "quickstart.toml").read_text())
    assert quickstart["tasks"]["include"] == [f"office/{task}" for task in DEMONSTRATIONS]
    # The quickstart's weights are shipped, and what is measured on the evaluation split has to mean something.
    assert {WORLDS[TASKS[task].world].split for task in DEMONSTRATIONS} == {"train"}


def test_a_fact_in_a_call_is_filled_in_and_the_look_stays_open() -> None:
    shown = OVERFIT_32["kade-hearing-event"]
    (look,) = shown.looks
    right = take("kade-hearing-event", random.Random(0), careful=True)
    assert right.call == first_call(shown, look)
    assert "LOCATION:Room Erasmus" in right.call[1]["command"]
    assert "{room}" in look.call[1]["command"]
    assert right.look is look
    assert "Room Maas" in take("kade-hearing-event", random.Random(0), care=0.0).call[1]["command"]
