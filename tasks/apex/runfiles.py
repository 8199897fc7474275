"""Archipelago's own run files, in and out: `trajectory.json`, `grades.json`, `verifiers.json`, `initial_messages.json`.

`import_runs` makes an envkit run of a folder of them, so that old runs are read, viewed, compared and, where their
final snapshots were kept and the data is at hand, judged anew. `export_run` writes a run's trials in that form.
Whatever a file leaves out is left out; nothing is invented: a run that was not graded, or whose grading broke, has
no reward, even where the file says 0.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envkit import __version__, registry
from envkit.atif import build_trajectory, read_trajectory, to_messages, write_trajectory
from envkit.failure import Boundary, EnvkitError, Failure, FailureKind, UserError
from envkit.messages import AssistantMessage, Message, StopReason, ToolCall, Usage
from envkit.report.stored import StoredRun
from envkit.snapshot import Kind, Snapshot, SnapshotError
from envkit.trial.artifacts import write_artifacts
from envkit.trial.result import AttemptResult, Plugin, Status, TrialResult, TrialSpec, UsageTotals
from envkit.trial.store import RunStore, json_text, write_atomic
from envkit.verifier import Criterion, Outcome, Verdict

__all__ = ["export_run", "grades_to_verdict", "import_runs", "read_messages"]

TRAJECTORY, GRADES, VERIFIERS, FIRST = "trajectory.json", "grades.json", "verifiers.json", "initial_messages.json"
_SNAPSHOTS = ("final_snapshot.zip", "final_snapshot.tar.gz", "snapshot.zip", "snapshot.tar.gz")


def import_runs(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """Makes the run `target` of every folder at or below `source` that holds a `trajectory.json`.

    Returns:
        The trials' ids, and what could not be read or kept, with the reason.

    Raises:
        UserError: There is no such file at all, or `target` holds something.
    """
    folders = sorted(path.parent for path in source.rglob(TRAJECTORY))
    if not folders:
        raise UserError(f"{source} holds no {TRAJECTORY}; expected the folders that Archipelago's runs leave")
    if target.exists() and any(target.iterdir()):
        raise UserError(f"{target} is not empty; name a new folder for the run")
    store = RunStore(target)
    specs: list[TrialSpec] = []
    problems: list[str] = []
    seen: dict[tuple[str, str], int] = {}
    for folder in folders:
        try:
            spec, trial, messages = _read(folder, seen)
        except UserError as error:
            problems.append(str(error))
            continue
        specs.append(spec)
        attempt = store.attempt(spec.trial_id, 1)
        attempt.create()
        write_trajectory(
            attempt.folder / TRAJECTORY,
            build_trajectory(
                messages, agent_name="archipelago", agent_version="unknown", task=spec.task, harness="archipelago",
                model=spec.policy.options.get("model"), stop=trial.stop, extra={"imported_from": str(folder)},
            ),
        )  # fmt: skip
        if trial.verdict is not None:
            attempt.write_json("verdict.json", trial.verdict.model_dump(mode="json"))
        problem = _keep_state(folder, spec, attempt.artifacts)
        if problem:
            problems.append(f"{folder}: {problem}")
        attempt.write_result(trial)
        store.write_trial(TrialResult.of(spec, [trial]))
    store.write_plan(specs, {"imported_from": str(source), "envkit_version": __version__})
    return [spec.trial_id for spec in specs], problems


def _read(
    folder: Path, seen: dict[tuple[str, str], int]
) -> tuple[TrialSpec, AttemptResult, list[Message | AssistantMessage]]:
    told = _object(folder / TRAJECTORY)
    messages = read_messages(told.get("messages"), str(folder / TRAJECTORY))
    verifiers = _list(folder / VERIFIERS)
    grades = _object(folder / GRADES) if (folder / GRADES).is_file() else None
    task = next((str(v["task_id"]) for v in verifiers if v.get("task_id")), folder.name)
    model = _model(folder)
    policy = Plugin(name="chat", options={"model": model} if model else {})
    sample = seen[task, model or ""] = seen.get((task, model or ""), -1) + 1
    spec = TrialSpec(
        task=f"apex/{task}", harness=Plugin(name="archipelago"), policy=policy, sample=sample,
        labels={"imported_from": folder.name},
    )  # fmt: skip
    usage: Mapping[str, Any] = told["usage"] if isinstance(told.get("usage"), dict) else {}
    finished = dt.datetime.fromtimestamp((folder / TRAJECTORY).stat().st_mtime, dt.UTC)
    elapsed = told.get("time_elapsed")
    seconds = float(elapsed) if isinstance(elapsed, int | float) and 0 <= elapsed < 1e8 else 0.0
    said = [message for message in messages if isinstance(message, AssistantMessage)]
    status = str(told.get("status") or "")
    attempt = AttemptResult(
        trial_id=spec.trial_id,
        attempt=1,
        task=spec.task,
        task_id=spec.task,
        **_outcome(status, grades, verifiers),
        final_answer=_answer(told, messages),
        usage=UsageTotals(
            prompt_tokens=_count(usage, "prompt_tokens"),
            completion_tokens=_count(usage, "completion_tokens"),
            cached_tokens=_count(usage, "cached_tokens"),
            max_context_tokens=_count(usage, "max_prompt_tokens"),
        ),
        turns=len(said),
        tool_calls=sum(len(message.tool_calls) for message in said),
        started_at=finished - dt.timedelta(seconds=seconds),
        finished_at=finished,
        envkit_version=__version__,
        harness={"name": "archipelago", "imported": True},
        notes=(f"imported from Archipelago's run files; status {status!r}",),
    )
    return spec, attempt, messages


def _outcome(status: str, grades: Mapping[str, Any] | None, verifiers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Status, reward, bounds, failure, stop and verdict of a run."""
    stop = StopReason.ANSWERED if status == "completed" else None
    if status in ("error", "cancelled", "pending", "running"):
        kind = FailureKind.UNKNOWN if status == "error" else FailureKind.CANCELLED
        why = Failure.of(kind, Boundary.HARNESS, f"the run ended with status {status!r}")
        return {"status": Status.FAILED if status == "error" else Status.CANCELLED, "failure": why, "stop": stop}
    if grades is None or grades.get("grading_run_status") != "completed":
        said = "was not graded" if grades is None else f"was graded with status {grades.get('grading_run_status')!r}"
        why = Failure.of(FailureKind.VERIFIER_ERROR, Boundary.VERIFIER, f"the run {said}: it has no verdict")
        return {"status": Status.UNSCORED, "lower": 0.0, "upper": 1.0, "failure": why, "stop": stop}
    verdict = grades_to_verdict(grades, verifiers)
    if verdict.reward is None:
        broken = next((c.failure for c in verdict.criteria if c.failure is not None), None)
        found = {"lower": verdict.lower, "upper": verdict.upper, "failure": broken, "verdict": verdict, "stop": stop}
        return {"status": Status.UNSCORED, **found}
    return {"status": Status.SCORED, "reward": verdict.reward, "verdict": verdict, "stop": stop}


