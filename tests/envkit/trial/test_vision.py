"""A harness learns from its trial whether the policy's model is shown images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from trial_fixtures import run_one, spec_for

from envkit.trial.result import Plugin, Status


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "status"), [("seeing:Seeing", "scored"), ("sabotage:Commands", "failed")])
async def test_what_the_policy_says_of_its_model_reaches_the_harness(
    tmp_path: Path, make_task: Callable[..., Path], policy: str, status: str
) -> None:
    spec = spec_for(make_task(), policy, {"commands": []}, harness=Plugin(name="seeing:ForTheSeeing"))
    result = await run_one(tmp_path / "run", spec)
    assert result.status is Status(status), result.failure
