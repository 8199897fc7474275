"""The plan: strict, documented to the last key, and the same when it is written out and read again."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from envkit.backends.run.derive import derive
from envkit.backends.run.folder import claim, plan_toml
from envkit.backends.run.order import Bucketed, order_of
from envkit.backends.run.plan import Plan, assigned, listed_turns, make_plan, read_plan, read_table, tasks_of
from envkit.backends.run.reference import document, reference
from envkit.backends.torch import plan_model
from envkit.failure import UserError

DOCS = Path(__file__).parents[3] / "docs" / "plan.md"

SMALL = """
backend = "torch"
[tasks]
include = ["office/*"]
split = "train"
[loop]
steps = 3
[trainer]
model = "/models/tiny"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "run.toml"
    file.write_text(SMALL)
    return file


def table(**changes: Any) -> dict[str, Any]:
    made = tomllib.loads(SMALL)
    for place, value in changes.items():
        inner = made
        *folders, last = place.split("__")
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner[last] = value
    return made


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        (["loop.group_sise=3"], r"loop\.group_sise: unknown \(did you mean 'group_size'\?\)"),
        (["lopp.steps=3"], r"lopp: unknown \(did you mean 'loop'\?\)"),
        (["trial.keep.evry=3"], "did you mean 'every'"),
        (["trainer.optimizer.learning=1"], r"trainer\.optimizer\.learning: unknown"),
        (["algorithm.loss.delta=1"], "did you mean 'delta_low'"),
        (["algorithm.loss.name=dpo"], "dppo"),
        (["watching.wandb.projekt=x"], "did you mean 'project'"),
        (["loop.steps=many"], r"loop\.steps: .*integer"),
        (["loop.deadline.rollout_s=inf"], r"loop\.deadline\.rollout_s"),
        (["backend=tork"], "did you mean 'torch'"),
        (["backend=3"], "backend: expected a name"),
        (["loop.evaluation.every=3"], r"\[evaluation\]"),
        (["tasks.include=[]"], "expected tasks"),
        (["trial.timeout_s=10", "trial.verify_reserve_s=10"], "nothing would be left"),
        (["megatron.tp=8"], "megatron: unknown"),
        (["loop.steps"], "expected key.path=value"),
        (["backend.name=torch"], "no table"),
    ],
)
def test_a_mistake_is_named_with_the_place_and_the_nearest_key(path: Path, sets: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        read_plan(path, sets).trial_settings()


def test_an_advantage_without_its_critic_is_refused(path: Path) -> None:
    with pytest.raises(UserError, match="critic"):
        read_plan(path, ["algorithm.advantage.name=gae"])


def test_sets_are_laid_over_the_file(path: Path) -> None:
    plan = read_plan(
        path,
        [
            "loop.group_size=8",
            "harness.options.nudge.enabled=false",
            'tasks.include=["office/a*", "office/b*"]',
            "algorithm.loss.name=ppo",
            "policy.renderer=qwen3",
            "tasks.split=none",
        ],
    )
    assert plan.loop.group_size == 8
    assert plan.harness.name == "opencode"
    assert plan.trial_settings().harness.options == {"nudge": {"enabled": False}}
    assert plan.tasks.include == ("office/a*", "office/b*")
    assert plan.algorithm.loss.name == "ppo"
    assert plan.policy.renderer == "qwen3"
    assert plan.tasks.split is None


def test_a_plan_that_is_not_there_or_not_toml_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be read"):
        read_plan(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[loop\nsteps = 3")
    with pytest.raises(UserError, match="not valid TOML"):
        read_table(tmp_path / "bad.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for odd in (f"a = {'1' * 5000}", f"a = {'[' * 5000}"):
        (tmp_path / "odd.toml").write_text(odd)
        with pytest.raises(UserError, match="not valid TOML"):
            read_table(tmp_path / "odd.toml")
    (tmp_path / "large.toml").write_text("# a comment\n" * 400_000)
    with pytest.raises(UserError, match="more than 4 MiB"):
        read_table(tmp_path / "large.toml")
    assert assigned([f"a={'1' * 5000}", f"b={'[' * 5000}"]) == {"a": "1" * 5000, "b": "[" * 5000}
    with pytest.raises(UserError, match="not valid TOML"):
        read_table(tmp_path / "bytes.toml")


def test_training_and_evaluation_get_their_own_settings() -> None:
    plan = make_plan(
        table(
            policy__context=160_000,
            policy__max_turn_tokens=50_000,
            loop__temperature=0.9,
            evaluation={"context": 262_144, "limits": {"max_turns": 250}, "harness": {"name": "archipelago"}},
        )
    )
    train, evaluated = plan.trial_settings(), plan.evaluation_settings()
    assert evaluated is not None
    assert (train.context_limit, evaluated.context_limit) == (160_000, 262_144)
    assert (train.max_turn_tokens, evaluated.max_turn_tokens) == (50_000, 50_000)
    assert (train.temperature, evaluated.temperature) == (0.9, 0.9)
    assert (train.limits.max_turns, evaluated.limits.max_turns) == (100, 250)
    assert (train.harness.name, evaluated.harness.name) == ("opencode", "archipelago")
    assert train.tokenizer == "/models/tiny", "the model's folder, where nothing else is named"
    config = plan.loop_config
    assert config.evaluation is not None
    assert config.evaluation.every == 20
    assert make_plan(table()).loop_config.evaluation is None


def test_the_written_plan_is_the_plan(tmp_path: Path) -> None:
    plan = make_plan(table(evaluation={"samples": 4}, trainer__lora={"rank": 4}, watching__wandb={"project": "p"}))
    file = tmp_path / "plan.toml"
    file.write_text(plan_toml(plan))
    assert read_plan(file) == plan


def test_a_folder_goes_on_with_its_plan_and_with_no_other(tmp_path: Path) -> None:
    plan = make_plan(table())
    assert claim(tmp_path, plan) is False
    assert claim(tmp_path, plan) is True
    longer = make_plan(table(loop__steps=9, watching__live="off", loop__admission={"max_running": 5}))
    assert claim(tmp_path, longer) is True
    assert read_plan(tmp_path / "plan.toml").loop.steps == 9
    other = make_plan(table(loop__group_size=4, algorithm={"loss": {"name": "ppo"}}))
    with pytest.raises(UserError, match=r"loop.group_size: there 16, here 4"):
        claim(tmp_path, other)
    assert read_plan(tmp_path / "plan.toml").loop.steps == 9, "what was refused changed nothing"
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(UserError, match="damaged"):
        claim(tmp_path, plan)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "job.json").write_text("{}")
    with pytest.raises(UserError, match="something else"):
        claim(tmp_path / "other", plan)


def test_secrets_in_options_are_not_written(tmp_path: Path) -> None:
    plan = make_plan(table(harness={"options": {"api_key": "sk-very-secret-key-0123456789"}}))
    assert claim(tmp_path, plan) is False
    assert claim(tmp_path, plan) is True, "scrubbed alike, the plans are compared as they are written"
    for path in tmp_path.iterdir():
        assert "very-secret" not in path.read_text()


# -- tasks ------------------------------------------------------------------------------------------------------------


def test_tasks_come_from_patterns_lists_and_splits(tmp_path: Path) -> None:
    file = tmp_path / "tasks.txt"
    file.write_text(
        "# chosen\noffice/board-terms-slides  mean=0.4 std=0.2 turns=7.5\n\noffice/aalsund-tender-deadline\n"
    )
    plan = make_plan(table(tasks={"file": str(file)}))
    assert tasks_of(plan)[0] == ["office/board-terms-slides", "office/aalsund-tender-deadline"]
    assert listed_turns(file) == {"office/board-terms-slides": 7.5}
    whole = make_plan(table(tasks={"include": ["office/*"], "exclude": ["office/a*"]}))
    ids, evaluated = tasks_of(whole)
    assert len(ids) > 20
    assert not [i for i in ids if i.startswith("office/a")]
    assert evaluated == []


def test_an_evaluation_is_held_out_unless_said_otherwise() -> None:
    plan = make_plan(table(evaluation={}))
    train, evaluated = tasks_of(plan)
    assert train
    assert evaluated
    assert not set(train) & set(evaluated)
    with pytest.raises(UserError, match=r"are trained on .*held_out = false"):
        tasks_of(make_plan(table(evaluation={"split": "train"})))
    same = make_plan(table(evaluation={"split": "train", "held_out": False}))
    assert tasks_of(same)[0] == tasks_of(same)[1]
    everything = make_plan(table(evaluation={"split": "", "held_out": False}))
    assert len(tasks_of(everything)[1]) > len(train)


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        ({"include": ["office/nothing-here"]}, "no task"),
        ({"include": ["office/a*"], "exclude": ["office/a*"]}, "leaves no task"),
        ({"file": "/none/tasks.txt"}, "can't be read"),
    ],
)
def test_tasks_that_are_not_there_are_told(tasks: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        tasks_of(make_plan(table(tasks=tasks)))


def test_buckets_keep_tasks_of_one_length_together_and_lose_none(tmp_path: Path) -> None:
    tasks = [f"t{n:02d}" for n in range(20)]
    lengths = {task: float(n % 10) for n, task in enumerate(tasks)}
    order = Bucketed(tasks, lengths=lengths, buckets=4, seed=3)
    epochs = [[order.task(20 * epoch + place) for place in range(20)] for epoch in range(3)]
    for epoch in epochs:
        assert sorted(epoch) == tasks
        for start in range(0, 20, 5):
            inside = [lengths[task] for task in epoch[start : start + 5]]
            assert max(inside) - min(inside) <= 2
    assert epochs[0] != epochs[1]
    again = Bucketed(tasks, lengths=lengths, buckets=4, seed=3)
    assert [again.task(n) for n in (45, 3, 21)] == [order.task(n) for n in (45, 3, 21)]
    assert again.fingerprint == order.fingerprint
    assert Bucketed(tasks, lengths=lengths, buckets=4, seed=4).fingerprint != order.fingerprint
    with pytest.raises(UserError, match="needs lengths"):
        order_of(make_plan(table(tasks__buckets=2)), ["office/board-terms-slides"])


# -- what follows from it ----------------------------------------------------------------------------------------------


def test_derived_numbers_name_the_bound_that_binds() -> None:
    plan = make_plan(table(loop__steps=100, loop__max_staleness=3, policy__context=160_000, evaluation={"samples": 3}))
    found = derive(plan, 1928, 480, {"kv_capacity_tokens": 48_000_000}, memory_available_mb=400_000)
    assert found.figures["trajectories per step"] == 256
    assert found.figures["groups that may be untrained"] == 64
    assert found.figures["evaluations"] == 6, "before the first step, and after 20, 40, 60, 80 and 100"
    assert found.figures["trials per evaluation"] == 1440
    bounds = {bound.name: bound.trials for bound in found.bounds}
    assert bounds["staleness"] == 1024
    assert bounds["kv"] == 300
    assert found.binds.name == "kv"
    tight = derive(plan, 8, 480, memory_available_mb=900)
    assert tight.binds.name == "memory"
    assert any("8 tasks" in note for note in tight.notes)
    assert found.to_json()["binds"] == "kv"


# -- the reference -----------------------------------------------------------------------------------------------------


def test_the_page_documents_every_key_as_the_models_have_it() -> None:
    page = DOCS.read_text(encoding="utf-8")
    assert document(page, plan_model) == page, (
        "docs/plan.md is behind the models: run python -m envkit.backends.run.reference torch docs/plan.md"
    )
    text = reference(plan_model)
    for key in ("max_staleness", "delta_high", "lr", "held_out", "gap_stops", "rollout_s", "max_rows"):
        assert f"`{key}`" in text


def test_a_key_without_a_word_is_an_error() -> None:
    class Inner(BaseModel):
        """Something."""

        mystery: int = 3

    class Silent(Plan):
        inner: Inner = Inner()

    with pytest.raises(ValueError, match=r"mystery has no description"):
        reference(Silent)
