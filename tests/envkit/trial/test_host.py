"""Available memory: the smaller of the machine's and of the cgroup's, in both layouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.trial import host


def test_this_machine_says_something_plausible() -> None:
    available = host.memory_available_mb()
    assert available is not None
    assert 1 < available < 1 << 30


@pytest.mark.parametrize(
    ("limit", "used", "cache"),
    [
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ],
)
def test_a_cgroups_limit_counts_without_the_cache_it_can_give_back(
    tmp_path: Path, limit: str, used: str, cache: str
) -> None:
    (tmp_path / limit).write_text(f"{512 << 20}\n")
    (tmp_path / used).write_text(f"{300 << 20}\n")
    (tmp_path / "memory.stat").write_text(f"anon 5\n{cache} {100 << 20}\n")
    assert host._cgroup_mb(tmp_path) == 312


@pytest.mark.parametrize("value", ["max", str((1 << 63) - 4096)])
def test_a_cgroup_without_a_limit_bounds_nothing(tmp_path: Path, value: str) -> None:
    (tmp_path / "memory.max").write_text(value)
    (tmp_path / "memory.current").write_text("1")
    assert host._cgroup_mb(tmp_path) is None


def test_the_smaller_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.max").write_text(str(64 << 20))
    (tmp_path / "memory.current").write_text("0")
    monkeypatch.setattr(host, "_own_cgroups", lambda: [tmp_path])
    assert host.memory_available_mb() == 64
