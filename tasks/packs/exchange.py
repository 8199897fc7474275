"""Packs in and out: Harbor task directories, verifiers' rows, APEX data; and a pack written as Harbor directories.

What is imported is read strictly before it is kept, so that a pack never holds a task that can't be loaded; what
can't be carried over is named. Nothing that exists is overwritten.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envkit import registry
from envkit.failure import EnvkitError, UserError
from envkit.task import Task, harbor_problems, load_task_dir
from envkit.task.names import is_slug
from envkit.worlds import WORLD_PARTS

__all__ = ["export_harbor", "import_apex", "import_harbor", "import_verifiers"]

#: For a task that brings no Dockerfile: what its own checks need in an image.
_DOCKERFILE = """\
FROM python:3.12-slim
RUN pip install --no-cache-dir {requirements}
{copies}WORKDIR /filesystem
"""
_COPIES = "COPY filesystem/ /filesystem/\nCOPY .apps_data/ /.apps_data/\n"


def import_harbor(source: Path, target: Path, *, lenient: bool = False) -> tuple[list[str], list[str]]:
    """Copies Harbor task directories (a task, or a folder of them) into the pack folder `target`.

    Returns:
        The names of the tasks that were imported, and what was left out, with the reason.

    Raises:
        UserError: There is no task at `source`, or one of the name is in `target` already.
    """
    folders = [source] if (source / "task.toml").is_file() else sorted(p.parent for p in source.glob("*/task.toml"))
    if not folders:
        raise UserError(f"{source} holds no task; expected task.toml in it, or in directories below it")
    return _take(((_slug(folder.resolve().name), folder) for folder in folders), target, lenient=lenient)


def import_apex(source: Path, target: Path, tasks: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Writes tasks of a copy of the APEX-Agents dataset, each with its world, into the pack folder `target`; all of
    them where none is named. Returns and raises as `import_harbor`."""
    from envkit.tasks.apex import ApexPack

    pack = ApexPack(source)
    names = [pack.find(name)[0] for name in tasks] or list(pack.ids())
    if pack.is_training_form:
        return import_harbor(source, target)
    taken, left = [], []
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (target / name).exists():
            raise UserError(f"{target / name} exists already; import into another folder")
        try:
            pack.export_task(name, target / name)
            taken.append(name)
        except EnvkitError as error:
            left.append(f"{name}: {error}")
    return taken, left


