"""The README's examples name things that exist. (Its commands and links are tried in tests/docs.)"""

from __future__ import annotations

import re
from pathlib import Path

from envkit.registry import expand

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()


def test_every_task_it_names_exists() -> None:
    named = set(re.findall(r"office/[a-z][a-z0-9-]+", README))
    assert named
    assert named <= set(expand(["office/*"]))


def test_every_make_target_it_names_exists() -> None:
    makefile = (Path(__file__).resolve().parent.parent / "Makefile").read_text()
    for target in set(re.findall(r"make ([a-z-]+)", README)):
        assert re.search(rf"^{target}:", makefile, re.M), target
