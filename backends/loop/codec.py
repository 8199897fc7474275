"""A finished rollout as bytes and back, the same to the bit: what the experience buffer keeps.

    "EKR1"  header length (u32)  header (JSON)  arrays  BLAKE2b-128 of everything before

Office trajectories are mostly tool results, so what exists only for sampled tokens is kept only for them: per token 4
bytes (ids) and a bit (mask), per sampled token 4 bytes more (logprob); versions as runs. A file that is cut or changed
anywhere is `Damaged`, never a rollout. Used by the buffer and by tests.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np

from envkit.backend import Rollout, RolloutRequest
from envkit.failure import EnvkitError, Failure
from envkit.messages import StopReason
from envkit.tokens.export import Sample

__all__ = ["Damaged", "decode", "digest_of", "encode"]

MAGIC = b"EKR1"
DIGEST_BYTES = 16


class Damaged(EnvkitError):
    """Bytes that are not a whole rollout of ours."""


def digest_of(data: bytes) -> str:
    """The digest that `encode` put at the end."""
    return data[-DIGEST_BYTES:].hex()


def encode(rollout: Rollout) -> bytes:
    """The rollout as bytes. Lossless, given the export's invariants (no logprob and version -1 outside the mask)."""
    arrays: list[bytes] = []
    header = _about(rollout)
    header["samples"] = [_pack(sample, arrays) for sample in rollout.samples]
    text = json.dumps(header, separators=(",", ":")).encode()
    body = b"".join([MAGIC, struct.pack("<I", len(text)), text, *arrays])
    return body + hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()


def decode(data: bytes) -> Rollout:
    """The rollout that `encode` was given.

    Raises:
        Damaged: It is not whole.
    """
    body, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    if body[: len(MAGIC)] != MAGIC or hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest() != digest:
        raise Damaged(f"{len(data)} bytes that are no whole rollout: the digest does not match")
    (length,) = struct.unpack_from("<I", body, len(MAGIC))
    start = len(MAGIC) + 4
    header = json.loads(body[start : start + length])
    at = start + length
    samples = []
    for about in header.pop("samples"):
        sample, at = _unpack(about, body, at)
        samples.append(sample)
    return _rollout(header, tuple(samples))


def _about(rollout: Rollout) -> dict[str, Any]:
    request = rollout.request
    return {
        "request": {
            "task": request.task,
            "group": request.group,
            "attempt": request.attempt,
            "seed": request.seed,
            "version": request.version,
            "engine_urls": list(request.engine_urls),
            "train": request.train,
        },
        "reward": rollout.reward,
        "stop": None if rollout.stop is None else rollout.stop.value,
        "failure": None if rollout.failure is None else rollout.failure.model_dump(mode="json"),
        "sampled_tokens": rollout.sampled_tokens,
        "dropped": dict(rollout.dropped),
        "context_tokens": rollout.context_tokens,
        "started_s": rollout.started_s,
        "finished_s": rollout.finished_s,
        "metrics": {name: float(value) for name, value in rollout.metrics.items()},
        "signals": {name: list(nodes.items()) for name, nodes in rollout.signals.items()},
        "folder": rollout.folder,
    }


def _rollout(header: dict[str, Any], samples: tuple[Sample, ...]) -> Rollout:
    request = header.pop("request")
    request["engine_urls"] = tuple(request["engine_urls"])
    stop, failure = header.pop("stop"), header.pop("failure")
    signals = {name: {node: amount for node, amount in nodes} for name, nodes in header.pop("signals", {}).items()}
    return Rollout(
        request=RolloutRequest(**request),
        stop=None if stop is None else StopReason(stop),
        failure=None if failure is None else Failure.model_validate(failure),
        samples=samples,
        signals=signals,
        **header,
    )


def _pack(sample: Sample, arrays: list[bytes]) -> dict[str, Any]:
    versions = np.asarray(sample.versions, np.int32)[sample.mask]
    edges = np.flatnonzero(np.diff(versions)) + 1
    bounds = np.concatenate([[0], edges, [len(versions)]]).astype(np.int64)
    runs = np.diff(bounds)
    arrays += [
        np.ascontiguousarray(sample.ids, np.int32).tobytes(),
        np.packbits(sample.mask).tobytes(),
        np.asarray(sample.logprobs, np.float32)[sample.mask].tobytes(),
    ]
    return {
        "n": len(sample.ids),
        "sampled": len(versions),
        "runs": [[int(versions[start]), int(n)] for start, n in zip(bounds[:-1], runs, strict=True) if n],
        "thread": sample.thread,
        "nodes": list(sample.nodes),
        "finish": sample.finish,
        "spans": [list(span) for span in sample.spans],
    }


def _unpack(about: dict[str, Any], body: bytes, at: int) -> tuple[Sample, int]:
    n, sampled = about["n"], about["sampled"]
    ids = np.frombuffer(body, np.int32, n, at)
    at += 4 * n
    packed = np.frombuffer(body, np.uint8, (n + 7) // 8, at)
    at += len(packed)
    mask = np.unpackbits(packed, count=n).view(np.bool_)
    logprobs = np.zeros(n, np.float32)
    logprobs[mask] = np.frombuffer(body, np.float32, sampled, at)
    at += 4 * sampled
    versions = np.full(n, -1, np.int32)
    if about["runs"]:
        values, counts = zip(*about["runs"], strict=True)
        versions[mask] = np.repeat(np.asarray(values, np.int32), counts)
    sample = Sample(
        ids=ids,
        mask=mask,
        logprobs=logprobs,
        versions=versions,
        thread=about["thread"],
        nodes=tuple(about["nodes"]),
        finish=about["finish"],
        spans=tuple((node, start, end) for node, start, end in about["spans"]),
    )
    return sample, at
