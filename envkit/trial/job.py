"""A job: many trials, each in a process of its own, in one folder of plain files that can be resumed.

    job = Job(specs, Path("runs/first"), concurrency=4)
    outcome = await job.run()

The job plans, admits, retries by rule and writes each trial's record; the trials themselves run in processes of an
executor and write their own evidence. The files are the truth: the job believes an attempt's record, not a message.
Ctrl-C (or SIGTERM) stops it cleanly: nothing new starts, running trials end as `cancelled`, what is there is written;
a second Ctrl-C kills at once. Either way, as after a SIGKILL, running the same job on the same folder resumes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envkit import __version__, plugins
from envkit.failure import RETRIES, Boundary, EnvkitError, Failure, FailureKind
from envkit.trial import gc, secrets
from envkit.trial.admission import Admission, AdmissionLimits, Observed
from envkit.trial.budget import Budget, Spent
from envkit.trial.client import ChildExit
from envkit.trial.engine_watch import EngineWatch
from envkit.trial.executor import Executor, Plan
from envkit.trial.plan import Rerun, check_plan, open_work
from envkit.trial.preload import preloads
from envkit.trial.progress import Bar, Display, Silent, Tally
from envkit.trial.result import AttemptResult, Status, TrialResult, TrialSpec
from envkit.trial.store import Damage, RunLock, RunStore, has_room
from envkit.trial.trial import EXIT_DISK_FULL, KILL_GRACE_S, AttemptRequest

__all__ = ["Job", "JobResult", "preloads"]

#: How long running trials may take to end cleanly after a stop was asked for; then they are killed.
STOP_GRACE_S = 15.0

#: Pause before a retry: about this times 2^n, with jitter, so that a hundred trials don't hit a sick service together.
RETRY_PAUSE_S = 1.0
RETRY_PAUSE_MAX_S = 60.0


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job came to.

    Attributes:
        results: Of every finished trial, resumed ones included, in the plan's order.
        missing: Ids of planned trials that have no record (the job was stopped before they ran).
        interrupted: Somebody asked to stop.
        failure: What stopped the job itself (the disk is full).
        damaged: Files that could not be read and were treated as not there.
        spent: By all attempts, earlier runs of this folder included.
        over_budget: Why nothing more was started, where the budget was the reason.
    """

    folder: Path
    results: tuple[TrialResult, ...]
    missing: tuple[str, ...]
    tally: Tally
    interrupted: bool = False
    failure: Failure | None = None
    damaged: tuple[Damage, ...] = ()
    spent: Spent = field(default_factory=Spent)
    over_budget: str | None = None

    @property
    def exit_code(self) -> int:
        """130 after an interruption, 1 where a trial has no reward or the job broke, 0 otherwise."""
        if self.interrupted:
            return 130
        whole = not self.missing and all(r.status is Status.SCORED for r in self.results)
        return 0 if whole and self.failure is None else 1


@dataclass(slots=True)
class _Running:
    """A trial on its way through its attempts."""

    spec: TrialSpec
    attempts: list[AttemptResult] = field(default_factory=list)
    failures: dict[FailureKind, int] = field(default_factory=dict)  # of this run; a resume counts afresh
    number: int = 0  # the executor's for its attempt, while one runs


