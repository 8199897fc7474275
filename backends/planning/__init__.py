"""The arithmetic before the money: what a plan needs of GPUs, what binds, how long a step takes, what it costs.

Pure Python over a plan and a model's `config.json`; no torch, no GPU. `envkit plan` and `envkit sweep` are its faces;
docs/planning.md holds what it computes beside what was published.
"""

from envkit.backends.planning.estimate import Bound, Estimate, Subject, estimate, subject_of
from envkit.backends.planning.gpus import GPUS, Cluster, Gpu, cluster_of
from envkit.backends.planning.lengths import Lengths, given, measured
from envkit.backends.planning.memory import EngineMemory, Training, TrainMemory, engine_memory, train_memory
from envkit.backends.planning.model import ModelShape, known_models, read_shape
from envkit.backends.planning.speed import Efficiency

__all__ = [
    "GPUS",
    "Bound",
    "Cluster",
    "Efficiency",
    "EngineMemory",
    "Estimate",
    "Gpu",
    "Lengths",
    "ModelShape",
    "Subject",
    "TrainMemory",
    "Training",
    "cluster_of",
    "engine_memory",
    "estimate",
    "given",
    "known_models",
    "measured",
    "read_shape",
    "subject_of",
    "train_memory",
]
