"""The HTML report of a run, made from its files alone: it can be written anew for any run folder, also a dead one's.

    write_report(Path("runs/first"))        # -> runs/first/report.html

One file without any reference to another: it is opened from disk, mailed, kept. Read from `plan.json`, `metrics.jsonl`
and `groups.jsonl`; damaged lines are passed over.
"""

from __future__ import annotations

import json
import math
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from envkit.backends.run.log import read_log
from envkit.report.charts import Chart, Series, heat_map, number, page, table
from envkit.trial.store import write_atomic

__all__ = ["render", "write_report"]

#: Tasks in the table of tasks, the most changed first.
_TASKS_SHOWN = 40


class _Run:
    """A run's files, read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan: dict[str, Any] = _json(folder / "plan.json")
        self.steps: dict[int, dict[str, Any]] = {}
        self.evaluations: dict[int, dict[str, Any]] = {}
        self.alarms: list[dict[str, Any]] = []
        self.faults: Counter[tuple[str, str]] = Counter()
        self.examples: dict[tuple[str, str], str] = {}
        held_out = (self.plan.get("evaluation") or {}).get("held_out", True)
        self.evaluation_name = "Held-out evaluation" if held_out else "Evaluation, on tasks that are trained on"
        self.lives = 0
        self.checkpoint: int | None = None
        self.ended: dict[str, Any] | None = None
        self.first_s = self.last_s = 0.0
        self.about: dict[str, Any] = {}
        for record in read_log(folder / "metrics.jsonl"):
            self._take(record)
        self.rewards: dict[str, array[float]] = {}  # by task, in order; a long run has a million
        for group in read_log(folder / "groups.jsonl"):
            values = [r for r in group.get("rewards") or () if isinstance(r, int | float)]
            self.rewards.setdefault(str(group.get("task")), array("f")).extend(values)

    def _take(self, record: dict[str, Any]) -> None:
        at = float(record.get("at") or 0.0)
        self.first_s = self.first_s or at
        self.last_s = max(self.last_s, at)
        match record.get("kind"):
            case "step":
                self.steps[int(record["step"])] = record
            case "evaluation":
                self.evaluations[int(record["step"])] = record
            case "alarm":
                self.alarms.append(record)
            case "fault":
                failure = record.get("failure") or {}
                key = (str(record.get("where")), str(failure.get("kind")))
                self.faults[key] += 1
                self.examples[key] = f"{failure.get('message', '')} ({record.get('then', '')})"
            case "checkpoint":
                self.checkpoint = record.get("step")
            case "life":
                self.lives += 1
                self.ended = None
                self.about = record.get("about") or self.about
            case "ended":
                self.ended = record

    def series(self, figure: str, name: str | None = None) -> Series:
        points = [
            (float(step), float(value))
            for step, record in sorted(self.steps.items())
            if isinstance(value := record["metrics"].get(figure), int | float)
        ]
        return Series(name or figure, points)

    def evaluated(self, figure: str, name: str | None = None) -> Series:
        points, band = [], []
        for step, record in sorted(self.evaluations.items()):
            value, error = record["metrics"].get(figure), record["metrics"].get(f"{figure}_se")
            if isinstance(value, int | float):
                points.append((float(step), float(value)))
                if isinstance(error, int | float):
                    band.append((float(step), value - 1.96 * error, value + 1.96 * error))
        return Series(name or figure, points, band=band, marks=True)

    def names(self, prefix: str, suffix: str = "") -> list[str]:
        """What stands between prefix and suffix in the figures' names."""
        found = {
            name[len(prefix) : len(name) - len(suffix)]
            for record in [*self.steps.values(), *self.evaluations.values()]
            for name in record["metrics"]
            if name.startswith(prefix) and name.endswith(suffix)
        }
        return sorted(found)


def render(folder: Path) -> str:
    """The report as one HTML document."""
    run = _Run(folder)
    body = "".join([_head(run), _alarms(run), *_sections(run), _tasks(run), _faults(run), _plan(run)])
    return page(f"Training {folder.name}", body)


def write_report(folder: Path) -> Path:
    """Writes `report.html`, whole or not at all. Raises `OSError` or `EnvkitError` (`DISK_FULL`)."""
    path = folder / "report.html"
    write_atomic(path, render(folder), durable=False)
    return path


