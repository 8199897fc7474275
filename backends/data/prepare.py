"""The batch of an optimiser step from its groups: rewards -> advantages -> weighted rows -> micro-batches on ranks.

Guarantees that every row's arrays are of one length and 0 (versions -1) outside one mask, that only valid rollouts
vote and train, and that the sum over all rows of `weights * loss` is the configured reduction, whatever the packing.
Pure: the same arguments give the same batch. Used by the loop; metrics are sums and counts of this step under `data/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from envkit.backend import Batch, MicroBatch, Row, StepMetrics
from envkit.backends.algorithms.advantages import gae, grpo, maxrl, reinforce_plus_plus, rloo
from envkit.backends.algorithms.config import AlgorithmConfig, Gae, Grpo, ReinforcePlusPlus, Rloo
from envkit.backends.algorithms.reductions import row_weights
from envkit.backends.data.group import DropReason, Group, GroupReport
from envkit.backends.data.judge import Judged, judge
from envkit.backends.data.packing import Packing, pack
from envkit.backends.data.rows import Draft, drafts
from envkit.failure import UserError
from envkit.tokens.export import Sample

__all__ = ["Prepared", "Values", "deal", "prepare"]

Floats = npt.NDArray[np.float64]

#: A critic: the value of every token of a sample, [n].
Values = Callable[[Sample], Floats]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A step's batch.

    Attributes:
        batch: For the trainer. It has no row where every group was dropped.
        metrics: `data/` sums and counts: `groups`, `groups_dropped_<reason>`, `rollouts`, `rollouts_failed` (no
            verdict), `rollouts_masked` (by their stop reason), `rollouts_valid`, `score_sum`, `score_square_sum` (over
            valid rollouts), `rows`, `tokens`, `trained_tokens`, `advantage_abs_sum` (over trained tokens), `age_sum`
            (updates that came between sampling and training, over trained tokens), `age_max`, `micro_batches`,
            `slot_tokens` (room in all micro-batches), `rank_tokens_max`.
        groups: One report per group handed in, in order.
    """

    batch: Batch
    metrics: StepMetrics
    groups: tuple[GroupReport, ...]


def prepare(
    groups: Sequence[Group],
    config: AlgorithmConfig,
    *,
    step: int,
    ranks: int,
    tokens_per_micro_batch: int,
    min_valid_rows: int = 2,
    values: Values | None = None,
) -> Prepared:
    """Makes a step's batch.

    Args:
        step: The version being trained, from 1.
        ranks: `Trainer.ranks`.
        tokens_per_micro_batch: Budget; a longer row stands alone.
        min_valid_rows: Valid rollouts that a group needs at least, as in `screen`.
        values: Needed when `config.needs_values`.

    Raises:
        UserError: `config.needs_values` and there are none.
    """
    if config.needs_values and values is None:
        raise UserError(
            "the advantage 'gae' needs a value per token and this trainer has no critic; "
            "choose grpo, rloo, maxrl or reinforce++"
        )
    judged = [judge(group, config, min_valid_rows) for group in groups]
    made: list[Draft] = []
    first: list[int] = []  # of each group, its first rollout's number
    number = 0
    for index, (group, verdict) in enumerate(zip(groups, judged, strict=True)):
        first.append(number)
        for i, rollout in enumerate(group.rollouts):
            if verdict.drop is None and verdict.valid[i]:
                made += drafts(
                    rollout,
                    float(verdict.scores[i]),
                    verdict.turns[i],
                    number=number + i,
                    group=index,
                    group_id=group.id,
                )
        number += len(group.rollouts)
    outcome, per_row = _advantages(config, judged, made, values)
    tokens = np.array([d.trained for d in made], np.int64)
    weights = row_weights(
        config.reduction,
        tokens,
        np.array([d.number for d in made], np.int64),
        np.array([d.group for d in made], np.int64),
        max_tokens=config.max_tokens,
    )
    rows = [d.row(a, float(w)) for d, a, w in zip(made, per_row, weights, strict=True)]
    batch, packing = deal(rows, step=step, ranks=ranks, budget=tokens_per_micro_batch)
    trained = Counter[int]()
    for draft in made:
        trained[draft.number] += draft.trained
    reports = tuple(
        verdict.report(
            group,
            None if outcome is None or verdict.drop is not None else outcome[at : at + len(group.rollouts)],
            [trained[at + i] for i in range(len(group.rollouts))],
        )
        for group, verdict, at in zip(groups, judged, first, strict=True)
    )
    return Prepared(batch, _metrics(groups, judged, rows, packing, step), reports)


