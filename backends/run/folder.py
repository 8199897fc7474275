"""A training run's folder: the plan it was started with, and whether another plan may go on in it.

    run/
      plan.toml, plan.json    the resolved plan of the newest life; the TOML can be run again
      job.lock                held by the run and its trials' processes while any of them lives
      metrics.jsonl, groups.jsonl, report.html, tensorboard/     what was watched
      checkpoints/, buffer/   the loop's
      evaluations/            a line per trial of every evaluation
      trials/                 files of the rollouts that are kept

What decides what is learnt can't change between lives; how long, how closely watched and how patiently can. Secrets in
options are scrubbed from what is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit

from envkit.backends.run.plan import Plan
from envkit.failure import UserError
from envkit.trial import secrets
from envkit.trial.store import json_text, write_atomic

__all__ = ["claim", "plan_toml"]

#: What a resumed run may be told anew: these keys, and everything below them.
_FREE = (
    "loop.steps",
    "loop.admission",
    "loop.checkpoint",
    "loop.deadline",
    "loop.retry",
    "evaluation",
    "watching",
    "trial",
    "batch",
    "engines",
    "guards",
    "policy.request_timeout_s",
    "ray",
    # Of a trainer, how and where it computes, never what: checkpoints are read in any layout.
    *(f"trainer.{key}" for key in ("ray", "world", "layout", "threads", "recompute", "gradient_checkpointing")),
    *(f"trainer.{key}" for key in ("optimizer_offload", "logprob_chunk", "share_prefixes", "hf_checkpoints")),
    *(f"trainer.{key}" for key in ("bucket_mb", "fingerprints", "restarts", "start_timeout_s", "collective_timeout_s")),
)


def plan_toml(plan: Plan) -> str:
    """The resolved plan as TOML; what is not set at all (null) is left out."""
    return tomlkit.dumps(plan.model_dump(mode="json", exclude_none=True))


def claim(folder: Path, plan: Plan) -> bool:
    """Writes the plan into the folder; returns whether a run is resumed there.

    Raises:
        UserError: The folder holds a run with another plan (the difference is named), or something else.
    """
    path = folder / "plan.json"
    clean = secrets.scrubber(plan.harness.options, plan.sandbox.options).scrub_text
    written = clean(json_text(plan.model_dump(mode="json")))
    now = json.loads(written)
    try:
        before = json.loads(path.read_bytes())
    except FileNotFoundError:
        if (folder / "job.json").exists() or (folder / "checkpoints").exists():
            raise UserError(
                f"{folder} holds something else than a training run with a plan: use another folder"
            ) from None
        before = None
    except ValueError as error:
        raise UserError(
            f"{path} is damaged ({error}): without it this run can't be resumed; use another folder"
        ) from None
    if before is not None:
        changed = [
            f"{key}: there {_shown(old)}, here {_shown(new)}"
            for key, old, new in _differences(before, now)
            if not any(key == free or key.startswith(f"{free}.") for free in _FREE)
        ]
        if changed:
            more = f", and {len(changed) - 5} more" if len(changed) > 5 else ""
            raise UserError(
                f"{folder} was started with another plan: {'; '.join(changed[:5])}{more}. Resume with the plan it was "
                f"started with ({folder / 'plan.toml'}), or use another folder"
            )
    write_atomic(folder / "plan.toml", clean(plan_toml(plan)))
    write_atomic(path, written)
    return before is not None


def _differences(old: Any, new: Any, place: str = "") -> list[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if old.get("name") != new.get("name"):  # another loss, another harness: its parameters are others anyway
            return [(f"{place}.name", old.get("name"), new.get("name"))]
        keys = dict.fromkeys([*old, *new])
        return [
            found
            for key in keys
            for found in _differences(old.get(key), new.get(key), f"{place}.{key}" if place else str(key))
        ]
    return [] if old == new else [(place, old, new)]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
