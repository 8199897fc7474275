"""The store of worlds: built once, whole or not at all, read-only, whoever asks and whoever dies."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from envkit import worlds
from envkit.failure import EnvkitError, UserError
from envkit.home import envkit_home
from envkit.worlds import build_world, worlds_dir


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENVKIT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def _fill(folder: Path) -> None:
    (folder / "filesystem" / "deep").mkdir(parents=True)
    (folder / "filesystem" / "deep" / "x").write_text("x")
    (folder / "filesystem" / "run.sh").write_text("x")
    (folder / "filesystem" / "run.sh").chmod(0o775)


def test_a_folder_is_built_once_and_is_read_only(home: Path) -> None:
    calls: list[Path] = []

    def build(folder: Path) -> None:
        calls.append(folder)
        _fill(folder)

    built = build_world("w-1", build)
    again = build_world("w-1", lambda folder: pytest.fail("built twice"))

    assert built == again == home / "worlds" / "w-1"
    assert len(calls) == 1
    modes = {str(path.relative_to(built)): stat.S_IMODE(path.stat().st_mode) for path in [built, *built.rglob("*")]}
    assert modes == {
        ".": 0o555, "filesystem": 0o555, "filesystem/deep": 0o555, "filesystem/deep/x": 0o444,
        "filesystem/run.sh": 0o555,
    }  # fmt: skip
    assert [name for name in os.listdir(home / "worlds") if not name.startswith(".locks")] == ["w-1"]


def test_a_builder_that_fails_stores_nothing_and_the_next_one_succeeds(home: Path) -> None:
    def fail(folder: Path) -> None:
        _fill(folder)
        (folder / "filesystem").chmod(0o555)
        raise RuntimeError("no luck")

    with pytest.raises(RuntimeError, match="no luck"):
        build_world("w", fail)
    assert [name for name in os.listdir(home / "worlds") if name != ".locks"] == []
    assert (build_world("w", _fill) / "filesystem/deep/x").exists()


def test_many_threads_build_once() -> None:
    calls: list[int] = []
    results: list[Path] = []

    def slow(folder: Path) -> None:
        calls.append(1)
        time.sleep(0.2)
        _fill(folder)

    threads = [threading.Thread(target=lambda: results.append(build_world("w", slow))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(calls) == 1
    assert len(results) == 8
    assert len(set(results)) == 1


CHILD = """
import sys, time
from pathlib import Path
from envkit.worlds import build_world
def build(folder):
    print("building", flush=True)
    (folder / "half").write_text("half")
    time.sleep(float(sys.argv[1]))
    (folder / "whole").write_text("whole")
print(sorted(p.name for p in build_world("w", build).iterdir()), flush=True)
"""


def test_a_killed_builder_leaves_neither_half_a_folder_nor_a_lock(home: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD, "600"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "building\n"
        child.send_signal(signal.SIGKILL)
    assert not (home / "worlds" / "w").exists()

    ran = subprocess.run([sys.executable, "-c", CHILD, "0"], capture_output=True, text=True, check=True, timeout=60)

    assert ran.stdout == "building\n['half', 'whole']\n"
    assert sorted(os.listdir(home / "worlds")) == [".locks", "w"]  # the dead one's draft is gone


def test_processes_wait_for_the_one_that_builds() -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, "0.3"], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    outputs = [child.communicate(timeout=60)[0] for child in children]
    assert "".join(outputs).count("building") == 1
    assert all(output.endswith("['half', 'whole']\n") for output in outputs)


def test_waiting_for_a_builder_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "LOCK_TIMEOUT_S", 0.1)
    with worlds._locked(worlds_dir(), "w"), pytest.raises(EnvkitError, match=r"has been building .*/w for"):
        build_world("w", _fill)


@pytest.mark.parametrize("key", ["", "../x", "a/b", ".hidden", "x" * 300, "a b"])
def test_a_key_is_one_plain_name(key: str) -> None:
    with pytest.raises(ValueError, match="a world's key"):
        build_world(key, _fill)


def test_digests_are_remembered_only_of_trees_that_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = tmp_path / "w"
    (world / "filesystem").mkdir(parents=True)
    (world / "filesystem" / "a").write_text("a")
    first = worlds.merged_world([world])
    assert not (worlds_dir() / ".digests").exists()  # too fresh to tell a later change by its time
    monkeypatch.setattr(worlds, "_SETTLED_NS", 0)
    assert worlds.merged_world([world]) == first
    monkeypatch.setattr(worlds, "digest_tree", lambda tree: pytest.fail("read again"))
    assert worlds.merged_world([world]) == first


def test_overlays_replace_files_and_folders_and_links_become_what_they_lead_to(tmp_path: Path) -> None:
    base, over = tmp_path / "base", tmp_path / "over"
    for path, text in {
        "base/filesystem/a": "1",
        "base/filesystem/d/x": "2",
        "over/filesystem/a/b": "3",
        "over/filesystem/d": "4",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (base / "filesystem/link").symlink_to("d")
    (base / "filesystem/same").symlink_to("a")
    merged = worlds.merged_world([base, over])
    assert merged is not None
    found = {str(p.relative_to(merged)): p.read_text() for p in merged.rglob("*") if p.is_file() and not p.is_symlink()}
    assert found == {
        "filesystem/a/b": "3", "filesystem/d": "4", "filesystem/link/x": "2", "filesystem/same": "1",
    }  # fmt: skip


def test_home_is_chosen_by_the_environment_and_errors_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVKIT_HOME", str(tmp_path / "x/y"))
    assert envkit_home() == tmp_path / "x/y"
    assert (tmp_path / "x/y").is_dir()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ENVKIT_HOME", str(tmp_path / "file/below"))
    with pytest.raises(UserError, match="set ENVKIT_HOME to a folder"):
        envkit_home()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVKIT_HOME", "relative")
    assert envkit_home() == tmp_path / "relative"


def test_home_without_a_choice_depends_on_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENVKIT_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert envkit_home() == tmp_path / ".local/share/envkit"