def _head(run: _Run) -> str:
    steps = max(run.steps, default=0)
    asked = (run.plan.get("loop") or {}).get("steps")
    if run.ended is None:
        state = "running, or ended without a word"
    elif run.ended.get("failure"):
        state = f"failed: {run.ended['failure'].get('message', '')}"
    elif run.ended.get("interrupted"):
        state = "interrupted; the same command resumes it"
    else:
        state = "finished"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.first_s)) if run.first_s else "-"
    tiles = [_tile(f"{steps}" + (f" of {asked}" if asked else ""), "optimiser steps")]
    reward = run.series("reward/mean").points
    if reward:
        tiles.append(_tile(number(_tail(reward)), f"reward, last steps (first: {number(reward[0][1])})"))
    evaluated = run.evaluated("eval/reward/mean").points
    if evaluated:
        rise = evaluated[-1][1] - evaluated[0][1]
        kind = "good" if rise > 0 and len(evaluated) > 1 else ""
        tiles.append(
            _tile(number(evaluated[-1][1]), f"evaluation's reward ({rise:+.3f} since step {evaluated[0][0]:g})", kind)
        )
    gap = run.series("train/logprob_gap").points
    gate = (((run.plan.get("watching") or {}).get("alarms")) or {}).get("gap", 0.03)
    if gap:
        worst = max(y for _, y in gap)
        tiles.append(_tile(f"{worst:.4f}", f"largest logprob gap (gate {gate:g})", "bad" if worst > gate else "good"))
    scored = sum(float(r["metrics"].get("rollouts/scored") or 0) for r in run.steps.values())
    failed = sum(float(r["metrics"].get("faults/rollouts") or 0) for r in run.steps.values())
    tiles.append(_tile(number(scored), f"rollouts with a verdict, {number(failed)} without"))
    tiles.append(_tile(str(len(run.alarms)), "alarms", "bad" if run.alarms else "good"))
    if run.checkpoint is not None:
        tiles.append(_tile(f"step {run.checkpoint}", "newest policy checkpoint"))
    lives = f", {run.lives} lives" if run.lives > 1 else ""
    return (
        f"<header><h1>Training {escape(run.folder.name)}</h1>"
        f'<div class="soft">{escape(state)} · begun {when}, {_span(run.last_s - run.first_s)}{lives}</div>'
        f'</header><div class="tiles">{"".join(tiles)}</div>'
    )


def _tile(value: str, name: str, kind: str = "") -> str:
    return f'<div class="tile {kind}"><b>{escape(value)}</b><span>{escape(name)}</span></div>'


def _alarms(run: _Run) -> str:
    if not run.alarms:
        return ""
    shown = "".join(
        f'<div class="alarm"><b>step {a.get("step")} · {escape(str(a.get("alarm")))}</b>'
        + (" · <b>possible reward hacking</b>" if a.get("hacking") else "")
        + f"<br>{escape(str(a.get('message')))}</div>"
        for a in run.alarms[-30:]
    )
    return f'<section id="alarms"><h2>Alarms</h2>{shown}</section>'


