"""Choosing among a run's trials: filters, facets, order and pages, over the rows of an index. Pure.

A facet counts, for each value, the trials that would be left if it were chosen: every filter holds but the facet's own.
Used by the viewer's list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envkit.view.index import Row, RunIndex

__all__ = ["FACETS", "SORTS", "Query", "Selection", "select"]

#: Facets, each with the field of a row that it is about.
FACETS = {
    "status": "status",
    "reward": "",
    "failure": "failure",
    "stop": "stop",
    "policy": "policy",
    "model": "model",
    "harness": "harness",
    "task": "task",
}
SORTS = (
    "finished", "task", "reward", "turns", "tokens", "seconds", "cost", "status", "policy", "failure", "failed_criteria"
)  # fmt: skip
_BINS = 10


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked for.

    Attributes:
        chosen: By facet, the values of which a trial must have one. `reward` knows `full`, `partial`, `zero`, `none`.
        text: Words that must all occur, in id, task, failure, answer or failed criteria.
        low, high: Bounds of the reward, inclusive.
        sort: One of `SORTS`; with `down`, the greatest first. Trials without the value come last either way.
    """

    chosen: Mapping[str, frozenset[str]] = field(default_factory=dict)
    text: str = ""
    low: float | None = None
    high: float | None = None
    sort: str = "finished"
    down: bool = True


@dataclass(frozen=True, slots=True)
class Selection:
    """The trials chosen, in order, with counts per facet and what they come to."""

    rows: Sequence[Row]
    facets: Mapping[str, Mapping[str, int]]
    summary: Mapping[str, Any]


def reward_class(row: Row) -> str:
    """Which of the four classes of rewards a trial belongs to."""
    reward = row.get("reward")
    if reward is None:
        return "none"
    return "full" if reward >= 1 else "zero" if reward <= 0 else "partial"


def _value(row: Row, facet: str) -> str:
    if facet == "reward":
        return reward_class(row)
    value = row.get(FACETS[facet])
    return "-" if value is None else str(value)


def select(index: RunIndex, query: Query) -> Selection:
    """Applies a query to the rows of an index."""
    words = query.text.lower().split()
    counts: dict[str, Counter[str]] = {facet: Counter() for facet in FACETS}
    chosen = {facet: values for facet, values in query.chosen.items() if values and facet in FACETS}
    kept: list[Row] = []
    rows = index.rows()
    if not words and not chosen and query.low is None and query.high is None:
        # What a run is opened with, made cheap: thousands of trials are counted before anything is painted.
        for facet, name in FACETS.items():
            found = Counter(map(reward_class, rows) if facet == "reward" else (row.get(name) for row in rows))
            counts[facet] = Counter({"-" if value is None else str(value): n for value, n in found.items()})
        kept, rows = rows, []
    for row in rows:
        if words and not _has(index, row, words):
            continue
        if not _within(row, query):
            continue
        failing = [facet for facet, values in chosen.items() if _value(row, facet) not in values]
        if len(failing) > 1:
            continue
        for facet in failing or FACETS:
            counts[facet][_value(row, facet)] += 1
        if not failing:
            kept.append(row)
    return Selection(
        rows=_sorted(kept, query),
        facets={facet: dict(count.most_common()) for facet, count in counts.items()},
        summary=summary(kept),
    )


def _has(index: RunIndex, row: Row, words: Iterable[str]) -> bool:
    shown = " ".join(str(row.get(key) or "") for key in ("id", "task", "failure", "stop", "policy", "model")).lower()
    deep = index.text(row["id"])
    return all(word in shown or word in deep for word in words)


def _within(row: Row, query: Query) -> bool:
    if query.low is None and query.high is None:
        return True
    reward = row.get("reward")
    if reward is None:
        return False
    return (query.low is None or reward >= query.low) and (query.high is None or reward <= query.high)


def _sorted(rows: list[Row], query: Query) -> list[Row]:
    key = query.sort if query.sort in SORTS else "finished"
    known = [row for row in rows if row.get(key) is not None]
    unknown = [row for row in rows if row.get(key) is None]
    known.sort(key=lambda row: row["id"])
    known.sort(key=lambda row: row[key], reverse=query.down)
    # Without an end, a trial runs: with the newest first it is the newest.
    return unknown + known if key == "finished" and query.down else known + unknown


def summary(rows: Iterable[Row]) -> dict[str, Any]:
    """Counts and means over trials: the mean reward of those that have one, beside how many don't."""
    status: Counter[str | None] = Counter()
    rewards: list[float] = []
    bins = [0] * _BINS
    turns: list[float] = []
    tasks: set[str | None] = set()
    cost, tokens, priced = 0.0, 0, False
    for row in rows:
        state, reward = row.get("status"), row.get("reward")
        status[state] += 1
        tasks.add(row.get("task"))
        if reward is not None:
            rewards.append(reward)
        if reward is not None and (count := row.get("turns")) is not None:
            turns.append(count)
        if (price := row.get("cost")) is not None:
            cost, priced = cost + price, True
        if used := row.get("tokens"):
            tokens += int(used)
    for reward in rewards:
        bins[0 if reward <= 0 else min(_BINS - 1, int(reward * _BINS))] += 1
    return {
        "trials": sum(status.values()),
        "tasks": len(tasks),
        "status": {str(state): n for state, n in status.items()},
        "mean": sum(rewards) / len(rewards) if rewards else None,
        "perfect": sum(r >= 1 for r in rewards) / len(rewards) if rewards else None,
        "bins": bins,
        "turns": sum(turns) / len(turns) if turns else None,
        "tokens": tokens or None,
        "cost": cost if priced else None,
    }
