"""The HTML report of an evaluation: one file that opens from disk, made from a run's folder alone.

    write_run_report(Path("runs/eval-1"), Path("out.html"))

Summary with intervals and what they leave out, rewards per task and policy, failures by kind, criteria that fail, how
the agents worked, where the time went. Records are read one at a time, and of each only what is shown is kept, so that
five thousand trials are no burden. Every text from the run is escaped; the page makes no request. Used by
`envkit report` and, written beside the results, by whoever ends a run.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from envkit import __version__
from envkit.report.charts import COLOURS, number, page, table
from envkit.report.clustered import Estimate
from envkit.report.evaluation import Difference, EvalRow, Measure, against_best, evaluate
from envkit.report.run_facts import Row, RunFacts, read_run
from envkit.report.task_facts import read_facts
from envkit.report.triage import Triage, triage
from envkit.trial.result import TrialResult
from envkit.trial.store import write_atomic

__all__ = ["render_run", "write_run_report"]

#: Tasks in the matrix, criteria in their table, examples of a failure.
_TASKS, _CRITERIA, _DOTS = 400, 25, 12


def write_run_report(
    folder: Path,
    to: Path | None = None,
    *,
    causes: bool = False,
    results: Iterable[TrialResult] | None = None,
    regraded: bool = False,
) -> Path:
    """Writes the report, whole or not at all, to `report.html` (`report-regraded.html`) in the run's folder or to `to`.

    Args:
        causes: Also group the trials with little reward by likely cause (`envkit triage`): reads conversations.
        results: The run's finished trials, where the caller has them; else they are read.
        regraded: Read them with the newest verdicts of `envkit regrade`.

    Raises:
        UserError: The folder holds no run.
        EnvkitError: `DISK_FULL`.
        OSError: `to` can't be written.
    """
    path = folder / ("report-regraded.html" if regraded else "report.html") if to is None else to
    write_atomic(path, render_run(folder, causes=causes, results=results, regraded=regraded), durable=False)
    return path


def render_run(
    folder: Path, *, causes: bool = False, results: Iterable[TrialResult] | None = None, regraded: bool = False
) -> str:
    """The report as one HTML document. Raises `UserError` where the folder holds no run."""
    run = read_run(folder, results, regraded=regraded)
    facts = read_facts(folder, run.tasks)
    rows = evaluate(run.light, facts)
    differences = against_best(run.light, facts)
    body = [
        f"<style>{_STYLE}</style>",
        _head(run, rows),
        _summary(run, rows, differences),
        _matrix(run),
        _failures(run),
        _causes(triage(folder, regraded=regraded)) if causes and run.rows else "",
        _criteria(run),
        _behaviour(run),
        _notes(run, [f"{task}: {found.problem}" for task, found in facts.items() if found.problem]),
    ]
    return page(f"Evaluation {folder.resolve().name}", "".join(body))


def _section(title: str, *parts: str) -> str:
    inner = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{inner}</section>" if inner else ""


def _tile(value: str, name: str, kind: str = "") -> str:
    return f'<div class="tile {kind}"><b>{escape(value)}</b><span>{escape(name)}</span></div>'


def _head(run: RunFacts, rows: Sequence[EvalRow]) -> str:
    when = "" if run.first is None or run.last is None else f" · {_time(run.first)} to {_time(run.last)}"
    planned = "" if run.planned in (None, len(run.rows)) else f" of {run.planned:,} planned"
    tiles = []
    if len(rows) == 1:
        mean = rows[0].mean
        tiles.append(_tile(_figure(mean.estimate), f"mean reward{_interval_words(mean.estimate)}"))
        if 1 in rows[0].pass_at:
            tiles.append(_tile(_percent(rows[0].pass_at[1].estimate.value), "pass@1"))
    scored = sum(row.scored for row in rows)
    excluded = sum(row.excluded for row in rows)
    tiles.append(_tile(f"{scored:,}", "trials with a verdict"))
    tiles.append(_tile(f"{excluded:,}", "without one, excluded from every mean", "bad" if excluded else "good"))
    cancelled = sum(row.cancelled for row in rows)
    if cancelled:
        tiles.append(_tile(f"{cancelled:,}", "cancelled"))
    if run.planned is not None and run.planned > len(run.rows):
        tiles.append(
            _tile(f"{run.planned - len(run.rows):,}", "planned without an end: nothing here counts them", "bad")
        )
    tiles.append(_tile(f"{len(run.tasks):,}", "tasks"))
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    if costs:
        tiles.append(_tile(f"${math.fsum(costs):,.2f}", "cost"))
    tokens = sum(row.completion_tokens or 0 for row in rows)
    if tokens:
        tiles.append(_tile(f"{tokens:,}", "tokens sampled"))
    return (
        f"<header><h1>Evaluation {escape(run.name)}</h1>"
        f'<div class="soft">{len(run.rows):,} trials{planned}{escape(when)} · envkit {escape(__version__)}</div>'
        + "".join(f'<p class="note">{escape(text)}</p>' for text in run.regrading)
        + "</header>"
        f'<div class="tiles">{"".join(tiles)}</div>'
    )


def _summary(run: RunFacts, rows: Sequence[EvalRow], differences: Sequence[Difference | None]) -> str:
    if not rows:
        return _section("Results", '<p class="note">No trial has finished.</p>')
    cells = []
    for colour, row, against in zip(_colours(), rows, differences, strict=False):
        ks = [k for k in sorted(row.pass_at) if k in (1, row.attempts)]
        passes = "".join(_measure(f"pass@{k}", row.pass_at[k], share=True) for k in ks)
        hats = _measure(f"pass^{row.attempts}", row.pass_hat[row.attempts], share=True) if row.attempts > 1 else ""
        said = "" if against is None else _against(against)
        excluded = ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in row.failures.items())
        cells.append(
            f'<article class="row"><header><i style="background:{colour}"></i><b>{escape(row.policy)}</b>'
            f'<span class="soft">under {escape(row.harness)}</span>{said}</header>'
            f"{_measure('mean reward', row.mean)}{passes}{hats}"
            f'<p class="note">{row.tasks:,} tasks in {row.worlds:,} worlds, up to {row.attempts} attempts; '
            f"{row.scored:,} scored, {row.excluded:,} excluded{escape(f' ({excluded})' if excluded else '')}"
            f"{f', {row.cancelled} cancelled' if row.cancelled else ''}</p></article>"
        )
    note = (
        '<p class="note">Bars: the value; lines: its 95 % interval, clustered by world; the pale band: where the value '
        "would lie if every excluded trial had earned nothing, or everything.</p>"
    )
    return _section("Results", f'<div class="rows">{"".join(cells)}</div>', note, _histograms(run))


def _against(found: Difference) -> str:
    value = found.estimate.value
    if value is None:
        return '<span class="pill">no common task with the best</span>'
    span = f" [{found.estimate.lower:+.3f}, {found.estimate.upper:+.3f}]" if found.estimate.has_interval else ""
    word = {"tie": "tie with the best", "worse": "below the best", "better": "above the best"}.get(
        found.verdict, found.verdict
    )
    kind = {"worse": "bad", "better": "good"}.get(found.verdict, "")
    return f'<span class="pill {kind}">{escape(word)}: {value:+.3f}{escape(span)}</span>'


def _measure(name: str, measure: Measure, *, share: bool = False) -> str:
    """A figure as a bar with its interval, on an axis from 0 to 1."""
    found = measure.estimate
    if found.value is None:
        return f'<div class="measure"><span>{escape(name)}</span><b>–</b><em>no task has enough verdicts</em></div>'

    def at(value: float) -> float:
        return 100 * max(0.0, min(1.0, value))

    parts = []
    if measure.lower_bound is not None and measure.upper_bound is not None:
        low, high = at(measure.lower_bound), at(measure.upper_bound)
        if high - low > 0.05:
            parts.append(f'<i class="open" style="left:{low:.2f}%;width:{high - low:.2f}%"></i>')
    parts.append(f'<i class="value" style="width:{at(found.value):.2f}%"></i>')
    if found.lower is not None and found.upper is not None:
        low, high = at(found.lower), at(found.upper)
        parts.append(f'<i class="line" style="left:{low:.2f}%;width:{max(0.3, high - low):.2f}%"></i>')
    shown = _percent(found.value) if share else f"{found.value:.3f}"
    told = _interval_words(found, share=share).removeprefix(", ") or found.method
    if measure.lower_bound is not None and measure.lower_bound != measure.upper_bound:
        told += f"; bounds {measure.lower_bound:.3f} to {measure.upper_bound:.3f}"
    left = f" ({measure.left_out} tasks left out)" if measure.left_out else ""
    return (
        f'<div class="measure"><span>{escape(name)}</span><b>{shown}</b>'
        f'<div class="axis" aria-hidden="true">{"".join(parts)}</div><em>{escape(told + left)}</em></div>'
    )


def _interval_words(found: Estimate, *, share: bool = False) -> str:
    if found.lower is None or found.upper is None:
        return f", {found.method}" if found.value is not None else ""
    if share:
        return f", {found.lower:.1%} to {found.upper:.1%} ({found.method})"
    return f", {found.lower:.3f} to {found.upper:.3f} ({found.method})"


def _histograms(run: RunFacts) -> str:
    """Rewards in twentieths, a small chart per policy and harness."""
    out = []
    for colour, (key, rows) in zip(_colours(), run.by_group.items(), strict=False):
        rewards = [row.reward for row in rows if row.reward is not None]
        if not rewards:
            continue
        bins = [0] * 20
        for reward in rewards:
            bins[min(19, max(0, int(reward * 20)))] += 1
        most = max(bins)
        bars = "".join(
            f'<rect x="{52 + n * 18.8:.1f}" width="17" y="{180 - 160 * count / most:.1f}" '
            f'height="{160 * count / most:.1f}" fill="{colour}">'
            f"<title>{count} of {len(rewards)}: reward {n / 20:.2f} to "
            f"{(n + 1) / 20:.2f}</title></rect>"
            for n, count in enumerate(bins)
        )
        labels = "".join(
            f'<text x="{52 + 376 * v:.0f}" y="200" text-anchor="middle">{v:g}</text>' for v in (0, 0.25, 0.5, 0.75, 1)
        )
        labels += f'<text x="46" y="24" text-anchor="end">{most}</text><text x="46" y="184" text-anchor="end">0</text>'
        said = f"Rewards of {' under '.join(key)}: {', '.join(map(str, bins))} in twentieths"
        out.append(
            f'<figure class="chart"><figcaption>Rewards <span class="unit">{escape(" under ".join(key))}</span>'
            f'</figcaption><svg viewBox="0 0 440 208" role="img" aria-label="{escape(said, quote=True)}">'
            f'<line class="grid" x1="52" x2="428" y1="180" y2="180"/>{bars}{labels}</svg></figure>'
        )
    return f'<div class="charts">{"".join(out[:12])}</div>' if out else ""


def _matrix(run: RunFacts) -> str:
    """Tasks against policies: the mean, and each attempt as a dot."""
    keys = list(run.by_group)
    if not keys:
        return ""
    found: dict[str, dict[tuple[str, str], list[Row]]] = defaultdict(lambda: defaultdict(list))
    for key, rows in run.by_group.items():
        for row in rows:
            found[row.task][key].append(row)
    means = {
        task: _mean([r.reward for rows in by.values() for r in rows if r.reward is not None])
        for task, by in found.items()
    }
    ordered = sorted(found, key=lambda task: (means[task] is None, means[task] or 0.0, task))
    lines = []
    for task in ordered[:_TASKS]:
        cells = "".join(_cell(found[task].get(key, [])) for key in keys)
        lines.append(f'<tr><th scope="row">{escape(task)}</th>{cells}</tr>')
    head = "".join(
        f'<th scope="col">{escape(policy)}<small>under {escape(harness)}</small></th>' for policy, harness in keys
    )
    more = (
        f'<p class="note">{len(ordered) - _TASKS:,} more tasks are in the run folder</p>'
        if len(ordered) > _TASKS
        else ""
    )
    note = '<p class="note">The hardest first. A dot per attempt: filled by reward, hollow without a verdict.</p>'
    table_ = f'<table class="matrix"><thead><tr><th>task</th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    return _section("Tasks", note, f'<div class="wide">{table_}</div>', more)


def _cell(rows: Sequence[Row]) -> str:
    if not rows:
        return '<td class="nothing"></td>'
    mean = _mean([row.reward for row in rows if row.reward is not None])
    dots = "".join(
        f'<i class="{_dot(row)}"><title>{escape(row.said)}</title></i>'
        for row in sorted(rows, key=lambda r: r.sample)[:_DOTS]
    )
    more = f"+{len(rows) - _DOTS}" if len(rows) > _DOTS else ""
    level = "none" if mean is None else f"q{min(9, max(0, int(mean * 9.999)))}"
    shown = "–" if mean is None else f"{mean:.2f}"
    titles = "; ".join(row.said for row in rows[:_DOTS])
    return f'<td class="{level}" title="{escape(titles, quote=True)}"><b>{shown}</b><span>{dots}{more}</span></td>'


def _dot(row: Row) -> str:
    if row.reward is None:
        return "hollow" if row.status != "cancelled" else "hollow gone"
    return "full" if row.reward >= 1 else "zero" if row.reward <= 0 else "part"


def _failures(run: RunFacts) -> str:
    lost = [row for row in run.rows if row.reward is None and row.status != "cancelled"]
    if not lost:
        return (
            _section("Failures", '<p class="note">Every trial that was not cancelled has a verdict.</p>')
            if run.rows
            else ""
        )
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in lost:
        kinds[row.failure or row.status].append(row)
    rows = []
    for kind, those in sorted(kinds.items(), key=lambda item: -len(item[1])):
        first = those[0]
        rows.append(
            [
                kind.replace("_", " "),
                f"{len(those):,}",
                f"{len(those) / len(run.rows):.1%}",
                f"{len({row.task for row in those}):,}",
                f"{first.trial_id}: {first.message[:400]}",
            ]
        )
    head = ["kind", "trials", "of all", "tasks", "the first of them"]
    return _section("Failures by kind", f'<div class="said">{table(head, rows)}</div>')


def _causes(found: Triage) -> str:
    rows = [
        [g.title, f"{g.trials:,}", f"{g.share:.0%}", _number(g.mean), f"{g.task_count:,}", g.todo] for g in found.groups
    ]
    if not rows:
        return ""
    head = ["likely cause", "trials", "of those", "mean", "tasks", "what to do"]
    said = f"{found.low:,} trials got less than {found.below:g}, or no verdict; each is under one cause."
    note = f'<p class="note">{said}</p>'
    return _section("Why rewards are low", note, f'<div class="said">{table(head, rows)}</div>')


def _criteria(run: RunFacts) -> str:
    failing = [c for c in run.criteria.values() if c.failed]
    if not failing:
        return ""
    failing.sort(key=lambda c: (-len(c.tasks), -c.failed, c.id))
    rows = [
        [c.id, c.description, f"{c.failed:,} of {c.judged:,}", f"{len(c.tasks):,}", c.message]
        for c in failing[:_CRITERIA]
    ]
    more = (
        f'<p class="note">{len(failing) - _CRITERIA:,} more criteria failed somewhere</p>'
        if len(failing) > _CRITERIA
        else ""
    )
    head = ["criterion", "what it asks", "failed", "tasks", "said once"]
    return _section("Criteria that fail", f'<div class="said">{table(head, rows)}</div>', more)


def _behaviour(run: RunFacts) -> str:
    rows, bars = [], []
    stops = list(dict.fromkeys(stop for found in run.stops.values() for stop, _ in found.most_common()))
    for key, found in run.by_group.items():
        worked = [row for row in found if row.reward is not None]
        if not worked:
            continue
        turns = [float(row.turns) for row in worked]
        sampled = [row.tokens / row.turns for row in worked if row.tokens]
        contexts = [float(row.context) for row in worked if row.context]
        calls = [float(row.calls) for row in worked]
        rows.append(
            [
                " under ".join(key), _number(_mean(turns)), number(max(turns)), _number(_mean(sampled)),
                _number(_mean(calls)),
                _number(_mean(contexts)), _percent(sum(row.stop == "context" for row in worked) / len(worked)),
                _seconds(_mean([row.seconds for row in worked])),
            ]
        )  # fmt: skip
        bars.append(_stacked(" under ".join(key), run.stops[key], stops))
    if not rows:
        return ""
    head = ["policy", "turns", "most", "tokens a turn", "tool calls", "largest context", "context exhausted", "time"]
    legend = "".join(
        f'<span><i style="background:{COLOURS[n % len(COLOURS)]}"></i>{escape(stop.replace("_", " "))}</span>'
        for n, stop in enumerate(stops)
    )
    ends = f'<h3>How the work ended</h3>{"".join(bars)}<div class="legend">{legend}</div>' if stops else ""
    times = [[name.replace("_", " "), _seconds(total / max(1, n)), f"{n:,}"] for name, (total, n) in run.slowest()]
    spent = (
        f"<h3>Where the time of a trial goes</h3>{table(['stage', 'mean', 'trials'], times, numeric_from=1)}"
        if times
        else ""
    )
    return _section("Behaviour", table(head, rows, numeric_from=1), ends, spent)


def _stacked(name: str, counts: Counter[str], order: Sequence[str]) -> str:
    total = sum(counts.values()) or 1
    parts = "".join(
        f'<i style="width:{100 * counts[stop] / total:.2f}%;background:{COLOURS[n % len(COLOURS)]}" '
        f'title="{escape(f"{counts[stop]} {stop}", quote=True)}"></i>'
        for n, stop in enumerate(order)
        if counts[stop]
    )
    said = ", ".join(f"{counts[stop]} {stop.replace('_', ' ')}" for stop in order if counts[stop])
    label = escape(said, quote=True)
    return f'<div class="stack"><span>{escape(name)}</span><div role="img" aria-label="{label}">{parts}</div></div>'


def _notes(run: RunFacts, problems: Iterable[str]) -> str:
    told = [*run.damaged, *problems]
    items = "".join(f"<li>{escape(text[:600])}</li>" for text in told[:100])
    more = f"<li>{len(told) - 100} more</li>" if len(told) > 100 else ""
    listed = f"<ul>{items}{more}</ul>"
    if len(told) > 6:
        listed = f"<details><summary>{len(told)} files or tasks that could not be read</summary>{listed}</details>"
    seen = f'<p class="note">Trial by trial: envkit view {escape(str(run.folder))}</p>'
    return _section("Notes", listed if told else "", seen)


def _figure(found: Estimate) -> str:
    return "–" if found.value is None else f"{found.value:.3f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "–" if value is None else number(value)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.1f} min"


def _time(value: dt.datetime) -> str:
    return value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _colours() -> Iterator[str]:
    while True:
        yield from COLOURS


_STYLE = """
h3{font-size:15px;margin:18px 0 8px}
.pill{font-size:12.5px;border:1px solid var(--line);border-radius:99px;padding:1px 10px;margin-left:auto}
.pill.bad{color:var(--bad)}.pill.good{color:var(--good)}
.rows{display:grid;gap:12px}.row{background:var(--card);border:1px solid var(--line);border-radius:8px;
padding:12px 16px}
.row header{display:flex;flex-wrap:wrap;gap:8px;align-items:center;margin-bottom:6px}
.row header i{width:12px;height:12px;border-radius:3px}
.measure{display:grid;grid-template-columns:110px 64px minmax(120px,1fr) 340px;gap:12px;align-items:center;
padding:3px 0}.measure b{text-align:right;font-variant-numeric:tabular-nums}
.measure em{font-style:normal;font-size:13px;color:var(--soft)}
.axis{position:relative;height:14px;background:var(--line);border-radius:3px;overflow:hidden}
.axis i{position:absolute;top:0;bottom:0}.axis .value{background:#2f6fde;opacity:.75;left:0}
.axis .open{background:repeating-linear-gradient(45deg,#d9730d66 0 4px,transparent 4px 8px)}
.axis .line{top:6px;bottom:6px;background:var(--ink)}
.charts{margin-top:14px}.said td:last-child,.said td:nth-child(2){text-align:left;overflow-wrap:anywhere}
.said .n{text-align:left}.said td:nth-child(3),.said td:nth-child(4){white-space:nowrap}.wide{max-height:none}
.matrix{width:auto;min-width:50%}.matrix th{position:sticky;left:0;background:var(--back);font-weight:500;
max-width:420px;overflow-wrap:anywhere;color:var(--ink)}.matrix thead th{vertical-align:bottom;color:var(--soft)}
.matrix small{display:block;font-weight:400}.matrix td{white-space:nowrap;min-width:112px}
.matrix td b{display:inline-block;width:38px;font-variant-numeric:tabular-nums;font-weight:600}
.matrix td span{display:inline-flex;gap:3px;vertical-align:middle;font-size:11px;flex-wrap:wrap;max-width:150px}
.matrix td i{width:9px;height:9px;border-radius:50%;border:1.5px solid #17936b}
.matrix i.full{background:#17936b}.matrix i.part{background:linear-gradient(90deg,#17936b 50%,transparent 50%)}
.matrix i.zero{border-color:var(--soft);background:var(--soft)}
.matrix i.hollow{border-color:var(--bad);border-style:dashed}
.matrix i.gone{border-color:var(--line)}.matrix title{display:none}
.matrix .q0,.matrix .q1{background:#c43d3d2e}.matrix .q2,.matrix .q3{background:#d9730d2a}
.matrix .q4,.matrix .q5{background:#d9a50d26}
.matrix .q6,.matrix .q7{background:#17936b1c}.matrix .q8,.matrix .q9{background:#17936b38}
.stack{display:grid;grid-template-columns:minmax(120px,240px) 1fr;gap:12px;align-items:center;margin:4px 0;
font-size:14px}
.stack>span{overflow-wrap:anywhere}
.stack div{display:flex;height:14px;border-radius:3px;overflow:hidden;background:var(--line)}
@media (max-width:700px){.measure{grid-template-columns:90px 56px 1fr}.measure em{grid-column:1/-1}
.stack{grid-template-columns:1fr}}
@media print{body{max-width:none}section{break-inside:avoid-page}}
"""