class Job:
    """Runs a list of trials in a folder.

    Args:
        specs: The plan. Ids must be distinct; a folder that was started with another plan is refused.
        folder: Made if missing; resumed if it holds this plan.
        concurrency: Trials at once.
        starts_per_s: Mean start rate; None for no limit.
        retries: Overrides of `failure.RETRIES`, by kind.
        unscored: Which unscored trials a resume runs again.
        limits: Admission limits in full; wins over `concurrency` and `starts_per_s`.
        executor: Where attempts run: a registered name (`process`, `ray`), or an executor of one's own. It is the
            job's from then on.
        engines: Addresses of the engines that trials sample from; while they have enough to do, nothing new starts.
        kill_grace_s: What is alive this long after its budget is killed.
        progress: True for a bar on stderr, False for nothing, or a display of one's own.
        budget: When what all attempts have used reaches it, nothing new starts; what runs is finished.
    """

    def __init__(
        self,
        specs: Sequence[TrialSpec],
        folder: Path,
        *,
        concurrency: int = 4,
        starts_per_s: float | None = None,
        retries: Mapping[FailureKind, int] | None = None,
        unscored: Rerun = Rerun.RETRIABLE,
        limits: AdmissionLimits | None = None,
        executor: str | Executor = "process",
        engines: Sequence[str] = (),
        kill_grace_s: float = KILL_GRACE_S,
        progress: bool | Display = False,
        budget: Budget | None = None,
    ) -> None:
        self.specs = tuple(specs)
        self.folder = Path(folder).absolute()
        self._retries = {**RETRIES, **(retries or {})}
        self._unscored = unscored
        self._limits = limits or AdmissionLimits(max_running=concurrency, starts_per_s=starts_per_s)
        self._kill_grace_s = kill_grace_s
        self._display: Display = (Bar() if progress else Silent()) if isinstance(progress, bool) else progress
        clean = secrets.scrubber(*(s.policy.options for s in specs), *(s.harness.options for s in specs))
        self._store = RunStore(self.folder, clean.scrub_text)
        self._wake = asyncio.Event()
        self._trials: dict[str, _Running] = {}
        self._results: dict[str, TrialResult] = {}
        self._stopping = False
        self._interrupts = 0
        self._failure: Failure | None = None
        self._crash: BaseException | None = None
        self._executor: Executor = plugins.construct("executors", executor) if isinstance(executor, str) else executor
        self._engines = EngineWatch(engines)
        self._started = False
        self._tally = Tally(total=len(self.specs))
        self._budget, self._spent = budget or Budget(), Spent()
        self._over_budget: str | None = None

    async def run(self) -> JobResult:
        """Runs what has no verdict yet and returns everything.

        Raises:
            UserError: Another plan or another job is in the folder; a plug-in can't be loaded.
            EnvkitError: `DISK_FULL` before anything could start.
        """
        lock = RunLock(self.folder)
        await asyncio.to_thread(lock.acquire)
        try:
            if check_plan(self._store, self.specs, {"envkit_version": __version__}):
                await asyncio.to_thread(self._store.drop_partial)
            kept, to_run = open_work(self._store, self.specs, self._unscored)
            for result in kept:
                self._results[result.trial_id] = result
                self._tally.finished(result, resumed=True)
                earlier = self._store.attempts(result.trial_id) if len(result.attempts) > 1 else [result]
                for one in earlier:
                    self._spent.add(one.usage)
            self._store.rewrite_lines(kept)
            for spec in to_run:
                self._trials[spec.trial_id] = _Running(spec, self._store.attempts(spec.trial_id))
                for one in self._trials[spec.trial_id].attempts:
                    self._spent.add(one.usage)
            if to_run and not self._is_over_budget():
                async with self._engines:
                    await self._run(to_run, lock.descriptor)
            else:  # what killed the run may have done so after its last verdict, and starting is what sweeps
                await asyncio.to_thread(gc.collect_for, self.specs)
        finally:
            lock.release()
        return self._outcome()

    def stop(self) -> None:
        """Stops cleanly, as the first Ctrl-C does; called again, kills at once. Call it from the job's event loop."""
        self._interrupts += 1
        if self._interrupts == 1:
            running = sum(1 for t in self._trials.values() if t.number)
            self._display.say(f"stopping: {running} running trials are ended cleanly; once more to kill them")
        elif self._started:
            self._executor.kill()
        self._stopping = True
        self._wake.set()

    # -- the loop -----------------------------------------------------------------------------------------------------

    async def _run(self, to_run: list[TrialSpec], lock_descriptor: int) -> None:
        admission = Admission(self._limits)
        concurrency = min(self._limits.max_running, len(to_run))
        plan = Plan(self.specs, self.folder, (lock_descriptor,), concurrency, self._wake.set)
        self._started = True
        for spec in to_run:
            admission.add(spec.trial_id, spec.task, group=spec.group)
        tasks: set[asyncio.Task[None]] = set()
        self._display.start(self._tally)
        try:
            with self._signals():
                await self._start(plan)
                while admission.running or admission.waiting:
                    self._wake.clear()
                    if self._stopping:
                        admission.withdraw_waiting()
                        await self._end_running(tasks)
                        break
                    if self._is_over_budget():
                        admission.withdraw_waiting()  # retries too: they would cost as well
                        if not admission.running:
                            break
                    observed = self._observe()
                    if observed is None:
                        continue
                    decision = admission.admit(observed)
                    for key in decision.start:
                        task = asyncio.create_task(self._attempt(key, admission))
                        tasks.add(task)
                        task.add_done_callback(tasks.discard)
                    self._tally.running, self._tally.held_by = admission.running, decision.held_by
                    self._display.update(self._tally)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(decision.ask_again_s):
                            await self._wake.wait()
        except asyncio.CancelledError:
            self._stopping = True
            await self._end_running(tasks)
            raise
        finally:
            self._tally.running = 0
            self._display.update(self._tally)
            self._display.stop()
            await self._executor.close()
        if self._crash is not None:
            raise self._crash

    def _is_over_budget(self) -> bool:
        if self._over_budget is None:
            self._over_budget = self._spent.stop(self._budget)
            if self._over_budget is not None:
                self._display.say(f"nothing new is started: {self._over_budget}")
        return self._over_budget is not None

    def _observe(self) -> Observed | None:
        """What admission has to know; None where the executor gave up, which stops the job."""
        engines = self._engines.pressure
        try:
            room = self._executor.room()
        except EnvkitError as error:
            self._broken(Failure.of(error.kind, Boundary.ENVKIT, str(error)))
            return None
        return Observed(
            time.monotonic(),
            memory_available_mb=room.memory_available_mb,
            places=room.places,
            starting=room.starting,
            kv_capacity_tokens=engines.kv_capacity_tokens,
            kv_used=engines.kv_used,
            engine_waiting=engines.waiting,
            mean_trajectory_tokens=self._tally.mean_context_tokens,
        )

    async def _start(self, plan: Plan) -> None:
        """Starts the executor; can be stopped meanwhile, for it may take a minute."""
        starting = asyncio.ensure_future(self._executor.start(plan))
        stopping = asyncio.ensure_future(self._wake.wait())
        try:
            done, _ = await asyncio.wait({starting, stopping}, timeout=5.0, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                self._display.say("loading; a machine's first run also builds the Python of its sandboxes (a minute)")
                await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done() and self._stopping:
                self._executor.kill()
            await starting
        except EnvkitError:
            if not self._stopping:
                raise
        finally:
            stopping.cancel()

    async def _end_running(self, tasks: set[asyncio.Task[None]]) -> None:
        """Asks every running trial to stop, waits for their records, and kills those that don't end."""
        for trial in self._trials.values():
            if trial.number:
                self._executor.stop(trial.number)
        left = set(tasks)
        end_s = time.monotonic() + STOP_GRACE_S
        while left and self._interrupts < 2 and time.monotonic() < end_s:
            _, left = await asyncio.wait(left, timeout=0.1)
        if left:
            self._executor.kill()
            await asyncio.wait(left, timeout=5.0)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        installed = []
        for number in (signal.SIGINT, signal.SIGTERM):
            # Only the main thread's loop may; elsewhere whoever owns the thread calls `stop`.
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, self.stop)
                installed.append(number)
        try:
            yield
        finally:
            for number in installed:
                loop.remove_signal_handler(number)

    # -- one attempt --------------------------------------------------------------------------------------------------

    async def _attempt(self, key: str, admission: Admission) -> None:
        trial = self._trials[key]
        try:
            record = await self._one(trial, lambda: self._ready(key, admission))
            trial.attempts.append(record)
            self._spent.add(record.usage)
            pause_s = None if self._stopping else self._retry_pause_s(trial, record)
            if pause_s is None:
                self._finish(trial, record)
        except (EnvkitError, OSError) as error:
            # The disk is full, or the folder is gone: nothing can be kept, so nothing more is started.
            kind = error.kind if isinstance(error, EnvkitError) else FailureKind.UNKNOWN
            self._broken(Failure.of(kind, Boundary.ENVKIT, str(error)))
            pause_s = None
        except Exception as error:  # noqa: BLE001 - a fault of the job's own; `run` raises it when all is put away
            self._crash = error
            self._stopping = True
            pause_s = None
        admission.finished(key)
        if pause_s is not None:
            self._tally.retried(record)
            start_s = time.monotonic() + pause_s
            admission.add(key, trial.spec.task, group=trial.spec.group, not_before_s=start_s)
        self._wake.set()

    def _ready(self, key: str, admission: Admission) -> None:
        admission.ready(key)
        self._wake.set()

    async def _one(self, trial: _Running, on_ready: Callable[[], None]) -> AttemptResult:
        """Runs one attempt and returns its record: its own, or ours where it left none."""
        spec = trial.spec
        self._store.drop_snapshots(spec.trial_id)
        number = self._store.next_attempt(spec.trial_id)
        attempt = self._store.attempt(spec.trial_id, number)
        attempt.create()
        request = AttemptRequest(spec=spec, attempt=number, folder=str(attempt.folder), run_id=str(self.folder))
        started_at = dt.datetime.now(dt.UTC)

        def on_start(number: int) -> None:
            trial.number = number

        try:
            ended = await self._executor.run(
                request, limit_s=spec.timeout_s + self._kill_grace_s, on_start=on_start, on_ready=on_ready
            )
        finally:
            trial.number = 0
        record = self._store.read_attempt(spec.trial_id, number)
        if record is None:
            self._store.drop_snapshots(spec.trial_id)
            record = self._stand_in(spec, number, ended, started_at)
            attempt.write_result(record)
        return record

    def _stand_in(self, spec: TrialSpec, number: int, ended: ChildExit, started_at: dt.datetime) -> AttemptResult:
        """The record of an attempt whose process left none."""
        if self._stopping:
            failure = Failure.of(FailureKind.CANCELLED, Boundary.ENVKIT, "the trial's process was ended with its job")
            status = Status.CANCELLED
        else:
            status = Status.FAILED
            kind, message = FailureKind.TRIAL_DIED, f"the trial's process left no result: {ended.describe()}"
            if ended.code == EXIT_DISK_FULL:
                kind, message = FailureKind.DISK_FULL, "the disk had no room for the trial's result"
            elif ended.timed_out:
                kind = FailureKind.DEADLINE
                message = (
                    f"the trial was still there {self._kill_grace_s:g} s after its budget of {spec.timeout_s:g} s "
                    "and was killed: something in it blocks"
                )
            failure = Failure.of(kind, Boundary.ENVKIT, message)
        return AttemptResult(
            trial_id=spec.trial_id,
            attempt=number,
            task=spec.task,
            seed=spec.seed,
            status=status,
            failure=failure,
            started_at=started_at,
            finished_at=dt.datetime.now(dt.UTC),
            envkit_version=__version__,
            process={
                "exit_code": ended.code,
                "signal": ended.signal,
                "timed_out": ended.timed_out,
                "lost": ended.lost,
                "max_rss_mb": round(ended.max_rss_kb / 1024, 1),
            },
        )

    def _finish(self, trial: _Running, record: AttemptResult) -> None:
        result = TrialResult.of(trial.spec, trial.attempts)
        self._store.write_trial(result)
        self._results[result.trial_id] = result
        self._tally.finished(result)
        if record.failure is not None and record.failure.kind is FailureKind.DISK_FULL and not has_room(self.folder):
            self._broken(record.failure)  # every other trial would fail of it too; else only this one was too large

    def _retry_pause_s(self, trial: _Running, record: AttemptResult) -> float | None:
        """Seconds to wait before another attempt; None for no other attempt."""
        if record.status in (Status.SCORED, Status.CANCELLED):
            return None
        reasons = {f.kind for f in (*record.missing, *((record.failure,) if record.failure else ()))}
        for kind in reasons:
            trial.failures[kind] = trial.failures.get(kind, 0) + 1
        # Missing outcomes are worth another attempt if one of their reasons is; a broken trial has one reason.
        if not any(trial.failures[kind] <= self._retries[kind] for kind in reasons):
            return None
        tries = sum(trial.failures.values())
        pause_s: float = min(RETRY_PAUSE_MAX_S, RETRY_PAUSE_S * 2.0 ** (tries - 1))
        return pause_s * random.uniform(0.5, 1.5)

    def _broken(self, failure: Failure) -> None:
        if self._failure is None:
            self._failure = failure
            self._display.say(f"stopping: {failure.message}")
        self._stopping = True
        self._wake.set()

    def _outcome(self) -> JobResult:
        ids = [spec.trial_id for spec in self.specs]
        return JobResult(
            folder=self.folder,
            results=tuple(self._results[i] for i in ids if i in self._results),
            missing=tuple(i for i in ids if i not in self._results),
            tally=self._tally,
            interrupted=self._interrupts > 0,
            failure=self._failure,
            damaged=tuple(self._store.damaged),
            spent=self._spent,
            over_budget=self._over_budget,
        )
