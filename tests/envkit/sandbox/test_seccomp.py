"""The system call filter, run as the kernel would run it, for machines that this one is not."""

from __future__ import annotations

import errno
import struct

import pytest

from envkit.sandbox import seccomp

ALLOW = 0x7FFF0000
X86, ARM = 0xC000003E, 0xC00000B7


def decide(machine: str, architecture: int, number: int, *arguments: int) -> int | str:
    """The filter's word on a call: "allow", or the errno it fails with."""
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *padded)
    program = seccomp.program(machine)
    code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at, accumulator = 0, 0
    while True:
        operation, yes, no, value = code[at]
        at += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif operation == 0x15:
            at += yes if accumulator == value else no
        elif operation == 0x35:
            at += yes if accumulator >= value else no
        else:
            assert operation == 0x06
            return "allow" if value == ALLOW else value & 0xFFFF


@pytest.mark.parametrize(
    ("machine", "architecture", "read", "openat", "keyctl", "socket", "prlimit", "setpriority"),
    [("x86_64", X86, 0, 257, 250, 41, 302, 141), ("aarch64", ARM, 63, 56, 219, 198, 261, 140)],
)
def test_each_rule_decides(machine, architecture, read, openat, keyctl, socket, prlimit, setpriority):
    assert decide(machine, architecture, read) == "allow"
    assert decide(machine, architecture, openat) == "allow"
    assert decide(machine, architecture, keyctl) == errno.EPERM
    assert decide(machine, architecture, 425) == errno.EPERM  # io_uring_setup
    assert decide(machine, architecture, 435) == "allow"  # clone3
    for family in (1, 2, 10, 16):
        assert decide(machine, architecture, socket, family) == "allow"
    for family in (0, 17, 31, 38, 40, 44):
        assert decide(machine, architecture, socket, family) == errno.EAFNOSUPPORT
    assert decide(machine, architecture, prlimit, 0, 7) == "allow"
    assert decide(machine, architecture, prlimit, 1, 7) == errno.EPERM
    assert decide(machine, architecture, setpriority, 0, 0, 5) == "allow"
    assert decide(machine, architecture, setpriority, 0, 1, 19) == errno.EPERM
    assert decide(machine, architecture, setpriority, 2, 0, 19) == errno.EPERM  # all of the user's processes


def test_other_abis_are_unknown():
    assert decide("x86_64", 0x40000003, 1) == errno.ENOSYS  # int 0x80
    assert decide("x86_64", X86, 0x40000000 + 41, 40) == errno.ENOSYS  # x32
    assert decide("aarch64", 0x40000028, 1) == errno.ENOSYS
    assert seccomp.program("riscv64") is None


def test_jumps_stay_inside_the_filter():
    for machine in ("x86_64", "aarch64"):
        program = seccomp.program(machine)
        count = len(program) // 8
        for at in range(count):
            operation, yes, no, _ = struct.unpack_from("=HBBI", program, at * 8)
            if operation in (0x15, 0x35):
                assert at + 1 + max(yes, no) < count
