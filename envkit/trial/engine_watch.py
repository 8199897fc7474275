"""How much the engines that a job samples from have to do: polled from their `/metrics`, for admission.

vLLM's page is read: requests that queue (`vllm:num_requests_waiting`), the share of KV room in use
(`vllm:kv_cache_usage_perc`), and the room itself (`vllm:cache_config_info`: blocks times their size). An engine that
does not answer, or says none of it, bounds nothing. Used by jobs; training has its own engines to ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

import httpx

from envkit.failure import UserError

__all__ = ["EngineWatch", "Pressure", "read_page"]

POLL_S = 2.0
#: What was read longer ago than this is not known any more.
STALE_S = 10.0

_LINE = re.compile(r"^(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+\d+)?$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Pressure:
    """What engines say of themselves; None for what they don't.

    Attributes:
        waiting: Requests that queue, summed.
        kv_used: Share of the KV room in use, of the fullest engine.
        kv_capacity_tokens: KV room, summed.
    """

    waiting: int | None = None
    kv_used: float | None = None
    kv_capacity_tokens: int | None = None


def samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, labels and value of each sample of a metrics page (Prometheus' text); other lines are passed over."""
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        yield match["name"], dict(_LABEL.findall(match["labels"] or "")), value


def read_page(text: str) -> Pressure:
    """Reads one engine's page. Data-parallel ranks, which share a page, count as engines of their own."""
    waiting: float | None = None
    used: float | None = None
    room: int | None = None
    for name, labels, value in samples(text):
        if name == "vllm:cache_config_info":
            blocks, size = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
            if blocks.isdigit() and size.isdigit():
                room = (room or 0) + int(blocks) * int(size)
        elif name == "vllm:num_requests_waiting":
            waiting = (waiting or 0.0) + value
        elif name in ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"):
            used = max(used or 0.0, value)
    return Pressure(None if waiting is None else int(waiting), used, room)


class EngineWatch:
    """Polls engines while it is entered. `pressure` never waits."""

    def __init__(self, urls: Sequence[str]) -> None:
        """`urls`: roots of engines (`http://host:8000`), or the pages themselves (`.../metrics`).

        Raises:
            UserError: One is no http(s) URL.
        """
        for url in urls:
            if not url.startswith(("http://", "https://")):
                raise UserError(f"expected an engine's address like http://HOST:8000, found {url!r}")
        roots = (url.rstrip("/").removesuffix("/metrics").removesuffix("/v1") for url in urls)
        self._pages = tuple(f"{root}/metrics" for root in roots)
        self._seen: dict[str, tuple[float, Pressure]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def pressure(self) -> Pressure:
        """All engines together, as last seen."""
        now_s = time.monotonic()
        fresh = [found for at_s, found in self._seen.values() if now_s - at_s < STALE_S]
        waiting = [p.waiting for p in fresh if p.waiting is not None]
        used = [p.kv_used for p in fresh if p.kv_used is not None]
        room = [p.kv_capacity_tokens for p in fresh if p.kv_capacity_tokens is not None]
        return Pressure(
            sum(waiting) if waiting else None,
            max(used) if used else None,
            # The room of some engines only would hold trials back for the others' sake.
            sum(room) if room and len(room) == len(self._pages) else None,
        )

    async def __aenter__(self) -> EngineWatch:
        if self._pages:
            self._http = httpx.AsyncClient(timeout=POLL_S * 2)
            await asyncio.gather(*(self._look(page) for page in self._pages))
            self._tasks = [asyncio.create_task(self._poll(page)) for page in self._pages]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._pages:
            await self._http.aclose()

    async def _poll(self, page: str) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            await self._look(page)

    async def _look(self, page: str) -> None:
        with contextlib.suppress(httpx.HTTPError):
            answer = await self._http.get(page)
            if answer.status_code == 200:
                self._seen[page] = (time.monotonic(), read_page(answer.text))
