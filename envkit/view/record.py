"""One trial for a page: its record, each attempt's, the criteria with their evidence, and what else lies in its folder.

Read leniently: a record of an older or a newer envkit, or a torn one, is shown as far as it goes, and what is wrong
with it is said. Texts are cut to what a page can hold; the files themselves say more. Used by the viewer's pages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from envkit.failure import EnvkitError
from envkit.view.index import attempt_numbers, listed, load_json, load_record

__all__ = ["attempt_folder", "read_log", "trial_detail"]

#: Characters of one field of a criterion, and of other texts of a record.
_FIELD, _TEXT = 4_000, 40_000
_CRITERIA = 2_000
#: Weights beyond it are nonsense, and in no sum.
_MOST = 1e100
#: Of an attempt, that a page reads from.
_PARTS = ("", "artifacts", "logs", "logs/trace")
#: Bytes of a log that are shown at a time.
LOG_PAGE = 200_000


def attempt_folder(trial: Path, attempt: int) -> Path:
    """Where an attempt lies, which may be nowhere.

    Raises:
        EnvkitError: A link in it leads out of the run.
    """
    folder = trial / f"attempt-{attempt}"
    for part in _PARTS:
        if (folder / part).is_symlink():
            raise EnvkitError(f"{folder / part} is a link; expected a folder, since what it leads to is not the run's")
    return folder


def trial_detail(trial: Path, attempt: int | None = None) -> dict[str, Any]:
    """Everything about a trial but its conversation, files and tokens.

    Args:
        attempt: Whose verdict and answer are shown; None for the one that decided.
    """
    record = load_record(trial) or {}
    numbers = attempt_numbers(trial)
    decided = _decided_by(record, numbers)
    number = attempt if attempt in numbers else decided
    folder = attempt_folder(trial, number)
    own = load_json(folder / "result.json") or {}
    # Of the attempt that decided, the trial's record is as good; of another, only its own will do.
    shown = own or (record if number == decided else {})
    verdict = shown.get("verdict") or load_json(folder / "verdict.json")
    return {
        "status": record.get("status") or "running",
        "reward": record.get("reward"),
        "attempt": number,
        "decided": decided,
        "attempts": [_attempt(trial, n, record) for n in numbers],
        "spec": _cut(record.get("spec")),
        "task": _text(record, "task_id") or _nested(record, "spec", "task") or _text(own, "task") or trial.name,
        "outcome": {
            key: _cut(shown.get(key))
            for key in (
                "status", "reward", "lower", "upper", "failure", "stop", "final_answer", "answer_status", "usage",
                "turns", "tool_calls", "timings", "started_at", "finished_at", "missing", "notes", "process",
                "task_digest", "envkit_version", "harness", "policy", "sandbox", "seed",
            )
        },
        "verdict": _verdict(verdict),
        "steps": [
            {"name": _text(step, "name"), "stop": step.get("stop"), "verdict": _verdict(step.get("verdict"))}
            for step in listed(shown, "steps")
            if isinstance(step, dict)
        ],
        "regrades": _regrades(folder),
        "logs": list(_logs(folder)),
        "has": {
            "conversation": (folder / "trajectory.json").is_file(),
            "files": (folder / "artifacts" / "manifest.json").is_file(),
            "tokens": any((folder / "logs" / "trace" / n).is_file() for n in ("trace.json", "trace.journal")),
        },
    }  # fmt: skip


def read_log(folder: Path, name: str, offset: int) -> dict[str, Any]:
    """A piece of one of an attempt's logs; a negative offset counts from its end.

    Raises:
        FileNotFoundError: It is not among the attempt's logs.
    """
    if name not in {log["name"] for log in _logs(folder)}:
        raise FileNotFoundError(name)
    with (folder / "logs" / name).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = max(0, size + offset) if offset < 0 else min(offset, size)
        file.seek(start)
        data = file.read(LOG_PAGE)
    return {"name": name, "size": size, "start": start, "end": start + len(data), "text": data.decode(errors="replace")}


def _decided_by(record: Mapping[str, Any], numbers: list[int]) -> int:
    same = [
        a["attempt"]
        for a in listed(record, "attempts")
        if isinstance(a, dict) and a.get("status") == record.get("status") and a.get("attempt") in numbers
    ]
    return int(same[-1]) if same else numbers[-1] if numbers else 1


def _attempt(trial: Path, number: int, record: Mapping[str, Any]) -> dict[str, Any]:
    for summary in listed(record, "attempts"):
        if isinstance(summary, dict) and summary.get("attempt") == number:
            return {"number": number, **_cut({k: v for k, v in summary.items() if k != "attempt"})}
    own = load_json(attempt_folder(trial, number) / "result.json") or {}
    failure = own.get("failure") if isinstance(own.get("failure"), dict) else {}
    return {
        "number": number,
        "status": own.get("status", "running"),
        "reward": own.get("reward"),
        "failure_kind": (failure or {}).get("kind"),
        "failure_message": _cut((failure or {}).get("message")),
    }


def _verdict(verdict: Any) -> dict[str, Any] | None:
    if not isinstance(verdict, dict):
        return None
    criteria = [c for c in listed(verdict, "criteria") if isinstance(c, dict)]
    weights = sum(w for c in criteria if isinstance(w := c.get("weight"), int | float) and 0 <= w < _MOST)
    return {
        "reward": verdict.get("reward"),
        "lower": verdict.get("lower"),
        "upper": verdict.get("upper"),
        "rewards": _cut(verdict.get("rewards")),
        "verifier": verdict.get("verifier"),
        "extra": _cut(verdict.get("extra")),
        "weights": weights,
        "count": len(criteria),
        "criteria": [_cut(c, _FIELD) for c in criteria[:_CRITERIA]],
    }


def _regrades(folder: Path) -> list[dict[str, Any]]:
    out = []
    try:
        names = sorted(n for n in os.listdir(folder) if n.startswith("regrade-"))
    except OSError:
        return []
    for name in names[:50]:
        regrade = load_json(folder / name / "regrade.json")
        if regrade is not None:
            out.append({"name": name, **_cut(regrade), "verdict": _verdict(load_json(folder / name / "verdict.json"))})
    return out


def _logs(folder: Path) -> Iterator[dict[str, Any]]:
    """Text files below `logs/`, links left out; where the trace lies is the token view's."""
    root = folder / "logs"
    count = 0
    for place, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f != "trace" and not os.path.islink(os.path.join(place, f)))
        for name in sorted(files):
            path = Path(place, name)
            if path.is_symlink() or not path.is_file() or path.suffix in (".tar", ".gz", ".safetensors"):
                continue
            yield {"name": path.relative_to(root).as_posix(), "size": path.stat().st_size}
            count += 1
            if count >= 200:
                return


def _nested(value: Mapping[str, Any], *keys: str) -> Any:
    found: Any = value
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _text(value: Mapping[str, Any], key: str) -> str | None:
    found = value.get(key)
    return found if isinstance(found, str) else None


def _cut(value: Any, limit: int = _TEXT, levels: int = 12) -> Any:
    """A JSON value with its long texts and lists cut."""
    if isinstance(value, str):
        return value if len(value) <= limit else f"{value[:limit]}… ({len(value):,} characters)"
    if levels < 1:
        return "…"
    if isinstance(value, dict):
        return {str(k)[:500]: _cut(v, limit, levels - 1) for k, v in list(value.items())[:500]}
    if isinstance(value, list):
        return [_cut(v, limit, levels - 1) for v in value[:500]]
    return value
