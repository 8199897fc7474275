"""The working folder of a task whose image keeps its work elsewhere than in `/filesystem`: `/app`, say.

Harbor runs agent and tests in one container, where the work simply stays. Here tests run in a fresh sandbox, so such a
folder is carried over like the two trees: streamed out when everything that the agent started has ended, and put into
the place of what the image has there. Which folder that is, the task says (`[environment] workdir`), or its image
(`WORKDIR`, where the provider can ask it). Used by the env, and by the verifier that runs scripts.
"""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, FailureKind
from envkit.sandbox.base import Sandbox, SandboxProvider, SandboxSpec
from envkit.task import Task

__all__ = ["count_entries", "image_workdir", "is_folder", "replace"]

#: Never a working folder of a task's: what is hidden there would be missed by every program.
_SYSTEM = frozenset(
    f"/{name}"
    for name in (
        "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "media", "mnt", "opt", "proc", "run", "sbin",
        "srv", "sys", "usr", "var",
    )
)  # fmt: skip
_CLEAR = 'for f in * .[!.]* ..?*; do if [ -e "$f" ] || [ -L "$f" ]; then rm -rf -- "./$f"; fi; done'


async def image_workdir(
    task: Task, provider: SandboxProvider, spec: SandboxSpec, overrides: Mapping[str, Any]
) -> SandboxSpec:
    """The spec with the working folder of the task's image, where nobody states another one. The image is pulled or
    built. For tasks without a world: one that envkit lays out is worked on in `/filesystem`, whatever the image says.

    Raises:
        EnvkitError: It can't be.
    """
    ask = getattr(provider, "workdir_of", None)
    stated = task.steps[0].environment.workdir or "workdir" in overrides
    if ask is None or stated or not (spec.image or spec.build):
        return spec
    found: str | None = await ask(spec)
    if not found or found in _SYSTEM or found.startswith(("/dev/", "/proc/", "/sys/")):
        return spec
    return spec.model_copy(update={"workdir": found})


async def count_entries(sandbox: Sandbox, folder: str, deadline: Deadline) -> int:
    """Files and folders in a folder; 0 where the image has no `find`."""
    said = (await sandbox.exec(["sh", "-c", "find . | wc -l"], cwd=folder, deadline=deadline)).stdout.strip()
    return int(said) if said.isdigit() else 0


def is_folder(work: Path) -> bool:
    """Whether the first member of a stored working folder is a folder: an agent may have put a link in its place."""
    with tarfile.open(work, errors="surrogateescape") as archive:
        first = archive.next()
        return first is not None and first.isdir()


async def replace(sandbox: Sandbox, folder: str, work: Path, deadline: Deadline) -> None:
    """Puts a stored working folder into the place of what a fresh sandbox has there.

    Args:
        work: A tar whose members are named as `Sandbox.snapshot` names them.

    Raises:
        EnvkitError: What the image has there can't be removed.
    """
    # The folder is given as `cwd` and never as a word: a sandbox without isolation translates the one alone.
    done = await sandbox.exec(["sh", "-c", _CLEAR], cwd=folder, deadline=deadline, merge_stderr=True)
    if not done.ok:
        raise EnvkitError(
            f"{folder} of the judging sandbox can't be emptied (exit status {done.exit_code}): "
            f"{done.stdout.decode(errors='replace')[-500:].strip()}",
            kind=FailureKind.SANDBOX_ERROR,
            boundary=Boundary.SANDBOX,
        )
    await sandbox.upload(work, deadline=deadline)
