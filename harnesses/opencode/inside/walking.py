"""Walking a tree as ripgrep does: which files a search sees.

Hidden files, ignore files (.gitignore inside a git repository, .ignore and .rgignore anywhere, from the searched folder
and the ones above it) and one glob of the caller's, which overrules both. Symbolic links are not followed, special
files are skipped. Files come in sorted order, folder by folder, so that a result cut at a limit is the same every time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from .globs import Rule, Rules, parse_rule

_MAX_IGNORE_BYTES = 1 << 20


class _Level(NamedTuple):
    """A folder on the way down and what its ignore files say."""

    folder: str  # absolute
    special: Rules  # .rgignore
    plain: Rules  # .ignore
    git: Rules  # .gitignore
    exclude: Rules  # .git/info/exclude
    is_repository: bool


class Glob:
    """The caller's glob: what fits is taken even if ignored or hidden; other files are left out.

    Raises `GlobError` at construction.
    """

    def __init__(self, glob: str | None) -> None:
        lines = [] if glob is None else [glob]
        self._rules: list[Rule] = [rule for rule in map(parse_rule, [*lines, "!**/.git/**"]) if rule]
        self._picks = any(not rule.negated for rule in self._rules)

    def decide(self, path: str, is_folder: bool) -> bool | None:
        """True: leave it out. False: take it. None: it is for hidden and ignored files to decide."""
        for rule in reversed(self._rules):
            if (is_folder or not rule.folders_only) and rule.pattern.match(path):
                return rule.negated
        return True if self._picks and not is_folder else None


def _rules_of(path: str) -> Rules:
    try:
        with open(path, "rb") as stream:
            data = stream.read(_MAX_IGNORE_BYTES)
    except OSError:
        return Rules(())
    return Rules(data.decode("utf-8-sig", "surrogateescape").split("\n"))


def _level(folder: str, names: list[str] | None = None) -> _Level:
    def there(name: str) -> bool:
        return names is None or name in names

    git = os.path.join(folder, ".git")
    is_repository = there(".git") and os.path.exists(git)
    nothing = Rules(())
    return _Level(
        folder,
        _rules_of(os.path.join(folder, ".rgignore")) if there(".rgignore") else nothing,
        _rules_of(os.path.join(folder, ".ignore")) if there(".ignore") else nothing,
        _rules_of(os.path.join(folder, ".gitignore")) if there(".gitignore") else nothing,
        _rules_of(os.path.join(git, "info", "exclude")) if is_repository else nothing,
        is_repository,
    )


class _Ignores:
    """The levels from the top of the file system down to one folder."""

    def __init__(self, levels: tuple[_Level, ...]) -> None:
        self._levels = levels
        self._in_repository = any(level.is_repository for level in levels)
        self._any = any(level.special or level.plain or level.git or level.exclude for level in levels)

    def below(self, level: _Level) -> _Ignores:
        return _Ignores((*self._levels, level))

    def decide(self, path: str, is_folder: bool) -> bool | None:
        if not self._any:
            return None
        special = plain = git = exclude = None
        left_repository = False
        for level in reversed(self._levels):  # the nearest folder first
            relative = os.path.relpath(path, level.folder)
            if special is None:
                special = level.special.decide(relative, is_folder)
            if plain is None:
                plain = level.plain.decide(relative, is_folder)
            if self._in_repository and not left_repository:
                if git is None:
                    git = level.git.decide(relative, is_folder)
                if exclude is None:
                    exclude = level.exclude.decide(relative, is_folder)
            left_repository = left_repository or level.is_repository
        for decision in (special, plain, git, exclude):
            if decision is not None:
                return decision
        return None


def walk(root: str, glob: Glob, hidden: bool) -> Iterator[str]:
    """The files below `root`, relative to it, sorted. `hidden` takes in names that begin with a dot."""
    levels = []
    above = os.path.dirname(os.path.realpath(root))
    while True:
        levels.append(_level(above))
        if os.path.dirname(above) == above:
            break
        above = os.path.dirname(above)
    real = os.path.realpath(root)
    stack = [(iter(_entries(real)), "", _Ignores(tuple(reversed(levels))).below(_level(real)))]
    while stack:
        entries, folder, ignores = stack[-1]
        step = next(entries, None)
        if step is None:
            stack.pop()
            continue
        name, is_folder = step
        relative = folder + name
        path = os.path.join(real, relative)
        left_out = glob.decide(relative, is_folder)
        if left_out is None:
            left_out = ignores.decide(path, is_folder)
            if left_out is None:
                left_out = not hidden and name.startswith(".")
        if left_out:
            continue
        if is_folder:
            inner = _entries(path)
            below = ignores.below(_level(path, [n for n, _ in inner]))
            stack.append((iter(inner), relative + "/", below))
        else:
            yield relative


def _entries(folder: str) -> list[tuple[str, bool]]:
    """The files and folders of a folder, sorted; what can't be listed is empty."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        found.append((entry.name, True))
                    elif entry.is_file(follow_symlinks=False):
                        found.append((entry.name, False))
                except OSError:
                    continue
    except OSError:
        return []
    return sorted(found)
