"""The embedded backend: a Hugging Face causal LM as engine (and trainer) in plain PyTorch, on one CPU core or a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envkit.tokens.trace import FloatArray, IntArray

__all__ = ["scorer_of"]


def scorer_of(folder: str) -> Callable[[float], Callable[[IntArray], FloatArray]]:
    """Loads a model in float32; `scorer_of(folder)(temperature)` scores ids (see `score.scorer`).

    Raises:
        UserError: Torch or transformers is not installed, or the folder holds no causal LM.
    """
    from envkit.failure import UserError

    try:
        import torch
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        raise UserError(f"{error}; install the torch extra: pip install 'envkit-rl[torch]'") from error
    from envkit.backends.torch.score import scorer

    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    except (OSError, ValueError) as error:
        raise UserError(f"no causal language model in {folder}: {error}") from error
    return lambda temperature: scorer(model, temperature=temperature)
