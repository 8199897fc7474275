"""The large trainer: megatron-core models over many ranks (tensor, pipeline, context, expert and data parallel).

    layout          how many ranks, and what each holds
    shape           what a Hugging Face `config.json` says of a model, for each architecture that is known
    factory         shape and layout -> megatron-core modules, on this rank
    mapping         which Hugging Face tensors a parameter is made of, and how it is cut over ranks
    weights         Hugging Face tensors in and out, streamed, each rank its own part
    files           a Hugging Face folder, written by many ranks
    logprobs        of sampled tokens, from hidden states and a head that is cut over the vocabulary
    placing         where the tokens of a micro-batch go, on this rank
    rank            one rank of the trainer: a step over its share of a batch
    cpu_compat      what megatron-core needs where there is no GPU; the only module that knows about that

Importing this package imports neither torch nor megatron-core.
"""

from __future__ import annotations

from envkit.backends.megatron.layout import Layout

__all__ = ["Layout"]
