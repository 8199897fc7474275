"""The viewer: a local web page over run folders, and what it reads from them.

`serve` runs it; `create_app` gives the application for whoever has a server. It only ever reads: nothing in a run
folder is changed. `index` knows a run's trials, `record` one trial, `conversation` what was said, `tokens` what was
sampled, `files` what was changed (read by a `worker` process, since files are an agent's). Used by `envkit view`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envkit.view.app import create_app
    from envkit.view.find import find_runs
    from envkit.view.server import serve

__all__ = ["create_app", "find_runs", "serve"]

_WHERE = {"create_app": "app", "find_runs": "find", "serve": "server"}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'envkit.view' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"envkit.view.{_WHERE[name]}"), name)
