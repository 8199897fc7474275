"""What machines are made of: GPUs by name, and what a user means by `--gpus 14x8xH100`.

Memory is what a program sees (GiB), not what the box says; throughputs are the makers' dense bfloat16 figures, which
`Efficiency` in `speed` takes its share of. Prices are assumptions about renting, wide on purpose: `--price` replaces
them. Used by the plan's arithmetic.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from envkit.failure import UserError, did_you_mean

__all__ = ["GIB", "GPUS", "Cluster", "Gpu", "cluster_of"]

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Gpu:
    """Attributes:
    memory_gib: Memory that a program can use.
    tflops: Dense bfloat16, peak, in 10^12 operations per second.
    memory_tb_s: Bandwidth of its memory, in 10^12 bytes per second.
    link_gb_s: To other GPUs of its node, in one direction, in 10^9 bytes per second.
    network_gb_s: To other nodes, per GPU, in 10^9 bytes per second.
    price: Assumed rent per hour, in dollars: low and high.
    """

    name: str
    memory_gib: float
    tflops: float
    memory_tb_s: float
    link_gb_s: float = 450.0
    network_gb_s: float = 50.0
    price: tuple[float, float] = (1.0, 4.0)

    @property
    def memory(self) -> int:
        """Bytes."""
        return int(self.memory_gib * GIB)


GPUS: dict[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("A100-40GB", 39.4, 312, 1.56, 300, 25, (0.8, 2.0)),
        Gpu("A100-80GB", 79.1, 312, 2.04, 300, 25, (1.0, 2.5)),
        Gpu("H100", 79.1, 989, 3.35, 450, 50, (1.8, 4.0)),
        Gpu("H200", 139.8, 989, 4.8, 450, 50, (2.2, 5.0)),
        Gpu("B200", 178.4, 2250, 8.0, 900, 50, (3.0, 7.0)),
        Gpu("GB300", 276.0, 2500, 8.0, 900, 100, (4.0, 9.0)),
        Gpu("L40S", 44.4, 362, 0.864, 32, 12, (0.6, 1.9)),
        Gpu("RTX-4090", 23.5, 165, 1.01, 32, 3, (0.3, 0.8)),
    )
}
_ALIASES = {"A100": "A100-80GB", "H100-80GB": "H100", "H200-141GB": "H200", "4090": "RTX-4090"}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes of like GPUs."""

    gpu: Gpu
    nodes: int
    per_node: int = 8

    @property
    def gpus(self) -> int:
        return self.nodes * self.per_node

    def __str__(self) -> str:
        return f"{self.nodes} x {self.per_node} {self.gpu.name}"


def cluster_of(text: str, *, default_gpus: int | None = None) -> Cluster:
    """`H100` (as many as `default_gpus`), `112xH100` or `14x8xH100`: nodes, GPUs of a node, and their kind.

    Raises:
        UserError: Another form, an unknown GPU, or a number that is not whole nodes of 8.
    """
    *numbers, name = re.split(r"[x*×]", text.strip(), flags=re.IGNORECASE) if text.strip() else [""]
    gpu = _gpu(name)
    try:
        counts = [int(number) for number in numbers]
    except ValueError:
        counts = [0]
    if len(counts) > 2 or any(count < 1 for count in counts):
        raise UserError(f"--gpus: expected H100, 112xH100 or 14x8xH100, found {text!r}")
    if len(counts) == 2:
        return Cluster(gpu, counts[0], counts[1])
    total = counts[0] if counts else default_gpus
    if total is None:
        raise UserError(f"--gpus {text}: the plan does not say how many; write e.g. 14x8x{gpu.name}")
    if total <= 8:
        return Cluster(gpu, 1, total)
    if total % 8:
        raise UserError(f"--gpus {text}: {total} GPUs are no whole nodes of 8; write NODESxGPUSx{gpu.name}")
    return Cluster(gpu, total // 8, 8)


def _gpu(name: str) -> Gpu:
    cleaned = name.strip().upper()
    cleaned = _ALIASES.get(cleaned, cleaned)
    if cleaned not in GPUS:
        raise UserError(
            f"--gpus: no GPU {name!r} is known{did_you_mean(cleaned, list(GPUS))}; known: {', '.join(GPUS)}"
        )
    return GPUS[cleaned]
