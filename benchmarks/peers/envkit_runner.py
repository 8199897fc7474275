"""envkit's part of `peers.py`: a job of trials under the OpenCode harness, each in a process of its own.

python envkit_runner.py local|host|docker TRIALS CONCURRENCY IMAGE
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from work import COMMANDS, EXPECTED, RESULT, cpu_s, tell

from envkit.messages import AssistantMessage, Observation, ToolCall
from envkit.trial.job import Job, JobResult
from envkit.trial.result import Plugin, TrialSpec


class ThreeCommands:
    """The policy: a command a turn, then an answer."""

    name = "three-commands"

    def __init__(self) -> None:
        self.turn = 0

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    async def start(self, context: object) -> None:
        pass

    async def act(self, observation: Observation) -> AssistantMessage:
        self.turn += 1
        if self.turn > len(COMMANDS):
            return AssistantMessage(text="done")
        arguments = {"command": COMMANDS[self.turn - 1], "description": "works"}
        return AssistantMessage(tool_calls=(ToolCall(id=f"c{self.turn}", name="bash", arguments=arguments),))

    async def close(self) -> None:
        pass


def write_task(folder: Path) -> Path:
    files = {
        "task.toml": 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n',
        "instruction.md": "Work.\n",
        "environment/world/filesystem/.keep": "",
        "tests/verifier.toml": 'schema_version = "1"\n[[check]]\nid = "result"\nkind = "text"\n'
        f'path = "{RESULT}"\ncontains = ["{EXPECTED}"]\n',
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def run(kind: str, trials: int, concurrency: int, image: str, root: Path) -> tuple[JobResult, float]:
    task = write_task(root / "tasks" / "three")
    options = {"docker": {"image": image, "pull": "never"}, "local": {"office": False}}.get(kind, {})
    specs = [
        TrialSpec(
            task=str(task),
            sample=number,
            policy=Plugin(name="envkit_runner:ThreeCommands"),
            sandbox=Plugin(name=kind, options=options),
            timeout_s=900.0,
        )
        for number in range(trials)
    ]
    since_s = time.time()
    return asyncio.run(Job(specs, root / f"run-{trials}", concurrency=concurrency).run()), since_s


def main() -> None:
    kind, trials, concurrency, image = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(dir=".") as root:
        spent = [cpu_s()]
        warm, _ = run(kind, 1, 1, image, Path(root).absolute() / "warm")
        if warm.results[0].reward != 1.0:
            raise SystemExit(str(warm.results[0].failure or warm.results[0].verdict))
        spent.append(cpu_s())
        outcome, since_s = run(kind, trials, concurrency, image, Path(root).absolute())
        spent.append(cpu_s())
        first_s = min(result.started_at.timestamp() for result in outcome.results)
        last_s = max(result.finished_at.timestamp() for result in outcome.results)
        right = sum(result.reward == 1.0 for result in outcome.results)
        tell(trials=trials, right=right, wall_s=last_s - first_s, before_s=first_s - since_s, cpu=(*spent,))


if __name__ == "__main__":
    main()
