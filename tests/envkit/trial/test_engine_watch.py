"""Engines' pages of metrics, and a job that is held back by what they say."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from trial_fixtures import spec_for

from envkit.failure import UserError
from envkit.trial.admission import Hold
from envkit.trial.engine_watch import EngineWatch, Pressure, read_page
from envkit.trial.job import Job
from envkit.trial.progress import Silent, Tally
from envkit.trial.result import Status

PAGE = """\
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m, \\"odd\\" {name}"} 3.0
vllm:num_requests_waiting{engine="1",model_name="m"} 4.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000",sliding_window="None"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="1000",sliding_window="None"} 1.0
vllm:num_requests_running{engine="0"} 12 1730000000000
vllm:broken{engine="0"} many
"""


def test_a_page_is_read_over_its_ranks() -> None:
    assert read_page(PAGE) == Pressure(waiting=7, kv_used=0.75, kv_capacity_tokens=32_000)
    assert read_page(PAGE.replace('num_gpu_blocks="1000"', 'num_gpu_blocks="None"')).kv_capacity_tokens is None
    assert read_page("") == read_page("<html>not found</html>\n{}\n") == Pressure()


@contextlib.asynccontextmanager
async def engine(page: Callable[[], str]) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"GET /metrics" in await reader.readuntil(b"\r\n\r\n")
        body = page().encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def test_engines_add_up_and_those_that_are_away_bound_nothing() -> None:
    async with engine(lambda: PAGE) as one, engine(lambda: PAGE.replace("0.75", "0.9")) as two:
        async with EngineWatch([one + "/v1", two]) as watch:
            assert watch.pressure == Pressure(waiting=14, kv_used=0.9, kv_capacity_tokens=64_000)
        async with EngineWatch([one, "http://127.0.0.1:1"]) as watch:
            assert watch.pressure == Pressure(waiting=7, kv_used=0.75)
    with pytest.raises(UserError, match="found 'localhost:8000'"):
        EngineWatch(["localhost:8000"])


@pytest.mark.slow
async def test_a_job_waits_for_engines_that_have_enough_to_do(tmp_path: Path, make_task: Callable[..., Path]) -> None:
    busy = True

    class Watch(Silent):
        most_while_busy = 0
        held = False

        def update(self, tally: Tally) -> None:
            nonlocal busy
            if busy:
                self.most_while_busy = max(self.most_while_busy, tally.running)
                self.held = self.held or tally.held_by is Hold.ENGINE
                busy = tally.done == 0

    watch = Watch()
    task = make_task()
    specs = [spec_for(task, "noop", sample=i) for i in range(3)]
    async with engine(lambda: "vllm:num_requests_waiting 500\n" if busy else "vllm:num_requests_waiting 0\n") as url:
        outcome = await Job(specs, tmp_path / "run", concurrency=3, engines=[url], progress=watch).run()
    assert [r.status for r in outcome.results] == [Status.SCORED] * 3
    assert (watch.held, watch.most_while_busy) == (True, 1)
