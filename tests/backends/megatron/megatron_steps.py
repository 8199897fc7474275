"""Batches of three optimiser steps, dealt over any ranks and micro-batches: every layout gets the same rows."""

from __future__ import annotations

import numpy as np

from envkit.backend import Batch, MicroBatch, Row

VOCAB, STEPS = 97, 3


def rows(step: int, lengths: tuple[int, ...] = (23, 9, 40, 17, 2, 31, 12, 26)) -> list[Row]:
    generator = np.random.default_rng(step)
    made = []
    for n, length in enumerate(lengths):
        mask = (generator.random(length) < 0.6) & (np.arange(length) > 0)
        made.append(
            Row(
                ids=generator.integers(0, VOCAB, length, dtype=np.int32),
                mask=mask,
                logprobs=np.where(mask, generator.normal(-5, 1, length), 0.0).astype(np.float32),
                versions=np.where(mask, step - 1 - n % 2, -1).astype(np.int32),
                advantages=np.where(mask, generator.normal(), 0.0),
                weights=np.where(mask, 1 / 64, 0.0),
                group=f"group-{n // 4}",
                trial=f"trial-{n}",
            )
        )
    return made


def dealt(step: int, ranks: int, micros: int) -> Batch:
    """The rows of a step over ranks and micro-batches, the last of each rank empty."""
    hands = [rows(step)[r::ranks] for r in range(ranks)]
    cut = [(*(MicroBatch(tuple(hand[m :: micros - 1])) for m in range(micros - 1)), MicroBatch(())) for hand in hands]
    return Batch(ranks=tuple(cut), step=step)


def batches(ranks: int, micros: int) -> list[Batch]:
    return [dealt(step, ranks, micros) for step in range(1, STEPS + 1)]
