"""Reductions as a weight per row: what each of its trained tokens counts in the step's sum. Numpy, pure.

Because the weight is fixed over the whole mini-batch beforehand, the loss is a plain sum: any cut into micro-batches,
any order and any dealing to ranks gives the same loss and gradient. R rows; several rows of one trial (branches of its
history) are one sequence. Only what trains counts: a sequence or a prompt without a trained token is in no mean, where
SkyRL counts it and so lowers the learning rate by as much as was masked.

Sources: token mean DAPO arXiv 2503.14476 eq. 12; prompt mean ScaleRL 2510.13786; fixed length Dr. GRPO 2503.20783.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from envkit.backends.algorithms.config import ReductionName

__all__ = ["micro_batch_token_mean", "row_weights"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def row_weights(
    reduction: ReductionName, tokens: Ints, sequences: Ints, prompts: Ints, *, max_tokens: int | None = None
) -> Floats:
    """The weight of each row's trained tokens.

        token_mean          1 / all trained tokens
        sequence_mean       1 / (sequences * trained tokens of the row's sequence)
        prompt_mean         1 / (prompts * trained tokens of the row's prompt)
        length_normalised   1 / (sequences * max_tokens)

    Args:
        tokens: [R], trained tokens of the row.
        sequences: [R], which trial it is of, any integers.
        prompts: [R], which group it is of, any integers.
        max_tokens: The fixed length of `length_normalised`.

    Returns:
        [R], 0.0 for rows without a trained token.
    """
    trains = tokens > 0
    if reduction == "token_mean":
        weights = np.full(len(tokens), 1.0 / max(int(tokens.sum()), 1))
    elif reduction == "length_normalised":
        if max_tokens is None:
            raise ValueError("expected max_tokens with the reduction length_normalised, found none")
        weights = np.full(len(tokens), 1.0 / (max(len(np.unique(sequences[trains])), 1) * max_tokens))
    else:
        of = sequences if reduction == "sequence_mean" else prompts
        _, number = np.unique(of, return_inverse=True)
        per = np.bincount(number, tokens) if len(tokens) else np.zeros(0)
        weights = 1.0 / (max(int((per > 0).sum()), 1) * np.maximum(per, 1.0)[number])
    return np.where(trains, weights, 0.0)


def micro_batch_token_mean(tokens: Ints, micro_batches: Sequence[Sequence[int]]) -> Floats:
    """The older token mean: a mean per micro-batch, then over micro-batches. [R] -> [R].

    It depends on how the batch was cut, which is why no configuration offers it; it is here to compare with runs of
    trainers that do this.
    """
    weights = np.zeros(len(tokens))
    for rows in micro_batches:
        chosen = np.asarray(rows, np.int64)
        weights[chosen] = 1.0 / (max(int(tokens[chosen].sum()), 1) * len(micro_batches))
    return np.where(tokens > 0, weights, 0.0)
