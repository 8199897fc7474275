"""One generation: how it was asked for, what came back, and the strict reading of an engine's answer.

Used by `envkit.engine` and by whatever else speaks to token endpoints. An answer that contradicts itself (ids and
logprobs of different length, tokens without a version or with two, no token at all, more tokens than asked for) is
never repaired.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from envkit.messages import well_formed
from envkit.tokens.trace import FloatArray, IntArray

__all__ = ["Generation", "SamplingParams", "read_generation"]

#: What engines call weights that nobody has named yet.
_UNLABELLED = {"", "default", "initial", "none"}
#: Characters of what an engine calls things.
_NAME_CHARS = 200
#: No logprob comes near it; a float32 still holds it.
_LOWEST = 1e30


class SamplingParams(BaseModel):
    """How to sample. Training requires `top_p=1` and `top_k=0` (off): else logprobs are those of another policy.

    Attributes:
        max_tokens: Longest completion; None means what is left of the context (`TokenPolicy` works it out).
        stop_token_ids: Ids that end sampling beside the model's own; they are part of the completion.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=1.0, ge=0.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0)
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False

    @property
    def exact(self) -> bool:
        """Whether logprobs are those of the whole distribution, as training needs them."""
        return self.top_p == 1.0 and self.top_k == 0 and self.temperature > 0

    def wire(self) -> dict[str, Any]:
        """The fields as vLLM takes them; `logprobs: 0` asks for the sampled token's own."""
        return {**self.model_dump(exclude_none=True, mode="json"), "logprobs": 0}


@dataclass(frozen=True, slots=True)
class Generation:
    """What an engine sampled; the arrays run parallel.

    Attributes:
        finish: `stop`, `length`, `abort` (partial ids, kept all the same) or what else the engine says.
        waited_s: Seconds spent waiting for a place, for rate limits and between attempts: not working time.
        attempts: Requests sent until this one came back whole.
    """

    ids: IntArray
    logprobs: FloatArray
    versions: IntArray
    finish: str
    request_id: str
    engine: str
    prompt_tokens: int
    cached_tokens: int | None = None
    waited_s: float = 0.0
    attempts: int = 1


def read_generation(
    payload: Any,
    *,
    request_id: str,
    engine: str,
    prompt_tokens: int,
    params: SamplingParams,
    version: int,
    initial_version: int,
) -> Generation:
    """Reads the JSON of `POST /inference/v1/generate`.

    Args:
        version: The weights' version where the engine doesn't tell; `initial_version`: of weights nobody labelled.

    Raises:
        ValueError: The answer contradicts itself or the request; nothing of it may be used.
    """
    try:
        (choice,) = payload["choices"]
        ids = choice["token_ids"]
        content = (choice.get("logprobs") or {}).get("content") or []
        finish = choice["finish_reason"]
        usage = payload.get("usage") or {}
        spans = choice.get("weight_versions")
        if not isinstance(finish, str):
            raise ValueError(f"finish_reason is {finish!r}")
        if not all(type(i) is int and 0 <= i < 2**31 for i in ids):
            raise ValueError("token_ids are no token ids")
        if len(content) != len(ids):
            raise ValueError(f"{len(ids)} ids but {len(content)} logprobs")
        if not ids and finish not in ("abort", "error"):
            # A model samples one token at least, if only the one that ends its turn: this is no silent model.
            raise ValueError(f"no token at all, with finish_reason {finish!r}")
        if any(c.get("token_id", i) != i for c, i in zip(content, ids, strict=True)):
            raise ValueError("the logprobs belong to other tokens")
        logprobs = np.array([_logprob(c["logprob"]) for c in content], np.float64).astype(np.float32)
        if len(logprobs) and (not np.isfinite(logprobs).all() or float(logprobs.max()) > 1e-3):
            raise ValueError("logprobs are not finite or above 0")
        if params.max_tokens is not None and len(ids) > params.max_tokens:
            raise ValueError(f"{len(ids)} tokens where at most {params.max_tokens} were asked for")
        if usage.get("prompt_tokens", prompt_tokens) != prompt_tokens:
            raise ValueError(f"the engine saw {usage['prompt_tokens']} prompt tokens, {prompt_tokens} were sent")
        versions = _versions(spans, len(ids), version, initial_version)
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        return Generation(
            ids=np.array(ids, np.int32),
            logprobs=logprobs,
            versions=versions,
            finish=well_formed(finish)[:_NAME_CHARS],
            request_id=well_formed(str(payload.get("request_id") or request_id))[:_NAME_CHARS],
            engine=engine,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached if type(cached) is int and 0 <= cached <= prompt_tokens else None,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}{_said(payload)}") from error


def _logprob(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a logprob is {str(value)[:40]!r}")
    if not -_LOWEST < value < _LOWEST:  # NaN, too; and a whole number that no float holds
        raise ValueError("logprobs are not finite or above 0")
    return float(value)


def _versions(spans: Any, count: int, version: int, initial: int) -> IntArray:
    """The version of each token. An engine that says nothing of versions is taken to have the one that is known."""
    if spans is None or spans == []:
        return np.full(count, version, np.int32)
    if not isinstance(spans, list):
        raise ValueError(f"weight_versions is {str(spans)[:80]!r}, expected a list of spans")
    versions = np.full(count, -1, np.int32)
    for span in spans:
        start, end = span["start"], span["end"]
        if type(start) is not int or type(end) is not int or not 0 <= start <= end:
            raise ValueError(f"a span of weight versions goes from {str(start)[:40]} to {str(end)[:40]}")
        if (versions[start:end] >= 0).any():
            raise ValueError(f"token {start} or one behind it has two weight versions")
        versions[start:end] = _version(span["version"], initial)
    if (versions < 0).any():
        raise ValueError(f"{int((versions < 0).sum())} of {count} tokens have no weight version")
    return versions


def _said(payload: Any) -> str:
    """What an answer that is an error says, for a message."""
    error = payload.get("error") or payload.get("detail") if isinstance(payload, dict) else None
    if isinstance(error, dict):
        error = error.get("message") or error
    return f"; the engine says: {well_formed(str(error))[:300]}" if error else ""


def _version(label: Any, initial: int) -> int:
    text = str(label if label is not None else "").lower()
    match = re.fullmatch(r"v?(\d{1,9})", text)
    if match:
        return int(match.group(1))
    if text in _UNLABELLED:
        return initial
    raise ValueError(f"expected an integer weight version such as 'v7', found {label!r}")
