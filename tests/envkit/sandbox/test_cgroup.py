"""Cgroup layouts: v1, v2 and hybrid, on a folder that looks like them (and for real, where the other tests run)."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.sandbox import cgroup
from envkit.sandbox.cgroup import Layout, Limits

LIMITS = Limits(memory_bytes=64 << 20, processes=32, cpus=0.5)


def proc(tmp_path: Path, groups: str, mounts: list[str]) -> Path:
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / "cgroup").write_text(groups)
    (folder / "mountinfo").write_text("".join(f"{20 + n} 1 0:{n} {line}\n" for n, line in enumerate(mounts)))
    return folder


def v2_folder(path: Path, controllers: str = "cpu memory pids", enabled: str = "") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.controllers").write_text(controllers + "\n")
    (path / "cgroup.subtree_control").write_text(enabled + "\n")
    return path


def test_v1_groups_lie_below_our_own(tmp_path):
    for name in ("memory/our/place", "pids", "cpu,cpuacct"):
        (tmp_path / "sys/fs/cgroup" / name).mkdir(parents=True)
    found = cgroup.read_layout(
        proc(
            tmp_path,
            "9:memory:/our/place\n8:pids:/not/shown\n1:cpu,cpuacct:/\n0::/\n",
            [
                "/ /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
                "/ /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids",
                "/ /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
                "/ /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd",
            ],
        ),
        tmp_path,
    )
    top = tmp_path / "sys/fs/cgroup"
    assert found.v1 == {"memory": top / "memory/our/place", "pids": top / "pids", "cpu": top / "cpu,cpuacct"}
    assert (found.v2, found.problems) == (None, ())


def test_v1_in_a_container_that_shows_only_its_own_part(tmp_path):
    (tmp_path / "cg/memory").mkdir(parents=True)
    found = cgroup.read_layout(
        proc(tmp_path, "9:memory:/docker/abc\n", ["/docker/abc /cg/memory rw - cgroup cgroup rw,memory"]), tmp_path
    )
    assert found.v1 == {"memory": tmp_path / "cg/memory"}
    assert len(found.problems) == 2  # pids and cpu are nowhere


def test_v2_enables_what_is_missing(tmp_path):
    top = v2_folder(tmp_path / "sys/fs/cgroup", enabled="memory")
    found = cgroup.read_layout(
        proc(tmp_path, "0::/user.slice\n", ["/ /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate"]), tmp_path
    )
    assert (found.v2, set(found.v2_controllers), found.problems) == (top, {"memory", "pids", "cpu"}, ())
    assert (top / "cgroup.subtree_control").read_text().split() == ["+memory", "+pids", "+cpu"]


def test_hybrid_takes_from_v2_what_v1_does_not_have(tmp_path):
    (tmp_path / "cg/memory").mkdir(parents=True)
    top = v2_folder(tmp_path / "cg/unified", "cpu pids")
    found = cgroup.read_layout(
        proc(
            tmp_path,
            "1:memory:/\n0::/\n",
            ["/ /cg/memory rw - cgroup cgroup rw,memory", "/ /cg/unified rw - cgroup2 cgroup2 rw"],
        ),
        tmp_path,
    )
    assert set(found.v1) == {"memory"}
    assert (found.v2, set(found.v2_controllers)) == (top, {"cpu", "pids"})
    assert found.controllers == {"memory", "cpu", "pids"}


def test_a_hybrid_host_whose_v2_controls_nothing(tmp_path):
    (tmp_path / "cg/memory").mkdir(parents=True)
    v2_folder(tmp_path / "cg/unified", "")
    found = cgroup.read_layout(
        proc(
            tmp_path,
            "1:memory:/\n0::/\n",
            ["/ /cg/memory rw - cgroup cgroup rw,memory", "/ /cg/unified rw - cgroup2 cgroup2 rw"],
        ),
        tmp_path,
    )
    assert found.v2 is None
    assert [problem.split(":")[0] for problem in found.problems] == ["pids", "cpu"]


def test_v2_that_is_delegated_elsewhere_is_named_by_the_environment(tmp_path, monkeypatch):
    v2_folder(tmp_path / "cg")
    mine = v2_folder(tmp_path / "cg/mine", "memory pids")
    monkeypatch.setenv("ENVKIT_CGROUP", "/mine")
    found = cgroup.read_layout(proc(tmp_path, "0::/\n", ["/ /cg rw - cgroup2 cgroup2 rw"]), tmp_path)
    assert (found.v2, set(found.v2_controllers)) == (mine, {"memory", "pids"})
    assert [problem.split(":")[0] for problem in found.problems] == ["cpu"]


def test_v1_limits_are_written(tmp_path):
    layout = Layout(v1={name: tmp_path / name for name in cgroup.CONTROLLERS})
    for name in cgroup.CONTROLLERS:
        (tmp_path / name).mkdir()
    group = cgroup.create(layout, "envkit-x", LIMITS)
    assert (tmp_path / "memory/envkit-x/memory.limit_in_bytes").read_text() == str(64 << 20)
    assert (tmp_path / "pids/envkit-x/pids.max").read_text() == "32"
    assert (tmp_path / "cpu/envkit-x/agent/cpu.cfs_quota_us").read_text() == "50000"
    assert (tmp_path / "cpu/envkit-x/cpu.cfs_quota_us").read_text() == "75000"
    assert group.own == (tmp_path / "cpu/envkit-x/tasks",)
    assert group.agent == tuple(
        tmp_path / name / "tasks" for name in ("memory/envkit-x", "pids/envkit-x", "cpu/envkit-x/agent")
    )
    assert set(group.folders) == set(cgroup.planned(layout, "envkit-x"))
    assert group.folders.index(tmp_path / "cpu/envkit-x/agent") < group.folders.index(tmp_path / "cpu/envkit-x")


def test_v2_limits_are_written_and_the_supervisor_is_kept_apart(tmp_path):
    layout = Layout(v2=tmp_path, v2_controllers=cgroup.CONTROLLERS)
    group = cgroup.create(layout, "envkit-x", LIMITS)
    outer = tmp_path / "envkit-x"
    assert (outer / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    assert (outer / "agent/memory.max").read_text() == str(64 << 20)
    assert (outer / "agent/memory.swap.max").read_text() == "0"
    assert (outer / "agent/pids.max").read_text() == "32"
    assert (outer / "agent/cpu.max").read_text() == "50000 100000"
    assert (outer / "cpu.max").read_text() == "75000 100000"
    assert not (outer / "memory.max").exists()
    assert group.own == (outer / "supervisor/cgroup.procs",)
    assert group.agent == (outer / "agent/cgroup.procs",)
    assert group.folders[-1] == outer
    assert set(group.folders) == set(cgroup.planned(layout, "envkit-x"))


def test_no_cpu_limit_makes_no_cpu_group(tmp_path):
    layout = Layout(v1={name: tmp_path for name in ("cpu",)})
    assert cgroup.create(layout, "envkit-x", Limits(1, 1, None)).folders == ()


def test_a_failure_in_the_middle_leaves_nothing(tmp_path):
    (tmp_path / "memory").mkdir()
    layout = Layout(v1={"memory": tmp_path / "memory", "pids": tmp_path / "missing"})
    with pytest.raises(OSError, match="missing"):
        cgroup.create(layout, "envkit-x", LIMITS)


def test_oom_kills_are_read_from_both_layouts():
    assert cgroup.oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n") == 3
    assert cgroup.oom_kills("low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n") == 2
    assert cgroup.oom_kills("") == 0
