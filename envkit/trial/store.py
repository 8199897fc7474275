"""The run folder: plain files, written so that a reader never sees half of one.

    run/
      job.json                      the plan: every trial's spec
      job.lock                      held by the job and its trial processes while any of them lives
      results.jsonl                 a line per finished trial, for live views; rebuilt from the records on resume
      server.log
      trials/<trial-id>/
        result.json                 the trial's record: the truth
        attempt-1/                  kept for good, one folder per attempt
          result.json  verdict.json  trajectory.json  artifacts/  logs/

Every file appears whole: written beside its place and renamed. What resume relies on (the plan and the records, which
hold the verdict) is also flushed to disk, file and folder; the other evidence may be missing after the machine lost
power, never after a process was killed. A file that is torn or unreadable all the same counts as not there and is
reported. A full disk is `DISK_FULL`, never a half-written result. Known secrets are taken out of every text before it
gets its name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from envkit.failure import EnvkitError, FailureKind, UserError
from envkit.messages import well_formed
from envkit.regular_file import NotRegular, read_regular
from envkit.trial.result import SCHEMA_VERSION, AttemptResult, TrialResult, TrialSpec
from envkit.trial.server import process_age

__all__ = ["AttemptStore", "Damage", "RunLock", "RunStore", "has_room", "read_record", "write_atomic"]

#: With less room than this on a disk, whatever is run there will fail of it.
_ROOM_BYTES = 64 << 20

#: Of `write_atomic`, of an attempt's files on their way here (`shipment`) and of its artifacts.
_PARTIAL = re.compile(r"\..+\.\d+\.tmp|\.attempt-\d+\.tar|\.changed\.partial")

M = TypeVar("M", bound=BaseModel)
Scrub = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that was there and could not be read as what it should be; it counts as not there."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def write_atomic(path: Path, data: bytes | str, *, durable: bool = True) -> None:
    """Writes a file so that it exists whole or not at all.

    Args:
        durable: Also after a crash of the machine: the file and its name are flushed to disk, which takes two commits.

    Raises:
        EnvkitError: `DISK_FULL`; what was there before is untouched.
    """
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            view = memoryview(raw)
            while view:
                view = view[os.write(descriptor, view) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
        if durable:
            flush_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise disk_error(error, path) from error


def has_room(folder: Path) -> bool:
    """Whether the disk of a folder has room for more trials' results."""
    return shutil.disk_usage(folder).free >= _ROOM_BYTES


def json_text(value: Any) -> str:
    """JSON that every reader takes, whatever an agent wrote: lone surrogates become U+FFFD and non-finite numbers
    text. No verdict is lost because an answer can't be encoded."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return well_formed(text)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def flush_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_error(error: OSError, path: Path) -> Exception:
    """`DISK_FULL` for an error that says so; any other error unchanged."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EnvkitError(
            f"no room left on the disk while writing {path}: free some space, then resume the job; "
            "what was finished before is kept",
            kind=FailureKind.DISK_FULL,
        )
    return error


