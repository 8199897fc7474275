"""`envkit sweep --measure`: real steps under several layouts, one that can't be among them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.megatron import Layout
from envkit.backends.megatron.config import MegatronTrainerConfig
from envkit.backends.planning import sweep
from envkit.backends.planning.timing import synthetic_batch, time_layouts

pytestmark = [pytest.mark.megatron, pytest.mark.timeout(300)]


def test_a_sweep_times_real_steps(
    folders: dict[str, Path], pool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'backend = "megatron-torch"\n[tasks]\ninclude = ["office/*"]\n[policy]\ncontext = 64\n[loop]\nsteps = 2\n'
        f'[batch]\ntokens_per_micro_batch = 64\n[trainer]\nmodel = "{folders["untied"]}"\nworld = 2\nthreads = 1\n'
        "logprob_chunk = 16\n"
    )
    parser = argparse.ArgumentParser()
    sweep.add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    arguments = [str(plan), "--gpus", "4xH100", "--tokens", "256", "--row", "32", "--repeat", "2", "--timeout-s", "200"]
    args = parser.parse_args([*arguments, "--measure", "2", "--json"])
    assert sweep.run(args, launcher=pool) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["world"] == 2
    timed = [one for one in told["layouts"] if "measured_s" in one]
    assert timed == told["layouts"][:2]
    for one in timed:
        assert one["failure"] is None
        assert len(one["measured_s"]) == 2
        assert min(one["measured_s"]) > 0


async def test_a_layout_that_fails_is_a_line(folders: dict[str, Path], pool: Any) -> None:
    config = MegatronTrainerConfig(model=folders["untied"], world=2, threads=1)
    impossible = Layout(pipeline=2, virtual_stages=4)  # of four layers
    (timed,) = [
        one
        async for one in time_layouts(
            config, AlgorithmConfig(), [impossible], vocab=97, tokens=64, micro=64, row=32, repeat=1, timeout_s=200,
            launcher=pool,
        )
    ]  # fmt: skip
    assert (timed.layout, timed.seconds, timed.best_s) == (impossible, (), None)
    assert timed.failure


def test_a_synthetic_batch_has_the_tokens_that_were_asked_for() -> None:
    batch = synthetic_batch(step=3, ranks=2, tokens=1_000, micro=256, row=64, vocab=97)
    assert batch.step == 3
    assert len({len(rank) for rank in batch.ranks}) == 1
    assert all(micro.tokens <= 256 for rank in batch.ranks for micro in rank)
    tokens = sum(len(row) for row in batch.rows)
    assert 1_000 <= tokens <= 1_000 + 2 * 256
    assert sum(float(row.weights.sum()) for row in batch.rows) == pytest.approx(1.0)
    assert all(not row.mask[0] and row.ids.max() < 97 for row in batch.rows)
