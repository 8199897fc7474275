"""What runs first inside a sandbox at Modal, as root: makes the place ready, then becomes our supervisor.

Sent as source to the image's own `python3`, so standard library only, Python 3.8 or newer. Its one argument is a JSON
object; on its standard input come the supervisor's source, a gzipped tar of what the host brings, and the supervisor's
connection. It makes the writable places and gives them to the agent's user, lays out the files (root's, so that the
agent can't change them), takes the privileges away that nobody needs, and runs the supervisor in its own place. What it
says on standard error is why a sandbox did not start.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import tarfile
from typing import IO, Any, cast

_NO_NEW_PRIVS, _SET_SECCOMP, _MODE_FILTER = 38, 22, 2


class Input:
    """The first bytes of standard input, and no more."""

    def __init__(self, size: int) -> None:
        self.left = size

    def read(self, size: int = -1) -> bytes:
        wanted = self.left if size < 0 else min(size, self.left)
        parts = []
        while wanted:
            part = os.read(0, wanted)
            if not part:
                sys.exit("what the host sends ended early")
            parts.append(part)
            wanted -= len(part)
            self.left -= len(part)
        return b"".join(parts)


def give(path: str, mode: int, uid: int, gid: int) -> None:
    """Makes a folder the agent's, with what the image has in it; links in it are not followed."""
    os.makedirs(path, exist_ok=True)
    os.chmod(path, mode)
    if mode & 0o1000:  # /tmp: everybody's, and what others put there stays theirs
        return
    os.chown(path, uid, gid)
    for here, folders, files in os.walk(path):
        for name in folders + files:
            os.chown(os.path.join(here, name), uid, gid, follow_symlinks=False)


def unpack(source: Input) -> None:
    with tarfile.open(fileobj=cast("IO[bytes]", source), mode="r|gz") as tar:
        safe: dict[str, Any] = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
        tar.extractall("/", **safe)
    source.read()


def name_the_user(uid: int, gid: int, home: str) -> None:
    for path, line in (
        ("/etc/passwd", f"agent:x:{uid}:{gid}::{home}:/bin/sh\n"),
        ("/etc/group", f"agent:x:{gid}:\n"),
    ):
        number = f":{uid if path.endswith('passwd') else gid}:"
        try:
            with open(path) as file:
                text = file.read()
            if number not in text:
                with open(path, "a") as file:
                    file.write(line)
        except OSError:
            pass  # an image without one: programs that ask will see the number


def lock(filters: dict[str, str]) -> None:
    """No program gains privileges from here on; and the local sandbox's system call filter, if the kernel knows any."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit("the sandbox's kernel does not know no_new_privs")
    code = base64.b64decode(filters.get(os.uname().machine, ""))
    if code:

        class Program(ctypes.Structure):
            _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_char_p)]

        program = Program(len(code) // 8, code)
        libc.prctl(_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0)


def main() -> None:
    plan = json.loads(sys.argv[1])
    if sys.version_info < (3, 8):  # noqa: UP036 - the image's Python, not ours
        sys.exit("Python " + sys.version.split()[0] + " of the image is older than 3.8")
    uid, gid = plan["user"]
    if os.getuid() != 0 and os.getuid() != uid:
        sys.exit(f"commands at Modal run as user {os.getuid()} here; root is needed to become {uid}")
    os.umask(0o022)
    source = Input(plan["program"] + plan["files"])
    program = source.read(plan["program"])
    if plan["files"]:
        unpack(source)
    for path in sorted(plan["places"]):
        give(path, plan["places"][path], uid, gid)
    name_the_user(uid, gid, plan["home"])
    if plan["filters"] is not None:
        lock(plan["filters"])
    for name in list(os.environ):
        if name.startswith("MODAL_"):  # the platform's own, some of them credentials
            del os.environ[name]
    sys.argv = ["supervisor", "0", "1"]
    exec(compile(program, "<supervisor>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
