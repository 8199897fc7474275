"""The server process: one call's trouble is that call's result and nobody else's; nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

import pytest
import pytest_asyncio
from mcp import McpError, types

from envkit.sandbox.supervisor import tree


def below(pid: int) -> list[int]:
    table = tree.processes()
    return [found for found in tree.below({pid}, table) if table[found][1]]


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def gone(pids: list[int]) -> bool:
    for _ in range(500):
        if not any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids):
            return True
        await asyncio.sleep(0.02)
    return False


async def until(found) -> bool:
    for _ in range(500):
        if found():
            return True
        await asyncio.sleep(0.02)
    return False


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools(server_starter, trouble_options, tmp_path_factory):
    """One server for all tests of this module that do not end it."""
    starter = server_starter(tmp_path_factory.mktemp("world"))
    yield await starter(**trouble_options, options=("--memory-mb", "400"))
    await starter.close()


@pytest_asyncio.fixture(loop_scope="module")
async def start_tools(server_starter, tmp_path):
    """The fixture of the same name, on this module's loop."""
    starter = server_starter(tmp_path)
    yield starter
    await starter.close()


@pytest.mark.parametrize(
    ("tool", "words", "kind"),
    [
        ("crash", "broke down (SIGSEGV)", "fault"),
        ("leave", "broke down (status 0)", "fault"),
        ("broken", "by a fault of its own (KeyError", "fault"),
        ("memory", "more than the 400 MiB of memory", "memory"),
        ("spin", "took longer than 1 s", "timeout"),
        ("nothing", "by a fault of its own (TypeError", "fault"),
    ],
)
async def test_a_call_that_breaks_down_is_told_and_others_go_on(tools, tool, words, kind):
    beside = asyncio.create_task(tools.call("sleep", {"seconds": 0.3}))
    broken = await tools.call(tool, {}, timeout_s=1 if tool == "spin" else None)
    assert broken.error
    assert words in broken.text
    assert broken.meta["envkit/kind"] == kind
    assert (await beside).text == "slept"
    assert not (await tools.call("list_files")).error


async def test_a_call_past_its_deadline_is_ended_with_all_it_started(tools):
    called = asyncio.create_task(tools.call("background", {"seconds": 60}, timeout_s=1.5))
    assert await until(lambda: len(below(tools.pid)) >= 2)
    started = below(tools.pid)
    answer = await called
    assert answer.meta["envkit/kind"] == "timeout"
    assert await gone(started)


async def test_a_cancelled_call_is_ended(tools):
    called = asyncio.create_task(tools.call("background", {"seconds": 60}))
    assert await until(lambda: len(below(tools.pid)) >= 2)
    started = below(tools.pid)
    note = types.CancelledNotification(
        params=types.CancelledNotificationParams(requestId=tools.session._request_id - 1, reason="enough")
    )
    await tools.session.send_notification(types.ClientNotification(note))
    with pytest.raises(McpError, match="cancelled"):
        await called
    assert await gone(started)
    assert (await tools.call("sleep", {"seconds": 0})).text == "slept"


async def test_a_killed_server_leaves_no_call_running(start_tools, trouble_options):
    tools = await start_tools(**trouble_options)
    called = asyncio.create_task(tools.call("sleep", {"seconds": 60}))
    assert await until(lambda: below(tools.pid))
    started = below(tools.pid)
    os.kill(tools.pid, signal.SIGKILL)
    assert await gone([tools.pid, *started])
    with pytest.raises(McpError):
        await asyncio.wait_for(called, 10)


async def test_a_server_whose_client_goes_ends_with_its_calls(start_tools, trouble_options):
    tools = await start_tools(**trouble_options)
    called = asyncio.create_task(tools.call("background", {"seconds": 60}))
    assert await until(lambda: len(below(tools.pid)) >= 2)
    started = below(tools.pid)
    os.kill(tools.pid, signal.SIGTERM)
    assert await gone([tools.pid, *started])
    with contextlib.suppress(McpError):
        await asyncio.wait_for(called, 10)


@pytest.mark.slow
async def test_a_half_written_file_of_an_ended_call_is_removed(tools):
    called = asyncio.create_task(tools.call("half", {"file_path": "a.txt", "seconds": 60}, timeout_s=1.5))
    assert await until(lambda: (tools.root / ".half").exists())
    assert (await called).error
    assert not (tools.root / ".half").exists()


@pytest.mark.slow
async def test_fifty_mebibytes_are_cut_or_refused_and_the_connection_goes_on(tools):
    size = 50 << 20
    text = await tools.call("text", {"size": size})
    assert not text.error
    assert len(text.text) < 2_100_000
    assert f"{size:,} characters" in text.text
    thing = await tools.call("thing", {"size": size})
    assert thing.error
    assert "Ask for a part" in thing.text
    picture = await tools.call("picture", {"size": size})
    assert picture.error
    assert "52,428,804 bytes" in picture.text
    # One that fits goes through whole.
    assert len((await tools.call("picture", {"size": 5 << 20})).images[0]) == (5 << 20) + 4


async def test_what_a_handler_prints_never_reaches_the_protocol(tools):
    assert (await tools.call("noisy")).text == "said all"
    assert (await tools.call("sleep", {"seconds": 0})).text == "slept"


