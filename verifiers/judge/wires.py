"""Connections to the endpoint: as many as there are requests in flight.

A `Transport` keeps a few connections, enough for one conversation; a judge has many at once. `Wires` opens further
transports as they are needed and reuses idle ones first.
"""

from __future__ import annotations

from collections.abc import Mapping

from envkit.policy.transport import Reply, Transport
from envkit.verifiers.judge.config import JudgeConfig

__all__ = ["Wires"]

#: Requests at once on one transport: the connections that it opens.
_PER_TRANSPORT = 4


class Wires:
    """Transports to one endpoint."""

    def __init__(self, config: JudgeConfig) -> None:
        self._config = config
        self._open: list[Transport] = []
        self._busy: list[int] = []

    async def post(self, body: bytes, headers: Mapping[str, str], *, timeout_s: float) -> Reply:
        """Sends one request. Raises as `Transport.post` does."""
        at = next((i for i, busy in enumerate(self._busy) if busy < _PER_TRANSPORT), -1)
        if at < 0:
            self._open.append(
                Transport(
                    f"{self._config.address}/chat/completions",
                    connect_timeout_s=self._config.connect_timeout_s,
                    read_timeout_s=self._config.read_timeout_s,
                    max_bytes=self._config.max_response_mb << 20,
                )
            )
            self._busy.append(0)
            at = len(self._open) - 1
        self._busy[at] += 1
        try:
            return await self._open[at].post(body, headers, timeout_s=timeout_s)
        finally:
            self._busy[at] -= 1

    async def close(self) -> None:
        opened, self._open, self._busy = self._open, [], []
        for transport in opened:
            await transport.close()
