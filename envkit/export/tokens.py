"""Token rows of a trial: ids, mask, logprobs and versions exactly as sampled, in the shapes of other trainers.

A row is one sample of the trace's export: every sampled token of a trial is in exactly one row, or counted as dropped
with a reason. Shapes: `tinker` (a `Datum`: inputs shifted by one against targets, with logprobs, advantages and mask),
`trl` (what a rollout function hands to TRL's GRPO: prompt and completion ids, logprobs, and `env_mask`, 0 where the
environment spoke), `trl-sft` (`input_ids` with `assistant_masks`). Parquet has its own module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from envkit.export.trials import StoredTrial
from envkit.tokens.export import Export, Sample, export
from envkit.tokens.store import read_trace

__all__ = ["SHAPES", "TokenRow", "TokenRows", "tinker_row", "trl_row", "trl_sft_row"]


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One row.

    Attributes:
        number: Counts the trial's rows, from 0; `rows` is how many it has.
        temperature: Of sampling, which the logprobs are taken at; None where the trace does not say.
        advantage: The trial's, relative to the scored trials of its group; None where it has no reward.
    """

    trial: StoredTrial
    number: int
    rows: int
    sample: Sample
    temperature: float | None
    advantage: float | None = None


@dataclass(slots=True)
class TokenRows:
    """Makes the rows of trials, and keeps the books over all of them.

    Args:
        max_tokens: Longest row; sampled tokens behind it are dropped.
        advantages: By trial id.
    """

    max_tokens: int | None = None
    advantages: Mapping[str, float] = field(default_factory=dict)
    sampled: int = 0
    delivered: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    def of(self, trial: StoredTrial) -> Iterator[TokenRow]:
        """The rows of one trial.

        Raises:
            TraceError: A trace contradicts itself, or an invariant of its export does not hold.
        """
        made: list[tuple[Sample, float | None]] = []
        outs: list[Export] = []
        for folder in trial.traces():
            trace = read_trace(folder)
            out = export(trace, max_tokens=self.max_tokens)
            heat = trace.meta.get("temperature")
            made += [(sample, float(heat) if heat is not None else None) for sample in out.samples]
            outs.append(out)
        for out in outs:  # all are sound: a trial that is left out is in no book
            self.sampled += out.sampled
            self.delivered += out.delivered
            for reason, count in out.dropped.items():
                self.dropped[reason] = self.dropped.get(reason, 0) + count
        for number, (sample, heat) in enumerate(made):
            yield TokenRow(trial, number, len(made), sample, heat, self.advantages.get(trial.id))


def tinker_row(row: TokenRow) -> dict[str, Any]:
    """A `tinker.Datum` as JSON, for its `importance_sampling` and `ppo` losses (`cross_entropy` takes `mask` as its
    `weights`). Position t of every array belongs to the target t + 1 of the sequence."""
    sample = row.sample
    mask = sample.mask[1:]
    advantage = 0.0 if row.advantage is None else row.advantage
    floats = {
        "logprobs": sample.logprobs[1:],
        "advantages": np.where(mask, np.float32(advantage), np.float32(0)),
        "mask": mask.astype(np.float32),
    }
    return {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": sample.ids[:-1].tolist()}]},
        "loss_fn_inputs": {
            "target_tokens": _tensor(sample.ids[1:], "int64"),
            **{name: _tensor(array, "float32") for name, array in floats.items()},
        },
        "metadata": _facts(row),
    }


def trl_row(row: TokenRow) -> dict[str, Any]:
    """What TRL's GRPO trainer takes from a rollout function, for one completion."""
    sample = row.sample
    begin = int(np.flatnonzero(sample.mask)[0])
    return {
        "prompt_ids": sample.ids[:begin].tolist(),
        "completion_ids": sample.ids[begin:].tolist(),
        "logprobs": sample.logprobs[begin:].astype(float).tolist(),
        "env_mask": sample.mask[begin:].astype(int).tolist(),
        "reward": row.trial.reward,
        "metadata": _facts(row),
    }


def trl_sft_row(row: TokenRow) -> dict[str, Any]:
    """What TRL's SFT trainer takes as an already tokenised row, with `assistant_only_loss`."""
    sample = row.sample
    return {
        "input_ids": sample.ids.tolist(),
        "assistant_masks": sample.mask.astype(int).tolist(),
        "metadata": _facts(row),
    }


SHAPES = {"tinker": tinker_row, "trl": trl_row, "trl-sft": trl_sft_row}


def _tensor(array: np.ndarray[Any, Any], dtype: str) -> dict[str, Any]:
    data = array.astype(float).tolist() if dtype == "float32" else array.tolist()
    return {"data": data, "dtype": dtype, "shape": [len(array)]}


def _facts(row: TokenRow) -> dict[str, Any]:
    trial = row.trial
    return {
        "trial": trial.id,
        "task": trial.task,
        "group": trial.group,
        "sample": trial.sample,
        "row": row.number,
        "rows": row.rows,
        "thread": row.sample.thread,
        "finish": row.sample.finish,
        "temperature": row.temperature,
        "reward": trial.reward,
        "status": trial.status.value,
        "stop": trial.stop,
        "model": trial.model,
        "version_first": int(row.sample.versions[row.sample.mask].min()),
        "version_last": int(row.sample.versions[row.sample.mask].max()),
    }
