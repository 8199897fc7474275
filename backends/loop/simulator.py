"""A whole training run in virtual time: trials, engines and a trainer that cost what real ones do and compute nothing.

What a trial does (its length, turns, reward, whether it fails) is a function of its seed alone; how long that takes
comes from the engines, which share their throughput and KV room (`simulated_engine`), from the tools' times and from
whatever is made to go wrong: trials that fail, hang or ignore their cancellation, stragglers, slow and failing syncs,
replicas that die and come back, steps that fail. The trainer's weights are a digest over everything it was trained on,
in order: two runs that trained on the same rows in the same order have the same weights, and no others do. Tests, the
efficiency benchmark and capacity planning use it; ten thousand trials at once are no trouble.

    loop, trials, engines, trainer = loop_of(plan, Scenario(...), observers=[Ledger(plan)])
    run_virtual(loop.run())                       # the same each time
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from envkit.backend import (
    Batch,
    EngineLoad,
    MicroBatch,
    Rollout,
    RolloutRequest,
    Row,
    StepMetrics,
    Trainer,
)
from envkit.backends.data.group import DropReason, Group, GroupReport, RolloutReport
from envkit.backends.data.prepare import Prepared
from envkit.backends.loop.clock import VirtualClock
from envkit.backends.loop.config import LoopConfig
from envkit.backends.loop.events import Observer
from envkit.backends.loop.loop import Loop
from envkit.backends.loop.order import Shuffled, seed_of
from envkit.backends.loop.simulated_engine import EngineSpec, Replica
from envkit.backends.loop.simulator_world import Surroundings, World
from envkit.backends.loop.storage import MemoryStorage, Storage
from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, Failure, FailureKind
from envkit.messages import StopReason
from envkit.tokens.export import Sample

__all__ = [
    "Faults",
    "Scenario",
    "SimulatedEngines",
    "SimulatedTrainer",
    "SimulatedTrials",
    "loop_of",
    "prepare",
    "screen",
]


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong, and how often (probabilities).

    Attributes:
        trial: A try fails with a system fault, somewhere in its course.
        trial_raises: A try raises an exception, against the protocol.
        trial_hangs: A try never ends by itself; half of those ignore being cancelled.
        straggler, straggler_factor: A try's tools take this many times longer.
        sync, sync_slow, sync_slow_s: A sync fails; takes this long instead.
        step, step_slow, step_slow_s: An optimiser step fails; takes this much longer.
        save: Saving a checkpoint fails.
        replica_every_s, replica_down_s: Mean time between failures of each replica, and how long it is down.
        node_replicas: Replicas on one node, which fail together.
    """

    trial: float = 0.0
    trial_raises: float = 0.0
    trial_hangs: float = 0.0
    straggler: float = 0.0
    straggler_factor: float = 10.0
    sync: float = 0.0
    sync_slow: float = 0.0
    sync_slow_s: float = 120.0
    step: float = 0.0
    step_slow: float = 0.0
    step_slow_s: float = 300.0
    save: float = 0.0
    replica_every_s: float = math.inf
    replica_down_s: float = 120.0
    node_replicas: int = 1


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is simulated.

    Attributes:
        tasks: Number of tasks; each has its own difficulty and typical length.
        median_tokens, sigma, min_tokens, max_tokens: Final context length: lognormal, clipped. A third of the spread is
            the task's own.
        prompt_tokens: Of the first prompt, at most half of the length.
        sampled_share: Of the tokens behind the first prompt, those that are sampled; the rest is tool results.
        turns: Mean number of turns.
        tool_s: Mean time of a turn's tools, exponential.
        start_s, verify_s: Before the first turn and after the last.
        replicas, engine: The engines.
        sync_s: A weight sync's pause.
        step_s, train_tokens_per_s: An optimiser step: fixed, and by context tokens.
        save_s: The trainer's saving.
        graded: Rewards are shares instead of 0 or 1, so that no group is without variance.
        entry_tokens: Tokens that one entry of the arrays stands for, so that rows stay small.
        around: The sandbox provider, the judges, the hosts.
    """

    tasks: int = 64
    median_tokens: float = 60_000.0
    sigma: float = 0.8
    min_tokens: int = 2_000
    max_tokens: int = 128_000
    prompt_tokens: int = 6_000
    sampled_share: float = 0.3
    turns: float = 8.0
    tool_s: float = 5.0
    start_s: float = 5.0
    verify_s: float = 5.0
    replicas: int = 4
    engine: EngineSpec = field(default_factory=EngineSpec)
    sync_s: float = 5.0
    step_s: float = 5.0
    train_tokens_per_s: float = 100_000.0
    save_s: float = 10.0
    graded: bool = False
    entry_tokens: int = 1_000
    seed: int = 0
    faults: Faults = field(default_factory=Faults)
    around: Surroundings = field(default_factory=Surroundings)


class SimulatedEngines:
    """The replicas, their failures and their syncs."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._random = random.Random(seed_of(scenario.seed, "engines"))
        self.replicas = [Replica(scenario.engine, f"sim://{number}") for number in range(scenario.replicas)]
        self.version = 0
        self._failures: asyncio.Task[None] | None = None

    @property
    def urls(self) -> tuple[str, ...]:
        if self._failures is None and math.isfinite(self._scenario.faults.replica_every_s):
            self._failures = asyncio.get_running_loop().create_task(self._fail_now_and_then())
        return tuple(replica.url for replica in self.replicas if replica.up)

    def pick(self) -> Replica:
        """The replica with the fewest sessions, for a session's whole life."""
        up = [replica for replica in self.replicas if replica.up]
        if not up:
            raise EnvkitError("no engine is up", kind=FailureKind.POLICY_UNREACHABLE, boundary=Boundary.POLICY)
        return min(up, key=lambda replica: replica.sessions)

    async def update(self, trainer: Trainer, version: int, deadline: Deadline) -> StepMetrics:
        faults = self._scenario.faults
        slow = self._random.random() < faults.sync_slow
        fails = self._random.random() < faults.sync
        for replica in self.replicas:
            replica.pause()
        done = False
        try:
            await asyncio.sleep(faults.sync_slow_s if slow else self._scenario.sync_s)
            if fails:
                raise EnvkitError("a transfer of weights broke", kind=FailureKind.POLICY_ERROR)
            done = True
            self.version = version
        finally:
            for replica in self.replicas:
                if replica.up:
                    replica.resume(version if done else None)
        return {"engine/updated": float(len(self.urls))}

    async def load(self, deadline: Deadline) -> EngineLoad:
        up = [replica for replica in self.replicas if replica.up]
        return EngineLoad(
            kv_capacity_tokens=sum(replica.spec.kv_tokens for replica in up),
            kv_used_tokens=sum(replica.kv_used for replica in up),
            running=sum(replica.running for replica in up),
            waiting=sum(replica.waiting for replica in up),
        )

    async def close(self) -> None:
        if self._failures is not None:
            self._failures.cancel()

    async def _fail_now_and_then(self) -> None:
        faults = self._scenario.faults
        rate = len(self.replicas) / faults.replica_every_s / faults.node_replicas
        while True:
            await asyncio.sleep(self._random.expovariate(rate))
            first = self._random.randrange(len(self.replicas)) // faults.node_replicas * faults.node_replicas
            for replica in self.replicas[first : first + faults.node_replicas]:
                if replica.up:
                    replica.fail()
                    asyncio.get_running_loop().call_later(faults.replica_down_s, self._recover, replica)

    def _recover(self, replica: Replica) -> None:
        replica.recover(self.version)


