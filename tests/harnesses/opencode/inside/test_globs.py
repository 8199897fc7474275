"""Globs and ignore files as ripgrep reads them. A test against ripgrep itself is beside the conformance test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envkit.harnesses.opencode.inside.globs import GlobError, Rules, translate
from envkit.harnesses.opencode.inside.walking import Glob, walk


@pytest.mark.parametrize(
    ("glob", "fits", "not_fits"),
    [
        ("*.txt", ["a.txt", ".txt"], ["a/b.txt", "a.txt.bak"]),
        ("**/a", ["a", "x/a", "x/y/a"], ["ab", "x/ab"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a/c"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb"]),
        ("a**b", ["ab", "axxb"], ["a/b"]),
        ("{a,b{c,d}}.t", ["a.t", "bc.t", "bd.t"], ["b.t", "{a,b}.t"]),
        ("[a-c]?", ["ax", "c."], ["dx", "a", "a/"]),
        ("[!a-c]", ["d", "-"], ["a", "b"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("\\*", ["*"], ["a"]),
        ("*.{ts,tsx}", ["a.ts", "a.tsx"], ["a.t", "a.js"]),
        ("**", ["a", "a/b"], []),
        ("a,b", ["a,b"], ["a"]),
    ],
)
def test_what_a_glob_fits(glob: str, fits: list[str], not_fits: list[str]) -> None:
    pattern = translate(glob)
    assert [name for name in fits if not pattern.match(name)] == []
    assert [name for name in not_fits if pattern.match(name)] == []


@pytest.mark.parametrize("glob", ["[", "[a", "{a", "a}", "a\\", "[b-a]"])
def test_malformed_globs_say_what_is_wrong(glob: str) -> None:
    with pytest.raises(GlobError):
        translate(glob)


def test_the_last_rule_that_fits_decides() -> None:
    rules = Rules(["# comment", "*.log", "!keep.log", "build/", "/top", "a/b", "", "[broken"])
    assert rules.decide("x/y.log", False) is True
    assert rules.decide("x/keep.log", False) is False
    assert (rules.decide("build", True), rules.decide("build", False)) == (True, None)
    assert (rules.decide("top", False), rules.decide("x/top", False)) == (True, None)
    assert (rules.decide("a/b", False), rules.decide("x/a/b", False)) == (True, None)


def _lay(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")


def test_gitignore_counts_only_inside_a_repository(tmp_path: Path) -> None:
    _lay(tmp_path, {".gitignore": "*.log\n", "a.log": "", "a.txt": ""})
    assert list(walk(str(tmp_path), Glob(None), hidden=False)) == ["a.log", "a.txt"]
    (tmp_path / ".git").mkdir()
    assert list(walk(str(tmp_path), Glob(None), hidden=False)) == ["a.txt"]


def test_a_glob_overrules_hidden_and_ignored_but_never_shows_git(tmp_path: Path) -> None:
    _lay(
        tmp_path,
        dict.fromkeys(["skip/a.md", "b.md", ".c.md", ".git/d.md", ".h/e.md"], "") | {".ignore": "skip/\n*.md\n"},
    )
    assert list(walk(str(tmp_path), Glob("*.md"), hidden=False)) == [".c.md", "b.md"]
    assert list(walk(str(tmp_path), Glob("*.md"), hidden=True)) == [".c.md", ".h/e.md", "b.md"]
    assert list(walk(str(tmp_path), Glob("*"), hidden=False)) == [".c.md", ".h/e.md", ".ignore", "b.md", "skip/a.md"]


def test_ignore_files_above_and_below_the_searched_folder_count(tmp_path: Path) -> None:
    _lay(tmp_path, {".ignore": "x\n", "in/.ignore": "!x\ny\n", "in/x": "", "in/y": "", "in/z": "", "x": ""})
    assert list(walk(str(tmp_path), Glob(None), hidden=False)) == ["in/x", "in/z"]
    assert list(walk(str(tmp_path / "in"), Glob(None), hidden=False)) == ["x", "z"]


def test_links_and_special_files_are_passed_over_and_names_sorted(tmp_path: Path) -> None:
    _lay(tmp_path, {"b/z": "", "b/a": "", "a": "", "é": "", "c c": ""})
    (tmp_path / "link").symlink_to("b")
    os.mkfifo(tmp_path / "pipe")
    assert list(walk(str(tmp_path), Glob(None), hidden=False)) == ["a", "b/a", "b/z", "c c", "é"]
