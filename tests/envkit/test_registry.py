"""Ids, patterns, packs by entry point, path and call; and listing that loads nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from envkit import plugins, registry
from envkit.failure import UserError
from envkit.registry import DirectoryPack, expand, find, list_tasks, load_task, register, unregister
from envkit.task import Task, TaskConfig, load_task_dir, write_task_dir


class CountingPack:
    """A pack of generated names that counts what is asked of it."""

    def __init__(self, name: str, names: Sequence[str], folder: Path, version: str = "1.2") -> None:
        self.name, self.version, self.folder = name, version, folder
        self.names = sorted(names)
        self.loads = self.listings = 0

    def ids(self, split: str | None = None) -> Sequence[str]:
        self.listings += 1
        return [name for name in self.names if split is None or name.endswith(f"-{split}")]

    def splits(self) -> Sequence[str]:
        return ("train", "eval")

    def load(self, name: str) -> Task:
        self.loads += 1
        if name not in self.names:
            raise UserError(f"no task {name!r}")
        return load_task_dir(self.folder, id=f"{self.name}/{name}")

    def world(self, task: Task) -> Path | None:
        return None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_task_dir(tmp_path / "template", TaskConfig(), {"instruction.md": "x"}).dir


@pytest.fixture
def acme(folder: Path) -> Iterator[CountingPack]:
    names = ["q1-memo-train", "q2-memo-train", "q2-deck-eval", "task-v12", "with.dots_and-more"]
    pack = CountingPack("acme", names, folder)
    register(pack)
    yield pack
    unregister("acme")


@pytest.fixture
def tasks_dir(tmp_path: Path) -> Path:
    root = tmp_path / "deals"
    for name in ("a-1", "a-2", "b-1", "task-v12"):
        write_task_dir(root / name, TaskConfig(source=name), {"instruction.md": name})
    (root / "not-a-task").mkdir()
    (root / "README.md").write_text("x")
    return root


def test_ids_globs_splits_and_versions(acme: CountingPack) -> None:
    everything = [f"acme/{name}" for name in acme.names]
    assert list_tasks("acme") == list_tasks("acme/*") == list_tasks("ac*/*") == everything
    assert list_tasks("acme/q2-*") == ["acme/q2-deck-eval", "acme/q2-memo-train"]
    assert list_tasks("acme/q[12]-memo-trai?") == ["acme/q1-memo-train", "acme/q2-memo-train"]
    assert list_tasks("acme/*", split="train") == ["acme/q1-memo-train", "acme/q2-memo-train"]
    assert list_tasks("*/q2*", split="eval") == ["acme/q2-deck-eval"]
    assert list_tasks("acme/*@1.2") == everything
    assert expand("acme/task-v12") == ["acme/task-v12"]
    assert expand("acme/task-v12, acme/q2-*,acme/task-v12") == [
        "acme/task-v12",
        "acme/q2-deck-eval",
        "acme/q2-memo-train",
    ]
    assert expand(["acme/with.dots_and-more@1.2", "acme/q1-*"]) == ["acme/with.dots_and-more", "acme/q1-memo-train"]
    assert list_tasks("acme/nothing-*") == []
    assert acme.loads == 0
    assert load_task("acme/task-v12@1.2").id == "acme/task-v12"
    assert find("acme/task-v12")[0] is acme
    assert acme.loads == 2


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("acmee/x", "no task pack named 'acmee' (did you mean 'acme'?)"),
        ("acme/q1-memo-trian", "has no task 'q1-memo-trian' (did you mean 'q1-memo-train'?)"),
        ("acme/q1-memo-train@2", "asks for version '2' of pack 'acme'; installed is '1.2'"),
        ("acme/zzz*", "'acme/zzz*' matches no task; packs:"),
        ("acme/q2-deck-eval,", None),
        ("acme/x@", "ends in '@'"),
        ("acme/x/y", "'x/y' in 'acme/x/y' can't be the name of a task"),
        ("acme/täsk", "ASCII letters, digits"),
        ("acme/a..b", "can't be the name"),
        ("acme/", "can't be the name"),
        ("", "expected at least one task"),
        (" , ", "expected at least one task"),
        ("./nowhere", "there is no directory"),
    ],
)
def test_what_does_not_exist_is_an_error_with_the_nearest_known(
    acme: CountingPack, reference: str, message: str | None
) -> None:
    if message is None:
        assert expand(reference) == ["acme/q2-deck-eval"]
        return
    with pytest.raises(UserError) as caught:
        expand(reference)
    assert message in str(caught.value)


def test_an_unknown_split_is_an_error_only_where_the_pack_is_named(acme: CountingPack) -> None:
    with pytest.raises(UserError, match=r"has no split 'trian' \(did you mean 'train'\?\)"):
        list_tasks("acme/*", split="trian")
    with pytest.raises(UserError, match="matches no task in split 'eval'"):
        expand("acme/task-v12", split="eval")
    assert list_tasks("ac*/*", split="other") == []


def test_one_task_is_not_many(acme: CountingPack, tasks_dir: Path) -> None:
    for reference in ("acme", "acme/*", "ac*/task-v12"):
        with pytest.raises(UserError, match="expected one task, as pack/task"):
            load_task(reference)
    with pytest.raises(UserError, match=r"is a directory of 4 tasks; name one, e\.g\. .*deals/a-1"):
        load_task(str(tasks_dir))
    with pytest.raises(UserError, match="is a file; expected a task directory"):
        load_task(str(tasks_dir / "README.md"))
    with pytest.raises(UserError, match="holds no task"):
        load_task(str(tasks_dir / "not-a-task"))


def test_tasks_by_path_are_references_that_any_process_resolves(
    tasks_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    absolute = [str(tasks_dir / name) for name in ("a-1", "a-2", "b-1", "task-v12")]
    assert expand("./deals") == expand("deals/../deals".join(("./", ""))) == expand(f"path:{tasks_dir}") == absolute
    assert expand("./deals/a-*") == expand(["./deals/a-2", "./deals/a-*"])[::-1] == absolute[:2]
    task = load_task(absolute[3])
    assert (task.id, task.config.source) == ("deals/task-v12", "task-v12")
    assert isinstance(find("./deals/a-1")[0], DirectoryPack)

    code = f"from envkit.registry import load_task; print(load_task({absolute[0]!r}).id)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=True)
    assert ran.stdout == "deals/a-1\n"


def test_a_path_with_a_comma_is_a_path(tmp_path: Path) -> None:
    task = write_task_dir(tmp_path / "a,b" / "t1", TaskConfig(), {"instruction.md": "x"})
    assert expand(str(tmp_path / "a,b")) == [str(task.dir)]


def test_a_directory_is_registered_under_a_name(tasks_dir: Path) -> None:
    pack = register("mine", tasks_dir)
    try:
        assert list_tasks("mine") == ["mine/a-1", "mine/a-2", "mine/b-1", "mine/task-v12"]
        assert load_task("mine/b-1").id == "mine/b-1"
        assert find("mine/b-1")[0] is pack
        assert register("mine", tasks_dir).name == "mine"  # the same again is no conflict
        with pytest.raises(UserError, match="there is a pack named 'mine' already"):
            register("mine", tasks_dir.parent)
        assert register("mine", tasks_dir.parent, replace=True).name == "mine"
    finally:
        unregister("mine")
    with pytest.raises(UserError, match="no task pack named 'mine'"):
        list_tasks("mine")


def test_what_is_no_pack_is_refused(tasks_dir: Path) -> None:
    with pytest.raises(UserError, match="is no task pack: it lacks name, version, ids"):
        register(object())  # type: ignore[arg-type]
    with pytest.raises(UserError, match="needs the directory too"):
        register("acme")
    with pytest.raises(UserError, match="can't be a pack's name"):
        register("a/b", tasks_dir)
    with pytest.raises(UserError, match="there is no directory"):
        register("acme", tasks_dir / "nowhere")


def test_packs_of_installed_distributions_are_found_and_a_broken_one_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    site = tmp_path / "site"
    (site / "third_party-1.dist-info").mkdir(parents=True)
    (site / "third_party-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1\n")
    (site / "third_party-1.dist-info" / "entry_points.txt").write_text(
        "[envkit.tasks]\nthird = third_party_pack:Pack\nbroken = no_such_module:Pack\n"
    )
    (site / "third_party_pack.py").write_text(
        "class Pack:\n"
        "    name, version = 'third', '7'\n"
        "    def ids(self, split=None): return ['t1', 't2']\n"
        "    def splits(self): return ()\n"
        "    def world(self, task): return None\n"
        "    def load(self, name):\n"
        "        from envkit.task import load_task_dir\n"
        f"        return load_task_dir({str(folder)!r}, id=f'third/{{name}}')\n"
    )
    monkeypatch.syspath_prepend(str(site))
    plugins._found.cache_clear()
    try:
        assert {"third", "broken"} <= set(registry.pack_names())
        assert list_tasks("third/*@7") == ["third/t1", "third/t2"]
        assert load_task("third/t2").id == "third/t2"
        with pytest.warns(UserWarning, match="left out: task pack 'broken' is registered as 'no_such_module:Pack'"):
            assert list_tasks("*/t1") == ["third/t1"]
        with pytest.raises(UserError, match="can't be loaded"):
            list_tasks("broken")
    finally:
        plugins._found.cache_clear()
        registry._from_entry_points.pop("third", None)


def test_ten_thousand_registered_tasks_list_quickly_and_load_none(folder: Path) -> None:
    names = [f"task-{number:05d}-{'train' if number % 3 else 'eval'}" for number in range(10_000)]
    pack = CountingPack("many", names, folder)
    register(pack)
    try:
        start_s = time.process_time()  # not the wall clock: the machine may be busy
        assert len(list_tasks("many/*")) == 10_000
        took_s = time.process_time() - start_s
        assert len(list_tasks("ma*/task-0*", split="eval")) == 3_334
        assert len(expand([f"many/{name}" for name in names])) == 10_000  # one by one, still one listing
        assert pack.loads == 0
        assert pack.listings == 3
        assert took_s < 1.0
    finally:
        unregister("many")


@pytest.mark.slow
def test_ten_thousand_task_directories_list_in_under_a_second(tmp_path: Path) -> None:
    root = str(tmp_path / "many")
    os.mkdir(root)
    for number in range(10_000):  # without an instruction: loading any one of them would fail
        os.mkdir(f"{root}/task-{number:05d}")
        os.mknod(f"{root}/task-{number:05d}/task.toml")
    register("many", root)
    try:
        start_s = time.process_time()
        ids = list_tasks("many/*")
        took_s = time.process_time() - start_s
        assert len(ids) == 10_000
        assert took_s < 1.0
        with pytest.raises(UserError, match=r"instruction\.md is missing"):
            load_task(ids[0])
    finally:
        unregister("many")


def test_many_threads_may_list_load_and_register(acme: CountingPack, tasks_dir: Path) -> None:
    errors: list[BaseException] = []
    gate = threading.Barrier(8)

    def work(number: int) -> None:
        try:
            gate.wait()
            for turn in range(10):
                register(f"thread-{number}", tasks_dir, replace=True)
                assert len(list_tasks(f"thread-{number}/*,acme/*")) == 9
                assert load_task(f"thread-{number}/a-1").id == f"thread-{number}/a-1"
                assert list_tasks("*/a-1")
                if turn % 5 == 4:
                    unregister(f"thread-{number}")
        except BaseException as error:  # noqa: BLE001  handed to the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []


def test_listing_loads_no_heavy_module(tasks_dir: Path) -> None:
    code = (
        "import sys, envkit.registry as r; r.list_tasks(sys.argv[1]);"
        "print([m for m in ('tomlkit', 'openpyxl', 'docx', 'gymnasium', 'numpy') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tasks_dir)], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert ran.stdout == "[]\n"