def import_verifiers(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """Makes a question task of each row of a dataset as environments of `verifiers` have it (JSONL or parquet):
    `question`, or `prompt` as text or chat messages; `answer`; `info` with `choices`. Reward functions are code and
    can't be carried over: the answer is checked by envkit's own rules (see `envkit.tasks.qa`). Returns and raises as
    `import_harbor`."""
    from envkit.tasks.qa.rows import question_of, read_rows
    from envkit.tasks.qa.writing import write_question

    taken, left = [], []
    target.mkdir(parents=True, exist_ok=True)
    for number, row in enumerate(read_rows(source)):
        name = f"q-{number:05d}"
        if (target / name).exists():
            raise UserError(f"{target / name} exists already; import into another folder")
        try:
            question = question_of(_plain_row(row), number, str(source))
            (target / name).mkdir()
            write_question(question, target / name)
        except (UserError, UnicodeEncodeError) as error:
            shutil.rmtree(target / name, ignore_errors=True)
            left.append(f"row {number}: {error}")
            continue
        taken.append(name)
    return taken, left


def _plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its question as text: a chat's messages joined, what `info` holds laid flat."""
    info = row.get("info")
    if isinstance(info, str) and info.lstrip().startswith("{"):
        try:
            info = json.loads(info)
        except (ValueError, RecursionError):
            info = None
    flat = {**(info if isinstance(info, dict) else {}), **row}
    prompt = flat.get("question") or flat.get("prompt")
    if isinstance(prompt, list):
        texts = [m.get("content") for m in prompt if isinstance(m, dict) and m.get("role") in ("system", "user")]
        flat["question"] = "\n\n".join(text for text in texts if isinstance(text, str))
    elif prompt is not None:
        flat["question"] = prompt
    return flat


def export_harbor(ids: Sequence[str], target: Path) -> tuple[list[Path], list[str]]:
    """Writes tasks as Harbor directories that stand alone: the world in `environment/`, typed checks packed so that
    Harbor runs them.

    Returns:
        The directories, and what would keep Harbor from running one.

    Raises:
        UserError: A directory exists already, or a task can't be loaded.
    """
    written: list[Path] = []
    problems: list[str] = []
    target.mkdir(parents=True, exist_ok=True)
    for id in ids:
        pack, task = registry.find(id)
        dest = target / task.name
        if dest.exists():
            raise UserError(f"{dest} exists already; export into another folder")
        export = getattr(pack, "export_task", None)
        if export is not None:
            export(task.name, dest)
        else:
            _export(task, pack.world(task), dest)
        loaded = load_task_dir(dest)
        problems += [f"{id}: {problem}" for problem in harbor_problems(loaded)]
        written.append(dest)
    return written, problems


def _export(task: Task, world: Path | None, dest: Path) -> None:
    from envkit.verifiers.portable import REQUIREMENTS, write_tests

    draft = Path(tempfile.mkdtemp(prefix=f".{dest.name}.", dir=dest.parent))
    try:
        shutil.copytree(task.dir, draft, dirs_exist_ok=True, copy_function=_copy)
        environment = draft / "environment"
        environment.mkdir(exist_ok=True)
        if world is not None:
            shutil.rmtree(environment / "world", ignore_errors=True)
            for part in WORLD_PARTS:
                shutil.rmtree(environment / part, ignore_errors=True)
                if (world / part).is_dir():
                    shutil.copytree(world / part, environment / part, copy_function=_copy)
                (environment / part).mkdir(exist_ok=True)
                if not any((environment / part).iterdir()):
                    (environment / part / ".keep").touch()
        for folder in [draft, *(path for path in draft.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)
        has_image = task.config.environment.docker_image is not None
        if not has_image and not (environment / "Dockerfile").exists():
            copies = _COPIES if world is not None else ""
            names = " ".join(f"'{name}'" for name in REQUIREMENTS)
            (environment / "Dockerfile").write_text(
                _DOCKERFILE.format(requirements=names, copies=copies), encoding="utf-8"
            )
        for tests in [draft / "tests", *sorted(draft.glob("steps/*/tests"))]:
            if (tests / "verifier.toml").is_file() and not (tests / "test.sh").exists():
                write_tests(tests, world)
        draft.rename(dest)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _take(found: Iterator[tuple[str, Path]], target: Path, *, lenient: bool) -> tuple[list[str], list[str]]:
    taken: list[str] = []
    left: list[str] = []
    target.mkdir(parents=True, exist_ok=True)
    for name, folder in found:
        dest = target / name
        if dest.exists():
            raise UserError(f"{dest} exists already; import into another folder")
        try:
            load_task_dir(folder, lenient=lenient)
        except EnvkitError as error:
            left.append(f"{folder.name}: {error}")
            continue
        draft = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=target))
        try:
            shutil.copytree(folder, draft, dirs_exist_ok=True, copy_function=_copy)
            draft.chmod(0o755)
            draft.rename(dest)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        taken.append(name)
    return taken, left


def _slug(name: str) -> str:
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")
    if not is_slug(slug):
        raise UserError(f"{name!r} can't be a task's name; rename the directory")
    return slug


def _copy(source: str, target: str) -> None:
    """Content and executable bit: what is copied may be read-only, and what is written must not be."""
    executable = Path(source).stat().st_mode & 0o111
    shutil.copyfile(source, target)
    Path(target).chmod(0o755 if executable else 0o644)
