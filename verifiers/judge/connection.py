"""Connections to the judge's endpoint: as many as there are requests in flight, in small pools.

The HTTP library looks through all connections of a pool for every request, several times: with hundreds in one pool
that is where the time goes. So each pool has a few, and all share one TLS context, which is slow to make.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import httpx

from envkit.policy.transport import Reply, Transport
from envkit.verifiers.judge.config import JudgeConfig

__all__ = ["Connections"]

_POOL_SIZE = 16


class _Pool(Transport):
    """The policies' transport with a client of its own making."""

    def __init__(self, config: JudgeConfig, verify: ssl.SSLContext | bool) -> None:
        # Not the base's: its client has four connections and a TLS context of its own.
        self._url = f"{config.address}/chat/completions"
        self._max_bytes = config.max_response_mb << 20
        self._client = httpx.AsyncClient(
            verify=verify,
            follow_redirects=False,
            timeout=httpx.Timeout(config.read_timeout_s, connect=config.connect_timeout_s),
            limits=httpx.Limits(
                max_connections=_POOL_SIZE, max_keepalive_connections=_POOL_SIZE, keepalive_expiry=30.0
            ),
        )
        self.busy = 0


class Connections:
    """Connections to one endpoint, opened as they are needed."""

    def __init__(self, config: JudgeConfig) -> None:
        self._config = config
        # Without TLS no context is needed; redirects to it are not followed.
        self._verify: ssl.SSLContext | bool = (
            httpx.create_ssl_context() if config.address.startswith("https:") else False
        )
        self._pools: list[_Pool] = []

    async def post(self, body: bytes, headers: Mapping[str, str], *, timeout_s: float) -> Reply:
        """Sends one request. Raises as `Transport.post` does."""
        pool = next((pool for pool in self._pools if pool.busy < _POOL_SIZE), None)
        if pool is None:
            pool = _Pool(self._config, self._verify)
            self._pools.append(pool)
        pool.busy += 1
        try:
            return await pool.post(body, headers, timeout_s=timeout_s)
        finally:
            pool.busy -= 1

    async def close(self) -> None:
        pools, self._pools = self._pools, []
        for pool in pools:
            await pool.close()
