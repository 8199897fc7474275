"""Do engines send tokens to the experts that the trainer sends them to? For mixtures of experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from envkit.backend import Engines, Trainer
from envkit.backends.guards.verdict import Status, Verdict
from envkit.deadline import Deadline
from envkit.failure import EnvkitError
from envkit.tokens.trace import IntArray

__all__ = ["RoutingEngines", "RoutingTrainer", "agreement", "routing"]

GUARD = "routing"


@runtime_checkable
class RoutingTrainer(Protocol):
    """A trainer that says where its tokens go."""

    async def routes(self, sequences: Sequence[IntArray], deadline: Deadline) -> list[dict[int, IntArray]]: ...


@runtime_checkable
class RoutingEngines(Protocol):
    """Engines that say where their tokens go."""

    async def routes(self, url: str, ids: Sequence[int], chosen: int, deadline: Deadline) -> dict[int, IntArray]: ...


async def routing(
    engines: Engines, trainer: Trainer, prompts: Sequence[Sequence[int]], *, gate: float, deadline: Deadline
) -> Verdict | None:
    """Holds the experts that every engine chooses for a prompt against the trainer's; None for a model without."""
    if not isinstance(trainer, RoutingTrainer):
        return None
    try:
        ours = await trainer.routes([np.asarray(ids, np.int32) for ids in prompts], deadline)
        if not any(ours):
            return None
        if not isinstance(engines, RoutingEngines):
            return Verdict(GUARD, Status.SKIPPED, "these engines can't be asked which experts they choose")
        shares: dict[int, list[float]] = {}
        for n, url in enumerate(engines.urls):
            mine = ours[n % len(ours)]
            chosen = next(iter(mine.values())).shape[1]
            theirs = await engines.routes(url, prompts[n % len(prompts)], chosen, deadline)
            for layer, experts in mine.items():
                if layer in theirs:
                    shares.setdefault(layer, []).append(agreement(experts, theirs[layer]))
    except EnvkitError as error:
        return Verdict(GUARD, Status.FAILED, str(error))
    if not shares:
        return Verdict(
            GUARD,
            Status.SKIPPED,
            "the engines run a compiled model and don't say which experts they choose; start vLLM with "
            "--enable-return-routed-experts (engines.arguments), or the logprobs alone speak for it",
        )
    means = {layer: float(np.mean(found)) for layer, found in shares.items()}
    worst = min(means, key=lambda layer: means[layer])
    mean = float(np.mean(list(means.values())))
    figures = {"mean": mean, "worst": means[worst], "worst_layer": worst, "layers": len(means), "gate": gate}
    line = f"engine and trainer send tokens to the same experts in {mean:.2%} of choices over {len(means)} layers"
    line += f", {means[worst]:.2%} in layer {worst} (gate {gate:.0%})"
    if mean < gate:
        return Verdict(GUARD, Status.FAILED, f"{line}: they compute different policies", figures)
    return Verdict(GUARD, Status.OK, line, figures)


def agreement(ours: IntArray, theirs: IntArray) -> float:
    """Mean share of a token's experts that both chose; [tokens, chosen] each, in any order."""
    same = (ours[:, :, None] == theirs[:, None, :]).any(-1)
    return float(same.mean()) if same.size else 1.0