def read_record(path: Path, model: type[M], damaged: list[Damage], *, trial_id: str | None = None) -> M | None:
    """Reads one JSON record; None where it is not there or damaged (appended to `damaged`, once).

    Args:
        trial_id: The trial that it must be of: a record that was copied from another one's folder is damage.

    Raises:
        UserError: The record was written by a newer envkit; overwriting it would lose something.
    """

    def damage(reason: str) -> None:
        found = Damage(path, reason)
        if found not in damaged:
            damaged.append(found)

    try:
        raw = read_regular(path)
    except FileNotFoundError:
        return None
    except (NotRegular, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        damage(error.strerror or str(error))
        return None
    try:
        value = json.loads(raw)
        version = value.get("schema_version", SCHEMA_VERSION) if isinstance(value, dict) else SCHEMA_VERSION
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise UserError(
                f"{path} has schema version {version}; this envkit reads up to {SCHEMA_VERSION}: use a newer envkit"
            )
        record = model.model_validate_json(raw)
    except ValidationError as error:
        damage("; ".join(f"{'.'.join(map(str, e['loc'])) or 'record'}: {e['msg']}" for e in error.errors()[:3]))
        return None
    except (ValueError, RecursionError) as error:
        damage(str(error).splitlines()[0] if str(error) else type(error).__name__)
        return None
    if trial_id is not None and getattr(record, "trial_id", None) != trial_id:
        damage(f"it is the record of another trial, {getattr(record, 'trial_id', None)}")
        return None
    return record


class AttemptStore:
    """One attempt's folder."""

    def __init__(self, folder: Path, scrub: Scrub) -> None:
        self.folder = folder
        self._scrub = scrub

    def create(self) -> None:
        """Makes the folder with its `logs/`."""
        try:
            (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk_error(error, self.folder) from error

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    def write_json(self, name: str, value: Any) -> None:
        """Writes a JSON file of the attempt (`trajectory.json`, `verdict.json`)."""
        write_atomic(self.folder / name, self._scrub(json_text(value)), durable=False)

    def write_result(self, result: AttemptResult) -> None:
        """Writes the record. Comes last: where it is, everything else of the attempt is."""
        write_atomic(self.folder / "result.json", self._scrub(json_text(result.model_dump(mode="json"))))


class RunStore:
    """The folder of one run. Knows where everything is; every lookup costs the same with 10 or 10,000 trials."""

    def __init__(self, folder: Path, scrub: Scrub | None = None) -> None:
        self.folder = folder
        self._scrub: Scrub = scrub if scrub is not None else (lambda text: text)
        self.damaged: list[Damage] = []

    # -- the plan ---------------------------------------------------------------------------------------------------

    def write_plan(self, specs: Iterable[TrialSpec], about: dict[str, Any]) -> None:
        """Writes `job.json`, one spec a line so that a person can read and diff it."""
        lines = ",\n".join(json.dumps(s.model_dump(mode="json"), ensure_ascii=False) for s in specs)
        head = json.dumps({"schema_version": SCHEMA_VERSION, **about}, ensure_ascii=False)
        try:
            (self.folder / "trials").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk_error(error, self.folder) from error
        write_atomic(self.folder / "job.json", self._scrub(f'{head[:-1]}, "trials": [\n{lines}\n]}}\n'))

    def read_plan(self) -> dict[str, Any] | None:
        """The plan as it was written; None for a fresh folder. Raises `UserError` for a damaged one."""
        path = self.folder / "job.json"
        try:
            plan = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise UserError(
                f"{path} is not valid JSON ({error}): without the plan this folder can't be resumed; use another folder"
            ) from error
        if not isinstance(plan, dict) or not isinstance(plan.get("trials"), list):
            raise UserError(f"{path} is not a plan of ours (no list 'trials'): use another folder")
        for number, spec in enumerate(plan["trials"]):
            try:
                TrialSpec.model_validate(spec)
            except ValidationError as error:
                first = error.errors()[0]
                raise UserError(
                    f"{path} is not a plan that this envkit reads: trial {number + 1}: "
                    f"{'.'.join(map(str, first['loc'])) or 'spec'}: {first['msg']}. Use another folder"
                ) from error
        return plan

    def scrubbed(self, value: Any) -> Any:
        """A JSON value as it reads after scrubbing; a resumed plan is compared in this form."""
        return json.loads(self._scrub(json.dumps(value, ensure_ascii=False)))

    # -- trials -----------------------------------------------------------------------------------------------------

    def trial_folder(self, trial_id: str) -> Path:
        return self.folder / "trials" / trial_id

    def attempt(self, trial_id: str, number: int) -> AttemptStore:
        return AttemptStore(self.trial_folder(trial_id) / f"attempt-{number}", self._scrub)

    def attempts(self, trial_id: str) -> list[AttemptResult]:
        """Records of the attempts that left one, in order."""
        found = []
        for number in self._attempt_numbers(trial_id):
            path = self.trial_folder(trial_id) / f"attempt-{number}" / "result.json"
            record = read_record(path, AttemptResult, self.damaged, trial_id=trial_id)
            if record is not None:
                found.append(record)
        return found

    def next_attempt(self, trial_id: str) -> int:
        """The first number above every attempt's, with or without a record: no attempt's evidence is overwritten."""
        return max(self._attempt_numbers(trial_id), default=0) + 1

    def drop_snapshots(self, trial_id: str) -> None:
        """Removes the final states that killed attempts left beside their logs: large, and nothing reads them."""
        for number in self._attempt_numbers(trial_id):
            for name in ("final.tar", "final.partial", "work.tar", "work.partial"):
                with contextlib.suppress(NotADirectoryError):
                    (self.trial_folder(trial_id) / f"attempt-{number}" / "logs" / name).unlink(missing_ok=True)

    def drop_partial(self) -> None:
        """Removes what writers that were killed left half written. Only for the holder of the folder's lock."""
        trials = self.folder / "trials"
        for folder in [self.folder, *sorted(trials.iterdir() if trials.is_dir() else ())]:
            if folder.is_dir():
                numbers = self._attempt_numbers(folder.name) if folder != self.folder else []
                attempts = [folder / f"attempt-{number}" for number in numbers]
                artifacts = [Path(place) for a in attempts for place, *_ in os.walk(a / "artifacts")]
                for place in [folder, *attempts, *artifacts]:
                    for entry in os.listdir(place) if place.is_dir() else ():
                        if _PARTIAL.fullmatch(entry):
                            (place / entry).unlink(missing_ok=True)

    def _attempt_numbers(self, trial_id: str) -> list[int]:
        try:
            names = os.listdir(self.trial_folder(trial_id))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(n[8:]) for n in names if n.startswith("attempt-") and n[8:].isdigit())

    def read_attempt(self, trial_id: str, number: int) -> AttemptResult | None:
        path = self.trial_folder(trial_id) / f"attempt-{number}" / "result.json"
        return read_record(path, AttemptResult, self.damaged, trial_id=trial_id)

    def read_trial(self, trial_id: str) -> TrialResult | None:
        path = self.trial_folder(trial_id) / "result.json"
        return read_record(path, TrialResult, self.damaged, trial_id=trial_id)

    def write_trial(self, result: TrialResult) -> None:
        """Writes the trial's record, then its line for live views."""
        folder = self.trial_folder(result.trial_id)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk_error(error, folder) from error
        write_atomic(folder / "result.json", self._scrub(json_text(result.model_dump(mode="json"))))
        self._append_line(result)

    def _append_line(self, result: TrialResult) -> None:
        line = self._scrub(json.dumps(result.line(), ensure_ascii=False)) + "\n"
        path = self.folder / "results.jsonl"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise disk_error(error, path) from error

    def rewrite_lines(self, results: Iterable[TrialResult]) -> None:
        """Makes `results.jsonl` say exactly this: a line per trial, none twice."""
        text = "".join(json.dumps(r.line(), ensure_ascii=False) + "\n" for r in results)
        write_atomic(self.folder / "results.jsonl", self._scrub(text), durable=False)


class RunLock:
    """One job per folder. The lock belongs to the open file, which the job's server and trial processes inherit: it
    is free only when the last of them is gone, so a resumed job never meets survivors of the one before."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "job.lock"
        self._descriptor: int | None = None

    @property
    def descriptor(self) -> int:
        if self._descriptor is None:
            raise RuntimeError("the lock is not held")
        return self._descriptor

    def acquire(self, *, patience_s: float = 8.0) -> None:
        """Takes the lock. Waits up to `patience_s` for the processes of a job that was killed.

        Raises:
            UserError: Another job runs in this folder, or it is no folder that we may write to.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            known = disk_error(error, self._path)
            if known is not error:
                raise known from error
            raise UserError(
                f"{self._path.parent} can't be used as a run folder ({error.strerror}: {error.filename}); "
                "expected a folder, there or to be made, that this user may write to"
            ) from error
        end_s = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
                orphaned = owner.isdigit() and process_age(int(owner)) is None
                if not orphaned or time.monotonic() > end_s:
                    os.close(descriptor)
                    raise UserError(
                        f"another job (process {owner or 'unknown'}) runs in {self._path.parent}: "
                        "wait for it, stop it, or use another folder"
                    ) from None
                time.sleep(0.05)
        self._descriptor = descriptor
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise disk_error(error, self._path) from error

    def release(self) -> None:
        """Gives this process's share back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
