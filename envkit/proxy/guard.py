"""Keeps a program from being killed by what it runs itself: a model that ends its own agent must not escape its score.

Program and model's commands are one user in one sandbox, so that `kill -9 -1` or `pkill` in a tool call would end the
very program that carries the call out. Nobody could tell that from a fault of ours, and a fault is never scored: a
model that does badly could take itself out of the count. `guarded` starts a program under a system-call filter that it
and all that it starts inherit: signals that would end or stop the program (to it, its group, or everybody), and other
ways to the same end (tracing, limits, writing its memory), are refused with "operation not permitted". All other
processes can be signalled as ever. A program that dies all the same is a fault, as before. Used by harnesses that drive
a program (`opencode-cli`).
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["guarded"]

_SOURCE = r"""
import os, struct, sys

def install():
    import ctypes
    #        kill tkill tgkill sigqueue tgsigqueue pidfd_send pidfd_open prlimit ptrace vm_writev
    calls = {
        "x86_64": (0xC000003E, 62, 200, 234, 129, 297, 424, 434, 302, 101, 311),
        "aarch64": (0xC00000B7, 129, 130, 131, 138, 240, 424, 434, 261, 117, 271),
    }[os.uname().machine]
    arch, kill, tkill, tgkill, sigqueue, tgsigqueue, pidfd_send, pidfd_open, prlimit, ptrace, vm_writev = calls
    me, group, word = os.getpid(), os.getpgid(0), 0xFFFFFFFF
    refuse, absent, allow = 0x00050000 | 1, 0x00050000 | 38, 0x7FFF0000
    load, equal, give = 0x20, 0x15, 0x06
    fatal = (1, 2, 3, 9, 15, 19)

    def when(nr, tests, answer):
        # tests: (offset of the argument, values); all must hold. Falls through to the next rule otherwise.
        rest = []
        for offset, values in reversed(tests):
            part = [(load, 0, 0, offset)]
            for n, value in enumerate(values):
                last = n == len(values) - 1
                ahead = len(values) - 1 - n
                part.append((equal, ahead, len(rest) + 1 if last else 0, value & word))
            rest = part + rest
        body = rest + [(give, 0, 0, answer)]
        return [(load, 0, 0, 0), (equal, 0, len(body), nr)] + body

    rules = []
    for nr in (kill, sigqueue):
        rules += when(nr, [(16, (me, -me, -group, -1)), (24, tuple(range(1, 32)))], refuse)
    for nr in (tgkill, tgsigqueue):
        rules += when(nr, [(16, (me,)), (32, fatal)], refuse)
    rules += when(tkill, [(24, (9, 19))], refuse)
    rules += when(pidfd_send, [], absent)
    for nr, offset in ((pidfd_open, 16), (prlimit, 16), (vm_writev, 16), (ptrace, 24)):
        rules += when(nr, [(offset, (me,))], refuse)
    program = [(load, 0, 0, 4), (equal, 0, len(rules), arch)] + rules + [(give, 0, 0, allow)]
    code = b"".join(struct.pack("=HBBI", *line) for line in program)
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(code, len(code))
    filter = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(buffer))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.create_string_buffer(filter, len(filter)), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")

try:
    install()
except Exception:
    pass  # a kernel or machine without it: the program runs unguarded
os.execvp(sys.argv[1], sys.argv[1:])
"""


def guarded(argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` so that nothing it starts can end it; plain `argv` where there is no `python3`."""
    return ["sh", "-c", 'command -v python3 >/dev/null && exec python3 -S -c "$0" "$@"; exec "$@"', _SOURCE, *argv]
