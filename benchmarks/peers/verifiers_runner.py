"""verifiers' part of `peers.py`: an entered `Agent` (one interception server for all), whose harness runs the commands
in the rollout's runtime, and a task with a reward that reads the file there.

    python verifiers_runner.py local|docker TRIALS CONCURRENCY IMAGE

`local` is its subprocess runtime. Its Docker runtime has no mode without a network that needs no download; it makes a
container on the default bridge with a published port, as it does for everybody.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time

import verifiers.v1 as vf
from verifiers.v1.agent import Agent, AgentConfig
from verifiers.v1.harness import Harness
from verifiers.v1.runtimes import ProgramResult
from work import COMMANDS, EXPECTED, RESULT, cpu_s, tell


class ThreeCommandsConfig(vf.HarnessConfig):
    pass


class ThreeCommands(Harness[ThreeCommandsConfig]):
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data) -> ProgramResult:
        for command in COMMANDS:
            result = await runtime.run(["sh", "-c", command], {})
        return result


class ThreeTask(vf.Task[vf.TaskData]):
    @vf.reward
    async def right(self, runtime) -> float:
        return 1.0 if EXPECTED in (await runtime.read(RESULT)).decode() else 0.0


async def batch(kind: str, trials: int, concurrency: int, image: str) -> tuple[int, float, float]:
    from verifiers.v1.runtimes import DockerConfig, SubprocessConfig

    runtime = DockerConfig(image=image, workdir="/workspace") if kind == "docker" else SubprocessConfig()
    since_s = time.time()
    room = asyncio.Semaphore(concurrency)
    config = AgentConfig(model="none", harness={"id": "null"}, runtime=runtime)
    agent = Agent(config)
    agent.harness = ThreeCommands(ThreeCommandsConfig(id="three"))
    async with agent:
        first_s = time.time()

        async def one(number: int) -> bool:
            async with room:
                trace = await agent.run(ThreeTask(vf.TaskData(idx=number, prompt="Work.")))
                if not trace.ok:
                    raise SystemExit(str(trace.errors)[:2000])
                return trace.reward == 1.0

        right = sum(await asyncio.gather(*(one(number) for number in range(trials))))
        last_s = time.time()
    return right, last_s - first_s, first_s - since_s


async def main() -> None:
    kind, trials, concurrency, image = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    logging.disable(logging.WARNING)
    spent = [cpu_s()]
    await batch(kind, 1, 1, image)
    spent.append(cpu_s())
    right, wall_s, before_s = await batch(kind, trials, concurrency, image)
    spent.append(cpu_s())
    tell(trials=trials, right=right, wall_s=wall_s, before_s=before_s, cpu=(*spent,))


if __name__ == "__main__":
    asyncio.run(main())
