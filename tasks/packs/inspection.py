"""What `envkit pack check` says of a pack without running a trial: does every task load, is there a licence, is
anything too large, is there a secret in it. Reads files as they are; a world is built, as a trial would build it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from envkit import registry
from envkit.failure import EnvkitError
from envkit.pack import TaskPack
from envkit.task import Task

__all__ = ["Finding", "Limits", "inspect_tasks", "licence_of", "secrets_in"]

_LICENCES = re.compile(r"(?i)^(licen[cs]e|copying|notice)([.-].*)?$")

#: What keys of well-known services look like. Each is long and regular enough not to be met by chance.
SECRETS: dict[str, re.Pattern[bytes]] = {
    "private key": re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----"),
    "AWS access key": re.compile(rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "OpenAI or Anthropic key": re.compile(rb"\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{24,}"),
    "GitHub token": re.compile(rb"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})"),
    "Hugging Face token": re.compile(rb"\bhf_[A-Za-z0-9]{30,}\b"),
    "Slack token": re.compile(rb"\bxox[abprs]-[A-Za-z0-9-]{20,}"),
    "Google API key": re.compile(rb"\bAIza[0-9A-Za-z_-]{35}\b"),
    "JSON web token": re.compile(rb"\beyJ[A-Za-z0-9_-]{20,}\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}"),
}
_CHUNK, _OVERLAP = 1 << 20, 512


class Limits(BaseModel):
    """Sizes beyond which a pack is told to be too large, in MiB."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file_mb: float = 100.0
    task_mb: float = 50.0
    world_mb: float = 2048.0


class Finding(BaseModel):
    """One fault: `what` is `load`, `licence`, `size`, `secret` or `world`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    what: str
    text: str


def inspect_tasks(ids: Sequence[str], limits: Limits | None = None) -> list[Finding]:
    """Looks at every task; a world that several share is looked at once."""
    allowed = limits or Limits()
    found: list[Finding] = []
    worlds: set[Path] = set()
    licences: dict[str, bool] = {}
    for id in ids:
        try:
            pack, task = registry.find(id)
        except (EnvkitError, OSError) as error:
            found.append(Finding(task=id, what="load", text=str(error)))
            continue
        found += [Finding(task=id, what=what, text=text) for what, text in _tree(task.dir, allowed.task_mb, allowed)]
        if not task.config.metadata.model_extra or "licence" not in task.config.metadata.model_extra:
            key = f"{type(pack).__module__}:{pack.name}"
            if key not in licences:
                licences[key] = licence_of(pack, task) is not None
                if not licences[key]:
                    text = "no LICENSE beside the pack or in its package, and none in [metadata] licence of the task"
                    found.append(Finding(task=id, what="licence", text=text))
        try:
            world = pack.world(task)
        except (EnvkitError, OSError) as error:
            found.append(Finding(task=id, what="world", text=str(error)))
            continue
        if world is not None and world not in worlds:
            worlds.add(world)
            found += [Finding(task=id, what=what, text=f"world: {text}") for what, text in _tree(
                world, allowed.world_mb, allowed
            )]  # fmt: skip
    return found


def licence_of(pack: TaskPack, task: Task) -> Path | str | None:
    """Where the pack's licence is: a file beside its tasks or up to three folders above (of a checkout), or in the
    metadata of the package that brings it."""
    place = Path(getattr(pack, "path", task.dir.parent))
    if place.is_file():  # a file of questions
        place = place.parent
    for folder in [place, *list(Path(place).parents)[:3]]:
        for name in sorted(os.listdir(folder)):
            if _LICENCES.match(name) and (folder / name).is_file():
                return Path(folder, name)
        if (folder / "pyproject.toml").is_file():
            break
    from importlib.metadata import PackageNotFoundError, metadata, packages_distributions

    top = type(pack).__module__.partition(".")[0]
    for distribution in packages_distributions().get(top, []):
        if top == "envkit" and type(pack).__name__ in ("DirectoryPack", "QuestionPack"):
            continue  # our class, but somebody else's tasks
        try:
            about = metadata(distribution)
        except PackageNotFoundError:
            continue
        for key in ("License-Expression", "License", "License-File"):
            if key in about:
                return str(about[key])
    return None


def secrets_in(path: Path) -> Iterator[str]:
    """The kinds of secret that a file holds."""
    left = dict(SECRETS)
    tail = b""
    with path.open("rb") as stream:
        while left and (block := stream.read(_CHUNK)):
            window = tail + block
            for kind in [kind for kind, pattern in left.items() if pattern.search(window)]:
                del left[kind]
                yield kind
            tail = window[-_OVERLAP:]


def _tree(root: Path, total_mb: float, limits: Limits) -> Iterator[tuple[str, str]]:
    total = 0
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            shown = path.relative_to(root).as_posix()
            try:
                size = path.stat().st_size
                total += size
                if size > limits.file_mb * 2**20:
                    yield "size", f"{shown} has {size / 2**20:.1f} MiB, more than {limits.file_mb:g}"
                for kind in secrets_in(path):
                    yield "secret", f"{shown} holds what looks like a {kind}"
            except OSError as error:
                yield "load", f"{shown} can't be read: {error.strerror}"
    if total > total_mb * 2**20:
        yield "size", f"{total / 2**20:.1f} MiB in all, more than {total_mb:g}"
