"""Engines behind HTTP for training, whatever serves them: weights sent, load read, replicas kept alive."""

from envkit.backends.serving.http import Held, HttpEngines, Missed, Written, fingerprints, read_vllm_metrics
from envkit.backends.serving.kept import KeptEngines, KeptSettings, Replica

__all__ = [
    "Held",
    "HttpEngines",
    "KeptEngines",
    "KeptSettings",
    "Missed",
    "Replica",
    "Written",
    "fingerprints",
    "read_vllm_metrics",
]
