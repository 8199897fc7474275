"""A guarded program can't be ended by what it starts, and everything else can be signalled as ever."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from envkit.proxy.guard import guarded

#: A program that runs its arguments as a shell command of its own (in a session of its own, as agents do), then speaks.
PROGRAM = """
import os, subprocess, sys
done = subprocess.run(["sh", "-c", sys.argv[1]], start_new_session=True, capture_output=True, text=True)
print("alive", done.returncode, done.stdout.strip(), flush=True)
"""


def run(command: str) -> subprocess.CompletedProcess[str]:
    argv = guarded([sys.executable, "-c", PROGRAM, command])
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, start_new_session=True, check=False)


@pytest.mark.parametrize(
    "command",
    [
        "kill -9 $PPID",
        "kill $PPID",
        "kill -STOP $PPID",
        "kill -9 -- -$PPID",
        "kill -s INT $PPID; kill -HUP $PPID",
        "python3 -c 'import os; os.kill(os.getppid(), 9)'",
        "python3 -c 'import os, signal; signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 9)'",
        "python3 -c 'import os, resource as r; r.prlimit(os.getppid(), r.RLIMIT_CPU, (0, 0))'",
        f"python3 -c 'import ctypes, os; c = ctypes.CDLL(None); p = os.getppid(); c.syscall({234}, p, p, 9); "
        f"c.syscall({200}, p, 9); c.syscall({129}, p, 9, 0); c.ptrace(16, p, 0, 0)'",
    ],
)
def test_what_it_runs_cannot_end_it(command: str) -> None:
    done = run(command)
    assert done.returncode == 0, done
    assert done.stdout.startswith("alive"), done


def test_a_signal_to_everybody_is_refused() -> None:
    done = run("kill -URG -1 || echo refused")  # a signal that nobody heeds: should the guard fail, nothing happens
    assert done.stdout.split() == ["alive", "0", "refused"]


def test_its_other_processes_can_be_ended() -> None:
    done = run("sleep 60 & kill -9 $!; wait $!; echo $?")
    assert done.stdout.split() == ["alive", "0", "137"]


def test_the_host_can_end_it() -> None:
    process = subprocess.Popen(guarded(["sleep", "60"]), start_new_session=True)
    process.terminate()
    assert process.wait(timeout=30) == -signal.SIGTERM


def test_signal_zero_and_signals_of_its_own_pass() -> None:
    own = "import os, signal as s; s.signal(10, lambda *a: print('usr1')); s.raise_signal(10); os.kill(os.getpid(), 0)"
    done = subprocess.run(guarded([sys.executable, "-c", own]), capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "usr1\n"


def test_its_exit_status_and_streams_are_its_own() -> None:
    done = subprocess.run(
        guarded(["sh", "-c", "cat; echo err >&2; exit 3"]), input="in", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "in", "err\n")
