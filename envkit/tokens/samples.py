"""An export on disk: `samples.safetensors` beside a trace, so that whoever trains need not read the trace again.

The process that sampled writes it when its trace is finished; the one that trains reads arrays and a little JSON,
in time that does not depend on what was said. Reading checks the export's invariants anew. Used by the token policy
(option `samples`) and by `envkit.trial.rollouts`.
"""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from envkit.regular_file import read_regular
from envkit.tokens.export import Export, Sample, check
from envkit.tokens.trace import TraceError

__all__ = ["SAMPLES", "read_samples", "write_samples"]

SAMPLES = "samples.safetensors"

_VERSION = 1


def write_samples(folder: Path, out: Export) -> Path:
    """Writes an export whole or not at all; returns the file."""
    path = folder / SAMPLES
    arrays = {
        name: np.concatenate([getattr(s, name) for s in out.samples]) if out.samples else np.empty(0, kind)
        for name, kind in (("ids", np.int32), ("mask", np.bool_), ("logprobs", np.float32), ("versions", np.int32))
    }
    about = {
        "version": _VERSION,
        "sampled": out.sampled,
        "dropped": out.dropped,
        "samples": [
            {
                "tokens": len(s.ids),
                "thread": s.thread,
                "nodes": list(s.nodes),
                "finish": s.finish,
                "spans": [list(span) for span in s.spans],
            }
            for s in out.samples
        ],
    }
    data = save_arrays(arrays, {"json": json.dumps(about, ensure_ascii=False)})
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def read_samples(folder: Path) -> Export:
    """Reads what `write_samples` wrote.

    Raises:
        TraceError: There is none, it is damaged, or an invariant of the export does not hold.
    """
    path = folder / SAMPLES
    try:
        data = read_regular(path)
    except FileNotFoundError:
        raise TraceError(f"no samples in {folder}: expected {SAMPLES}") from None
    except OSError as error:
        raise TraceError(f"{path} can't be read: {error}") from error
    try:
        about = _about(data)
        arrays = load_arrays(data)
        if about["version"] != _VERSION:
            raise TraceError(f"{path}: expected version {_VERSION}, found {about['version']!r}; update envkit")
        samples: list[Sample] = []
        at = 0
        for entry in about["samples"]:
            part = slice(at, at + entry["tokens"])
            at = part.stop
            samples.append(
                Sample(
                    ids=arrays["ids"][part],
                    mask=arrays["mask"][part],
                    logprobs=arrays["logprobs"][part],
                    versions=arrays["versions"][part],
                    thread=entry["thread"],
                    nodes=tuple(entry["nodes"]),
                    finish=entry["finish"],
                    spans=tuple((int(n), int(a), int(b)) for n, a, b in entry["spans"]),
                )
            )
        lengths = {len(array) for array in arrays.values()}
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError, struct.error) as error:
        raise TraceError(f"{path} is damaged: {error!r}") from error
    if lengths != {at}:
        raise TraceError(f"{path}: its arrays hold {sorted(lengths)} tokens, its samples account for {at}")
    delivered = sum(int(s.mask.sum()) for s in samples)
    out = Export(samples=tuple(samples), sampled=about["sampled"], delivered=delivered, dropped=about["dropped"])
    check(out)
    return out


def _about(data: bytes) -> dict[str, Any]:
    """The JSON in a safetensors document's metadata."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    out: dict[str, Any] = json.loads(header["__metadata__"]["json"])
    return out
