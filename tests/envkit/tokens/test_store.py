"""The trace on disk: SIGKILL, torn writes, damage and resuming lose nothing that was there."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from envkit.messages import AssistantMessage, Message, ToolCall, ToolSpec, Usage
from envkit.tokens import Edge, Trace, TraceError, export, open_trace, read_trace
from envkit.tokens.store import TRACE_JOURNAL, TRACE_JSON, TRACE_TENSORS, TraceWriter

TOOL = ToolSpec(name="read", description="Reads \u00e4 file", parameters={"type": "object", "properties": {}})


def fill(trace: Trace, turns: int, start: int = 0) -> None:
    """A deterministic conversation with everything in it that a node can carry."""
    for i in range(start, turns):
        rng = np.random.default_rng(i)
        head = len(trace) - 1 if len(trace) else None
        rewrite = i % 7 == 5
        context = trace.add_context(
            rng.integers(0, 150_000, 30 + i % 5),
            [
                Message(
                    role="tool",
                    content=f"result {i} \u20ac\U0001f600\x00\u2028",
                    tool_call_id="c1",
                    is_error=i % 2 == 0,
                ),
                Message(role="user", content="go on"),
            ],
            parent=None if rewrite else head,
            edge=Edge.REWRITE if rewrite else Edge.APPEND,
            origin=head if rewrite else None,
            ends=(10, 25),
            tools=[TOOL] if i == 0 else None,
            note="compaction" if rewrite else None,
        )
        n = i % 9
        trace.add_sampled(
            context.index,
            AssistantMessage(
                text=f"answer {i}",
                tool_calls=(
                    ToolCall.parse("c1", "read", '{"path": "a\u00e9"}'),
                    ToolCall.parse("c2", "read", "{broken"),
                ),
                reasoning="hm",
                raw="raw <text>",
                usage=Usage(prompt_tokens=30, waited_s=0.5),
            ),
            rng.integers(0, 150_000, n),
            -rng.random(n),
            rng.integers(0, 5, n),
            finish="length" if i % 3 else "stop",
            params={"temperature": 0.7, "seed": i},
            request_id=f"r{i}",
            attempts=1 + i % 2,
        )


def assert_equal(found: Trace, expected: Trace) -> None:
    assert len(found) == len(expected)
    assert found.meta == expected.meta
    for a, b in zip(found, expected, strict=True):
        for name in ("index", "parent", "thread", "edge", "origin", "start", "messages", "ends", "tools", "note"):
            assert getattr(a, name) == getattr(b, name), name
        np.testing.assert_array_equal(a.ids, b.ids)
        assert (a.sampling is None) == (b.sampling is None)
        if a.sampling is not None and b.sampling is not None:
            np.testing.assert_array_equal(a.sampling.logprobs, b.sampling.logprobs)
            np.testing.assert_array_equal(a.sampling.versions, b.sampling.versions)
            assert a.sampling.finish == b.sampling.finish
            assert a.sampling.params == b.sampling.params
            assert a.sampling.request_id == b.sampling.request_id
            assert a.sampling.attempts == b.sampling.attempts


def expected(turns: int) -> Trace:
    trace = Trace({"model": "m"})
    fill(trace, turns)
    return trace


def test_unfinished_and_finished_traces_read_back_equal(tmp_path: Path) -> None:
    trace, writer = open_trace(tmp_path, {"model": "m"})
    fill(trace, 20)
    assert_equal(read_trace(tmp_path), expected(20))
    writer.finish(trace)
    assert sorted(p.name for p in tmp_path.iterdir()) == [TRACE_JSON, TRACE_TENSORS]
    assert_equal(read_trace(tmp_path), expected(20))
    assert export(read_trace(tmp_path)).delivered == trace.sampled_tokens
    with pytest.raises(TraceError, match="finished"):
        trace.add_context([1], [])
    with pytest.raises(TraceError, match="finished trace"):
        TraceWriter(tmp_path, {})


def test_an_empty_trace_is_a_trace(tmp_path: Path) -> None:
    trace, writer = open_trace(tmp_path, {"model": "m"})
    assert len(read_trace(tmp_path)) == 0
    writer.finish(trace)
    assert len(read_trace(tmp_path)) == 0


@pytest.mark.slow
def test_every_possible_tear_of_the_journal_leaves_a_whole_prefix(tmp_path: Path) -> None:
    trace, writer = open_trace(tmp_path, {"model": "m"})
    fill(trace, 3)
    writer.close()
    journal = tmp_path / TRACE_JOURNAL
    whole = journal.read_bytes()
    lengths = set()
    for cut in range(len(whole) - 1, 300, -7):
        journal.write_bytes(whole[:cut])
        try:
            found = read_trace(tmp_path)
        except TraceError as error:
            assert "no whole frame" in str(error)  # noqa: PT017 - only while not even the opening frame is there
            continue
        lengths.add(len(found))
        for a, b in zip(found, expected(3), strict=False):
            np.testing.assert_array_equal(a.ids, b.ids)
    assert lengths == set(range(6)), "every prefix was seen, node by node"


def test_resuming_cuts_the_torn_frame_and_goes_on(tmp_path: Path) -> None:
    trace, writer = open_trace(tmp_path, {"model": "m"})
    fill(trace, 4)
    writer.close()
    journal = tmp_path / TRACE_JOURNAL
    with journal.open("ab") as file:
        file.write(b"ekT1\x00\x01")
    trace, writer = open_trace(tmp_path, {"ignored": True})
    assert len(trace) == 8
    fill(trace, 9, start=4)
    assert_equal(read_trace(tmp_path), expected(9))
    writer.finish(trace)
    assert_equal(read_trace(tmp_path), expected(9))


def test_damage_in_the_final_files_is_found(tmp_path: Path) -> None:
    trace, writer = open_trace(tmp_path, {"model": "m"})
    fill(trace, 4)
    writer.finish(trace)
    tensors = tmp_path / TRACE_TENSORS
    raw = bytearray(tensors.read_bytes())
    raw[-1] ^= 1
    tensors.write_bytes(bytes(raw))
    with pytest.raises(TraceError, match="damaged"):
        read_trace(tmp_path)
    document = json.loads((tmp_path / TRACE_JSON).read_text())
    document["version"] = 99
    (tmp_path / TRACE_JSON).write_text(json.dumps(document))
    with pytest.raises(TraceError, match="99"):
        read_trace(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{torn", "[]", "null", "[" * 100_000, '{"version": 1, "tensors": {"bytes": NaN}}']
)
def test_whatever_stands_in_a_traces_place_is_told_as_its_damage(tmp_path: Path, text: str) -> None:
    (tmp_path / TRACE_JSON).write_text(text)
    with pytest.raises(TraceError, match="damaged"):
        read_trace(tmp_path)
    (tmp_path / TRACE_JSON).unlink()
    os.mkfifo(tmp_path / TRACE_JSON)
    with pytest.raises(TraceError, match="no regular file"):
        read_trace(tmp_path)


def test_no_trace_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no trace in"):
        read_trace(tmp_path)


def test_a_full_disk_is_an_error_and_leaves_the_journal_whole(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path\n"
        "import test_store as t\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "trace, writer = t.open_trace(Path(sys.argv[1]), {'model': 'm'})\n"
        "try: t.fill(trace, 1000)\n"
        "except OSError as e: print('refused', e.errno); sys.exit(0)\n"
        "sys.exit(1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = read_trace(tmp_path)
    assert len(found) > 4
    np.testing.assert_array_equal(found.node(3).ids, expected(2).node(3).ids)


CHILD = """
import sys; sys.path.insert(0, sys.argv[2])
from pathlib import Path
import test_store as t
trace, writer = t.open_trace(Path(sys.argv[1]), {'model': 'm'})
for i in range(int(sys.argv[3])):
    t.fill(trace, i + 1, start=i)
    print(len(trace), flush=True)
