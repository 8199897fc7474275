"""The context of a handler: paths stay inside, writes are whole, errors say what to do."""

from __future__ import annotations

import datetime as dt
import os
import stat

import pytest

from envkit.harnesses.archipelago.servers.context import Context, ToolError
from envkit.office.problem import Problem, Unreadable


def test_the_spellings_of_a_path_are_one_file(world):
    (world.filesystem / "a b").mkdir()
    (world.filesystem / "a b" / "c.txt").write_text("x")
    spellings = [
        "/a b/c.txt",
        "a b/c.txt",
        "/filesystem/a b/c.txt",
        "file:///filesystem/a b/c.txt",
        "./a b//c.txt",
        " /a b/x/../c.txt ",
        "filesystem/a b/c.txt",
    ]
    (world.filesystem / "a b" / "x").mkdir()
    assert {world.path(text, must_exist=True) for text in spellings} == {world.filesystem / "a b" / "c.txt"}
    assert world.shown(world.path("a b/c.txt")) == "/a b/c.txt"
    assert world.shown(world.path("/")) == "/"
    assert world.shown(world.path("/.hidden")) == "/.hidden"


@pytest.mark.parametrize("text", ["../x", "/../../etc/passwd", "a/../../x", "/link", "/link/x", "/loop"])
def test_nothing_leads_out(world, tmp_path, text):
    (tmp_path / "outside").mkdir()
    (world.filesystem / "link").symlink_to(tmp_path / "outside")
    (world.filesystem / "loop").symlink_to("/etc/passwd")
    with pytest.raises(ToolError, match="leads out of the file system"):
        world.path(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "is empty"), ("  ", "is empty"), ("a\0b", "NUL"), ("x" * 5000, "255 bytes"), ("a\ud800", "can't be")],
)
def test_what_is_no_path_is_said(world, text, words):
    with pytest.raises(ToolError, match=words):
        world.path(text)


def test_a_wrong_path_is_answered_with_the_right_one(world):
    (world.filesystem / "reports" / "2024").mkdir(parents=True)
    (world.filesystem / "reports" / "2024" / "Summary.docx").write_bytes(b"x")
    with pytest.raises(ToolError, match=r"did you mean /reports/2024/Summary\.docx\?"):
        world.path("/summary.docx", must_exist=True)
    with pytest.raises(ToolError, match=r"did you mean /reports/2024/new\.txt\?"):
        world.path("/report/2024/new.txt", must_exist=True)
    with pytest.raises(ToolError, match="exists already"):
        world.path("/reports", must_exist=False)


def test_a_write_is_whole_and_keeps_the_mode(world):
    path = world.path("/new/folder/a.txt")
    world.write(path, b"one")
    path.chmod(0o640)
    world.write(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(path.parent) == ["a.txt"]


def test_what_can_not_be_written_is_said_and_leaves_nothing(world, monkeypatch):
    world.write(world.path("/file"), b"x")
    with pytest.raises(ToolError, match="not a folder"):
        world.write(world.filesystem / "file" / "below", b"x")
    (world.filesystem / "folder").mkdir()
    with pytest.raises(ToolError, match="it is a folder"):
        world.write(world.path("/folder"), b"x")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ToolError, match=r"there is no room for 3 bytes"):
        world.write(world.path("/other"), b"abc")
    assert sorted(os.listdir(world.filesystem)) == ["file", "folder"]


def test_reading_refuses_what_is_no_file(world):
    os.mkfifo(world.filesystem / "pipe")
    (world.filesystem / "big").write_bytes(b"x" * 101)
    with pytest.raises(ToolError, match="not a regular file"):
        world.read(world.path("/pipe"))
    with pytest.raises(ToolError, match="is a folder"):
        world.read(world.path("/"))
    with pytest.raises(ToolError, match="101 bytes; at most 100"):
        world.read(world.path("/big"), 100)


def test_a_reader_that_crashes_is_a_file_that_breaks_its_parser(world):
    (world.filesystem / "x.txt").write_bytes(b"x")

    def reader(data: bytes) -> None:
        raise ZeroDivisionError("oh")

    with pytest.raises(Unreadable, match="ZeroDivisionError") as caught:
        world.parse(world.path("/x.txt"), reader)
    assert caught.value.problem is Problem.PARSER_CRASH


def test_the_time_is_the_one_the_model_is_shown_and_goes_on(tmp_path):
    settings = {"ENVKIT_NOW": "2026-01-15T09:00:00+00:00", "ENVKIT_EPOCH": "0"}
    shown = Context(tmp_path, tmp_path, settings=settings)
    first, second = shown.now(), shown.now()
    assert dt.datetime(2026, 1, 15, 9, tzinfo=dt.UTC) < first <= second
    assert abs(Context(tmp_path, tmp_path).now() - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=1)
