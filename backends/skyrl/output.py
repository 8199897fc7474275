"""SkyRL's rows of finished groups: exact ids, masks and logprobs, and one validity for everything.

A trajectory has a row per sample of its trace (or per sampled turn), contiguous, its last one flagged; all of them
carry its score, as `data.judge` gives it. What is not valid (no verdict, or a truncation that the plan masks) has one
row whose mask is empty, so that it trains nothing. SkyRL's baselines count it all the same, by its reward: that is set
to the mean of the group's valid scores, which leaves the mean (and with it GRPO's and MaxRL's advantages, and pass@n)
where the valid rows alone put it; `trainer` takes rows that train nothing out of every baseline, whichever it is. A
group with fewer valid rollouts than the plan asks for trains nothing. Pure numpy: neither SkyRL nor torch is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from envkit.backend import Rollout
from envkit.backends.algorithms.config import AlgorithmConfig
from envkit.backends.data import DropReason, Group
from envkit.backends.data.judge import judge, trained_mask
from envkit.tokens.export import Sample

__all__ = ["SkyrlRow", "group_rows", "metrics_of", "output_of"]

RowKind = Literal["paths", "turns"]


@dataclass(frozen=True, slots=True)
class SkyrlRow:
    """One row of a trajectory.

    Attributes:
        prompt: Ids before the first trained one.
        response, mask, logprobs: From there on, of one length; a masked trajectory has one masked token.
        number: Of the rollout in its group.
        last: The trajectory's last row.
    """

    prompt: list[int]
    response: list[int]
    mask: list[int]
    logprobs: list[float]
    reward: float
    stop: str
    number: int
    last: bool
    seconds: float


def group_rows(
    group: Group, config: AlgorithmConfig, *, min_valid_rows: int, kind: RowKind = "paths", filler: int = 0
) -> list[SkyrlRow]:
    """The rows of a group, in the order of its rollouts.

    Args:
        filler: A token id for rows of trajectories that have none.
    """
    judged = judge(group, config, min_valid_rows)
    few = judged.drop is DropReason.TOO_FEW
    scores = judged.scores[judged.valid]
    placeholder = float(scores.mean()) if len(scores) else 0.0
    out: list[SkyrlRow] = []
    for number, rollout in enumerate(group.rollouts):
        valid = bool(judged.valid[number])
        pieces = (_pieces(rollout, kind) if valid and not few else []) or [_empty(filler)]
        seconds = max(0.0, rollout.finished_s - rollout.started_s)
        reward = float(judged.scores[number]) if valid else placeholder
        for at, (prompt, response, mask, logprobs) in enumerate(pieces):
            last = at + 1 == len(pieces)
            out.append(SkyrlRow(prompt, response, mask, logprobs, reward, _stop(rollout), number, last, seconds))
    return out


def output_of(
    rows: Iterable[tuple[Any, SkyrlRow]], metrics: Mapping[str, float], **more: Sequence[Any] | None
) -> dict[str, Any]:
    """SkyRL's `GeneratorOutput`, of (trajectory id, row) pairs in order."""
    pairs = list(rows)
    found = [row for _, row in pairs]
    return {
        "prompt_token_ids": [row.prompt for row in found],
        "response_ids": [row.response for row in found],
        "rewards": [row.reward for row in found],
        "loss_masks": [row.mask for row in found],
        "stop_reasons": [row.stop for row in found],
        "rollout_logprobs": [row.logprobs for row in found],
        "trajectory_ids": [id for id, _ in pairs],
        "is_last_step": [row.last for row in found],
        "trajectory_generation_times": [row.seconds for row in found],
        "trajectory_time_splits": None,
        "rollout_metrics": dict(metrics),
        "rollout_expert_indices": None,
        "rollout_sample_support": None,
        "env_metrics": None,
        "pixel_values": None,
        "image_grid_thw": None,
        **more,
    }


def metrics_of(groups: Sequence[Group], rows: Sequence[SkyrlRow]) -> dict[str, float]:
    """Sums under `envkit/`. SkyRL adds them up over groups by their names, of which none may hold `avg`, `mean`, `min`
    or `max`."""
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    out: dict[str, float] = {
        "envkit/trials": float(len(rollouts)),
        "envkit/rows": float(len(rows)),
        "envkit/without_verdict": float(sum(not rollout.valid for rollout in rollouts)),
        "envkit/sampled_tokens": float(sum(rollout.sampled_tokens for rollout in rollouts)),
        "envkit/dropped_tokens": float(sum(sum(rollout.dropped.values()) for rollout in rollouts)),
        "envkit/trained_tokens": float(sum(sum(row.mask) for row in rows)),
    }
    for rollout in rollouts:
        if rollout.failure is not None:
            name = f"envkit/failed_at_{rollout.failure.boundary}"
            out[name] = out.get(name, 0.0) + 1.0
        for name in ("turns", "tool_calls", "tool_errors", "code_calls", "context_exhausted"):
            if name in rollout.metrics:
                out[f"envkit/{name}"] = out.get(f"envkit/{name}", 0.0) + float(rollout.metrics[name])
    return out


_Piece = tuple[list[int], list[int], list[int], list[float]]


def _pieces(rollout: Rollout, kind: RowKind) -> list[_Piece]:
    out: list[_Piece] = []
    for sample in rollout.samples:
        mask = trained_mask(sample)
        if not mask.any():
            continue
        if kind == "paths":
            out.append(_piece(sample, mask, int(np.flatnonzero(mask)[0]), int(np.flatnonzero(mask)[-1]) + 1))
            continue
        for _, start, end in sample.spans:
            if mask[start:end].any():
                out.append(_piece(sample, mask, max(start, 1), end))
    return out


def _piece(sample: Sample, mask: Any, begin: int, end: int) -> _Piece:
    part = slice(begin, end)
    logprobs = np.where(mask[part], sample.logprobs[part], np.float32(0.0))
    return (
        sample.ids[:begin].tolist(),
        sample.ids[part].tolist(),
        mask[part].astype(int).tolist(),
        logprobs.astype(float).tolist(),
    )


def _empty(filler: int) -> _Piece:
    return [filler], [filler], [0], [0.0]


def _stop(rollout: Rollout) -> str:
    if rollout.failure is not None:
        return f"failed: {rollout.failure.kind}"
    return "stop" if rollout.stop is None or not rollout.stop.truncated else str(rollout.stop)