def grades_to_verdict(grades: Mapping[str, Any], verifiers: Sequence[Mapping[str, Any]]) -> Verdict:
    """A `grades.json` as a verdict: the reward is its `final_score`; none where a verifier broke or there is no
    score."""
    criteria: list[Criterion] = []
    by_id = {str(v.get("verifier_id")): v for v in verifiers}
    for number, result in enumerate(grades.get("verifier_results") or (), start=1):
        id = str(result.get("verifier_id") or f"line-{number}")
        values = result.get("verifier_result_values") or {}
        asked = (by_id.get(id, {}).get("verifier_values") or {}).get("criteria") or ""
        score = result.get("score")
        good = result.get("status", "ok") == "ok" and isinstance(score, int | float) and 0 <= score <= 1
        message = str(values.get("grade_rationale") or result.get("message") or "")
        if any(criterion.id == id for criterion in criteria):
            id = f"{id}.{number}"
        criteria.append(
            Criterion(
                id=id,
                description=str(asked),
                outcome=Outcome.MISSING if not good else Outcome.PASSED if float(score) >= 0.99 else Outcome.FAILED,
                score=float(score) if good else None,
                message=message,
                where=str(values["evaluated_artifacts"]) if values.get("evaluated_artifacts") else None,
                failure=None
                if good
                else Failure.of(FailureKind.JUDGE_UNPARSABLE, Boundary.JUDGE, message or "the verifier broke"),
            )
        )
    final = (grades.get("scoring_results") or {}).get("final_score")
    whole = all(criterion.score is not None for criterion in criteria)
    known = [criterion.score for criterion in criteria if criterion.score is not None]
    reward = float(final) if whole and isinstance(final, int | float) else None
    count = max(1, len(criteria))
    return Verdict(
        criteria=tuple(criteria),
        reward=reward,
        lower=None if reward is not None else sum(known) / count,
        upper=None if reward is not None else (sum(known) + len(criteria) - len(known)) / count if criteria else 1.0,
        rewards={"reward": reward} if reward is not None else {},
        verifier="archipelago",
        extra={"grading_run_id": str(grades.get("grading_run_id") or "")},
    )


