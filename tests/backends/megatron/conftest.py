"""These tests need megatron-core; `make test-megatron` installs it into an environment of its own and runs them."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from envkit.failure import EnvkitError

#: What several of these tests share lies beside them: `megatron_steps`, `megatron_run` and `on_ranks`.
sys.path.append(str(Path(__file__).parent))

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


class Pool:
    """Rank processes that stay: importing megatron-core takes longer than all that the tests compute. A `Launcher`,
    whose ranks leave when they are ended, and are there for the next who starts some."""

    settle_s = 3.0

    def __init__(self, root: Path) -> None:
        from envkit.backends.megatron.launch import ProcessLauncher

        script = str(Path(__file__).with_name("on_ranks.py"))
        self.doom = root / "doom"
        self.doom.mkdir()
        os.environ["ENVKIT_TEST_DOOM"] = str(self.doom)  # see `on_ranks.DoomedWorker`
        self._launcher = ProcessLauncher(threads=1, logs=root, command=[sys.executable, script])
        self.idle: list[Any] = []

    def start(self, world: int, *, timeout_s: float) -> list[Pooled]:
        lacking = world - len(self.idle)
        if lacking > 0:
            self.idle += self._launcher.start(lacking, timeout_s=timeout_s)
        return [Pooled(self, number, self.idle.pop()) for number in range(world)]

    def share(self, payload: bytes) -> bytes:
        return payload

    def close(self) -> None: ...

    def end(self) -> None:
        for process in self.idle:
            process.end()


class Pooled:
    """A process in the place of a rank."""

    def __init__(self, pool: Pool, number: int, process: Any) -> None:
        self._pool, self.process = pool, process
        self.number = process.number = number
        self.host, self.log = process.host, process.log
        self._ended = False

    def locate(self, timeout_s: float) -> str:
        return str(self.process.locate(timeout_s))

    def submit(self, method: str, payload: Any) -> Any:
        return self.process.submit(method, payload)

    def end(self) -> None:
        if self._ended:
            return
        self._ended = True
        left = self.process.submit("leave", pickle.dumps(()))
        try:
            assert left.result(5).failure is None
        except (AssertionError, EnvkitError, TimeoutError):
            self.process.end()
        else:
            self._pool.idle.append(self.process)


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    pool = Pool(tmp_path_factory.mktemp("ranks"))
    yield pool
    pool.end()


Make = Callable[..., Any]


@pytest.fixture(scope="session")
def trainer_of(folders: dict[str, Path], pool: Pool) -> Make:
    """`trainer_of("tied", world=2, layout={"tensor": 2})`: a trainer that is not started."""
    from envkit.backends.algorithms import AlgorithmConfig
    from envkit.backends.megatron.config import MegatronTrainerConfig
    from envkit.backends.megatron.trainer import MegatronTrainer
    from envkit.backends.torch.config import OptimizerConfig

    def make(kind: str, **settings: Any) -> Any:
        given = {"optimizer": OptimizerConfig(lr=1e-3, grad_clip=1.0, warmup_steps=2), "logprob_chunk": 16}
        config = MegatronTrainerConfig(model=folders[kind], threads=1, **{**given, **settings})
        return MegatronTrainer(config, AlgorithmConfig(), launcher=pool)

    return make


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Ranks:
    """`ranks(n, layout, "function", **arguments)`: a function of `on_ranks.py` on n ranks, and what each gave."""
    root = tmp_path_factory.mktemp("meetings")
    calls = iter(range(1_000_000))

    def call(count: int, layout: dict[str, Any], function: str, **arguments: Any) -> list[Any]:
        members = pool.start(count, timeout_s=60)
        meeting = f"file://{root}/{next(calls)}"
        try:
            asked = [
                rank.submit("function", pickle.dumps((n, count, layout, meeting, function, arguments)))
                for n, rank in enumerate(members)
            ]
            answers = [future.result(240) for future in asked]
        finally:
            for rank in members:
                rank.end()
        failed = [answer.failure for answer in answers if answer.failure is not None]
        assert not failed, failed[0].traceback
        return [answer.value for answer in answers]

    return call
