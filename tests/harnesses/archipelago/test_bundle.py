"""The servers inside a real sandbox: what is shown there, how they start, and what an agent can do to them."""

from __future__ import annotations

import contextlib
import datetime as dt
import json

import pytest

from envkit.deadline import Deadline
from envkit.harnesses.archipelago import bundle
from envkit.harnesses.archipelago.connection import Connection, ServerGone
from envkit.harnesses.archipelago.link import ProcessLink
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider

CODE = "code_execution_server_code_exec"
LIST = "filesystem_server_list_files"


@contextlib.asynccontextmanager
async def sandbox(**options):
    spec = bundle.with_servers(SandboxSpec(**options))
    provider = LocalProvider()
    provider.check(spec)
    async with provider.create(spec) as started:
        yield started


@contextlib.asynccontextmanager
async def connected(place, **options):
    connection = Connection("apps", ProcessLink(await bundle.start_servers(place, **options)))
    connection.tools = await connection.open(Deadline.after(60))
    try:
        yield connection
    finally:
        await connection.close()


async def text(connection, tool, arguments, timeout_s=60):
    result = await connection.call(tool, arguments, timeout_s)
    return "\n".join(block.text for block in result.content)


async def run(connection, code, timeout_s=60):
    return json.loads(await text(connection, CODE, {"request": {"code": code}}, timeout_s))["output"]


@pytest.mark.slow
def test_the_bundle_holds_what_the_servers_import_and_nothing_of_the_verifiers():
    files = bundle._files()
    assert "envkit/harnesses/archipelago/servers/host.py" in files
    assert "envkit/office/gate.py" in files
    assert files["envkit/harnesses/archipelago/__init__.py"] == b""
    assert not [name for name in files if name.startswith(("envkit/verifiers", "envkit/tasks", "envkit/env.py"))]
    place = bundle.ensure_bundle()
    listed = json.loads((place / "envkit/harnesses/archipelago/servers/catalog.json").read_bytes())
    assert set(listed) == {"meta", "individual"}
    assert list(place.rglob("*.pyc"))
    bundle.ensure_bundle.cache_clear()
    assert bundle.ensure_bundle() == place


@pytest.mark.slow
async def test_every_app_lists_its_tools_and_code_finds_its_packages():
    async with sandbox() as place, connected(place) as servers:
        assert len(servers.tools) == 21
        packages = "pandas, numpy, openpyxl, docx, pptx, pdfplumber, pypdf, matplotlib"
        assert await run(servers, f"python3 -c 'import {packages}; print(1)'") == "1"
        shown = await run(
            servers, "touch /opt/envkit/x; rm -f /opt/envkit/serve.py; ls /opt/envkit; env | grep -c ENVKIT"
        )
        assert "Read-only file system" in shown
        assert "serve.py" in shown
        assert shown.splitlines()[-2] == "0", "the command's environment is the agent's own"


async def test_an_agent_can_not_end_the_servers():
    async with sandbox() as place, connected(place, apps=("filesystem", "code")) as servers:
        attacks = [
            "kill -9 -1",
            "pkill -9 -f serve.py",
            "pkill -STOP python",
            "for p in $(ls /proc | grep -E '^[0-9]+$'); do [ $p != $$ ] && kill -9 $p; done; echo",
            "for p in $(ls /proc | grep -E '^[0-9]+$'); do echo x > /proc/$p/fd/1; cat /proc/$p/environ; done; echo",
            "head -c 300M /dev/zero > /tmp/full; rm -rf /tmp/.envkit*; echo > /tmp/.envkit-locks-1000",
            "D=$(python3 -m site --user-site); mkdir -p $D; echo 'raise SystemExit' > $D/usercustomize.py",
        ]
        for attack in attacks:
            await servers.call(CODE, {"request": {"code": attack}}, 60)
            assert not (await servers.call(LIST, {}, 60)).isError, attack
        assert servers.alive
        # And a server that is started after all that starts.
        async with connected(place, apps=("filesystem",)) as again:
            assert "is empty" in await text(again, "list_files", {})


