"""Rollouts for a trainer, over real trial processes and an engine that samples what the test says."""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib.util
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trial_fixtures import Leftovers

from envkit.backend import Rollout, RolloutRequest
from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, Failure, FailureKind
from envkit.messages import StopReason
from envkit.tokens.export import Export, Sample
from envkit.tokens.samples import SAMPLES, read_samples, write_samples
from envkit.tokens.trace import TraceError
from envkit.trial.client import ChildExit
from envkit.trial.conduct import CODE_TOOLS, conduct
from envkit.trial.executor import Plan, Room
from envkit.trial.result import AttemptResult, Status
from envkit.trial.rollouts import Keep, TrialsAdapter, TrialSettings, _collect
from envkit.trial.trial import AttemptRequest

MakeTask = Callable[..., Path]


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


HERE = Path(__file__).parent
engines = load("engines_for_rollouts", HERE.parent / "test_engine.py")
templates = load("templates_for_rollouts", HERE.parent / "tokens" / "conftest.py")

WRITES = (
    '<tool_call>{"name": "bash", "arguments": {"command": "echo ready > report.txt", "description": "w"}}</tool_call>'
    "<|im_end|>"
)
FAILS = '<tool_call>{"name": "read", "arguments": {"filePath": "/filesystem/none.txt"}}</tool_call><|im_end|>'
BROKEN = '<tool_call>{"name": "bash", "argum</tool_call><|im_end|>'
DONE = "It is done.<|im_end|>"


def request(
    task: Path, attempt: int = 0, *, group: str = "g1", urls: tuple[str, ...] = (), **more: Any
) -> RolloutRequest:
    return RolloutRequest(str(task), group, attempt, 7 + attempt, 3, urls, **more)


# -- samples on disk --------------------------------------------------------------------------------------------------


def an_export(tokens: int = 6) -> Export:
    mask = np.arange(tokens) >= 3
    sample = Sample(
        ids=np.arange(tokens, dtype=np.int32),
        mask=mask,
        logprobs=np.where(mask, np.float32(-0.5), np.float32(0)).astype(np.float32),
        versions=np.where(mask, 2, -1).astype(np.int32),
        thread="main",
        nodes=(0, 1),
        finish="stop",
        spans=((1, 3, tokens),),
    )
    return Export((sample, sample), sampled=2 * (tokens - 3) + 4, delivered=2 * (tokens - 3), dropped={"abort": 4})


def test_an_export_comes_back_from_disk_as_it_was(tmp_path: Path) -> None:
    for out in (an_export(), Export((), 0, 0, {})):
        write_samples(tmp_path, out)
        back = read_samples(tmp_path)
        assert (back.sampled, back.delivered, back.dropped) == (out.sampled, out.delivered, out.dropped)
        assert len(back.samples) == len(out.samples)
        for ours, theirs in zip(out.samples, back.samples, strict=True):
            for name in ("ids", "mask", "logprobs", "versions"):
                assert (getattr(ours, name) == getattr(theirs, name)).all()
                assert getattr(ours, name).dtype == getattr(theirs, name).dtype
            assert (ours.thread, ours.nodes, ours.finish, ours.spans) == (
                theirs.thread, theirs.nodes, theirs.finish, theirs.spans
            )  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == [SAMPLES]


