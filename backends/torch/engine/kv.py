"""Keys and values: the arena of running sequences, and the stash of finished ones that later prompts begin with.

The arena holds one row per running sequence, running rows always first, so that a step works on views and copies
nothing. It is handed to the Hugging Face model as its cache. The stash keeps finished sequences up to a budget of
tokens; a prompt that begins like one of them starts from its keys and values instead of computing them again.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from envkit.tokens.trace import IntArray

__all__ = ["Arena", "Stash", "free_tokens"]

_GROW = 256  # tokens; rows grow in steps of this, so that a growing batch is copied seldom


def free_tokens(model: Any, config: Any) -> int:
    """How many tokens' keys and values a quarter of the memory holds that is free on the model's device."""
    heads = int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
    size = int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
    weights = next(model.parameters())
    token_bytes = int(config.num_hidden_layers) * heads * size * 2 * weights.element_size()
    if weights.device.type == "cuda":
        free = int(torch.cuda.mem_get_info(weights.device)[0])
    else:
        free = _free_bytes()
    tokens: int = free // 4 // token_bytes
    return max(_GROW * 2, tokens)


def _free_bytes() -> int:
    """Memory that this process may still have: the machine's, or its container's where that is less."""
    amounts: list[int] = []
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        line = next(x for x in Path("/proc/meminfo").read_text().splitlines() if x.startswith("MemAvailable"))
        amounts.append(int(line.split()[1]) * 1024)
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            amounts.append(max(0, int(Path(limit).read_text()) - int(Path(used).read_text())))
    return min(amounts, default=2 << 30)


class Arena:
    """One step's view of the cache: which rows, where their new tokens go, how far back they look.

    Shape of each buffer: (rows, key-value heads, capacity, head size). Buffers are made when the first layer writes.
    """

    is_compileable = False

    def __init__(self) -> None:
        self.rows = 0
        self.capacity = 0
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        self._first = 0
        self._batch = 0
        self._length = 0
        self._at: tuple[torch.Tensor, torch.Tensor] | None = None
        self._pick: tuple[torch.Tensor, torch.Tensor] | None = None
        self._straight: int | None = None

    def reserve(self, rows: int, tokens: int) -> None:
        """Makes room for `rows` sequences of `tokens` tokens; contents stay."""
        if rows > self.rows or tokens > self.capacity:
            self.resize(max(self.rows, rows), max(self.capacity, tokens))

    @staticmethod
    def room(rows: int, tokens: int) -> int:
        """Tokens that an arena of this shape has room for, rounded up as it will be."""
        return rows * -(-tokens // _GROW) * _GROW

    def resize(self, rows: int, tokens: int) -> None:
        """Room for so much and no more; what is beyond is lost."""
        self.rows, self.capacity = rows, -(-tokens // _GROW) * _GROW
        for tensors in (self._keys, self._values):
            for layer, old in enumerate(tensors):  # one by one: the old ones are freed on the way
                new = old.new_zeros((self.rows, old.shape[1], self.capacity, old.shape[3]))
                r, t = min(self.rows, old.shape[0]), min(self.capacity, old.shape[2])
                new[:r, :, :t] = old[:r, :, :t]
                tensors[layer] = new

    def aim(
        self,
        first: int,
        batch: int,
        length: int,
        at: tuple[torch.Tensor, torch.Tensor],
        pick: tuple[torch.Tensor, torch.Tensor] | None,
        straight: int | None = None,
    ) -> None:
        """Says where the next forward pass writes and reads.

        Args:
            first, batch, length: The view: rows from `first`, `length` tokens back.
            at: Row and position of every new token.
            pick: Batch index and query index of every new token; None when each row has exactly one.
            straight: The position, when all rows write one token at the same one.
        """
        self._first, self._batch, self._length = first, batch, length
        self._at, self._pick, self._straight = at, pick, straight

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Called by the model's attention layers: stores the new tokens, gives all that they may look at."""
        if layer >= len(self._keys):
            shape = (self.rows, keys.shape[1], self.capacity)
            self._keys.append(keys.new_zeros((*shape, keys.shape[3])))
            self._values.append(values.new_zeros((*shape, values.shape[3])))
        k, v = self._keys[layer], self._values[layer]
        assert self._at is not None
        rows = slice(self._first, self._first + self._batch)
        if self._straight is not None:
            k[rows, :, self._straight] = keys[:, :, 0]
            v[rows, :, self._straight] = values[:, :, 0]
        elif self._pick is None:
            k[self._at[0], :, self._at[1]] = keys[:, :, 0]
            v[self._at[0], :, self._at[1]] = values[:, :, 0]
        else:
            b, q = self._pick
            k[self._at[0], :, self._at[1]] = keys[b, :, q]
            v[self._at[0], :, self._at[1]] = values[b, :, q]
        return k[rows, :, : self._length], v[rows, :, : self._length]

    # What the model asks when it makes its own mask; it does so only for steps in which every row looks at everything.

    def get_seq_length(self, layer: int = 0) -> int:
        return self._length - 1

    def get_query_offset(self, layer: int = 0) -> int:
        return self._length - 1

    def get_mask_sizes(self, query_length: Any, layer: int = 0) -> tuple[int, int]:
        return self._length, 0

    def copy_row(self, source: int, target: int, tokens: int) -> None:
        for t in (*self._keys, *self._values):
            t[target, :, :tokens] = t[source, :, :tokens]

    def read_row(self, row: int, tokens: int) -> list[torch.Tensor]:
        """A copy of a row's keys and values, for the stash."""
        return [t[row, :, :tokens].clone() for t in (*self._keys, *self._values)]

    def write_row(self, row: int, tensors: list[torch.Tensor], tokens: int) -> None:
        for t, saved in zip((*self._keys, *self._values), tensors, strict=True):
            t[row, :, :tokens] = saved[:, :tokens]


