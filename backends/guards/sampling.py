"""Do engines sample what the trainer thinks they do: logprobs held against each other, labels, one draw made twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from envkit.backend import Trainer
from envkit.backends.guards.verdict import Status, Verdict
from envkit.deadline import Deadline
from envkit.engine import EngineClient
from envkit.failure import EnvkitError
from envkit.tokens.generation import Generation, SamplingParams
from envkit.tokens.prompt import PromptIds
from envkit.tokens.trace import FloatArray, IntArray

__all__ = ["Scoring", "sampling"]


@runtime_checkable
class Scoring(Protocol):
    """A trainer that can be asked for logprobs without training."""

    async def logprobs(
        self, sequences: Sequence[IntArray], *, temperature: float, deadline: Deadline
    ) -> list[FloatArray]: ...


async def sampling(
    urls: Sequence[str],
    trainer: Trainer,
    prompts: Sequence[Sequence[int]],
    *,
    tokens: int,
    temperature: float,
    gate: float,
    stops: Sequence[int],
    api_key: str | None,
    deadline: Deadline,
) -> list[Verdict]:
    """Samples every prompt at one of the engines, in company; one of each engine's again, alone. Gives the verdicts on
    the gap and on determinism."""
    clients = [EngineClient(url, api_key=api_key) for url in urls]

    async def draw(n: int) -> Generation:
        params = SamplingParams(max_tokens=tokens, temperature=temperature, seed=n, stop_token_ids=tuple(stops))
        ids = PromptIds(np.asarray(prompts[n], np.int32))
        return await clients[n % len(clients)].generate(ids, params, session=f"guard-{n}", deadline=deadline)

    try:
        alone = [await draw(n) for n in range(len(clients))]
        together = await asyncio.gather(*(draw(n) for n in range(len(prompts))))
    except EnvkitError as error:
        return [Verdict("gap", Status.FAILED, f"an engine does not sample: {error}")]
    finally:
        for client in clients:
            await client.close()
    return [
        await _gap(prompts, together, trainer, temperature, gate, deadline),
        _determinism(urls, alone, together, tokens),
    ]


async def _gap(
    prompts: Sequence[Sequence[int]],
    drawn: Sequence[Generation],
    trainer: Trainer,
    temperature: float,
    gate: float,
    deadline: Deadline,
) -> Verdict:
    wrong = sorted({int(v) for g in drawn for v in g.versions} - {trainer.version})
    if wrong:
        line = f"engines sample under version {wrong[0]} right after version {trainer.version} was sent"
        return Verdict("gap", Status.FAILED, line)
    if not isinstance(trainer, Scoring):
        return Verdict("gap", Status.SKIPPED, "this trainer can't score without training; the first step will tell")
    rows = [np.concatenate([np.asarray(p, np.int32), g.ids]) for p, g in zip(prompts, drawn, strict=True)]
    try:
        scored = await trainer.logprobs(rows, temperature=temperature, deadline=deadline)
    except EnvkitError as error:
        return Verdict("gap", Status.FAILED, f"the trainer does not score: {error}")
    away = np.concatenate(
        [np.abs(s[len(p) - 1 :] - g.logprobs) for s, p, g in zip(scored, prompts, drawn, strict=True)]
    )
    if not len(away):
        return Verdict("gap", Status.FAILED, "engines sampled no token at all")
    mean, worst = float(away.mean()), float(away.max())
    figures = {"mean": mean, "max": worst, "tokens": len(away), "samples": len(drawn), "gate": gate}
    line = f"engine and trainer differ by {mean:.2g} nats on average over {len(away)} tokens, {worst:.2g} at most"
    line += f" (gate {gate:g})"
    if not mean < gate:
        return Verdict("gap", Status.FAILED, f"{line}: they compute different policies", figures)
    return Verdict("gap", Status.OK, line, figures)


def _determinism(
    urls: Sequence[str], alone: Sequence[Generation], together: Sequence[Generation], tokens: int
) -> Verdict:
    for n, (one, other) in enumerate(zip(alone, together, strict=False)):
        if one.ids.tolist() != other.ids.tolist():
            short = min(len(one.ids), len(other.ids))
            differs = np.flatnonzero(one.ids[:short] != other.ids[:short])
            at = int(differs[0]) if len(differs) else short
            line = f"{urls[n]} samples otherwise in company than alone from token {at} on, with the same seed"
            line += "; harmless for training, but runs can't be repeated to the token"
            return Verdict("determinism", Status.WARNING, line, {"token": at})
    line = f"the same seed gives the same tokens, alone and in company ({len(alone)} engines)"
    return Verdict("determinism", Status.OK, line)
