"""The export of a run: which trials, which rows, into which file, and the books over all of it.

Two passes over the records, one over the evidence: the first reads outcomes (for licences and group baselines), the
second writes rows trial by trial, so that memory holds one trial and one row group whatever the run's size. A file
appears whole or not at all. Trials without a verdict are left out and counted, unless they are asked for; what a
damaged record or an unsound trace held is named and never exported.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from envkit.atif import read_trajectory, write_trajectory
from envkit.atif_schema import AtifMetrics, Trajectory
from envkit.export.conversations import ROWS, conversations
from envkit.export.licence import Terms, check_licences
from envkit.export.parquet import ParquetRows
from envkit.export.tokens import SHAPES, TokenRow, TokenRows
from envkit.export.trials import StoredTrial, StoredTrials
from envkit.failure import EnvkitError, UserError, did_you_mean
from envkit.tokens.store import read_trace
from envkit.tokens.trace import TraceError
from envkit.trial.store import disk_error, json_text

_Row = TypeVar("_Row")

__all__ = ["FORMATS", "ExportOptions", "ExportReport", "export_run"]

#: Format -> what `--out` is, if it is not given: a file's suffix, or "" for a folder.
FORMATS = {"atif": "", "sharegpt": ".jsonl", "openai": ".jsonl", "parquet": ".parquet"} | {
    name: ".jsonl" for name in SHAPES
}


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is exported.

    Attributes:
        failed: Trials without a verdict, too: their rows have no reward (parquet: `valid` is false).
        min_reward: Only trials with at least this reward; those without one are left out.
        max_tokens: Longest row of a format of tokens; sampled tokens behind it are counted as dropped.
        prompt_ids: ATIF steps also carry all ids of their prompt, which grows with the square of the turns.
        may_train: The caller may train on every task, whatever its licence says.
        evaluations: Rollouts of a training run's evaluations, too. In ATIF, which nobody trains on, they always are.
    """

    failed: bool = False
    min_reward: float | None = None
    max_tokens: int | None = None
    prompt_ids: bool = False
    may_train: bool = False
    evaluations: bool = False


@dataclass(slots=True)
class ExportReport:
    """What was exported, and what was not.

    Attributes:
        excluded: Trials that were left out, by reason: their status, `below_min_reward`, `of_evaluations`, `no_trace`,
            `unsound`, ...
        problems: What was wrong with trials that could not be exported, the first of each kind and more.
        sampled, delivered, dropped: Sampled tokens of the exported trials: delivered + dropped == sampled.
        held_out: Tasks that are kept for evaluation, and are in this export.
    """

    out: Path
    format: str
    trials: int = 0
    exported: int = 0
    rows: int = 0
    tokens: int = 0
    sampled: int = 0
    delivered: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    dropped: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    held_out: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        names = ("format", "trials", "exported", "rows", "tokens", "sampled", "delivered")
        values = {name: getattr(self, name) for name in names}
        return {
            "out": str(self.out),
            **values,
            "excluded": dict(self.excluded),
            "dropped": dict(self.dropped),
            "problems": self.problems,
            "held_out": self.held_out,
        }


def export_run(folder: Path, format: str, out: Path, options: ExportOptions | None = None) -> ExportReport:
    """Exports a run. `out` is a file (or, for ATIF, a folder) that is not there yet.

    Raises:
        UserError: There is no run, no such format, `out` is there already, or a licence forbids training.
        EnvkitError: The disk is full; nothing was left behind.
    """
    options = options or ExportOptions()
    if format not in FORMATS:
        raise UserError(f"no format {format!r}{did_you_mean(format, list(FORMATS))}; formats: {', '.join(FORMATS)}")
    if options.min_reward is not None and not math.isfinite(options.min_reward):
        # No reward is below NaN: the worst of them would be trained on.
        raise UserError(f"the least reward must be a number, found {options.min_reward}")
    if out.exists():
        raise UserError(f"{out} is there already; give another place with --out, or remove it")
    stored = StoredTrials(folder)
    report = ExportReport(out, format)
    tasks: set[str] = set()
    rewards: dict[str, dict[str, float]] = defaultdict(dict)
    known: dict[str, float | None] = {}
    for trial in stored:
        report.trials += 1
        if _measured(trial, format, options):
            continue
        tasks.add(trial.task)
        known[trial.id] = trial.reward
        if trial.reward is not None:
            rewards[trial.group][trial.id] = trial.reward
    if format != "atif":
        terms: Terms = check_licences(tasks, permitted=options.may_train)
        report.held_out = terms.held_out
    chosen = _chosen(stored, known, options, report)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if format == "atif":
            _write_atif(chosen, out, options, report)
        elif format in ROWS:
            _write_lines(out, _conversation_rows(chosen, ROWS[format], report))
        else:
            books = TokenRows(options.max_tokens, _advantages(rewards))
            if format == "parquet":
                _write_parquet(out, _token_rows(chosen, books, report), report, books)
            else:
                shape = SHAPES[format]
                _write_lines(out, (shape(row) for row in _token_rows(chosen, books, report)))
            _enter(report, books)
    except OSError as error:
        raise disk_error(error, out) from error
    report.problems += [str(damage) for damage in stored.damaged]
    return report


def _advantages(rewards: dict[str, dict[str, float]]) -> dict[str, float]:
    """Reward minus the mean of the group's scored trials: the others vote nowhere."""
    out: dict[str, float] = {}
    for group in rewards.values():
        mean = sum(group.values()) / len(group)
        out |= {id: reward - mean for id, reward in group.items()}
    return out


