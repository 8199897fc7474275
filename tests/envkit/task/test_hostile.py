"""Directories from strangers: each attack ends in one clear `UserError`, quickly, and nothing outside is read."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from envkit.failure import UserError
from envkit.task import LenientWarning, load_task_dir


def _refused(root: Path, *words: str, lenient: bool = False) -> str:
    with pytest.raises(UserError) as caught:
        load_task_dir(root, lenient=lenient)
    for word in words:
        assert word in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("place", ["task.toml", "instruction.md", "tests", "solution/x", "environment/deep/er/x"])
def test_a_link_that_leads_out_is_refused_wherever_it_is(make_dir: Any, tmp_path: Path, place: str) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "f").write_text("hidden")
    root = make_dir()
    link = root / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    for target in ("/etc/passwd", "../secret", "../../../../../../etc", str(secret / "f"), "../q10"):
        (tmp_path / "q10").mkdir(exist_ok=True)  # a neighbour whose path begins with the task's own
        depth = "../" * place.count("/")
        link.symlink_to(depth + target if target.startswith("..") else target)
        text = _refused(root, str(link), "leads out of the task directory", lenient=True)
        assert "hidden" not in text
        link.unlink()


def test_links_inside_are_followed_and_broken_or_circular_ones_refused(make_dir: Any) -> None:
    root = make_dir(files={"tests/real.sh": "x"})
    (root / "tests" / "test.sh").symlink_to("real.sh")
    (root / "solution").symlink_to("tests")
    assert load_task_dir(root).steps[0].solution_dir == root / "solution"

    (root / "tests" / "gone").symlink_to("nothing-here")
    _refused(root, "gone", "where nothing is")
    (root / "tests" / "gone").unlink()
    (root / "tests" / "loop").symlink_to("loop")
    _refused(root, "leads back to itself")
    (root / "tests" / "loop").unlink()
    (root / "tests" / "up").symlink_to("..")
    _refused(root, "a link to a folder that contains it")


@pytest.mark.parametrize("place", ["task.toml", "instruction.md", "tests/pipe", "environment/pipe", "steps/a/pipe"])
def test_a_pipe_never_blocks(make_dir: Any, place: str) -> None:
    root = make_dir()
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).unlink(missing_ok=True)
    os.mkfifo(root / place)
    _refused(root, str(root / place), "is a pipe (FIFO)", "Remove it", lenient=True)


def test_sockets_and_devices_are_refused(make_dir: Any) -> None:
    root = make_dir()
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(root)  # the path of a socket is short
        try:
            listener.bind("sock")
        finally:
            os.chdir(here)
        _refused(root, "is a socket")


@pytest.mark.parametrize(
    ("pair", "lenient_works"),
    [(("Readme", "README"), True), (("caf\u00e9", "cafe\u0301"), True), (("straße", "STRASSE"), True)],
)
def test_names_that_some_file_systems_merge_are_refused(
    make_dir: Any, pair: tuple[str, str], lenient_works: bool
) -> None:
    root = make_dir(files={f"tests/{name}": "x" for name in pair})
    _refused(root, "are one file where case or Unicode form are ignored; rename one")
    with pytest.warns(LenientWarning, match="are one file"):
        load_task_dir(root, lenient=True)


def test_a_name_that_is_not_utf8_is_refused_in_readable_form(make_dir: Any) -> None:
    root = make_dir()
    with open(os.fsencode(root) + b"/bad-\xff", "wb"):
        pass
    assert _refused(root, r"bad-\xff", "is not UTF-8").isprintable()


def test_step_names_that_climb_or_collide_are_refused(make_dir: Any) -> None:
    root = make_dir("[[steps]]\nname = '../../etc'\n")
    _refused(root, "task.toml:2", "is a path")
    (root / "task.toml").write_text("[[steps]]\nname = 'A'\n[[steps]]\nname = 'a'\n")
    _refused(root, "are one folder")


@pytest.mark.parametrize("folder", ["environment", "tests", "solution", "steps"])
def test_a_file_where_a_folder_belongs_is_refused(make_dir: Any, folder: str) -> None:
    root = make_dir(files={folder: "x"})
    _refused(root, str(root / folder), "is a file; expected a folder")


@pytest.mark.parametrize("name", ["task.toml", "instruction.md"])
def test_a_folder_where_a_file_belongs_is_refused(make_dir: Any, name: str) -> None:
    root = make_dir()
    (root / name).unlink()
    (root / name).mkdir()
    _refused(root, str(root / name), "is a folder; expected a file")


def test_what_is_missing_is_named(make_dir: Any, tmp_path: Path) -> None:
    root = make_dir(files={"instruction.md": None})
    _refused(root, "instruction.md is missing; expected the task's instruction there")
    (root / "task.toml").write_text("[[steps]]\nname = 'draft'\n")
    _refused(root, "declares step 'draft', but there is no folder")
    (root / "steps" / "draft").mkdir(parents=True)
    _refused(root, "draft/instruction.md is missing; expected the instruction of step 'draft' there")
    (root / "task.toml").unlink()
    _refused(root, "task.toml is missing; expected the task's configuration there")
    _refused(tmp_path / "nowhere", "there is no task directory at")
    (tmp_path / "file").write_text("x")
    _refused(tmp_path / "file", "is no folder")
    _refused(tmp_path / "nul\0byte", "can't be read")
    _refused(tmp_path / ("x" * 5000), "can't be read")


def test_instructions_must_be_text_and_say_something(make_dir: Any) -> None:
    root = make_dir(files={"instruction.md": None})
    (root / "instruction.md").write_bytes(b"fine\nbad \xfe\n")
    _refused(root, "instruction.md:2: expected UTF-8 text, found the byte 0xfe", lenient=True)
    (root / "instruction.md").write_bytes(b"x" * ((4 << 20) + 1))
    _refused(root, "4,194,305 bytes; expected at most 4,194,304")
    (root / "instruction.md").write_text("<!-- canary -->\n\n  \n")
    _refused(root, "says nothing")
    with pytest.warns(LenientWarning, match="says nothing"):
        load_task_dir(root, lenient=True)


def test_a_huge_or_binary_configuration_is_refused(make_dir: Any) -> None:
    root = make_dir()
    with open(root / "task.toml", "wb") as file:
        file.truncate(1 << 40)  # a sparse terabyte: must not be read into memory
    _refused(root, "1,099,511,627,776 bytes; expected at most 1,048,576")
    (root / "task.toml").write_bytes(b"\x89PNG\r\n\x1a\n")
    _refused(root, "expected UTF-8 text, found the byte 0x89")


@pytest.mark.slow
@pytest.mark.parametrize(("line", "lenient_reads"), [("[k{0}]\n", True), ("[[steps]]\nk{0} = 1\n", False)])
def test_ten_thousand_mistakes_are_answered_soon_and_briefly(make_dir: Any, line: str, lenient_reads: bool) -> None:
    root = make_dir("".join(line.format(number) for number in range(10_000)))
    start_s = time.process_time()
    assert len(_refused(root, "980 more").splitlines()) == 21
    with pytest.warns(LenientWarning) if lenient_reads else pytest.raises(UserError):
        load_task_dir(root, lenient=True)
    assert time.process_time() - start_s < 20  # searching the nearest key for each would take minutes


def test_a_key_of_a_megabyte_is_not_repeated(make_dir: Any) -> None:
    root = make_dir(f"[agent]\n{'k' * 10**6} = 1\n")
    assert len(_refused(root, "unknown key 'kkkk")) < 500


def test_a_tree_nested_without_end_is_refused(make_dir: Any) -> None:
    root = make_dir()
    deep = root / "tests" / "/".join(["d"] * 150)
    deep.mkdir(parents=True)
    _refused(root, "nested deeper than 100 levels")


def test_an_unreadable_folder_is_named(make_dir: Any) -> None:
    root = make_dir(files={"tests/x": ""})
    (root / "tests").chmod(0)
    try:
        with _as_nobody(root):
            _refused(root, "can't be read: Permission denied")
    finally:
        (root / "tests").chmod(0o755)


@contextmanager
def _as_nobody(reaching: Path) -> Iterator[None]:
    """Root reads everything; as root, another user is tried instead, who may enter the folders on the way."""
    if os.geteuid() != 0:
        yield
        return
    closed = [folder for folder in reaching.parents if folder.stat().st_mode & 0o011 != 0o011]
    for folder in closed:
        folder.chmod(folder.stat().st_mode | 0o011)
    reaching.chmod(0o755)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        for folder in closed:
            folder.chmod(folder.stat().st_mode & ~0o011)
