"""The pages of the documentation, with their examples."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^(`{3,})(\w*)[^\n]*\n(.*?)^\1`*\s*$", re.M | re.S)


def blocks(page: Path, *languages: str) -> list[str]:
    """The fenced examples of a page in these languages; "" for those that name none."""
    return [code for _, language, code in _FENCE.findall(page.read_text(encoding="utf-8")) if language in languages]


def prose(page: Path) -> str:
    """A page without its fenced examples."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))
