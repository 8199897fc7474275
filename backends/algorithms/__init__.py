"""The algorithms of training, as pure functions: advantages and reductions over numpy, losses and logprobs over torch.

    prepare (envkit.backends.data)     rewards of groups -> `Row.advantages`, `Row.weights`         numpy
    step_loss                          a packed micro-batch and its logprobs -> the summed loss     torch
    policy_logprobs                    hidden states -> logprobs, never a full logits tensor        torch

Importing this package imports no torch: the names that need it are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envkit.backends.algorithms.config import AlgorithmConfig

if TYPE_CHECKING:
    from envkit.backends.algorithms.logprobs import chunked_logprobs, policy_logprobs
    from envkit.backends.algorithms.objective import step_loss, token_losses
    from envkit.backends.algorithms.packed import Packed

__all__ = ["AlgorithmConfig", "Packed", "chunked_logprobs", "policy_logprobs", "step_loss", "token_losses"]

_TORCH = {
    "Packed": "packed",
    "chunked_logprobs": "logprobs",
    "policy_logprobs": "logprobs",
    "step_loss": "objective",
    "token_losses": "objective",
}


def __getattr__(name: str) -> Any:
    if name not in _TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_TORCH[name]}"), name)
