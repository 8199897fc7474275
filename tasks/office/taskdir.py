"""Writes a task of the pack as a Harbor task directory.

`write_task` makes the directory that is cached and loaded; with `add_world` it stands alone, the world inside
`environment/`, so that Harbor builds and runs it without envkit.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from envkit.tasks.office.catalog import TASKS, VERSION, WORLDS, TaskEntry
from envkit.tasks.office.jobs.job import Job

__all__ = ["write_task"]

_SOLUTIONS = Path(__file__).parent / "solutions"
_TIMES_S = {"easy": 900.0, "medium": 1800.0, "hard": 3600.0}
_STATE = ("mail", "chat", "calendar")

_DOCKERFILE = """\
FROM python:3.12-slim
RUN pip install --no-cache-dir \\
{packages}
COPY filesystem/ /filesystem/
COPY .apps_data/ /.apps_data/
WORKDIR /filesystem
"""

_SOLVE = """\
#!/bin/bash
# Does the work from the files of the world; the answer, where one is asked for, goes to /logs/agent/answer.txt.
set -euo pipefail
mkdir -p /logs/agent
python3 "$(dirname "$0")/solve.py"
"""


def write_task(name: str, job: Job, target: Path, world: Path) -> None:
    """Writes the directory of one task below the empty folder `target`; `world` is the built world it starts from."""
    from envkit.verifiers.portable import write_tests

    entry = TASKS[name]
    _text(target / "task.toml", _task_toml(name, entry))
    _text(target / "instruction.md", job.instruction.strip() + "\n")
    _text(target / "tests/verifier.toml", verifier_toml(job))
    write_tests(target / "tests", world)
    reading, solve = _solution(name, entry)
    _text(target / "solution/reading.py", reading)
    _text(target / "solution/solve.py", solve)
    _text(target / "solution/solve.sh", _SOLVE, executable=True)
    if job.scripted is not None:
        _text(target / "solution/opencode.json", _script(job.scripted, reading, solve))
    calls = _SOLUTIONS / WORLDS[entry.world].module / f"{name.replace('-', '_')}.archipelago.json"
    if calls.is_file():
        _text(target / "solution/archipelago.json", calls.read_text(encoding="utf-8"))
    _text(target / "environment/Dockerfile", _dockerfile())


def add_world(target: Path, world: Path) -> None:
    """Copies a built world into `environment/` of a task directory."""
    for tree in ("filesystem", ".apps_data"):
        shutil.copytree(world / tree, target / "environment" / tree, copy_function=shutil.copyfile)


def _dockerfile() -> str:
    """An image with what the local sandbox offers and what judging needs, all pinned by the same lists."""
    from envkit.sandbox.runtime import REQUIREMENTS as OFFICE
    from envkit.verifiers.portable import REQUIREMENTS as JUDGING

    pinned = {requirement.split("==")[0].lower() for requirement in OFFICE}
    names = [*OFFICE, *(r for r in JUDGING if re.split(r"[<>=]", r)[0].lower() not in pinned)]
    return _DOCKERFILE.format(packages=" \\\n".join(f"    '{name}'" for name in names))


def _task_toml(name: str, entry: TaskEntry) -> str:
    world = WORLDS[entry.world]
    now: datetime = import_module(f"envkit.tasks.office.facts.{world.module}").NOW
    limit_s = _TIMES_S[entry.difficulty]
    kinds = [app for app in entry.apps if app not in _STATE]
    return _toml({
        "schema_version": "1.4",
        "task": {
            "name": f"envkit-office/{name}", "version": VERSION,
            "description": f"{world.title}: {name.replace('-', ' ')}",
            "keywords": ["office", world.domain, entry.family],
        },
        "metadata": {
            "expert_time_estimate_min": entry.minutes,
            "envkit": {
                "world": entry.world, "difficulty": entry.difficulty, "split": world.split, "domain": world.domain,
                "apps": [app for app in entry.apps if app in _STATE], "tags": [entry.family, *kinds],
                "now": now.replace(tzinfo=UTC).isoformat(),
            },
        },
        "agent": {"timeout_sec": limit_s},
        "verifier": {"timeout_sec": 300.0},
        "environment": {"build_timeout_sec": 900.0, "cpus": 1, "memory_mb": 2048, "storage_mb": 10240},
    })  # fmt: skip


def verifier_toml(job: Job) -> str:
    """The text of `tests/verifier.toml`."""
    parts = ['schema_version = "1"\nscoring = "weighted_mean"\n']
    for check in job.checks:
        lines = [f"{key} = {_value(value)}" for key, value in check.items() if not (key == "weight" and value == 1.0)]
        parts.append("[[check]]\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _solution(name: str, entry: TaskEntry) -> tuple[str, str]:
    module = WORLDS[entry.world].module
    reading = (_SOLUTIONS / "reading.py").read_text(encoding="utf-8")
    solve = (_SOLUTIONS / module / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    return reading, solve.replace("from envkit.tasks.office.solutions.reading import", "from reading import")


def _script(final: str, reading: str, solve: str) -> str:
    """The solution as tool calls of a harness with a shell: look around, write the program, run it."""
    calls: list[Any] = [
        [
            {"name": "bash", "arguments": {"command": "find /filesystem -type f | sort"}},
            {"name": "bash", "arguments": {"command": "ls -R /.apps_data | head -60"}},
        ],
        {
            "name": "bash",
            "arguments": {"command": "mkdir -p /tmp/office && " + _heredoc("/tmp/office/reading.py", reading)},
        },
        {
            "name": "bash",
            "arguments": {"command": _heredoc("/tmp/office/solve.py", solve) + "python3 /tmp/office/solve.py"},
        },
    ]
    return json.dumps({"calls": calls, "answer": final}, indent=2, ensure_ascii=False) + "\n"


def _heredoc(path: str, text: str) -> str:
    return f"cat > {path} <<'END_OF_FILE'\n{text}END_OF_FILE\n"


def _text(path: Path, text: str, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755 if executable else 0o644)


def _toml(data: Mapping[str, Any], prefix: str = "") -> str:
    """Plain tables of plain values, simple values first."""
    simple = {k: v for k, v in data.items() if not isinstance(v, Mapping)}
    text = "".join(f"{key} = {_value(value)}\n" for key, value in simple.items())
    for key, value in data.items():
        if isinstance(value, Mapping):
            text += f"\n[{prefix}{key}]\n" if any(not isinstance(v, Mapping) for v in value.values()) else ""
            text += _toml(value, f"{prefix}{key}.")
    return text


def _value(value: Any) -> str:
    """A TOML value on one line."""
    import datetime as dt

    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case dt.datetime():
            return value.isoformat()
        case dt.date() | dt.time():
            return value.isoformat()
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_value, value)) + "]"
        case _:
            raise TypeError(f"no TOML value for {type(value).__name__}: {value!r}")


def _key(key: str) -> str:
    plain = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    return key if plain else json.dumps(key, ensure_ascii=False)
