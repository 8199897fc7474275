"""The trials of a run, as a list needs them: read from `results.jsonl` as it grows, deepened from the records.

The first look costs one pass over `results.jsonl` (a line per trial); every later one reads only what was appended. A
file that was written anew (a resumed job does that) is read from its start. Trials whose folder is there and whose line
is not are running, or were left behind by a job that was killed before it wrote the line. What the lines don't say
(tokens, cost, the failure's words, criteria that failed, the answer) comes from the records, read once each by a thread
behind the first page, which stands aside while anything is asked for. A training run has no such lines: its trials are
the rollouts whose files were kept, and their model is the version of the weights. Thread-safe. Used by the viewer's
pages.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from envkit.regular_file import open_regular, read_regular
from envkit.trial.kept import is_training_run, rollout_folders
from envkit.trial.server import process_age

__all__ = ["Row", "RunIndex", "attempt_numbers", "listed", "load_json", "load_record"]

_TEXTS = ("task", "policy", "harness", "status", "failure", "stop", "finished")
_NUMBERS = ("sample", "reward", "turns", "attempts")
#: One trial in the list: JSON-shaped.
Row = dict[str, Any]

#: Bytes of `results.jsonl` that are looked at in one go: a hundred thousand lines; no line is longer.
_CHUNK = 64 << 20
#: No figure of ours comes near it; sums of any number of them are figures.
_MOST = 1e100
#: Characters of a record that a search for text looks at.
_SEARCHED = 4000
#: Running trials are looked for this often at most, in seconds.
_LOOK_S = 1.0
#: The longest that the reading of records waits for those who ask, in seconds, between twenty of them.
_ASIDE_S = 0.5


class RunIndex:
    """The list of one run's trials.

    Args:
        folder: The run's.
        busy: Whether somebody waits for an answer: records are read when nobody does.
    """

    def __init__(self, folder: Path, busy: Callable[[], bool] = lambda: False) -> None:
        self.folder = folder
        self._busy = busy
        self._lock = threading.RLock()
        self._rows: dict[str, Row] = {}
        self._running: dict[str, Row] = {}
        self._rollouts: dict[str, Path] = {}
        self._texts: dict[str, str] = {}
        self._version = 0
        self._offset = 0
        self._inode = -1
        self._looked_s = -_LOOK_S
        self._look_every_s = _LOOK_S
        self._deepener: threading.Thread | None = None
        self._plan: dict[str, Any] | None = None
        self._planned: int | None = None
        self.damaged_lines = 0

    # -- reading ------------------------------------------------------------------------------------------------------

    def refresh(self) -> int:
        """Reads what has come since the last time; returns the version, which grows where anything has changed."""
        with self._lock:
            self._read_lines()
            begun_s = time.monotonic()
            if begun_s - self._looked_s >= self._look_every_s:
                self._look_for_others()
                self._looked_s = time.monotonic()
                # A training run that keeps every rollout has as many folders: looking takes a small share of the time.
                self._look_every_s = max(_LOOK_S, 20 * (self._looked_s - begun_s))
            return self._version

    def rows(self) -> list[Row]:
        """Every trial known, the finished ones in the order in which they finished."""
        self.refresh()
        with self._lock:
            return [*self._rows.values(), *self._running.values()]

    def row(self, trial_id: str) -> Row | None:
        self.refresh()
        with self._lock:
            return self._rows.get(trial_id) or self._running.get(trial_id)

    def folder_of(self, trial_id: str) -> Path | None:
        """Where a trial that is known lies; None where there is none of this name."""
        if self.row(trial_id) is None:
            return None
        return self._rollouts.get(trial_id) or self.folder / "trials" / trial_id

    def text(self, trial_id: str) -> str:
        """What a search for text looks at beside the row, in lower case; empty until the record was read."""
        return self._texts.get(trial_id, "")

    @property
    def searched(self) -> int:
        """Of how many trials the records were read."""
        return len(self._texts)

    @property
    def planned(self) -> int | None:
        """How many trials the plan has; None while it is being read, and where there is none."""
        return self._planned

    @property
    def kept(self) -> bool:
        """Whether these are a training run's rollouts, of which only some were kept."""
        return bool(self._rollouts)

    @property
    def about(self) -> dict[str, Any]:
        """What the plan says beside its trials."""
        return dict(self._plan or {})

    def live(self) -> bool:
        """Whether the job that holds the folder is at work."""
        try:
            owner = read_regular(self.folder / "job.lock", 64).decode().strip()
        except (OSError, ValueError):
            return False
        return owner.isdecimal() and process_age(int(owner)) is not None and not self._complete()

    def _complete(self) -> bool:
        return self._planned is not None and len(self._rows) >= self._planned

    def _read_lines(self) -> None:
        while self._read_some_lines():
            pass

    def _read_some_lines(self) -> bool:
        """Whether there may be more."""
        path = self.folder / "results.jsonl"
        try:
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or status.st_size < self._offset:
                    self._inode, self._offset = status.st_ino, 0
                    if self._rows:
                        self._rows.clear()
                        self._version += 1
                if status.st_size == self._offset:
                    return False
                file.seek(self._offset)
                data = file.read(_CHUNK)
        except OSError:  # it is not there, or no file
            return False
        end = data.rfind(b"\n") + 1  # a line that is being written is left for the next time
        if not end and len(data) == _CHUNK:
            self.damaged_lines += 1
            end = len(data)
        self._offset += end
        for line in _parsed(data[:end]):
            try:
                self._take(line)
            except (TypeError, KeyError):
                self.damaged_lines += 1
        if end:
            self._version += 1
        return len(data) == _CHUNK

    def _take(self, line: Mapping[str, Any]) -> None:
        trial_id = line["trial_id"]
        if not isinstance(trial_id, str):
            raise TypeError("trial_id is no text")
        get = line.get
        row: Row = {
            "id": trial_id, "task": get("task"), "sample": get("sample"), "policy": get("policy"),
            "harness": get("harness"), "status": get("status"), "reward": get("reward"), "failure": get("failure"),
            "stop": get("stop"), "turns": get("turns"), "attempts": get("attempts"), "finished": get("finished_at"),
        }  # fmt: skip
        before = self._rows.get(trial_id)
        if before is not None and before.get("finished") == row["finished"]:
            row = {**before, **row}
        elif before is not None:
            self._texts.pop(trial_id, None)
        self._rows[trial_id] = _sane(row)
        self._running.pop(trial_id, None)

    def _look_for_others(self) -> None:
        """Trials whose folder is there and whose line is not."""
        try:
            if is_training_run(self.folder):
                self._look_for_rollouts()
                return
            names = {e.name for e in os.scandir(self.folder / "trials") if e.is_dir(follow_symlinks=False)}
        except OSError:
            return
        changed = False
        for name in sorted(names - self._rows.keys()):
            record = load_record(self.folder / "trials" / name)
            if record is not None:
                self._rows[name] = _sane(_row_of_record(name, record))
                self._running.pop(name, None)
                changed = True
            elif name not in self._running:
                task, _, rest = name.rpartition(".")
                self._running[name] = {
                    "id": name, "task": task.rpartition(".")[0] or name, "sample": _number(task.rpartition(".")[2]),
                    "policy": None, "harness": None, "status": "running", "reward": None, "failure": None,
                    "stop": None, "turns": None, "attempts": None, "finished": None,
                }  # fmt: skip
                changed = changed or bool(rest)
        for name in [n for n in self._running if n not in names]:
            del self._running[name]
            changed = True
        self._version += changed

    def _look_for_rollouts(self) -> None:
        """Rollouts of a training run: those that ended stay as they are, the others are looked at again."""
        found = {"~".join(path.parts[-3:]): path for path in rollout_folders(self.folder)}
        gone = (self._rows.keys() | self._running.keys()) - found.keys()
        for name in gone:
            self._rows.pop(name, None)
            self._running.pop(name, None)
            self._texts.pop(name, None)
        changed = bool(gone)
        for name in found.keys() - self._rows.keys() | self._tried_again(found):
            version, group, sample = found[name].parts[-3:]
            record = load_record(found[name])
            row = _row_of_record(name, record or {"status": "running", "task": group})
            row |= {"sample": _number(sample), "model": version.replace("-", " at ")}
            changed = changed or record is not None or name not in self._running
            self._running.pop(name, None)
            self._texts.pop(name, None)
            (self._running if record is None else self._rows)[name] = _sane(row)
        self._rollouts = found
        self._version += changed

    def _tried_again(self, found: Mapping[str, Path]) -> set[str]:
        """Rollouts that ended without a verdict, and of which another attempt has left a record since."""
        ended = [(name, row) for name, row in self._rows.items() if row.get("reward") is None and name in found]
        out = set()
        for name, row in ended:
            later = [n for n in attempt_numbers(found[name]) if n > (row.get("attempts") or 0)]
            if any((found[name] / f"attempt-{n}" / "result.json").exists() for n in later):
                out.add(name)
        return out

    # -- the records behind -------------------------------------------------------------------------------------------

    def deepen(self) -> None:
        """Begins to read the records in a thread, where that was not done yet; returns at once."""
        with self._lock:
            if self._deepener is not None and self._deepener.is_alive():
                return
            if self._plan is not None and len(self._texts) >= len(self._rows):
                return
            self._deepener = threading.Thread(target=self._deepen, name=f"records of {self.folder.name}", daemon=True)
            self._deepener.start()

    def deepened(self, timeout_s: float | None = None) -> bool:
        """Waits for the thread; whether it is done."""
        thread = self._deepener
        if thread is not None:
            thread.join(timeout_s)
        return thread is None or not thread.is_alive()

    def _deepen(self) -> None:
        if self._plan is None:
            plan = load_json(self.folder / "job.json") or load_json(self.folder / "plan.json") or {}
            trials = plan.pop("trials", None)
            with self._lock:
                self._planned = len(trials) if isinstance(trials, list) else None
                self._plan = plan
                self._version += 1
        for number, trial_id in enumerate([i for i in list(self._rows) if i not in self._texts]):
            folder = self.folder_of(trial_id)
            record = (load_record(folder) if folder is not None else None) or {}
            more, text = _depth(record)
            with self._lock:
                if trial_id in self._rows:
                    self._rows[trial_id].update(more)
                self._texts[trial_id] = text
                if number % 500 == 0:
                    self._version += 1
            if number % 20 == 0:
                self._stand_aside()
        with self._lock:
            self._version += 1

    def _stand_aside(self) -> None:
        """Pages come first; but however much is asked for, the records are read some day."""
        end = time.monotonic() + _ASIDE_S
        time.sleep(0.001)
        while self._busy() and time.monotonic() < end:
            time.sleep(0.02)


