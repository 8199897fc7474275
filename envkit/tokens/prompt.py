"""The prompt that an engine is sent: a path's tokens, with their JSON text kept beside them as they arrive.

A token endpoint takes the whole prompt on every turn. Building a list of 160,000 Python integers and serialising it
each time would make a turn cost what the history is long; so the digits of every token are written once, when the
token enters the path, and a request only copies bytes. Used by `conversation` and by `envkit.engine`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envkit.tokens.trace import IntArray, Trace, as_ids

__all__ = ["PromptIds"]


class PromptIds:
    """Token ids that only ever grow at the end."""

    __slots__ = ("_chunks", "_json", "_length")

    def __init__(self, ids: Sequence[int] | IntArray = ()) -> None:
        self._chunks: list[IntArray] = []
        self._json = bytearray()
        self._length = 0
        self.extend(ids)

    @classmethod
    def of_path(cls, trace: Trace, index: int) -> PromptIds:
        """The whole path to a node: linear in its length, hence for branches only."""
        out = cls()
        for node in trace.path(index):
            out.extend(node.ids)
        return out

    def extend(self, ids: Sequence[int] | IntArray) -> None:
        new = as_ids(ids)
        if not len(new):
            return
        if self._json:
            self._json += b","
        self._json += ",".join(map(str, new.tolist())).encode("ascii")
        self._chunks.append(new)
        self._length += len(new)

    def __len__(self) -> int:
        return self._length

    @property
    def json(self) -> bytes:
        """The ids as the text of a JSON array."""
        return b"".join((b"[", self._json, b"]"))

    def array(self) -> IntArray:
        if len(self._chunks) > 1:
            self._chunks = [np.concatenate(self._chunks)]
        return self._chunks[0] if self._chunks else np.empty(0, np.int32)
