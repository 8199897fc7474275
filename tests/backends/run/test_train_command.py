"""`envkit train` up to where a model is needed: what it prints, refuses and leaves alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envkit.backend import Run
from envkit.backends.run.log import Log
from envkit.backends.run.plan import make_plan, read_table
from envkit.backends.run.train import _result, _say
from envkit.backends.torch import no_model
from envkit.cli.main import main

PLAN = """
backend = "torch"
[tasks]
include = ["office/*"]
split = "train"
[policy]
context = 4096
[loop]
steps = 3
[trainer]
model = "/models/none"
[evaluation]
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(PLAN)
    return path


def test_a_dry_run_prints_a_plan_that_can_be_run_again(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(plan), "--set", "loop.group_size=4", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "group_size = 4" in said
    assert "<- binds" in said
    assert "trajectories per step: 64" in said
    plan.write_text(said)
    assert main(["train", str(plan), "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["plan"]["loop"]["group_size"] == 4
    assert told["derived"]["trajectories per step"] == 64
    assert len(told["tasks"]) > 10
    assert not set(told["tasks"]) & set(told["evaluation_tasks"])


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        (["loop.step=3"], "did you mean 'steps'"),
        (['tasks.include=["ofice/*"]'], "ofice"),
        (["harness.name=opencod"], "did you mean 'opencode'"),
        (["harness.options.promt=compact"], "promt"),
        (["sandbox.name=lokal"], "did you mean 'local'"),
        (["trial.executor=rai"], "did you mean 'ray'"),
        (["policy.api_key_env=NO_SUCH_KEY"], "NO_SUCH_KEY"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(
    plan: Path, sets: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = [part for text in sets for part in ("--set", text)]
    assert main(["train", str(plan), *arguments, "--out", str(tmp_path / "out")]) in (1, 2)
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_evaluation_of_what_is_nearly_trained_on_is_refused_unless_the_plan_allows_it(
    plan: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    question = "The quarterly report of the northern branch lists all 12 customers with open invoices and what they owe"
    for name, asked in (("mine", question), ("theirs", question.replace("12", "31")), ("other", "Quite another thing")):
        (tmp_path / name / "tests").mkdir(parents=True)
        (tmp_path / name / "task.toml").write_text('schema_version = "1.4"\n')
        (tmp_path / name / "instruction.md").write_text(asked)
        (tmp_path / name / "tests" / "test.sh").write_text("exit 1\n")
    tasks = plan.read_text().replace("office/*", str(tmp_path / "mine")).replace('split = "train"\n', "")
    out = str(tmp_path / "run")
    for evaluated, allowed, says in (
        ("theirs", "false", "set evaluation.allow_overlap = true"),
        ("theirs", "true", "which the plan allows"),
        ("other", "false", None),
    ):
        plan.write_text(f"{tasks}split = ''\ninclude = ['{tmp_path / evaluated}']\nallow_overlap = {allowed}\n")
        assert main(["train", str(plan), "--out", out]) != 0  # there is no model, if it comes so far
        err = capsys.readouterr().err
        assert ("nearly" in err) == (says is not None)
        assert says is None or says in err
        assert ("same instruction" in err) == (says is not None)
        assert (allowed == "false" and says is not None) == (not Path(out, "plan.toml").exists())


def test_a_folder_with_another_plan_is_refused(plan: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["train", str(plan), "--dry-run", "--json"]) == 0
    resolved = json.loads(capsys.readouterr().out)["plan"]
    out.mkdir()
    (out / "plan.json").write_text(json.dumps(resolved))
    code = main(["train", str(plan), "--set", "algorithm.reduction=token_mean", "--out", str(out)])
    assert code == 2
    assert 'algorithm.reduction: there "prompt_mean", here "token_mean"' in capsys.readouterr().err


def test_a_model_that_is_not_here_is_told_before_anything_is_loaded(
    plan: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["train", str(plan), "--dry-run"]) == 0
    assert "/models/none is no folder here" in capsys.readouterr().out
    (tmp_path / "model").mkdir()
    assert main(["train", str(plan), "--dry-run", "--set", f"trainer.model={tmp_path / 'model'}"]) == 0
    assert "is no folder here" not in capsys.readouterr().out
    assert no_model("examples/none", OSError("no repository")).startswith("there is no model folder examples/none;")
    assert str(Path.cwd()) in no_model("examples/none", OSError("no repository"))
    assert no_model(tmp_path, OSError("no config.json")) == f"no causal language model in {tmp_path}: no config.json"


def test_the_end_says_what_evaluations_came_to(tmp_path: Path, capsys: pytest.CaptureFixture[str], plan: Path) -> None:
    log = Log(tmp_path / "metrics.jsonl")
    for step, mean in ((0, 0.25), (10, 0.3), (10, 0.35), (20, float("nan"))):
        log.append({"kind": "evaluation", "step": step, "metrics": {"eval/reward/mean": mean}})
    log.close()
    done = Run(folder=tmp_path, step=3, checkpoint=None, interrupted=False, failure=None)
    _say(done, make_plan(read_table(plan, [])))
    assert "mean reward of evaluations: 0.250 at step 0, 0.350 at step 10, nan at step 20" in capsys.readouterr().out
    assert _result(done)["evaluations"] == {"0": 0.25, "10": 0.35, "20": None}
