"""These tests need the `torch` extra beside vLLM's own environment; `make test-vllm` makes both and runs them.

One pair of servers serves every test of engines and guards here: their start takes most of a minute.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import pytest

collect_ignore_glob = [] if find_spec("torch") and find_spec("transformers") else ["test_conformance.py"]

T = TypeVar("T")


class Trainer:
    """A Hugging Face model on the CPU, as far as engines look: its weights; and the truth about logprobs."""

    version = 0
    ranks = 1

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def weights(self) -> Iterator[tuple[str, Any]]:
        return iter((name, p.detach()) for name, p in self.model.named_parameters())

    def shake(self, seed: int, by: float = 0.3) -> None:
        """Other weights: every tensor moves by its own scale."""
        import torch

        draws = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for p in self.model.parameters():
                noise = torch.randn(p.shape, generator=draws)
                p.add_(noise * by * (p.std() if p.numel() > 1 and p.dim() > 1 else 0.1))

    def truth(self, prompt: Any, ids: Any) -> Any:
        import torch

        with torch.inference_mode():
            row = torch.tensor([[*map(int, prompt), *map(int, ids)]])
            logits = self.model(input_ids=row).logits[0, len(prompt) - 1 : -1].float()
            return torch.log_softmax(logits, -1).gather(-1, row[0, len(prompt) :, None])[:, 0].numpy()


class OwnLoop:
    """An event loop in a thread, for what outlives one test."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], within_s: float = 1400.0) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(within_s)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)


@pytest.fixture(scope="session")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Qwen3 with tied embeddings, the hardest case for updates, and its tokenizer."""
    import torch
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(3)
    config = Qwen3Config(
        vocab_size=200, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=1024, tie_word_embeddings=True, eos_token_id=None,
        bos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.mul_(4)
    folder = tmp_path_factory.mktemp("tied")
    model.save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"w{n}": n for n in range(200)}, unk_token="w0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0")
    tokenizer.chat_template = "{% for m in messages %}w1 {{ m['content'] }} {% endfor %}w2"
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def own_loop() -> Iterator[OwnLoop]:
    loop = OwnLoop()
    yield loop
    loop.stop()


@pytest.fixture(scope="session")
def engines(tied: Path, own_loop: OwnLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two replicas of the tied model."""
    from envkit.backends.vllm import VllmEngines, VllmEnginesConfig, install
    from envkit.deadline import Deadline

    install()
    config = VllmEnginesConfig(
        replicas=2,
        device="cpu",
        max_model_len=1024,
        max_rows=16,
        kv_cache_mb=128,
        health_every_s=1.0,
        threads=1,
        start_timeout_s=900,
    )
    made: Any = VllmEngines(config, tied, logs=tmp_path_factory.mktemp("logs"))

    async def start() -> None:
        await made.start(Deadline.after(900))

    own_loop.run(start())
    yield made
    own_loop.run(made.close())


@pytest.fixture
def trainer(tied: Path) -> Trainer:
    return Trainer(tied)
