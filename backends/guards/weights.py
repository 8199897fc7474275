"""Do weights arrive: a sync of what the trainer holds, then every tensor of every engine held against the trainer's."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, runtime_checkable

from envkit.backend import Engines, StepMetrics, Trainer
from envkit.backends.guards.verdict import Status, Verdict
from envkit.backends.serving import Held, fingerprints
from envkit.deadline import Deadline
from envkit.failure import EnvkitError

__all__ = ["Holding", "weights"]

GUARD = "weights"


@runtime_checkable
class Holding(Protocol):
    """Engines that can be asked what they sample with."""

    @property
    def weights_dtype(self) -> str | None: ...

    async def held(self, trainer: Trainer, deadline: Deadline) -> Held: ...


async def weights(engines: Engines, trainer: Trainer, deadline: Deadline) -> tuple[Verdict, StepMetrics]:
    """Sends the weights that the trainer holds, under its version, and looks at what arrived. The metrics are those of
    the sync; empty where it failed."""
    try:
        metrics = await engines.update(trainer, trainer.version, deadline)
    except EnvkitError as error:
        return Verdict(GUARD, Status.FAILED, str(error)), {}
    figures: dict[str, Any] = {"sync_s": metrics.get("sync_s"), "paused_s": metrics.get("paused_s")}
    if lost := int(metrics.get("replicas_lost", 0)):
        line = f"{lost} engines did not take the weights (their logs say why)"
        return Verdict(GUARD, Status.FAILED, line, figures), metrics
    if not isinstance(engines, Holding):
        line = "sent; these engines can't be asked what they hold, so only the logprobs speak for it"
        return Verdict(GUARD, Status.SKIPPED, line, figures), metrics
    try:
        held = await engines.held(trainer, deadline)
    except EnvkitError as error:
        return Verdict(GUARD, Status.FAILED, str(error), figures), metrics
    wanted = await asyncio.to_thread(fingerprints, trainer, engines.weights_dtype)
    faults, unreadable = [], set()
    for url, tensors in held.items():
        for name, mark in wanted.items():
            found = tensors.get(name)
            if found is None:
                faults.append(f"{url} has no {name}")
            elif found["sent"] != mark:
                faults.append(f"{name} arrives at {url} otherwise than the trainer holds it")
            elif found["differs"]:
                faults.append(f"{url} samples with another {name} than it was sent ({_share(found)})")
            elif not found["of"]:
                unreadable.add(name)
        faults += [f"{url} has {name}, which the trainer does not" for name in sorted(set(tensors) - set(wanted))]
    figures |= {"tensors": len(wanted), "faults": len(faults), "unreadable": len(unreadable), "engines": len(held)}
    if faults:
        more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
        return Verdict(GUARD, Status.FAILED, "; ".join(faults[:3]) + more, figures), metrics
    if len(unreadable) == len(wanted):
        line = f"{len(wanted)} tensors arrived as they were sent, and none can be read back: only the logprobs speak"
        return Verdict(GUARD, Status.WARNING, f"{line} for what the engines hold", figures), metrics
    line = f"{len(wanted)} tensors are held as the trainer has them, by {len(held)} engines"
    if unreadable:
        line += f" ({len(unreadable)} arrived and can't be read back: packed for the device)"
    if "paused_s" in metrics:
        line += f"; a sync pauses sampling for {metrics['paused_s']:.2f} s"
    return Verdict(GUARD, Status.OK, line, figures), metrics


def _share(found: dict[str, Any]) -> str:
    return "it differs" if found["of"] <= 1 else f"{found['differs']:,} of {found['of']:,} elements differ"