def _parsed(data: bytes) -> list[Any]:
    """The values of lines of JSON, None for a damaged one: all at once where none is, which is several times faster."""
    lines = data.splitlines()
    with contextlib.suppress(ValueError, RecursionError):
        found: list[Any] = json.loads(b"[" + b",".join(lines) + b"]")
        if len(found) == len(lines):
            return found
    out: list[Any] = []
    for line in lines:
        try:
            out.append(json.loads(line))
        except (ValueError, RecursionError):
            out.append(None)
    return out


def load_json(path: Path) -> dict[str, Any] | None:
    """A file's JSON object; None where it is not there, or is none."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        value = json.loads(read_regular(path, links=False))
        if isinstance(value, dict):
            return value
    return None


def attempt_numbers(trial: Path) -> list[int]:
    """The attempts that have a folder, in order; one that is a link is none."""
    try:
        with os.scandir(trial) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(int(n[8:]) for n in names if n.startswith("attempt-") and n[8:].isascii() and n[8:].isdigit())


def load_record(trial: Path) -> dict[str, Any] | None:
    """A trial's record; of a training's rollout, which has none, its last attempt's."""
    record = load_json(trial / "result.json")
    if record is not None:
        return record if record.get("trial_id") == trial.name else None
    for number in reversed(attempt_numbers(trial)):
        record = load_json(trial / f"attempt-{number}" / "result.json")
        if record is not None:
            return record
    return None


