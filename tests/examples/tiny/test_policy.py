"""The shipped policy: its words, its size, its training in miniature, and the comparison of before and after."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.tokens, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
POLICY = ROOT / "examples" / "tiny" / "policy"


@pytest.fixture(scope="module")
def renderer() -> Any:
    from envkit.tokens.render import load_renderer, load_tokenizer

    return load_renderer(load_tokenizer(str(POLICY)), "qwen3")


def test_the_chat_template_is_the_families() -> None:
    from envkit.tokens.families import detect_family
    from envkit.tokens.render import load_tokenizer

    assert detect_family(load_tokenizer(str(POLICY))) == "qwen3"


def test_everything_the_clerk_says_fits_the_context(renderer: Any) -> None:
    from examples.tiny.demonstrations import DEMONSTRATIONS, OVERFIT_32, take
    from examples.tiny.recording import completion

    longest = {"quickstart": 160, "overfit-32": 224}  # max_turn_tokens
    for name, at_most in longest.items():
        assert tomllib.loads((ROOT / "examples" / f"{name}.toml").read_text())["policy"]["max_turn_tokens"] == at_most
    for task in OVERFIT_32:
        at_most = longest["quickstart" if task in DEMONSTRATIONS else "overfit-32"]
        for seed in range(20):
            shown = take(task, random.Random(seed))
            turns = [completion(renderer, "", [shown.call]), completion(renderer, shown.answer, [])]
            assert max(map(len, turns)) <= at_most
            # What is written as a call is read as that call.
            (call,) = renderer.parse(turns[0], [], None).tool_calls
            assert (call.name, call.arguments) == shown.call
            assert renderer.parse(turns[-1], [], None).text == shown.answer


def test_it_is_small_and_loads_everywhere() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(POLICY)
    assert 1_000_000 <= model.num_parameters() <= 5_000_000
    assert model.config.head_dim >= 32
    assert len(AutoTokenizer.from_pretrained(POLICY)) == model.config.vocab_size
    assert (POLICY / "model.safetensors").stat().st_size < 5 * 2**20


def test_one_step_of_the_whole(tmp_path: Path) -> None:
    """Engine, trials, verifiers, trainer, loop and evaluation, on two tasks."""
    out = tmp_path / "run"
    sets = (
        'tasks.include=["office/lantern-payment-terms", "office/customer-consents"]',
        "loop.steps=1",
        "loop.groups_per_step=2",
        "loop.group_size=4",
        "algorithm.zero_variance=keep",
        "evaluation.samples=2",
        f"trainer.model={POLICY}",
        'watching.live="off"',
    )
    command = [sys.executable, "-m", "envkit.cli.main", "train", str(ROOT / "examples" / "quickstart.toml")]
    command += ["--out", str(out), "--json", *(part for value in sets for part in ("--set", value))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert result["step"] == 1
    assert result["failure"] is None
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert rows
    from examples.tiny.compare import rewards

    for step in (0, 1):
        found = rewards(out / "evaluations" / f"step-{step:06d}.jsonl")
        assert sorted(map(len, found.values())) == [2, 2]


def test_the_comparison_tells_a_rise_from_noise(tmp_path: Path) -> None:
    from examples.tiny.compare import rise

    rng = random.Random(4)

    def attempts(chance: float) -> dict[str, list[float]]:
        return {task: [float(rng.random() < chance) for _ in range(32)] for task in "abcdefgh"}

    found = rise(attempts(0.4), attempts(0.7))
    assert found.low < 0.3 < found.high
    assert found.low > 0
    outside = 0
    for _ in range(200):
        same = rise(attempts(0.5), attempts(0.5))
        outside += not same.low <= 0 <= same.high
    assert 1 <= outside <= 24  # about one in twenty
    with pytest.raises(ValueError, match="same tasks"):
        rise({"a": [1.0, 0.0]}, {"b": [1.0, 0.0]})
