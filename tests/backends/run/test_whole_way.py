"""`envkit train`, the whole way: random weights, real tasks, trials and engines; killed, resumed, stopped."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envkit.backends.run.log import read_log
from envkit.report.triage import triage
from envkit.trial.rollouts import Keep

pytestmark = [
    pytest.mark.tokens,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


ROOT = Path(__file__).parents[2]
PLAN = """
backend = "torch"
[tasks]
include = ["office/aalsund-tender-deadline", "office/board-terms-slides"]
[harness]
options = {{prompt = "compact"}}
[limits]
max_turns = 2
[policy]
renderer = "template"
max_turn_tokens = 16
[trial]
timeout_s = 240
verify_reserve_s = 60
keep = {{rollouts = "all"}}
[algorithm]
zero_variance = "keep"
entropy_bonus = 0.05
[loop]
steps = 3
groups_per_step = 2
group_size = 2
max_staleness = 1
[loop.checkpoint]
every = 1
[loop.admission]
max_running = 2
[trainer]
model = "{model}"
threads = 1
[trainer.optimizer]
lr = 1e-3
[engines]
threads = 1
[evaluation]
include = ["office/aalsund-price-schedule"]
allow_overlap = true
every = 3
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan for a tiny model with random weights and a tokenizer with a chat template."""
    templates = load("templates_for_training", ROOT / "envkit" / "tokens" / "conftest.py")
    loops = load("loops_for_training", ROOT / "backends" / "torch" / "engine" / "test_loop.py")
    folder = tmp_path_factory.mktemp("whole")
    vocabulary = templates.train(600)
    size = vocabulary.get_vocab_size()
    model = folder / "model"
    loops.tiny(vocab_size=size, eos_token_id=None, max_position_embeddings=16384).save_pretrained(model)
    templates.wrap(vocabulary, "<|im_end|>", templates.CHATML).save_pretrained(model)
    path = folder / "run.toml"
    path.write_text(PLAN.format(model=model))
    return path


def start(plan: Path, out: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "envkit.cli.main", "train", str(plan), "--out", str(out), "--json", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def steps(out: Path) -> list[int]:
    return [record["step"] for record in read_log(out / "metrics.jsonl") if record["kind"] == "step"]


def mentioning(text: str) -> Iterator[int]:
    """Processes whose command line or environment names a folder of this test."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                if text.encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                    yield int(entry)
            except OSError:
                continue


def test_a_run_trains_survives_a_kill_and_stops_when_asked(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = start(plan, out)
    end_s = time.monotonic() + 600
    while not steps(out) and first.poll() is None and time.monotonic() < end_s:
        time.sleep(0.2)
    assert steps(out) == [1], first.communicate(timeout=30)[1] if first.poll() is not None else "no step"
    first.kill()
    first.communicate(timeout=30)
    for _ in range(150):
        if not list(mentioning(str(plan.parent))):
            break
        time.sleep(0.2)
    assert not list(mentioning(str(plan.parent))), "engines end with the run that started them"

    second = start(plan, out)
    said, err = second.communicate(timeout=900)
    assert second.returncode == 0, err
    told = json.loads(said)
    assert told["step"] == 3
    assert told["failure"] is None
    assert steps(out) == [1, 2, 3], "the step before the kill was not trained, or not told, twice"
    training = triage(out).training
    assert training is not None
    assert training.keep == Keep(rollouts="all")
    assert training.kept >= training.ended >= 12, "two groups of two in each of three steps, and the evaluations"

    from safetensors.numpy import load_file

    before = load_file(plan.parent / "model" / "model.safetensors")
    after = load_file(Path(told["checkpoint"]) / "policy" / "model.safetensors")
    moved = [name for name in before if (before[name] != after[name]).any()]
    assert len(moved) > len(before) // 2, "the weights were trained"
    records = [r for r in read_log(out / "metrics.jsonl") if r["kind"] == "step"]
    for record in records:
        assert record["metrics"]["train/logprob_gap"] < 1e-3, "engine and trainer are the same model"
        assert record["metrics"]["train/grad_norm"] > 0
        assert record["metrics"]["faults/rollouts"] == 0
    evaluations = [r["step"] for r in read_log(out / "metrics.jsonl") if r["kind"] == "evaluation"]
    assert evaluations == [0, 3]
    assert "Held-out evaluation" in Path(told["report"]).read_text()
    kept = list((out / "trials").glob("v*/g*/*/attempt-1/result.json"))
    assert len(kept) >= 12
    assert list((out / "tensorboard").iterdir())

    # A longer run goes on where it was; Ctrl-C lets the step finish.
    third = start(plan, out, "--set", "loop.steps=50")
    end_s = time.monotonic() + 600
    while max(steps(out)) < 4 and third.poll() is None and time.monotonic() < end_s:
        time.sleep(0.2)
    third.send_signal(signal.SIGINT)
    said, err = third.communicate(timeout=600)
    assert third.returncode == 130, err
    told = json.loads(said)
    assert told["interrupted"] is True
    assert told["step"] >= 4
    assert told["checkpoint"].endswith(f"{told['step']:06d}"), "nothing that was trained is lost"
    assert not list(mentioning(str(plan.parent)))
    refused = start(plan, out, "--set", "loop.group_size=4")
    assert "loop.group_size: there 2, here 4" in refused.communicate(timeout=300)[0]
    assert refused.returncode == 2


def test_a_model_that_is_not_there_is_told_and_leaves_nothing_running(plan: Path, tmp_path: Path) -> None:
    run = start(plan, tmp_path / "run", "--set", f"trainer.model={tmp_path}/none")
    said, _ = run.communicate(timeout=600)
    assert run.returncode in (1, 2)
    assert "none" in json.loads(said)["error"]["message"]
    assert not list(mentioning(str(tmp_path)))
