"""What children of the fork server do in its tests."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

swept = os.environ.get("SERVER_TARGETS_SWEPT")


def sweep() -> None:
    if swept:
        with open(swept, "a") as file:
            file.write("swept\n")


def main(request: dict[str, Any], lease: int) -> int:
    what = request["do"]
    if what == "report":
        say(
            request["to"],
            json.dumps(
                {
                    "pid": os.getpid(),
                    "session": os.getsid(0),
                    "parent": os.getppid(),
                    "temp": tempfile.gettempdir(),
                    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd")),
                    "threads": len(os.listdir("/proc/self/task")),
                }
            ),
        )
        print("said on stdout")
        print("said on stderr", file=sys.stderr)
    elif what == "exit":
        return int(request["code"])
    elif what == "die":
        os.kill(os.getpid(), request["signal"])
    elif what == "raise":
        raise ValueError("thrown in the child")
    elif what == "wedge":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if request.get("to"):
            say(request["to"], str(os.getpid()))
        while True:
            time.sleep(1)
    elif what == "litter":
        # A process in a session of its own, as a careless plug-in might start it, and a file in the temporary folder.
        stray = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        Path(tempfile.gettempdir(), "left").write_text("x")
        say(request["to"], str(stray.pid))
        return int(request.get("code", 0))
    elif what == "lease":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        select.select([lease], [], [])
        say(request["to"], "the job is gone")
    elif what == "preloaded":
        import preloading

        say(request["to"], str(preloading.calls))
    elif what == "sleep":
        time.sleep(request["s"])
    return 0


def say(path: str, text: str) -> None:
    """Whole or not at all, for the test waits for the file."""
    Path(path + ".part").write_text(text)
    os.rename(path + ".part", path)


def start_thread() -> None:
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
