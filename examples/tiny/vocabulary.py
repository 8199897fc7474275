"""The tiny policy's tokenizer: a byte-level BPE of its own, with the control tokens and the tool calls of Qwen3.

Digits go in groups of up to three and words keep their leading space, so that the office pack's prose, its paths and
its figures stay short; any other text is spelt in bytes and nothing is unknown. The chat template beside this file
renders what the `qwen3` family of the `renderers` package renders, which a test holds it to.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["SPECIAL", "TAGS", "build"]

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def build(texts: Iterable[str], size: int) -> Any:
    """Trains a tokenizer of `size` tokens in all, as a `PreTrainedTokenizerFast` with the chat template."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    inner.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=size - len(SPECIAL) - len(TAGS),
            min_frequency=2,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    inner.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    inner.add_tokens([AddedToken(token, special=False, normalized=False) for token in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=(Path(__file__).parent / "chat_template.jinja").read_text(),
        model_max_length=2048,
        clean_up_tokenization_spaces=False,
    )
