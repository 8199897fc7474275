"""Budgets: nothing new starts once they are reached, what was not started is named, and a resume goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from trial_fixtures import run_job, spec_for

from envkit.failure import FailureKind
from envkit.trial.budget import Budget, Spent
from envkit.trial.result import UsageTotals

MakeTask = Callable[..., Path]


def test_a_budget_is_reached_by_cost_or_by_tokens() -> None:
    spent = Spent()
    spent.add(UsageTotals(prompt_tokens=900, completion_tokens=100, cost_usd=0.25))
    spent.add(UsageTotals())
    assert spent.stop(Budget()) is None
    assert spent.stop(Budget(cost_usd=0.26, tokens=1001)) is None
    assert "budget of 0.25 USD" in str(spent.stop(Budget(cost_usd=0.25)))
    assert "1,000 tokens" in str(spent.stop(Budget(tokens=1000)))
    assert spent.text() == "900 prompt and 100 sampled tokens, 0.2500 USD"
    assert Spent(attempts=1, silent=1).text() == ""


def test_tokens_without_a_price_cannot_be_kept_within_a_cost() -> None:
    spent = Spent()
    spent.add(UsageTotals(prompt_tokens=10, cost_usd=0.001))
    spent.add(UsageTotals(prompt_tokens=10))
    assert "state no cost" in str(spent.stop(Budget(cost_usd=5.0)))
    assert spent.stop(Budget(tokens=100)) is None
    assert "no cost stated by 1 of 2 attempts" in spent.text()


@pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan")])
def test_what_is_no_budget_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Budget(cost_usd=value)


@pytest.mark.slow
async def test_a_job_stops_at_its_budget_and_goes_on_with_more(tmp_path: Path, make_task: MakeTask) -> None:
    task, usage = make_task(), {"prompt_tokens": 80, "completion_tokens": 20, "cost_usd": 0.5}
    specs = [spec_for(task, "metered:Metered", usage, sample=n) for n in range(3)]

    async def run(budget: Budget) -> tuple[int, int, str | None, int]:
        found = await run_job(tmp_path / "run", specs, concurrency=1, budget=budget)
        assert found.spent.tokens == 100 * len(found.results)
        assert found.spent.cost_usd == 0.5 * len(found.results)
        return len(found.results), len(found.missing), found.over_budget, found.exit_code

    first = await run(Budget(cost_usd=0.4))
    assert first[:2] == (1, 2)
    assert "0.4 USD" in str(first[2])
    assert first[3] == 1, "a run that is not whole is told by its exit code"
    assert await run(Budget(cost_usd=0.5)) == (1, 2, "the budget of 0.5 USD is spent (0.5000 USD)", 1)
    assert (await run(Budget(tokens=101)))[:2] == (2, 1)
    assert (await run(Budget(tokens=100_000)))[:3] == (3, 0, None)


@pytest.mark.slow
async def test_attempts_that_failed_count_and_are_not_made_again(tmp_path: Path, make_task: MakeTask) -> None:
    spec = spec_for(make_task(), "metered:Metered", {"fails": True, "prompt_tokens": 60, "cost_usd": 0.1})
    always = dict.fromkeys(FailureKind, 5)
    found = await run_job(tmp_path / "run", [spec], retries=always, budget=Budget(tokens=100))
    assert found.spent.prompt_tokens == 120, "two attempts, of which the second reached the budget"
    assert found.missing == (spec.trial_id,), "its retries are still owed"
    again = await run_job(tmp_path / "run", [spec], budget=Budget(tokens=150))
    assert again.spent.prompt_tokens == 180
    assert [len(result.attempts) for result in again.results] == [3]