def _row_of_record(name: str, record: Mapping[str, Any]) -> Row:
    spec, failure = record.get("spec"), record.get("failure")
    return {
        "id": name,
        "task": _get(spec, "task") or record.get("task_id") or record.get("task"),
        "sample": _get(spec, "sample"),
        "policy": _get(_get(spec, "policy") or record.get("policy"), "name"),
        "harness": _get(_get(spec, "harness") or record.get("harness"), "name"),
        "status": record.get("status"),
        "reward": record.get("reward"),
        "failure": _get(failure, "kind"),
        "stop": record.get("stop"),
        "turns": record.get("turns"),
        "attempts": len(listed(record, "attempts")) or record.get("attempt"),
        "finished": record.get("finished_at"),
    }


def _depth(record: Mapping[str, Any]) -> tuple[Row, str]:
    """What a record adds to a row, and the text that is searched."""
    usage = record.get("usage")
    spec = record.get("spec")
    failure = record.get("failure")
    verdict = record.get("verdict")
    criteria = _get(verdict, "criteria")
    failed = [c for c in criteria if _get(c, "outcome") != "passed"] if isinstance(criteria, list) else []
    model = _get(_get(_get(spec, "policy"), "options"), "model")
    more: Row = {
        "tokens": _spent(record, "completion_tokens"),
        "context": _number(_get(usage, "max_context_tokens")),
        "cost": _spent(record, "cost_usd"),
        "calls": _number(record.get("tool_calls")),
        "seconds": _seconds(record),
        "criteria": len(criteria) if isinstance(criteria, list) else None,
        "failed_criteria": len(failed),
    }
    if model is not None:
        more["model"] = str(model)[:200]
    words = [_get(failure, "message"), record.get("final_answer")]
    words += [_get(c, key) for c in failed[:40] for key in ("id", "description", "message", "where")]
    return more, "\n".join(str(w)[:_SEARCHED] for w in words if w).lower()[:_SEARCHED] or "-"


