"""Data from the hub: what is fetched and when, with a hub of files in its place; the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from synthetic import rows

from envkit import plugins
from envkit.cli.main import main
from envkit.failure import UserError
from envkit.tasks.apex import ApexPack, command
from envkit.tasks.apex.source import HubSource, pin, pinned

COMMIT = "c0ffee" * 6 + "c0ff"


class FilesHub:
    """A hub whose files lie in a folder; remembers what was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []

    def download(self, repository: str, revision: str, name: str) -> Path:
        self.asked.append(name)
        path = self.folder / name
        if not path.is_file():
            raise UserError(f"{repository} has no such file or revision: {name}")
        return path

    def listing(self, repository: str, revision: str) -> Sequence[str]:
        return [p.relative_to(self.folder).as_posix() for p in self.folder.rglob("*") if p.is_file()]

    def commit(self, repository: str, revision: str) -> str:
        return COMMIT


def run(hub: FilesHub, *words: str) -> int:
    import argparse

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    return command.run(parser.parse_args(words), hub)


def test_nothing_is_fetched_before_it_is_needed(dataset: Path) -> None:
    hub = FilesHub(dataset)
    pin("mercor/apex-agents", COMMIT)
    pack = ApexPack(hub=hub)
    assert hub.asked == []
    task = pack.load("task-21")
    assert hub.asked == ["tasks_and_rubrics.json"]
    world = pack.world(task)
    assert world is not None
    assert (world / "filesystem/Inbox/Question 21.txt").is_file()
    row = rows()[21]
    assert hub.asked[1] == f"world_files_zipped/{row['world_id']}.zip"
    assert sorted(hub.asked[2:]) == [
        f"task_files/{row['task_id']}/filesystem/{name}" for name in ("Inbox/Question 21.txt", "Notes.txt")
    ]


def test_fetch_pins_a_commit_and_fetches_what_is_named(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub = FilesHub(dataset)
    assert run(hub, "fetch", "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["tasks"] == 130
    assert "licensed for evaluation only" in err
    assert pinned() == ("mercor/apex-agents", COMMIT)
    assert not [name for name in hub.asked if name.endswith(".zip")]
    assert run(hub, "fetch", "apex/task-21", "regional-sales-4-north") == 0
    zips = {name for name in hub.asked if name.endswith(".zip")}
    assert zips == {f"world_files_zipped/{rows()[n]['world_id']}.zip" for n in (21, 4)}
    assert run(hub, "fetch", "--all") == 0
    assert len({name for name in hub.asked if name.endswith(".zip")}) == 3
    assert len({name.split("/")[1] for name in hub.asked if name.startswith("task_files/")}) == 19


def test_a_wrong_task_pins_nothing(dataset: Path) -> None:
    with pytest.raises(UserError, match="no task 'task-999'"):
        run(FilesHub(dataset), "fetch", "task-999")
    assert pinned() is None


def test_info_and_export(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub = FilesHub(dataset)
    with pytest.raises(UserError, match="Run `envkit apex fetch`"):
        run(hub, "info")
    run(hub, "fetch")
    capsys.readouterr()
    assert run(hub, "info", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["form"], told["tasks"], told["worlds"], told["training"]) == ("published", 130, 3, "not permitted")
    assert told["source"].startswith("mercor/apex-agents@c0ffee")
    assert run(hub, "export", "task-3", str(tmp_path / "out")) == 0
    assert (tmp_path / "out/environment/filesystem/Sales/March.xlsx").is_file()
    with pytest.raises(UserError, match="takes a task and a new directory"):
        run(hub, "export", "task-3")


def test_a_broken_pin_says_what_to_do() -> None:
    pin("a/b", COMMIT).write_text("{")
    with pytest.raises(UserError, match="run `envkit apex fetch` again"):
        ApexPack().load("task-1")


def test_without_the_library_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # as if it were not installed
    with pytest.raises(UserError, match=r"pip install 'envkit-rl\[apex\]'"):
        HubSource("mercor/apex-agents", COMMIT).file("tasks_and_rubrics.json")


def test_the_command_is_found_by_its_name(
    dataset: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "apex" in plugins.names("commands")
    monkeypatch.setenv("ENVKIT_APEX_DATA", str(dataset))
    assert main(["apex", "info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"] == 130
    monkeypatch.delenv("ENVKIT_APEX_DATA")
    assert main(["apex", "info"]) == 2
    assert "envkit apex fetch" in capsys.readouterr().err
