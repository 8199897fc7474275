"""The system call filter of local sandboxes: what office work never needs and kernels regularly get wrong.

A deny list, as classic BPF, for x86_64 and aarch64; other machines get none. Refused calls fail with EPERM, unknown
ABIs with ENOSYS. Sockets are confined to unix, IPv4, IPv6 and netlink: a network namespace does not hold back some of
the other families (vsock reaches the hypervisor). Limits and priorities can be set for the caller itself only: the
supervisor has the agent's user id, and the kernel would let the agent take its descriptors and its cpu away.
"""

from __future__ import annotations

import errno
import platform
import struct

__all__ = ["program"]

_LOAD, _JUMP_EQ, _JUMP_GE, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_X32_BIT = 0x40000000
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK

#: Denied everywhere under the same number: io_uring (425-427), the new mount calls (428-433), mount_setattr (442).
_COMMON = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442)
# name: x86_64, aarch64
_DENIED = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "init_module": (175, 105),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mount": (165, 40),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
#: Allowed only with these arguments (index, value): for the caller itself.
_OWN = {
    "ioprio_set": ((251, 30), ((0, 1), (1, 0))),
    "prlimit64": ((302, 261), ((0, 0),)),
    "sched_setattr": ((314, 274), ((0, 0),)),
    "sched_setparam": ((142, 118), ((0, 0),)),
    "sched_setscheduler": ((144, 119), ((0, 0),)),
    "setpriority": ((141, 140), ((0, 0), (1, 0))),
}
# machine: audit architecture, column above, number of socket(2)
_MACHINES = {"x86_64": (0xC000003E, 0, 41), "aarch64": (0xC00000B7, 1, 198)}


def program(machine: str | None = None) -> bytes | None:
    """The filter for a machine (default: this one), as bwrap's --seccomp reads it; None where we have none."""
    found = _MACHINES.get(machine or platform.machine())
    if found is None:
        return None
    architecture, column, socket_number = found
    refuse = [number[column] for number in _DENIED.values()] + list(_COMMON)
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, 4),  # architecture
        (_JUMP_EQ, 1, 0, architecture),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_LOAD, 0, 0, 0),  # system call number
    ]
    if column == 0:
        code += [(_JUMP_GE, 0, 1, _X32_BIT), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    for number in refuse:
        code += [(_JUMP_EQ, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    for numbers, wanted in _OWN.values():
        code.append((_JUMP_EQ, 0, 3 * len(wanted) + 1, numbers[column]))
        for index, value in wanted:
            code += [(_LOAD, 0, 0, 16 + 8 * index), (_JUMP_EQ, 1, 0, value), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
        code.append((_RETURN, 0, 0, _ALLOW))
    code += [(_JUMP_EQ, 1, 0, socket_number), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 16)]  # its first argument
    for family in _FAMILIES:
        code += [(_JUMP_EQ, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    code.append((_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT))
    return b"".join(struct.pack("=HBBI", *line) for line in code)