def _measured(trial: StoredTrial, format: str, options: ExportOptions) -> bool:
    """It is what a training run was measured by, which is no more to be trained on there than here."""
    return trial.evaluation and format != "atif" and not options.evaluations


def _chosen(
    stored: StoredTrials, known: Mapping[str, float | None], options: ExportOptions, report: ExportReport
) -> Iterator[StoredTrial]:
    missing = object()
    for trial in stored:
        if _measured(trial, report.format, options):
            report.excluded["of_evaluations"] += 1
        elif known.get(trial.id, missing) != trial.reward:
            # The run goes on: neither its licence was looked at nor is it in its group's mean.
            report.excluded["ended_meanwhile"] += 1
        elif trial.reward is None and not (options.failed and options.min_reward is None):
            report.excluded[trial.status.value] += 1
        elif options.min_reward is not None and trial.reward is not None and trial.reward < options.min_reward:
            report.excluded["below_min_reward"] += 1
        else:
            yield trial


def _conversation_rows(
    trials: Iterable[StoredTrial], make: Callable[[Any], dict[str, Any]], report: ExportReport
) -> Iterator[dict[str, Any]]:
    return _counted(trials, lambda trial: [make(found) for found in conversations(trial)], report)


def _token_rows(trials: Iterable[StoredTrial], books: TokenRows, report: ExportReport) -> Iterator[TokenRow]:
    for row in _counted(_traced(trials, report), lambda trial: list(books.of(trial)), report):
        report.tokens += len(row.sample.ids)
        yield row


def _traced(trials: Iterable[StoredTrial], report: ExportReport) -> Iterator[StoredTrial]:
    for trial in trials:
        if trial.traces():
            yield trial
        else:
            report.excluded["no_trace"] += 1


def _counted(
    trials: Iterable[StoredTrial], rows_of: Callable[[StoredTrial], list[_Row]], report: ExportReport
) -> Iterator[_Row]:
    for trial in trials:
        try:
            rows = rows_of(trial)
        except EnvkitError as error:
            _left_out(report, trial, error)
            continue
        if not rows:
            report.excluded["nothing_sampled"] += 1
            continue
        report.exported += 1
        report.rows += len(rows)
        yield from rows


def _left_out(report: ExportReport, trial: StoredTrial, error: EnvkitError) -> None:
    report.excluded["unsound" if isinstance(error, TraceError) else "unreadable"] += 1
    report.problems.append(f"{trial.id}: {error}")


def _enter(report: ExportReport, books: TokenRows) -> None:
    report.sampled, report.delivered, report.dropped = books.sampled, books.delivered, dict(books.dropped)


# -- files ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _appearing(out: Path) -> Iterator[Path]:
    """A name beside `out` that becomes it at the end, and is gone after an error."""
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)


def _write_lines(out: Path, rows: Iterable[dict[str, Any]]) -> None:
    with _appearing(out) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json_text(row) + "\n")


def _write_parquet(out: Path, rows: Iterable[TokenRow], report: ExportReport, books: TokenRows) -> None:
    with _appearing(out) as temporary:
        file = ParquetRows(temporary)
        for row in rows:
            file.add(row)
        _enter(report, books)
        file.close({name: value for name, value in report.to_json().items() if name not in ("out", "problems")})


def _write_atif(trials: Iterable[StoredTrial], out: Path, options: ExportOptions, report: ExportReport) -> None:
    """A file per trial, `<trial>.json`; the folder gets its name when all are there."""
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    temporary.mkdir()
    try:
        for trial in trials:
            try:
                trajectory = _with_ids(read_trajectory(trial.folder / "trajectory.json"), trial, options.prompt_ids)
            except EnvkitError as error:
                _left_out(report, trial, error)
                continue
            write_trajectory(temporary / f"{trial.id.replace('/', '.')}.json", trajectory)
            report.exported += 1
            report.rows += 1
        os.replace(temporary, out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _with_ids(trajectory: Trajectory, trial: StoredTrial, prompt_ids: bool) -> Trajectory:
    """The trajectory with the ids and logprobs of its sampled steps, and the trial's outcome in `extra`."""
    folders = trial.traces()
    trace = read_trace(folders[0]) if len(folders) == 1 else None

    def filled(one: Trajectory) -> Trajectory:
        steps = []
        for step in one.steps:
            number = (step.extra or {}).get("trace_node")
            node = trace.node(number) if trace is not None and isinstance(number, int) else None
            if node is not None and node.sampling is not None:
                ids = {
                    "completion_token_ids": node.ids.tolist(),
                    "logprobs": node.sampling.logprobs.astype(float).tolist(),
                }
                if prompt_ids and trace is not None and node.parent is not None:
                    ids["prompt_token_ids"] = trace.ids(node.parent).tolist()
                step = step.model_copy(update={"metrics": (step.metrics or AtifMetrics()).model_copy(update=ids)})
            steps.append(step)
        inner = [filled(sub) for sub in one.subagent_trajectories or ()] or None
        return one.model_copy(update={"steps": steps, "subagent_trajectories": inner})

    ours = dict((trajectory.extra or {}).get("envkit") or {})
    ours |= {"trial": trial.id, "group": trial.group, "status": trial.status.value, "reward": trial.reward}
    done = filled(trajectory)
    return done.model_copy(update={"extra": {**(trajectory.extra or {}), "envkit": ours}})
