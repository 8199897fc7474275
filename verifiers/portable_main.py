"""The typed checks as a program that runs inside a task's own container. Entry point of what `portable.py` packs.

Reads `/tests/verifier.toml`, the live trees `/filesystem` and `/.apps_data`, `/tests/initial.tar` where checks
compare with the initial state, and the final answer from `/logs/agent`. Writes `/logs/verifier/reward.json` and
`criteria.json`, and exits with 0. Without a whole verdict it writes no reward, says why, and exits with 1; so where a
check needs a model or a sandbox. The code that judges is the same as outside.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envkit.deadline import Deadline
from envkit.failure import FailureKind, UserError
from envkit.office.problem import Problem, Unreadable
from envkit.snapshot import ROOTS, Snapshot
from envkit.verifier import Verdict
from envkit.verifiers.initial import Needs, from_archive
from envkit.verifiers.judging import Call, missing
from envkit.verifiers.run import Subject, judge_all_sync
from envkit.verifiers.schema import load_checks
from envkit.verifiers.scoring import Scoring, verdict_of

__all__ = ["answer_of", "calls_of", "main"]


def answer_of(agent_logs: Path) -> str | None:
    """The final answer: `answer.txt`, else the text of the agent's last step in `trajectory.json` (ATIF) if that step
    calls no tools; None where there is neither."""
    plain = agent_logs / "answer.txt"
    if plain.is_file():
        return plain.read_text(encoding="utf-8", errors="replace")
    spoken = _spoken(agent_logs)
    if not spoken or spoken[-1].get("tool_calls"):
        return None
    message = spoken[-1].get("message")
    if isinstance(message, list):
        parts = [p.get("text", "") for p in message if isinstance(p, dict) and p.get("type") == "text"]
        return "\n".join(str(p) for p in parts)
    return message if isinstance(message, str) else None


def calls_of(agent_logs: Path) -> list[Call] | None:
    """The tools that the agent called, from `trajectory.json` (ATIF); None where it can't be read."""
    spoken = _spoken(agent_logs)
    if spoken is None:
        return None
    calls = [c for s in spoken for c in s.get("tool_calls") or () if isinstance(c, dict)]
    return [Call(str(c.get("function_name")), a if isinstance(a := c.get("arguments"), dict) else None) for c in calls]


def _spoken(agent_logs: Path) -> list[dict[str, Any]] | None:
    """The agent's steps of `trajectory.json`; None where it can't be read."""
    recorded = agent_logs / "trajectory.json"
    if not recorded.is_file():
        return None
    try:
        steps: Any = json.loads(recorded.read_text(encoding="utf-8", errors="replace")).get("steps")
    except (ValueError, AttributeError, RecursionError):
        return None
    return [s for s in steps if isinstance(s, dict) and s.get("source") == "agent"] if isinstance(steps, list) else None


def _snapshot(root: Path, to: Path) -> None:
    """The live trees as an archive, as a sandbox's snapshot would hold them. Links are kept as links."""
    with tarfile.open(to, "w") as tar:
        for name in ROOTS:
            tree = root / name
            if tree.is_dir() and not tree.is_symlink():
                tar.add(tree, arcname=name)


def _initial(tests: Path, needs: Needs) -> Snapshot | None:
    archive = tests / "initial.tar"
    if archive.is_file():
        return from_archive(archive.read_bytes())
    if needs:
        raise Unreadable(Problem.MISSING, f"{archive} does not exist")
    return None


def _write(path: Path, value: Any) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, path)


def _verdict(root: Path, timeout_s: float) -> Verdict:
    tests = root / "tests"
    checks = load_checks(tests / "verifier.toml")
    handle, name = tempfile.mkstemp(prefix="envkit-final-", suffix=".tar")
    os.close(handle)
    final = Path(name)
    try:
        _snapshot(root, final)
        said = root / "logs" / "agent"
        subject = Subject(final, answer_of(said), lambda needs: _initial(tests, needs), calls_of(said))
        inside = [check for check in checks.check if not check.outside]
        found = judge_all_sync(inside, subject, Deadline.after(timeout_s, "the verifier's time limit"))
    finally:
        final.unlink(missing_ok=True)
    by_id = {criterion.id: criterion for criterion in found}
    for check in checks.check:
        if check.outside:
            message = f"a check of kind {check.kind!r} needs {check.outside}, which a task's own container has not"
            by_id[check.id] = missing(check, FailureKind.VERIFIER_ERROR, message)
    return verdict_of([by_id[check.id] for check in checks.check], Scoring.of(checks), "checks")


def main(argv: Sequence[str] | None = None) -> int:
    """Judges and writes the reward. Returns the exit status: 0 with a reward, 1 without one, 2 for broken checks."""
    parser = argparse.ArgumentParser(
        prog="envkit-verify", description="Judges a task's final state by its typed checks."
    )
    parser.add_argument("--root", type=Path, default=Path("/"), help="where filesystem, .apps_data, tests and logs are")
    parser.add_argument("--timeout-s", type=float, default=540.0, help="seconds before undecided checks are given up")
    arguments = parser.parse_args(argv)
    logs = arguments.root / "logs" / "verifier"
    logs.mkdir(parents=True, exist_ok=True)
    reward_file = logs / "reward.json"
    reward_file.unlink(missing_ok=True)
    try:
        verdict = _verdict(arguments.root, arguments.timeout_s)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    _write(logs / "criteria.json", verdict.model_dump(mode="json"))
    for criterion in verdict.criteria:
        print(f"{criterion.outcome:8} {criterion.id}: {criterion.message or criterion.actual or ''}"[:300])
    if verdict.reward is None:
        print(f"no verdict: between {verdict.lower} and {verdict.upper}", file=sys.stderr)
        return 1
    _write(reward_file, verdict.rewards)
    print(f"reward {verdict.reward}")
    return 0
