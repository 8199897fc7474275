"""Low-rank adapters: small trainable factors beside frozen linear layers.

`attach` replaces each target layer by one that adds `B(A(x)) * alpha / rank`; B begins at zero, so that nothing
changes at first. `merged` gives every weight under its Hugging Face name with the adapters added in, which is what
engines are sent: they know nothing of adapters. Used by `TorchTrainer`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from envkit.backends.torch.config import LoraConfig
from envkit.failure import UserError, did_you_mean

__all__ = ["LoraLinear", "attach", "merged"]


class LoraLinear(torch.nn.Module):  # type: ignore[misc]
    """A frozen linear layer with an adapter. `a` [rank, in], `b` [out, rank], both float32."""

    def __init__(self, inner: torch.nn.Linear, config: LoraConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.inner = inner
        self.scale = config.alpha / config.rank
        device = inner.weight.device
        bound = math.sqrt(3.0 / inner.in_features)
        start = torch.empty(config.rank, inner.in_features).uniform_(-bound, bound, generator=generator)
        self.a = torch.nn.Parameter(start.to(device))
        self.b = torch.nn.Parameter(torch.zeros(inner.out_features, config.rank, device=device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        small = torch.nn.functional.linear(torch.nn.functional.linear(x, self.a), self.b)
        out: torch.Tensor = self.inner(x) + small * self.scale
        return out

    def weight(self) -> torch.Tensor:
        """The layer's weight with the adapter added in."""
        return self.inner.weight + (self.b @ self.a) * self.scale


def attach(model: Any, config: LoraConfig, seed: int) -> int:
    """Freezes the model and gives every target layer an adapter; returns how many there are.

    Raises:
        UserError: A target names no linear layer of the model.
    """
    model.requires_grad_(False)
    found = {n: m for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    tails = {name.rpartition(".")[2] for name in found}
    for target in config.targets:
        if target not in tails:
            raise UserError(
                f"lora.targets: the model has no linear layer named {target!r}{did_you_mean(target, sorted(tails))}; "
                f"there are {', '.join(sorted(tails))}"
            )
    generator = torch.Generator().manual_seed(seed)
    wanted = [name for name in found if name.rpartition(".")[2] in config.targets]
    for name in wanted:
        above, _, tail = name.rpartition(".")
        setattr(model.get_submodule(above), tail, LoraLinear(found[name], config, generator))
    return len(wanted)


def merged(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """(Hugging Face name, tensor) pairs, tied tensors once, adapters added in."""
    adapted = {name: module for name, module in model.named_modules() if isinstance(module, LoraLinear)}
    for name, tensor in model.named_parameters():
        above, _, tail = name.rpartition(".")
        layer = adapted.get(above.removesuffix(".inner")) if above else None
        if layer is None:
            yield name, tensor.detach()
        elif above.endswith(".inner"):
            with torch.no_grad():
                outer = above.removesuffix(".inner")
                yield f"{outer}.{tail}", (layer.weight() if tail == "weight" else tensor).detach()