@dataclass(frozen=True, slots=True)
class Course:
    """What a trial will do: a function of its seed and task."""

    prompt: int
    turns: tuple[tuple[int, int, float], ...]  # sampled tokens, tool tokens, tool seconds
    reward: float
    fails_at: int | None
    kind: str

    @classmethod
    def of(cls, scenario: Scenario, task: str, seed: int) -> Course:
        own = random.Random(seed_of(scenario.seed, task))
        middle = math.log(scenario.median_tokens) + own.gauss(0.0, scenario.sigma * math.sqrt(1 / 3))
        ease = own.random()
        dice = random.Random(seed)
        length = math.exp(dice.gauss(middle, scenario.sigma * math.sqrt(2 / 3)))
        total = int(min(scenario.max_tokens, max(scenario.min_tokens, length)))
        prompt = min(scenario.prompt_tokens, total // 2)
        count = 1 + min(int(dice.expovariate(1 / max(1e-9, scenario.turns - 1))) if scenario.turns > 1 else 0, 64)
        each = (total - prompt) / count
        sampled = max(1, int(each * scenario.sampled_share))
        tool = max(0, int(each) - sampled)
        faults = scenario.faults
        slow = faults.straggler_factor if dice.random() < faults.straggler else 1.0
        turns = tuple((sampled, tool, dice.expovariate(1 / scenario.tool_s) * slow) for _ in range(count))
        luck = dice.random()
        reward = luck if scenario.graded else float(luck < ease)
        roll, kind = dice.random(), "scored"
        for name, share in (("fails", faults.trial), ("raises", faults.trial_raises), ("hangs", faults.trial_hangs)):
            if roll < share:
                kind = name
                break
            roll -= share
        return cls(prompt, turns, reward, None if kind == "scored" else dice.randrange(count), kind)


class SimulatedTrials:
    """Trials that sample from the simulated engines."""

    def __init__(self, scenario: Scenario, engines: SimulatedEngines) -> None:
        self._scenario = scenario
        self._engines = engines
        self._sessions = itertools.count()
        self.world = World(scenario.around, scenario.seed)
        self.out = 0
        self.most_out = 0
        self.context_tokens = 0  # of those that were scored

    async def submit(self, request: RolloutRequest, deadline: Deadline) -> Rollout:
        self.out += 1
        self.most_out = max(self.most_out, self.out)
        started_s = asyncio.get_running_loop().time()
        try:
            return await self.world.placed(lambda: self._run(request))
        except EnvkitError as error:
            return self._failed(request, started_s, error.kind, str(error))
        finally:
            self.out -= 1

    async def _run(self, request: RolloutRequest) -> Rollout:
        scenario, loop = self._scenario, asyncio.get_running_loop()
        course = Course.of(scenario, request.task, request.seed)
        started_s, session = loop.time(), next(self._sessions)
        pieces: list[tuple[int, list[tuple[int, int]]]] = []
        try:
            await self.world.start_sandbox()
        except EnvkitError as error:
            return self._failed(request, started_s, error.kind, str(error))
        try:
            replica = self._engines.pick()
        except EnvkitError as error:
            self.world.stop_sandbox()
            return self._failed(request, started_s, error.kind, str(error))
        replica.sessions += 1
        context, pending = 0, course.prompt
        try:
            await asyncio.sleep(scenario.start_s)
            for number, (sampled, tool, seconds) in enumerate(course.turns):
                if number == course.fails_at:
                    if course.kind == "raises":
                        raise RuntimeError("a trial that breaks the protocol")
                    if course.kind == "fails":
                        return self._failed(request, started_s, FailureKind.SANDBOX_DIED, "the sandbox died")
                    await _hang(stubborn=request.seed % 2 == 0)
                runs = await replica.generate(session, context, pending, sampled)
                pieces.append((pending, runs))
                context += pending + sampled
                pending = tool
                await asyncio.sleep(seconds)
            await asyncio.sleep(scenario.verify_s)
            await self.world.judge()
        except EnvkitError as error:
            return self._failed(request, started_s, error.kind, str(error))
        finally:
            self.world.stop_sandbox()
            replica.sessions -= 1
            replica.release(session)
        self.context_tokens += context
        sample = _sample(pieces, scenario.entry_tokens, request.seed)
        return Rollout(
            request=request,
            reward=course.reward,
            stop=StopReason.ANSWERED,
            samples=(sample,),
            sampled_tokens=int(sample.mask.sum()),
            context_tokens=context,
            started_s=started_s,
            finished_s=loop.time(),
            metrics={"turns": float(len(course.turns))},
        )

    def _failed(self, request: RolloutRequest, started_s: float, kind: FailureKind, message: str) -> Rollout:
        failure = Failure.of(kind, Boundary.SANDBOX, message)
        now_s = asyncio.get_running_loop().time()
        return Rollout(request, None, failure=failure, started_s=started_s, finished_s=now_s)

    async def close(self) -> None:
        await self.world.close()


async def _hang(*, stubborn: bool) -> None:
    while True:
        try:
            await asyncio.sleep(86_400.0 * 365)
        except asyncio.CancelledError:
            if not stubborn:
                raise


def _sample(pieces: Sequence[tuple[int, list[tuple[int, int]]]], entry_tokens: int, seed: int) -> Sample:
    """A row in which one entry stands for many tokens; ids are a function of the seed."""
    mask: list[bool] = []
    versions: list[int] = []
    for prompt, runs in pieces:
        blank = max(1, round(prompt / entry_tokens))
        mask += [False] * blank
        versions += [-1] * blank
        for version, tokens in runs:
            n = max(1, round(tokens / entry_tokens))
            mask += [True] * n
            versions += [version] * n
    n = len(mask)
    shown = np.asarray(mask, np.bool_)
    ids = ((np.arange(n, dtype=np.int64) * 7_919 + seed % 100_003) % 50_000).astype(np.int32)
    logprobs = np.where(shown, -(ids % 97) / np.float32(97), 0).astype(np.float32)
    return Sample(
        ids=ids,
        mask=shown,
        logprobs=logprobs,
        versions=np.asarray(versions, np.int32),
        thread="main",
        nodes=(0,),
        finish="stop",
    )


class SimulatedTrainer:
    """Weights that are a digest of everything trained on; `busy_s` is the time spent in steps."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._random = random.Random(seed_of(scenario.seed, "trainer"))
        self._version = 0
        self.digest = hashlib.sha256(b"start").hexdigest()
        self.history: list[tuple[int, str]] = []  # (version, digest) in the order of training
        self.busy_s = 0.0
        self.trained_tokens = 0

    @property
    def version(self) -> int:
        return self._version

    @property
    def ranks(self) -> int:
        return 1

    async def train_step(self, batch: Batch, *, temperature: float, deadline: Deadline) -> StepMetrics:
        scenario, faults = self._scenario, self._scenario.faults
        hasher = hashlib.sha256(self.digest.encode())
        entries = 0
        for row in batch.rows:
            hasher.update(f"{row.group}/{row.trial}".encode())
            for array in (row.ids, row.logprobs, row.versions, row.advantages, row.weights):
                hasher.update(array.tobytes())
            entries += len(row)
        tokens = entries * scenario.entry_tokens
        took_s = scenario.step_s + tokens / scenario.train_tokens_per_s
        if self._random.random() < faults.step_slow:
            took_s += faults.step_slow_s
        await asyncio.sleep(took_s)
        if self._random.random() < faults.step:
            raise EnvkitError("an optimiser step that did not happen")
        self.digest = hasher.hexdigest()
        self._version = batch.step
        self.history.append((batch.step, self.digest))
        self.busy_s += took_s
        self.trained_tokens += tokens
        return {"loss": 0.0, "grad_norm": 1.0, "lr": 1e-6, "tokens": float(tokens)}

    def weights(self) -> Iterator[tuple[str, Any]]:
        yield "digest", self.digest

    async def save(self, folder: Path, deadline: Deadline) -> None:
        await asyncio.sleep(self._scenario.save_s)
        if self._random.random() < self._scenario.faults.save:
            raise EnvkitError("a checkpoint that could not be written")
        _write(folder, f"{self._version} {self.digest}")

    async def load(self, folder: Path, deadline: Deadline) -> None:
        version, self.digest = (folder / "weights").read_text().split()
        self._version = int(version)

    async def close(self) -> None: ...


def _write(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "weights").write_text(text)


def screen(group: Group) -> GroupReport:
    """Two valid rollouts that differ train."""
    rewards = [rollout.reward for rollout in group.rollouts if rollout.reward is not None]
    drop = None
    if len(rewards) < 2:
        drop = DropReason.TOO_FEW
    elif max(rewards) - min(rewards) < 1e-6:
        drop = DropReason.ZERO_VARIANCE
    reports = tuple(RolloutReport(rollout.valid, rollout.reward) for rollout in group.rollouts)
    return GroupReport(group.id, group.task, reports, drop)


def prepare(groups: Sequence[Group], step: int) -> Prepared:
    """Rewards less their group's mean, one micro-batch."""
    rows: list[Row] = []
    for group in groups:
        rewards = [rollout.reward for rollout in group.rollouts if rollout.reward is not None]
        mean = sum(rewards) / len(rewards)
        for rollout in group.rollouts:
            for sample in rollout.samples if rollout.reward is not None else ():
                advantage = np.where(sample.mask, (rollout.reward or 0.0) - mean, 0.0)
                trial = f"{group.id}/{rollout.request.attempt}"
                weights = sample.mask.astype(np.float64)
                rows.append(
                    Row(sample.ids, sample.mask, sample.logprobs, sample.versions, advantage, weights, group.id, trial)
                )
    return Prepared(Batch(((MicroBatch(tuple(rows)),),), step), {}, tuple(screen(group) for group in groups))


def loop_of(
    plan: LoopConfig,
    scenario: Scenario,
    *,
    storage: Storage | None = None,
    observers: Sequence[Observer] = (),
    tasks: Shuffled | None = None,
) -> tuple[Loop, SimulatedTrials, SimulatedEngines, SimulatedTrainer]:
    """A loop over simulated parts, to be run under virtual time."""
    engines = SimulatedEngines(scenario)
    trials = SimulatedTrials(scenario, engines)
    trainer = SimulatedTrainer(scenario)
    loop = Loop(
        plan,
        folder=Path("simulated"),
        trials=trials,
        engines=engines,
        trainer=trainer,
        tasks=tasks or Shuffled([f"task-{number:04d}" for number in range(scenario.tasks)], seed=plan.seed),
        screen=screen,
        prepare=prepare,
        clock=VirtualClock(),
        storage=storage if storage is not None else MemoryStorage(),
        observers=observers,
    )
    return loop, trials, engines, trainer
