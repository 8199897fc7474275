"""A run on a Ray cluster: trainer ranks, engines and trials are placed on its nodes, or all on this machine.

    config      the `[ray]` table of a plan
    cluster     the run's one connection to the cluster, shared by all its parts
    logs        what actors print, in the run's folder, wherever they run
    engines     vLLM servers, one to an actor
    trials      attempts, by the trials' own executor

Trainer ranks are `backends.megatron.on_ray`, on the same connection. Importing this package does not import ray.
"""

from __future__ import annotations

from envkit.backends.ray.config import RayConfig

__all__ = ["RayConfig"]
