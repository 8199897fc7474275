"""Admission: the one place that decides how many trials may run and which start next.

A job asks it, and so does training. It is pure: it reads no clock, no memory figure and no engine; whoever asks passes
what was observed (`Observed`) and gets a `Decision`: which trials start now, and when to ask again if nothing else
happens. These bounds hold at once: running trials, the executor's places, trials that are still starting, start rate,
memory, the engines' KV room, and the engines' own signs of pressure (requests that queue, KV in use); training adds
the staleness bound, which counts *groups*, not trials. What is not observed bounds nothing. Order is fair over tasks:
the task with the fewest starts goes first, so that an interrupted job has seen every task once before any task twice.
Within training, a group that has begun is finished before another begins.

    admission = Admission(AdmissionLimits(max_running=64, staleness=Staleness(max_staleness=3, groups_per_step=16)))
    admission.add("g7/r0", "office/memo", group=7)          # one for each trial that shall run
    decision = admission.admit(Observed(clock(), step=12, kv_capacity_tokens=2_000_000, mean_trajectory_tokens=60_000))
    ...                                                     # start decision.start; ask again after decision.ask_again_s
    admission.finished("g7/r0")                             # then ask again; likewise when a step was trained
    admission.forget_group(7)                               # trained on: nothing more will come of it
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Admission", "AdmissionLimits", "Decision", "Hold", "Observed", "Staleness"]

#: How long to wait before asking again where memory or an engine is short: it comes back without telling us.
POLL_S = 1.0


class Hold(StrEnum):
    """What kept the next trial from starting."""

    NOTHING = "nothing"  # nobody waits
    RUNNING = "running"  # the concurrency limit
    PLACES = "places"  # the executor has no place free
    STARTING = "starting"  # enough trials are starting, which is what costs this host most
    RATE = "rate"  # the start rate
    MEMORY = "memory"  # the host's memory
    KV = "kv"  # the engines' KV room
    ENGINE = "engine"  # the engines say that they have enough to do
    STALENESS = "staleness"  # enough untrained groups are out
    RETRY_WAIT = "retry_wait"  # those who wait may not start before a point in time


@dataclass(frozen=True, slots=True)
class Staleness:
    """At most `(max_staleness + step) * groups_per_step` groups may ever have begun while `step` is being trained."""

    max_staleness: int
    groups_per_step: int

    def capacity(self, step: int) -> int:
        """Groups that may have begun. `step` is the version being trained, from 1."""
        return (self.max_staleness + step) * self.groups_per_step


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """What stays the same while a job runs.

    Attributes:
        max_running: Trials at once.
        starts_per_s: Mean start rate; a burst of one second's worth is allowed. None for no limit.
        max_starting: Trials that have started and were not yet called `ready`; None for the executor's own limit.
        starting_s: A trial counts as starting for this long at most: one that hangs there must not hold all others up.
        trial_memory_mb: What one trial is expected to take, sandbox included.
        memory_reserve_mb: Memory never given to trials.
        settle_s: A trial reaches its memory within this time. Until then what it has not taken yet is kept for it,
            for the observed figure does not know of it.
        max_engine_waiting: While more requests than this queue at the engines, nothing new starts.
        max_kv_used: While more than this share of the engines' KV room is in use, nothing new starts.
        staleness: The bound on groups, in training.
    """

    max_running: int
    starts_per_s: float | None = None
    max_starting: int | None = None
    starting_s: float = 60.0
    trial_memory_mb: float = 96.0
    memory_reserve_mb: float = 512.0
    settle_s: float = 5.0
    max_engine_waiting: int = 16
    max_kv_used: float = 0.95
    staleness: Staleness | None = None

    def __post_init__(self) -> None:
        if self.max_running < 1:
            raise ValueError(f"max_running must be at least 1, found {self.max_running}")
        if self.starts_per_s is not None and not self.starts_per_s > 0:
            raise ValueError(f"starts_per_s must be positive or None, found {self.starts_per_s}")
        if self.max_starting is not None and self.max_starting < 1:
            raise ValueError(f"max_starting must be at least 1 or None, found {self.max_starting}")


@dataclass(frozen=True, slots=True)
class Observed:
    """What whoever asks knows at this moment; None for what it does not know, which then bounds nothing.

    Attributes:
        now_s: Any monotonic clock, the same in every call.
        memory_available_mb: The host's (or the cgroup's) available memory.
        places: Trials that the executor can hold at once, those that run included.
        starting: Trials that may be starting at once (not yet called `ready`), as the executor sees it.
        kv_capacity_tokens: KV room of all engines together.
        mean_trajectory_tokens: Mean final length of the trajectories seen so far.
        engine_waiting: Requests that queue at the engines, all of them together.
        kv_used: Share of the engines' KV room that is in use, of the fullest one, from 0 to 1.
        step: The version being trained, from 1; needed where a staleness bound is set.
    """

    now_s: float
    memory_available_mb: float | None = None
    places: int | None = None
    starting: int | None = None
    kv_capacity_tokens: int | None = None
    mean_trajectory_tokens: float | None = None
    engine_waiting: int | None = None
    kv_used: float | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Which trials start now; `ask_again_s` from now if nothing happens before (None: only an event changes it)."""

    start: tuple[str, ...]
    ask_again_s: float | None
    held_by: Hold


