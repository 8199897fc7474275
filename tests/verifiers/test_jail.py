"""The confined child: what it may not do, and how its end is told."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from envkit.deadline import Deadline
from envkit.failure import FailureKind
from envkit.office.jail import MAX_OUTPUT
from envkit.verifiers.jail import Ended, Jail, Limits
from envkit.verifiers.run import _Progress
from envkit.verifiers.schema import parse_checks


def run(work: Callable[[Jail], None], seconds: float = 30.0, limits: Limits | None = None) -> tuple[list[bytes], Ended]:
    lines: list[bytes] = []
    ended = Jail(lambda: None, work, limits or Limits()).run(Deadline.after(seconds), lines.append)
    return lines, ended


def test_lines_arrive_and_the_end_is_told() -> None:
    def work(jail: Jail) -> None:
        jail.say(b"x" * 100_000)
        jail.say(b"end")

    lines, ended = run(work)
    assert [len(line) for line in lines] == [100_000, 3]
    assert ended == Ended(0)


def test_a_crash_is_told_by_its_signal() -> None:
    def work(jail: Jail) -> None:
        jail.say(b"before")
        os.kill(os.getpid(), signal.SIGSEGV)

    lines, ended = run(work)
    assert lines == [b"before"]
    assert ended.status == -signal.SIGSEGV
    assert "SIGSEGV" in ended.text


def test_there_is_no_network_and_nothing_to_write() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]

    def work(jail: Jail) -> None:
        for name, act in (
            ("connect", lambda: socket.create_connection(("127.0.0.1", port), timeout=2).close()),
            ("write", lambda: open("/etc/envkit-test", "w").close()),
            ("kill", lambda: os.kill(os.getppid(), 0)),
        ):
            try:
                act()
            except OSError:
                jail.say(f"{name} refused".encode())
            else:
                jail.say(f"{name} worked".encode())
        jail.say(str(os.geteuid()).encode())

    lines, _ = run(work)
    server.close()
    assert lines[0] == b"connect refused"
    if os.geteuid() == 0:
        assert lines == [b"connect refused", b"write refused", b"kill refused", b"65534"]


def test_the_parent_s_open_files_are_closed(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w+") as file:
        number = file.fileno()

        def work(jail: Jail) -> None:
            jail.say(",".join(sorted(os.listdir("/proc/self/fd"))).encode())
            jail.say(str(os.path.exists(f"/proc/self/fd/{number}")).encode())

        lines, _ = run(work)
    assert len(lines[0].split(b",")) <= 5  # 0, 1, 2, the pipe, the listing itself


def test_the_deadline_kills_the_whole_group() -> None:
    def work(jail: Jail) -> None:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        jail.say(str(child).encode())
        time.sleep(60)

    began = time.monotonic()
    lines, ended = run(work, seconds=1.0)
    assert ended.timed_out
    assert time.monotonic() - began < 20
    deadline = time.monotonic() + 5
    while _alive(int(lines[0])) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(int(lines[0]))


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_output_memory_and_processor_time_are_bounded() -> None:
    def flood(jail: Jail) -> None:
        while True:
            jail.say(b"x" * 65536)

    _, ended = run(flood)
    assert ended.too_much
    assert MAX_OUTPUT < 1 << 24
    _, ended = run(lambda jail: bytearray(1 << 30) and None, limits=Limits(memory_mb=100))  # type: ignore[func-returns-value]
    assert ended.status == 71

    def spin(jail: Jail) -> None:
        while True:
            pass

    _, ended = run(spin, limits=Limits(cpu_s=0.2))
    assert ended.status == -signal.SIGPROF


async def test_the_asynchronous_face_is_the_same_and_cancellation_kills() -> None:
    ends: list[Ended] = []
    jail = Jail(lambda: None, lambda jail: jail.say(b"hello"))
    assert [line async for line in jail.lines(Deadline.after(30), ends.append)] == [b"hello"]
    assert ends == [Ended(0)]

    pids: list[int] = []

    async def hang() -> None:
        def work(jail: Jail) -> None:
            jail.say(str(os.getpid()).encode())
            time.sleep(60)

        async for line in Jail(lambda: None, work).lines(Deadline.after(50), ends.append):
            pids.append(int(line))

    task = asyncio.create_task(hang())
    while not pids:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _alive(pids[0])


def test_the_child_dies_with_its_parent() -> None:
    script = (
        "import os, time, signal\n"
        "from envkit.deadline import Deadline\n"
        "from envkit.verifiers.jail import Jail\n"
        "def work(jail):\n    jail.say(str(os.getpid()).encode())\n    time.sleep(60)\n"
        "def line(text):\n    print(text.decode(), flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "Jail(lambda: None, work).run(Deadline.after(50), line)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    pid = int(done.stdout)
    deadline = time.monotonic() + 5
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(pid)


# --- whose fault the end of a child is ---

CHECKS = parse_checks(
    'schema_version = "1"\n'
    + "".join(f'[[check]]\nid = "{n}"\nkind = "text"\npath = "a.txt"\ncontains = ["x"]\n' for n in range(3))
).check
CRASH = Ended(-signal.SIGSEGV)


def progress(*lines: bytes) -> _Progress:
    state = _Progress(CHECKS)
    for line in lines:
        state.feed(line)
    return state


def test_a_crash_on_the_agent_s_file_fails_that_check_and_leaves_the_rest() -> None:
    state = progress(b'["start", 0]', b'["phase", "final", "filesystem/a.txt"]')
    state.end(CRASH)
    assert state.done[0].outcome == "failed"
    assert "SIGSEGV" in state.done[0].message
    assert state.left == [1, 2]
    assert list(state.broken) == ["filesystem/a.txt"]


@pytest.mark.parametrize(
    ("lines", "ended", "kind"),
    [
        ([b'["start", 0]'], CRASH, FailureKind.VERIFIER_ERROR),  # in the judge itself
        ([b'["start", 0]', b'["phase", "initial", "x"]'], CRASH, FailureKind.REFERENCE_INVALID),
        (
            [b'["start", 0]', b'["phase", "final", "x"]'],
            Ended(-signal.SIGKILL),
            FailureKind.VERIFIER_ERROR,
        ),  # from outside
        ([b'["start", 0]', b'["phase", "final", "x"]'], Ended(-9, timed_out=True), FailureKind.VERIFIER_TIMEOUT),
        ([b'["start", 0]', b'["phase", "final", "x"]'], Ended(-9, too_much=True), FailureKind.VERIFIER_ERROR),
        ([], Ended(70), FailureKind.VERIFIER_ERROR),
        ([b'["damaged", "twice"]'], Ended(0), FailureKind.SANDBOX_ERROR),
    ],
)
def test_what_is_not_the_agent_s_doing_has_no_verdict(lines: list[bytes], ended: Ended, kind: FailureKind) -> None:
    state = progress(*lines)
    state.end(ended)
    assert state.done[0].outcome == "missing"
    assert state.done[0].failure is not None
    assert state.done[0].failure.kind is kind


def test_memory_that_a_file_filled_is_that_file_s_fault_even_later() -> None:
    state = progress(b'["start", 0]', b'["phase", "final", "filesystem/a.txt"]', b'["phase", "", ""]')
    state.end(Ended(71))
    assert state.done[0].outcome == "failed"
    assert state.left == [1, 2]


def test_a_child_that_ends_between_two_checks_is_followed_by_another() -> None:
    done = state_line(0)
    state = progress(b'["start", 0]', done)
    state.end(Ended(0))
    assert state.left == [1, 2]
    state.end(Ended(0))  # and one that decided nothing is the last
    assert [c.outcome for c in state.criteria()] == ["passed", "missing", "missing"]


def state_line(index: int) -> bytes:
    criterion = {"id": str(index), "outcome": "passed", "score": 1.0}
    return json.dumps(["done", index, criterion]).encode()
