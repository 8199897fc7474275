"""Walking and searching against ripgrep itself, on random trees, ignore files, globs and expressions."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from envkit.harnesses.opencode.inside.globs import GlobError
from envkit.harnesses.opencode.inside.rust_regex import RegexError, translate
from envkit.harnesses.opencode.inside.walking import Glob, walk

pytestmark = [pytest.mark.opencode, pytest.mark.timeout(300)]

NAMES = ["a", "b.txt", "c.md", ".h", "sub", "deep", "x.log", "é.txt", "a b", "[z]", "node", ".git2"]
PARTS = [
    *("*", "**", "?", "a", "b.txt", "*.txt", "*.md", "sub", "deep", ".h", "{a,b}*", "[a-c]*", "[!a]*", "x*"),
    *("*.{txt,md}", "**.txt", "é*", "a b", "\\[z]", "{sub,deep}", "{*.txt,**/c.md}", "[a", "}", "{", "#x", "a**b"),
    *("**a", "sub**", "{**/a,b}", "*{,.txt}"),
]
TEXT = """hello world
Hello World 42
foo_bar(baz)
  indented\tline

x=1; y=2.5 $3.00
é naïve Ünïcode Größe
日本語 text
[bracket] {brace} (paren)
a+b*c?d^e$f|g\\h
TODO: fix this -- now
e-mail: a.b@c.de
"""
ATOMS = [
    *(
        "a",
        "b",
        "o",
        "l",
        "x",
        ".",
        "\\d",
        "\\w",
        "\\s",
        "\\S",
        "\\W",
        "\\D",
        "[a-z]",
        "[^a-z]",
        "\\bfoo",
        "\\b",
        "^",
        "$",
    ),
    *(
        "é",
        "日",
        "\\p{L}",
        "\\p{Lu}",
        "\\P{L}",
        "[[:alpha:]]",
        "[[:^digit:]]",
        "[\\w.]",
        "[a-z&&[^aeiou]]",
        "\\.",
        "\\$",
    ),
    *(
        "[a-z--[b-d]]",
        "[a[bc]d]",
        "\\{",
        "(?i)h",
        "(?i:TODO)",
        "(a|b)",
        "(?:o|l)",
        "\\x41",
        "\\u0041",
        "\\x{e9}",
        "-",
        "/",
    ),
    *("\\t", "[^\\W]", "[\\D]", "[]a]", "[^]]", "[a-]", "\\<", "\\>", "\\b{start}", "\\pL", "[[:upper:]\\d]", "\\-"),
    *("(?s).", "(?-u:\\w)", "{", "}", "]", "[", "(", ")", "|", "\\h", "\\1", "(?=a)", "[&&a]", "[a~~b]", "(?x) a b"),
]
REPEATS = ["*", "+", "?", "{2}", "{1,}", "{1,3}", "*?", "+?", "{2,1}", "{,2}", "++", "**", "{"]


def _glob(chance: random.Random, negated: float = 0.1) -> str:
    glob = "/".join(chance.choice(PARTS) for _ in range(chance.choice([1, 1, 1, 2, 2, 3])))
    glob = ("/" if chance.random() < 0.15 else "") + glob + chance.choice(["", "", "", "", "/", "/**", "  "])
    return ("!" if chance.random() < negated else "") + glob


def _grow(chance: random.Random, folder: Path, depth: int = 0) -> None:
    for name in chance.sample(NAMES, chance.randint(1, 6)):
        if chance.random() < 0.4 and depth < 3:
            (folder / name).mkdir()
            _grow(chance, folder / name, depth + 1)
        else:
            (folder / name).write_text("TODO\n")
    if chance.random() < 0.5:
        lines = [_glob(chance, 0.25) for _ in range(chance.randint(1, 4))]
        (folder / chance.choice([".gitignore", ".ignore", ".rgignore"])).write_text("\n".join(lines) + "\n")
    if chance.random() < 0.15:
        (folder / ".git").mkdir()
        (folder / ".git" / "config").write_text("")


@pytest.mark.parametrize("seed", range(12))
def test_the_same_files_are_seen(real_opencode: Any, work_folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    _grow(chance, work_folder)
    folders = [work_folder, *(path for path in work_folder.iterdir() if path.is_dir())]
    for _ in range(12):
        glob, hidden, root = _glob(chance), chance.random() < 0.5, chance.choice(folders)
        flags = [
            "--no-config",
            "--files",
            *(["--hidden"] if hidden else []),
            f"--glob={glob}",
            "--glob=!**/.git/**",
            ".",
        ]
        told = subprocess.run(
            [real_opencode.ripgrep, *flags],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        try:
            ours = list(walk(str(root), Glob(glob), hidden))
        except GlobError:
            ours = []
        assert sorted(ours) == sorted(line[2:] for line in told.stdout.splitlines()), (glob, hidden, root)


@pytest.mark.parametrize("seed", range(8))
def test_the_same_lines_are_found_and_the_same_expressions_refused(
    real_opencode: Any, work_folder: Path, seed: int
) -> None:
    chance = random.Random(seed)
    (work_folder / "t.txt").write_text(TEXT, encoding="utf-8")
    for _ in range(40):
        pattern = "".join(
            chance.choice(ATOMS) + (chance.choice(REPEATS) if chance.random() < 0.25 else "")
            for _ in range(chance.randint(1, 4))
        )
        flags = ["--no-config", "-n", "--no-messages", "--no-heading", "--color=never", "--", pattern, "t.txt"]
        told = subprocess.run(
            [real_opencode.ripgrep, *flags], cwd=work_folder, capture_output=True, text=True, check=False
        )
        theirs = None if told.returncode == 2 else [int(line.split(":")[0]) for line in told.stdout.splitlines()]
        try:
            expression = translate(pattern)
            ours = [n for n, line in enumerate(TEXT.splitlines(), 1) if expression.search(line)]
        except RegexError:
            ours = None
        assert ours == theirs, (pattern, told.stderr)