def _sections(run: _Run) -> list[str]:
    gate = (((run.plan.get("watching") or {}).get("alarms")) or {}).get("gap", 0.03)
    passes = [f"reward/pass_at_{k}" for k in sorted(map(int, run.names("reward/pass_at_")))]
    eval_passes = [f"eval/reward/pass_at_{k}" for k in sorted(map(int, run.names("eval/reward/pass_at_")))]
    columns = [(float(step), record.get("rewards") or ()) for step, record in sorted(run.steps.items())]

    def lines(figures: Sequence[tuple[str, str]]) -> list[Series]:
        return [run.series(figure, name) for figure, name in figures]

    def each(prefix: str, suffix: str = "", evaluated: bool = False) -> list[Series]:
        make = run.evaluated if evaluated else run.series
        names = run.names(prefix, suffix)
        found = [make(f"{prefix}{name}{suffix}", name.removesuffix("_s").replace("_", " ")) for name in names]
        return sorted((s for s in found if s.points), key=lambda s: -len(s.points))[:8]

    parts = {
        "Reward": [
            Chart("Reward of rollouts", lines([("reward/mean", "mean")]), note="Of trials with a verdict.").html(),
            Chart(
                "pass@k in training", [run.series(n, f"pass@{n.rpartition('_')[2]}") for n in passes], share=True
            ).html(),
            heat_map("Distribution of rewards", columns, note="Darker: a greater share of the step's rollouts."),
            Chart(
                "Groups without variance",
                lines([("reward/zero_variance_share", "all rollouts alike")]),
                share=True,
                note="They teach nothing and are replaced.",
            ).html(),
            Chart("Reward by domain", each("domain/", "/reward")).html(),
            Chart("Reward by task family", each("family/", "/reward")).html(),
        ],
        run.evaluation_name: [
            Chart("Reward", [run.evaluated("eval/reward/mean", "mean")], note="Band: 95 % over tasks.").html(),
            Chart("pass@k", [run.evaluated(n, f"pass@{n.rpartition('_')[2]}") for n in eval_passes], share=True).html(),
            Chart("Reward by domain", each("eval/domain/", "/reward", evaluated=True)).html(),
            Chart("Turns", [run.evaluated("eval/agent/turns", "turns")]).html(),
        ],
        "How the agent works": [
            Chart("Turns", lines([("agent/turns", "mean"), ("agent/turns_max", "longest")])).html(),
            Chart("Tokens per turn", lines([("agent/tokens_per_turn", "sampled tokens")])).html(),
            Chart(
                "Tokens per trajectory", lines([("agent/tokens", "sampled"), ("agent/context_tokens", "context")])
            ).html(),
            Chart("Tool success", lines([("agent/tool_success", "calls without error")]), share=True).html(),
            Chart("Code execution", lines([("agent/code_share", "share of tool calls")]), share=True).html(),
            Chart("Context exhausted", lines([("agent/context_exhausted", "share of rollouts")]), share=True).html(),
            Chart("How rollouts end", each("stop/"), share=True).html(),
        ],
        "Learning": [
            Chart(
                "Rollout-trainer logprob gap",
                lines([("train/logprob_gap", "same weights"), ("train/stale_logprob_gap", "stale tokens")]),
                unit="nats per token",
                limit=float(gate),
                limit_name=f"gate {gate:g}",
                floor=0.0,
            ).html(),
            Chart("Entropy", lines([("train/entropy", "policy")]), unit="nats per token").html(),
            Chart("Gradient norm", lines([("train/grad_norm", "before clipping")])).html(),
            Chart("Loss", lines([("train/loss", "loss")])).html(),
            Chart(
                "Masked tokens", lines([("train/masked_share", "share stopped by the trust region")]), share=True
            ).html(),
            Chart("Learning rate", lines([("train/lr", "lr")])).html(),
        ],
        "The loop": [
            Chart(
                "Where a step's time goes",
                lines(
                    [
                        ("loop/wait_for_groups_s", "waiting for groups"),
                        ("loop/train_s", "training"),
                        ("loop/sync_s", "weight sync"),
                        ("loop/prepare_s", "preparing"),
                    ]
                ),
                unit="seconds",
                note="Waiting near 0: the trainer is the bottleneck, which is where it should be.",
            ).html(),
            Chart(
                "Staleness",
                lines(
                    [
                        ("loop/staleness_mean", "groups, mean"),
                        ("loop/staleness_max", "groups, most"),
                        ("loop/token_lag_mean", "tokens, mean"),
                        ("loop/token_lag_max", "tokens, most"),
                    ]
                ),
                unit="steps",
                floor=0.0,
            ).html(),
            Chart(
                "Trials",
                lines(
                    [
                        ("loop/trials_out", "out"),
                        ("loop/places", "places"),
                        ("loop/engine_waiting", "queued at engines"),
                    ]
                ),
            ).html(),
            Chart("KV room in use", lines([("loop/kv_used_share", "share")]), share=True).html(),
            Chart(
                "Groups",
                lines([("loop/groups_ready", "ready to train"), ("loop/groups_unfinished", "unfinished")]),
            ).html(),
            Chart("Groups dropped", each("loop/dropped_"), note="By reason, since the step before.").html(),
            Chart("Rollouts without a verdict", lines([("faults/share", "share")]), share=True).html(),
            Chart("Time of a trial", each("time/"), unit="seconds, mean").html(),
            Chart("Mean trajectory", lines([("loop/mean_trajectory_tokens", "tokens")]), unit="tokens").html(),
        ],
    }
    out = []
    for title, charts in parts.items():
        drawn = "".join(charts)
        if drawn:
            out.append(f'<section><h2>{escape(title)}</h2><div class="charts">{drawn}</div></section>')
    return out


def _tasks(run: _Run) -> str:
    """Tasks, their reward in the first and in the last third of their rollouts."""
    rows = []
    for task, values in run.rewards.items():
        if len(values) >= 2:
            third = max(1, len(values) // 3)
            first, last = math.fsum(values[:third]) / third, math.fsum(values[-third:]) / third
            rows.append(
                (abs(last - first), [task, str(len(values)), number(first), number(last), f"{last - first:+.3f}"])
            )
    if not rows:
        return ""
    rows.sort(key=lambda row: (-row[0], row[1][0]))
    more = f'<p class="note">{len(rows) - _TASKS_SHOWN} more in groups.jsonl</p>' if len(rows) > _TASKS_SHOWN else ""
    head = ["task", "rollouts", "first third", "last third", "change"]
    return f"<section><h2>Tasks</h2>{table(head, [r for _, r in rows[:_TASKS_SHOWN]], numeric_from=1)}{more}</section>"


def _faults(run: _Run) -> str:
    if not run.faults:
        return ""
    rows = [
        [where, kind, str(count), run.examples[where, kind][:400]] for (where, kind), count in run.faults.most_common()
    ]
    return f"<section><h2>Faults</h2>{table(['where', 'kind', 'times', 'the last'], rows, numeric_from=9)}</section>"


def _plan(run: _Run) -> str:
    if not run.plan:
        return ""
    text = escape(json.dumps(run.plan, indent=1, ensure_ascii=False))
    about = "".join(f"<li>{escape(str(k))}: {escape(str(v))}</li>" for k, v in run.about.items())
    return (
        "<section><h2>Plan</h2>" + (f"<ul>{about}</ul>" if about else "") + f"<details><summary>the resolved plan"
        f"</summary><pre>{text}</pre></details></section>"
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _tail(points: Sequence[tuple[float, float]]) -> float:
    last = [y for _, y in points[-5:]]
    return math.fsum(last) / len(last)


def _span(seconds: float) -> str:
    minutes, _ = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
