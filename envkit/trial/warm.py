"""What a forked trial would otherwise find out anew: called once in the fork server, before the first fork.

Everything here fills caches of the process (where bubblewrap is, the compiled supervisor, the office runtime, a pack's
modules), so that trials inherit them. On a machine's first run it also builds what is missing, once instead of in every
trial at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from envkit import registry
from envkit.failure import UserError

__all__ = ["local", "local_without_office", "tasks"]


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


def tasks(references: Iterable[str]) -> None:
    """Reads these tasks, which loads all that reading a task and building its world needs. A task that can't be read
    is the fault of its own trials and of nothing here."""
    for reference in references:
        try:
            pack, task = registry.find(reference)
            pack.world(task)
        except UserError:
            continue
