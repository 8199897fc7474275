"""Exports of stored runs: exact ids, every sampled token once, failures left out and counted, licences asked."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.atif import build_trajectory, read_trajectory, write_trajectory
from envkit.cli.main import main
from envkit.export import ExportOptions, export_run
from envkit.export import run as module
from envkit.failure import Boundary, Failure, FailureKind, UserError
from envkit.messages import AssistantMessage, Message, ToolCall, ToolSpec
from envkit.tokens import Edge, Trace, TraceWriter, export, read_trace
from envkit.trial.result import AttemptResult, AttemptSummary, Plugin, Status, TrialResult, TrialSpec
from envkit.trial.store import json_text

NOW = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
BASH = ToolSpec(name="bash", description="Runs a command.", parameters={"type": "object", "properties": {}})
FAULT = Failure.of(FailureKind.SANDBOX_DIED, Boundary.SANDBOX, "the sandbox went away")


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write_task(tmp_path / "task")


def write_task(folder: Path, metadata: str = "") -> Path:
    (folder / "tests").mkdir(parents=True)
    (folder / "task.toml").write_text(f'schema_version = "1.4"\n[metadata]\n{metadata}\n')
    (folder / "instruction.md").write_text("Write the report.\n")
    (folder / "tests" / "test.sh").write_text("exit 0\n")
    return folder


def said(number: int, *, call: bool = True) -> AssistantMessage:
    calls = (ToolCall(id=f"c{number}", name="bash", arguments={"command": f"echo {number}"}),) if call else ()
    return AssistantMessage(text=f"step {number}", tool_calls=calls, reasoning=f"think {number}", node=2 * number + 1)


def write_talk(trace: Trace, rng: np.random.Generator, turns: int, *, length: int = 5) -> list[Any]:
    """A conversation of some turns on one path; returns its messages."""
    messages: list[Any] = [Message(role="system", content="You work."), Message(role="user", content="Do it.")]
    shown, parent = list(messages), None
    for turn in range(turns):
        node = trace.add_context(rng.integers(0, 900, length + 2), shown, parent=parent, tools=None if turn else [BASH])
        answer = said(turn, call=turn < turns - 1)
        n = int(rng.integers(1, length + 1))
        versions = np.full(n, 3 + turn % 2)
        node = trace.add_sampled(node.index, answer, rng.integers(0, 900, n), -rng.random(n), versions, finish="stop")
        parent = node.index
        result = Message(role="tool", content=f"out {turn}", tool_call_id=f"c{turn}", name="bash")
        messages += [answer] if turn == turns - 1 else [answer, result]
        shown = [result]
    return messages


def put(
    run: Path,
    task: Path | str,
    sample: int,
    reward: float | None,
    *,
    turns: int = 3,
    trace: bool = True,
    length: int = 5,
) -> str:
    """A finished trial as a job leaves it; its id."""
    spec = TrialSpec(task=str(task), sample=sample, policy=Plugin(name="token", options={"model": "tiny"}))
    status = Status.FAILED if reward is None else Status.SCORED
    failure = FAULT if reward is None else None
    attempt = AttemptSummary(attempt=1, status=status, reward=reward, started_at=NOW, finished_at=NOW)
    result = TrialResult(
        trial_id=spec.trial_id, spec=spec, status=status, reward=reward, failure=failure, started_at=NOW,
        finished_at=NOW, attempts=(attempt,),
    )  # fmt: skip
    folder = run / "trials" / spec.trial_id
    (folder / "attempt-1" / "logs").mkdir(parents=True)
    (folder / "result.json").write_text(json_text(result.model_dump(mode="json")))
    made = Trace({"temperature": 1.0})
    messages = write_talk(made, np.random.default_rng(sample), turns, length=length)
    write_trajectory(
        folder / "attempt-1" / "trajectory.json",
        build_trajectory(messages, agent_name="token", agent_version="1", task=str(task), tools=[BASH]),
    )
    if trace:
        writer = TraceWriter(folder / "attempt-1" / "logs" / "trace", made.meta)
        for node in made:
            writer.append(node)
        writer.finish(made)
    return spec.trial_id


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_parquet_holds_the_very_ids_and_every_sampled_token_once(tmp_path: Path, task: Path) -> None:
    run = tmp_path / "run"
    ids = {put(run, task, n, reward): reward for n, reward in enumerate([0.25, 1.0, None, 0.5])}
    report = export_run(run, "parquet", tmp_path / "rows.parquet")
    table = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert (report.trials, report.exported, report.rows, dict(report.excluded)) == (4, 3, 3, {"failed": 1})
    assert report.delivered == report.sampled == sum(sum(row["mask"]) for row in table)
    for row in table:
        trace = read_trace(run / "trials" / row["trial"] / "attempt-1" / "logs" / "trace")
        (sample,) = export(trace).samples
        for name in ("ids", "mask", "versions"):
            assert row[name] == getattr(sample, name).tolist()
        assert np.array(row["logprobs"], np.float32).tolist() == sample.logprobs.tolist()
        assert (row["valid"], row["reward"], row["temperature"]) == (True, ids[row["trial"]], 1.0)
    # The failed trial votes in no baseline.
    mean = (0.25 + 1.0 + 0.5) / 3
    assert [row["advantage"] for row in table] == pytest.approx([row["reward"] - mean for row in table])
    about = json.loads(pq.read_metadata(tmp_path / "rows.parquet").metadata[b"envkit"])
    assert about["excluded"] == {"failed": 1}
    assert about["delivered"] == report.delivered

    with_failed = export_run(run, "parquet", tmp_path / "all.parquet", ExportOptions(failed=True))
    (invalid,) = [row for row in pq.read_table(tmp_path / "all.parquet").to_pylist() if not row["valid"]]
    assert with_failed.exported == 4
    assert (invalid["reward"], invalid["advantage"], invalid["failure"]) == (None, None, "sandbox_died")


def kept_rollout(run: Path, task: Path, place: str, reward: float) -> None:
    """A rollout of a training run, made of a job's trial."""
    job = run.with_name("job-of-rollouts")
    trial = job / "trials" / put(job, task, len(list(job.glob("trials/*"))), reward)
    folder = run / "trials" / place / "attempt-1"
    shutil.copytree(trial / "attempt-1", folder)
    record = AttemptResult(
        trial_id="t", attempt=1, task=str(task), status=Status.SCORED, reward=reward, started_at=NOW, finished_at=NOW
    )
    (folder / "result.json").write_text(json_text(record.model_dump(mode="json")))