def read_messages(listed: Any, where: str) -> list[Message | AssistantMessage]:
    """Chat messages as Archipelago stores them. Raises `UserError` where they are none."""
    if not isinstance(listed, list) or not listed:
        raise UserError(f"{where} has no messages")
    out: list[Message | AssistantMessage] = []
    for number, said in enumerate(listed):
        role = said.get("role") if isinstance(said, dict) else None
        if role not in ("system", "developer", "user", "assistant", "tool"):
            raise UserError(f"{where}: message {number} has the role {role!r}")
        text = _text(said.get("content"))
        if role == "assistant":
            calls = [call for call in said.get("tool_calls") or () if isinstance(call, dict)]
            out.append(
                AssistantMessage(
                    text=text,
                    reasoning=said.get("reasoning_content") or None,
                    tool_calls=tuple(
                        ToolCall.parse(
                            str(call.get("id") or f"call-{number}-{place}"),
                            str((call.get("function") or {}).get("name") or ""),
                            _arguments((call.get("function") or {}).get("arguments")),
                        )
                        for place, call in enumerate(calls)
                    ),
                    usage=Usage(),
                )
            )
        elif role == "tool":
            name = said.get("name")
            out.append(
                Message(
                    role="tool", content=text, tool_call_id=said.get("tool_call_id"), name=str(name) if name else None
                )
            )
        else:
            out.append(Message(role="user" if role == "user" else "system", content=text))
    return out


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value or {}, ensure_ascii=False)


def _text(content: Any) -> str:
    """The text of a message's content; of an image only that there was one."""
    if isinstance(content, list):
        parts = [
            str(block.get("text") or "") if block.get("type") == "text" else f"[{block.get('type')}]"
            for block in content
            if isinstance(block, dict)
        ]
        return "\n".join(parts)
    return "" if content is None else str(content)


def _answer(told: Mapping[str, Any], messages: Sequence[Message | AssistantMessage]) -> str | None:
    """The final answer: stated, else what the `final_answer` tool was called with, else the last message's text."""
    if told.get("final_answer"):
        return str(told["final_answer"])
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            call = next((c for c in message.tool_calls if c.name == "final_answer"), None)
            if call is not None and call.arguments:
                return str(call.arguments.get("answer") or call.arguments.get("final_answer") or "") or None
    last = messages[-1]
    return (last.text if isinstance(last, AssistantMessage) else last.content) or None


def _keep_state(folder: Path, spec: TrialSpec, artifacts: Path) -> str | None:
    """Keeps the final snapshot as artifacts, where there is one and the initial world can be had; else why not."""
    archive = next((folder / name for name in _SNAPSHOTS if (folder / name).is_file()), None)
    if archive is None:
        return None
    try:
        pack, task = registry.find(spec.task)
        initial = pack.world(task)
        with tempfile.TemporaryDirectory(prefix="envkit-apex-") as scratch:
            final = Path(scratch) / "final.tar"
            with Snapshot.from_archive(archive) as state, tarfile.open(final, "w", format=tarfile.PAX_FORMAT) as out:
                for entry in state.entries.values():
                    if entry.kind is Kind.FILE:
                        with state.open(entry.path) as content, tempfile.TemporaryFile(dir=scratch) as held:
                            shutil.copyfileobj(content, held)
                            info = tarfile.TarInfo(entry.path)
                            info.size, info.mode = held.tell(), 0o755 if entry.executable else 0o644
                            held.seek(0)
                            out.addfile(info, held)
            write_artifacts(final, initial, artifacts)
    except (EnvkitError, SnapshotError, OSError, tarfile.TarError) as error:
        return f"its final snapshot is not kept, so it can't be judged anew: {error}"
    return None


def _model(folder: Path) -> str | None:
    path = folder / "orchestrator_config.json"
    return str(_object(path).get("model") or "") or None if path.is_file() else None


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _object(path: Path) -> dict[str, Any]:
    value = _json(path)
    if not isinstance(value, dict):
        raise UserError(f"{path} must hold an object, found {type(value).__name__}")
    return value


