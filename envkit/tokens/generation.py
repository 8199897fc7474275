"""One generation: how it was asked for, what came back, and the strict reading of an engine's answer.

Used by `envkit.engine` and by whatever else speaks to token endpoints. An answer that contradicts itself (ids and
logprobs of different length, tokens without a version, more tokens than asked for) is never repaired.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from envkit.tokens.trace import FloatArray, IntArray

__all__ = ["Generation", "SamplingParams", "read_generation"]

#: What engines call weights that nobody has named yet.
_UNLABELLED = {"", "default", "initial", "none"}


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
        if any(c.get("token_id", i) != i for c, i in zip(content, ids, strict=True)):
            raise ValueError("the logprobs belong to other tokens")
        logprobs = np.array([float(c["logprob"]) for c in content], np.float32)
        if len(logprobs) and (not np.isfinite(logprobs).all() or float(logprobs.max()) > 1e-3):
            raise ValueError("logprobs are not finite or above 0")
        if params.max_tokens is not None and len(ids) > params.max_tokens:
            raise ValueError(f"{len(ids)} tokens where at most {params.max_tokens} were asked for")
        if usage.get("prompt_tokens", prompt_tokens) != prompt_tokens:
            raise ValueError(f"the engine saw {usage['prompt_tokens']} prompt tokens, {prompt_tokens} were sent")
        versions = np.full(len(ids), -1 if spans else version, np.int32)
        for span in spans or ():
            versions[span["start"] : span["end"]] = _version(span["version"], initial_version)
        if (versions < 0).any():
            raise ValueError(f"{int((versions < 0).sum())} of {len(ids)} tokens have no weight version")
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        return Generation(
            ids=np.array(ids, np.int32),
            logprobs=logprobs,
            versions=versions,
            finish=finish,
            request_id=str(payload.get("request_id") or request_id),
            engine=engine,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _version(label: Any, initial: int) -> int:
    text = str(label if label is not None else "").lower()
    match = re.fullmatch(r"v?(\d{1,9})", text)
    if match:
        return int(match.group(1))
    if text in _UNLABELLED:
        return initial
    raise ValueError(f"expected an integer weight version such as 'v7', found {label!r}")
