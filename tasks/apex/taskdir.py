"""A published task as a Harbor task directory: instruction, rubric, limits. Its world is outside, shared by others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from envkit.tasks.apex.dataset import TaskRow
from envkit.tasks.apex.licence import TERMS
from envkit.tasks.apex.rubric import verifier_toml

__all__ = ["FORM", "write_task"]

#: Changes whenever the same row is written differently.
FORM = "1"
#: As the published runs have it: the agent's limit, and time for the judge to read large files.
_AGENT_S, _VERIFIER_S = 10_800.0, 3_600.0

_SOLVE = """\
#!/bin/bash
# States the answer that the experts gave, for the self-test of the rubric; it makes no files.
set -euo pipefail
mkdir -p /logs/agent
cp "$(dirname "$0")/answer.txt" /logs/agent/answer.txt
"""

_DOCKERFILE = """\
# Only for running the task elsewhere: `envkit apex export` puts the world beside this file.
FROM python:3.12-slim
COPY filesystem/ /filesystem/
COPY .apps_data/ /.apps_data/
WORKDIR /filesystem
"""


def write_task(row: TaskRow, name: str, split: str, version: str, target: Path) -> None:
    """Writes the directory of a task below the empty folder `target`."""
    from envkit.verifiers.portable import write_tests

    _text(target / "task.toml", _task_toml(row, name, split, version))
    _text(target / "instruction.md", row.prompt.strip() + "\n")
    _text(target / "tests/verifier.toml", verifier_toml(row))
    write_tests(target / "tests", None)
    _text(target / "environment/Dockerfile", _DOCKERFILE)
    if isinstance(row.gold_response, str) and row.gold_response.strip():
        _text(target / "solution/answer.txt", row.gold_response)
        _text(target / "solution/solve.sh", _SOLVE, executable=True)


def _task_toml(row: TaskRow, name: str, split: str, version: str) -> str:
    from envkit.task.config import TaskConfig

    envkit: dict[str, Any] = {"world": row.world_id, "split": split, "tags": ["apex-agents"]}
    if row.domain:
        envkit["domain"] = row.domain
    config = TaskConfig.model_validate({
        "schema_version": "1.4",
        "task": {"name": f"apex/{name}", "version": version, "description": row.task_name, "keywords": ["apex"]},
        "metadata": {"licence": TERMS, "task_id": row.task_id, "world_id": row.world_id, "envkit": envkit},
        "agent": {"timeout_sec": _AGENT_S},
        "verifier": {"timeout_sec": _VERIFIER_S},
        "environment": {"build_timeout_sec": 1800.0, "cpus": 1, "memory_mb": 4096, "storage_mb": 20480},
    })  # fmt: skip
    return config.to_toml()


def archipelago_json(row: TaskRow, world_name: str, image: str) -> str:
    """What stands beside a task's directory in the training form."""
    return json.dumps({
        "task_id": row.task_id, "task_name": row.task_name, "task_slug": row.slug, "world_id": row.world_id,
        "world_short_name": world_name, "ecr_image": image, "required_env_keys": [], "needs_snapshot": True,
    }, indent=2, ensure_ascii=False) + "\n"  # fmt: skip


def _text(path: Path, text: str, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"), encoding="utf-8")
    path.chmod(0o755 if executable else 0o644)
