"""Demonstrations against the real environment: the careful clerk is right, every hasty fact costs something."""

from __future__ import annotations

import random
from typing import Any

import pytest

from envkit import make_async
from envkit.messages import AssistantMessage, ToolCall
from examples.tiny.demonstrations import DEMONSTRATIONS, OVERFIT_32, Take, take

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


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
