"""Micro-batches through a model that is cut over ranks, in megatron-core's own schedules.

A `Passes` is one model, this rank's parts of it: the policy's, wrapped for data parallelism, or the reference's, bare
and frozen. Every rank makes the same calls in the same order; what is computed of a micro-batch is known where the
last stage is. Used by trainer ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer.module import Float16Module
from torch import Tensor

from envkit.backend import MicroBatch
from envkit.backends.algorithms import Packed
from envkit.backends.megatron import cpu_compat
from envkit.backends.megatron.factory import Decoder, packed_sequences
from envkit.backends.megatron.layout import Layout
from envkit.backends.megatron.logprobs import policy_logprobs
from envkit.backends.megatron.placing import Placed, place, slots
from envkit.backends.megatron.shape import Shape

__all__ = ["Passes", "Through"]


class Through:
    """A micro-batch that went through the model, on the last stage.

    Attributes:
        number: The micro-batch's, on its data-parallel rank.
        hidden: What the model gave of it; [S, 1, H], of all slots or of this rank's.
    """

    __slots__ = ("_passes", "_placed", "decoder", "hidden", "number", "packed")

    def __init__(
        self, passes: Passes, number: int, decoder: Decoder, packed: Packed, placed: Placed, hidden: Tensor
    ) -> None:
        self._passes, self._placed = passes, placed
        self.number, self.decoder, self.packed, self.hidden = number, decoder, packed, hidden

    def logprobs(self, temperature: float) -> tuple[Tensor, Tensor]:
        """[T] logprobs and entropies (`logprobs.policy_logprobs`)."""
        return policy_logprobs(
            self.decoder,
            self.hidden,
            self.packed.ids,
            self.packed.mask,
            where=self._placed.where,
            vocab=self._passes.shape.vocab,
            temperature=temperature,
            chunk=self._passes.logprob_chunk,
        )


class Passes:
    """This rank's parts of one model.

    Args:
        chunks: One part, or one for each virtual stage.
        logprob_chunk: Positions whose softmax over the vocabulary is in memory at a time.

    Attributes:
        at: The micro-batch that goes through just now: its number, and the token of each slot (`Placed.where`).
    """

    def __init__(self, chunks: Sequence[Any], shape: Shape, layout: Layout, *, logprob_chunk: int) -> None:
        self.chunks, self.shape, self.layout, self.logprob_chunk = list(chunks), shape, layout, logprob_chunk
        self.at: tuple[int, Tensor] = (0, torch.empty(0))

    def scores(self, micros: Sequence[MicroBatch], temperature: float) -> list[Tensor]:
        """Logprobs [T] of each micro-batch's tokens, without gradients; empty but on the last stage."""

        def score(through: Through) -> tuple[Tensor, Tensor, Tensor]:
            return through.hidden.sum() * 0.0, no_tokens(through.hidden), through.logprobs(temperature)[0]

        with torch.no_grad():
            found: list[Tensor] = self.run(micros, score, forward_only=True)
        return found

    def run(
        self,
        micros: Sequence[MicroBatch],
        score: Callable[[Through], tuple[Tensor, Tensor, Any]],
        *,
        forward_only: bool = False,
    ) -> list[Any]:
        """All micro-batches through the model.

        Args:
            score: Called on the last stage: a loss, what it is divided by (`no_tokens`), and what is to be given.

        Returns:
            What `score` gave of each; empty but on the last stage.
        """
        packs = list(enumerate(Packed.of(micro, cpu_compat.device()) for micro in micros))
        streams = [iter(packs) for _ in self.chunks]
        # Stages of an interleaved pipeline can't tell each other lengths over gloo: neighbours on both sides may be
        # one and the same rank, and messages are mistaken for one another. So all micro-batches get the longest's.
        longest = max(slots(pack, self.layout) for _, pack in packs) if self.layout.virtual_stages > 1 else None
        found: list[Any] = get_forward_backward_func()(
            forward_step_func=partial(self._forward, score=score, total=longest),
            data_iterator=streams if len(streams) > 1 else streams[0],
            model=self.chunks if len(self.chunks) > 1 else self.chunks[0],
            num_microbatches=len(packs),
            seq_length=longest or 1,  # stages tell each other lengths where they are not equal
            micro_batch_size=1,
            forward_only=forward_only,
        )
        return found

    def _forward(
        self,
        stream: Iterator[tuple[int, Packed]],
        chunk: Any,
        *,
        score: Callable[[Through], tuple[Tensor, Tensor, Any]],
        total: int | None,
    ) -> tuple[Tensor, Any]:
        number, packed = next(stream)
        placed = place(packed, self.layout, rank=parallel_state.get_context_parallel_rank(), total=total)
        self.at = (number, placed.where)
        narrow: dict[str, Any] = {}
        decoder = chunk
        while not isinstance(decoder, Decoder):
            if isinstance(decoder, Float16Module):
                narrow = {"fp32_output": False}  # hidden states stay as narrow as the head
            decoder = decoder.module
        hidden = chunk(placed.ids, placed.positions, None, packed_seq_params=packed_sequences(placed.starts), **narrow)
        return hidden, lambda out: score(Through(self, number, decoder, packed, placed, out))


def no_tokens(hidden: Tensor) -> Tensor:
    """What a loss is divided by, for us: nothing."""
    return torch.zeros((), dtype=torch.int, device=hidden.device)
