"""The backends of a plan: one line chooses them, a dry run checks them anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envkit.backends.megatron.backend import WITH_TORCH, WITH_VLLM
from envkit.backends.megatron.shape import BRIDGED, shape_of
from envkit.backends.run.plan import make_plan
from envkit.failure import UserError

pytestmark = pytest.mark.megatron


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """As much of a model folder as a plan looks at."""
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["Qwen3ForCausalLM"]}))
    return tmp_path


def table(model: Path, **trainer: Any) -> dict[str, Any]:
    """The plan of the torch backend; only its first line is another."""
    return {
        "backend": "torch",
        "tasks": {"include": ["office/aalsund-tender-deadline"]},
        "loop": {"steps": 3},
        "trainer": {"model": str(model), "threads": 1, "optimizer": {"lr": 1e-3}, **trainer},
        "engines": {"replicas": 1, "threads": 1, "max_model_len": 2048},
    }


@pytest.mark.parametrize("backend", ["torch", "megatron-torch", "megatron-vllm"])
def test_one_line_chooses_the_backend(model: Path, backend: str) -> None:
    plan = make_plan({**table(model), "backend": backend})
    assert plan.backend == backend
    assert plan.model_folder == str(model)


def test_what_follows_from_a_plan(model: Path) -> None:
    own = {"world": 8, "layout": {"tensor": 2, "context": 2}, "lora": {"rank": 4}, "recompute": {"layers": 2}}
    given = {**table(model, **own), "backend": "megatron-vllm"}
    figures = WITH_VLLM.derive(make_plan(given))  # type: ignore[arg-type]
    assert figures["ranks"] == 8
    assert figures["data-parallel ranks"] == 2
    assert figures["rows padded to a multiple of"] == 8
    assert figures["the model is built by"] == "our own mapping (Qwen3ForCausalLM)"


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"world": 3, "layout": {"tensor": 2}}, "multiple of 2 ranks"),
        ({"layuot": {}}, "did you mean 'layout'"),
        ({"optimizer_offload": 0.5, "distributed_optimizer": False}, "needs distributed_optimizer"),
        ({"lora": {"targets": []}}, "lora.targets is empty"),
        ({"world": 2, "layout": {"tensor": 2, "sequence_parallel": False}, "lora": {}}, "needs sequence_parallel"),
    ],
    ids=["world", "typo", "offload", "targets", "sequence"],
)
def test_what_can_not_be_is_said_before_anything_starts(model: Path, own: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_plan({**table(model, **own), "backend": "megatron-torch"})


@pytest.mark.parametrize("name", sorted(BRIDGED))
def test_models_of_the_bridge_are_looked_at_and_not_run(tmp_path: Path, name: str) -> None:
    kinds = {"Qwen3_5": "qwen3_5", "Qwen3_5Moe": "qwen3_5_moe", "Qwen3Next": "qwen3_next"}
    kind = kinds[name.partition("For")[0]]
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [name], "model_type": kind}))
    plan = make_plan({**table(tmp_path), "backend": "megatron-vllm"})
    assert "Megatron-Bridge" in WITH_VLLM.derive(plan)["the model is built by"]  # type: ignore[arg-type]
    with pytest.raises(UserError, match="only Megatron-Bridge builds"):
        shape_of(tmp_path)


def test_a_model_that_nothing_builds_is_refused_by_the_dry_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["MambaForCausalLM"]}))
    with pytest.raises(UserError, match=r"is a MambaForCausalLM; the Megatron trainer knows Qwen3ForCausalLM"):
        WITH_TORCH.derive(make_plan({**table(tmp_path), "backend": "megatron-torch"}))  # type: ignore[arg-type]


def test_a_run_goes_on_in_another_layout_and_on_another_cluster(model: Path, tmp_path: Path) -> None:
    from envkit.backends.run.folder import claim

    def plan(**trainer: Any) -> Any:
        return make_plan({**table(model, **trainer), "backend": "megatron-torch"})

    assert not claim(tmp_path, plan(world=2, layout={"tensor": 2}))
    assert claim(tmp_path, plan(world=2, layout={"pipeline": 2}, ray={"address": "here:1"}, restarts=9))
    with pytest.raises(UserError, match=r"another plan: trainer\.optimizer\.lr: there 0\.001, here 0\.002"):
        claim(tmp_path, plan(optimizer={"lr": 2e-3}))


def test_the_examples_are_plans_and_a_run_has_one_cluster(model: Path) -> None:
    from envkit.backends.ray.trials import ClusterTrials
    from envkit.backends.run.plan import read_plan

    examples = Path(__file__).parents[3] / "examples"
    one: Any = read_plan(examples / "megatron-vllm.toml", [f"trainer.model={model}"])
    assert WITH_VLLM.derive(one)["data-parallel ranks"] == 2
    assert one.executor() == "process"
    assert one.placed_trainer.ray is None
    many: Any = read_plan(examples / "megatron-vllm-cluster.toml", ["ray.address=10.0.0.1:6379"])
    assert many.placed_trainer.ray.address == "10.0.0.1:6379"
    assert many.placed_trainer.ray.gpus == 1
    assert isinstance(many.executor(), ClusterTrials)
    with pytest.raises(UserError, match="a run has one cluster"):
        make_plan(
            {**table(model, ray={"address": "here:1"}), "backend": "megatron-torch", "ray": {"address": "there:1"}}
        )
    with pytest.raises(UserError, match="did you mean 'address'"):
        make_plan({**table(model), "backend": "megatron-torch", "ray": {"adress": "there:1"}})
