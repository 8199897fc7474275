"""The embedded backend: a Hugging Face causal LM as engine (and trainer) in plain PyTorch, on one CPU core or a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envkit.backends.torch.backend import TorchPlan as plan_model
    from envkit.backends.torch.backend import assemble, derive, run
    from envkit.tokens.trace import FloatArray, IntArray

__all__ = ["assemble", "derive", "no_model", "plan_model", "run", "scorer_of"]

#: What `envkit train` asks of a backend, loaded when it asks.
_BACKEND = {"assemble": "assemble", "derive": "derive", "plan_model": "TorchPlan", "run": "run"}


def __getattr__(name: str) -> Any:
    if name not in _BACKEND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from envkit.backends.torch import backend

    return getattr(backend, _BACKEND[name])


def no_model(folder: str | Path, error: Exception) -> str:
    """What to tell where no model could be loaded. What transformers says of a folder that is not there (that it is no
    name of a repository) leads astray."""
    if not Path(folder).is_dir():
        return (
            f"there is no model folder {folder}; expected a Hugging Face model folder (a relative path is of the "
            f"folder that the command runs in, {Path.cwd()})"
        )
    return f"no causal language model in {folder}: {error}"


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
        raise UserError(no_model(folder, error)) from error
    return lambda temperature: scorer(model, temperature=temperature)
