"""The Sphinx extension of this site: navigation, generated references, and checks, as warnings that fail the build."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from checks import links_of, problems_of
from commands import commands
from navigation import with_navigation
from reference import reference
from source import Source
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

__all__ = ["setup"]

_log = logging.getLogger(__name__)
_NAMES = re.compile(r"^<!-- public names: ([\w. ]+) -->$", re.M)
_COMMANDS = "<!-- every command -->"


def _read(app: Sphinx, docname: str, content: list[str]) -> None:
    """Completes and checks a page before it is parsed."""
    source: Source = app.envkit_source  # type: ignore[attr-defined]
    text = content[0]
    for problem in problems_of(text, source):
        _log.warning(problem, location=docname)
    if docname == app.config.root_doc:
        text = with_navigation(text)
    text = text.replace(_COMMANDS, commands()) if _COMMANDS in text else text
    content[0] = _NAMES.sub(lambda match: reference(source, match[1].split()), text)


def _check(app: Sphinx, env: BuildEnvironment) -> None:
    """Checks the README, whose links lead into the site."""
    root = app.envkit_source.root  # type: ignore[attr-defined]
    pages = {
        str(Path(env.doc2path(name)).relative_to(root)): set(env.metadata[name].get("myst_slugs", {}))
        for name in env.found_docs
    }
    readme = root / "README.md"
    for problem in (*links_of(readme, pages), *problems_of(readme.read_text(encoding="utf-8"), app.envkit_source)):  # type: ignore[attr-defined]
        _log.warning("README.md: %s", problem)


def _first_page(app: Sphinx, error: Exception | None) -> None:
    """The first page is docs/README.md; web servers ask for index.html."""
    if error is None and app.builder.format == "html":
        shutil.copyfile(Path(app.outdir, "README.html"), Path(app.outdir, "index.html"))


def setup(app: Sphinx) -> dict[str, Any]:
    app.envkit_source = Source(Path(app.srcdir).parent)  # type: ignore[attr-defined]
    app.connect("source-read", _read)
    app.connect("env-check-consistency", _check)
    app.connect("build-finished", _first_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
