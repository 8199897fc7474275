"""The figures of a run, from rollouts and steps: sums first, ratios last.

`Tally` adds up rollouts (of the groups that finished since the last step, or of an evaluation); `figures` turns the
sums into what people read. Means are over trials with a verdict, and the faults stand beside them. Nothing here reads
a clock or a file. Used by `watch` and `evaluate`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envkit import registry
from envkit.backend import Rollout, StepMetrics
from envkit.failure import UserError
from envkit.messages import StopReason

__all__ = ["Labels", "Tally", "labels_of", "pass_at", "trainer_figures"]


@dataclass(frozen=True, slots=True)
class Labels:
    """What a task is counted under: its trade (`metadata.domain`, else its pack) and its family (the first tag)."""

    domain: str
    family: str


def labels_of(tasks: Iterable[str]) -> dict[str, Labels]:
    """Labels by task id. A task that can't be read is labelled by its id's first part; its trials will say more."""
    found: dict[str, Labels] = {}
    for task in tasks:
        pack = task.rstrip("/").split("/")[0 if not task.startswith("/") else -2]
        try:
            metadata = registry.load_task(task).metadata
        except UserError:
            found[task] = Labels(pack, pack)
            continue
        domain = metadata.domain or pack
        found[task] = Labels(domain, metadata.tags[0] if metadata.tags else domain)
    return found


def pass_at(k: int, n: int, solved: int) -> float:
    """The chance that at least one of k trials, drawn from n of which `solved` did, solves the task (unbiased).

    Raises:
        ValueError: k is not in 1..n.
    """
    if not 1 <= k <= n or not 0 <= solved <= n:
        raise ValueError(f"pass@{k} of {solved} in {n} makes no sense")
    return 1.0 - math.comb(n - solved, k) / math.comb(n, k)


class Tally:
    """Sums over groups of rollouts.

    Args:
        labels: By task; a task that is not in it counts under no domain.
        solved_at: The reward from which a rollout counts as solved.
    """

    def __init__(self, labels: Mapping[str, Labels], solved_at: float = 1.0) -> None:
        self._labels = labels
        self._solved_at = solved_at
        self.rewards: list[float] = []
        self.by_task: dict[str, list[float]] = {}
        self._groups: list[list[float]] = []
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._domains: defaultdict[str, list[float]] = defaultdict(list)
        self._families: defaultdict[str, list[float]] = defaultdict(list)
        self._stops: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._turns_max = 0.0
        self._context_max = 0.0

    def add_group(self, rollouts: Sequence[Rollout]) -> None:
        """Adds the rollouts of one prompt."""
        valid = [rollout.reward for rollout in rollouts if rollout.reward is not None]
        if valid:
            self._groups.append(valid)
        for rollout in rollouts:
            self._add(rollout)

    def _add(self, rollout: Rollout) -> None:
        if rollout.reward is None:
            self._failures[str(rollout.failure.kind) if rollout.failure else "unknown"] += 1
            return
        task = rollout.request.task
        self.rewards.append(rollout.reward)
        self.by_task.setdefault(task, []).append(rollout.reward)
        if task in self._labels:
            self._domains[self._labels[task].domain].append(rollout.reward)
            self._families[self._labels[task].family].append(rollout.reward)
        self._stops[str(rollout.stop or StopReason.ANSWERED)] += 1
        for name, value in rollout.metrics.items():
            self._sums[name] += value
        self._sums["rollout_tokens"] += rollout.sampled_tokens
        self._sums["context_tokens"] += rollout.context_tokens
        self._sums["rollout_s"] += rollout.finished_s - rollout.started_s
        self._turns_max = max(self._turns_max, rollout.metrics.get("turns", 0.0))
        self._context_max = max(self._context_max, float(rollout.context_tokens))

    @property
    def groups(self) -> int:
        return len(self._groups)

    @property
    def families(self) -> dict[str, list[float]]:
        return dict(self._families)

    def figures(self) -> StepMetrics:
        """Ratios and means, by name. A figure that nothing was seen of is left out."""
        out: StepMetrics = {"rollouts/scored": float(len(self.rewards)), "rollouts/groups": float(self.groups)}
        failed = sum(self._failures.values())
        out["faults/rollouts"] = float(failed)
        out["faults/share"] = _ratio(failed, failed + len(self.rewards))
        out |= {f"faults/{kind}": float(count) for kind, count in self._failures.items()}
        if not self.rewards:
            return out
        n = len(self.rewards)
        mean = math.fsum(self.rewards) / n
        spread = math.sqrt(math.fsum((r - mean) ** 2 for r in self.rewards) / n)
        out |= {"reward/mean": mean, "reward/std": spread, "reward/max": max(self.rewards)}
        out["reward/within_group_std"] = math.fsum(_std(g) for g in self._groups) / len(self._groups)
        out["reward/zero_variance_share"] = _ratio(sum(max(g) - min(g) <= 1e-6 for g in self._groups), self.groups)
        out |= self._passes()
        out |= {f"domain/{name}/reward": math.fsum(r) / len(r) for name, r in self._domains.items()}
        out |= {f"family/{name}/reward": math.fsum(r) / len(r) for name, r in self._families.items()}
        out |= {f"stop/{name}": count / n for name, count in self._stops.items()}
        return out | self._agent(n)

    def _passes(self) -> StepMetrics:
        """pass@1 and pass@k, each group (prompt) counting once."""
        out: StepMetrics = {}
        solved = [(len(g), sum(r >= self._solved_at for r in g)) for g in self._groups]
        most = max(n for n, _ in solved)
        for k in sorted({1, most, *(2**p for p in range(1, most.bit_length()) if 2**p <= most)}):
            enough = [(n, c) for n, c in solved if n >= k]
            out[f"reward/pass_at_{k}"] = math.fsum(pass_at(k, n, c) for n, c in enough) / len(enough)
        return out

    def _agent(self, n: int) -> StepMetrics:
        sums = self._sums
        turns, calls = sums["turns"], sums["tool_calls"]
        out: StepMetrics = {
            "agent/turns": turns / n,
            "agent/turns_max": self._turns_max,
            "agent/tokens": sums["rollout_tokens"] / n,
            "agent/context_tokens": sums["context_tokens"] / n,
            "agent/context_tokens_max": self._context_max,
            "agent/context_exhausted": self._stops[StopReason.CONTEXT] / n,
            "time/rollout_s": sums["rollout_s"] / n,
        }
        if turns:
            out["agent/tokens_per_turn"] = sums["rollout_tokens"] / turns
            out["agent/tool_calls_per_turn"] = calls / turns
            out["agent/invalid_action_share"] = sums["invalid_actions"] / turns
        if calls:
            out["agent/tool_success"] = 1.0 - min(1.0, sums["tool_errors"] / calls)
            out["agent/code_share"] = sums["code_calls"] / calls
        for name in ("engine_wait_s", "policy_s", "tools_s", "start_s", "open_s", "verify_s", "trial_s"):
            if name in sums:
                out[f"time/{name}"] = sums[name] / n
        return out


def trainer_figures(metrics: Mapping[str, float]) -> StepMetrics:
    """The trainer's sums as ratios, under `train/`; what has a name with a slash (the loop's, the batch's) as it is."""
    out: StepMetrics = {}
    for name, value in metrics.items():
        out[name if "/" in name else f"train/{name}"] = value
    for ratio, above, below in (
        ("train/logprob_gap", "gap_sum", "gap_tokens"),
        ("train/stale_logprob_gap", "stale_gap_sum", "stale_gap_tokens"),
        ("train/entropy", "entropy_sum", "trained_tokens"),
        ("train/log_ratio", "log_ratio_sum", "trained_tokens"),
        ("loop/token_lag_mean", "loop/token_lag_sum", "loop/sampled_tokens"),
        ("loop/kv_used_share", "loop/kv_used_tokens", "loop/kv_capacity_tokens"),
        ("data/padding_share", "data/tokens", "data/slot_tokens"),
    ):
        if metrics.get(below):
            out[ratio] = metrics.get(above, 0.0) / metrics[below]
    if "data/padding_share" in out:
        out["data/padding_share"] = max(0.0, 1.0 - out["data/padding_share"])
    return out


def _ratio(above: float, below: float) -> float:
    return above / below if below else 0.0


def _std(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))


def finite(value: Any) -> float | None:
    """A number as JSON takes it; None for one that is not finite."""
    number = float(value)
    return number if math.isfinite(number) else None