def _list(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    value = _json(path)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} can't be read as JSON: {error}") from error


def export_run(run: Path, target: Path) -> list[Path]:
    """Writes every finished trial of a run as a folder of Archipelago's files below the new folder `target`.

    Raises:
        UserError: `run` holds none, or `target` holds something.
    """
    stored = StoredRun(run)
    if target.exists() and any(target.iterdir()):
        raise UserError(f"{target} is not empty; name a new folder")
    written: list[Path] = []
    for result in stored.results():
        folder = target / result.trial_id
        folder.mkdir(parents=True)
        place = stored.attempt_folder(result.trial_id, result.attempts[-1].attempt) / TRAJECTORY
        messages = to_messages(read_trajectory(place)) if place.is_file() else []
        first = next((n for n, m in enumerate(messages) if isinstance(m, AssistantMessage)), len(messages))
        _write(folder / FIRST, [_stored(message) for message in messages[:first]])
        _write(folder / TRAJECTORY, _trajectory(result, messages))
        world = result.spec.task.rpartition("/")[2]
        _write(folder / VERIFIERS, [_verifier(c, n, world) for n, c in enumerate(_criteria(result))])
        _write(folder / GRADES, _grades(result))
        model = result.spec.policy.options.get("model") or result.spec.policy.name
        _write(folder / "orchestrator_config.json", {"model": str(model)})
        written.append(folder)
    return written


def _criteria(result: TrialResult) -> tuple[Criterion, ...]:
    return result.verdict.criteria if result.verdict is not None else ()


def _trajectory(result: TrialResult, messages: Sequence[Message | AssistantMessage]) -> dict[str, Any]:
    status = {Status.CANCELLED: "cancelled", Status.FAILED: "error"}.get(
        result.status, "failed" if result.stop is not None and result.stop.truncated else "completed"
    )
    used = result.usage
    return {
        "messages": [_stored(message) for message in messages],
        "output": None,
        "status": status,
        "time_elapsed": (result.finished_at - result.started_at).total_seconds(),
        "usage": {
            "prompt_tokens": used.prompt_tokens or 0,
            "completion_tokens": used.completion_tokens or 0,
            "total_tokens": (used.prompt_tokens or 0) + (used.completion_tokens or 0),
            "max_prompt_tokens": used.max_context_tokens or 0,
            "cached_tokens": used.cached_tokens or 0,
        },
        "final_answer": result.final_answer,
    }


def _stored(message: Message | AssistantMessage) -> dict[str, Any]:
    said = message.to_openai()
    if isinstance(message, AssistantMessage) and message.reasoning:
        said["reasoning_content"] = message.reasoning
    if isinstance(message, Message) and message.role == "tool":
        said["content"] = [{"type": "text", "text": message.plain}]
    return said


def _verifier(criterion: Criterion, number: int, task: str) -> dict[str, Any]:
    return {
        "verifier_id": criterion.id,
        "verifier_version": 1,
        "world_id": None,
        "task_id": task,
        "eval_config_id": "ec_output_llm",
        "verifier_values": {
            "criteria": criterion.description or criterion.expected or criterion.id,
            "is_primary_objective": number == 0,
        },
        "verifier_index": number,
        "verifier_dependencies": None,
    }


def _grades(result: TrialResult) -> dict[str, Any]:
    """Without a reward the grading is an error, as there; its score of 0 is what that form asks for, and no reward."""
    return {
        "grading_run_id": f"gr_{result.trial_id}",
        "grading_run_status": "completed" if result.reward is not None else "error",
        "verifier_results": [
            {
                "verifier_id": c.id,
                "verifier_version": 1,
                "score": c.score if c.score is not None else 0.0,
                "verifier_result_values": {
                    "judge_grade": "pass" if c.outcome is Outcome.PASSED else "fail",
                    "grade_rationale": c.message,
                    "evaluated_artifacts": c.where or "",
                },
                "status": "error" if c.score is None else "ok",
                "message": c.failure.message if c.failure is not None else "",
            }
            for c in _criteria(result)
        ],
        "scoring_results": {"final_score": result.reward or 0.0, "scoring_method_result_values": {}},
    }


def _write(path: Path, value: Any) -> None:
    write_atomic(path, json_text(value), durable=False)