def test_damaged_samples_are_told_and_never_half_read(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no samples"):
        read_samples(tmp_path)
    path = write_samples(tmp_path, an_export())
    whole = path.read_bytes()
    for cut in (0, 5, 60, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(TraceError, match="damaged"):
            read_samples(tmp_path)
    # One sampled token more than the samples and the reasons account for.
    path.write_bytes(whole.replace(b'\\"sampled\\": 10', b'\\"sampled\\": 11'))
    with pytest.raises(TraceError, match="unaccounted"):
        read_samples(tmp_path)


# -- conduct ----------------------------------------------------------------------------------------------------------


def test_conduct_counts_calls_errors_code_and_who_made_them() -> None:
    def step(
        node: int, name: str, *, error: bool = False, broken: bool = False, waited: float = 0.0, cut: bool = False
    ) -> dict[str, Any]:
        id = f"call-{node}"
        wrong = {"error": "not JSON"} if broken else None
        call = {"tool_call_id": id, "function_name": name, "arguments": {}, "extra": wrong}
        result = {"source_call_id": id, "content": "x", "extra": {"is_error": True} if error else None}
        return {
            "source": "agent",
            "tool_calls": [call],
            "observation": {"results": [result]},
            "metrics": {"completion_tokens": 10, "extra": {"waited_s": waited}},
            "extra": {"trace_node": node} | ({"finish": "length"} if cut else {}),
        }

    told = conduct(
        {
            "steps": [
                {"source": "user", "message": "hello"},
                step(1, "bash"),
                step(3, "read", error=True, waited=0.5, cut=True),
                step(5, "code_exec", error=True, broken=True),
            ],
            "subagent_trajectories": [{"steps": [{"source": "agent", "message": "hi"}]}],
        }
    )
    assert told.counts == {
        "turns": 4,
        "sampled_turn_tokens": 30,
        "engine_wait_s": 0.5,
        "tool_calls": 3,
        "code_calls": 2,
        "invalid_actions": 1,
        "tool_errors": 2,
    }
    assert told.signals == {"tool_error": {3: 1.0}, "turn_length": {3: 1.0}, "invalid_action": {5: 1.0}}
    assert conduct({}).counts == {}


@pytest.mark.parametrize(("name", "code"), [("bash", True), ("code_exec", True), ("read", False), ("basher", False)])
def test_tools_that_run_code_are_known_by_name(name: str, code: bool) -> None:
    assert bool(CODE_TOOLS.search(name)) is code


# -- the adapter, on an executor that does what the test says ----------------------------------------------------------


class Scripted:
    """An executor that runs `work` in place of a process."""

    name = "scripted"

    def __init__(self, work: Callable[[AttemptRequest], Any]) -> None:
        self._work = work
        self.ended = 0
        self.requests: list[AttemptRequest] = []

    async def start(self, plan: Plan) -> None:
        self.plan = plan

    def room(self) -> Room:
        return Room(places=3)

    async def run(self, request: AttemptRequest, *, limit_s: float, on_start: Callable[[int], None]) -> ChildExit:
        self.requests.append(request)
        try:
            out = self._work(request)
            return await out if asyncio.iscoroutine(out) else out
        finally:
            self.ended += 1

    def stop(self, number: int) -> None: ...

    def kill(self) -> None: ...

    async def close(self) -> None: ...


def settings(**changes: Any) -> TrialSettings:
    return TrialSettings(**{"tokenizer": "none", "timeout_s": 100.0, "verify_reserve_s": 20.0, **changes})


def adapter(tmp_path: Path, work: Callable[[AttemptRequest], Any], **options: Any) -> tuple[TrialsAdapter, Scripted]:
    executor = Scripted(work)
    options.setdefault("keep", Keep(rollouts="all"))
    return TrialsAdapter(settings(), folder=tmp_path / "run", tasks=["x"], executor=executor, **options), executor


async def test_a_process_that_leaves_nothing_is_a_failure_and_no_reward(tmp_path: Path) -> None:
    trials, executor = adapter(tmp_path, lambda request: ChildExit(signal=9))
    rollout = await trials.submit(request(tmp_path), Deadline.after(200))
    assert rollout.reward is None
    assert rollout.failure is not None
    assert rollout.failure.kind is FailureKind.TRIAL_DIED
    assert rollout.failure.retriable
    assert not rollout.samples
    again = await trials.submit(request(tmp_path), Deadline.after(200))
    assert again.folder is not None
    assert sorted(p.name for p in Path(again.folder).iterdir()) == ["attempt-1", "attempt-2"], "evidence stays"
    assert executor.requests[0].spec.group == "g1"
    assert trials.room.places == 3
    await trials.close()


async def test_an_attempt_is_cut_to_the_request_and_not_begun_without_time(tmp_path: Path) -> None:
    trials, executor = adapter(tmp_path, lambda request: ChildExit(code=1), kill_grace_s=2.0)
    await trials.submit(request(tmp_path), Deadline.after(42))
    (asked,) = executor.requests
    assert 38 < asked.spec.timeout_s <= 40
    assert asked.spec.verify_reserve_s <= asked.spec.timeout_s / 4
    late = await trials.submit(request(tmp_path), Deadline.after(4))
    assert len(executor.requests) == 1
    assert late.failure is not None
    assert late.failure.kind is FailureKind.DEADLINE
    await trials.close()


async def test_training_and_evaluation_are_told_apart(tmp_path: Path) -> None:
    executor = Scripted(lambda request: ChildExit(code=1))
    trials = TrialsAdapter(
        settings(context_limit=100),
        evaluation=settings(context_limit=200, temperature=0.5),
        folder=tmp_path / "run",
        tasks=["x"],
        executor=executor,
        keep=Keep(rollouts="all"),
    )
    for train in (True, False):
        await trials.submit(request(tmp_path, train=train, urls=("http://e:1",)), Deadline.after(300))
    first, second = (asked.spec for asked in executor.requests)
    assert (first.training, second.training) == (True, False), "the nudge is on in training only"
    assert (first.policy.options["context_limit"], second.policy.options["context_limit"]) == (100, 200)
    assert first.policy.options["engine"] == ["http://e:1"]
    assert second.policy.options["temperature"] == 0.5
    await trials.close()


async def test_a_cancelled_rollout_ends_its_process_and_leaves_no_files(tmp_path: Path) -> None:
    async def forever(request: AttemptRequest) -> ChildExit:
        await asyncio.sleep(3600)
        return ChildExit()

    trials, executor = adapter(tmp_path, forever)
    task = asyncio.ensure_future(trials.submit(request(tmp_path), Deadline.after(300)))
    while not executor.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert executor.ended == 1
    await trials.close()
    assert not list((tmp_path / "run" / "trials").iterdir())


async def test_some_rollouts_are_kept_the_others_leave_no_files(tmp_path: Path) -> None:
    trials, _ = adapter(tmp_path, lambda request: ChildExit(code=1), keep=Keep(every=4, failures=2))
    kept = 0
    for number in range(24):
        rollout = await trials.submit(request(tmp_path, group=f"g{number:04d}"), Deadline.after(200))
        kept += rollout.folder is not None
    await trials.close()
    left = [p for p in (tmp_path / "run" / "trials").rglob("attempt-1")]
    assert len(left) == kept
    assert 3 <= kept <= 14, "about a quarter of the groups, and two failures"
    trials, _ = adapter(tmp_path / "none", lambda request: ChildExit(code=1), keep=Keep(rollouts="none"))
    assert (await trials.submit(request(tmp_path), Deadline.after(200))).folder is None
    await trials.close()
    assert not list((tmp_path / "none" / "run" / "trials").iterdir())


async def test_a_full_disk_or_a_folder_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    trials, _ = adapter(tmp_path, lambda request: ChildExit(code=74))
    rollout = await trials.submit(request(tmp_path), Deadline.after(200))
    assert rollout.failure is not None
    assert rollout.failure.kind is FailureKind.DISK_FULL
    (tmp_path / "run" / "trials" / "v9").write_text("a file where a folder should be")
    other = RolloutRequest(str(tmp_path), "g", 0, 0, 9, ())
    rollout = await trials.submit(other, Deadline.after(200))
    assert rollout.reward is None
    assert rollout.failure is not None
    await trials.close()


def a_record(**changes: Any) -> AttemptResult:
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    fields: dict[str, Any] = {"trial_id": "t", "attempt": 1, "task": "x", "status": Status.SCORED, "reward": 0.5}
    return AttemptResult(**{**fields, "started_at": now, "finished_at": now, **changes})


def test_a_task_of_several_steps_brings_the_tokens_of_each(tmp_path: Path) -> None:
    for name in ("trace", "trace-2", "trace-10", "trace-old"):
        (tmp_path / "logs" / name).mkdir(parents=True)
        write_samples(tmp_path / "logs" / name, an_export())
    rollout = _collect(request(tmp_path), a_record(stop=StopReason.CONTEXT), tmp_path)
    assert len(rollout.samples) == 6
    assert rollout.sampled_tokens == 30
    assert rollout.dropped == {"abort": 12}
    assert [s.nodes for s in rollout.samples[::2]] == [(0, 1), (2, 3), (4, 5)], "no two nodes have one number"
    assert rollout.samples[4].spans == ((5, 3, 6),)
    assert rollout.metrics["context_exhausted"] == 1.0
    assert rollout.signals == {}


def test_a_reward_without_a_sound_record_of_tokens_is_none(tmp_path: Path) -> None:
    with pytest.raises(EnvkitError, match="nothing says what was sampled"):
        _collect(request(tmp_path), a_record(), tmp_path)
    (tmp_path / "logs" / "trace").mkdir(parents=True)
    path = write_samples(tmp_path / "logs" / "trace", an_export())
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(TraceError):
        _collect(request(tmp_path), a_record(), tmp_path)
    failure = Failure.of(FailureKind.JUDGE_UNREACHABLE, Boundary.JUDGE, "down")
    unscored = a_record(status=Status.UNSCORED, reward=None, lower=0.2, upper=0.9, failure=failure)
    rollout = _collect(request(tmp_path), unscored, tmp_path)
    assert (rollout.reward, rollout.samples) == (None, ()), "bounds are no reward"
    assert rollout.failure == failure


# -- the whole way ----------------------------------------------------------------------------------------------------


def sampling(tokenizer: Any, *texts: str) -> Any:
    """An engine that samples these texts one after another, then the last for ever."""
    script = [tokenizer.encode(text, add_special_tokens=False) for text in texts]

    async def answer(asked: dict[str, Any], reader: Any, writer: Any) -> bytes:
        ids = script.pop(0) if len(script) > 1 else script[0]
        return bytes(engines.http(200, engines.body(ids)))

    return answer


@asynccontextmanager
async def serving(engine: Any) -> AsyncIterator[str]:
    engine.models = {"data": [{"id": "tiny", "max_model_len": 16384}]}
    server = await asyncio.start_server(engine.handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    templates.wrap(templates.train(600), "<|im_end|>", templates.CHATML).save_pretrained(folder)
    return folder


@asynccontextmanager
async def trials_on(task: Path, tokenizer: Path, run: Path, **options: Any) -> AsyncIterator[TrialsAdapter]:
    made = TrialSettings(tokenizer=str(tokenizer), renderer="template", timeout_s=90, verify_reserve_s=20)
    trials = TrialsAdapter(made, folder=run, tasks=[str(task)], keep=Keep(rollouts="all"), **options)
    try:
        await trials.start()
        yield trials
    finally:
        await trials.close()


@pytest.mark.tokens
async def test_a_rollout_brings_the_verdicts_reward_and_every_sampled_token(
    tmp_path: Path, make_task: MakeTask, tokenizer_folder: Path, leftovers: Leftovers
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    task = make_task()
    engine = engines.FakeEngine(sampling(tokenizer, FAILS, BROKEN, WRITES, DONE))
    async with serving(engine) as url, trials_on(task, tokenizer_folder, tmp_path / "run") as trials:
        rollout = await trials.submit(request(task, urls=(url,)), Deadline.after(200))
        assert rollout.failure is None
        assert rollout.reward == 1.0
        assert rollout.stop is StopReason.ANSWERED
        said = [len(tokenizer.encode(t, add_special_tokens=False)) for t in (FAILS, BROKEN, WRITES, DONE)]
        assert rollout.sampled_tokens == sum(said) == sum(int(s.mask.sum()) for s in rollout.samples)
        assert not rollout.dropped
        (sample,) = rollout.samples
        # The engine was asked with exactly the ids that training sees before each completion.
        for asked in engine.requests:
            assert sample.ids[: len(asked["token_ids"])].tolist() == asked["token_ids"]
        assert [end - start for _, start, end in sample.spans] == said
        assert set(sample.versions[sample.mask]) == {3}
        assert rollout.context_tokens == len(sample.ids)
        assert rollout.metrics["turns"] == 4
        assert rollout.metrics["tool_errors"] >= 1
        assert rollout.metrics["invalid_actions"] == 1
        assert set(rollout.signals["invalid_action"]) == {sample.spans[1][0]}
        assert rollout.finished_s > rollout.started_s
        assert rollout.folder is not None
        kept = Path(rollout.folder, "attempt-1")
        assert json.loads((kept / "result.json").read_text())["status"] == "scored"
        engine.script = [sampling(tokenizer, DONE)]
        lazy = await trials.submit(request(task, 1, urls=(url,)), Deadline.after(200))
        assert (lazy.reward, lazy.failure) == (0.0, None)
    assert not list((tmp_path / "run").rglob(SAMPLES)), "samples are handed over in memory"


@pytest.mark.tokens
async def test_an_engine_that_is_gone_or_dies_gives_no_reward(
    tmp_path: Path, make_task: MakeTask, tokenizer_folder: Path
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    task = make_task()
    broken = engines.FakeEngine(sampling(tokenizer, WRITES), engines.says(400, {"error": "no"}))
    async with serving(broken) as url, trials_on(task, tokenizer_folder, tmp_path / "run") as trials:
        rollout = await trials.submit(request(task, urls=(url,)), Deadline.after(100))
        assert rollout.reward is None, "the file was written, and still: no verdict, no reward"
        assert rollout.failure is not None
        assert rollout.samples == ()


@pytest.mark.tokens
@pytest.mark.slow
async def test_cancelling_ends_every_process_of_the_trial(
    tmp_path: Path, make_task: MakeTask, tokenizer_folder: Path, leftovers: Leftovers
) -> None:
    task = make_task()
    engine = engines.FakeEngine(engines.hang)
    async with serving(engine) as url, trials_on(task, tokenizer_folder, tmp_path / "run") as trials:
        running = asyncio.ensure_future(trials.submit(request(task, urls=(url,)), Deadline.after(100)))
        while not engine.requests:
            await asyncio.sleep(0.05)
        assert leftovers.sandboxes == 1
        running.cancel()
        await asyncio.wait([running])
        for _ in range(100):  # the fork server stays, for the next trial; nothing of this one does
            left = leftovers.left()
            if len(left.get("processes", ())) == 1 and "cgroups" not in left:
                break
            await asyncio.sleep(0.1)
        assert len(left["processes"]) == 1, left
        assert "cgroups" not in left
        other: Rollout = await trials.submit(request(task, 1, urls=("http://127.0.0.1:9",)), Deadline.after(60))
        assert other.failure is not None
        assert other.failure.kind is FailureKind.POLICY_UNREACHABLE
    leftovers.assert_none_within()
