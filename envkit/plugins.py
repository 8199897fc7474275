"""Plug-ins by name: implementations of the protocols, found through entry points, ours and third parties' alike."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from envkit.failure import UserError, did_you_mean

__all__ = ["Group", "construct", "names", "resolve"]

Group = Literal[
    "harnesses", "verifiers", "tasks", "backends", "sandboxes", "policies", "commands", "executors", "sources"
]

_SINGULAR = {
    "harnesses": "harness",
    "verifiers": "verifier",
    "tasks": "task pack",
    "backends": "backend",
    "sandboxes": "sandbox",
    "policies": "policy",
    "commands": "command",
    "executors": "executor",
    "sources": "task source",
}


@cache
def _found(group: Group) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"envkit.{group}")}


def names(group: Group) -> tuple[str, ...]:
    """The registered names of a group, sorted; loads nothing."""
    return tuple(sorted(_found(group)))


def resolve(group: Group, name: str) -> Any:
    """Loads the implementation registered under `name`, or given as `module:attribute`.

    Raises:
        UserError: Nothing is registered under the name, or it can't be imported; the message says what is there.
    """
    kind, colon, rest = name.partition(":")
    if colon and kind in _found(group):  # one of many that an implementation has itself: `harbor:docker`
        named = getattr(resolve(group, kind), "named", None)
        if named is None:
            raise UserError(f"{_SINGULAR[group]} {kind!r} is one, without names behind it; found {name!r}")
        return partial(named, rest)
    if colon:
        point = EntryPoint(name=name, value=name, group=f"envkit.{group}")
    else:
        found = _found(group).get(name)
        if found is None:
            known = names(group)
            raise UserError(
                f"no {_SINGULAR[group]} named {name!r}{did_you_mean(name, known)}; "
                f"registered: {', '.join(known) or 'none'}. Others can be given as 'module:Class'."
            )
        point = found
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"{_SINGULAR[group]} {name!r} is registered as {point.value!r} but can't be loaded: {error}"
        ) from error


def construct(group: Group, name: str, options: Mapping[str, Any] | None = None) -> Any:
    """Resolves `name` and constructs it with `options` as keyword arguments.

    Raises:
        UserError: Unknown name, or options it does not take; names the nearest known option.
    """
    from pydantic import ValidationError

    made = resolve(group, name)
    try:
        return made(**dict(options or {}))
    except ValidationError as error:
        raise UserError(f"{_SINGULAR[group]} {name!r} refuses its options: {error}") from error
    except TypeError as error:
        raise UserError(f"{_SINGULAR[group]} {name!r} refuses its options {sorted(options or {})}: {error}") from error
