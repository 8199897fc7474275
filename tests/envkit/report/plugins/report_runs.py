"""Small tasks and scripted trials, run as jobs through the real harnesses and sandbox."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

from envkit.failure import Boundary, Failure, FailureKind
from envkit.trial.job import Job, JobResult
from envkit.trial.result import AttemptSummary, Plugin, Status, TrialResult, TrialSpec

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

NO_RETRIES = dict.fromkeys(FailureKind, 0)
SOLVE = "echo ready > /filesystem/report.txt\nmkdir -p /logs/agent\necho done > /logs/agent/answer.txt\n"
#: A verifier that leaves no reward.
NO_REWARD_SCRIPT = "echo nothing\n"
CHECKS = """\
schema_version = "1"
[[check]]
id = "report"
kind = "text"
path = "/filesystem/report.txt"
contains = ["ready"]
[[check]]
id = "kept"
kind = "file"
path = "/filesystem/notes.txt"
unchanged = true
[[check]]
id = "said"
kind = "answer"
contains = ["done"]
"""


def write_task(folder: Path, *, checks: str = CHECKS, script: str | None = None, solve: str = SOLVE) -> Path:
    """A small Harbor task: write 'ready' into report.txt and say 'done'."""
    files = {
        "task.toml": 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n',
        "instruction.md": "Write the word 'ready' into report.txt and say done.\n",
        "environment/world/filesystem/notes.txt": "some notes\n",
        "environment/world/filesystem/empty.txt": "",
        "environment/world/.apps_data/.keep": "",
        "solution/solve.sh": solve,
        "tests/test.sh" if script is not None else "tests/verifier.toml": script if script is not None else checks,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def scripted(task: Path, *turns: dict[str, Any], harness: str = "opencode", **fields: Any) -> TrialSpec:
    """A trial whose policy says these turns; `options` are the policy's further ones."""
    harness_options = fields.pop("harness_options", {})
    options = {"turns": list(turns) or [{"text": "done"}], **fields.pop("options", {})}
    base: dict[str, Any] = {"timeout_s": 120.0, "verify_reserve_s": 40.0}
    return TrialSpec(
        task=str(task),
        policy=Plugin(name="scripted_policy:Scripted", options=options),
        harness=Plugin(name=harness, options=harness_options),
        **{**base, **fields},
    )


def oracle(task: Path, **fields: Any) -> TrialSpec:
    return TrialSpec(task=str(task), policy=Plugin(name="oracle"), timeout_s=120.0, verify_reserve_s=40.0, **fields)


def run_job(folder: Path, specs: list[TrialSpec], **options: Any) -> JobResult:
    return asyncio.run(Job(specs, folder, **{"retries": NO_RETRIES, "concurrency": 4, **options}).run())


def ended(
    spec: TrialSpec, reward: float | None, turns: int, kind: FailureKind = FailureKind.SANDBOX_DIED
) -> TrialResult:
    """A trial that has ended, after one attempt.

    Args:
        reward: None: it broke, in this way.
    """
    status = Status.FAILED if reward is None else Status.SCORED
    boundary = Boundary.POLICY if kind is FailureKind.POLICY_REJECTED else Boundary.SANDBOX
    return TrialResult(
        trial_id=spec.trial_id,
        spec=spec,
        status=status,
        reward=reward,
        failure=Failure.of(kind, boundary, "it broke") if reward is None else None,
        turns=turns,
        started_at=NOW,
        finished_at=NOW,
        attempts=(AttemptSummary(attempt=1, status=status, reward=reward, started_at=NOW, finished_at=NOW),),
    )
