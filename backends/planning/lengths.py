"""How long trajectories are: measured from a run's folder, or given by a few means.

What the arithmetic needs is a distribution, not a mean: attention costs grow with the square of a length, and rooms are
filled by the long ones. A measured one holds the very trajectories of the run; a given one is lognormal with the given
mean, cut off at the context (the published ablation gives means only). Used by the estimate and the simulation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from envkit.failure import UserError

__all__ = ["PUBLISHED", "Lengths", "given", "measured"]

#: Points that a given distribution is made of.
_POINTS = 64
#: Days: more than any turn.
_MOST_TOOL_S = 1e6
#: Spread of the logarithm where only a mean is known: with it, one trajectory in seven is longer than twice the median.
SIGMA = 0.65


@dataclass(frozen=True, slots=True)
class Lengths:
    """Trajectories.

    Attributes:
        tokens: Final context lengths, each as likely as any other.
        turns: Mean number of sampled messages.
        sampled: Mean number of sampled tokens, over all turns.
        tool_s: Mean time of one turn's tools; None where nobody measured.
        start_s, verify_s: Means of what comes before the first turn and after the last; None likewise.
        source: Where this is from, in words.
    """

    tokens: tuple[float, ...]
    turns: float
    sampled: float
    source: str
    tool_s: float | None = None
    start_s: float | None = None
    verify_s: float | None = None

    @property
    def mean(self) -> float:
        """Mean final length in tokens."""
        return sum(self.tokens) / len(self.tokens)

    @property
    def position(self) -> float:
        """Tokens that a token of a finished trajectory has before it, on average: what attention in training costs."""
        return sum(n * n for n in self.tokens) / (2.0 * sum(self.tokens))

    @property
    def resident(self) -> float:
        """Tokens that a running trajectory holds, averaged over its life: about half of its end, for it grows."""
        return self.mean / 2.0

    def quantile(self, share: float) -> float:
        """The length that this share of trajectories stays below."""
        ordered = sorted(self.tokens)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def cut(self, limit: int) -> Lengths:
        """As they would be under a shorter context: what is longer ends at it."""
        tokens = tuple(min(float(limit), n) for n in self.tokens)
        share = sum(tokens) / sum(self.tokens)
        if share == 1.0:
            return self
        return Lengths(
            tokens, self.turns * share, self.sampled * share, f"{self.source}, cut at {limit:,}", self.tool_s,
            self.start_s, self.verify_s,
        )  # fmt: skip


def given(
    mean_tokens: float,
    turns: float,
    turn_tokens: float,
    *,
    context: int | None = None,
    source: str = "given",
    tool_s: float | None = None,
) -> Lengths:
    """A lognormal with this mean.

    Args:
        mean_tokens: Mean final length. At the context or beyond it, all are as long as the context.
        turns: Mean turns.
        turn_tokens: Sampled tokens of a turn.
        context: The longest that is possible.

    Raises:
        UserError: A number is not positive, more is sampled than there is, or tools take no time that there is.
    """
    if not (mean_tokens > 0 and turns >= 1 and turn_tokens > 0 and math.isfinite(mean_tokens * turns * turn_tokens)):
        raise UserError(
            f"expected a mean length, turns and tokens per turn above 0, found {mean_tokens:g}, {turns:g} and "
            f"{turn_tokens:g}"
        )
    if turns * turn_tokens > mean_tokens:
        raise UserError(
            f"{turns:g} turns of {turn_tokens:g} sampled tokens are {turns * turn_tokens:,.0f}, more than the mean "
            f"length of {mean_tokens:,.0f} that they are part of"
        )
    if tool_s is not None and not 0 <= tool_s <= _MOST_TOOL_S:  # NaN, too
        raise UserError(f"expected the seconds of a turn's tools, 0 to {_MOST_TOOL_S:,.0f}, found {tool_s:g}")
    limit = math.inf if context is None else float(context)
    normal = NormalDist()
    shape = [math.exp(SIGMA * normal.inv_cdf((n + 0.5) / _POINTS)) for n in range(_POINTS)]
    if mean_tokens >= limit:
        return Lengths((limit,), turns, turns * turn_tokens, source, tool_s)
    low, high = 0.0, limit if math.isfinite(limit) else mean_tokens
    while sum(min(limit, high * s) for s in shape) < mean_tokens * _POINTS:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if sum(min(limit, middle * s) for s in shape) < mean_tokens * _POINTS else (low, middle)
        )
    return Lengths(tuple(min(limit, high * s) for s in shape), turns, turns * turn_tokens, source, tool_s)


#: Means of the published ablation: tokens per trajectory, turns, sampled tokens per turn.
PUBLISHED: dict[str, tuple[float, float, float]] = {
    "untrained": (87_703, 16.8, 883),
    "chosen": (101_441, 36.0, 775),
}


def measured(folder: Path) -> Lengths:
    """The trajectories of a run's folder (`envkit eval`, `envkit preflight`, `envkit train`), read one by one.

    Raises:
        UserError: There is no run, or its trials say nothing of tokens (their policy counted none).
    """
    if not (folder / "trials").is_dir():
        raise UserError(f"{folder} holds no run (no folder trials/): expected what `envkit eval` or `train` wrote")
    tokens: list[float] = []
    sums = dict.fromkeys(("turns", "sampled", "tools", "start", "verify"), 0.0)
    timed = read = 0
    for record in _records(folder / "trials"):
        read += 1
        usage = record.get("usage") or {}
        length: Any = usage.get("max_context_tokens")
        sampled: Any = usage.get("completion_tokens")
        turns: Any = record.get("turns")
        if not all(isinstance(number, int | float) and number > 0 for number in (length, sampled, turns)):
            continue
        tokens.append(float(length))
        sums["turns"] += turns
        sums["sampled"] += sampled
        timings = record.get("timings") or {}
        if "agent" in timings:
            timed += 1
            sums["tools"] += max(0.0, timings["agent"] - timings.get("policy", 0.0)) / turns
            sums["start"] += sum(timings.get(name, 0.0) for name in ("load", "world", "start", "setup"))
            sums["verify"] += sum(timings.get(name, 0.0) for name in ("snapshot", "verify", "stop", "artifacts"))
    if not tokens:
        raise UserError(
            f"{folder}: none of {read} trials says how many tokens it took; measure with a policy that counts them "
            "(`chat` or `token`), or give --mean-tokens, --turns and --turn-tokens"
        )
    n = len(tokens)
    return Lengths(
        tuple(tokens),
        turns=sums["turns"] / n,
        sampled=sums["sampled"] / n,
        source=f"{n} trajectories of {folder}",
        tool_s=sums["tools"] / timed if timed else None,
        start_s=sums["start"] / timed if timed else None,
        verify_s=sums["verify"] / timed if timed else None,
    )


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    """The last record of each trial: `ID/result.json`, or of training `vN/GROUP/SLOT/attempt-N/result.json`. At fixed
    depths, since an agent's own files may be called anything. What can't be read says nothing."""
    last: dict[Path, Path] = {}
    for depth in ("*", "*/*/*"):
        for path in folder.glob(f"{depth}/attempt-*/result.json"):
            trial = path.parent.parent
            if trial not in last or _number(path) > _number(last[trial]):
                last[trial] = path
        last |= {path.parent: path for path in folder.glob(f"{depth}/result.json")}
    for trial in sorted(last):
        try:
            record = json.loads(last[trial].read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(record, dict):
            yield record


def _number(path: Path) -> int:
    number = path.parent.name.removeprefix("attempt-")
    return int(number) if number.isdigit() else 0