@dataclass(slots=True)
class _Unit:
    """What begins as one: a group of trials, or a single trial."""

    task: str
    group: Hashable | None
    keys: deque[str] = field(default_factory=deque)


class Admission:
    """The state: who waits, who runs, which groups have begun. Not thread-safe; one owner asks."""

    def __init__(
        self, limits: AdmissionLimits, *, groups_begun: int = 0, starts: Mapping[str, int] | None = None
    ) -> None:
        """
        Args:
            groups_begun: Groups counted before this run; on a resume of training, those that were trained on,
                `(step - 1) * groups_per_step`, and those that wait in the buffer to be.
            starts: The `starts` of the run that is resumed, so that the order over tasks goes on where it was.
        """
        self._limits = limits
        self._groups_begun = groups_begun
        self._begun: set[Hashable] = set()
        self._units: dict[Hashable, _Unit] = {}  # groups that wait, by group
        self._waiting: dict[str, deque[_Unit]] = {}  # by task, in order of arrival
        self._order: list[tuple[int, int, str]] = []  # heap of (starts, arrival, task); one entry per waiting task
        self._starts: dict[str, int] = dict(starts or {})
        self._arrival: dict[str, int] = {task: number for number, task in enumerate(self._starts)}
        self._first: deque[str] = deque()  # trials whose group has begun: they go before everybody else
        self._later: list[tuple[float, int, str, str, Hashable | None]] = []  # heap of retries that wait for a time
        self._known: dict[str, tuple[str, Hashable | None]] = {}  # everybody who waits or runs
        self._running: dict[str, float] = {}
        self._starting: dict[str, float] = {}  # of those that run, since when; the oldest first
        self._tokens = 1.0 if limits.starts_per_s is None else max(1.0, limits.starts_per_s)
        self._rate_at_s: float | None = None
        self._count = 0

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._known) - len(self._running)

    @property
    def starting(self) -> int:
        """Trials that run and were not yet called `ready`."""
        return len(self._starting)

    @property
    def groups_begun(self) -> int:
        return self._groups_begun

    @property
    def starts(self) -> dict[str, int]:
        """How often something of each task began, by order of the tasks' arrival: all that decides the order of tasks
        and is not in the queue. Plain JSON; hand it to the admission of a resumed run."""
        return {task: self._starts.get(task, 0) for task in self._arrival}

    def add(self, key: str, task: str, *, group: Hashable | None = None, not_before_s: float | None = None) -> None:
        """Someone waits. A retry is added again after `finished`, with `not_before_s` for its pause: it holds no place
        meanwhile. Raises `ValueError` for a key that waits or runs already."""
        if key in self._known:
            raise ValueError(f"trial {key!r} waits or runs already")
        self._known[key] = (task, group)
        if not_before_s is not None:
            self._count += 1
            heapq.heappush(self._later, (not_before_s, self._count, key, task, group))
        else:
            self._enqueue(key, task, group)

    def ready(self, key: str) -> None:
        """A running trial is through with starting; counts only where starts are bounded. Idempotent."""
        self._starting.pop(key, None)

    def finished(self, key: str) -> None:
        """A running trial ended, however it did. Raises `KeyError` for one that was not running."""
        del self._running[key]
        del self._known[key]
        self._starting.pop(key, None)

    def drop_group(self, group: Hashable) -> None:
        """A group that had begun will never be trained on (all its trials failed, say): its place is free again.
        Without this every such group would shrink the room for good, until nothing may start."""
        if group in self._begun:
            self._begun.discard(group)
            self._groups_begun -= 1

    def begin_group(self, group: Hashable) -> None:
        """A group that began before this run (a resume): it is counted, and its trials go before everybody else's."""
        if group not in self._begun:
            self._begun.add(group)
            self._groups_begun += 1

    def forget_group(self, group: Hashable) -> None:
        """A group was trained on. It stays counted; only its name is given up, so that a long run does not grow."""
        self._begun.discard(group)

    def withdraw_waiting(self) -> list[str]:
        """Takes out everybody who waits (a stop was asked for); returns their keys."""
        keys = [key for key in self._known if key not in self._running]
        for key in keys:
            del self._known[key]
        self._units.clear()
        self._waiting.clear()
        self._order.clear()
        self._first.clear()
        self._later.clear()
        return keys

    def admit(self, seen: Observed) -> Decision:
        """Decides, and counts those it names as running."""
        while self._later and self._later[0][0] <= seen.now_s:
            _, _, key, task, group = heapq.heappop(self._later)
            self._enqueue(key, task, group)
        while self._starting and (oldest := next(iter(self._starting.items())))[1] <= (
            seen.now_s - self._limits.starting_s
        ):
            del self._starting[oldest[0]]
        self._refill(seen.now_s)
        started: list[str] = []
        held = Hold.NOTHING
        memory_room = self._memory_room(seen)
        while self._first or self._order:
            held = self._bound(seen, memory_room - len(started))
            if held is not Hold.NOTHING:
                break
            key_or_none = self._next(seen)
            if key_or_none is None:
                held = Hold.STALENESS
                break
            if self._limits.starts_per_s is not None:
                self._tokens -= 1.0
            self._running[key_or_none] = seen.now_s
            self._starting[key_or_none] = seen.now_s
            started.append(key_or_none)
        if held is Hold.NOTHING and self._later:
            held = Hold.RETRY_WAIT
        return Decision(tuple(started), self._ask_again_s(held, seen.now_s), held)

    # -- the bounds ---------------------------------------------------------------------------------------------------

    def _bound(self, seen: Observed, memory_room: float) -> Hold:
        limits = self._limits
        if len(self._running) >= limits.max_running:
            return Hold.RUNNING
        if seen.places is not None and len(self._running) >= seen.places:
            return Hold.PLACES
        for most in (limits.max_starting, seen.starting):
            if most is not None and len(self._starting) >= most:
                return Hold.STARTING
        if limits.starts_per_s is not None and self._tokens < 1.0 - 1e-9:
            return Hold.RATE
        # Figures of memory and engines are estimates. With nothing running there is nobody to wait for, so one may
        # always go: a host that is short of memory then runs trials one by one instead of none for ever.
        if self._running:
            if memory_room < 1.0:
                return Hold.MEMORY
            if len(self._running) >= _kv_places(seen):
                return Hold.KV
            if seen.engine_waiting is not None and seen.engine_waiting > limits.max_engine_waiting:
                return Hold.ENGINE
            if seen.kv_used is not None and seen.kv_used > limits.max_kv_used:
                return Hold.ENGINE
        return Hold.NOTHING

    def _memory_room(self, seen: Observed) -> float:
        if seen.memory_available_mb is None:
            return math.inf
        limits = self._limits
        pledged = 0.0
        for started_s in reversed(self._running.values()):
            age = (seen.now_s - started_s) / limits.settle_s if limits.settle_s > 0 else 1.0
            if age >= 1.0:
                break  # the others started earlier still: with thousands out, this is asked at every event
            pledged += limits.trial_memory_mb * (1.0 - max(0.0, age))
        free = seen.memory_available_mb - limits.memory_reserve_mb - pledged
        return free / limits.trial_memory_mb if limits.trial_memory_mb > 0 else math.inf

    def _refill(self, now_s: float) -> None:
        rate = self._limits.starts_per_s
        if rate is not None and self._rate_at_s is not None:
            self._tokens = min(max(1.0, rate), self._tokens + max(0.0, now_s - self._rate_at_s) * rate)
        self._rate_at_s = now_s

    def _ask_again_s(self, held: Hold, now_s: float) -> float | None:
        waits: list[float] = []
        if held is Hold.RATE and self._limits.starts_per_s is not None:
            waits.append((1.0 - self._tokens) / self._limits.starts_per_s)
        if held is Hold.STARTING:
            waits.append(max(0.0, next(iter(self._starting.values())) + self._limits.starting_s - now_s))
        if held in (Hold.MEMORY, Hold.ENGINE, Hold.PLACES):
            waits.append(POLL_S)
        if self._later:
            waits.append(max(0.0, self._later[0][0] - now_s))
        return min(waits) if waits else None

    # -- the order ----------------------------------------------------------------------------------------------------

    def _enqueue(self, key: str, task: str, group: Hashable | None) -> None:
        if group is not None and group in self._begun:
            self._first.append(key)
            return
        unit = self._units.get(group) if group is not None else None
        if unit is not None:
            unit.keys.append(key)
            return
        unit = _Unit(task, group, deque([key]))
        if group is not None:
            self._units[group] = unit
        queue = self._waiting.get(task)
        if queue:
            queue.append(unit)
        else:
            self._waiting[task] = deque([unit])
            self._push(task)

    def _push(self, task: str) -> None:
        if task not in self._arrival:
            self._arrival[task] = len(self._arrival)
        heapq.heappush(self._order, (self._starts.get(task, 0), self._arrival[task], task))

    def _next(self, seen: Observed) -> str | None:
        """The next trial to start; None where only new groups wait and none may begin."""
        if self._first:
            return self._first.popleft()
        task = self._order[0][2]
        unit = self._waiting[task][0]
        staleness = self._limits.staleness
        if staleness is not None and unit.group is not None:
            if seen.step is None:
                raise ValueError("a staleness bound is set: pass the step being trained")
            if self._groups_begun >= staleness.capacity(seen.step):
                return None
        heapq.heappop(self._order)
        queue = self._waiting[task]
        queue.popleft()
        self._starts[task] = self._starts.get(task, 0) + 1
        if queue:
            self._push(task)
        else:
            del self._waiting[task]
        key = unit.keys.popleft()
        if unit.group is not None:
            del self._units[unit.group]
            self._begun.add(unit.group)
            self._groups_begun += 1
            self._first.extend(unit.keys)
        return key


def _kv_places(seen: Observed) -> float:
    """Trajectories of mean length that the engines hold at once."""
    if seen.kv_capacity_tokens is None or not seen.mean_trajectory_tokens:
        return math.inf
    return max(1, int(seen.kv_capacity_tokens / seen.mean_trajectory_tokens))
