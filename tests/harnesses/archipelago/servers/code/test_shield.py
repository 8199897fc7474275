"""The system call filter that commands run under, as data."""

from __future__ import annotations

from envkit.harnesses.archipelago.servers.code import shield


def test_a_filter_names_the_processes_for_both_processors():
    assert shield.program([5, 1, 0], "riscv64") is None
    for machine in ("x86_64", "aarch64"):
        rules = shield.program([1234], machine)
        assert rules is not None
        assert len(rules) % 8 == 0
        assert (1234).to_bytes(4, "little") in rules
        assert len(rules) // 8 < 4096
