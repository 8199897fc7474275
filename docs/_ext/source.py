"""Reads envkit's source without importing it: modules, their public names, and where a dotted name leads.

Every module is parsed by griffe when it is first asked for, straight from the repository's folders, so that neither
torch nor any other heavy dependency has to be there. Used by the reference and by the checks of this site.
"""

from __future__ import annotations

import logging
from pathlib import Path

import griffe

__all__ = ["WINGS", "Source"]

#: Folders that are installed below `envkit`, as setup.py has them.
WINGS = ("harnesses", "verifiers", "tasks", "backends")

# Griffe would tell of every docstring whose sections name no types; the signatures beside them do.
logging.getLogger("griffe").setLevel(logging.ERROR)


class Source:
    """The modules of the repository at `root`, by their import names."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules: dict[str, griffe.Module | None] = {}

    def path(self, module: str) -> Path | None:
        """The file of a module or package; None where there is none."""
        parts = module.split(".")
        if parts[0] != "envkit":
            return None
        base = self.root.joinpath(*parts[1:]) if parts[1:2] and parts[1] in WINGS else self.root.joinpath(*parts)
        for path in (base / "__init__.py", base.with_suffix(".py") if parts[1:] else base):
            if path.is_file():
                return path
        return None

    def module(self, name: str) -> griffe.Module | None:
        """A module as it is written; None where there is none."""
        if name not in self._modules:
            path = self.path(name)
            self._modules[name] = None if path is None else _visit(name, path)
        return self._modules[name]

    def find(self, dotted: str, seen: frozenset[str] = frozenset()) -> griffe.Object | None:
        """What a dotted name stands for, followed through imports to where it is written; None for nothing of ours."""
        parts = dotted.split(".")
        for cut in range(len(parts), 0, -1):
            module = self.module(".".join(parts[:cut]))
            if module is not None:
                return self._member(module, parts[cut:], seen | {dotted})
        return None

    def _member(self, owner: griffe.Object, names: list[str], seen: frozenset[str]) -> griffe.Object | None:
        for name in names:
            member = owner.members.get(name)
            if member is None:
                inherited = self._inherited(owner, name, seen)
                if inherited is None:
                    return None
                owner = inherited
            elif isinstance(member, griffe.Alias):
                target = None if member.target_path in seen else self.find(member.target_path, seen)
                if target is None:
                    return None
                owner = target
            else:
                owner = member
        return owner

    def _inherited(self, owner: griffe.Object, name: str, seen: frozenset[str]) -> griffe.Object | None:
        """A member that a class has from a base of ours."""
        if isinstance(owner, griffe.Class):
            for base in owner.bases:
                path = base if isinstance(base, str) else base.canonical_path
                found = self.find(f"{path}.{name}", seen | {f"{path}.{name}"})
                if found is not None:
                    return found
        return None


def _visit(name: str, path: Path) -> griffe.Module:
    return griffe.visit(
        name,
        filepath=path,
        code=path.read_text(encoding="utf-8"),
        docstring_parser="google",
        docstring_options={"returns_multiple_items": False, "returns_named_value": False},
    )
