"""These tests need megatron-core; `make test-megatron` installs it into an environment of its own and runs them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

collect_ignore_glob = [] if find_spec("megatron") and find_spec("transformers") else ["*"]

#: The models: dense with a head of its own, dense and tied, experts in all layers but one, experts whose weights stay.
MODELS = ("untied", "tied", "experts", "raw_experts")
VOCAB = 97


def make(kind: str, path: Path, dtype: str = "float32") -> Path:
    """A small Qwen3 with random weights, larger than they would be at the start, so that logprobs differ."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

    torch.manual_seed(3)
    common: dict[str, Any] = dict(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=512, rope_theta=1e4,
        tie_word_embeddings=kind == "tied", eos_token_id=None, bos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    if kind in ("tied", "untied"):
        model = Qwen3ForCausalLM(Qwen3Config(**common))
    else:
        model = Qwen3MoeForCausalLM(
            Qwen3MoeConfig(
                **common,
                num_experts=4,
                num_experts_per_tok=2,
                moe_intermediate_size=24,
                decoder_sparse_step=1,
                mlp_only_layers=[1],
                norm_topk_prob=kind == "experts",
            )
        )
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.mul_(4)
            elif "norm" in name:
                p.add_(torch.randn_like(p) * 0.1)
    model.to(getattr(torch, dtype)).save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {kind: make(kind, root / kind) for kind in MODELS}


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """This process as the only rank."""
    import torch
    from megatron.core import parallel_state

    from envkit.backends.megatron import Layout
    from envkit.backends.megatron.factory import initialize

    torch.set_num_threads(1)
    meeting = tmp_path_factory.mktemp("alone") / "meeting"
    initialize(Layout(), rank=0, world=1, init_method=f"file://{meeting}", timeout_s=60)
    yield
    parallel_state.destroy_model_parallel()
    torch.distributed.destroy_process_group()


Ranks = Callable[..., list[Any]]


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """`ranks(n, layout, "function", **arguments)`: a function of `on_ranks.py` on n ranks, and what each gave.

    Processes are started once: importing megatron-core takes longer than all that the tests compute.
    """
    pool: list[tuple[subprocess.Popen[bytes], Connection]] = []
    root = tmp_path_factory.mktemp("ranks")
    calls = iter(range(1_000_000))

    def call(count: int, layout: dict[str, Any], function: str, **arguments: Any) -> list[Any]:
        while len(pool) < count:
            here, there = Pipe()
            command = [sys.executable, str(Path(__file__).with_name("on_ranks.py")), str(there.fileno())]
            pool.append((subprocess.Popen(command, pass_fds=[there.fileno()]), here))
            there.close()
        meeting = f"file://{root}/{next(calls)}"
        for rank, (_, pipe) in enumerate(pool[:count]):
            pipe.send_bytes(pickle.dumps((rank, count, layout, meeting, function, arguments)))
        answers = []
        for rank, (process, pipe) in enumerate(pool[:count]):
            assert pipe.poll(240), f"rank {rank} of {count} gave no answer in 240 s ({function}, {layout})"
            try:
                answers.append(pickle.loads(pipe.recv_bytes()))
            except EOFError:
                pytest.fail(f"rank {rank} of {count} died with {process.wait(10)} ({function}, {layout})")
        failed = [answer for good, answer in answers if not good]
        assert not failed, failed[0]
        return [answer for _, answer in answers]

    yield call
    for _, pipe in pool:
        pipe.close()
    for process, _ in pool:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
