"""What a plan's trials need loaded before the first one is forked: asked by executors, and by whoever forks alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envkit import plugins, registry
from envkit.pack import TaskPack
from envkit.plugins import Group
from envkit.trial.result import TrialSpec

__all__ = ["preloads"]


def preloads(specs: Sequence[TrialSpec]) -> dict[str, Any]:
    """The `ForkServer` arguments that say what these trials need loaded."""
    return {
        "plugins": _plugins_of(specs),
        "packs": _packs_of(specs),
        "calls": _preload_calls(specs),
        "tasks": _first_of_each_pack(specs),
    }


def _plugins_of(specs: Sequence[TrialSpec]) -> list[tuple[Group, str]]:
    """What the plan needs loaded, each once."""
    wanted: dict[tuple[Group, str], None] = {}
    for spec in specs:
        wanted["harnesses", spec.harness.name] = None
        wanted["sandboxes", spec.sandbox.name] = None
        wanted["policies", spec.policy.name] = None
        pack = spec.task.partition("/")[0]
        if pack in plugins.names("tasks"):
            wanted["tasks", pack] = None
    for name in plugins.names("verifiers"):
        wanted["verifiers", name] = None
    return list(wanted)


def _packs_of(specs: Sequence[TrialSpec]) -> list[TaskPack]:
    """Packs that this process registered by hand and the plan uses; a fresh interpreter would not know them."""
    names = {spec.task.partition("/")[0] for spec in specs}
    return [pack for name, pack in registry._registered.items() if name in names]


def _preload_calls(specs: Sequence[TrialSpec]) -> list[str | tuple[Any, ...]]:
    """Calls that load what these trials' sandboxes and policies need."""
    calls: dict[str, str | tuple[Any, ...]] = {}
    office = {spec.sandbox.options.get("office", True) for spec in specs if spec.sandbox.name == "local"}
    if office:
        calls["local"] = "envkit.trial.warm:local" if True in office else "envkit.trial.warm:local_without_office"
    for spec in specs:
        options = spec.policy.options
        if spec.policy.name == "token" and options.get("tokenizer"):
            wanted = (options["tokenizer"], options.get("renderer", "auto"), options.get("renderer_options") or {})
            calls[repr(wanted)] = ("envkit.trial.warm:renderer", *wanted)
    return list(calls.values())


def _first_of_each_pack(specs: Sequence[TrialSpec]) -> list[str]:
    """One task of each pack (of each folder, for tasks given by path)."""
    return list({spec.task.rpartition("/")[0]: spec.task for spec in reversed(specs)}.values())