def test_what_a_training_run_was_measured_by_is_not_trained_on_unless_asked_for(tmp_path: Path, task: Path) -> None:
    run, held_out = tmp_path / "run", write_task(tmp_path / "held-out", 'licence = "for evaluation only"')
    for place, asked, reward in (("v3/g1/0", task, 0.0), ("v3/g1/1", task, 1.0), ("evaluation-v4/b/0", held_out, 1.0)):
        kept_rollout(run, asked, place, reward)
    report = export_run(run, "parquet", tmp_path / "rows.parquet")
    assert (report.trials, report.exported, dict(report.excluded)) == (3, 2, {"of_evaluations": 1})
    assert {row["trial"] for row in pq.read_table(tmp_path / "rows.parquet").to_pylist()} == {"v3/g1/0", "v3/g1/1"}
    asked_for = ["export", str(run), "--format", "openai", "--evaluations"]
    assert main(asked_for) != 0, "its licence was not asked"
    assert main([*asked_for, "--may-train", "--out", str(tmp_path / "all.jsonl")]) == 0
    assert len(lines(tmp_path / "all.jsonl")) == 3
    assert export_run(run, "atif", tmp_path / "atif").exported == 3


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), min_size=1, max_size=9), st.data())
def test_in_every_shape_the_models_mask_is_what_was_sampled(turns: list[tuple[int, int, bool]], data: Any) -> None:
    """Over traces that branch and begin side threads anywhere: what lies under the masks was sampled, each id once."""
    from envkit.export.conversations import Conversation, _of_trace
    from envkit.export.tokens import TokenRow, tinker_row, trl_row, trl_sft_row
    from envkit.export.trials import StoredTrial

    trace = Trace()
    fresh = iter(range(10_000))  # no id comes twice: what lies under a mask says which token it is
    sampled: list[int] = []
    for number, (shown, said_tokens, side) in enumerate(turns):
        parent = None if side or not len(trace) else data.draw(st.sampled_from([n.index for n in trace if n.sampled]))
        edge = Edge.SIDE if side else Edge.APPEND
        context = [next(fresh) for _ in range(shown + 1)]
        node = trace.add_context(context, [Message(role="user", content="x")], parent=parent, edge=edge)
        new = [next(fresh) for _ in range(said_tokens)]
        sampled += new
        lps, versions = [-0.5] * len(new), [number] * len(new)
        trace.add_sampled(node.index, said(number), new, lps, versions, finish="stop")
    trial = StoredTrial("t", "task", "g", 0, Status.SCORED, 1.0, None, None, "h", None, Path("."))
    out = export(trace)
    rows = [TokenRow(trial, n, len(out.samples), s, 1.0, 0.5) for n, s in enumerate(out.samples)]

    found: dict[str, list[int]] = {"trl": [], "trl-sft": [], "tinker": []}
    for row in rows:
        a, b, c = trl_row(row), trl_sft_row(row), tinker_row(row)["loss_fn_inputs"]
        found["trl"] += [i for i, m in zip(a["completion_ids"], a["env_mask"], strict=True) if m]
        found["trl-sft"] += [i for i, m in zip(b["input_ids"], b["assistant_masks"], strict=True) if m]
        targets = zip(c["target_tokens"]["data"], c["mask"]["data"], c["advantages"]["data"], strict=True)
        under = [(i, adv) for i, m, adv in targets if m]
        assert {adv for _, adv in under} == {0.5}
        found["tinker"] += [i for i, _ in under]
    for ids in found.values():
        assert sorted(ids) == sampled
    turned: list[str] = []
    talks: list[Conversation] = list(_of_trace(trial, trace, 0))
    for talk in talks:
        turned += [m.text for m, trains in zip(talk.messages, talk.trains, strict=True) if trains]
    assert sorted(turned) == sorted(f"step {n}" for n, (_, tokens, _) in enumerate(turns) if tokens)


