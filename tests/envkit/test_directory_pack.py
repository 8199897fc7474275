"""Packs that are directories: splits, versions, names, and the worlds of their tasks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from envkit.directory_pack import DirectoryPack
from envkit.failure import UserError
from envkit.pack import TaskPack
from envkit.task import LenientWarning, TaskConfig, write_task_dir


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENVKIT_HOME", str(tmp_path / "home"))
    return tmp_path / "deals"


def _task(root: Path, name: str, files: dict[str, str] | None = None, **envkit: Any) -> None:
    config = TaskConfig.model_validate({"metadata": {"envkit": envkit}} if envkit else {})
    write_task_dir(root / name, config, {"instruction.md": "x", **(files or {})})


def _world(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _files(folder: Path | None) -> dict[str, str]:
    assert folder is not None
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_names_version_and_splits_come_from_pack_toml(root: Path) -> None:
    for name in ("a-1", "a-2", "b-1", "c"):
        _task(root, name)
    (root / "pack.toml").write_text('name = "acme"\nversion = "3.1"\n[splits]\ntrain = ["a-*", "c"]\neval = ["b-1"]\n')
    pack = DirectoryPack(root)
    assert isinstance(pack, TaskPack)
    assert (pack.name, pack.version, pack.splits()) == ("acme", "3.1", ("train", "eval"))
    assert pack.ids() == ("a-1", "a-2", "b-1", "c")
    assert (pack.ids("train"), pack.ids("eval")) == (("a-1", "a-2", "c"), ("b-1",))
    assert pack.load("c").id == "acme/c"
    assert DirectoryPack(root, "other").load("c").id == "other/c"
    with pytest.raises(UserError, match=r"has no split 'evall' \(did you mean 'eval'\?\)"):
        pack.ids("evall")
    with pytest.raises(UserError, match="has no task 'a-3'; there is: a-1, a-2, b-1, c"):
        pack.load("a-3")
    for name in ("../deals/c", "", ".", "c/../c"):
        with pytest.raises(UserError, match="has no task"):
            pack.load(name)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("verison = '1'", r"pack.toml:1: unknown key 'verison' in the top level \(did you mean 'version'\?\)"),
        ("version = 1", "version: expected a string, found 1"),
        ("[splits]\ntrain = ['a-9']", r"split 'train' lists 'a-9', which is no task of the pack; there is: a-1, a-2"),
        ("[splits]\ntrain = ['a-*']\neval = ['a-1']", "task 'a-1' is in the splits 'train' and 'eval'"),
        ("name = 'a b'", "can't be a pack's name"),
    ],
)
def test_mistakes_in_pack_toml_are_named(root: Path, toml: str, message: str) -> None:
    _task(root, "a-1")
    _task(root, "a-2")
    (root / "pack.toml").write_text(toml)
    with pytest.raises(UserError, match=message):
        DirectoryPack(root).ids("train")


def test_a_task_must_not_sit_in_another_split_than_it_says(root: Path) -> None:
    _task(root, "a", split="eval")
    _task(root, "b", split="train")
    (root / "pack.toml").write_text("[splits]\ntrain = ['*']\n")
    pack = DirectoryPack(root)
    assert pack.load("b").metadata.split == "train"
    with pytest.raises(UserError, match=r"puts the task into split 'eval', .*pack.toml into 'train'"):
        pack.load("a")


def test_a_directory_whose_name_cannot_stand_in_an_id_is_not_passed_over(root: Path) -> None:
    _task(root, "fine")
    _task(root, "täsk one")
    with pytest.raises(UserError, match=r"täsk one.* holds a task, but its name can't stand in an id; rename it"):
        DirectoryPack(root).ids()
    with pytest.raises(UserError, match="rename the directory"):
        DirectoryPack(root / "täsk one")


def test_one_tasks_directory_is_a_pack_of_one(root: Path) -> None:
    _task(root, "a")
    _task(root, "b")
    pack = DirectoryPack(root / "a")
    assert (pack.name, pack.only, pack.ids()) == ("deals", "a", ("a",))
    assert pack.load("a").id == "deals/a"
    with pytest.raises(UserError, match="has no task 'b'"):
        pack.load("b")


def test_options_of_reading_reach_the_tasks(root: Path) -> None:
    _task(root, "a")
    (root / "a" / "task.toml").write_text("[verifier]\ntypo = 1\n")
    with pytest.raises(UserError, match="typo"):
        DirectoryPack(root).load("a")
    with pytest.warns(LenientWarning, match="typo"):
        DirectoryPack(root, lenient=True).load("a")
    (root / "a" / "task.toml").write_text("")
    assert DirectoryPack(root, harbor_compat=True).load("a").harbor_compat


def test_a_world_is_the_packs_folder_with_the_tasks_overlay_on_top(root: Path) -> None:
    _world(root / "worlds/acme", {"filesystem/a.txt": "a", "filesystem/d/b.txt": "b", ".apps_data/mail/m": "m"})
    _task(root, "plain", world="worlds/acme")
    _task(
        root, "over", {"environment/world/filesystem/a.txt": "new", "environment/Dockerfile": "x"}, world="worlds/acme"
    )
    _task(root, "named", {"extra/.apps_data/chat/c": "c"}, world="worlds/acme", overlay="extra")
    _task(root, "alone", {"environment/filesystem/x": "x", "environment/Dockerfile": "x"})
    _task(root, "none")
    pack = DirectoryPack(root)
    base = {"filesystem/a.txt": "a", "filesystem/d/b.txt": "b", ".apps_data/mail/m": "m"}

    worlds = {name: pack.world(pack.load(name)) for name in pack.ids()}

    assert _files(worlds["plain"]) == base
    assert _files(worlds["over"]) == {**base, "filesystem/a.txt": "new"}
    assert _files(worlds["named"]) == {**base, ".apps_data/chat/c": "c"}
    assert _files(worlds["alone"]) == {"filesystem/x": "x"}
    assert worlds["none"] is None
    for world in filter(None, worlds.values()):
        assert sorted(os.listdir(world)) == [".apps_data", "filesystem"]


def test_an_exported_task_carries_its_world_whole(root: Path) -> None:
    _task(root, "q", {"environment/filesystem/x": "x"}, world="world-of-the-pack-it-came-from")
    pack = DirectoryPack(root)
    assert _files(pack.world(pack.load("q"))) == {"filesystem/x": "x"}


def test_equal_content_is_one_folder_and_changed_content_another(root: Path) -> None:
    _world(root / "w1", {"filesystem/a": "1"})
    _task(root, "a", world="w1")
    _task(root, "b", world="w1")
    pack = DirectoryPack(root)
    first = pack.world(pack.load("a"))
    assert first == pack.world(pack.load("b")) == pack.world(pack.load("a"))
    stat = (root / "w1/filesystem/a").stat()
    (root / "w1/filesystem/a").write_text("2")
    os.utime(root / "w1/filesystem/a", ns=(stat.st_atime_ns, stat.st_mtime_ns))  # same size, same time
    second = pack.world(pack.load("a"))
    assert second != first
    assert (_files(first), _files(second)) == ({"filesystem/a": "1"}, {"filesystem/a": "2"})


@pytest.mark.parametrize(
    ("envkit", "prepare", "message"),
    [
        ({"world": "worlds/acmee"}, None, "names world 'worlds/acmee', but there is no folder"),
        ({"overlay": "gone"}, None, "names overlay 'gone', but there is no folder"),
        ({"world": "w"}, {"w/file": "x"}, "holds neither filesystem/ nor .apps_data/"),
        ({"world": "w"}, {"w/filesystem/a": "x", "w/apps_data/mail": "x"}, "is a folder in a world, which has only"),
    ],
)
def test_a_world_that_is_none_is_an_error_and_not_empty(
    root: Path, envkit: dict[str, str], prepare: dict[str, str] | None, message: str
) -> None:
    _task(root, "a", {}, **envkit)
    _world(root, prepare or {})
    pack = DirectoryPack(root)
    with pytest.raises(UserError, match=message):
        pack.world(pack.load("a"))


def test_a_world_that_leads_out_is_refused(root: Path, tmp_path: Path) -> None:
    _world(tmp_path / "outside", {"filesystem/secret": "x"})
    _task(root, "a", world="w")
    (root / "w").symlink_to("../outside")
    pack = DirectoryPack(root)
    with pytest.raises(UserError, match="leads out of"):
        pack.world(pack.load("a"))
    (root / "w").unlink()
    _world(root / "w", {"filesystem/a": "x"})
    (root / "w/filesystem/link").symlink_to("../../../outside/filesystem/secret")
    with pytest.raises(UserError, match="leads out of"):
        pack.world(pack.load("a"))
