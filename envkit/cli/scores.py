"""Tables of evaluations: every mean with its interval, what was left out with both bounds, ties by name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from envkit.report.clustered import Estimate
from envkit.report.evaluation import Difference, EvalRow, Measure

__all__ = ["interval_text", "print_rows", "print_table", "signed"]


def print_rows(rows: Sequence[EvalRow], against_best: Sequence[Difference | None]) -> None:
    """Prints the results table of an evaluation and, below it, what each figure leaves out.

    Args:
        against_best: For each row its difference from the row with the best mean; None for that row itself.
    """
    k = max((row.attempts for row in rows), default=1)
    head = ["policy", "harness", "tasks", "worlds", "scored", "excluded", "mean reward", "pass@1"]
    head += [f"pass@{k}", f"pass^{k}"] if k > 1 else []
    head += ["turns", *(["against the best"] if len(rows) > 1 else [])]
    lines = []
    for row, found in zip(rows, against_best, strict=True):
        line = [row.policy, row.harness, str(row.tasks), str(row.worlds), f"{row.scored}/{row.trials}"]
        line += [str(row.excluded), interval_text(row.mean.estimate), _measure(row.pass_at, 1)]
        line += [_measure(row.pass_at, k), _measure(row.pass_hat, k)] if k > 1 else []
        line.append("-" if row.turns is None else f"{row.turns:.1f}")
        if len(rows) > 1:
            best = "the best" if row.scored else "-"
            line.append(best if found is None else f"{signed(found.estimate)} {found.verdict}")
        lines.append(line)
    print_table(head, lines)
    print("\nintervals: 95 %, clustered by world")
    for row in rows:
        for text in _notes(row):
            print(f"{row.policy}, {row.harness}: {text}")


def _notes(row: EvalRow) -> Iterable[str]:
    if not row.mean.estimate.has_interval and row.scored:
        yield f"too few worlds for an interval ({row.worlds})"
    if row.excluded:
        why = ", ".join(f"{count} {kind}" for kind, count in row.failures.items())
        yield f"{row.scored} scored, {row.excluded} excluded ({why}); if they had earned 0 or 1: " + ", ".join(
            f"{name} {_number(measure.lower_bound)} to {_number(measure.upper_bound)}"
            for name, measure in (("mean", row.mean), ("pass@1", row.pass_at.get(1)))
            if measure is not None
        )
    for k, measure in row.pass_at.items():
        if measure.left_out and k > 1:
            yield f"pass@{k} is without {measure.left_out} of {row.tasks} tasks, which have fewer than {k} verdicts"
    if row.cancelled:
        yield f"{row.cancelled} trials were stopped and count nowhere"
    tokens = [
        f"{count:,} {what} tokens"
        for what, count in (("prompt", row.prompt_tokens), ("completion", row.completion_tokens))
        if count is not None
    ]
    cost = [f"{row.cost_usd:.4f} USD"] if row.cost_usd is not None else []
    if tokens or cost:
        yield "used " + ", ".join(tokens + cost)


def _measure(measures: dict[int, Measure], k: int) -> str:
    return interval_text(measures[k].estimate) if k in measures else "-"


def interval_text(estimate: Estimate) -> str:
    """`0.413 [0.322, 0.507]`; without an interval the value alone."""
    if estimate.lower is None or estimate.upper is None:
        return _number(estimate.value)
    return f"{_number(estimate.value)} [{estimate.lower:.3f}, {estimate.upper:.3f}]"


def signed(estimate: Estimate) -> str:
    """As `interval_text`, with signs."""
    if estimate.value is None:
        return "-"
    if estimate.lower is None or estimate.upper is None:
        return f"{estimate.value:+.3f}"
    return f"{estimate.value:+.3f} [{estimate.lower:+.3f}, {estimate.upper:+.3f}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def print_table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """Prints a plain table; texts to the left, figures to the right."""
    from rich.console import Console
    from rich.table import Table

    rows = [list(line) for line in lines]
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column, name in enumerate(head):
        texts = [row[column] for row in rows]
        number = all(text[:1].isdigit() or text[:1] in "+-" for text in texts if text)
        shown.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        shown.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 180, highlight=False).print(shown)