for n in range(300):  # a long series of finishes, so that a kill lands inside one
    folder = Path(sys.argv[1]) / str(n)
    writer = t.TraceWriter(folder, trace.meta)
    for node in trace: writer.append(node)
    writer.finish(trace)
"""


@pytest.mark.parametrize("attempt", range(6))
def test_sigkill_at_any_moment_keeps_every_turn_that_was_recorded(tmp_path: Path, attempt: int) -> None:
    rng = random.Random(attempt)
    in_finish = attempt % 3 == 2
    turns = 40 if in_finish else 2000
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path), str(Path(__file__).parent), str(turns)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    known = 0
    stop_at = rng.randint(2, 1200)
    for line in child.stdout:
        known = int(line)
        if (in_finish and known == 2 * turns) or (not in_finish and known >= stop_at):
            time.sleep(rng.random() * (0.05 if in_finish else 0.002))
            os.kill(child.pid, signal.SIGKILL)
            break
    known = max([known, *map(int, child.stdout.read().split())])
    assert child.wait() == -signal.SIGKILL
    found = read_trace(tmp_path)
    assert len(found) >= known > 0, "a turn that was reported as recorded is gone"
    for a, b in zip(found, expected(len(found) // 2 + 1), strict=False):
        np.testing.assert_array_equal(a.ids, b.ids)
        assert a.messages == b.messages
    folders = sorted((p for p in tmp_path.iterdir() if p.is_dir()), key=lambda p: int(p.name))
    for folder in folders[:-1]:
        assert len(read_trace(folder)) == known, "a finished trace is whole"
    for folder in folders[-1:]:  # the one that the kill hit: still in its journal, or finished, never neither
        if (folder / TRACE_JSON).exists():
            assert len(read_trace(folder)) == known
        elif (folder / TRACE_JOURNAL).exists() and (folder / TRACE_JOURNAL).stat().st_size > 1000:
            assert len(read_trace(folder)) <= known
