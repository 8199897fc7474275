"""What a running training shows: a live panel where there is a terminal, a line a step where there is none.

`Board` is the state, updated by `watch`; a `Display` draws it. Everything goes to standard error, so that standard
output stays the result's.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from envkit.backends.run.alarms import Alarm

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Board", "Display", "Lines", "Live", "Silent", "display_of", "sparkline"]

_BARS = "▁▂▃▄▅▆▇█"

#: (what people read, the figure, how it is written, whether it gets a line of its history)
_ROWS: tuple[tuple[str, str, str, bool], ...] = (
    ("reward", "reward/mean", ".3f", True),
    ("pass@1", "reward/pass_at_1", ".3f", True),
    ("no variance", "reward/zero_variance_share", ".0%", False),
    ("turns", "agent/turns", ".1f", True),
    ("tokens/turn", "agent/tokens_per_turn", ".0f", False),
    ("tool success", "agent/tool_success", ".1%", True),
    ("code share", "agent/code_share", ".0%", False),
    ("context full", "agent/context_exhausted", ".1%", False),
    ("failed", "faults/share", ".1%", False),
    ("loss", "train/loss", ".4g", False),
    ("grad norm", "train/grad_norm", ".3g", True),
    ("entropy", "train/entropy", ".3f", True),
    ("masked", "train/masked_share", ".1%", False),
    ("logprob gap", "train/logprob_gap", ".4f", True),
    ("staleness", "loop/staleness_mean", ".2f", False),
    ("wait for groups", "loop/wait_for_groups_s", ".1f", False),
    ("trials out", "loop/trials_out", ".0f", False),
    ("KV used", "loop/kv_used_share", ".0%", False),
    ("step time", "time/step_s", ".1f", False),
)


class Board:
    """What is shown, and the short history that lines are drawn from."""

    def __init__(self, *, steps: int, group_size: int, history: int = 48) -> None:
        self.steps = steps
        self.group_size = group_size
        self.at_step = 0
        self.figures: dict[str, float] = {}
        self.series: dict[str, deque[float]] = {}
        self.evaluations: list[tuple[int, dict[str, float]]] = []
        self.evaluating = False
        self.rollouts = 0
        self.groups_out = 0
        self.dropped = 0
        self.checkpoint: int | None = None
        self.faults: dict[str, int] = {}
        self.last_fault: str | None = None
        self.alarms: deque[Alarm] = deque(maxlen=4)
        self.since_s = time.monotonic()
        self._history = history

    def started(self, step: int) -> None:
        self.at_step = step
        self.since_s = time.monotonic()

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        self.at_step = step
        self.figures = dict(figures)
        for name, value in figures.items():
            self.series.setdefault(name, deque(maxlen=self._history)).append(value)

    def evaluation(self, step: int, figures: Mapping[str, float]) -> None:
        self.evaluating = False
        self.evaluations.append((step, dict(figures)))

    def fault(self, where: str, text: str) -> None:
        self.faults[where] = self.faults.get(where, 0) + 1
        self.last_fault = text

    def alarm(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)

    def line(self) -> str:
        """One line for people."""
        parts = [f"step {self.at_step}/{self.steps}"]
        for label, name, form, _ in _ROWS:
            if name in self.figures and label in (
                "reward",
                "turns",
                "entropy",
                "grad norm",
                "logprob gap",
                "step time",
            ):
                parts.append(f"{label} {format(self.figures[name], form)}")
        if self.evaluations:
            step, figures = self.evaluations[-1]
            parts.append(f"eval@{step} {figures.get('eval/reward/mean', float('nan')):.3f}")
        if self.faults:
            parts.append("faults " + ", ".join(f"{count} {where}" for where, count in self.faults.items()))
        return ", ".join(parts)


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """The last `width` values as bars between their least and their greatest."""
    shown = list(values)[-width:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    if high - low < 1e-12:
        return _BARS[3] * len(shown)
    return "".join(_BARS[min(7, int((v - low) / (high - low) * 8))] for v in shown)


class Display(Protocol):
    """Something that shows a board."""

    def update(self, board: Board) -> None: ...

    def say(self, text: str) -> None: ...

    def stop(self) -> None: ...


class Silent:
    """Shows nothing."""

    def update(self, board: Board) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def stop(self) -> None:
        pass


class Lines:
    """A line a step and an evaluation."""

    def __init__(self) -> None:
        self._shown = -1
        self._evaluations = 0

    def update(self, board: Board) -> None:
        for step, figures in board.evaluations[self._evaluations :]:
            mean, scored = figures.get("eval/reward/mean", float("nan")), figures.get("eval/rollouts/scored", 0.0)
            print(f"evaluation at step {step}: reward {mean:.3f}, {scored:.0f} rollouts", file=sys.stderr, flush=True)
        self._evaluations = len(board.evaluations)
        if board.at_step != self._shown and board.figures:
            self._shown = board.at_step
            print(board.line(), file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def stop(self) -> None:
        pass


class Live:
    """A panel that is drawn over in place."""

    def __init__(self, title: str, console: Any = None) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._title = title
        self._board: Board | None = None
        self._console = console or Console(stderr=True)
        self._live = RichLive(console=self._console, refresh_per_second=2, get_renderable=self._draw)
        self._live.start()

    def update(self, board: Board) -> None:
        self._board = board  # drawn at the next refresh, however many events there are

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def stop(self) -> None:
        self._live.stop()

    def _draw(self) -> RenderableType:
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        board = self._board
        if board is None:
            return Panel(Text("starting"), title=self._title)
        table = Table.grid(padding=(0, 2))
        cells = []
        for label, name, form, history in _ROWS:
            if name in board.figures:
                bars = sparkline(board.series.get(name, ())) if history else ""
                cells.append((label, format(board.figures[name], form), bars))
        half = (len(cells) + 1) // 2
        for left, right in zip(cells[:half], [*cells[half:], ("", "", "")], strict=False):
            table.add_row(*(Text(part, style="dim" if n % 3 == 0 else "") for n, part in enumerate([*left, *right])))
        minutes, seconds = divmod(int(time.monotonic() - board.since_s), 60)
        head = (
            f"step {board.at_step} of {board.steps}   {board.groups_out} groups out   {board.rollouts} rollouts back   "
            f"{board.dropped} groups dropped   {minutes}:{seconds:02d}"
        )
        lines: list[Any] = [Text(head + ("   evaluating" if board.evaluating else "")), table]
        if board.evaluations:
            shown = [f"{s}: {f.get('eval/reward/mean', float('nan')):.3f}" for s, f in board.evaluations[-6:]]
            lines.append(Text("evaluations  " + "   ".join(shown)))
        if board.faults:
            counts = ", ".join(f"{count} {where}" for where, count in board.faults.items())
            lines.append(Text(f"faults  {counts}; the last: {board.last_fault}"[:400], style="yellow"))
        lines += [Text(f"step {a.step}  {a.kind}: {a.message}", style="bold red") for a in board.alarms]
        return Panel(Group(*lines), title=self._title, title_align="left")


def display_of(mode: Literal["auto", "lines", "off"], title: str) -> Display:
    """A display as the plan asks for it."""
    if mode == "off":
        return Silent()
    if mode == "auto" and sys.stderr.isatty():
        return Live(title)
    return Lines()