@pytest.mark.slow
async def test_a_locked_root_can_be_opened_again():
    async with sandbox() as place, connected(place, apps=("filesystem", "code")) as servers:
        await run(servers, "chmod 0 /filesystem")
        assert (await servers.call(LIST, {}, 60)).isError
        await run(servers, "chmod 755 /filesystem")
        assert not (await servers.call(LIST, {}, 60)).isError


@pytest.mark.slow
async def test_processes_without_end_do_not_keep_the_tools_from_working():
    async with sandbox(processes=64) as place, connected(place, apps=("filesystem", "code")) as servers:
        bomb = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
        await run(servers, f"setsid python3 -c '{bomb}' >/dev/null 2>&1 & sleep 1")
        answers = [await servers.call(LIST, {}, 60) for _ in range(5)]
        assert not answers[-1].isError, answers


@pytest.mark.slow
async def test_memory_without_end_ends_the_command_and_not_the_server():
    async with sandbox(memory_mb=512, side_disk_mb=64, disk_mb=64) as place:
        async with connected(place, apps=("filesystem", "code")) as servers:
            eater = "import os\nx = []\nwhile True: x.append(os.urandom(1 << 16) * 64)"
            output = await run(servers, f"python3 -c '{eater}'", 100)
            assert "Kill" in output or "kill" in output
            assert not (await servers.call(LIST, {}, 60)).isError


async def test_the_clock_is_the_one_that_the_model_is_shown():
    now = dt.datetime(2026, 1, 15, 9, tzinfo=dt.UTC)
    async with sandbox() as place:
        process = await bundle.start_servers(place, apps=("mail",), now=now)
        connection = Connection("apps", ProcessLink(process))
        await connection.open(Deadline.after(60))
        mail = {"action": "send", "from_email": "a@x.com", "to_email": "b@x.com", "subject": "s", "body": "b"}
        sent = await connection.call("mail", {"request": mail}, 60)
        assert not sent.isError, sent
        listed = await text(connection, "mail", {"request": {"action": "list"}})
        assert "15 Jan 2026 09:00" in listed
        await connection.close()


async def test_a_server_that_is_killed_from_outside_the_filter_is_seen_to_be_gone():
    async with sandbox() as place, connected(place, apps=("filesystem", "code")) as servers:
        killed = await place.exec(["pkill", "-9", "-f", "serve.py"])
        assert killed.exit_code == 0
        with pytest.raises(ServerGone):
            await servers.call(LIST, {}, 30)


RELAYED = """
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(405); self.send_header("Content-Length", "0"); self.end_headers()
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = message.get("method")
        if "id" not in message:
            self.send_response(202); self.send_header("Content-Length", "0"); self.end_headers(); return
        known = method == "initialize" or self.headers.get("Mcp-Session-Id") == "s1"
        if self.headers.get("Authorization") != "Bearer t" or not known:
            self.send_response(401); self.send_header("Content-Length", "0"); self.end_headers(); return
        about = {"name": "x", "version": "1"}
        result = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": about},
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "said"}]},
        }[method]
        data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        stream = method == "tools/call"
        if stream:
            data = b"event: message\\ndata: " + data + b"\\n\\n"
        self.send_response(200)
        self.send_header("Mcp-Session-Id", "s1")
        self.send_header("Content-Type", "text/event-stream" if stream else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8123), Handler).serve_forever()
"""


@pytest.mark.slow
async def test_a_server_that_listens_inside_is_reached_through_the_relay():
    async with sandbox() as place:
        await place.spawn(["python3", "-c", RELAYED])
        for _ in range(100):
            if (await place.exec(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8123"])).ok:
                break
        url = "http://127.0.0.1:8123/mcp"
        process = await bundle.start_relay(place, url=url, headers={"Authorization": "Bearer t"})
        connection = Connection("task", ProcessLink(process))
        tools = await connection.open(Deadline.after(30))
        assert [tool.name for tool in tools] == ["echo"]
        assert await text(connection, "echo", {}) == "said"
        await connection.close()
        refused = Connection("task", ProcessLink(await bundle.start_relay(place, url="http://127.0.0.1:9/mcp")))
        with pytest.raises(ServerGone, match="can't be reached"):
            await refused.open(Deadline.after(30))
