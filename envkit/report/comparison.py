"""Runs side by side: harness x policy x pack, paired by task, with behaviour beside reward, and how much of a gain made
under one harness shows under another.

A cell is all trials of one policy (with its model) under one harness on one pack, from however many runs. Two cells
are compared over the tasks they share (`evaluation.difference`), never over their means. The share of a gain that
transfers is the gain under another harness over the gain under the first, on the tasks that all four cells share;
its interval is where "gain elsewhere less share x gain here" can't be told from 0 (Fieller), and there is none
while the first gain is a tie. Used by `envkit compare`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from envkit.failure import UserError, did_you_mean
from envkit.messages import StopReason
from envkit.report.clustered import Estimate, estimate
from envkit.report.evaluation import Difference, EvalRow, difference, evaluate_group, task_means
from envkit.report.stored import StoredRun
from envkit.report.summary import group_key
from envkit.report.task_facts import TaskFacts, read_facts
from envkit.trial.conduct import read_conduct
from envkit.trial.result import Status, TrialResult

__all__ = ["Behaviour", "Cell", "Comparison", "Pair", "Transfer", "compare"]

#: Shares of a gain that are looked at for its interval.
_GRID = tuple(step / 20.0 for step in range(-40, 81))


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Behaviour(_Record):
    """How the agent worked, over the finished trials of a cell that left a trajectory.

    Attributes:
        turns: Assistant turns per trial with a verdict.
        tokens_per_turn: Sampled tokens per turn; None where no turn said how many.
        tool_success: The share of tool calls that were not answered by an error.
        code_share: The share of tool calls that ran code of the model's.
        context_exhausted: The share of trials that ended with a full context.
    """

    trials: int
    turns: float | None
    tokens_per_turn: float | None
    tool_success: float | None
    code_share: float | None
    context_exhausted: float | None


class Cell(_Record):
    """One policy under one harness on one pack."""

    policy: str
    harness: str
    pack: str
    row: EvalRow
    behaviour: Behaviour


class Pair(_Record):
    """Two policies under one harness, or one policy under two harnesses, on one pack: `second` less `first`."""

    pack: str
    kind: str
    within: str
    first: str
    second: str
    difference: Difference


class Transfer(_Record):
    """What is left of a gain under another harness.

    Attributes:
        base, trained: The policies; `gain_here` is `trained` less `base` under harness `here`.
        share: `gain_there` over `gain_here`; None where there is no gain here to speak of.
        lower, upper: Its interval; None where it has none, or the end lies beyond -2 or 4.
    """

    pack: str
    base: str
    trained: str
    here: str
    there: str
    tasks: int
    gain_here: Estimate
    gain_there: Estimate
    share: float | None
    lower: float | None = None
    upper: float | None = None
    note: str = ""


class Comparison(_Record):
    """All of it. `notes` say what was left out or could not be read."""

    cells: tuple[Cell, ...]
    pairs: tuple[Pair, ...]
    transfers: tuple[Transfer, ...]
    notes: tuple[str, ...] = ()


def compare(
    folders: Sequence[Path],
    names: Mapping[Path, str] | None = None,
    *,
    base: str | None = None,
    here: str | None = None,
    regraded: bool = False,
) -> Comparison:
    """Compares runs.

    Args: names: What the policies of a run are called in the tables, by its folder, where two runs hold the same
        policy at different times (a model before and after training). Without it policies are called as in results
        tables. base: The policy that the others are compared with, and that a gain is measured from; the first one
        without it. here: The harness that a gain is made under; the first one without it. regraded: Take the newest
        verdicts of `envkit regrade`, in every run.

    Raises:
        UserError: A folder holds no run, nothing is finished, the same trials are given twice, or no policy or harness
            has that name.
    """
    groups, facts, behaviours, notes = _read(folders, names or {}, regraded)
    if not groups:
        raise UserError(f"no finished trial in {', '.join(map(str, folders))}: there is nothing to compare")
    policies = list(dict.fromkeys(policy for policy, _, _ in groups))
    harnesses = list(dict.fromkeys(harness for _, harness, _ in groups))
    base = _named(base, policies, "policy")
    here = _named(here, harnesses, "harness")
    means = {key: task_means(trials) for key, trials in groups.items()}
    cells = tuple(
        Cell(
            policy=policy,
            harness=harness,
            pack=pack,
            row=evaluate_group(policy, harness, trials, facts),
            behaviour=behaviours[policy, harness, pack],
        )
        for (policy, harness, pack), trials in groups.items()
    )
    packs = list(dict.fromkeys(pack for _, _, pack in groups))
    pairs: list[Pair] = []
    transfers: list[Transfer] = []
    for pack in packs:
        for harness in harnesses:
            for policy in policies:
                first, second = (base, harness, pack), (policy, harness, pack)
                if policy != base and first in means and second in means:
                    found = difference(means[first], means[second], facts)
                    pairs.append(
                        Pair(pack=pack, kind="policies", within=harness, first=base, second=policy, difference=found)
                    )
        for policy in policies:
            for harness in harnesses:
                first, second = (policy, here, pack), (policy, harness, pack)
                if harness != here and first in means and second in means:
                    found = difference(means[first], means[second], facts)
                    pairs.append(
                        Pair(pack=pack, kind="harnesses", within=policy, first=here, second=harness, difference=found)
                    )
        for policy in policies:
            for harness in harnesses:
                four = [(p, h, pack) for h in (here, harness) for p in (base, policy)]
                if policy != base and harness != here and all(key in means for key in four):
                    transfers.append(_transfer(pack, base, policy, here, harness, [means[k] for k in four], facts))
    if any(pair.difference.estimate.value is None for pair in pairs):
        notes.append(_apart(groups))
    return Comparison(cells=cells, pairs=tuple(pairs), transfers=tuple(transfers), notes=tuple(notes))


Key = tuple[str, str, str]


def _apart(groups: Mapping[Key, Sequence[TrialResult]]) -> str:
    """Why runs of what looks like the same tasks may have none in common."""
    first = list(dict.fromkeys(trials[0].spec.task for trials in groups.values()))
    return (
        "where there is no common task: tasks are the same where they were asked for by the same id; one that was "
        f"given by a path is told apart by where its files lay (here for example {', '.join(first[:4])})"
    )


def _read(
    folders: Sequence[Path], names: Mapping[Path, str], regraded: bool
) -> tuple[dict[Key, list[TrialResult]], dict[str, TaskFacts], dict[Key, Behaviour], list[str]]:
    groups: dict[Key, list[TrialResult]] = {}
    trajectories: dict[Key, list[tuple[TrialResult, Path]]] = {}
    facts: dict[str, TaskFacts] = {}
    notes: list[str] = []
    seen: dict[tuple[str, str], Path] = {}
    for folder in folders:
        run = StoredRun(folder, regraded=regraded)
        results = [result for result in run.results() if result.status is not Status.CANCELLED]
        notes += [*run.incomplete(len(results)), *run.regrading(len(results))]
        facts |= read_facts(folder, (result.spec.task for result in results if result.spec.task not in facts))
        for result in results:
            policy, harness = group_key(result)
            policy = names.get(folder, policy)
            twice = seen.setdefault((policy, result.trial_id), folder)
            if twice != folder:
                raise UserError(
                    f"{folder} and {twice} both hold trial {result.trial_id} of policy {policy!r}; give the runs names "
                    f"(before={twice} after={folder}), or name the run once"
                )
            key = (policy, harness, facts[result.spec.task].pack)
            groups.setdefault(key, []).append(result)
            attempt = result.attempts[-1].attempt if result.attempts else 1
            place = run.attempt_folder(result.trial_id, attempt) / "trajectory.json"
            trajectories.setdefault(key, []).append((result, place))
        notes += [f"damaged file, treated as not there: {text}" for text in run.damaged]
    lost = [task for task, found in facts.items() if found.problem]
    if lost:
        notes.append(
            f"{len(lost)} tasks can't be loaded (the first is {lost[0]}) and count as worlds of their own: the "
            "intervals may be too narrow"
        )
    return groups, facts, {key: _behaviour(found) for key, found in trajectories.items()}, notes


def _behaviour(trials: Sequence[tuple[TrialResult, Path]]) -> Behaviour:
    counts: dict[str, float] = {}
    read = 0
    for _, path in trials:
        if path.is_file():
            read += 1
            for name, amount in read_conduct(path).counts.items():
                counts[name] = counts.get(name, 0.0) + amount
    calls, tokens = counts.get("tool_calls", 0.0), counts.get("sampled_turn_tokens", 0.0)
    ended = [result for result, _ in trials if result.stop is not None]
    scored = [result for result, _ in trials if result.reward is not None]
    return Behaviour(
        trials=read,
        turns=_share(sum(result.turns for result in scored), len(scored)),
        tokens_per_turn=_share(tokens, counts.get("turns", 0.0)) if tokens else None,
        tool_success=_share(calls - counts.get("tool_errors", 0.0), calls),
        code_share=_share(counts.get("code_calls", 0.0), calls),
        context_exhausted=_share(sum(result.stop is StopReason.CONTEXT for result in ended), len(ended)),
    )


def _transfer(
    pack: str,
    base: str,
    trained: str,
    here: str,
    there: str,
    means: Sequence[Mapping[str, float]],
    facts: Mapping[str, TaskFacts],
) -> Transfer:
    common = [task for task in means[0] if all(task in found for found in means)]
    worlds = [facts[task].world for task in common]
    gains = [means[1][task] - means[0][task] for task in common]
    others = [means[3][task] - means[2][task] for task in common]
    inside = all(0.0 <= found[task] <= 1.0 for found in means for task in common)
    bound = 1.0 if inside else math.inf
    gain, other = _estimate(gains, worlds, bound), _estimate(others, worlds, bound)
    told: dict[str, object] = {}
    if gain.value is None:
        told = {"share": None, "note": "no common task"}
    elif gain.lower is None or gain.upper is None:
        told = {"share": None, "note": "too few worlds"}
    elif gain.lower <= 0.0 <= gain.upper:
        told = {"share": None, "note": f"no gain under {here} to transfer: a tie"}
    else:
        assert other.value is not None
        possible = [share for share in _GRID if _compatible(share, gains, others, worlds, bound)]
        told = {
            "share": other.value / gain.value,
            "lower": possible[0] if possible and possible[0] > _GRID[0] else None,
            "upper": possible[-1] if possible and possible[-1] < _GRID[-1] else None,
        }
    return Transfer.model_validate(
        {"pack": pack, "base": base, "trained": trained, "here": here, "there": there, "tasks": len(common),
         "gain_here": gain, "gain_there": other, **told}
    )  # fmt: skip


def _compatible(
    share: float, gains: Sequence[float], others: Sequence[float], worlds: Sequence[str], bound: float
) -> bool:
    left = [other - share * gain for gain, other in zip(gains, others, strict=True)]
    found = _estimate(left, worlds, bound * (1.0 + abs(share)))
    return found.lower is None or found.upper is None or found.lower <= 0.0 <= found.upper


def _estimate(values: Sequence[float], worlds: Sequence[str], bound: float) -> Estimate:
    return estimate(values, worlds, low=-bound, high=bound)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _named(wanted: str | None, known: Sequence[str], what: str) -> str:
    if wanted is None:
        return known[0]
    if wanted not in known:
        raise UserError(
            f"no {what} {wanted!r} in these runs{did_you_mean(wanted, tuple(known))}; there is {', '.join(known)}"
        )
    return wanted
