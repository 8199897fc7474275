"""All guards over the parts of a backend, in order, each bounded; none of them raises for what it finds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envkit.backends.guards.disk import disk
from envkit.backends.guards.routing import routing
from envkit.backends.guards.sampling import sampling
from envkit.backends.guards.tokens import prompts, tokens
from envkit.backends.guards.verdict import Status, Verdict
from envkit.backends.guards.weights import weights
from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded, EnvkitError
from envkit.tokens.render import shared_renderer

if TYPE_CHECKING:
    from envkit.backends.run.backend import Parts
    from envkit.backends.run.plan import Plan

__all__ = ["check_parts"]


async def check_parts(
    plan: Plan, parts: Parts, folder: Path, *, thorough: bool = False, say: Callable[[Verdict], None] | None = None
) -> list[Verdict]:
    """Runs the guards on parts that are up and not used yet. Weights are synced once, under the trainer's version.

    Args:
        folder: Of the run, for the room on its disk.
        thorough: With `check_samples` and `check_tokens` instead of the few of a start.
        say: Gets every verdict as it falls.
    """
    own = plan.guards
    deadline = Deadline.after(own.timeout_s, "the time for the guards")
    out: list[Verdict] = []

    def add(*verdicts: Verdict) -> None:
        for verdict in verdicts:
            out.append(verdict)
            if say is not None:
                say(verdict)

    try:
        urls = parts.engines.urls
        policy = plan.policy
        agree = await tokens(
            tokenizer=plan.tokenizer,
            renderer=policy.renderer,
            options=policy.renderer_options,
            model=plan.model_folder,
            urls=urls,
            deadline=deadline,
        )
        add(agree)
        arrived, metrics = await weights(parts.engines, parts.trainer, deadline)
        add(arrived)
        if metrics:
            add(_room(plan, parts.engines, folder, metrics["bytes"]) if "bytes" in metrics else _unknown_room())
        if metrics and agree.status is not Status.FAILED:
            count = max(own.check_samples if thorough else own.samples, len(urls))
            rendering = shared_renderer(plan.tokenizer, policy.renderer, policy.renderer_options)
            key = os.environ.get(policy.api_key_env) if policy.api_key_env else None
            found = await sampling(
                urls,
                parts.trainer,
                prompts(rendering, count),
                tokens=own.check_tokens if thorough else own.tokens,
                temperature=plan.loop.temperature,
                gate=own.gap,
                stops=sorted(rendering.stop_ids),
                api_key=key,
                deadline=deadline,
            )
            add(*found)
            found_routes = await routing(
                parts.engines, parts.trainer, prompts(rendering, len(urls)), gate=own.routing, deadline=deadline
            )
            add(*([] if found_routes is None else [found_routes]))
    except DeadlineExceeded as error:
        add(Verdict("time", Status.FAILED, f"the guards were not through in time: {error}"))
    except EnvkitError as error:
        add(Verdict("guards", Status.FAILED, str(error)))
    return out


def _room(plan: Plan, engines: Any, folder: Path, sent: float) -> Verdict:
    transfer = getattr(engines, "transfer_folder", None)
    dtype = getattr(engines, "weights_dtype", None)
    return disk(folder, sent_bytes=sent, dtype=dtype, keep=plan.loop.checkpoint.keep, transfer=transfer)


def _unknown_room() -> Verdict:
    return Verdict("disk", Status.SKIPPED, "these engines do not say how large the weights are")
