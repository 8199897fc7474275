"""The training form: Harbor directories with an archipelago.json and an image per world."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic import rows, write_training_form

import envkit
from envkit.failure import CapabilityError, UserError
from envkit.tasks.apex import ApexPack, licence


def test_names_image_keys_and_split(tmp_path: Path) -> None:
    pack = ApexPack(write_training_form(tmp_path / "data"))
    assert pack.is_training_form
    assert list(pack.ids()) == ["task-0", "task-1"]
    about = rows()[1]
    assert {pack.load(n).id for n in ("task-1", "sales-march-1", "sales-1", about["task_id"], "1")} == {"apex/task-1"}
    task = pack.load("task-1")
    assert task.config.environment.docker_image == "123456789012.dkr.ecr.eu-west-1.amazonaws.com/worlds:tern"
    assert task.config.verifier.env == {"APEX_TEST_KEY": "${APEX_TEST_KEY}"}
    assert (task.metadata.split, task.metadata.world) == ("eval", None)
    assert task.config.agent.timeout_sec == 600.0
    assert json.loads((task.dir / "archipelago.json").read_text())["more"] == {"kept": 1}
    assert pack.world(task) is None
    assert ApexPack(tmp_path / "data", training=licence.ACKNOWLEDGED).load("1").metadata.split == "train"
    with pytest.raises(UserError, match=licence.TRAINING_VARIABLE):
        pack.ids("train")


@pytest.mark.usefixtures("machine_home")
async def test_without_images_a_task_needs_its_worlds_files(
    tmp_path: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVKIT_APEX_DATA", str(write_training_form(tmp_path / "bare")))
    env = envkit.make_async("apex/sales-march-0", harness="opencode", sandbox="local")
    try:
        with pytest.raises(CapabilityError, match=r"the task needs image '123456789012\.dkr\.ecr"):
            await env.reset()
    finally:
        await env.close()
    monkeypatch.setenv("ENVKIT_APEX_DATA", str(write_training_form(tmp_path / "with", worlds=dataset)))
    env = envkit.make_async("apex/sales-march-0", harness="opencode", sandbox="local")
    try:
        await env.reset()
        _, reward, *_ = await env.step("Sales were 100 EUR.")  # its own test.sh judges
    finally:
        await env.close()
    assert reward == 1.0


def test_one_directory_is_a_pack_of_one(tmp_path: Path) -> None:
    pack = ApexPack(write_training_form(tmp_path / "data") / "sales-1")
    assert list(pack.ids()) == ["task-0"]
    assert pack.load("sales-march-1").steps[0].instruction.startswith("What were March sales in South?")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", r"archipelago\.json can't be read as JSON"),
        ("{}", r"task_id: Field required"),
        ('{"task_id": "t", "required_env_keys": ["A B"]}', "required_env_keys"),
        ('{"task_id": "t", "ecr_image": "x:2"}', "task.toml names the image 'x:1', archipelago.json 'x:2'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, reason: str) -> None:
    root = write_training_form(tmp_path / "data")
    (root / "sales-0" / "archipelago.json").write_text(text)
    toml = root / "sales-0" / "task.toml"
    toml.write_text(toml.read_text() + '[environment]\ndocker_image = "x:1"\n')
    with pytest.raises(UserError, match=reason):
        ApexPack(root).load("0")


def test_what_was_written_out_is_read_back(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    ApexPack(dataset).export_task("task-21", tmp_path / "out" / "q21", image="registry.example/tern:1")
    pack = ApexPack(tmp_path / "out")
    task = pack.load("regional-sales-21-south")
    assert task.config.environment.docker_image == "registry.example/tern:1"
    world = pack.world(task)
    assert world is not None
    assert (world / "filesystem/Inbox/Question 21.txt").read_text() == "Question 21\n"
