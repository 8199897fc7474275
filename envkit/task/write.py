"""Writing task directories: a new one from parts, or the configuration of an existing one with its comments kept.

What is written is read back before it is handed over, and appears at its place as a whole or not at all.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from envkit.failure import UserError
from envkit.task.config import TaskConfig
from envkit.task.load import Task, load_task_dir, parse_task_toml
from envkit.task.strict import MAX_TOML_BYTES
from envkit.task.toml_write import edit_toml
from envkit.task.tree import read_file

__all__ = ["edit_task_toml", "harbor_problems", "save_config", "write_task_dir"]

#: Deprecated spellings that go when their key is edited.
_RENAMED = {
    "version": "schema_version",
    "memory": "memory_mb",
    "storage": "storage_mb",
    "allow_internet": "network_mode",
}


def write_task_dir(
    path: str | Path,
    config: TaskConfig,
    files: Mapping[str, str | bytes | Path] | None = None,
    *,
    source: Path | None = None,
    overwrite: bool = False,
) -> Task:
    """Writes a task directory and returns it as read back.

    Args:
        files: Relative path (`instruction.md`, `steps/draft/tests/test.sh`) to text, bytes, or a file or folder to
            copy. Scripts (`*.sh`) are made executable.
        source: An existing task directory whose other files are copied and whose task.toml is edited, comments kept.
        overwrite: Replace what is at `path`; without it that is an error.

    Raises:
        UserError: A path leads out of the directory, the place is taken, or the result is no valid task.
    """
    target = Path(path).absolute()
    if os.path.lexists(target) and not overwrite:
        raise UserError(f"{target} exists; choose another place, or pass overwrite=True")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target: a rename can't cross file systems.
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        if source is not None:
            shutil.copytree(source, draft, symlinks=True, dirs_exist_ok=True)
            text = edit_task_toml((source / "task.toml").read_text(encoding="utf-8"), config)
        else:
            text = config.to_toml()
        (draft / "task.toml").write_text(text, encoding="utf-8")
        for name, content in (files or {}).items():
            _write(draft, name, content)
        draft.chmod(0o755)
        load_task_dir(draft)
        if os.path.lexists(target):
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
            os.rename(target, old / "old")
            os.rename(draft, target)
            shutil.rmtree(old)
        else:
            os.rename(draft, target)
    except UserError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise UserError(str(error).replace(str(draft), str(target))) from None
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return load_task_dir(target)


def save_config(directory: str | Path, config: TaskConfig) -> None:
    """Rewrites the task.toml of a directory to say `config`: only what differs changes, comments stay. Atomic."""
    file = Path(directory) / "task.toml"
    text = read_file(file, max_bytes=MAX_TOML_BYTES, what="the task's configuration").decode("utf-8")
    edited = edit_task_toml(text, config, file=str(file))
    draft = file.with_name(f".task.toml.{os.getpid()}")
    draft.write_text(edited, encoding="utf-8", newline="")
    os.replace(draft, file)


def edit_task_toml(text: str, config: TaskConfig, *, file: str = "task.toml") -> str:
    """The text of a task.toml, changed to say `config`; comments and order are kept where the edit allows it."""
    before = parse_task_toml(text, file=file, lenient=True, deprecations=False)
    if before == config:
        return text
    edited = edit_toml(text, before.stated(), config.stated(), _RENAMED)
    # An edit of an intricate file (tables out of order, say) may come out different; then content goes before comments.
    after = parse_task_toml(edited, file=file, lenient=True, deprecations=False)
    return edited if after == config else config.to_toml()


def harbor_problems(task: Task) -> list[str]:
    """What keeps Harbor from running a directory that envkit can run; empty for most."""
    problems = []
    if not task.config.environment.docker_image and task.environment_dir is None:
        problems.append("there is no environment/ folder and no environment.docker_image")
    for step in task.steps:
        separate = step.verifier.environment
        own_image = separate is not None and (
            separate.docker_image
            or any(
                folder is not None and (folder / name).is_file()
                for folder in (step.tests_dir, step.shared_tests_dir)
                for name in ("Dockerfile", "docker-compose.yaml")
            )
        )
        script = "test.bat" if (separate or step.environment).os == "windows" else "test.sh"
        places = [folder / script for folder in (step.tests_dir, step.shared_tests_dir) if folder is not None]
        if not own_image and not any(place.is_file() for place in places):
            problems.append(f"step {step.name!r} has no tests/{script}" if step.name else f"there is no tests/{script}")
    return problems


def _write(root: Path, name: str, content: str | bytes | Path) -> None:
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts or not relative.parts or "\0" in name:
        raise UserError(f"a task's file can't be called {name!r}; expected a relative path without '..'")
    target = root.joinpath(*relative.parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        if content.is_dir():
            shutil.copytree(content, target, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copyfile(content, target)
    elif isinstance(content, bytes):
        target.write_bytes(content)
    else:
        target.write_text(content, encoding="utf-8", newline="")
    if target.is_file():
        target.chmod(0o755 if target.suffix == ".sh" else 0o644)
