"""A trainer's logprobs of a trace's sampled tokens, kept beside it: `trainer.safetensors`.

What an engine sampled with and what a trainer computes for the same tokens should agree; where they don't, one wants to
see at which tokens. One float per sampled token, in the order of the trace's own logprobs; NaN for tokens that were not
scored. Written by `envkit tokens audit --keep`, read by the token view.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from envkit.regular_file import read_regular
from envkit.tokens.export import Export
from envkit.tokens.trace import FloatArray, IntArray, Trace, TraceError

__all__ = ["SCORED", "read_scored", "score_trace", "write_scored"]

SCORED = "trainer.safetensors"


def score_trace(
    trace: Trace, out: Export, score: Callable[[IntArray], FloatArray], *, version: int | None = None
) -> FloatArray:
    """The logprobs of all sampled tokens of a trace, in the order of its nodes, NaN where they train in no sample.

    Args:
        out: The trace's export.
        score: Gives, for a row of n ids, the n-1 logprobs of ids 1..n-1.
        version: Only tokens that this version sampled are scored; None for all.
    """
    starts: dict[int, int] = {}
    at = 0
    for node in trace:
        if node.sampling is not None:
            starts[node.index] = at
            at += len(node.ids)
    found = np.full(at, np.nan, np.float32)
    for sample in out.samples:
        wanted = sample.mask if version is None else sample.mask & (sample.versions == version)
        if not wanted[1:].any():
            continue
        row = np.concatenate([np.full(1, np.nan, np.float32), np.asarray(score(sample.ids), np.float32)])
        row[~wanted] = np.nan
        for node_index, start, end in sample.spans:
            end = min(end, len(row))
            found[starts[node_index] : starts[node_index] + end - start] = row[start:end]
    return found


def write_scored(folder: Path, logprobs: FloatArray, about: Mapping[str, Any]) -> Path:
    """Writes the file whole or not at all; `about` says which model gave them. Raises `OSError`."""
    path = folder / SCORED
    data = save_arrays({"logprobs": logprobs.astype(np.float32)}, {"json": json.dumps(dict(about))})
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def read_scored(folder: Path, trace: Trace) -> tuple[FloatArray, dict[str, Any]] | None:
    """The logprobs and what is said of them; None where there are none.

    Raises:
        TraceError: The file is damaged, or of another trace.
    """
    path = folder / SCORED
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TraceError(f"{path} can't be read: {error}") from error
    try:
        (length,) = struct.unpack_from("<Q", data)
        about = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["json"])
        logprobs = load_arrays(data)["logprobs"]
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError, struct.error) as error:
        raise TraceError(f"{path} is damaged: {error!r}") from error
    if len(logprobs) != trace.sampled_tokens:
        raise TraceError(
            f"{path} has {len(logprobs)} logprobs, the trace {trace.sampled_tokens} sampled tokens: "
            "it belongs to another trace; score it anew"
        )
    return logprobs, dict(about)
