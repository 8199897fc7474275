"""The whole way on one machine: an engine process, trials of `envkit run`, their traces, and the audit of a user."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envkit.cli.main import main
from envkit.tokens.samples import SAMPLES
from envkit.tokens.store import TRACE_JOURNAL, TRACE_TENSORS
from envkit.trial.trial import TOKEN_FILES

pytestmark = [pytest.mark.tokens, pytest.mark.timeout(240)]


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


HERE = Path(__file__).parent
templates = load("templates_for_whole_way", HERE.parents[1] / "envkit" / "tokens" / "conftest.py")
loops = load("loops_for_whole_way", HERE / "engine" / "test_loop.py")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights and a tokenizer with a chat template, in one folder."""
    folder = tmp_path_factory.mktemp("model")
    vocabulary = templates.train(600)
    size = vocabulary.get_vocab_size()
    loops.tiny(vocab_size=size, eos_token_id=None, max_position_embeddings=16384).save_pretrained(folder)
    templates.wrap(vocabulary, "<|im_end|>", templates.CHATML).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def engine(model: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "envkit.backends.torch.engine", str(model), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield line.removeprefix("ready at ").strip()
    finally:
        process.terminate()
        process.wait(20)


def envkit(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_trials_are_recorded_to_the_token_and_the_audit_agrees(
    model: Path, engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A secret that occurs in what the model is shown must not break the record of ids.
    monkeypatch.setenv("TRICKY_API_KEY", "Aalsund Kommune")
    run = tmp_path / "run"
    policy = f"token:engine={engine},tokenizer={model},renderer=template,max_turn_tokens=40,seeded=true"
    began = time.monotonic()
    _, done = envkit(
        capsys,
        *("run", "office/aalsund-tender-deadline", "--policy", policy, "--harness", "opencode:prompt=compact"),
        *("--limit", "max_turns=4", "--out", str(run)),
    )
    assert time.monotonic() - began < 200
    assert done["result"]["status"] == "scored", done["result"]["failure"]
    code, report = envkit(capsys, "tokens", "audit", str(run), "--logprobs", str(model), "--version", "0")
    assert code == 0
    (trace,) = report["traces"]
    assert trace["sampled"] == trace["delivered"] > 0
    assert trace["logprobs"]["tokens"] == trace["sampled"]
    assert trace["logprobs"]["mean"] < 1e-4
    # The trajectory names the node that holds each turn's ids.
    (trajectory,) = run.rglob("trajectory.json")
    steps = [s for s in json.loads(trajectory.read_text())["steps"] if s["source"] == "agent"]
    assert [s["extra"]["trace_node"] for s in steps] == list(range(1, 2 * len(steps), 2))


def test_the_audit_says_what_it_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = envkit(capsys, "tokens", "audit", str(tmp_path))
    assert code == 2
    assert re.search("no trace in .*only trials of the `token` policy", said["error"]["message"])


def test_scrubbing_leaves_the_files_of_ids_alone() -> None:
    assert {TRACE_JOURNAL, TRACE_TENSORS, SAMPLES} == TOKEN_FILES