async def test_calls_on_one_file_wait_for_each_other_and_others_do_not(tools):
    calls = [tools.call("count", {"file_path": "n.txt", "seconds": 0.05}) for _ in range(6)]
    calls += [tools.call("count", {"file_path": "/filesystem/./n.txt", "seconds": 0.05}) for _ in range(6)]
    answers = await asyncio.gather(*calls)
    assert sorted(int(answer.text) for answer in answers) == list(range(1, 13))
    # Another file is free meanwhile.
    slow = asyncio.create_task(tools.call("count", {"file_path": "slow.txt", "seconds": 3}))
    await asyncio.sleep(0.2)
    await tools.call("count", {"file_path": "quick.txt"})
    assert not slow.done()
    slow.cancel()


@pytest.mark.slow
async def test_two_servers_on_one_world_keep_the_same_order(start_tools, trouble_options):
    both = [await start_tools(**trouble_options), await start_tools(**trouble_options)]
    calls = [tools.call("count_state", {"seconds": 0.03}) for _ in range(5) for tools in both]
    calls += [tools.call("count", {"file_path": "n.txt", "seconds": 0.03}) for _ in range(3) for tools in both]
    await asyncio.gather(*calls)
    assert (both[0].apps_data / "trouble" / "count").read_text() == "10"
    assert (both[0].root / "n.txt").read_text() == "6"


async def test_an_unreadable_file_is_named_with_what_is_wrong(tools):
    (tools.root / "secret.docx").write_bytes(b"x")
    answer = await tools.call("unreadable", {"file_path": "secret.docx"})
    assert answer.error
    assert answer.text.startswith("/secret.docx can't be read (encrypted): it needs a password.")


async def test_unknown_tools_and_lone_apps(start_tools, trouble_options):
    tools = await start_tools(**trouble_options | dict(apps=("apps.trouble.declared",)))
    assert "sleep" in tools.listed, "one app alone has no prefix"
    result = await tools.session.call_tool("slep", {})
    assert result.isError
    assert "did you mean 'sleep'" in result.content[0].text
    assert (tools.listed["count"].annotations.readOnlyHint, tools.listed["sleep"].annotations.readOnlyHint) == (
        False,
        True,
    )


async def test_published_environment_variables_are_honoured(start_tools, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "here.txt").write_text("x")
    tools = await start_tools(
        ("code_execution_server", "filesystem"),
        None,
        env={"USE_INDIVIDUAL_TOOLS": "true"},
        options=("--root", str(elsewhere)),
    )
    assert "here.txt" in (await tools.call("list_files")).text


async def test_lines_that_are_no_message_are_left_out(tmp_path):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "envkit.harnesses.archipelago.servers", "--apps", "filesystem", "--root", tmp_path,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said = b'nonsense\n\n{"jsonrpc":"2.0"}\n' + b"\xff\xfe\n"
    # A request that can't be read is refused by name.
    said += b'{"jsonrpc":"2.0","id":5,"method":"x","params":' + b'{"a":' * 5000 + b"1" + b"}" * 5001 + b"\n"
    said += b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n'
    process.stdin.write(said)
    answers = [json.loads(await asyncio.wait_for(process.stdout.readline(), 30)) for _ in range(2)]
    assert sorted(answer["id"] for answer in answers) == [5, 7]
    assert "too deep" in str(answers)
    # A client that stops reading and leaves: the process ends by itself.
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 20) == 0


@pytest.mark.slow
async def test_the_process_has_one_thread_whatever_was_called(start_tools):
    tools = await start_tools(("filesystem", "code", "sheets", "pdf", "docs", "slides"))
    for name in ("sheets", "pdf", "docs", "slides"):
        await tools.call(name, {"action": "read_tab", "file_path": "/a"})
    for name, action in (("sheets", "list_tabs"), ("pdf", "read_pages"), ("docs", "overview"), ("slides", "read_deck")):
        assert (await tools.call(name, {"action": action, "file_path": "/none"})).error
    status = Path(f"/proc/{tools.pid}/status").read_text()
    assert "Threads:\t1\n" in status


@pytest.mark.slow
async def test_the_modes_of_all_apps_and_of_the_two_with_a_switch_of_their_own(start_tools):
    tools = await start_tools(("mail", "edgar"), None, env={"GUI_ENABLED": "1"})
    assert "mail_server_mail" in tools.listed
    assert "edgar_sec_lookup_cik" in tools.listed


async def test_a_transport_that_is_not_served_is_refused():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "envkit.harnesses.archipelago.servers", env={**os.environ, "MCP_TRANSPORT": "http"},
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 2
    assert b"MCP_TRANSPORT=http is not served here" in said


async def test_a_server_that_nobody_reads_any_more_ends_with_its_calls(tmp_path):
    read_end, write_end = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "envkit.harnesses.archipelago.servers", "--apps", "code", "--root", tmp_path,
        stdin=asyncio.subprocess.PIPE, stdout=write_end, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    os.close(write_end)
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    call = {"name": "code_exec", "arguments": {"code": "sleep 77004"}}
    for number, (method, params) in enumerate((("initialize", about), ("tools/call", call))):
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        if method == "initialize":
            assert b"protocolVersion" in await asyncio.to_thread(os.read, read_end, 65536)
            process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    assert await until(lambda: below(process.pid))
    started = below(process.pid)
    os.close(read_end)
    process.stdin.write(b'{"jsonrpc":"2.0","id":9,"method":"ping"}\n')
    assert await asyncio.wait_for(process.wait(), 20) == 0
    assert await gone(started)
    assert b"nobody reads what this server says any more" in await process.stderr.read()
