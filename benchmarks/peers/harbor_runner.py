"""Harbor's part of `peers.py`: a job of attempts at one task with a prebuilt image, an agent that runs the commands,
and the task's tests/test.sh, in Harbor's Docker environment (compose).

    python harbor_runner.py docker TRIALS CONCURRENCY IMAGE

Its own `no-network` needs a kernel that not every machine has, so the task's compose file takes the network away, which
also spares it a network a trial.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

from harbor.agents.base import BaseAgent
from harbor.job import Job
from harbor.models.job.config import JobConfig
from work import COMMANDS, EXPECTED, RESULT, cpu_s, tell


class ThreeCommands(BaseAgent):
    @staticmethod
    def name() -> str:
        return "three-commands"

    def version(self) -> str:
        return "1"

    async def setup(self, environment) -> None:
        pass

    async def run(self, instruction, environment, context) -> None:
        for command in COMMANDS:
            await environment.exec(command)


def write_task(folder: Path, image: str) -> Path:
    files = {
        "task.toml": 'schema_version = "1.4"\n[task]\nname = "peers/three"\n[environment]\n'
        f'docker_image = "{image}"\nworkdir = "/workspace"\n',
        "instruction.md": "Work.\n",
        "environment/docker-compose.yaml": "services:\n  main:\n    network_mode: none\n",
        "tests/test.sh": f"#!/bin/sh\nmkdir -p /logs/verifier\ngrep -q {EXPECTED} /workspace/{RESULT} && echo 1 "
        "> /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


async def run(trials: int, concurrency: int, image: str, root: Path):
    task = write_task(root / "three", image)
    config = JobConfig.model_validate(
        {
            "job_name": f"run-{trials}",
            "jobs_dir": str(root / "jobs"),
            "n_attempts": trials,
            "n_concurrent_trials": concurrency,
            "quiet": True,
            "environment": {"type": "docker"},
            "agents": [{"import_path": "harbor_runner:ThreeCommands"}],
            "tasks": [{"path": str(task)}],
        }
    )
    since_s = time.time()
    job = await Job.create(config)
    return await job.run(), since_s


async def main() -> None:
    _, trials, concurrency, image = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        root = Path(folder).absolute()
        spent = [cpu_s()]
        warm, _ = await run(1, 1, image, root)
        for trial in warm.trial_results:
            if trial.exception_info is not None:
                raise SystemExit(str(trial.exception_info)[:2000])
        spent.append(cpu_s())
        result, since_s = await run(trials, concurrency, image, root)
        spent.append(cpu_s())
        done = [t for t in result.trial_results if t.started_at and t.finished_at]
        first_s = min(t.started_at.timestamp() for t in done)
        last_s = max(t.finished_at.timestamp() for t in done)
        right = sum(bool(t.verifier_result) and t.verifier_result.rewards.get("reward") == 1 for t in done)
        tell(trials=trials, right=right, wall_s=last_s - first_s, before_s=first_s - since_s, cpu=(*spent,))


if __name__ == "__main__":
    asyncio.run(main())