def deal(rows: Sequence[Row], *, step: int, ranks: int, budget: int) -> tuple[Batch, Packing]:
    """Packs rows into micro-batches on ranks."""
    packing = pack([len(row) for row in rows], budget=budget, ranks=ranks)
    dealt = tuple(tuple(MicroBatch(tuple(rows[i] for i in micro)) for micro in rank) for rank in packing.ranks)
    return Batch(dealt, step), packing


def _advantages(
    config: AlgorithmConfig, judged: list[Judged], made: list[Draft], values: Values | None
) -> tuple[Floats | None, Iterable[Floats]]:
    """The outcome's advantage per rollout of the step (None where advantages are per token from the start), and the
    advantages of every draft's tokens."""
    masks = [d.mask for d in made]
    if isinstance(config.advantage, ReinforcePlusPlus):
        return None, reinforce_plus_plus([d.rewards() for d in made], masks, gamma=config.advantage.gamma)[0]
    if isinstance(config.advantage, Gae):
        assert values is not None
        critic = [values(d.sample) for d in made]
        settings = config.advantage
        return None, gae([d.rewards() for d in made], critic, masks, gamma=settings.gamma, lam=settings.lam)[0]
    scores = np.concatenate([v.scores for v in judged]) if judged else np.zeros(0)
    valid = np.concatenate([v.valid for v in judged]) if judged else np.zeros(0, np.bool_)
    group = np.repeat(np.arange(len(judged)), [len(v.valid) for v in judged])
    if isinstance(config.advantage, Grpo):
        outcome = grpo(scores, group, valid, std=config.advantage.std)
    elif isinstance(config.advantage, Rloo):
        outcome = rloo(scores, group, valid)
    else:
        outcome = maxrl(scores, group, valid)
    return outcome, (d.advantages(float(outcome[d.number])) for d in made)


def _metrics(
    groups: Sequence[Group], judged: list[Judged], rows: Sequence[Row], packing: Packing, step: int
) -> StepMetrics:
    rollouts = sum(len(g.rollouts) for g in groups)
    failed = sum(r.reward is None for g in groups for r in g.rollouts)
    valid = sum(int(v.valid.sum()) for v in judged)
    scores = [v.scores[v.valid] for v in judged]
    drops = Counter(v.drop for v in judged)
    ages = [step - 1 - row.versions[row.mask].astype(np.int64) for row in rows]
    loads = packing.loads
    counts: dict[str, float] = {
        "groups": len(groups),
        **{f"groups_dropped_{reason}": drops[reason] for reason in DropReason},
        "rollouts": rollouts,
        "rollouts_failed": failed,
        "rollouts_masked": rollouts - failed - valid,
        "rollouts_valid": valid,
        "score_sum": sum(float(s.sum()) for s in scores),
        "score_square_sum": sum(float((s**2).sum()) for s in scores),
        "rows": len(rows),
        "tokens": sum(len(row) for row in rows),
        "trained_tokens": sum(int(row.mask.sum()) for row in rows),
        "advantage_abs_sum": sum(float(np.abs(row.advantages).sum()) for row in rows),
        "age_sum": sum(float(a.sum()) for a in ages),
        "age_max": max((int(a.max()) for a in ages), default=0),
        "micro_batches": sum(len(rank) for rank in packing.ranks),
        "slot_tokens": int(np.maximum(loads, packing.budget).sum()) if loads.size else 0,
        "rank_tokens_max": int(loads.sum(1).max()) if loads.size else 0,
    }
    return {f"data/{name}": float(value) for name, value in counts.items()}