@pytest.mark.parametrize("trace", [True, False])
def test_conversations_say_what_was_said(tmp_path: Path, task: Path, trace: bool) -> None:
    """From the token trace where there is one, else from the trajectory, with the same rows."""
    put(tmp_path / "run", task, 0, 1.0, trace=trace)
    export_run(tmp_path / "run", "openai", tmp_path / "a.jsonl")
    (row,) = lines(tmp_path / "a.jsonl")
    roles = [m["role"] for m in row["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    first = row["messages"][2]
    assert first["content"] == "step 0"
    assert first["reasoning_content"] == "think 0"
    assert json.loads(first["tool_calls"][0]["function"]["arguments"]) == {"command": "echo 0"}
    assert row["messages"][3] == {"role": "tool", "content": "out 0", "tool_call_id": "c0"}
    assert row["tools"] == [{"type": "function", "function": BASH.model_dump(mode="json")}]
    assert row["metadata"]["reward"] == 1.0
    assert not any("weight" in m for m in row["messages"])

    export_run(tmp_path / "run", "sharegpt", tmp_path / "b.jsonl")
    (shared,) = lines(tmp_path / "b.jsonl")
    assert [t["from"] for t in shared["conversations"]] == ["system", "human", "gpt", "tool", "gpt", "tool", "gpt"]
    body = shared["conversations"][2]["value"].split("<tool_call>\n")[1].split("\n</tool_call>")[0]
    assert json.loads(body) == {"name": "bash", "arguments": {"command": "echo 0"}}


def test_atif_gets_ids_and_logprobs_of_its_sampled_steps(tmp_path: Path, task: Path) -> None:
    name = put(tmp_path / "run", task, 0, 0.5)
    export_run(tmp_path / "run", "atif", tmp_path / "atif", ExportOptions(prompt_ids=True))
    trajectory = read_trajectory(tmp_path / "atif" / f"{name}.json")
    trace = read_trace(tmp_path / "run" / "trials" / name / "attempt-1" / "logs" / "trace")
    steps = [step for step in trajectory.steps if step.source == "agent"]
    assert len(steps) == 3
    for step, node in zip(steps, [n for n in trace if n.sampled], strict=True):
        assert step.metrics is not None
        assert step.metrics.completion_token_ids == node.ids.tolist()
        assert step.metrics.prompt_token_ids == trace.ids(node.parent).tolist()  # type: ignore[arg-type]
        assert len(step.metrics.logprobs or ()) == len(node.ids)
    assert (trajectory.extra or {})["envkit"]["reward"] == 0.5


def test_tasks_for_evaluation_only_are_not_trained_on_unless_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = "licensed for evaluation only: no training on it"
    run = tmp_path / "run"
    put(run, write_task(tmp_path / "free"), 0, 1.0)
    put(run, write_task(tmp_path / "bound", f'licence = "{terms}"'), 0, 1.0)
    for format in ("parquet", "openai", "sharegpt", "tinker", "trl", "trl-sft"):
        with pytest.raises(UserError, match=r"evaluation only.*--may-train"):
            export_run(run, format, tmp_path / "no")
    assert not (tmp_path / "no").exists()
    assert main(["export", str(run), "--format", "tinker", "--json"]) == 2
    assert "evaluation only" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert export_run(run, "atif", tmp_path / "looked-at").exported == 2
    assert main(["export", str(run), "--format", "tinker", "--may-train", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exported"] == 2
    # A licence that nobody can read is no permission; a pack that has the right says so by its split.
    gone = tmp_path / "gone"
    put(gone, tmp_path / "nowhere", 0, 1.0)
    with pytest.raises(UserError, match="can't be read"):
        export_run(gone, "openai", tmp_path / "no")
    right = tmp_path / "right"
    own = write_task(tmp_path / "own", f'licence = "{terms}"\n[metadata.envkit]\nsplit = "train"')
    put(right, own, 0, 1.0)
    assert export_run(right, "openai", tmp_path / "ours.jsonl").exported == 1


def test_what_is_damaged_is_named_and_left_out(tmp_path: Path, task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    torn, cut, fine = (put(run, task, n, 1.0) for n in range(3))
    (run / "trials" / torn / "result.json").write_text('{"trial_id": "')
    tensors = run / "trials" / cut / "attempt-1" / "logs" / "trace" / "trace.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-4])
    report = export_run(run, "parquet", tmp_path / "rows.parquet")
    assert [row["trial"] for row in pq.read_table(tmp_path / "rows.parquet").to_pylist()] == [fine]
    assert dict(report.excluded) == {"unsound": 1}
    assert len(report.problems) == 2
    with pytest.raises(UserError, match="there already"):
        export_run(run, "parquet", tmp_path / "rows.parquet")
    with pytest.raises(UserError, match="did you mean 'parquet'"):
        export_run(run, "parket", tmp_path / "x")
    assert main(["export", str(run), "--format", "openai", "--min-reward", "2"]) == 1
    assert "2 below_min_reward" in capsys.readouterr().out


def test_a_damaged_trace_costs_its_own_trial_and_no_book(tmp_path: Path, task: Path) -> None:
    run = tmp_path / "run"
    fine, *others = (put(run, task, n, 1.0) for n in range(5))
    for id, text in zip(
        others, ("{torn", "[]", '{"version": 1}', '{"version": 1, "tensors": {"bytes": 1e999}}'), strict=True
    ):
        (run / "trials" / id / "attempt-1" / "logs" / "trace" / "trace.json").write_text(text)
    whole = run / "trials" / others[0] / "attempt-1" / "logs" / "trace-0"  # of a step before: sound, and not exported
    shutil.copytree(run / "trials" / fine / "attempt-1" / "logs" / "trace", whole)
    report = export_run(run, "trl", tmp_path / "rows.jsonl")
    assert {row["metadata"]["trial"] for row in lines(tmp_path / "rows.jsonl")} == {fine}
    assert dict(report.excluded) == {"unsound": 4}
    trace = export(read_trace(run / "trials" / fine / "attempt-1" / "logs" / "trace"))
    assert (report.sampled, report.delivered) == (trace.sampled, trace.delivered)


def test_what_ends_while_a_run_is_exported_is_not_in_it(
    tmp_path: Path, task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    first = put(run, task, 0, 1.0)
    looked = module.check_licences

    def ends(*args: Any, **more: Any) -> Any:
        put(run, task, 1, 0.0)
        return looked(*args, **more)

    monkeypatch.setattr(module, "check_licences", ends)
    report = export_run(run, "trl", tmp_path / "rows.jsonl")
    assert {row["metadata"]["trial"] for row in lines(tmp_path / "rows.jsonl")} == {first}
    assert dict(report.excluded) == {"ended_meanwhile": 1}


def test_a_least_reward_that_is_no_number_lets_nothing_through(tmp_path: Path, task: Path) -> None:
    put(tmp_path / "run", task, 0, 0.0)
    with pytest.raises(UserError, match="least reward"):
        export_run(tmp_path / "run", "trl", tmp_path / "rows.jsonl", ExportOptions(min_reward=float("nan")))
    assert not (tmp_path / "rows.jsonl").exists()


GROWTH = """
import resource, sys
from pathlib import Path
from envkit.export import ExportOptions, export_run
import envkit.export.parquet as parquet
parquet._GROUP_TOKENS = 200_000
export_run(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), ExportOptions(may_train=True))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_memory_does_not_grow_with_the_run(tmp_path: Path, task: Path) -> None:
    # 40 trials more have 90 MB of token arrays, and several times as much as JSON.
    def peak(trials: int, format: str) -> int:
        run = tmp_path / f"run-{trials}"
        if not run.exists():
            for n in range(trials):
                put(run, task, n, 1.0, turns=2, length=60_000)
        out = tmp_path / f"{trials}.{format}"
        done = subprocess.run(
            [sys.executable, "-c", GROWTH, str(run), format, str(out)], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    for format in ("parquet", "tinker"):
        few, many = peak(8, format), peak(48, format)
        assert many < few + 45_000, f"{format}: {few} kB for 8 trials, {many} kB for 48"
