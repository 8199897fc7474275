"""What a job has spent, and how much it may: sums over every attempt, also those that failed and were made again.

Whoever runs a job under a budget adds each attempt's usage to `Spent` and asks `stop`; from the moment that it gives a
reason nothing new starts. A cost that nobody states is no cost of nothing: with a limit on the cost, an attempt that
used tokens and says no price is a reason to stop. Used by jobs and `envkit eval`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from envkit.trial.result import UsageTotals

__all__ = ["Budget", "Spent"]


@dataclass(frozen=True, slots=True)
class Budget:
    """What all attempts of a job may come to; what runs when it is reached is finished, so that a job may go beyond it
    by what was running.

    Attributes:
        cost_usd, tokens: None for no limit; tokens are those of prompts and those sampled.

    Raises:
        ValueError: A limit is no number above 0.
    """

    cost_usd: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for value in (self.cost_usd, self.tokens):
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"a budget must be a number above 0, found {value:g}")


@dataclass(slots=True)
class Spent:
    """Sums over attempts.

    Attributes:
        unpriced: Attempts that used tokens and stated no cost.
        silent: Attempts that stated neither; the oracle's are among them, and those that were killed.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    attempts: int = 0
    unpriced: int = 0
    silent: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def priced(self) -> bool:
        """Whether anybody stated a cost."""
        return self.attempts > self.unpriced + self.silent

    def add(self, usage: UsageTotals) -> None:
        """Counts an attempt."""
        tokens = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
        self.attempts += 1
        self.prompt_tokens += usage.prompt_tokens or 0
        self.completion_tokens += usage.completion_tokens or 0
        self.cost_usd += usage.cost_usd or 0.0
        if usage.cost_usd is None:
            self.unpriced += tokens > 0
            self.silent += not tokens

    def stop(self, budget: Budget) -> str | None:
        """Why nothing more may start; None while there is no reason."""
        if budget.cost_usd is not None and self.unpriced:
            return (
                f"{self.unpriced} attempts used tokens and state no cost, so that a budget of {budget.cost_usd:g} USD "
                "can't be kept: give the policy its prices in USD per million tokens, e.g. --policy "
                "'chat:model=M,prices={input=0.5,output=2}', or bound the tokens"
            )
        if budget.cost_usd is not None and self.cost_usd >= budget.cost_usd:
            return f"the budget of {budget.cost_usd:g} USD is spent ({self.cost_usd:.4f} USD)"
        if budget.tokens is not None and self.tokens >= budget.tokens:
            return f"the budget of {budget.tokens:,} tokens is spent ({self.tokens:,} tokens)"
        return None

    def text(self) -> str:
        """One line for people."""
        parts = [f"{self.prompt_tokens:,} prompt and {self.completion_tokens:,} sampled tokens"] if self.tokens else []
        parts += [f"{self.cost_usd:.4f} USD"] if self.priced else []
        parts += [f"no cost stated by {self.unpriced} of {self.attempts} attempts"] if self.unpriced else []
        return ", ".join(parts)
