"""A job in a process of its own, for tests that kill it: `python run_job.py PLUGINS FOLDER SPECS.json CONCURRENCY`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path


def main() -> int:
    plugins, folder, specs, concurrency = sys.argv[1:]
    sys.path.append(plugins)
    from envkit.trial.job import Job
    from envkit.trial.result import TrialSpec

    plan = [TrialSpec.model_validate(value) for value in json.loads(Path(specs).read_text())]
    return asyncio.run(Job(plan, Path(folder), concurrency=int(concurrency)).run()).exit_code


if __name__ == "__main__":
    sys.exit(main())
