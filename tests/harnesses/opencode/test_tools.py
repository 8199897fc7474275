"""The seven tools in a real sandbox: their edge cases, and what the model is told."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from envkit.failure import DeadlineExceeded, SandboxDied

Open = Callable[..., Awaitable[Any]]


async def test_bash_shows_output_exit_code_signal_and_nothing(opened: Open) -> None:
    ours = await opened()
    assert (await ours.call("bash", command="echo hi; exit 3")).content == "hi\n<exit code: 3>"
    assert (await ours.call("bash", command="true")).content == "(no output)"
    assert (await ours.call("bash", command="printf x; kill -9 $$")).content == "x\n<ended by signal 9>"
    assert (await ours.call("bash", command="echo $AGENT $OPENCODE; pwd")).content == "1 1\n/filesystem\n"
    assert (await ours.call("bash", command="cd /tmp; x=1")).content == "(no output)"
    assert (await ours.call("bash", command="echo $x $PWD")).content == "/filesystem\n"


async def test_bash_without_exit_codes(opened: Open) -> None:
    ours = await opened(show_exit_code=False)
    assert (await ours.call("bash", command="exit 3")).content == "(no output)"


async def test_bash_stops_a_command_at_its_timeout_with_all_it_started(opened: Open) -> None:
    ours = await opened(limits={"tool_timeout_s": 2.0})
    told = await ours.call("bash", command="echo begun; setsid sleep 99 & sleep 98", timeout=800)
    assert told.content.startswith("begun\n<stopped after 0.8 s")
    assert "larger timeout" in told.content
    told = await ours.call("bash", command="sleep 97", timeout=600_000)
    assert "may take 2 s at most" in told.content
    assert "sleep" not in (await ours.call("bash", command="ps axo comm,args | grep '[s]leep 9' || true")).content


async def test_bash_says_that_memory_ran_out(opened: Open) -> None:
    ours = await opened(spec={"memory_mb": 128, "disk_mb": 8, "side_disk_mb": 4})
    told = await ours.call("bash", command="python3 -c 'x = b\"x\" * 10**9; print(len(x))'")
    assert "memory limit of 128 MB" in told.content or "MemoryError" in told.content


async def test_long_output_shows_its_end_and_is_saved_whole(opened: Open) -> None:
    ours = await opened()
    told = (await ours.call("bash", command="seq 1 30000")).content
    assert told.startswith(
        "[The output is long: 168894 bytes; only its end is shown. All 30000 lines are in /tmp/tool-"
    )
    assert told.endswith("29999\n30000\n")
    assert told.count("\n") == 2 + 1999
    path = told.split(" in ")[1].split(":")[0]
    assert await ours.content(path) == "".join(f"{n}\n" for n in range(1, 30001)).encode()
    assert "12: 12\n" in (await ours.call("read", filePath=path, offset=12, limit=1)).content


async def test_output_beyond_what_is_kept_is_counted(opened: Open) -> None:
    ours = await opened(bash_output_keep_bytes=100_000)
    told = (await ours.call("bash", command="head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end")).content
    assert "[The output is long: 5000005 bytes" in told
    assert "first 4900005 bytes were not kept" in told
    assert told.endswith("an offset.]\n\nend\n")  # the line before it alone is longer than what is shown


async def test_output_that_is_no_text_is_shown_and_saved_as_it_is(opened: Open) -> None:
    ours = await opened(max_output_bytes=256)
    told = (await ours.call("bash", command="printf 'caf\\xe9\\n%.0s' $(seq 200)")).content
    assert told.endswith("caf\ufffd\n")
    assert await ours.content("/tmp/tool-output/001.txt") == b"caf\xe9\n" * 200


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": ""}, "command is empty"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "pwd", "workdir": "missing"}, "no folder /filesystem/missing"),
        ({"command": "pwd", "timeout": 0}, "at least 1, found 0"),
        ({"command": "pwd", "timeout": 1.5}, "found 1.5"),
        ({"command": "pwd", "timeout": True}, "found true"),
        ({"command": "pwd", "workdir": None}, "leave it out"),
        ({"cmd": "pwd"}, "command is missing"),
    ],
)
async def test_bash_refuses_bad_arguments(opened: Open, arguments: dict[str, Any], said: str) -> None:
    told = await (await opened()).call("bash", **arguments)
    assert told.is_error
    assert said in told.content


async def test_a_command_that_exits_with_126_itself_is_no_missing_folder(opened: Open) -> None:
    told = await (await opened()).call("bash", command="exit 126", workdir="/tmp")
    assert (told.is_error, told.content) == (False, "(no output)\n<exit code: 126>")


@pytest.mark.slow
async def test_reading_pages_of_a_large_file(opened: Open) -> None:
    ours = await opened()
    await ours.call("bash", command="seq 1 1000000 > big.txt; yes line | head -c 80000000 | tr -d '\\n' > one-line.txt")
    told = (await ours.call("read", filePath="big.txt", offset=999_999)).content
    assert "999999: 999999\n1000000: 1000000\n\n(end of file, 1000000 lines in all)" in told
    told = (await ours.call("read", filePath="big.txt")).content
    assert "\n2000: 2000\n\n(lines 1-2000 of 1000000 shown; go on with offset=2001)" in told
    told = (await ours.call("read", filePath="one-line.txt")).content
    assert "... (line cut at 2000 characters)\n\n(end of file, 1 lines in all)" in told
    told = await ours.call("edit", filePath="big.txt", oldString="\n777777\n", newString="\nseven\n")
    assert not told.is_error
    assert (
        await ours.call("grep", pattern="^seven$")
    ).content == "Found 1 matches\n/filesystem/big.txt:\n  Line 777777: seven"


async def test_office_files_and_special_files_are_refused_with_a_hint(opened: Open) -> None:
    ours = await opened(files={"a.xlsx": b"PK\3\4", "b.pdf": b"%PDF-1.4", "c.png": b"\x89PNG\r\n\x1a\n", "d": b"a\0b"})
    assert "openpyxl" in (await ours.call("read", filePath="a.xlsx")).content
    assert "pdfplumber" in (await ours.call("read", filePath="b.pdf")).content
    assert "PIL" in (await ours.call("read", filePath="c.png")).content
    assert "Cannot read binary file: /filesystem/d" in (await ours.call("read", filePath="d")).content
    await ours.call("bash", command="mkfifo pipe")
    for told in (
        await ours.call("read", filePath="pipe"),
        await ours.call("write", filePath="pipe", content="x"),
        await ours.call("edit", filePath="pipe", oldString="a", newString="b"),
    ):
        assert told.is_error
        assert "pipe" in told.content
    assert (await ours.call("read", filePath="a\0b")).is_error


async def test_what_may_not_be_written_is_told(opened: Open) -> None:
    ours = await opened()
    assert "read-only" in (await ours.call("write", filePath="/usr/x", content="x")).content
    told = await ours.call("write", filePath="/etc/passwd", content="x")
    assert told.is_error
    await ours.call("bash", command="ln -s /etc/passwd link; mkdir locked; chmod 555 locked")
    assert (await ours.call("write", filePath="link", content="x")).is_error
    assert "permission denied" in (await ours.call("write", filePath="locked/x", content="x")).content
    assert "too long" in (await ours.call("write", filePath="n" * 300, content="x")).content
    told = await ours.call("write", filePath="/proc/self/mem", content="x")
    assert told.is_error


async def test_a_full_disk_is_told_and_an_edit_leaves_the_file_as_it_was(opened: Open) -> None:
    ours = await opened(spec={"disk_mb": 4}, files={"keep.txt": b"precious\n" * 100})
    await ours.call("bash", command="head -c 10000000 /dev/zero > filler || true")
    told = await ours.call("edit", filePath="keep.txt", oldString="precious", newString="x" * 100_000, replaceAll=True)
    assert told.is_error
    assert "disk is full" in told.content
    assert await ours.content("keep.txt") == b"precious\n" * 100


async def test_line_ends_marks_and_foreign_bytes_are_kept(opened: Open) -> None:
    ours = await opened(files={"dos.txt": b"\xef\xbb\xbfone\r\ntwo\r\nthree", "latin.txt": b"caf\xe9 one\n"})
    await ours.call("edit", filePath="dos.txt", oldString="one\ntwo", newString="1\n2")
    await ours.call("edit", filePath="latin.txt", oldString="one", newString="two")
    await ours.call("bash", command="chmod 754 dos.txt; ln dos.txt hard.txt")
    await ours.call("write", filePath="dos.txt", content="new\n")
    assert await ours.content("latin.txt") == b"caf\xe9 two\n"
    assert await ours.content("hard.txt") == b"\xef\xbb\xbfnew\n"
    assert (await ours.call("bash", command="stat -c %a dos.txt")).content == "754\n"


async def test_an_inexact_edit_says_so(opened: Open) -> None:
    ours = await opened(files={"a.py": b"\tx = 1\n"})
    told = await ours.call("edit", filePath="a.py", oldString="x  =  1", newString="x = 2")
    assert "blanks normalised" in told.content
    exact = await opened(files={"a.py": b"\tx = 1\n"}, edit_mode="exact")
    told = await exact.call("edit", filePath="a.py", oldString="x  =  1", newString="x = 2")
    assert told.is_error
    assert await exact.content("a.py") == b"\tx = 1\n"


async def test_names_in_any_script_and_names_that_are_no_text(opened: Open) -> None:
    ours = await opened(files={"Übersicht/日本 語.txt": "Größe\n".encode()})
    await ours.call("bash", command="printf 'Größe\\n' > $'bad\\xff.txt'")
    assert "1: Größe" in (await ours.call("read", filePath="Übersicht/日本 語.txt")).content
    assert (
        await ours.call("glob", pattern="*.txt")
    ).content == "/filesystem/bad\ufffd.txt\n/filesystem/Übersicht/日本 語.txt"
    assert (await ours.call("grep", pattern="Größe")).content.count("Line 1: Größe") == 2
    told = await ours.call("read", filePath="übersicht")
    assert told.is_error


async def test_searches_are_sorted_and_cut_at_a_hundred(opened: Open) -> None:
    ours = await opened(files={f"d/f{n:03d}.txt": b"needle\nneedle\n" for n in range(120)})
    told = (await ours.call("glob", pattern="*.txt")).content.split("\n")
    assert told[:100] == [f"/filesystem/d/f{n:03d}.txt" for n in range(100)]
    assert told[100:] == ["", "(Only the first 100 files are shown. Use a narrower pattern or path.)"]
    told = (await ours.call("grep", pattern="needle")).content
    assert told.startswith(
        "Found 100 matches (there may be more)\n/filesystem/d/f000.txt:\n  Line 1: needle\n  Line 2:"
    )
    assert told.count("Line") == 100


async def test_an_expression_that_runs_wild_is_stopped(opened: Open) -> None:
    ours = await opened(files={"a.txt": b"a" * 60 + b"!\n"}, limits={"tool_timeout_s": 1.5})
    told = await ours.call("grep", pattern="(a|aa)+$")
    assert told.is_error
    assert "stopped after 1.5 s" in told.content
    assert (await ours.call("grep", pattern="a!")).content.startswith("Found 1 matches")


async def test_a_search_gives_up_at_a_line_no_answer_can_hold(opened: Open) -> None:
    ours = await opened(files={"wide.json": b"x" * 70_000 + b"needle\n", "ok.txt": b"needle\n"})
    told = await ours.call("grep", pattern="needle")
    assert told.is_error
    assert "wide.json" in told.content
    assert (await ours.call("grep", pattern="needle", include="*.txt")).content.startswith("Found 1 matches")


async def test_todos_come_back_as_they_are_without_unknown_fields(opened: Open) -> None:
    ours = await opened()
    item = {"content": "Tür", "status": "weird", "priority": "high"}
    told = await ours.call("todowrite", todos=[{**item, "id": 7}])
    assert json.loads(told.content) == [item]
    told = await ours.call("todowrite", todos=[{"content": 1}])
    assert "todos[0].content must be a text, found 1" in told.content


async def test_every_mistake_in_the_arguments_is_listed_with_a_way_out(opened: Open) -> None:
    told = await (await opened()).call("edit", file_path="a", oldString=None, newString=3)
    assert told.is_error
    assert "filePath is missing: a text is needed (you gave 'file_path')" in told.content
    assert "oldString must be a text, found null" in told.content
    assert "newString must be a text, found 3" in told.content
    assert "filePath, oldString, newString, replaceAll (optional)" in told.content


async def test_a_dead_sandbox_is_never_tool_text(opened: Open) -> None:
    ours = await opened()
    await ours.sandbox.stop()
    for name, arguments in (("bash", {"command": "true"}), ("read", {"filePath": "a"}), ("glob", {"pattern": "*"})):
        with pytest.raises(SandboxDied):
            await ours.say((name, arguments))


@pytest.mark.slow
async def test_the_trials_deadline_is_never_tool_text(opened: Open) -> None:
    ours = await opened(files={"a.txt": b"a" * 60 + b"!\n"}, deadline_s=3.0)
    with pytest.raises(DeadlineExceeded):
        await ours.say(("bash", {"command": "sleep 60"}))
    ours = await opened(files={"a.txt": b"a" * 60 + b"!\n"}, deadline_s=3.0)
    with pytest.raises(DeadlineExceeded):
        await ours.say(("grep", {"pattern": "(a|aa)+$"}))


async def test_no_argument_and_no_state_of_the_files_is_a_fault(opened: Open) -> None:
    """What a model writes or does to its files is answered; a fault would be tried again and never scored."""
    ours = await opened(limits={"tool_timeout_s": 20.0})
    nested = "(" * 3000 + "a" + ")" * 3000
    deep = "a/" * 5000
    for name, arguments in (
        ("bash", {"command": "pwd", "workdir": "/x\0y"}),
        ("bash", {"command": "pwd", "workdir": deep}),
        ("grep", {"pattern": nested}),
        ("grep", {"pattern": "a", "include": "{a," * 900 + "b" + "}" * 900}),
        ("glob", {"pattern": "{a," * 900 + "b" + "}" * 900}),
        ("glob", {"pattern": "*", "path": deep}),
        ("read", {"filePath": deep}),
        ("write", {"filePath": deep + "x", "content": ""}),
        ("edit", {"filePath": deep + "x", "oldString": "", "newString": "y"}),
        ("write", {"filePath": "/proc/self/oom_score_adj", "content": "q"}),
        ("write", {"filePath": "", "content": "q"}),
    ):
        assert (await ours.call(name, **arguments)).content
    await ours.call("bash", command="echo a > f; chmod 000 /filesystem")
    for name, arguments in (
        ("read", {"filePath": "f"}),
        ("glob", {"pattern": "**"}),
        ("grep", {"pattern": "a"}),
        ("write", {"filePath": "g", "content": "x"}),
        ("edit", {"filePath": "f", "oldString": "a", "newString": "b"}),
        ("bash", {"command": "true"}),
    ):
        assert (await ours.call(name, **arguments)).content
    await ours.call("bash", command="chmod 755 /filesystem", workdir="/")
    assert "1: a" in (await ours.call("read", filePath="f")).content