def _spent(record: Mapping[str, Any], name: str) -> Any:
    """Of all attempts of a trial together (`TrialResult.spent`); an attempt's own record has only its own."""
    attempts = record.get("attempts")
    if not isinstance(attempts, list):
        return _number(_get(record.get("usage"), name))
    found = [value for attempt in attempts if (value := _number(_get(_get(attempt, "usage"), name))) is not None]
    return sum(found) if found else None


def _seconds(record: Mapping[str, Any]) -> float | None:
    try:
        begun, ended = (dt.datetime.fromisoformat(str(record.get(key))) for key in ("started_at", "finished_at"))
        return round((ended - begun).total_seconds(), 3)
    except (ValueError, TypeError):
        return None


def listed(value: Mapping[str, Any], key: str) -> list[Any]:
    """A list in an object; an empty one for whatever else is there."""
    found = value.get(key)
    return found if isinstance(found, list) else []


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _number(value: Any) -> Any:
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 12 else None
    plain = isinstance(value, int | float) and not isinstance(value, bool) and -_MOST < value < _MOST
    return value if plain else None


def _sane(row: Row) -> Row:
    """A row whose fields are of the types that sorting needs, whatever the file said."""
    for key in _TEXTS:
        value = row.get(key)
        if type(value) is not str and value is not None:
            row[key] = str(value)[:200]
    for key in _NUMBERS:
        value = row.get(key)
        if value is not None and not (type(value) in (int, float) and -_MOST < value < _MOST):
            row[key] = _number(value)
    return row
