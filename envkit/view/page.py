"""The viewer's page and its assets, read once: the first answer has all that is needed before anything is painted.

Styles and the script that begins (`start.js`) stand in the page itself, and so does the list of runs, as data: from
this one answer the browser asks for the scripts of its view and for that view's data side by side. The policy names
what stands in the page by its hash, so that nothing else in it is ever run. Used by `app`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import mimetypes
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any
from urllib.parse import quote

from envkit.view.guard import policy

__all__ = ["Assets"]

_STYLES = ("base.css", "views.css")
_START = "start.js"


class Assets:
    """The files of `assets/`, and the page made of them.

    Args:
        runs: What the page knows of the runs from the start (`key`, `name`, `path`).
        version: envkit's.
    """

    def __init__(self, runs: Sequence[Mapping[str, Any]], version: str) -> None:
        self._files: dict[str, tuple[bytes, str]] = {}
        for entry in (resources.files("envkit.view") / "assets").iterdir():
            if entry.is_file():
                kind = "text/javascript" if entry.name.endswith(".js") else mimetypes.guess_type(entry.name)[0]
                self._files[entry.name] = (entry.read_bytes(), kind or "application/octet-stream")
        style = "".join(self._text(name) for name in _STYLES)
        start = self._text(_START)
        icon = f"data:image/svg+xml,{quote(self._text('icon.svg'))}"
        # As ASCII without `<`: a folder's name can't end the element that it stands in.
        given = json.dumps({"version": version, "runs": list(runs)}, separators=(",", ":")).replace("<", "\\u003c")
        parts = {"STYLE": style, "ICON": icon, "GIVEN": given, "START": start}
        before, *rest = self._text("index.html").split("{{")
        pieces = [before]
        for piece in rest:
            name, _, after = piece.partition("}}")
            pieces += [parts[name], after]
        #: The page, and the policy that lets its own style and script be.
        self.page = "".join(pieces).encode()
        self.policy = policy(scripts=(_hash(start),), styles=(_hash(style),))

    def _text(self, name: str) -> str:
        return self._files[name][0].decode()

    def get(self, name: str) -> tuple[bytes, str] | None:
        """A file and its media type; None for a name that is none of ours."""
        return self._files.get(name)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
