"""The whole way with the large backend: the shipped policy, the real harness, sandboxes and verifiers, real vLLM, real
megatron-core; as processes of this machine, and all of them on a Ray cluster. `make test-megatron` makes both
environments. Most of a minute is the start of vLLM."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envkit.backends.vllm import install

pytestmark = [pytest.mark.megatron, pytest.mark.timeout(2400)]

ROOT = Path(__file__).parents[3]
STEPS = 6
#: A smaller run of the same plan: every task four times, so few trials at a time that training waits for them, and
#: weights find some on their way.
SETS = (
    f"loop.steps={STEPS}",
    "loop.groups_per_step=4",
    "loop.group_size=2",
    "loop.admission.max_running=2",
    "evaluation=none",
    "engines.kv_cache_mb=128",
    "engines.start_timeout_s=1200",
    "trial.timeout_s=900",
    'watching.live="off"',
)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def train(plan: Path, out: Path, sets: tuple[str, ...]) -> dict[str, Any]:
    """What `envkit train` says, the quickstart's plan with one line changed."""
    install()
    given = (ROOT / "examples" / "quickstart.toml").read_text()
    plan.write_text(given.replace('backend = "torch"\n', 'backend = "megatron-vllm"\n'))
    changed = [a for a, b in zip(given.splitlines(), plan.read_text().splitlines(), strict=True) if a != b]
    assert changed == ['backend = "torch"']
    command = [sys.executable, "-m", "envkit.cli.main", "train", str(plan), "--out", str(out), "--json"]
    command += [part for value in sets for part in ("--set", value)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_the_overfit_run_trains_with_megatron_and_vllm(tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = train(tmp_path / "plan.toml", out, SETS)
    assert (said["step"], said["failure"]) == (STEPS, None)
    assert Path(said["checkpoint"], "policy", "state", "metadata.json").exists()

    told = lines(out / "metrics.jsonl")
    assert [one["version"] for one in told if one["kind"] == "sync"] == list(range(STEPS + 1))
    assert not [one for one in told if one["kind"] == "fault"]
    steps = {one["step"]: one["metrics"] for one in told if one["kind"] == "step"}
    assert sorted(steps) == list(range(1, STEPS + 1))
    # Every token that an engine sampled is trained, once.
    groups = lines(out / "groups.jsonl")
    assert [len(group["rewards"]) for group in groups] == [2] * 4 * STEPS
    assert not [failure for group in groups for failure in group["failures"] if failure]
    sampled = sum(sum(group["tokens"]) for group in groups)
    assert sum(metrics["loop/sampled_tokens"] for metrics in steps.values()) == sampled > 0
    assert sum(metrics["train/trained_tokens"] for metrics in steps.values()) == sampled
    # Of the weights before the update: what engine and trainer compute is the same in float32.
    assert sum(metrics["train/gap_tokens"] for metrics in steps.values()) > 0
    assert max(metrics.get("train/logprob_gap", 0.0) for metrics in steps.values()) < 1e-3
    # Weights came while trials were on their way, which went on under the new ones.
    assert max(metrics["loop/rollout_versions_max"] for metrics in steps.values()) == 2
    assert sum(metrics["train/stale_gap_tokens"] for metrics in steps.values()) > 0

    first, last = ([r for group in some for r in group["rewards"]] for some in (groups[:8], groups[-8:]))
    means = [math.fsum(rewards) / len(rewards) for rewards in (first, last)]
    errors = [math.fsum((r - m) ** 2 for r in rs) / len(rs) ** 2 for rs, m in zip((first, last), means, strict=True)]
    assert means[1] > means[0] - 2 * math.sqrt(sum(errors)), (means, errors)  # no worse, within what 16 draws can say


def test_ranks_engines_and_trials_on_a_ray_cluster(tmp_path: Path) -> None:
    out = tmp_path / "run"
    sets = (*SETS, "loop.steps=2", 'ray.address="local"', "ray.patience_s=1200", 'trial.executor="ray"')
    said = train(tmp_path / "plan.toml", out, sets)
    assert (said["step"], said["failure"]) == (2, None)
    told = lines(out / "metrics.jsonl")
    assert [one["version"] for one in told if one["kind"] == "sync"] == [0, 1, 2]
    assert not [one for one in told if one["kind"] == "fault"]
    groups = lines(out / "groups.jsonl")
    assert [len(group["rewards"]) for group in groups] == [2] * 8
    assert not [failure for group in groups for failure in group["failures"] if failure]
    trained = sum(one["metrics"]["train/trained_tokens"] for one in told if one["kind"] == "step")
    assert trained == sum(sum(group["tokens"]) for group in groups) > 0
    # What actors print is in the run's folder.
    assert (out / "ranks" / "rank-0.log").stat().st_size
    assert (out / "engines" / "vllm-0.log").stat().st_size
