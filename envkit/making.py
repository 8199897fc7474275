"""`make_async`: the asynchronous env of a task, by names.

Finds the task, constructs harness and sandbox provider from what is registered, and refuses options that do not exist.
`envkit.make` puts the synchronous face on it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from envkit import plugins, registry
from envkit.env import AsyncEnv
from envkit.failure import UserError, did_you_mean
from envkit.harness import Harness
from envkit.sandbox.base import SandboxProvider

__all__ = ["make_async"]

#: Arguments of `AsyncEnv` that `make_async` finds itself.
_OF_MAKE = ("task", "pack", "harness", "provider")


def make_async(
    id: str,
    *,
    harness: str | Harness = "opencode",
    sandbox: str | SandboxProvider = "local",
    harness_options: Mapping[str, Any] | None = None,
    sandbox_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncEnv:
    """Makes the asynchronous env of a task, starting nothing.

    Args:
        id: `pack/task[@version]`, or the path of a Harbor task directory.
        harness, sandbox: Registered names, or instances.
        harness_options, sandbox_options: Keyword arguments for those given by name.
        options: Further arguments of `AsyncEnv`.

    Raises:
        UserError: Unknown id, harness, sandbox or option, naming the nearest known one.
    """
    known = [name for name in inspect.signature(AsyncEnv).parameters if name not in _OF_MAKE]
    for name in options:
        if name not in known:
            raise UserError(
                f"no option {name!r}{did_you_mean(name, known)}; there are harness, sandbox, harness_options, "
                f"sandbox_options, {', '.join(known)}"
            )
    for name, value in (("harness_options", harness_options), ("sandbox_options", sandbox_options)):
        if not isinstance(value, Mapping | None):
            raise UserError(f"{name} is a dict of options, found {value!r}")
    pack, task = registry.find(id)
    acts: Harness = plugins.construct("harnesses", harness, harness_options) if isinstance(harness, str) else harness
    where: SandboxProvider = (
        plugins.construct("sandboxes", sandbox, sandbox_options) if isinstance(sandbox, str) else sandbox
    )
    return AsyncEnv(task, pack=pack, harness=acts, provider=where, **options)
