"""What the tools of the trouble app do."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from apps.trouble.declared import Edit, Edited, Nothing, Place, Seconds, Size

from envkit.harnesses.archipelago.servers.app import Context, Image
from envkit.office.problem import Problem, Unreadable


def sleep(arguments: Seconds, context: Context) -> str:
    time.sleep(arguments.seconds)
    return "slept"


def crash(arguments: Nothing, context: Context) -> str:
    os.kill(os.getpid(), signal.SIGSEGV)
    return "unreachable"


def leave(arguments: Nothing, context: Context) -> str:
    os._exit(0)


def memory(arguments: Nothing, context: Context) -> str:
    held = []
    while True:
        held.append(bytearray(os.urandom(1 << 20)) * 8)


def spin(arguments: Nothing, context: Context) -> str:
    while True:
        pass


def text(arguments: Size, context: Context) -> str:
    return "x" * arguments.size


def thing(arguments: Size, context: Context) -> Edited:
    return Edited(success=True, applied=1, error="x" * arguments.size or None)


def picture(arguments: Size, context: Context) -> Image:
    return Image(b"\x89PNG" + bytes(arguments.size), "image/png")


def broken(arguments: Nothing, context: Context) -> str:
    raise KeyError("a fault of the tool's own")


def unreadable(arguments: Place, context: Context) -> str:
    context.path(arguments.file_path)
    raise Unreadable(Problem.ENCRYPTED, "it needs a password")


def noisy(arguments: Nothing, context: Context) -> str:
    print("{not a message}")
    os.write(1, b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    subprocess.run(["echo", "from a program"], check=True)
    return "said all"


def nothing(arguments: Nothing, context: Context) -> None:
    return None


def half(arguments: Place, context: Context) -> str:
    path = context.path(arguments.file_path)
    temporary = path.with_name(".half")
    context._announce(temporary)
    temporary.write_bytes(b"half")
    time.sleep(arguments.seconds)
    return "written"


def count(arguments: Place, context: Context) -> str:
    path = context.path(arguments.file_path)
    before = int(path.read_text()) if path.exists() else 0
    time.sleep(arguments.seconds)
    context.write(path, str(before + 1).encode())
    return str(before + 1)


def count_state(arguments: Seconds, context: Context) -> str:
    assert context.state is not None
    path = context.state / "count"
    before = int(path.read_text()) if path.exists() else 0
    time.sleep(arguments.seconds)
    context.write(path, str(before + 1).encode())
    return str(before + 1)


def background(arguments: Seconds, context: Context) -> str:
    subprocess.Popen(["setsid", "sleep", f"{arguments.seconds + 77_000}"], stdout=subprocess.DEVNULL)
    time.sleep(arguments.seconds)
    return "started"


def edit(arguments: Edit, context: Context) -> Edited:
    return Edited(success=True, applied=len(arguments.operations))
