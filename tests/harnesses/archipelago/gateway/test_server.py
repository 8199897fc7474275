"""The environment contract over real HTTP: populate, apps, tools by the official client, snapshot."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client

from envkit.harnesses.archipelago.gateway.face import without_odd_enums

PROGRAM = Path(__file__).parents[1] / "odd_server.py"
Gateway = Any
ODD = {"odd": {"transport": "stdio", "command": "python3", "args": ["-S", "/filesystem/odd_server.py"]}}
OURS = {"filesystem_server": {"transport": "stdio", "command": "uv", "args": ["run"], "cwd": "/app/mcp_servers/fs"}}


def packed(files: Mapping[str, bytes | tarfile.TarInfo], mode: str = "w:gz") -> bytes:
    """A tar.gz of files; a `TarInfo` is taken as it is."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                content.name = name
                tar.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


async def session(stack: AsyncExitStack, url: str) -> ClientSession:
    read, write, _ = await stack.enter_async_context(streamable_http_client(url))
    made = await stack.enter_async_context(ClientSession(read, write))
    await made.initialize()
    return made


def text(result: types.CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def test_a_world_goes_in_is_worked_on_and_comes_out(gateway: Gateway) -> None:
    assert (await gateway.http.get("/health")).text == "OK"
    response = await gateway.populate(
        packed({"a.txt": b"one", "d/b.txt": b"two", "odd_server.py": PROGRAM.read_bytes()})
    )
    assert response.json() | {"extracted_bytes": 0} == {
        "objects_added": 3, "subsystem": "filesystem", "extracted_bytes": 0, "hook_timings": [],
    }  # fmt: skip
    await gateway.populate(packed({"box.mbox": b"From x\n"}), ".apps_data/mail")
    assert (await gateway.apps({**ODD, **OURS})).json()["servers"] == ["odd", "filesystem_server"]
    for path in ("/mcp/", "/mcp"):
        async with AsyncExitStack() as stack:
            client = await session(stack, gateway.url + path)
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert "filesystem_server_list_files" in tools
            assert list(tools["odd_echo"].inputSchema["properties"]) == ["request"]  # envelopes stay on
            assert text(await client.call_tool("odd_echo", {"request": {"text": "hi"}})) == "hi"
            assert "a.txt" in text(await client.call_tool("filesystem_server_list_files", {"path": "/"}))
            failed = await client.call_tool("odd_fail", {})
            assert failed.isError
            unknown = await client.call_tool("odd_ech", {})
            assert "did you mean" in text(unknown)
    files = await gateway.snapshot()
    assert files["filesystem/d/b.txt"] == b"two"
    assert files[".apps_data/mail/box.mbox"] == b"From x\n"


@pytest.mark.slow
async def test_names_have_a_prefix_only_where_there_are_several(gateway: Gateway) -> None:
    async def listed() -> set[str]:
        async with AsyncExitStack() as stack:
            return {tool.name for tool in (await (await session(stack, gateway.url + "/mcp/")).list_tools()).tools}

    assert (await gateway.apps({})).status_code == 200
    assert await listed() == set()
    await gateway.apps(OURS)
    assert {"list_files", "search_files"} < await listed()
    await gateway.apps({"files": OURS["filesystem_server"]})  # no published name, and no such program
    assert await listed() == set()
    await gateway.apps({"filesystem": {}, "code_execution_server": {}})
    assert {"filesystem_list_files", "code_execution_server_code_exec"} < await listed()
    await gateway.apps({"filesystem": {}, "code_execution_server": {}}, allowed_tool_names=["list_files", "nosuch"])
    assert await listed() == {"filesystem_list_files"}


async def test_the_same_config_again_costs_nothing_and_another_is_put_in_force(gateway: Gateway) -> None:
    body = {"mcpServers": {}, "allowed_tool_names": ["x"]}
    turned = dict(reversed(body.items()))
    first, second = [(await gateway.http.post("/apps", json=each)).json() for each in (body, turned)]
    assert first["duration_ms"] > 0
    assert second["duration_ms"] == 0
    assert (await gateway.apps({}, allowed_tool_names=["y"])).json()["duration_ms"] > 0


@pytest.mark.slow
async def test_servers_that_are_not_ready_are_named_and_nothing_is_in_force(start: Callable[..., Any]) -> None:
    gateway = await start(ready_s=3.0)
    good = {"mcpServers": OURS}
    assert (await gateway.http.post("/apps", json=good)).status_code == 200
    await gateway.populate(packed({"odd_server.py": PROGRAM.read_bytes()}))
    broken = {"odd": {**ODD["odd"], "args": [*ODD["odd"]["args"], '{"die": true}']}}
    response = await gateway.apps({**OURS, **broken})
    assert response.status_code == 503
    detail = response.json()["detail"]
    assert detail["failed_servers"] == ["odd"]
    assert "can't find the data" in detail["details"]["odd"]["error"]
    again = await gateway.http.post("/apps", json=good)
    assert again.json()["duration_ms"] > 0  # not taken for the config that was in force before


async def test_only_the_worlds_trees_can_be_populated(gateway: Gateway) -> None:
    for subsystem in ("filesystem", ".apps_data/chat"):
        assert (await gateway.populate(packed({"a": b"1"}), subsystem)).status_code == 200
    for subsystem in ("etc", "/filesystem", "filesystem/../etc", "", "filesystem\\x"):
        assert (await gateway.populate(packed({"a": b"1"}), subsystem)).status_code == 400


async def test_an_archive_goes_in_whole_or_not_at_all(start: Callable[..., Any]) -> None:
    gateway = await start(disk_mb=16)
    assert (await gateway.populate(packed({"kept": b"old", "folder/inner": b"x"}))).status_code == 200
    before = await gateway.snapshot()
    evil = tarfile.TarInfo()
    evil.type, evil.linkname = tarfile.SYMTYPE, "/etc"
    for archive in (
        packed({"kept": b"new", "../out": b"x"}),
        packed({"kept": b"new", "l": evil}),
        packed({"kept": b"new"})[:-20],
        packed({"kept": b"new", "folder": b"a file where a folder is"}),
        packed({"kept": b"new", "big": os.urandom(24 << 20)}),  # more than the disk holds
        b"nothing like it",
    ):
        response = await gateway.populate(archive)
        assert response.status_code in (400, 500), response.text
        assert response.json()["detail"]
        assert await gateway.snapshot() == before
    assert (await gateway.populate(packed({"kept": b"new"}))).status_code == 200
    assert (await gateway.snapshot())["filesystem/kept"] == b"new"


@pytest.mark.slow
async def test_nothing_is_written_through_a_link_that_an_agent_left(gateway: Gateway) -> None:
    await gateway.place.sandbox.exec(["sh", "-c", "ln -s /tmp /filesystem/d; ln -s /tmp/f /filesystem/f"])
    refused = await gateway.populate(packed({"d/x": b"1"}))
    assert refused.status_code == 500
    assert "link" in refused.json()["detail"]
    assert (await gateway.populate(packed({"f": b"1"}))).status_code == 200
    assert (await gateway.snapshot())["filesystem/f"] == b"1"
    assert (await gateway.place.sandbox.exec(["ls", "/tmp/f"])).exit_code != 0


@pytest.mark.slow
async def test_hooks_run_inside_and_a_failed_one_is_an_error(gateway: Gateway) -> None:
    hooks = json.dumps([{"name": "mark", "command": "echo $WHO > /filesystem/mark", "env": {"WHO": "me"}}])
    response = await gateway.populate(packed({"a": b"1"}), post_populate_hooks=hooks)
    assert [timing["name"] for timing in response.json()["hook_timings"]] == ["mark"]
    assert (await gateway.snapshot())["filesystem/mark"] == b"me\n"
    failing = json.dumps([{"name": "bad", "command": "echo why; exit 3"}])
    failed = await gateway.populate(packed({"a": b"1"}), post_populate_hooks=failing)
    assert (failed.status_code, "why" in failed.json()["detail"]) == (500, True)
    body = {"pre_snapshot_hooks": [{"name": "bad", "command": "exit 3"}]}
    assert (await gateway.http.post("/data/snapshot", json=body)).status_code == 500
    assert (await gateway.populate(packed({"a": b"1"}), post_populate_hooks="[{")).status_code == 400


async def test_a_snapshot_that_fails_is_an_error_and_never_a_short_file(start: Callable[..., Any]) -> None:
    gateway = await start(max_snapshot_mb=1)
    await gateway.place.sandbox.exec(["sh", "-c", "head -c 3000000 /dev/urandom > /filesystem/big"])
    response = await gateway.http.post("/data/snapshot")
    assert response.status_code == 500
    assert response.headers["Content-Type"] == "application/json"
    await gateway.place.sandbox.stop()
    assert (await gateway.http.post("/data/snapshot")).status_code == 500
    assert list(gateway.place.scratch("x").parent.iterdir()) == []


async def test_bad_requests_are_told_what_is_wrong(gateway: Gateway) -> None:
    for path, body, status in (
        ("/apps", b"{", 400),
        ("/apps", b"[]", 400),
        ("/apps", b'{"mcpServers": {"a": {"transport": "pigeon"}}}', 400),
        ("/apps", b'{"mcpServers": {"a": {"transport": "http"}}}', 400),
        ("/data/populate", b"", 400),
        ("/data/snapshot/s3", b"", 501),
        ("/data/rootfs/capture", b"", 501),
        ("/rest/mail/x", b"", 501),
        ("/nosuch", b"", 404),
    ):
        response = await gateway.http.post(path, content=body)
        assert response.status_code == status, path
        assert response.json()["detail"]


@pytest.mark.slow
async def test_a_token_is_asked_for_by_everything_that_matters(start: Callable[..., Any]) -> None:
    gateway = await start(token="secret-token")
    assert (await gateway.http.get("/health")).status_code == 200
    for path in ("/data/snapshot", "/apps", "/mcp/", "/mcp"):
        assert (await gateway.http.post(path, json={})).status_code == 401
        wrong = {"Authorization": "Bearer secret"}
        assert (await gateway.http.post(path, json={}, headers=wrong)).status_code == 401
    right = {"Authorization": "Bearer secret-token"}
    assert (await gateway.http.post("/apps", json={"mcpServers": {}}, headers=right)).status_code == 200


@pytest.mark.slow
async def test_two_clients_work_at_once_and_a_killed_server_comes_back(gateway: Gateway) -> None:
    await gateway.populate(packed({"odd_server.py": PROGRAM.read_bytes()}))
    await gateway.apps(ODD)
    async with AsyncExitStack() as stack:
        one, two = await session(stack, gateway.url + "/mcp/"), await session(stack, gateway.url + "/mcp/")
        slow = asyncio.ensure_future(one.call_tool("sleep", {"n": 1}))
        assert text(await two.call_tool("echo", {"request": {"text": "meanwhile"}})) == "meanwhile"
        assert text(await slow) == "slept"
        killed = await one.call_tool("kill", {"n": 9})
        assert killed.isError
        assert text(await two.call_tool("echo", {"request": {"text": "back"}})) == "back"


def test_enumerations_of_other_things_than_texts_are_taken_out() -> None:
    schema = {
        "properties": {
            "enum": {"enum": [1, 2], "type": "integer"},
            "b": {"enum": ["x"]},
            "c": {"anyOf": [{"enum": [None]}]},
        }
    }
    assert without_odd_enums(schema) == {
        "properties": {"enum": {"type": "integer"}, "b": {"enum": ["x"]}, "c": {"anyOf": [{}]}}
    }


@pytest.mark.slow
def test_the_command_serves_until_it_is_stopped() -> None:
    argv = [sys.executable, "-m", "envkit.cli.main", "gateway", "--port", "0"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("listening on http://127.0.0.1:"), line
            url = line.split()[2]
            assert httpx.get(f"{url}/health", timeout=10).text == "OK"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
