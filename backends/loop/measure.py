"""How old what a step trains on is, token by token, and how much of it there is. Pure; used by the loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envkit.backend import StepMetrics
from envkit.backends.data.group import Group

__all__ = ["measure"]


def measure(groups: Sequence[Group], step: int) -> StepMetrics:
    """Sums and extremes over the sampled tokens of a step's rollouts.

    The lag of a token is in steps: the version being trained, less one (the weights before the update), less the
    version that sampled it. `loop/rollout_versions_max` is the most versions that one rollout spans.
    """
    lag_sum, tokens, lag_max, spans, context = 0.0, 0, 0, 0, 0
    for group in groups:
        for rollout in group.rollouts:
            context += rollout.context_tokens
            oldest: int | None = None
            newest = 0
            for sample in rollout.samples:
                versions = sample.versions[sample.mask]
                if not len(versions):
                    continue
                low, high = int(versions.min()), int(versions.max())
                oldest = low if oldest is None else min(oldest, low)
                newest = max(newest, high)
                lag_sum += float((step - 1) * len(versions) - int(versions.sum(dtype=np.int64)))
                tokens += len(versions)
                lag_max = max(lag_max, step - 1 - low)
            if oldest is not None:
                spans = max(spans, newest - oldest + 1)
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    return {
        "loop/token_lag_sum": lag_sum,
        "loop/token_lag_max": float(lag_max),
        "loop/sampled_tokens": float(tokens),
        "loop/context_tokens": float(context),
        "loop/rollout_versions_max": float(spans),
        "loop/rollouts": float(len(rollouts)),
        "loop/rollouts_valid": float(sum(rollout.valid for rollout in rollouts)),
    }
