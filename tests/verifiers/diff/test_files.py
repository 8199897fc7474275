"""Files, folders and snapshots: what changed is found by content, and whatever can't be read says so."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from envkit.failure import UserError
from envkit.snapshot import Snapshot, write_zip
from envkit.verifiers.diff import Change, diff_bytes, diff_folders, diff_paths
from envkit.verifiers.diff.command import add_arguments, run
from envkit.verifiers.diff.report import as_html, as_text

OLD = {
    "a/prices.csv": "id,price\n1,10\n2,20\n",
    "a/notes.log": "one\ntwo\n",
    "a/gone.bin": "\0\1",
    "a/same.csv": "x,y\n1,2\n",
}
NEW = {
    "a/prices.csv": "id,price\n1,10\n2,25\n",
    "b/notes.log": "one\ntwo\n",
    "a/new.txt": "hi",
    "a/same.csv": "x;y\n1;2\n",
}


def laid(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
    return root


def test_folders_are_compared_file_by_file(tmp_path: Path) -> None:
    before, after = laid(tmp_path / "old", OLD), laid(tmp_path / "new", NEW)
    found = diff_folders(before, after)
    assert [(f.path, f.kind, f.change, f.before, f.after) for f in found] == [
        ("a/gone.bin", "file", Change.REMOVED, "2 bytes", None),
        ("a/new.txt", "file", Change.ADDED, None, "2 bytes"),
        ("a/notes.log", "file.name", Change.MOVED, "a/notes.log", "b/notes.log"),
        ("a/prices.csv", "cell.value", Change.CHANGED, "20", "25"),
    ]
    assert {f.path for f in diff_folders(before, after, lambda path: path.endswith(".csv"))} == {"a/prices.csv"}


def test_worlds_are_compared_whether_folder_or_archive(tmp_path: Path) -> None:
    before = laid(tmp_path / "old", {f"filesystem/{name}": text for name, text in OLD.items()})
    after = laid(tmp_path / "new", {f"filesystem/{name}": text for name, text in NEW.items()})
    with Snapshot.from_folders(after) as snapshot:
        write_zip(snapshot, tmp_path / "new.zip")
    found = diff_paths(before, tmp_path / "new.zip")
    assert found == diff_paths(before, after)
    assert ("filesystem/a/prices.csv", "row 3 / price") in {(f.path, f.where) for f in found}


def test_a_file_that_cannot_be_read_is_one_finding() -> None:
    (found,) = diff_bytes("book.xlsx", b"", b"no workbook at all")
    assert (found.kind, found.change) == ("file.unreadable", Change.UNREADABLE)
    assert found.before is not None
    assert found.before.startswith("empty")
    assert found.after is not None
    assert found.after.startswith("not this format")
    assert diff_bytes("book.xlsx", b"broken", b"broken") == []


def test_other_files_are_compared_by_lines_or_by_hash() -> None:
    found = diff_bytes("run.log", b"start\nstep one done\nend\n", b"start\nstep two done\nend\nmore\n")
    assert [(f.where, f.change) for f in found] == [("line 2", Change.CHANGED), ("line 4", Change.ADDED)]
    (found_bytes,) = diff_bytes("blob.bin", b"\0a", b"\0b")
    assert found_bytes.kind == "file.content"


def test_two_sorts_of_things_are_refused(tmp_path: Path) -> None:
    folder = laid(tmp_path / "old", OLD)
    with pytest.raises(UserError, match="is a folder"):
        diff_paths(folder, folder / "a/prices.csv")
    with pytest.raises(UserError, match="there is no"):
        diff_paths(folder, tmp_path / "nowhere")


def test_the_command_prints_text_json_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = laid(tmp_path / "old", OLD), laid(tmp_path / "new", NEW)
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    assert run(parser.parse_args([str(before), str(after), "--only", "*.csv"])) == 1
    assert "~ row 3 / price  cell.value  20 -> 25" in capsys.readouterr().out
    assert run(parser.parse_args([str(before), str(before)])) == 0
    assert capsys.readouterr().out == "no differences\n"
    page = tmp_path / "page.html"
    assert run(parser.parse_args([str(before), str(after), "--json", "--html", str(page)])) == 1
    assert len(json.loads(capsys.readouterr().out)) == 4
    assert "<del>20</del>" in page.read_text()


def test_what_files_say_stays_text_in_the_page() -> None:
    hostile = "<script>alert(1)</script>"
    findings = diff_bytes("t.csv", b"a,b\n1,2\n", f"a,b\n{hostile},2\n".encode())
    assert "<script" not in as_html(findings, hostile, hostile)
    assert "\x1b" not in as_text(diff_bytes("t.csv", b"a,b\n1,2\n", b"a,b\n\x1b[31m,2\n"))
