"""A pack of one's own, the whole way: scaffolded in an empty folder, installed, listed, its own tests run, checked,
evaluated under both harnesses, and (with torch) trained on for two steps."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

PLAN = """
backend = "torch"
[tasks]
include = ["acme/late-invoices"]
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
[algorithm]
zero_variance = "keep"
entropy_bonus = 0.05
[loop]
steps = 2
groups_per_step = 1
group_size = 2
max_staleness = 1
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
include = ["acme/stock-value"]
every = 2
"""


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Pack:
    """A pack made and installed as its author would, into a folder that only the commands below see."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = folder / "site"
        self.environment = {**os.environ, "PYTHONPATH": str(self.site), "OMP_NUM_THREADS": "1"}
        self.envkit("pack", "new", "acme")
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target"]
        self.run(*pip, str(self.site), "./acme")

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=900
        )
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def envkit(self, *arguments: str) -> str:
        return self.run(sys.executable, "-m", "envkit.cli.main", *arguments)

    def goes_the_whole_way(self) -> None:
        assert self.envkit("tasks", "acme/*").split() == ["acme/late-invoices", "acme/stock-value"]
        self.run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "acme/tests")
        checked = json.loads(self.envkit("pack", "check", "acme", "--json"))
        assert checked["fine"]
        assert [item["oracle"] for item in checked["self_test"]] == [[1.0, 1.0], [1.0, 1.0]]
        for harness in ("opencode", "archipelago"):
            told = json.loads(
                self.envkit("eval", "acme/*", "--harness", harness, "--policy", "oracle", "--json", "--out", harness)
            )
            (row,) = told["evaluation"]
            assert (row["scored"], row["excluded"], row["worlds"]) == (2, 0, 2)
            assert row["mean"]["estimate"]["value"] == 1.0
        compared = json.loads(self.envkit("compare", "opencode", "archipelago", "--json"))
        assert {(cell["pack"], cell["harness"]) for cell in compared["cells"]} == {
            ("acme", "opencode"),
            ("acme", "archipelago"),
        }


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_new_pack_installs_checks_and_evaluates_under_both_harnesses(tmp_path: Path) -> None:
    Pack(tmp_path).goes_the_whole_way()


@pytest.mark.tokens
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_new_pack_goes_the_whole_way_to_two_steps_of_training(tmp_path: Path) -> None:
    pack = Pack(tmp_path)
    pack.goes_the_whole_way()
    templates = load("templates_for_packs", ROOT / "envkit" / "tokens" / "conftest.py")
    loops = load("loops_for_packs", ROOT / "backends" / "torch" / "engine" / "test_loop.py")
    vocabulary = templates.train(600)
    model = tmp_path / "model"
    loops.tiny(
        vocab_size=vocabulary.get_vocab_size(), eos_token_id=None, max_position_embeddings=16384
    ).save_pretrained(model)
    templates.wrap(vocabulary, "<|im_end|>", templates.CHATML).save_pretrained(model)
    (tmp_path / "run.toml").write_text(PLAN.format(model=model))
    told = json.loads(pack.envkit("train", "run.toml", "--out", "trained", "--json"))
    assert told["step"] == 2
    assert told["failure"] is None
