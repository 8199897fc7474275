"""What pages say about the repository is there: files, modules, names, and the links of the README.

Sphinx and MyST check links and anchors between pages; this checks what they don't see: a path of the repository in a
code span (`envkit/sandbox/base.py`), a dotted name (`envkit.failure.RETRIES`), what an example imports, and links of
README.md, which is no page of the site. External addresses are not fetched.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

from source import WINGS, Source

__all__ = ["links_of", "problems_of"]

_FENCE = re.compile(r"^(`{3,})(\w*)[^\n]*\n(.*?)^\1`*\s*$", re.M | re.S)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_DOTTED = re.compile(r"^envkit(\.[A-Za-z_]\w*)+(\(.*\))?$")
_LINK = re.compile(r"\]\(([^)\s]+)\)")

#: Folders whose paths are the repository's own wherever a page names them. (`tests/test.sh` is a task's.)
_FOLDERS = ("envkit", *WINGS, "benchmarks", "examples", "docs", ".ci")
_TESTS = ("envkit", *WINGS, "examples", "docs")
#: Begins like a path or a name of ours and is none: an image, keys of MCP's `_meta`, labels of containers.
_OTHER = ("envkit/office", "envkit/timeout_s", "envkit/kind", "envkit/trace", "envkit.run", "envkit.owner_pid")


def problems_of(text: str, source: Source) -> Iterator[str]:
    """What a page's code spans and examples name and is not there."""
    groups = _entry_point_groups(source.root)
    for _, language, code in _FENCE.findall(text):
        if language == "python":
            yield from _imports(code, source)
    for span in _SPAN.findall(_FENCE.sub("", text)):
        if span in _OTHER:
            continue
        if _DOTTED.match(span):
            name = span.partition("(")[0]
            if name not in groups and source.find(name) is None and source.path(name) is None:
                yield f"`{span}`: there is no such module or name"
        elif _is_path(span) and not (source.root / re.sub(r"[:#].*$", "", span)).exists():
            yield f"`{span}`: there is no such file in the repository"


def links_of(readme: Path, pages: Mapping[str, Container[str]]) -> Iterator[str]:
    """Links of a Markdown file outside the site that lead nowhere. `pages` has the anchors of each page by its path
    in the repository."""
    for link in _LINK.findall(_FENCE.sub("", readme.read_text(encoding="utf-8"))):
        if "://" in link or link.startswith(("#", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        if not (readme.parent / path).exists():
            yield f"{link}: there is no such file"
        elif anchor and anchor not in pages.get(path, ()):
            yield f"{link}: the page has no such heading"


def _is_path(span: str) -> bool:
    if not re.fullmatch(r"[\w./:#-]+", span) or "/" not in span:
        return False
    first, _, rest = span.partition("/")
    return first in _FOLDERS or (first == "tests" and rest.partition("/")[0] in _TESTS)


def _imports(code: str, source: Source) -> Iterator[str]:
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        yield f"an example is no Python: line {error.lineno}: {error.msg}"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "envkit":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "envkit"]
        else:
            continue
        for name in names:
            if source.find(name) is None:
                yield f"an example imports {name}, which is not there"


def _entry_point_groups(root: Path) -> set[str]:
    """Names such as `envkit.harnesses`, which are groups of plug-ins."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["entry-points"])
