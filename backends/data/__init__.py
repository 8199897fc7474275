"""From finished groups to an optimiser step's batch: which rollouts count, their advantages, rows, packing. Numpy only.

screen(group, config)      one finished group: does it train, and why not (the loop refills what it drops)
prepare(groups, config)    the step's groups -> `Batch` for the trainer, metrics, and a report per group
imitate(examples)          stored trajectories -> `Batch` for the supervised loss
pack(lengths, ...)         rows into micro-batches by token budget, balanced over ranks
"""

from __future__ import annotations

from envkit.backends.data.group import DropReason, Group, GroupReport, RolloutReport
from envkit.backends.data.judge import screen
from envkit.backends.data.packing import Packing, pack
from envkit.backends.data.prepare import Prepared, prepare
from envkit.backends.data.supervised import Example, imitate

__all__ = [
    "DropReason",
    "Example",
    "Group",
    "GroupReport",
    "Packing",
    "Prepared",
    "RolloutReport",
    "imitate",
    "pack",
    "prepare",
    "screen",
]
