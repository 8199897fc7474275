"""Evaluating while training: who is asked, what is counted, what a crash or a deadline leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envkit.backend import EngineLoad, Rollout, RolloutRequest, StepMetrics, Trainer
from envkit.backends.loop import EvaluationCall
from envkit.backends.run import evaluate
from envkit.backends.run.evaluate import Evaluator
from envkit.backends.run.log import read_log
from envkit.backends.run.metrics import Labels
from envkit.backends.run.plan import EvaluationPlan
from envkit.deadline import Deadline
from envkit.failure import Boundary, Failure, FailureKind
from envkit.messages import StopReason

Answer = Callable[[RolloutRequest], Any]


class Trials:
    """Trials that come to what the test says."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.requests: list[RolloutRequest] = []
        self.running = 0
        self.most = 0

    async def submit(self, request: RolloutRequest, deadline: Deadline) -> Rollout:
        self.requests.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0.01)
            came = self._answer(request)
            reward = await came if asyncio.iscoroutine(came) else came
        finally:
            self.running -= 1
        if isinstance(reward, FailureKind):
            failure = Failure.of(reward, Boundary.SANDBOX, "broken")
            return Rollout(request, None, failure=failure)
        return Rollout(request, reward, StopReason.ANSWERED, metrics={"turns": 5.0}, sampled_tokens=100)

    async def close(self) -> None: ...


class Engines:
    urls: tuple[str, ...] = ("http://e:1",)

    async def update(self, trainer: Trainer, version: int, deadline: Deadline) -> StepMetrics:
        return {}

    async def load(self, deadline: Deadline) -> EngineLoad:
        return EngineLoad()

    async def close(self) -> None: ...


def call(trials: Trials, *, trained: int = 20, places: int = 3, within_s: float = 300.0) -> EvaluationCall:
    return EvaluationCall(trained, trials, Engines(), places, Deadline.after(within_s))


def evaluator(folder: Path, *, samples: int = 2, tasks: tuple[str, ...] = ("a", "b", "c")) -> Evaluator:
    labels = {"a": Labels("law", "memo"), "b": Labels("law", "memo"), "c": Labels("finance", "sheet")}
    return Evaluator(EvaluationPlan(samples=samples), folder=folder, tasks=tasks, labels=labels, seed=5)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "_PAUSE_S", 0.0)


async def test_every_task_is_sampled_within_the_places_and_each_counts_once(tmp_path: Path) -> None:
    trials = Trials(lambda request: {"a": 1.0, "b": 0.0, "c": float(request.attempt)}[request.task])
    found = await evaluator(tmp_path)(call(trials))
    assert sorted((r.task, r.attempt) for r in trials.requests) == [(t, n) for t in "abc" for n in (0, 1)]
    assert trials.most == 3
    assert all(not r.train and r.version == 20 and r.engine_urls == ("http://e:1",) for r in trials.requests)
    assert found["eval/reward/mean"] == 0.5
    assert found["eval/reward/mean_se"] == pytest.approx(0.5 / 3**0.5)
    assert found["eval/reward/pass_at_1"] == 0.5
    assert found["eval/reward/pass_at_2"] == pytest.approx(2 / 3)
    assert found["eval/domain/law/reward"] == 0.5
    assert found["eval/trials"] == 6
    assert len(list(read_log(tmp_path / "evaluations" / "step-000020.jsonl"))) == 6


async def test_seeds_come_back_in_every_evaluation(tmp_path: Path) -> None:
    seen = []
    for trained in (0, 20):
        trials = Trials(lambda request: 0.5)
        await evaluator(tmp_path)(call(trials, trained=trained))
        seen.append({(r.task, r.attempt): r.seed for r in trials.requests})
    assert seen[0] == seen[1]
    assert len(set(seen[0].values())) == 6


async def test_faults_are_tried_again_by_rule_and_never_counted_as_zero(tmp_path: Path) -> None:
    tries: dict[str, int] = {}

    def answer(request: RolloutRequest) -> Any:
        tries[request.task] = tries.get(request.task, 0) + 1
        if request.task == "a":
            return FailureKind.SANDBOX_DIED if tries["a"] < 3 else 1.0
        return FailureKind.TASK_INVALID if request.task == "b" else 0.5

    found = await evaluator(tmp_path, samples=1)(call(Trials(answer)))
    assert tries == {"a": 3, "b": 1, "c": 1}
    assert found["eval/reward/mean"] == 0.75
    assert found["eval/faults/rollouts"] == 1
    assert found["eval/faults/task_invalid"] == 1


async def test_an_evaluation_that_was_cut_short_goes_on_with_what_it_lacks(tmp_path: Path) -> None:
    def first(request: RolloutRequest) -> Any:
        return asyncio.sleep(3600) if request.attempt else 1.0

    trials = Trials(first)
    running = asyncio.ensure_future(evaluator(tmp_path)(call(trials, places=6)))
    path = tmp_path / "evaluations" / "step-000020.jsonl"
    while len(list(read_log(path))) < 3:
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait([running])
    assert trials.running == 0, "nothing is left running"
    path.write_bytes(path.read_bytes() + b'{"task": "a", "sample": 1, "rew')
    again = Trials(lambda request: 0.0)
    found = await evaluator(tmp_path)(call(again))
    assert sorted(r.task for r in again.requests) == ["a", "b", "c"]
    assert found["eval/reward/mean"] == 0.5
    assert found["eval/rollouts/scored"] == 6
    assert found["eval/agent/turns"] == 5, "what was stored is whole"


async def test_what_is_not_back_in_time_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "_TELL_S", 0.0)

    def answer(request: RolloutRequest) -> Any:
        return asyncio.sleep(3600) if request.task == "b" else 1.0

    found = await evaluator(tmp_path, samples=1)(call(Trials(answer), within_s=1.0))
    assert found["eval/late"] == 1
    assert found["eval/trials"] == 3
    assert found["eval/rollouts/scored"] == 2
    nothing = await evaluator(tmp_path / "n", samples=1)(call(Trials(lambda r: asyncio.sleep(3600)), within_s=0.3))
    assert nothing["eval/late"] == 3
    assert "eval/reward/mean" not in nothing
