"""What a forked trial would otherwise find out anew: called once in the fork server, before the first fork.

Everything here fills caches of the process (where bubblewrap is, the compiled supervisor, the office runtime, a pack's
modules), so that trials inherit them. On a machine's first run it also builds what is missing, once instead of in every
trial at the same time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from envkit import registry
from envkit.failure import UserError

__all__ = ["local", "local_without_office", "renderer", "tasks"]


def local() -> None:
    """The `local` sandbox. Raises `CapabilityError` where it can't be used, with the remedy."""
    _local(office=True)


def local_without_office() -> None:
    """The `local` sandbox without the office packages."""
    _local(office=False)


def _local(*, office: bool) -> None:
    from envkit.sandbox import bundle, bwrap
    from envkit.sandbox.local import LocalProvider

    provider = LocalProvider(office=office)
    provider.capabilities()
    interpreter, _ = provider.inside()
    bwrap.find(os.geteuid() == 0)
    bundle.compiled(interpreter.path)


def renderer(tokenizer: str, name: str, options: Mapping[str, Any]) -> None:
    """A token policy's tokenizer and renderer: seconds to load, and shared by all trials from here on. Torch, which
    `transformers` would load where it is installed, can't be forked and is not needed to write and read ids; so it is
    out of sight meanwhile. What can't be loaded is the fault of its own trials and of nothing here."""
    from envkit.tokens.render import shared_renderer

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    hidden = "torch" not in sys.modules
    if hidden:
        sys.modules["torch"] = None  # type: ignore[assignment]  # how the import system spells "not there"
    try:
        shared_renderer(tokenizer, name, options)
    except UserError as error:
        print(f"left out: {error}", file=sys.stderr)
    finally:
        if hidden:
            del sys.modules["torch"]


def tasks(references: Iterable[str]) -> None:
    """Reads these tasks, which loads all that reading a task and building its world needs. A task that can't be read
    is the fault of its own trials and of nothing here."""
    for reference in references:
        try:
            pack, task = registry.find(reference)
            pack.world(task)
        except UserError:
            continue
