"""The tutorial, walked: every command of docs/tutorial.md is run in its order in an empty folder, every file is written
as the page says, and what comes back is what the page shows. It is the whole way of a pack of one's own: scaffolded,
installed, checked, its own tests run, evaluated under both harnesses, and trained on for two steps."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import docs_pages as pages
import pytest

PAGE = pages.ROOT / "docs" / "tutorial.md"

#: What installs envkit itself, which is there already.
_INSTALLS = "make .venv-torch/.installed"
_PART = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1\s*$|^(?!`{3})([^\n]+)$", re.M | re.S)

#: `pip install -e PACK` of the page, into a folder that only this walk sees, with the package's files linked to it.
_PIP = """#!/bin/bash
set -e
[ "$1 $2" = "install -e" ]
"{python}" -m pip install -q --no-deps --no-build-isolation --target "{site}" "$3"
rm -rf "{site}/acme" && ln -s "$PWD/$3/src/acme" "{site}/acme"
"""


class Walk:
    """A newcomer's shell: a folder that is gone on from, commands on PATH, and what they said."""

    def __init__(self, home: Path) -> None:
        self.home, self.cwd = home, home
        tools, site = home / "tools", home / "site"
        tools.mkdir()
        self._tool(tools / "pip", _PIP.format(python=sys.executable, site=site))
        self._tool(tools / "envkit", f'#!/bin/bash\nexec "{sys.executable}" -m envkit.cli.main "$@"\n')
        self._tool(tools / "python", f'#!/bin/bash\nexec "{sys.executable}" "$@"\n')
        self.environment = {
            **os.environ,
            "HOME": str(home),
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(site),
            "ENVKIT": str(pages.ROOT),
            "OMP_NUM_THREADS": "1",
        }

    @staticmethod
    def _tool(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def types(self, command: str) -> tuple[int, str]:
        """One line at the prompt: its exit code, and what it said."""
        done = subprocess.run(
            ["bash", "-c", f'{command}\nrc=$?; pwd > "{self.home}/cwd"; exit $rc'],
            cwd=self.cwd, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, timeout=900,
        )  # fmt: skip
        self.cwd = Path((self.home / "cwd").read_text().strip())
        return done.returncode, done.stdout

    def follows(self, block: str) -> None:
        """A block of commands, each with the lines that the page shows below it."""
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, shown = part.partition("\n")
            code, said = self.types(command)
            assert (code != 0) == ("UNSOUND" in shown), f"$ {command}\n{said}"
            at = 0
            flat = " ".join(said.split())
            for piece in re.split(r"\.\.\.|\n", shown):
                words = " ".join(piece.split())
                found = flat.find(words, at)
                assert found >= 0, f"$ {command}\nexpected {words!r} in\n{said}"
                at = found + len(words)

    def writes(self, said: str, text: str) -> None:
        """A file that the sentence before it names."""
        name = re.findall(r"`([\w./-]+)`", said)[-1]
        assert name.endswith((".md", ".toml", ".sh")), said
        (self.cwd / name).write_text(text)


def test_the_pages_blocks_are_found() -> None:
    kinds = [match[2] for match in _PART.finditer(PAGE.read_text()) if match[1]]
    assert kinds.count("console") >= 8
    assert {"toml", "bash", "text"} <= set(kinds)


@pytest.mark.slow
@pytest.mark.tokens
@pytest.mark.timeout(1800)
def test_a_newcomer_who_types_what_the_tutorial_says_ends_with_a_trained_policy(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    sentence = ""
    for match in _PART.finditer(PAGE.read_text(encoding="utf-8")):
        if not match[1]:
            sentence = match[4]
        elif match[2] != "console":
            walk.writes(sentence, match[3])
        elif _INSTALLS not in match[3]:
            walk.follows(match[3])
    code, said = walk.types("python -m pytest -q -p no:cacheprovider acme/tests")
    assert code == 0, said
    runs = walk.cwd / "runs"
    archipelago = [json.loads(line) for line in (runs / "second" / "results.jsonl").read_text().splitlines()]
    assert [trial["reward"] for trial in archipelago] == [1.0, 1.0, 1.0]
    lines = [json.loads(line) for line in (runs / "trained" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == [1, 2]
