"""A run of thousands of trials, made of one real one: records under other names, the long conversation shared.

python many_trials.py make FOLDER SOURCE COUNT     a run of COUNT trials, from the first trial of the run SOURCE
python many_trials.py triage FOLDER                its triage; prints trials looked into, peak memory in KiB, seconds
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path


def make(folder: Path, source: Path, count: int, results: int = 8, size: int = 2000) -> None:
    trial = next((source / "trials").iterdir())
    record = json.loads((trial / "result.json").read_text())
    trajectory = json.loads((trial / "attempt-1" / "trajectory.json").read_text())
    agent = next(step for step in trajectory["steps"] if step.get("tool_calls"))
    steps = [step for step in trajectory["steps"] if step["source"] != "agent"]
    for number in range(results):
        step = json.loads(json.dumps(agent))
        step["tool_calls"][0]["arguments"] = {"command": f"cat part-{number}.txt"}
        step["observation"]["results"][0]["content"] = f"part {number}: " + "x" * size
        steps.append(step)
    steps.append({"source": "agent", "message": "finished"})
    trajectory["steps"] = [{**step, "step_id": number + 1} for number, step in enumerate(steps)]
    shared = folder / "trajectory.json"
    folder.mkdir(parents=True)
    shared.write_text(json.dumps(trajectory))
    for number in range(count):
        record["trial_id"] = f"many.{number}"
        record["spec"]["sample"] = number % 8
        record["spec"]["task"] = f"many/task-{number // 8}"
        attempt = folder / "trials" / record["trial_id"] / "attempt-1"
        attempt.mkdir(parents=True)
        (attempt.parent / "result.json").write_text(json.dumps(record))
        os.link(shared, attempt / "trajectory.json")
    (folder / "job.json").write_text(json.dumps({"trials": [record["spec"]] * count}))


def look(folder: Path) -> None:
    from envkit.report.triage import triage

    since_s = time.monotonic()
    report = triage(folder)
    assert sum(group.trials for group in report.groups) == report.low
    print(report.low, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, round(time.monotonic() - since_s, 2))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    else:
        look(Path(sys.argv[2]))
