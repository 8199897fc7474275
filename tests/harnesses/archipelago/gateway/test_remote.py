"""Our harness in an environment known by its URL alone: the world sent, worked on there, brought back and judged."""

from __future__ import annotations

import asyncio
import gzip
import io
import tarfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from envkit.deadline import Deadline
from envkit.directory_pack import DirectoryPack
from envkit.env import AsyncEnv
from envkit.failure import Boundary, EnvkitError, FailureKind
from envkit.harnesses.archipelago import ArchipelagoHarness
from envkit.harnesses.archipelago.gateway.client import GatewayClient
from envkit.messages import AssistantMessage, Observation, ToolCall
from envkit.sandbox.local import LocalProvider

TOML = """
schema_version = "1.4"
[task]
name = "test/sum"
[metadata.envkit]
world = "worlds/shop"
"""
CHECKS = """
schema_version = "1"
[[check]]
id = "report"
kind = "text"
path = "/filesystem/report.txt"
contains = ["total: 6"]
[[check]]
id = "gone"
kind = "file"
path = "/filesystem/old.txt"
exists = false
"""


def write_pack(root: Path) -> DirectoryPack:
    world = root / "worlds" / "shop"
    (world / "filesystem").mkdir(parents=True)
    (world / ".apps_data" / "mail").mkdir(parents=True)
    (world / "filesystem" / "sales.csv").write_text("item,amount\na,1\nb,2\nc,3\n")
    (world / "filesystem" / "old.txt").write_text("old\n")
    (world / ".apps_data" / "mail" / "sent.mbox").write_text("")
    task = root / "sum"
    (task / "tests").mkdir(parents=True)
    (task / "task.toml").write_text(TOML)
    (task / "instruction.md").write_text("Sum the amounts, write report.txt, delete old.txt.\n")
    (task / "tests" / "verifier.toml").write_text(CHECKS)
    (task / "tests" / "test.sh").write_text("exit 1\n")
    return DirectoryPack(root, "test")


def made(root: Path, url: str, **options: Any) -> AsyncEnv:
    pack = write_pack(root)
    harness = ArchipelagoHarness(gateway_url=url, **options)
    return AsyncEnv(pack.load("sum"), pack=pack, harness=harness, provider=LocalProvider())


def call(name: str, **arguments: Any) -> AssistantMessage:
    return AssistantMessage(tool_calls=(ToolCall(id="c", name=name, arguments=arguments),))


@pytest.mark.slow
async def test_the_world_is_sent_worked_on_there_and_judged_here(start: Callable[..., Any], tmp_path: Path) -> None:
    gateway = await start()
    env = made(
        tmp_path / "one", gateway.url, servers=["filesystem", "code"], result_head_bytes=500, result_tail_bytes=100
    )
    try:
        observation, _ = await env.reset()
        assert "filesystem_server_list_files" in [tool.name for tool in observation.tools or ()]
        observation, *_ = await env.step(call("code_execution_server_code_exec", code="seq 1000; ls; pwd"))
        assert isinstance(observation, Observation)
        told = observation.messages[0]
        assert not isinstance(told, AssistantMessage)
        assert "sales.csv" in told.content
        assert "left out here. Ask for a smaller part" in told.content
        await env.step(call("code_execution_server_code_exec", code="echo 'total: 6' > report.txt; rm old.txt"))
        *_, reward, terminated, _, _ = await env.step("Done.")
    finally:
        await env.close()
    assert (reward, terminated) == (1.0, True)
    again = made(tmp_path / "two", gateway.url, servers=["filesystem"])
    try:
        with pytest.raises(EnvkitError, match=r"not fresh.*report\.txt") as caught:
            await again.reset()
    finally:
        await again.close()
    assert caught.value.kind is FailureKind.SETUP_FAILED


@pytest.mark.slow
async def test_what_the_environment_refuses_is_a_fault_that_says_so(start: Callable[..., Any], tmp_path: Path) -> None:
    gateway = await start(ready_s=3.0)
    apps = {"mcpServers": {"odd": {"transport": "stdio", "command": "/no/such/program"}}}
    env = made(tmp_path, gateway.url, gateway_apps=apps)
    try:
        with pytest.raises(EnvkitError, match="/no/such/program") as caught:
            await env.reset()
    finally:
        await env.close()
    assert caught.value.kind is FailureKind.TOOL_SERVER_DIED


@pytest.mark.slow
async def test_an_environment_that_is_gone_is_a_fault(start: Callable[..., Any], tmp_path: Path) -> None:
    gateway = await start()
    env = made(tmp_path / "one", gateway.url, servers=["filesystem"])
    try:
        await env.reset()
        await gateway.place.sandbox.stop()
        with pytest.raises(EnvkitError) as caught:
            await env.step("Done.")  # nothing can be brought back, so nothing can be judged
    finally:
        await env.close()
    assert (caught.value.boundary, caught.value.kind) == (Boundary.TOOL, FailureKind.SANDBOX_ERROR)
    nobody = made(tmp_path / "two", "http://127.0.0.1:9", ready_s=1.0)
    try:
        with pytest.raises(EnvkitError, match="is not ready after 1 s"):
            await nobody.reset()
    finally:
        await nobody.close()


@pytest.fixture
async def liar() -> AsyncIterator[dict[str, Any]]:
    """An environment whose snapshots are what `answer` says; at `url`."""
    state: dict[str, Any] = {"answer": PlainTextResponse("")}

    async def snapshot(_: Any) -> Response:
        answer: Response = state["answer"]
        return answer

    async def health(_: Any) -> Response:
        return PlainTextResponse("OK")

    app = Starlette(routes=[Route("/data/snapshot", snapshot, methods=["POST"]), Route("/health", health)])
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", 0, log_level="error"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.02)
    state["url"] = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield state
    server.should_exit = True
    await asyncio.wait({task}, timeout=20)


async def test_a_snapshot_that_was_cut_is_never_taken_for_the_world(liar: dict[str, Any], tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("filesystem/a")
        info.size = 512
        tar.addfile(info, io.BytesIO(bytes(512)))
    whole = out.getvalue()
    client = GatewayClient(liar["url"], Deadline.after(20))
    cut = [gzip.compress(whole)[:-9], gzip.compress(whole[:1024]), gzip.compress(whole[:512]), b"", b"<html>"]
    for body in cut:
        liar["answer"] = Response(body, media_type="application/gzip")
        with pytest.raises(EnvkitError):
            await client.snapshot(tmp_path / "out.tar")
    liar["answer"] = JSONResponse({"detail": "tar: disk full"}, status_code=500)
    with pytest.raises(EnvkitError, match="disk full"):
        await client.snapshot(tmp_path / "out.tar")
    liar["answer"] = Response(gzip.compress(whole), media_type="application/gzip")
    await client.snapshot(tmp_path / "out.tar")
    assert (tmp_path / "out.tar").read_bytes() == whole
