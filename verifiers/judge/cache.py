"""Votes kept by content: the same question, about the same work, to the same model, is asked once.

A file per vote, written beside its place and linked into it, so that it is whole or not there, and of two processes
that ask at the same time the first one's answer stands for both. Nothing in it but the vote: no key, no prompt. The
whole folder may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

__all__ = ["Vote", "VoteCache", "content_key"]

_MAX_BYTES = 1 << 20


class Vote(BaseModel):
    """One vote and what it cost.

    Attributes:
        score: 1 = pass, 0 = fail, or between.
        cached: It was found in the cache: then nothing was spent now, and the figures are those of its making.
        requests: Requests sent for it, those that failed included.
        cost_usd: None where neither the endpoint nor a price table says.
        model: As the endpoint named it.
        key: The label of the key that got the answer (a variable's name or a line of a file).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    score: float = Field(ge=0, le=1)
    rationale: str = ""
    cached: bool = False
    requests: int = Field(default=1, ge=0)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    model: str = ""
    key: str = ""


def content_key(parts: Any) -> str:
    """The name of a question: a digest of JSON-shaped parts."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class VoteCache:
    """Votes on disk, below `folder`, created when first written to. Safe across threads and processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str, number: int) -> Vote | None:
        """The vote of this number on a question, if it was cast before. What can't be read was not."""
        try:
            with self._place(key, number).open("rb") as file:
                data = file.read(_MAX_BYTES)
            vote = Vote.model_validate_json(data)
        except (OSError, ValidationError, ValueError):
            return None
        return vote.model_copy(update={"cached": True})

    def put(self, key: str, number: int, vote: Vote) -> Vote:
        """Keeps a vote; returns the one that stands, which is another process's where that was faster. Where nothing
        can be written (a full disk), the vote is returned as it is: a cache decides nothing."""
        place = self._place(key, number)
        data = vote.model_copy(update={"cached": False}).model_dump_json().encode()
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            descriptor, draft = tempfile.mkstemp(prefix=".vote-", dir=place.parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                try:
                    os.link(draft, place)
                except FileExistsError:
                    standing = self.get(key, number)
                    if standing is not None:
                        return standing
                    os.replace(draft, place)  # what stands there can't be read
                    return vote
            finally:
                Path(draft).unlink(missing_ok=True)
        except OSError:
            return vote
        return vote

    def _place(self, key: str, number: int) -> Path:
        return self._folder / key[:2] / f"{key}-{number}.json"
