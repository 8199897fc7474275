"""Trials of a run on its cluster: the trials' own Ray executor, on the run's connection."""

from __future__ import annotations

from envkit.backends.ray.cluster import Connection, connect, load_ray
from envkit.backends.ray.config import RayConfig
from envkit.trial.ray_executor import RayExecutor

__all__ = ["ClusterTrials"]


class ClusterTrials(RayExecutor):
    """See `envkit.trial.ray_executor`."""

    def __init__(self, config: RayConfig) -> None:
        places = config.trials
        super().__init__(
            address=config.address,
            resource=places.resource,
            per_trial=places.per_trial,
            trials_per_host=places.per_host,
            environment=places.environment,
            patience_s=config.patience_s,
        )
        self._config = config
        self._connection: Connection | None = None

    def _connect(self) -> None:
        load_ray()
        self._connection = connect(self._config.address, object_store_mb=self._config.object_store_mb)

    async def close(self) -> None:
        await super().close()
        if self._connection is not None:
            self._connection.close()
