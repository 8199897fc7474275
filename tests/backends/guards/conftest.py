"""A tiny model with random weights, its tokenizer and a plan for it. What needs torch is marked `tokens`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PLAN = """
backend = "torch"
[tasks]
include = ["office/aalsund-tender-deadline"]
[harness]
options = {{prompt = "compact"}}
[policy]
renderer = "template"
[loop]
steps = 1
[trainer]
model = "{model}"
threads = 1
[engines]
threads = 1
max_model_len = 1024
start_timeout_s = 600
"""


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    templates = load("templates_for_guards", ROOT / "envkit" / "tokens" / "conftest.py")
    loops = load("loops_for_guards", ROOT / "backends" / "torch" / "engine" / "test_loop.py")
    folder = tmp_path_factory.mktemp("guards")
    vocabulary = templates.train(600)
    model = folder / "model"
    loops.tiny(
        vocab_size=vocabulary.get_vocab_size(), eos_token_id=None, max_position_embeddings=2048, head_dim=32
    ).save_pretrained(model)
    templates.wrap(vocabulary, "<|im_end|>", templates.CHATML).save_pretrained(model)
    path = folder / "run.toml"
    path.write_text(PLAN.format(model=model))
    return path
