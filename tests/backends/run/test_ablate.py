"""Ablations: arms as they are written, equal budgets, and intervals that are what they say."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from envkit.backends.run.ablate import Arm, arms_of
from envkit.backends.run.arms import ArmSeed, compare, read_arm_seed, student_interval, table_markdown
from envkit.cli.main import main
from envkit.failure import UserError


@pytest.mark.parametrize(
    ("text", "arm"),
    [
        ("algorithm.reduction=token_mean", Arm("reduction=token_mean", ("algorithm.reduction=token_mean",))),
        ("ppo: algorithm.loss.name=ppo", Arm("ppo", ("algorithm.loss.name=ppo",))),
        ("two: a.b=1 c.d=[1,2]", Arm("two", ("a.b=1", "c.d=[1,2]"))),
        ("x: a='b c'", Arm("x", ("a=b c",))),
        ("a.b=1 c.d=true", Arm("b=1_d=true", ("a.b=1", "c.d=true"))),
        ("loss.clip=0.25", Arm("clip=0.25", ("loss.clip=0.25",))),
    ],
)
def test_arms_are_read_as_they_are_written(text: str, arm: Arm) -> None:
    assert arms_of([text], base=False)[0].sets == arm.sets
    assert arms_of([text])[1].name.replace("-", "_") == arm.name.replace("-", "_")
    assert arms_of([text])[0] == Arm("base", ())


@pytest.mark.parametrize("text", ["", "nothing", "name: ", "name: a", "x: a='b"])
def test_arms_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="--arm"):
        arms_of([text])
    with pytest.raises(UserError, match="two arms are called"):
        arms_of(["a: x=1", "a: x=2"])


def a_run(arm: str, seed: int, after: dict[str, float], **more: Any) -> ArmSeed:
    fields: dict[str, Any] = {
        "before": {task: 0.2 for task in after}, "missing": 0, "figures": {"eval/agent/turns": 10.0 + seed},
        "steps": 9, "rollouts": 100, "tokens": 1000, "seconds": 60.0,
    }  # fmt: skip
    return ArmSeed(arm, seed, after, **{**fields, **more})


def test_differences_are_within_seed_and_task() -> None:
    # Seeds and tasks differ by far more than the arms do; paired, the difference of 0.1 is exact.
    runs = []
    for arm, gain in (("base", 0.0), ("better", 0.1)):
        for seed in range(3):
            runs.append(a_run(arm, seed, {f"t{n}": 0.1 * n + 0.2 * seed + gain for n in range(4)}))
    base, better = compare(runs)
    assert base.over_seeds is None
    assert better.over_seeds is not None
    assert better.over_seeds.mean == pytest.approx(0.1)
    assert better.over_seeds.low == pytest.approx(0.1)
    assert better.over_tasks is not None
    assert better.over_tasks.n == 4
    assert better.over_tasks.high == pytest.approx(0.1)
    assert better.figures["eval/agent/turns"] == 11.0
    assert better.reward is not None
    assert better.reward.low is not None
    assert better.reward.low < better.reward.mean - 0.1, "unpaired, the seeds' spread is in it"


def test_runs_that_failed_or_lack_tasks_are_left_out_and_told() -> None:
    runs = [
        a_run("base", 0, {"a": 0.5, "b": 0.5}),
        a_run("base", 1, {"a": 0.5, "b": 0.5}),
        a_run("arm", 0, {"a": 0.7}, missing=3),
        a_run("arm", 1, {}, failure="the disk was full"),
    ]
    _, arm = compare(runs)
    assert (arm.seeds, arm.planned) == (1, 2)
    assert arm.over_seeds is not None
    assert arm.over_seeds.mean == pytest.approx(0.2), "of the task that both have"
    assert arm.over_seeds.low is None, "one seed has no interval"
    table = table_markdown(compare(runs))
    assert "1 of 2" in table
    assert "the disk was full" in table
    assert "3 trials" in table
    nothing = compare([a_run("base", 0, {}), a_run("arm", 0, {})])
    assert nothing[1].reward is None
    assert "| - |" in table_markdown(nothing)


def test_intervals_hold_what_they_promise() -> None:
    chance = random.Random(1)
    for n in (2, 3, 5, 12, 40):
        held = 0
        for _ in range(2000):
            interval = student_interval([chance.gauss(0.3, 1.0) for _ in range(n)])
            assert interval.low is not None
            assert interval.high is not None
            held += interval.low <= 0.3 <= interval.high
        assert 0.935 <= held / 2000 <= 0.968, n
    with pytest.raises(ValueError, match="no value"):
        student_interval([])


def write_run(folder: Path, steps: int, rewards: dict[str, float]) -> None:
    (folder / "evaluations").mkdir(parents=True)
    lines = [{"kind": "step", "step": n, "at": 60.0 * n, "metrics": {"rollouts/scored": 8, "agent/tokens": 50}}
             for n in range(1, steps + 1)]  # fmt: skip
    figures = {"eval/reward/mean": 0.5, "eval/agent/turns": 7.0}
    lines.append({"kind": "evaluation", "step": steps, "at": 60.0 * steps + 30, "metrics": figures})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for step in (0, steps):
        gain = 0.1 if step else 0.0
        told = [{"task": t, "sample": n, "reward": r + gain} for t, r in rewards.items() for n in range(2)]
        told.append({"task": "broken", "sample": 0, "reward": None})
        path = folder / "evaluations" / f"step-{step:06d}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in told))


def test_a_runs_files_are_read(tmp_path: Path) -> None:
    write_run(tmp_path / "r", 4, {"a": 0.2, "b": 0.6})
    found = read_arm_seed("arm", 1, tmp_path / "r", 4)
    assert found.after == {"a": pytest.approx(0.3), "b": pytest.approx(0.7)}
    assert found.before == {"a": 0.2, "b": 0.6}
    assert (found.steps, found.rollouts, found.tokens, found.missing) == (4, 32, 1600, 1)
    assert found.seconds == 210
    cut = read_arm_seed("arm", 1, tmp_path / "r", 9)
    assert not cut.after, "its last evaluation is not there"
    assert not read_arm_seed("arm", 1, tmp_path / "none", 9).after


# -- the command -------------------------------------------------------------------------------------------------------

PLAN = """
backend = "torch"
[tasks]
include = ["office/*"]
split = "train"
[loop]
steps = 4
[trainer]
model = "m"
[evaluation]
samples = 2
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(PLAN)
    return path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "needs two arms"),
        (["--arm", "loop.group_sise=3"], "did you mean 'group_size'"),
        (["--arm", "loop.steps=9"], "loop.steps differs"),
        (["--arm", "loop.group_size=4"], "equal budgets"),
        (["--arm", "evaluation.samples=9"], "evaluation.samples differs"),
        (["--arm", "tasks.split=eval"], "are trained on"),
        (["--arm", "evaluation.last=false"], "last = true"),
        (["--arm", "algorithm.reduction=token_mean", "--seeds", "0"], "at least 1"),
        (["--arm", "harness.options.prompts=compact"], "prompts"),
    ],
)
def test_arms_that_can_not_be_compared_are_refused_before_anything_runs(
    plan: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert main(["ablate", str(plan), "--out", str(out), *arguments]) == 2
    assert says in capsys.readouterr().err
    assert not out.exists()


def test_a_dry_run_says_what_would_run(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ablate", str(plan), "--arm", "ppo: algorithm.loss.name=ppo", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "6 runs of 4 steps" in said
    assert "ppo: algorithm.loss.name=ppo" in said


def test_what_is_done_is_not_done_again(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    for arm, gain in (("base", 0.0), ("ppo", 0.05)):
        for seed in range(2):
            write_run(out / arm / f"seed-{seed}", 4, {"a": 0.2 + gain, "b": 0.4 + gain + seed / 10})
    command = ["ablate", str(plan), "--arm", "ppo: algorithm.loss.name=ppo", "--seeds", "2", "--out", str(out)]
    assert main([*command, "--json"]) == 0
    base, ppo = json.loads(capsys.readouterr().out)["arms"]
    assert ppo["difference_over_seeds"]["mean"] == pytest.approx(0.05)
    assert base["difference_over_seeds"] is None
    assert "+0.050 [+0.050, +0.050]" in (out / "table.md").read_text()
