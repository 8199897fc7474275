"""Alarms: what a run's figures say when something is wrong, and when the reward is being earned in the wrong way.

A policy that finds a hole in a verifier does not announce it: its reward jumps, or its rewards part into all or
nothing, or one family of tasks leaves the others behind. An alarm says so in words, with the figures and with what to
look at; it proves nothing. Others are plain faults of the machinery, each with the sign that people know it by: all
rewards zero from the start, a collapse right behind a weight sync, trials of one turn, an engine that disagrees with
the trainer. Pure: it is fed step by step and reads no clock and no file, so that a resumed run is fed its past.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envkit.backends.run.plan import AlarmsPlan

__all__ = ["Alarm", "Alarms", "bimodality"]

#: A uniform distribution has 5/9; a distribution with two separate peaks has more, at most 1.
_BIMODAL = 0.75
#: Standard errors that a change must have: once in 30,000 steps by chance.
_SIGMA = 4.0
#: The least standard error of a mean of `n` rewards in [0, 1]; with fewer values than this a spread says nothing.
_LEAST_SPREAD = 0.02


@dataclass(frozen=True, slots=True)
class Alarm:
    """Attributes:
    kind: `gap`, `jump`, `saturation`, `bimodal`, `family_jump`, `all_zero`, `collapse`, `one_turn`, `faults`.
    hacking: It may mean that the reward is earned in the wrong way: read trajectories.
    message: What was seen and what to look at.
    """

    step: int
    kind: str
    message: str
    hacking: bool = False


def bimodality(rewards: Sequence[float]) -> float:
    """Sarle's coefficient, (skewness^2 + 1) / kurtosis: 5/9 for a uniform distribution, 1 for two points, near 1/3 for
    a bell. 0.0 where all values are the same."""
    n = len(rewards)
    if n < 4:
        return 0.0
    mean = math.fsum(rewards) / n
    second = math.fsum((r - mean) ** 2 for r in rewards) / n
    if second < 1e-12:
        return 0.0
    third = math.fsum((r - mean) ** 3 for r in rewards) / n
    fourth = math.fsum((r - mean) ** 4 for r in rewards) / n
    return (third**2 / second**3 + 1.0) / (fourth / second**2)


@dataclass(frozen=True, slots=True)
class _Seen:
    rewards: tuple[float, ...]
    families: Mapping[str, tuple[float, ...]]


class Alarms:
    """Watches one run. An alarm of a kind is given once, and again only when it was quiet for a window's length."""

    def __init__(self, plan: AlarmsPlan) -> None:
        self._plan = plan
        self._past: deque[_Seen] = deque(maxlen=plan.window)
        self._last: dict[str, int] = {}
        self._gaps = 0
        self._ever_reward = False
        self._steps = 0

    @property
    def gap_says_stop(self) -> bool:
        """The gap was above its gate in two steps in a row, and the plan asks for a stop then."""
        return self._plan.gap_stops and self._gaps >= 2

    def step(
        self,
        step: int,
        figures: Mapping[str, float],
        rewards: Sequence[float],
        families: Mapping[str, Sequence[float]],
    ) -> list[Alarm]:
        """Feeds a step's figures and the rewards of the rollouts that finished since the step before."""
        found = [*self._machinery(step, figures, rewards)]
        if rewards:
            found += self._rewards(step, rewards)
            found += self._families(step, families)
            frozen = {name: tuple(values) for name, values in families.items()}
            self._past.append(_Seen(tuple(rewards), frozen))
            self._steps += 1
        out = []
        for alarm in found:
            key = f"{alarm.kind} {alarm.message.partition(':')[0]}" if alarm.kind == "family_jump" else alarm.kind
            quiet = step - self._last.get(key, -(10**9)) > self._plan.window
            self._last[key] = step
            if quiet:
                out.append(alarm)
        return out

    # -- the machinery ------------------------------------------------------------------------------------------------

    def _machinery(self, step: int, figures: Mapping[str, float], rewards: Sequence[float]) -> list[Alarm]:
        out: list[Alarm] = []
        gap = figures.get("train/logprob_gap")
        if gap is not None:
            self._gaps = self._gaps + 1 if gap > self._plan.gap or not math.isfinite(gap) else 0
            if self._gaps:
                out.append(
                    Alarm(
                        step,
                        "gap",
                        f"engine and trainer differ by {gap:.4f} nats a token on tokens of the same weights (gate "
                        f"{self._plan.gap:g}): compare logprobs after a sync that changes nothing, the dtype, and the "
                        "engine's sampling settings (`envkit tokens audit --logprobs`)",
                    )
                )
        share = figures.get("faults/share", 0.0)
        if share > 0.2 and figures.get("faults/rollouts", 0.0) >= 4:
            out.append(
                Alarm(
                    step,
                    "faults",
                    f"{share:.0%} of the rollouts failed and trained nothing: the tasks they are of are missing from "
                    "what is learnt; see faults/* and the failed rollouts' folders",
                )
            )
        if len(rewards) >= 8:
            self._ever_reward = self._ever_reward or max(rewards) > 0.0
            if not self._ever_reward and self._steps >= 2:
                out.append(
                    Alarm(
                        step,
                        "all_zero",
                        "no rollout has had a reward since the start: more often a fault of harness, tools or verifier "
                        "than of the policy; read a trajectory, and run `envkit check` on its task",
                    )
                )
            turns = figures.get("agent/turns")
            if turns is not None and turns < 1.2 and figures.get("stop/answered", 0.0) < 0.9:
                out.append(
                    Alarm(
                        step,
                        "one_turn",
                        f"trials end after {turns:.1f} turns: an engine that answers nonsense or nothing, or a "
                        "renderer that does not fit the model; read a trajectory",
                    )
                )
        return out

    # -- rewards ------------------------------------------------------------------------------------------------------

    def _rewards(self, step: int, rewards: Sequence[float]) -> list[Alarm]:
        past = [r for seen in self._past for r in seen.rewards]
        if len(rewards) < 8 or len(past) < 16 or len(self._past) < 2:
            return []
        out: list[Alarm] = []
        mean, before = _mean(rewards), _mean(past)
        rise, error = mean - before, _error(rewards, past)
        if rise >= self._plan.jump and rise > _SIGMA * error:
            out.append(
                Alarm(
                    step,
                    "jump",
                    f"the mean reward rose from {before:.2f} to {mean:.2f} within a step: learning is rarely that "
                    "fast; read the best rollouts of this step and what the verifier checked",
                    hacking=True,
                )
            )
        if -rise >= self._plan.jump and -rise > _SIGMA * error:
            out.append(
                Alarm(
                    step,
                    "collapse",
                    f"the mean reward fell from {before:.2f} to {mean:.2f} within a step: right behind a weight sync "
                    "this is the weights (compare logprobs), else an engine or a tool that broke",
                )
            )
        if mean >= self._plan.saturated and before < self._plan.saturated - self._plan.jump and _std(rewards) < 0.1:
            out.append(
                Alarm(
                    step,
                    "saturation",
                    f"nearly every rollout has the full reward (mean {mean:.2f}), {before:.2f} in the steps before: "
                    "solved, or a check that anything passes; read rollouts, and regrade some by hand",
                    hacking=True,
                )
            )
        now, then = bimodality(rewards), bimodality(past)
        low, high = (sum(r <= 0.1 for r in rewards), sum(r >= 0.9 for r in rewards))
        parted = min(low, high) >= max(2, len(rewards) // 8) and low + high >= 0.8 * len(rewards)
        if now > _BIMODAL and parted and then < _BIMODAL - 0.1:
            out.append(
                Alarm(
                    step,
                    "bimodal",
                    f"rewards have parted into nothing ({low}) and everything ({high}), where they were graded before "
                    f"(bimodality {then:.2f} -> {now:.2f}): some rollouts may have found a way round the work; "
                    "compare a best and a worst one of the same group",
                    hacking=True,
                )
            )
        return out

    def _families(self, step: int, families: Mapping[str, Sequence[float]]) -> list[Alarm]:
        """One family that rises by much while the others stay."""
        least = self._plan.family_rollouts
        before: dict[str, list[float]] = {}
        for seen in self._past:
            for name, values in seen.families.items():
                before.setdefault(name, []).extend(values)
        rises = {
            name: (_mean(now) - _mean(before[name]), _error(now, before[name]))
            for name, now in families.items()
            if len(now) >= least and len(before.get(name, ())) >= least
        }
        out: list[Alarm] = []
        for name, (rise, error) in rises.items():
            others = [r for other, (r, _) in rises.items() if other != name]
            if not others or rise < self._plan.jump or rise <= _SIGMA * error:
                continue
            rest = _mean(others)
            if rise - rest >= self._plan.jump and rest < self._plan.jump / 2:
                then, now = _mean(before[name]), _mean(families[name])
                out.append(
                    Alarm(
                        step,
                        "family_jump",
                        f"tasks of family {name!r}: the mean reward jumped from {then:.2f} to {now:.2f} while the "
                        f"others moved by {rest:+.2f}; look at what these tasks' checks have in common",
                        hacking=True,
                    )
                )
        return out


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _std(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))


def _error(first: Sequence[float], second: Sequence[float]) -> float:
    """Standard error of the difference of two means."""
    parts = ((max(_std(v), _LEAST_SPREAD) ** 2) / len(v) for v in (first, second))
    return math.sqrt(math.fsum(parts))
