"""inspect-ai's part of `peers.py`: `eval` of a task whose solver runs the commands and whose scorer reads a file.

python inspect_runner.py local|docker TRIALS CONCURRENCY IMAGE
"""

from __future__ import annotations

import datetime as dt
import sys
import tempfile
import time
from pathlib import Path

from inspect_ai import Task, eval, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Target, accuracy, scorer
from inspect_ai.solver import Generate, TaskState, solver
from inspect_ai.util import sandbox
from work import COMMANDS, EXPECTED, RESULT, cpu_s, tell

COMPOSE = """\
services:
  default:
    image: {image}
    init: true
    command: sleep infinity
    network_mode: none
    x-local: true
"""


@solver
def three_commands():
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        for command in COMMANDS:
            await sandbox().exec(["sh", "-c", command], timeout=60)
        state.completed = True
        return state

    return solve


@scorer(metrics=[accuracy()])
def result_file():
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=1.0 if EXPECTED in await sandbox().read_file(RESULT) else 0.0)

    return score


def run(kind: str, trials: int, concurrency: int, image: str, root: Path):
    where: object = "local"
    if kind == "docker":
        (root / "compose.yaml").write_text(COMPOSE.format(image=image))
        where = ("docker", str(root / "compose.yaml"))

    @task
    def three() -> Task:
        samples = [Sample(input="Work.", target="1", id=number) for number in range(1, trials + 1)]
        return Task(dataset=samples, solver=three_commands(), scorer=result_file(), sandbox=where)

    since_s = time.time()
    # Every limit is as wide as the concurrency asked for; no display, no log of model calls, of which there are none.
    (log,) = eval(
        three(), model="mockllm/model", display="none", log_dir=str(root / "logs"), log_level="error",
        max_samples=concurrency, max_sandboxes=concurrency, max_subprocesses=max(concurrency, 4), score_display=False,
        log_realtime=False,
    )  # fmt: skip
    return log, since_s


def main() -> None:
    kind, trials, concurrency, image = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    with tempfile.TemporaryDirectory(dir=".") as folder:
        root = Path(folder).absolute()
        spent = [cpu_s()]
        warm, _ = run(kind, 1, 1, image, root)
        if warm.status != "success":
            raise SystemExit(str(warm.error))
        spent.append(cpu_s())
        log, since_s = run(kind, trials, concurrency, image, root)
        spent.append(cpu_s())
        samples = log.samples or []
        started = [dt.datetime.fromisoformat(s.started_at).timestamp() for s in samples]
        ended = [dt.datetime.fromisoformat(s.completed_at).timestamp() for s in samples]
        right = sum(s.scores["result_file"].value == 1.0 for s in samples if s.scores)
        tell(
            trials=trials, right=right, wall_s=max(ended) - min(started), before_s=min(started) - since_s, cpu=(*spent,)
        )


if __name__ == "__main__":
    main()