@dataclass(slots=True)
class _Saved:
    ids: IntArray
    salt: str
    tensors: list[torch.Tensor]


class Stash:
    """Finished sequences, least recently used first out.

    Args:
        budget_tokens: How many tokens' keys and values are kept.
    """

    def __init__(self, budget_tokens: int) -> None:
        self._budget = budget_tokens
        self._saved: OrderedDict[int, _Saved] = OrderedDict()
        self._next = 0
        self.tokens = 0

    def clear(self) -> None:
        self._saved.clear()
        self.tokens = 0

    def find(self, prompt: IntArray, salt: str) -> tuple[int, list[torch.Tensor]]:
        """How many of the prompt's first tokens are known, and their keys and values; never the whole prompt."""
        best, where = 0, None
        for number, saved in self._saved.items():
            if saved.salt == salt:
                n = shared_prefix(prompt, saved.ids)
                if n > best:
                    best, where = n, number
        best = min(best, len(prompt) - 1)
        if where is None or best < 1:
            return 0, []
        self._saved.move_to_end(where)
        return best, self._saved[where].tensors

    def put(self, ids: IntArray, salt: str, tensors: list[torch.Tensor]) -> None:
        """Keeps a finished sequence in place of those that it continues."""
        if not len(ids) or len(ids) > self._budget:
            return
        for number in [n for n, s in self._saved.items() if s.salt == salt and shared_prefix(ids, s.ids) == len(s.ids)]:
            self.tokens -= len(self._saved.pop(number).ids)
        self._saved[self._next] = _Saved(ids, salt, tensors)
        self._next += 1
        self.tokens += len(ids)
        while self.tokens > self._budget:
            self.tokens -= len(self._saved.popitem(last=False)[1].ids)


def shared_prefix(a: IntArray, b: IntArray) -> int:
    """Length of the common prefix."""
    n = min(len(a), len(b))
    if not n or a[0] != b[0]:
        return 0
    differ = np.flatnonzero(a[:n] != b[:n])
    return int(differ[0]) if len(differ) else n
