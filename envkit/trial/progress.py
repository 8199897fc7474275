"""What a running job shows: a bar with the running mean and the failures by kind. Says everything once, on stderr.

`Tally` is the state, updated by the job; `Bar` draws it with rich where stderr is a terminal, and prints a plain line
now and then where it is not.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from envkit.trial.admission import Hold
from envkit.trial.result import AttemptResult, Status, TrialResult

__all__ = ["Bar", "Display", "Silent", "Tally"]


@dataclass(slots=True)
class Tally:
    """Counts of one job. The mean is over scored trials only, and `done - scored` says how many that leaves out."""

    total: int
    done: int = 0
    resumed: int = 0
    running: int = 0
    retries: int = 0
    reward_sum: float = 0.0
    context_sum: int = 0
    context_count: int = 0
    status: Counter[Status] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    held_by: Hold = Hold.NOTHING

    @property
    def mean(self) -> float | None:
        """Mean reward of the scored trials; None before there is one."""
        scored = self.status[Status.SCORED]
        return self.reward_sum / scored if scored else None

    @property
    def mean_context_tokens(self) -> float | None:
        """Mean of the largest context of each trial that said it; None before one did."""
        return self.context_sum / self.context_count if self.context_count else None

    def finished(self, result: TrialResult, *, resumed: bool = False) -> None:
        self.done += 1
        self.resumed += resumed
        self.status[result.status] += 1
        self.reward_sum += result.reward or 0.0
        if result.usage.max_context_tokens:
            self.context_sum += result.usage.max_context_tokens
            self.context_count += 1
        if result.failure is not None:
            self.failures[str(result.failure.kind)] += 1

    def retried(self, attempt: AttemptResult) -> None:
        self.retries += 1

    def text(self) -> str:
        """One line for people."""
        mean = "-" if self.mean is None else f"{self.mean:.3f}"
        parts = [f"mean {mean} over {self.status[Status.SCORED]}"]
        if self.running:
            parts.append(f"{self.running} running")
        if self.retries:
            parts.append(f"{self.retries} retried")
        parts += [f"{count} {kind}" for kind, count in self.failures.most_common(4)]
        if self.held_by in (Hold.MEMORY, Hold.PLACES, Hold.ENGINE, Hold.RETRY_WAIT) and not self.running:
            parts.append(f"waiting for {self.held_by.value.replace('_', ' ')}")
        return ", ".join(parts)


class Display(Protocol):
    """Something that shows a tally."""

    def start(self, tally: Tally) -> None: ...

    def update(self, tally: Tally) -> None: ...

    def say(self, text: str) -> None: ...

    def stop(self) -> None: ...


class Silent:
    """Shows nothing."""

    def start(self, tally: Tally) -> None:
        pass

    def update(self, tally: Tally) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def stop(self) -> None:
        pass


class Bar:
    """Draws on stderr, so that standard output stays the result's."""

    #: Where there is no terminal, a line at most this often.
    LINE_EVERY_S = 10.0

    def __init__(self, title: str = "trials") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._title = title
        self._console = Console(stderr=True)
        self._last_line_s = 0.0
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[text]}"),
            console=self._console,
            refresh_per_second=5,
            disable=not self._console.is_terminal,
        )

    def start(self, tally: Tally) -> None:
        self._progress.start()
        self._row = self._progress.add_task(self._title, total=tally.total, completed=tally.done, text=tally.text())
        self._last_line_s = time.monotonic()

    def update(self, tally: Tally) -> None:
        self._progress.update(self._row, completed=tally.done, text=tally.text())
        due = time.monotonic() - self._last_line_s > self.LINE_EVERY_S or tally.done == tally.total
        if not self._console.is_terminal and due:
            self._last_line_s = time.monotonic()
            print(f"{self._title}: {tally.done}/{tally.total}, {tally.text()}", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        if self._console.is_terminal:
            self._progress.console.print(text, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def stop(self) -> None:
        self._progress.stop()
