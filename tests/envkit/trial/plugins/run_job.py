"""A job in a process of its own, for tests that kill it:
`python run_job.py PLUGINS FOLDER SPECS.json CONCURRENCY [EXECUTOR [OPTIONS]]`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path


def main() -> int:
    plugin_folder, folder, specs, concurrency, *executor = sys.argv[1:]
    sys.path.append(plugin_folder)
    from envkit import plugins
    from envkit.trial.job import Job
    from envkit.trial.result import TrialSpec

    plan = [TrialSpec.model_validate(value) for value in json.loads(Path(specs).read_text())]
    name, options = (executor[0] if executor else "process"), json.loads(executor[1] if executor[1:] else "{}")
    place = plugins.construct("executors", name, options)
    return asyncio.run(Job(plan, Path(folder), concurrency=int(concurrency), executor=place).run()).exit_code


if __name__ == "__main__":
    sys.exit(main())
