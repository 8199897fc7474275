"""Names, terms, tasks and worlds of the pack, out of a folder in the published layout."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from synthetic import rows

import envkit
from envkit import registry
from envkit.failure import UserError
from envkit.tasks.apex import ApexPack, licence
from envkit.tasks.apex.rubric import EVERYTHING, FILE_TYPES, verifier_toml
from envkit.verifiers.schema import parse_checks


def changed(dataset: Path, target: Path, change: Any) -> Path:
    """A copy of the dataset with its tasks changed."""
    shutil.copytree(dataset, target)
    tasks = rows()
    change(tasks)
    (target / "tasks_and_rubrics.json").write_text(json.dumps(tasks))
    return target


def test_a_task_has_a_number_an_id_and_a_slug(dataset: Path) -> None:
    pack = ApexPack(dataset)
    row = rows()[123]
    names = ["task-123", "123", row["task_id"], row["task_id"].upper(), "regional-sales-123-west"]
    assert {pack.load(name).id for name in names} == {"apex/task-123"}
    task = pack.load("task-123")
    assert task.steps[0].instruction.strip() == row["prompt"]
    assert (task.metadata.split, task.metadata.world, task.metadata.domain) == ("eval", row["world_id"], row["domain"])
    assert len(pack.ids()) == 130
    assert list(pack.ids()) == sorted(pack.ids())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("task-130", "no task 'task-130' among 130, task-0 to task-129"),
        ("regional-sales-12-nort", "did you mean 'regional-sales-12-north'"),
        ("task_unknown", "no task 'task_unknown'"),
    ],
)
def test_an_unknown_name_is_told_what_there_is(dataset: Path, name: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        ApexPack(dataset).load(name)


def test_a_slug_that_several_tasks_have_leads_to_none(dataset: Path, tmp_path: Path) -> None:
    def same(tasks: list[dict[str, Any]]) -> None:
        tasks[3]["task_name"] = tasks[5]["task_name"] = "Same Name"

    pack = ApexPack(changed(dataset, tmp_path / "data", same))
    with pytest.raises(UserError, match="several tasks are called 'same-name': task-3, task-5"):
        pack.load("same-name")


def test_the_registry_knows_the_other_names(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVKIT_APEX_DATA", str(dataset))
    row = rows()[7]
    assert envkit.list_tasks(f"apex/{row['task_id']}") == ["apex/task-7"]
    assert registry.expand(["apex/regional-sales-7-west", "apex/task-1?"])[:2] == ["apex/task-7", "apex/task-10"]
    assert envkit.load_task("apex/7").id == "apex/task-7"
    assert len(envkit.list_tasks("apex/*", split="eval")) == 130


def test_without_data_the_error_names_the_command() -> None:
    for ask in (
        lambda: envkit.make("apex/task-123"),
        lambda: envkit.load_task("apex/task-123"),
        lambda: envkit.list_tasks("apex/*"),
        lambda: registry.expand("apex"),
    ):
        with pytest.raises(UserError, match=r"Run `envkit apex fetch`.*ENVKIT_APEX_DATA"):
            ask()
    # Others' tasks are listed all the same.
    listed = {id.partition("/")[0] for id in envkit.list_tasks("*")}
    assert "office" in listed
    assert "apex" not in listed
    assert envkit.list_tasks("*/task-1") == []


def test_a_folder_that_is_not_there_or_holds_no_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVKIT_APEX_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"ENVKIT_APEX_DATA names .*nowhere, which is no folder"):
        ApexPack().load("task-1")
    with pytest.warns(UserWarning, match="left out: ENVKIT_APEX_DATA names"):
        assert envkit.list_tasks("*")
    with pytest.raises(UserError, match=r"holds neither tasks_and_rubrics\.json"):
        ApexPack(tmp_path).load("task-1")


def test_data_that_is_named_later_is_found(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = ApexPack()
    assert pack.ids() == ()
    assert pack.version == "none"
    monkeypatch.setenv("ENVKIT_APEX_DATA", str(dataset))
    assert len(pack.ids()) == 130
    assert pack.version != "none"


# --- terms ---


@pytest.mark.usefixtures("terms")
def test_the_terms_are_stated_when_data_is_loaded(dataset: Path) -> None:
    with pytest.warns(licence.LicenceNotice, match="licensed for evaluation only") as caught:
        task = ApexPack(dataset).load("task-1")
    assert str(dataset) in str(caught[0].message)
    assert "evaluation only" in (task.config.metadata.model_extra or {})["licence"]


def test_training_asks_for_an_acknowledgement(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVKIT_APEX_DATA", str(dataset))
    for ask in (lambda: envkit.list_tasks("apex/*", split="train"), lambda: ApexPack(dataset).ids("train")):
        with pytest.raises(UserError, match=f"{licence.TRAINING_VARIABLE}={licence.ACKNOWLEDGED}"):
            ask()
    assert ApexPack(dataset).splits() == ("eval",)
    allowed = ApexPack(dataset, training=licence.ACKNOWLEDGED)
    assert len(allowed.ids("train")) == 130
    assert allowed.load("task-1").metadata.split == "train"
    monkeypatch.setenv(licence.TRAINING_VARIABLE, licence.ACKNOWLEDGED)
    assert len(envkit.list_tasks("apex/*", split="train")) == 130
    monkeypatch.setenv(licence.TRAINING_VARIABLE, "yes")
    with pytest.raises(UserError, match="must be 'i-have-the-right-to-train-on-this-data' or unset, found 'yes'"):
        ApexPack(dataset).splits()


# --- rubrics ---


def test_a_rubric_is_criteria_for_the_judge(dataset: Path) -> None:
    task = ApexPack(dataset).load("task-123")
    row = rows()[123]
    checks = parse_checks((task.dir / "tests/verifier.toml").read_text())
    assert checks.scoring == "weighted_mean"
    assert [c.id for c in checks.check] == [line["verifier_id"] for line in row["rubric"]]
    assert [c.criterion for c in checks.check] == [line["criteria"] for line in row["rubric"]]
    assert [(c.kind, c.weight, c.primary) for c in checks.check] == [
        ("judge", 1.0, True), ("judge", 1.0, False), ("judge", 1.0, False),
    ]  # fmt: skip
    answer, everything, files = checks.check
    assert (answer.answer, answer.files) == (True, "none")
    assert (everything.answer, everything.files) == (True, "changed")
    assert (files.answer, files.changed_only, files.explanation) == (False, True, "Any wording will do.")
    assert files.files == ("filesystem/**/*.txt", "filesystem/**/*.TXT")
    assert files.references == ("filesystem/Sales/March.xlsx",)


def test_every_published_file_type_is_known_and_others_mean_everything() -> None:
    from envkit.tasks.apex.dataset import TaskRow

    for kind in (*FILE_TYPES, EVERYTHING, "Something new", None):
        line = {"criteria": 'It\'s "so"\n\x7f', "expected_file_type": kind, "verifier_id": "a b"}
        row = TaskRow.model_validate({**rows()[0], "rubric": json.dumps([line, line])})
        first, second = parse_checks(verifier_toml(row)).check
        assert (first.id, second.id) == ("line-1", "line-2")
        assert (first.answer, first.files != "changed") == ((False, True) if kind in FILE_TYPES else (True, False))


def test_named_output_files_alone_are_shown() -> None:
    from envkit.tasks.apex.dataset import TaskRow

    line = {"criteria": "x", "expected_output_files": ["Out [v1].docx", "/filesystem/a/b.xlsx", "../etc"]}
    row = TaskRow.model_validate({**rows()[0], "rubric": [line]})
    [check] = parse_checks(verifier_toml(row)).check
    assert check.files == ("filesystem/**/Out [[]v1].docx", "filesystem/a/b.xlsx")
    assert (check.answer, check.changed_only) == (True, True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t[4].pop("prompt"), r"row 4, prompt: Field required"),
        (lambda t: t[4].update(rubric=[]), r"row 4, rubric: Value should have at least 1"),
        (lambda t: t[4]["rubric"][1].update(criteria=7), r"row 4, rubric\.1\.criteria: Input should be a valid string"),
        (lambda t: t[4].update(task_id="../x"), "row 4, task_id"),
        (lambda t: t[4].update(task_id=t[2]["task_id"]), "tasks 2 and 4 have the same task_id"),
    ],
)
def test_mistakes_in_the_data_are_named_with_their_place(
    dataset: Path, tmp_path: Path, change: Any, reason: str
) -> None:
    with pytest.raises(UserError, match=reason):
        ApexPack(changed(dataset, tmp_path / "data", change)).load("task-0")


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "[" * 100_000])
def test_an_index_that_is_no_list(dataset: Path, tmp_path: Path, text: str) -> None:
    shutil.copytree(dataset, tmp_path / "data")
    (tmp_path / "data" / "tasks_and_rubrics.json").write_text(text)
    with pytest.raises(UserError, match=r"tasks_and_rubrics\.json (is not valid JSON|must hold a list)"):
        ApexPack(tmp_path / "data").ids()


# --- worlds ---


def test_a_world_is_unpacked_once_and_shared(dataset: Path) -> None:
    pack = ApexPack(dataset)
    first, other = (pack.world(pack.load(f"task-{n}")) for n in (3, 6))
    assert first == other
    assert first is not None
    assert (first / "filesystem/Notes.txt").read_text() == "World 0. All amounts in EUR.\n"
    assert (first / ".apps_data/mail/mailbox.mbox").is_file()
    assert not (first / ".apps_data/.coordinator").exists()
    wrapped = pack.world(pack.load("task-1"))
    assert wrapped is not None
    assert (wrapped / "filesystem/Sales/March.xlsx").is_file()


def test_a_tasks_own_files_are_part_of_the_initial_state(dataset: Path) -> None:
    pack = ApexPack(dataset)
    plain, overlaid = (pack.world(pack.load(f"task-{n}")) for n in (3, 21))
    assert plain is not None
    assert overlaid is not None
    assert (overlaid / "filesystem/Inbox/Question 21.txt").read_text() == "Question 21\n"
    assert (overlaid / "filesystem/Notes.txt").read_text() == "Notes of task 21\n"
    # The shared world keeps its own, and what both have takes no room twice.
    assert (plain / "filesystem/Notes.txt").read_text() == "World 0. All amounts in EUR.\n"
    assert (overlaid / "filesystem/Sales/March.xlsx").samefile(plain / "filesystem/Sales/March.xlsx")
    assert not (plain / "filesystem/Inbox").exists()


def test_missing_and_broken_world_files_are_named(dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset, tmp_path / "data")
    pack = ApexPack(tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "task_files")
    with pytest.raises(UserError, match=r"brings files of its own, but .* has no task_files/"):
        pack.world(pack.load("task-21"))
    archives = sorted((tmp_path / "data" / "world_files_zipped").iterdir())
    for path in archives:
        path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(UserError, match=r"world .*\.zip can't be used: .*fetch it again"):
        pack.world(pack.load("task-3"))
    for path in archives:
        path.unlink()
    with pytest.raises(UserError, match="has no world_files_zipped/world_"):
        pack.world(pack.load("task-3"))


def test_a_hostile_world_is_refused(dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset, tmp_path / "data")
    for path in (tmp_path / "data" / "world_files_zipped").iterdir():
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("filesystem/a.txt", b"a")
            archive.writestr("../outside.txt", b"x")
    pack = ApexPack(tmp_path / "data")
    with pytest.raises(UserError, match="leads out of it"):
        pack.world(pack.load("task-3"))
    assert not list(tmp_path.rglob("outside.txt"))


def test_a_task_written_out_stands_alone(dataset: Path, tmp_path: Path) -> None:
    pack = ApexPack(dataset)
    folder = pack.export_task("21", tmp_path / "out", image="registry.example/tern:1")
    about = json.loads((folder / "archipelago.json").read_text())
    assert (about["task_id"], about["task_slug"]) == (rows()[21]["task_id"], "regional-sales-21-south")
    assert (about["ecr_image"], about["needs_snapshot"], about["world_short_name"]) == (
        "registry.example/tern:1", True, "tern-0",
    )  # fmt: skip
    assert (folder / "environment/filesystem/Inbox/Question 21.txt").is_file()
    assert (folder / "environment/Dockerfile").is_file()
    assert envkit.load_task(str(folder)).steps[0].instruction.startswith("What were March sales in South?")
    with pytest.raises(UserError, match="exists already"):
        pack.export_task("21", tmp_path / "out")
