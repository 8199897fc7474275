"""The parts of the `mcp` SDK that a server over stdio needs, without the rest.

`import mcp` loads the clients, FastMCP, the HTTP transports and their web stack: a second and 40 MiB per process, none
of which a server over stdio uses. The packages' `__init__` modules only collect names, so they are put in place empty
and the few modules are imported from below them; of httpx the SDK's session needs one number, of jsonschema nothing,
since arguments are validated by the tools' own models. In a process that imported the SDK already nothing is changed.
Must run before anything else imports `mcp`, and only in a process that is a server and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from pydantic import ConfigDict

__all__ = ["deferred", "restore", "slim", "undo"]

_PACKAGES = ("mcp", "mcp.server", "mcp.server.lowlevel", "mcp.server.experimental", "mcp.shared")


def slim() -> None:
    """Puts the empty packages in place. Does nothing where `mcp` is imported already or is laid out differently."""
    if "mcp" in sys.modules:
        return
    spec = find_spec("mcp")
    if spec is None or not spec.submodule_search_locations:
        return  # its absence is said better by the import that follows
    root = next(iter(spec.submodule_search_locations))
    for name in _PACKAGES:
        folder = os.path.join(root, *name.split(".")[1:])
        if not os.path.isdir(folder):
            return
    for name in _PACKAGES:
        _place(name, __path__=[os.path.join(root, *name.split(".")[1:])])
    if "httpx" not in sys.modules:

        class Codes:
            REQUEST_TIMEOUT = 408

        _place("httpx", codes=Codes)
    if "jsonschema" not in sys.modules:

        class ValidationError(Exception):
            message = ""

        _place("jsonschema", ValidationError=ValidationError, validate=_refuse)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Models declared meanwhile build their validators at first use: a server needs few of the SDK's 200 types."""
    from pydantic import BaseModel

    before = BaseModel.model_config
    BaseModel.model_config = ConfigDict(**{**before, "defer_build": True})
    try:
        yield
    finally:
        BaseModel.model_config = before


def _place(name: str, **content: Any) -> None:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None, is_package="__path__" in content)
    module.__dict__.update(content)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)


def _refuse(*_: Any, **__: Any) -> None:
    raise RuntimeError("this server validates by the tools' own models, not by JSON schema")


def restore() -> None:
    """Takes the stand-ins for other libraries away again (the empty SDK packages stay), so that handlers that want
    the real ones get them. Called once the SDK's modules are loaded."""
    for name in ("httpx", "jsonschema"):
        if getattr(sys.modules.get(name), "__file__", None) is None:
            sys.modules.pop(name, None)


def undo() -> None:
    """Forgets all of it, where an SDK turns out to need more than it is given: what is imported next is whole."""
    restore()
    for name in [name for name in sys.modules if name == "mcp" or name.startswith("mcp.")]:
        del sys.modules[name]
