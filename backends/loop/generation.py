"""The generating half of the loop: begins groups as admission allows, runs their rollouts, hands finished groups on.

Failures are tried again by rule while their group's deadline allows; a group whose deadline passes is finished with
what it has. A finished group is written, read back, screened, and then waits to be trained, or is dropped and its place
refunded, so that another begins. Whatever a trial does, its group ends within `group_s` and a grace. Used by the loop.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from envkit.backend import Engines, Rollout, RolloutRequest, StepMetrics, Trials
from envkit.backends.data.group import DropReason, Group, GroupReport
from envkit.backends.loop.buffer import Buffer
from envkit.backends.loop.capacity import Capacity
from envkit.backends.loop.clock import Clock
from envkit.backends.loop.config import LoopConfig
from envkit.backends.loop.events import Fault, GroupDropped, GroupFinished, GroupStarted, RolloutFinished
from envkit.backends.loop.order import TaskOrder, seed_of
from envkit.backends.loop.rollouts import Flight, Rollouts
from envkit.backends.loop.state import GroupState
from envkit.backends.loop.waits import FirstFailure, bounded
from envkit.backends.loop.watch import Watch
from envkit.failure import RETRIES, Boundary, EnvkitError, Failure, FailureKind
from envkit.trial.admission import Admission, AdmissionLimits, Hold, Observed, Staleness

__all__ = ["Generation"]

#: Groups of one task are a matter of the order of the data, not of admission's fairness: it sees one task.
ONE = "train"


@dataclass(slots=True)
class _Live:
    """A group that runs."""

    state: GroupState
    started_s: float
    flights: dict[int, Flight] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None
    closing: bool = False  # its deadline has passed: nothing is tried again
    gone: bool = False  # dropped while rollouts were out


class Generation:
    """Runs from `start` to `close`. `step` is the version being trained; `version` that of the engines' weights."""

    def __init__(
        self,
        plan: LoopConfig,
        *,
        trials: Trials,
        engines: Engines,
        tasks: TaskOrder,
        screen: Callable[[Group], GroupReport],
        buffer: Buffer,
        capacity: Capacity,
        clock: Clock,
        first: FirstFailure,
        watch: Watch,
        memory_available_mb: Callable[[], float | None] | None = None,
    ) -> None:
        self._plan = plan
        self._trials = trials
        self._engines = engines
        self._tasks = tasks
        self._screen = screen
        self._buffer = buffer
        self._capacity = capacity
        self._clock = clock
        self._first = first
        self._watch = watch
        self._memory = memory_available_mb
        self.version = 0
        self.share = 1.0  # of the trial places; less while an evaluation has the rest
        self.held_by = Hold.NOTHING
        self.counts: dict[str, float] = {}  # since they were last taken
        self._step = 1
        self._live: dict[int, _Live] = {}  # in order of ordinals
        self._ready: list[int] = []  # heap
        self._queued: int | None = None  # the group that admission knows and that has not begun
        self._screening: dict[int, asyncio.Task[None]] = {}
        self._open = False
        self._failed_groups = 0  # in a row
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._rollouts = Rollouts(
            trials, clock, rollout_s=plan.deadline.rollout_s, cancel_s=plan.deadline.cancel_s, first=first
        )
        limits = plan.admission
        self._admission = Admission(
            AdmissionLimits(
                max_running=limits.max_running,
                starts_per_s=limits.starts_per_s,
                max_starting=limits.max_starting,
                max_engine_waiting=limits.max_engine_waiting,
                max_kv_used=limits.max_kv_used,
                staleness=Staleness(plan.max_staleness, plan.groups_per_step),
            ),
            groups_begun=buffer.state.consumed * plan.groups_per_step,
        )

    # -- what the loop asks and tells ---------------------------------------------------------------------------------

    @property
    def running(self) -> int:
        """Trials that are out."""
        return self._admission.running

    @property
    def ready(self) -> int:
        """Groups that wait to be trained."""
        return len(self._ready)

    @property
    def unfinished(self) -> int:
        """Groups that have begun and are not ready."""
        return len(self._live)

    @property
    def groups_begun(self) -> int:
        """All groups ever begun, less those that were dropped: what the staleness bound is about."""
        return self._admission.groups_begun

    @property
    def step(self) -> int:
        return self._step

    @property
    def places(self) -> int:
        """Trials that may be out at once, as far as is known."""
        limits = self._plan.admission
        room, mean = self._capacity.kv_tokens(limits.kv_share), self._capacity.mean_tokens
        return limits.max_running if room is None or not mean else max(1, min(limits.max_running, int(room / mean)))

    def metrics(self) -> StepMetrics:
        """Where generation is now, and what happened since this was last asked."""
        found = {f"loop/{name}": value for name, value in self.counts.items()}
        self.counts = {}
        found |= {
            "loop/trials_out": float(self.running),
            "loop/groups_ready": float(self.ready),
            "loop/groups_unfinished": float(self.unfinished),
            "loop/groups_begun": float(self.groups_begun),
            "loop/places": float(self.places),
            f"loop/held_by_{self.held_by.value}": 1.0,
        }
        load = self._capacity.load
        for name, value in (
            ("mean_trajectory_tokens", self._capacity.mean_tokens),
            ("kv_capacity_tokens", load.kv_capacity_tokens),
            ("kv_used_tokens", load.kv_used_tokens),
            ("engine_running", load.running),
            ("engine_waiting", load.waiting),
            ("engine_preemptions", load.preemptions),
        ):
            if value is not None:
                found[f"loop/{name}"] = float(value)
        return found

    def start(self, step: int) -> None:
        """Takes up what the buffer holds and begins."""
        self._step = step
        for group in self._buffer.state.groups.values():
            if group.phase == "consumed":
                continue
            self._admission.begin_group(group.ordinal)
            if group.phase == "ready":
                heapq.heappush(self._ready, group.ordinal)
            else:
                self._live[group.ordinal] = self._alive(group)
                for slot in range(self._plan.group_size):
                    if slot not in group.done:
                        self._admission.add(_key(group.ordinal, slot), ONE, group=group.ordinal)
                self._finish_if_done(self._live[group.ordinal])
        self._open = True
        self._pump = asyncio.get_running_loop().create_task(self._run())

    def advance(self, step: int) -> None:
        """`step` is being trained from now on."""
        self._step = step
        if self._plan.staleness_rule == "drop":
            for ordinal in [o for o in (*self._live, *sorted(self._ready)) if self._late(o, step) > 0]:
                self._drop(ordinal, "stale", ())
        self.wake()

    def wake(self) -> None:
        """Something changed that admission may care about."""
        self._wake.set()

    async def next_batch(self) -> list[int]:
        """The groups of the current step, oldest-started first; they are still `ready` in the buffer.

        Raises:
            DeadlineExceeded: They did not come within `batch_s`.
            Ended: The run failed meanwhile.
        """
        what = f"the wait for {self._plan.groups_per_step} groups for step {self._step}"
        deadline = self._plan.deadline
        try:
            await bounded(self._batch_is_there(), deadline.batch_s, what, grace_s=deadline.cancel_s, first=self._first)
        except EnvkitError as error:
            dropped = {k.removeprefix("dropped_"): int(v) for k, v in self.counts.items() if k.startswith("dropped_")}
            raise EnvkitError(
                f"{error}: {self.ready} are ready, {self.unfinished} unfinished with {self.running} trials out, held "
                f"by {self.held_by.value}; dropped since the last step: {dropped or 'none'}",
                kind=error.kind,
            ) from error
        taken = [heapq.heappop(self._ready) for _ in range(self._plan.groups_per_step)]
        for ordinal in taken:
            self._admission.forget_group(ordinal)
        return taken

    async def close(self) -> None:
        """Nothing begins any more; what is out is cancelled, within bounds. What finished is in the buffer."""
        self._open = False
        tasks: list[asyncio.Task[None]] = [self._pump] if self._pump is not None else []
        tasks += self._screening.values()
        for live in self._live.values():
            if live.timer is not None:
                live.timer.cancel()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._plan.deadline.cancel_s)
        await self._rollouts.close()

    async def _batch_is_there(self) -> None:
        while not self._complete():
            self._changed.clear()
            await self._changed.wait()

    def _complete(self) -> bool:
        if len(self._ready) < self._plan.groups_per_step:
            return False
        if self._plan.staleness_rule == "wait":  # whoever would be too stale at the next step goes into this one
            oldest = next(iter(self._live), None)
            return oldest is None or self._late(oldest, self._step + 1) <= 0
        return True

    def _late(self, ordinal: int, step: int) -> int:
        """Steps by which a group would exceed the staleness bound at `step`."""
        return step - self._buffer.state.groups[ordinal].started_step - self._plan.max_staleness

    # -- beginning ----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Asks admission whenever something changed, or when it wants to be asked."""
        try:
            while True:
                self._wake.clear()
                ask_again_s = self._admit()
                try:
                    async with asyncio.timeout(ask_again_s):
                        await self._wake.wait()
                except TimeoutError:
                    pass
        except Exception as error:  # noqa: BLE001 a capture point: a bug here ends the run, it does not stop its flow
            self._first.set(error)

    def _admit(self) -> float | None:
        """Starts what may start; returns when to ask again."""
        if not self._open or self._capacity.down or not self._engines.urls:
            return None  # whoever watches the engines wakes us
        while True:
            decision = self._admission.admit(self._observed())
            for key in decision.start:
                self._begin(key)
            self.held_by = decision.held_by
            if decision.held_by not in (Hold.NOTHING, Hold.RETRY_WAIT) or not self._queue_next():
                return decision.ask_again_s

    def _observed(self) -> Observed:
        load = self._capacity.load
        limits = self._plan.admission
        return Observed(
            now_s=self._clock.now_s(),
            memory_available_mb=self._memory() if self._memory is not None else None,
            places=max(1, int(limits.max_running * self.share)) if self.share < 1.0 else None,
            kv_capacity_tokens=self._capacity.kv_tokens(limits.kv_share * self.share),
            mean_trajectory_tokens=self._capacity.mean_tokens,
            engine_waiting=load.waiting,
            kv_used=self._capacity.kv_used,
            step=self._step,
        )

    def _queue_next(self) -> bool:
        """Makes the next group of the data known to admission; False where one is, or no more are needed."""
        if self._queued is not None or self._admission.groups_begun >= self._plan.steps * self._plan.groups_per_step:
            return False
        self._queued = ordinal = self._buffer.state.next_ordinal
        for slot in range(self._plan.group_size):
            self._admission.add(_key(ordinal, slot), ONE, group=ordinal)
        return True

    def _begin(self, key: str) -> None:
        """A rollout that admission let in."""
        ordinal, slot = map(int, key.split("/"))
        if ordinal == self._queued:
            self._queued = None
            task = self._tasks.task(ordinal)
            group = self._buffer.begin(ordinal, task, self._step)
            self._live[ordinal] = self._alive(group)
            self._count("groups_started")
            self._watch.emit(GroupStarted(self._clock.now_s(), self._step, group.id, task, ordinal))
        live = self._live.get(ordinal)
        if live is None or live.closing or slot in live.state.done:
            self._admission.finished(key)  # its group was finished while it waited
            self.wake()
            return
        self._launch(live, slot, key)

    def _alive(self, group: GroupState) -> _Live:
        live = _Live(group, self._clock.now_s())
        loop = asyncio.get_running_loop()
        live.timer = loop.call_later(self._plan.deadline.group_s, self._rollouts.guard, self._close_group, live)
        return live

    def _launch(self, live: _Live, slot: int, key: str) -> None:
        group = live.state
        request = RolloutRequest(
            task=group.task,
            group=group.id,
            attempt=slot,
            seed=seed_of(self._plan.seed, group.ordinal, slot, group.tried(slot)),
            version=self.version,
            engine_urls=tuple(self._engines.urls),
        )
        live.flights[slot] = self._rollouts.launch(request, partial(self._settled, live, key))
        self._count("rollouts_started")

    # -- ending -------------------------------------------------------------------------------------------------------

    def _settled(self, live: _Live, key: str, flight: Flight, rollout: Rollout) -> None:
        """A rollout is back, one way or another."""
        slot = flight.request.attempt
        self._admission.finished(key)
        self.wake()
        live.flights.pop(slot, None)
        if flight.abandoned:
            self._count("rollouts_abandoned")
        if live.gone:
            return
        if rollout.failure is not None and self._again(live, key, flight, rollout.failure):
            return
        self._done(live, slot, rollout)

    def _again(self, live: _Live, key: str, flight: Flight, failure: Failure) -> bool:
        """Puts a failed rollout back in line where the rule allows."""
        slot = flight.request.attempt
        if live.closing:
            return False
        retry = self._plan.retry
        # An engine that went away costs nobody a try: how often that happens says nothing about this rollout. The
        # group's deadline bounds it.
        excused = failure.kind is FailureKind.POLICY_UNREACHABLE and not set(flight.request.engine_urls) <= set(
            self._engines.urls
        )
        if not excused:
            allowed = retry.rollouts.get(failure.kind, RETRIES[failure.kind])
            if live.state.tries.get(slot, {}).get(failure.kind, 0) >= allowed:
                return False
            self._buffer.retry(live.state.ordinal, slot, failure.kind)
        tried = live.state.tried(slot)
        pause_s = min(retry.pause_max_s, retry.pause_s * 2.0 ** max(0, tried - 1))
        self._count("rollouts_retried")
        self._admission.add(key, ONE, group=live.state.ordinal, not_before_s=self._clock.now_s() + pause_s)
        self._fault("rollout", failure, f"tried again in {pause_s:g} s", live.state.id)
        return True

    def _done(self, live: _Live, slot: int, rollout: Rollout) -> None:
        if rollout.failure is not None:
            self._count("rollouts_failed")
            self._fault("rollout", rollout.failure, "its group goes on without it", live.state.id)
        self._count("rollouts_finished")
        self._capacity.saw(rollout.context_tokens)
        self._buffer.done(live.state.ordinal, slot, rollout)
        self._watch.emit(RolloutFinished(self._clock.now_s(), self._step, rollout))
        self._finish_if_done(live)

    def _close_group(self, live: _Live) -> None:
        """The group's time is up: it is finished with what it has."""
        if live.gone or live.closing or live.state.ordinal not in self._live:
            return
        live.closing = True
        for flight in list(live.flights.values()):
            self._rollouts.cancel(flight, "ended with its group's time")
        message = f"group {live.state.id} was out for {self._plan.deadline.group_s:g} s"
        failure = Failure.of(FailureKind.DEADLINE, Boundary.ENVKIT, message)
        waiting = [s for s in range(self._plan.group_size) if s not in live.state.done and s not in live.flights]
        self._fault("group", failure, f"finished without {len(waiting) + len(live.flights)} rollouts", live.state.id)
        for slot in waiting:
            request = RolloutRequest(live.state.task, live.state.id, slot, 0, self.version, ())
            now_s = self._clock.now_s()
            self._done(live, slot, Rollout(request, None, failure=failure, started_s=now_s, finished_s=now_s))
        self._finish_if_done(live)

    def _finish_if_done(self, live: _Live) -> None:
        ordinal = live.state.ordinal
        if len(live.state.done) < self._plan.group_size or ordinal in self._screening:
            return
        if live.timer is not None:
            live.timer.cancel()
        task = asyncio.get_running_loop().create_task(self._judge(live))
        self._screening[ordinal] = task
        task.add_done_callback(lambda _: self._screening.pop(ordinal, None))

    async def _judge(self, live: _Live) -> None:
        """Reads a whole group back, screens it, and lets it wait for training or drops it."""
        ordinal = live.state.ordinal
        deadline = self._plan.deadline
        try:
            what = f"reading and screening group {live.state.id}"
            group, report = await bounded(
                self._load_and_screen(ordinal), deadline.load_groups_s, what, grace_s=deadline.cancel_s
            )
        except Exception as error:  # noqa: BLE001 a capture point: without the buffer or the screen nothing can train
            self._first.set(error)
            return
        if live.gone:
            return
        self._note_health(group, report)
        if report.drop is not None:
            self._drop(ordinal, report.drop.value, tuple(rollout.reward for rollout in group.rollouts))
            return
        del self._live[ordinal]
        self._buffer.ready(ordinal)
        heapq.heappush(self._ready, ordinal)
        self._count("groups_finished")
        seconds = self._clock.now_s() - live.started_s
        self._watch.emit(
            GroupFinished(self._clock.now_s(), self._step, group, live.state.started_step, seconds, live.closing)
        )
        self._changed.set()

    def _note_health(self, group: Group, report: GroupReport) -> None:
        """Ends the run where group after group fails: a task that nobody can run costs itself, a sandbox or a judge
        that is gone for good would cost every task of the set."""
        failures = [rollout.failure for rollout in group.rollouts if rollout.failure is not None]
        if report.drop is not DropReason.TOO_FEW or not failures:
            self._failed_groups = 0
            return
        self._failed_groups += 1
        if self._failed_groups >= self._plan.failed_groups:
            kinds = Counter(failure.kind for failure in failures)
            worst = next(failure for failure in failures if failure.kind is kinds.most_common(1)[0][0])
            self._first.set(
                EnvkitError(
                    f"{self._failed_groups} groups in a row had too few valid rollouts; the last: {worst.kind} at "
                    f"{worst.boundary}: {worst.message}",
                    kind=worst.kind,
                    boundary=worst.boundary,
                )
            )

    async def _load_and_screen(self, ordinal: int) -> tuple[Group, GroupReport]:
        (group,) = await self._buffer.load([ordinal])
        return group, await self._clock.offload(self._screen, group)

    def _drop(self, ordinal: int, reason: str, rewards: tuple[float | None, ...]) -> None:
        """A group will not be trained: its place is free for another."""
        group = self._buffer.state.groups[ordinal]
        live = self._live.pop(ordinal, None)
        if live is None:
            self._ready.remove(ordinal)
            heapq.heapify(self._ready)
        else:
            live.gone = True
            if live.timer is not None:
                live.timer.cancel()
            for flight in list(live.flights.values()):
                self._rollouts.cancel(flight, "ended with its group")
        self._buffer.drop(ordinal)
        self._admission.drop_group(ordinal)
        self._count(f"dropped_{reason}")
        self._watch.emit(GroupDropped(self._clock.now_s(), self._step, group.id, group.task, reason, rewards))
        self._changed.set()
        self.wake()

    def _fault(self, where: str, failure: Failure, then: str, group: str | None) -> None:
        self._watch.emit(Fault(self._clock.now_s(), self._step, where, failure, then, group))

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1


def _key(ordinal: int, slot: int) -> str:
    return f"{ordinal}/{slot}"
