"""The recipes: every published value, held against the plan that is loaded."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from envkit.backends.run.plan import Plan, read_plan
from envkit.cli.main import main

RECIPES = Path(__file__).resolve().parents[2] / "examples" / "recipes"

#: What both runs had, by where the plan has it.
BOTH: dict[str, Any] = {
    "algorithm.advantage.name": "grpo",
    "algorithm.advantage.std": False,
    "algorithm.loss.name": "dppo",
    "algorithm.loss.divergence": "binary_tv",
    "algorithm.loss.delta_low": 0.15,
    "algorithm.loss.delta_high": 0.15,
    "algorithm.reduction": "prompt_mean",
    "algorithm.kl": None,
    "algorithm.zero_variance": "drop",
    "algorithm.zero_variance_tolerance": 1e-6,
    "algorithm.length_penalty": None,
    "algorithm.corrections.any": False,
    "algorithm.on_truncation.context": "zero",
    "algorithm.on_truncation.turn_length": "zero",
    "algorithm.on_truncation.working_time": "mask",
    "engines.clear_kv": False,
    "engines.tensor_parallel": 8,
    "trainer.optimizer.lr": 1e-6,
    "trainer.optimizer.betas": (0.9, 0.98),
    "trainer.optimizer.weight_decay": 0.01,
    "trainer.optimizer.grad_clip": 1.0,
    "trainer.optimizer_offload": 1.0,
    "trainer.logprob_chunk": 1024,
    "trainer.recompute.granularity": "full",
    "trainer.recompute.method": "uniform",
    "trainer.recompute.layers": 1,
    "loop.temperature": 1.0,
    "loop.admission.starts_per_s": 3.0,
    "loop.checkpoint.every": 5,
    "loop.checkpoint.keep": 5,
    "policy.context": 160_000,
    "policy.request_timeout_s": 1800.0,
    "batch.tokens_per_micro_batch": 160_000,
    "limits.max_turns": 100,
    "limits.working_time_s": 3600.0,
    "limits.tool_timeout_s": 600.0,
    "trial.timeout_s": 6000.0,
    "trial.executor": "ray",
    "sandbox.name": "modal",
    "harness.name": "archipelago",
    "harness.options.ready_s": 900.0,
    "harness.options.result_head_bytes": 28_000,
    "harness.options.result_tail_bytes": 14_000,
    "harness.options.nudge": {"enabled": True, "share": 0.8},
    "watching.alarms.gap": 0.03,
}
HERO: dict[str, Any] = {
    "loop.groups_per_step": 16,
    "loop.group_size": 16,
    "loop.max_staleness": 3,
    "evaluation.every": 20,
    "evaluation.context": 262_144,
    "evaluation.limits.max_turns": 250,
}
ROWS: dict[str, dict[str, Any]] = {
    "apex-35b": {
        **BOTH, **HERO, "policy.max_turn_tokens": 50_000, "loop.admission.max_running": 550, "trainer.world": 32,
        "trainer.layout.tensor": 8, "trainer.layout.expert": 8, "trainer.layout.pipeline": 1,
        "trainer.layout.context": 1, "engines.urls": 10, "engines.arguments": "0.85",
    },
    "apex-397b": {
        **BOTH, **HERO, "policy.max_turn_tokens": 40_000, "loop.admission.max_running": 300, "trainer.world": 64,
        "trainer.layout.tensor": 4, "trainer.layout.expert": 16, "trainer.layout.pipeline": 4,
        "trainer.layout.context": 2, "engines.urls": 12, "engines.arguments": "0.93",
    },
    "overfit-32": {
        **BOTH, "loop.groups_per_step": 32, "loop.group_size": 8, "loop.max_staleness": 0, "loop.steps": 24,
        "tasks.include": 32, "evaluation.held_out": False,
    },
}  # fmt: skip


@cache
def plan_of(name: str) -> Plan:
    return read_plan(RECIPES / f"{name}.toml")


def at(plan: Plan, path: str) -> Any:
    found: Any = plan
    for key in path.split("."):
        found = found[key] if isinstance(found, dict) else getattr(found, key)
    return found


@pytest.mark.parametrize("name", ROWS)
def test_every_published_value_is_in_the_plan(name: str) -> None:
    plan = plan_of(name)
    wrong = {}
    for path, value in ROWS[name].items():
        found = at(plan, path)
        if path in ("engines.urls", "tasks.include"):
            found = len(set(found))
        elif path == "engines.arguments":
            found = found[found.index("--gpu-memory-utilization") + 1]
        if found != value:
            wrong[path] = (found, value)
    assert not wrong


@pytest.mark.parametrize("name", ROWS)
def test_every_key_has_its_reason(name: str) -> None:
    """A comment stands above every key, or above the table or the run of keys that it is in."""
    explained = False
    for number, line in enumerate((RECIPES / f"{name}.toml").read_text().splitlines(), start=1):
        assert len(line) <= 120, number
        if line.startswith("#"):
            explained = not line.startswith("# --") and len(line) > 2
        elif line.startswith("[") or not line:
            explained = explained and line.startswith("[")
        elif "=" in line and not line.startswith((" ", '"')) and not line.startswith("backend"):
            key = line.partition(" =")[0]
            # a few keys of one sentence stand together
            assert explained, f"line {number}: {key} has no reason"


def test_a_recipe_loads_without_its_model_or_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(RECIPES / "apex-397b.toml"), "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["derived"]["groups that may be untrained"] == 64
    assert told["derived"]["ranks"] == 64
    assert {b["name"]: b["trials"] for b in told["derived"]["bounds"]}["staleness"] == 1024
    assert not set(told["tasks"]) & set(told["evaluation_tasks"])
