"""Jobs: all trials once, stopped cleanly, resumed exactly, told apart from other jobs."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trial_fixtures import Leftovers, run_job, spec_for

from envkit.failure import FailureKind, UserError
from envkit.trial.job import Job
from envkit.trial.progress import Silent, Tally
from envkit.trial.result import Status, TrialSpec

MakeTask = Callable[..., Path]


def sleepy(task: Path, count: int, s: float = 0.2, **fields: Any) -> list[TrialSpec]:
    return [spec_for(task, "sabotage:Sleepy", {"s": s}, sample=i, **fields) for i in range(count)]


def ids_on_disk(folder: Path) -> Counter[str]:
    return Counter(json.loads(line)["trial_id"] for line in (folder / "results.jsonl").read_text().splitlines())


@pytest.mark.slow
async def test_every_trial_runs_once_within_the_concurrency(tmp_path: Path, make_task: MakeTask) -> None:
    class Watch(Silent):
        most = 0

        def update(self, tally: Tally) -> None:
            self.most = max(self.most, tally.running)

    watch = Watch()
    specs = sleepy(make_task(), 5)
    outcome = await run_job(tmp_path / "run", specs, concurrency=2, progress=watch)
    assert [r.reward for r in outcome.results] == [1.0] * 5
    assert [r.trial_id for r in outcome.results] == [s.trial_id for s in specs]
    assert watch.most == 2
    assert outcome.exit_code == 0
    assert outcome.tally.mean == 1.0
    assert ids_on_disk(tmp_path / "run") == Counter(s.trial_id for s in specs)


@pytest.mark.slow
async def test_a_stop_ends_running_trials_as_cancelled_and_a_resume_runs_what_is_left(
    tmp_path: Path, make_task: MakeTask, leftovers: Leftovers
) -> None:
    task = make_task()
    gate = tmp_path / "gate"
    # The first is over at once; the others wait for the gate, which opens only for the resume.
    specs = [spec_for(task), *(spec_for(task, "sabotage:Gated", {"gate": str(gate)}, sample=i) for i in range(1, 4))]
    display = StopWhen(lambda tally: tally.done == 1 and tally.running == 2)
    job = display.job = Job(specs, tmp_path / "run", concurrency=2, progress=display)
    outcome = await job.run()
    assert (outcome.interrupted, outcome.exit_code) == (True, 130)
    assert Counter(r.status for r in outcome.results) == {Status.SCORED: 1, Status.CANCELLED: 2}
    assert all(r.reward is None for r in outcome.results if r.status is Status.CANCELLED)
    assert len(outcome.missing) == 1
    leftovers.assert_none_within()

    gate.touch()
    second = await Job(specs, tmp_path / "run", concurrency=2).run()
    assert second.tally.resumed == 1
    assert [r.status for r in second.results] == [Status.SCORED] * 4
    assert [len(r.attempts) for r in second.results] == [1, 2, 2, 1]
    assert ids_on_disk(tmp_path / "run") == Counter(s.trial_id for s in specs)


class StopWhen(Silent):
    """Stops the job a second after a condition first holds: its trials are in the middle of something then."""

    def __init__(self, condition: Callable[[Tally], bool]) -> None:
        self.job: Job | None = None
        self._condition = condition
        self._asked = False

    def update(self, tally: Tally) -> None:
        if not self._asked and self._condition(tally) and self.job is not None:
            self._asked = True
            asyncio.get_running_loop().call_later(1.0, self.job.stop)


async def test_a_finished_job_runs_nothing_again(tmp_path: Path, make_task: MakeTask) -> None:
    specs = [spec_for(make_task(), "noop")]
    first = await run_job(tmp_path / "run", specs)
    second = await run_job(tmp_path / "run", specs)
    assert second.tally.resumed == 1
    assert second.results == first.results
    assert len(list((tmp_path / "run" / "trials").glob("*/attempt-*"))) == 1


@pytest.mark.slow
async def test_another_plan_in_the_folder_is_refused(tmp_path: Path, make_task: MakeTask) -> None:
    spec = spec_for(make_task(), "noop")
    await run_job(tmp_path / "run", [spec])
    with pytest.raises(UserError, match="seed: there 0, here 5"):
        await run_job(tmp_path / "run", [spec.model_copy(update={"seed": 5})])


@pytest.mark.slow
async def test_two_jobs_do_not_share_a_folder(tmp_path: Path, make_task: MakeTask) -> None:
    specs = sleepy(make_task(), 1, s=3)
    first = asyncio.create_task(run_job(tmp_path / "run", specs))
    await asyncio.sleep(1)
    with pytest.raises(UserError, match="another job"):
        await run_job(tmp_path / "run", specs)
    assert (await first).results[0].reward == 1.0


async def test_an_unknown_plug_in_stops_the_job_before_any_trial(tmp_path: Path, make_task: MakeTask) -> None:
    with pytest.raises(UserError, match=r"orakel.*did you mean 'oracle'"):
        await run_job(tmp_path / "run", [spec_for(make_task(), "orakel")])
    assert not list((tmp_path / "run" / "trials").iterdir())


@pytest.mark.slow
async def test_failures_are_counted_by_kind_and_left_out_of_the_mean(tmp_path: Path, make_task: MakeTask) -> None:
    task = make_task()
    outcome = await run_job(tmp_path / "run", [spec_for(task), spec_for(task, "sabotage:Raises")])
    assert outcome.tally.mean == 1.0
    assert outcome.tally.failures == {FailureKind.POLICY_ERROR: 1}
    assert outcome.exit_code == 1
    assert "mean 1.000 over 1" in outcome.tally.text()
