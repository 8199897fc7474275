"""Continuous batching over a Hugging Face causal LM: requests join and leave between any two steps.

`TokenLoop` is a plain state machine: `add` and `abort` put work in, `step` does one forward pass (a chunk of prompts,
or one token for every sequence that is past its prompt) and reports what finished. It knows no threads and no network;
`server` drives it. Rows that sample come first in the arena, rows that still read their prompt behind them, so that
both kinds of step work on views. New weights may come between any two steps: every token keeps the version it was
sampled under, and with a cleared cache running sequences read their past again under the new weights.
"""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from envkit.backends.torch.engine.kv import Arena, Stash, free_tokens, shared_prefix
from envkit.backends.torch.engine.sampling import Wishes, draw
from envkit.tokens.generation import SamplingParams
from envkit.tokens.trace import IntArray

__all__ = ["Done", "Request", "TokenLoop"]


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt to continue. `salt` separates cached prefixes that must not mix."""

    id: str
    prompt: IntArray
    params: SamplingParams
    salt: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """A finished request: `spans` are (version, start, end) over the sampled ids."""

    id: str
    ids: list[int]
    logprobs: list[float]
    spans: list[tuple[int, int, int]]
    finish: str
    cached_tokens: int


@dataclass(slots=True)
class _Row:
    request: Request
    wishes: Wishes
    stops: frozenset[int]
    limit: int
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    spans: list[list[int]] = field(default_factory=list)
    known: int = 0  # tokens whose keys and values are in the arena
    cached: int = 0
    finish: str | None = None

    @property
    def length(self) -> int:
        return len(self.request.prompt) + len(self.ids)

    def tokens(self, start: int, end: int) -> list[int]:
        n = len(self.request.prompt)
        return [*self.request.prompt[start:end].tolist(), *self.ids[max(0, start - n) : max(0, end - n)]]

    def token(self, at: int) -> int:
        n = len(self.request.prompt)
        return int(self.request.prompt[at]) if at < n else self.ids[at - n]

    def everything(self, n: int) -> IntArray:
        return np.array(self.tokens(0, n), np.int32)

    def done(self) -> Done:
        spans = [(v, a, b) for v, a, b in self.spans]
        return Done(self.request.id, self.ids, self.logprobs, spans, self.finish or "abort", self.cached)


class TokenLoop:
    """Samples from one model.

    Args:
        model: A causal LM in eval mode with full attention in every layer.
        max_rows: Sequences at a time.
        chunk_tokens: Prompt tokens of one step, over all rows.
        max_model_len: Longest sequence; None for the model's own limit.
        stash_tokens: Budget of the prefix cache.
        kv_tokens: Room for running sequences' keys and values, in tokens (rows times the longest); None for a quarter
            of the memory that is free now. What has no room waits; sequences that outgrow it take turns.
    """

    def __init__(
        self,
        model: Any,
        *,
        max_rows: int = 64,
        chunk_tokens: int = 2048,
        max_model_len: int | None = None,
        stash_tokens: int = 262_144,
        kv_tokens: int | None = None,
        version: int = 0,
    ) -> None:
        config = model.config.get_text_config()
        if any(t != "full_attention" for t in getattr(config, "layer_types", None) or []):
            raise ValueError("the embedded engine needs full attention in every layer; use vLLM for this model")
        self._model = model.eval()
        self._device = next(model.parameters()).device
        self.vocabulary = int(config.vocab_size)
        own = int(getattr(config, "max_position_embeddings", 0) or 2**20)
        self._room = kv_tokens or free_tokens(model, config)
        most = self._room // 2  # a sequence and a spare row, to change places
        if most < 2:
            raise ValueError(f"expected room for a sequence (kv_tokens of 512 or more), found {self._room}")
        self.max_model_len = min(max_model_len or own, own, most)
        eos = getattr(model, "generation_config", None)
        eos_id = getattr(eos, "eos_token_id", None) if eos is not None else None
        eos_id = config.eos_token_id if eos_id is None else eos_id
        self._eos = frozenset([] if eos_id is None else [eos_id] if isinstance(eos_id, int) else eos_id)
        self._cache_name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        self._max_rows = max_rows
        self._chunk = chunk_tokens
        self._arena = Arena()
        self._stash = Stash(min(stash_tokens, self._room))
        self._parked: deque[_Row] = deque()  # begun, and out of room for now
        self._waiting: deque[Request] = deque()
        self._aborted: list[Done] = []
        self._rows: list[_Row] = []
        self._ready = 0  # rows before this one sample, those from here on read their prompt
        self.version = version

    # ---- putting work in ----------------------------------------------------------------------------------------

    def check(self, prompt: npt.NDArray[np.signedinteger[Any]]) -> None:
        """Raises `ValueError` for a prompt that can't be continued."""
        if not len(prompt):
            raise ValueError("token_ids must not be empty")
        if int(prompt.min()) < 0 or int(prompt.max()) >= self.vocabulary:
            raise ValueError(f"token_ids out of vocabulary: must lie in 0..{self.vocabulary - 1}")
        if len(prompt) >= self.max_model_len:
            raise ValueError(f"the prompt has {len(prompt)} tokens; the longest sequence is {self.max_model_len}")

    def add(self, request: Request) -> None:
        self.check(request.prompt)
        self._waiting.append(request)

    def abort(self, ids: set[str] | None) -> None:
        """Ends requests (None: all) with what they have; `step` reports them."""
        for row in (*self._rows, *self._parked):
            if ids is None or row.request.id in ids:
                row.finish = row.finish or "abort"
        kept: deque[Request] = deque()
        for request in self._waiting:
            if ids is None or request.id in ids:
                self._aborted.append(Done(request.id, [], [], [], "abort", 0))
            else:
                kept.append(request)
        self._waiting = kept

    @property
    def busy(self) -> bool:
        return bool(self._rows or self._waiting or self._parked or self._aborted)

    @property
    def running(self) -> int:
        return len(self._rows)

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._parked)

    def load(self, weights: Mapping[str, torch.Tensor], version: int, *, clear_cache: bool = True) -> None:
        """Replaces weights by name between two steps, all or none.

        Raises:
            KeyError: The model has no weight of a name.
            RuntimeError: A weight has another shape.
        """
        own = dict(self._model.named_parameters(remove_duplicate=False)) | dict(self._model.named_buffers())
        unknown = sorted(set(weights) - set(own))
        if unknown:
            raise KeyError(f"the model has no weights named {unknown[:3]}")
        wrong = sorted(name for name, tensor in weights.items() if tensor.shape != own[name].shape)
        if wrong:
            shapes = f"{list(weights[wrong[0]].shape)}, not {list(own[wrong[0]].shape)}"
            raise RuntimeError(f"{len(wrong)} weights have other shapes than the model's, such as {wrong[0]}: {shapes}")
        with torch.no_grad():
            for name, tensor in weights.items():
                own[name].copy_(tensor)
        self.version = version
        if clear_cache:
            self.clear_cache()

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every tensor as it is sampled with, by name; a tied one under each of its names."""
        yield from self._model.named_parameters(remove_duplicate=False)

    def clear_cache(self) -> None:
        """Forgets all keys and values; running sequences read their past again."""
        self._stash.clear()
        for row in self._rows:
            row.known = 0
        self._ready = 0

    def collect(self) -> list[Done]:
        """The requests that ended since the last step (by `abort`), without a step."""
        with torch.inference_mode():
            done, self._aborted = self._aborted, []
            return done + self._leave()

    # ---- one step -----------------------------------------------------------------------------------------------

    def step(self) -> list[Done]:
        """One forward pass (two where prompts end). Gives the requests that ended."""
        with torch.inference_mode():
            self._park()
            self._admit()
            done, self._aborted = self._aborted, []
            done += self._leave()
            if self._ready < len(self._rows):
                self._read_prompts()
            if self._ready:
                self._sample()
            return done + self._leave()

    def _admit(self) -> None:
        while (self._parked or self._waiting) and len(self._rows) < self._max_rows:
            length = self._parked[0].length if self._parked else len(self._waiting[0].prompt)
            if self._rows and not self._fits(len(self._rows) + 1, length + 1):
                return
            row = self._parked.popleft() if self._parked else self._begin(self._waiting.popleft())
            index = len(self._rows)
            self._make_room(max(index + 1, min(2 * index, self._max_rows)), index + 1, length + 1)
            self._reuse(row, index)
            self._rows.append(row)

    def _begin(self, request: Request) -> _Row:
        p = request.params
        room = self.max_model_len - len(request.prompt)
        return _Row(
            request,
            Wishes.of(p, self._device),
            frozenset(p.stop_token_ids) | (frozenset() if p.ignore_eos else self._eos),
            min(p.max_tokens or room, room),
        )

    # ---- room ---------------------------------------------------------------------------------------------------

    def _fits(self, rows: int, tokens: int) -> bool:
        """Whether so many rows, one of them this long, and a spare one have room."""
        longest = max([tokens, *(r.length + 1 for r in self._rows)])
        return Arena.room(rows + 1, longest) <= max(self._room, Arena.room(2, longest))

    def _make_room(self, wanted: int, needed: int, tokens: int) -> None:
        """Rows of the arena: `wanted` if that is no more than allowed, at least `needed`."""
        longest = max([tokens, *(r.length + 1 for r in self._rows)])
        rows = max(self._arena.rows, wanted)
        if Arena.room(rows, max(self._arena.capacity, longest)) <= self._room:
            self._arena.reserve(wanted, tokens)
        elif needed > self._arena.rows or tokens > self._arena.capacity:
            self._arena.resize(needed, longest)  # gives up what nobody uses any more

    def _park(self) -> None:
        """Takes rows out of the arena, the last ones first, until the next token of every other has room."""
        while len(self._rows) > 1 and not self._fits(len(self._rows), 0):
            i = len(self._rows) - 1
            row = self._rows[i]
            self._take_out(i)
            row.known = 0
            self._parked.appendleft(row)

    def _reuse(self, row: _Row, index: int) -> None:
        """Starts a row from what the stash or a running row already knows of its prompt."""
        prompt, salt = row.request.prompt, row.request.salt
        known, tensors = self._stash.find(prompt, salt)
        source = -1
        for i, other in enumerate(self._rows):
            if other.request.salt == salt and other.known > known:
                n = min(shared_prefix(prompt, other.request.prompt), other.known, len(prompt) - 1)
                if n > known:
                    known, source = n, i
        if source >= 0:
            self._arena.copy_row(source, index, known)
        elif known:
            self._arena.write_row(index, tensors, known)
        row.known = known
        if not row.ids:
            row.cached = known

    def _read_prompts(self) -> None:
        """Reads a chunk of the prompts of the rows that are not ready; those that got through become ready."""
        first = self._ready
        rows = self._rows[first:]
        share = max(1, self._chunk // len(rows))
        counts = [min(share, r.length - 1 - r.known) for r in rows]  # the last token is read by the first sampling step
        width = max(counts, default=0)
        if width > 0:
            starts = [r.known for r in rows]
            self._forward(first, rows, starts, counts, width)
            for r, n in zip(rows, counts, strict=True):
                r.known += n
        for i in range(first, len(self._rows)):
            if self._rows[i].known >= self._rows[i].length - 1:
                self._swap(i, self._ready)
                self._ready += 1

    def _forward(self, first: int, rows: list[_Row], starts: list[int], counts: list[int], width: int) -> torch.Tensor:
        """Runs new tokens of a block of rows, aligned right, and gives the logits of each row's last one."""
        batch = len(rows)
        length = max(s + n for s, n in zip(starts, counts, strict=True))
        self._make_room(len(self._rows), len(self._rows), length)
        straight = None
        if width == 1 and all(counts):
            ids = torch.tensor([row.token(start) for row, start in zip(rows, starts, strict=True)])[:, None]
            at = torch.tensor(starts)
            positions = at[:, None]
            straight = starts[0] if len(set(starts)) == 1 else None
            self._arena.aim(first, batch, length, (torch.arange(first, first + batch), at), None, straight)
        else:
            ids = torch.zeros((batch, width), dtype=torch.long)
            positions = torch.zeros((batch, width), dtype=torch.long)
            where: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
            for b, (row, start, n) in enumerate(zip(rows, starts, counts, strict=True)):
                if n:
                    ids[b, width - n :] = torch.tensor(row.tokens(start, start + n))
                    positions[b, width - n :] = torch.arange(start, start + n)
                    where.append((torch.full((n,), b), torch.arange(width - n, width), positions[b, width - n :]))
            of, query, at = (torch.cat(t) for t in zip(*where, strict=True))
            self._arena.aim(first, batch, length, (of + first, at), (of, query))
        mask: torch.Tensor | None = None  # rows of equal length look at all there is, which needs no mask and is faster
        if straight is None:
            mask = (torch.arange(length)[None, None] <= positions[:, :, None])[:, None].to(self._device)
        out = self._model(
            input_ids=ids.to(self._device),
            attention_mask=mask,
            position_ids=positions.to(self._device),
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: self._arena},
        )
        logits: torch.Tensor = out.logits[:, -1]
        return logits

    def _sample(self) -> None:
        """One token for every ready row: reads its last token, draws the next."""
        rows = self._rows[: self._ready]
        starts = [r.length - 1 for r in rows]
        logits = self._forward(0, rows, starts, [1] * len(rows), 1)
        chosen, logprobs = draw(logits, [r.wishes for r in rows])
        for row, id, logprob in zip(rows, chosen, logprobs, strict=True):
            row.known += 1
            row.ids.append(id)
            row.logprobs.append(min(logprob, 0.0) if math.isfinite(logprob) else logprob)
            if row.spans and row.spans[-1][0] == self.version:
                row.spans[-1][2] += 1
            else:
                row.spans.append([self.version, len(row.ids) - 1, len(row.ids)])
            if id in row.stops:
                row.finish = "stop"
            elif len(row.ids) >= row.limit:
                row.finish = "length"

    def _leave(self) -> list[Done]:
        done: list[Done] = []
        for i in range(len(self._rows) - 1, -1, -1):
            row = self._rows[i]
            if row.finish is None:
                continue
            done.append(row.done())
            if row.known:
                self._stash.put(row.everything(row.known), row.request.salt, self._arena.read_row(i, row.known))
            self._take_out(i)
        if any(row.finish for row in self._parked):
            done += [row.done() for row in self._parked if row.finish]
            self._parked = deque(row for row in self._parked if not row.finish)
        return done

    def _take_out(self, i: int) -> None:
        """Closes the gap that row `i` leaves; rows that sample stay in front."""
        if i < self._ready:
            self._ready -= 1
            self._move(self._ready, i)
            self._move(len(self._rows) - 1, self._ready)
        else:
            self._move(len(self._rows) - 1, i)
        self._rows.pop()

    def _move(self, source: int, target: int) -> None:
        if source != target:
            self._arena.copy_row(source, target, self._rows[source].known)
            self._rows[target] = self._rows[source]

    def _swap(self, a: int, b: int) -> None:
        if a == b:
            return
        spare = len(self._rows)
        self._make_room(spare + 1, spare + 1, 0)
        ra, rb = self._rows[a], self._rows[b]
        self._arena.copy_row(a, spare, ra.known)
        self._arena.copy_row(b, a, rb.known)
        self._arena.copy_row(spare, b, ra.known)
        self._rows[a], self._rows[b] = rb, ra
