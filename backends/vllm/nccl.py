"""New weights from GPU to GPU: vLLM's own NCCL transfer, driven from the trainer's process.

One group holds the trainer (rank 0) and every worker of every replica. All replicas are paused, the weights broadcast
once, loaded as they come, and labelled; then all resume. There is nothing to stage: a replica that fails anywhere after
its pause is taken down, never resumed. One that comes back waits behind its gate for the next update, which forms the
group anew.

Written against the documented API of vLLM 0.32 (`NCCLTrainerWeightTransferEngine`, `VLLMWeightSyncClient`), which must
be installed in the trainer's environment too. Not yet run on hardware.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from envkit.backend import Trainer
from envkit.deadline import Deadline
from envkit.failure import Boundary, CapabilityError, EnvkitError

__all__ = ["NcclSender", "free_port"]


class Fan:
    """vLLM's `VLLMWeightSyncClient` over several servers at once: every call goes to all and waits for all.

    Args:
        urls: Roots of the servers, in the order of their ranks.
        workers: How many workers each has.
        deadline: Of each call.
    """

    def __init__(self, urls: Sequence[str], workers: Sequence[int], deadline: Callable[[], Deadline]) -> None:
        self._urls = tuple(urls)
        self._workers = tuple(workers)
        self._deadline = deadline
        self.version = 0

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        offsets, offset = {}, int(init_info["rank_offset"])
        for url, count in zip(self._urls, self._workers, strict=True):
            offsets[url] = offset
            offset += count
        self._all(
            "/init_weight_transfer_engine",
            {url: {"init_info": {**init_info, "rank_offset": offsets[url]}} for url in self._urls},
        )

    def start_weight_update(self) -> None:
        self._all("/start_weight_update", {url: {} for url in self._urls})

    def update_weights(self, update_info: dict[str, Any] | list[dict[str, Any]]) -> None:
        self._all("/update_weights", {url: {"update_info": update_info} for url in self._urls})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        label = weight_version or f"v{self.version}"
        self._all("/finish_weight_update", {url: {"weight_version": label} for url in self._urls})

    def shutdown_weight_transfer_engine(self) -> None:
        self._all("/shutdown_weight_transfer_engine", {url: {} for url in self._urls})

    def _all(self, route: str, bodies: Mapping[str, Mapping[str, Any]]) -> None:
        timeout_s = self._deadline().timeout_s

        def one(url: str) -> None:
            answer = httpx.post(url + route, json=dict(bodies[url]), timeout=timeout_s, trust_env=False)
            if answer.status_code != 200:
                raise EnvkitError(
                    f"{url}{route} was answered with {answer.status_code}: {answer.text[:500]}",
                    boundary=Boundary.POLICY,
                )

        with ThreadPoolExecutor(len(self._urls)) as pool:
            list(pool.map(one, self._urls))


class NcclSender:
    """The trainer's end of one group, for fixed servers.

    Args:
        urls: Of the servers; all must be up.
        master: This host's address as they reach it.
        dtype: Of the weights as they are sent.
    """

    def __init__(self, urls: Sequence[str], *, master: str, dtype: str) -> None:
        self.urls = tuple(urls)
        self._master = master
        self._dtype = dtype
        self._deadline = Deadline.never()
        self._fan: Fan | None = None
        self._engine: Any = None
        self._source: Any = None

    async def send(self, trainer: Trainer, version: int, deadline: Deadline) -> float:
        """Gives paused servers the weights, labelled. Returns the seconds it took.

        Raises:
            CapabilityError: vLLM is not installed here.
            EnvkitError: A server refused, or the group could not be formed: none of them may be resumed.
        """
        began_s = time.perf_counter()
        self._deadline = deadline
        if self._engine is None:
            workers = await asyncio.gather(*(_world(url, deadline) for url in self.urls))
            await deadline.wait(asyncio.to_thread(self._form, trainer, workers))
        assert self._fan is not None
        self._fan.version = version
        self._source.trainer = trainer
        await deadline.wait(asyncio.to_thread(self._engine.send_weights))
        return time.perf_counter() - began_s

    def _form(self, trainer: Trainer, workers: Sequence[int]) -> None:
        try:
            from vllm.distributed.weight_transfer.nccl_engine import (  # type: ignore[import-not-found]
                NCCLTrainerInitInfo,
                NCCLTrainerWeightTransferEngine,
            )
        except ImportError as error:
            raise CapabilityError(
                f"transfer = 'nccl' needs vLLM in the trainer's environment too ({error}): pip install vllm, or set "
                "engines.transfer = 'file'"
            ) from error
        self._fan = Fan(self.urls, workers, lambda: self._deadline)
        self._source = _source_class()(trainer, self._dtype)
        info = NCCLTrainerInitInfo(self._master, free_port(), 1 + sum(workers), rank=0)
        self._engine = NCCLTrainerWeightTransferEngine.trainer_init(info, client=self._fan, source=self._source)

    def close(self) -> None:
        """Leaves the group; servers that are still there leave it too."""
        engine, self._engine = self._engine, None
        if engine is None:
            return
        engine.shutdown()
        self._deadline = Deadline.after(10.0, "the end of a group")
        assert self._fan is not None
        with contextlib.suppress(EnvkitError, httpx.HTTPError):  # what is gone needs no telling
            self._fan.shutdown_weight_transfer_engine()


def _source_class() -> type[Any]:
    """vLLM's `WeightSource` over a trainer's weights."""
    import torch
    from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource  # type: ignore[import-not-found]

    class Source(WeightSource):  # type: ignore[misc]
        def __init__(self, trainer: Trainer, dtype: str) -> None:
            self.trainer = trainer
            self._dtype = getattr(torch, dtype)
            self._known: list[Any] | None = None

        def metadata(self) -> list[Any]:
            if self._known is None:  # names and shapes never change; a trainer of many ranks gathers to tell them
                self._known = [ParamMeta(name, self._as(t), tuple(t.shape)) for name, t in self.trainer.weights()]
            return self._known

        def __iter__(self) -> Iterator[tuple[str, Any]]:
            for name, tensor in self.trainer.weights():
                yield name, tensor.detach().to("cuda", self._as(tensor)).contiguous()

        def _as(self, tensor: Any) -> Any:
            return self._dtype if tensor.is_floating_point() else tensor.dtype

    return Source


async def _world(url: str, deadline: Deadline) -> int:
    """Workers of a server."""
    async with httpx.AsyncClient(trust_env=False) as http:
        try:
            answer = await http.get(f"{url}/get_world_size", timeout=deadline.timeout_s)
            return int(answer.json()["world_size"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise EnvkitError(f"{url} does not say how many workers it has: {error!r}") from error


def free_port() -> int:
    """A TCP port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
