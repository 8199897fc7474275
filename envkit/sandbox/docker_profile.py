"""The system call filter of Docker sandboxes, as the daemon takes it: the local sandbox's rules, by name.

It replaces the daemon's own profile, and adds to what that one refuses to a container without capabilities: the
supervisor has the agent's user id, and the kernel would let the agent take its limits and its cpu away.
"""

from __future__ import annotations

import errno
import json
from functools import lru_cache
from typing import Any

from envkit.sandbox import seccomp

__all__ = ["profile"]

#: Same number everywhere, hence nameless in the local filter; and what Docker's profile denies beyond it.
_MORE = (
    "io_uring_setup", "io_uring_enter", "io_uring_register", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount",
    "fspick", "mount_setattr", "clock_adjtime", "clock_settime", "create_module", "get_kernel_syms", "get_mempolicy",
    "ioperm", "iopl", "kcmp", "mbind", "migrate_pages", "move_pages", "nfsservctl", "query_module", "set_mempolicy",
    "settimeofday", "stime", "sysfs", "_sysctl", "umount", "uselib", "ustat", "vm86", "vm86old", "adjtimex", "chroot",
)  # fmt: skip
_NAMESPACES = (0x02000000, 0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
_FAMILIES = range(17)


@lru_cache(maxsize=1)
def profile() -> str:
    """The profile as JSON text, for `security_opt=["seccomp=..."]`; for x86_64 and aarch64 daemons."""
    rules: list[dict[str, Any]] = [_deny([*seccomp._DENIED, *_MORE])]
    for name, (_, wanted) in seccomp._OWN.items():
        rules += [_deny([name], _argument(index, value, "SCMP_CMP_NE")) for index, value in wanted]
    rules += [_deny(["clone"], _argument(0, bit, "SCMP_CMP_MASKED_EQ", bit)) for bit in _NAMESPACES]
    # Its flags lie in memory, where no filter looks; the C library then takes clone.
    rules.append({**_deny(["clone3"]), "errnoRet": errno.ENOSYS})
    refused = [family for family in _FAMILIES if family not in seccomp._FAMILIES]
    for argument in (*(_argument(0, n, "SCMP_CMP_EQ") for n in refused), _argument(0, 17, "SCMP_CMP_GE")):
        rules.append({**_deny(["socket"], argument), "errnoRet": errno.EAFNOSUPPORT})
    return json.dumps(
        {
            "defaultAction": "SCMP_ACT_ALLOW",
            "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
            "syscalls": rules,
        }
    )


def _deny(names: list[str], *arguments: dict[str, Any]) -> dict[str, Any]:
    return {"names": names, "action": "SCMP_ACT_ERRNO", "args": list(arguments), "errnoRet": errno.EPERM}


def _argument(index: int, value: int, operator: str, mask_value: int = 0) -> dict[str, Any]:
    return {"index": index, "value": value, "valueTwo": mask_value, "op": operator}
