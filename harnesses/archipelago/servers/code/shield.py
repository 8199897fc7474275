"""A system call filter for commands of the agent's: the server's own processes can't be signalled or traced by them.

Everything inside a sandbox has one user, so nothing but a filter keeps `kill -9 -1` or `pkill python` from the process
that serves the tools. Refused with EPERM are signals to the protected processes and to all processes at once, by
whatever call a signal can be sent; a command can still end whatever it has started itself, by its number. Filters are
inherited and can't be taken off. On processors we have no numbers for, there is none: a killed server is started anew.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from collections.abc import Iterable

__all__ = ["program", "raise_for_children"]

_LOAD, _JUMP_EQ, _JUMP_GE, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_X32_BIT = 0x40000000
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_F_SETSIG = 10
#: name: (x86_64, aarch64, which argument is the process)
_SIGNALS = {
    "kill": (62, 129, 0),
    "tkill": (200, 130, 0),
    "tgkill": (234, 131, 0),
    "rt_sigqueueinfo": (129, 138, 0),
    "rt_tgsigqueueinfo": (297, 240, 0),
    "pidfd_open": (434, 434, 0),
    "ptrace": (101, 117, 1),
    "process_vm_readv": (310, 270, 0),
    "process_vm_writev": (311, 271, 0),
}
#: Signals through descriptors of /proc/PID, which no filter can look into.
_PIDFD_SEND_SIGNAL = 424
_FCNTL = (72, 25)
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


def program(protected: Iterable[int], machine: str | None = None) -> bytes | None:
    """The filter as the kernel takes it; None where we know no numbers."""
    found = _MACHINES.get(machine or platform.machine())
    if found is None:
        return None
    architecture, column = found
    refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    values = sorted({value & 0xFFFFFFFF for pid in protected if pid > 1 for value in (pid, -pid)} | {0xFFFFFFFF})
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, 4),  # architecture
        (_JUMP_EQ, 1, 0, architecture),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_LOAD, 0, 0, 0),  # system call number
    ]
    if column == 0:
        code += [(_JUMP_GE, 0, 1, _X32_BIT), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    code += [(_JUMP_EQ, 0, 1, _PIDFD_SEND_SIGNAL), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    code += [(_JUMP_EQ, 0, 4, _FCNTL[column]), (_LOAD, 0, 0, 16 + 8), (_JUMP_EQ, 0, 1, _F_SETSIG), refuse]
    code.append((_RETURN, 0, 0, _ALLOW))
    for *numbers, index in _SIGNALS.values():
        block: list[tuple[int, int, int, int]] = [(_LOAD, 0, 0, 16 + 8 * index)]
        for value in values:
            block += [(_JUMP_EQ, 0, 1, value), refuse]
        block.append((_RETURN, 0, 0, _ALLOW))
        code += [(_JUMP_EQ, 0, len(block), numbers[column]), *block]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in code)


def raise_for_children(protected: Iterable[int]) -> bool:
    """Puts the filter over this process and all that it will start. Returns whether there is one."""
    rules = program(protected)
    if rules is None:
        return False

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    try:
        libc = ctypes.CDLL(None, use_errno=True)
    except OSError:
        return False
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    packed = Program(len(rules) // 8, rules)
    done: int = libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(packed), 0, 0)
    return done == 0
