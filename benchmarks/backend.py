"""The large backend against the embedded one, on this machine, in one run: sampling, training, and what a sync costs.

    python benchmarks/backend.py [--repeats 5] [--threads 2] [--concurrency 1 16] [--sizes 1 10] [--quick]

Run it where megatron-core is installed (`make test-megatron` makes `.venv-megatron`), with vLLM's environment beside it
(`envkit engine install vllm`). Models are Qwen3 with random weights, float32 on a CPU.

- Tokens per second of vLLM and of the embedded engine: the same prompts of 64 ids, 128 sampled tokens each, through the
  same client and the token endpoint.
- Seconds of a training step of the Megatron trainer (one rank, a process) and of the torch trainer: the same rows, all
  different, so that there is no prefix to share; best of the repeats, the trainers taking turns.
- The stall of a weight sync: how long vLLM samples nothing while it takes weights from the Megatron trainer with
  requests in flight, as a share of the step (training and sync).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envkit.backend import Batch, MicroBatch, Row
from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.megatron.config import MegatronTrainerConfig
from envkit.backends.megatron.trainer import MegatronTrainer
from envkit.backends.torch.config import EnginesConfig, OptimizerConfig, TorchTrainerConfig
from envkit.backends.torch.engines import TorchEngines
from envkit.backends.torch.trainer import TorchTrainer
from envkit.backends.vllm import VllmEngines, VllmEnginesConfig
from envkit.deadline import Deadline
from envkit.engine import EngineClient
from envkit.tokens.generation import SamplingParams
from envkit.tokens.prompt import PromptIds

VOCAB, PROMPT, SAMPLED = 2048, 64, 128
#: Millions of parameters -> width, layers. The width of the feed-forward layers is three times as much.
SHAPES = {1: (128, 4), 10: (384, 5)}
START_S = 1800.0


def make_model(size: int, folder: Path) -> int:
    """Writes a model of about so many million parameters; how many it has."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    width, layers = SHAPES[size]
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCAB, hidden_size=width, intermediate_size=3 * width, num_hidden_layers=layers,
            num_attention_heads=width // 32, num_key_value_heads=width // 64, head_dim=32,
            max_position_embeddings=1024, tie_word_embeddings=True, eos_token_id=None, bos_token_id=None,
            pad_token_id=None,
        )
    )  # fmt: skip
    model.save_pretrained(folder)
    return sum(p.numel() for p in model.parameters())


def soon(what: str) -> Deadline:
    return Deadline.after(START_S, what)


# ---- sampling --------------------------------------------------------------------------------------------------------


async def sampled_per_s(url: str, concurrency: int, repeats: int) -> float:
    """Best of the repeats, after one to warm up."""
    client = EngineClient(url)
    dice = np.random.default_rng(concurrency)
    params = SamplingParams(max_tokens=SAMPLED, temperature=1.0, ignore_eos=True)

    async def one(n: int) -> int:
        prompt = PromptIds(dice.integers(0, VOCAB, PROMPT, dtype=np.int32))
        done = await client.generate(prompt, params, session=f"s{n}", deadline=soon("a completion"))
        return len(done.ids)

    best = 0.0
    try:
        for _ in range(repeats + 1):
            began_s = time.perf_counter()
            tokens = sum(await asyncio.gather(*(one(n) for n in range(concurrency))))
            best = max(best, tokens / (time.perf_counter() - began_s))
    finally:
        await client.close()
    return best


async def engines(model: Path, options: argparse.Namespace) -> None:
    rows = max(options.concurrency)
    found: dict[str, dict[int, float]] = {}
    embedded = EnginesConfig(max_rows=rows, max_model_len=512, threads=options.threads, start_timeout_s=START_S)
    real = VllmEnginesConfig(
        device="cpu", max_rows=rows, max_model_len=512, kv_cache_mb=256, threads=options.threads,
        start_timeout_s=START_S,
    )  # fmt: skip
    for name, made in (("embedded", TorchEngines(embedded, model)), ("vLLM", VllmEngines(real, model))):
        async with made as running:
            found[name] = {n: await sampled_per_s(running.urls[0], n, options.repeats) for n in options.concurrency}
    print(f"\nsampled tokens per second, 1M parameters, {SAMPLED} tokens after {PROMPT}")
    print(f"{'at once':>10} {'embedded':>10} {'vLLM':>10} {'ratio':>8}")
    for n in options.concurrency:
        ours, theirs = found["embedded"][n], found["vLLM"][n]
        print(f"{n:>10} {ours:>10.0f} {theirs:>10.0f} {theirs / ours:>8.2f}")


# ---- training --------------------------------------------------------------------------------------------------------


def batch(step: int, rows: int, length: int) -> Batch:
    """Rows without anything in common."""
    dice = np.random.default_rng(step)
    mask = np.arange(length) >= length // 4
    made = tuple(
        Row(
            ids=dice.integers(0, VOCAB, length, dtype=np.int32),
            mask=mask,
            logprobs=np.where(mask, -7.6, 0.0).astype(np.float32),
            versions=np.where(mask, step - 1, -1).astype(np.int32),
            advantages=np.where(mask, dice.normal(), 0.0),
            weights=np.where(mask, 1.0 / (rows * length), 0.0),
            group=f"g{n // 4}",
            trial=f"t{n}",
        )
        for n in range(rows)
    )
    return Batch(ranks=((MicroBatch(made),),), step=step)


async def steps(trainers: Sequence[Any], repeats: int, rows: int, length: int) -> list[float]:
    """Best seconds of each trainer; they take turns, and the first step of each does not count."""
    best = [float("inf")] * len(trainers)
    for step in range(1, repeats + 2):
        for n, trainer in enumerate(trainers):
            began_s = time.perf_counter()
            await trainer.train_step(batch(step, rows, length), temperature=1.0, deadline=soon("a step"))
            if step > 1:
                best[n] = min(best[n], time.perf_counter() - began_s)
    return best


def megatron(model: Path, threads: int) -> MegatronTrainer:
    own = MegatronTrainerConfig(model=model, threads=threads, optimizer=OptimizerConfig(lr=1e-4))
    return MegatronTrainer(own, AlgorithmConfig())


async def training(models: dict[int, Path], options: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(options.threads)
    rows, length = 8, 256
    print(f"\nseconds of a training step, {rows} rows of {length} tokens")
    print(f"{'parameters':>10} {'torch':>10} {'Megatron':>10} {'ratio':>8}")
    for size, model in models.items():
        plain = TorchTrainer(
            TorchTrainerConfig(model=model, threads=options.threads, optimizer=OptimizerConfig(lr=1e-4)),
            AlgorithmConfig(),
        )
        large = megatron(model, options.threads)
        try:
            await large.start(soon("the start of the rank"))
            ours, theirs = await steps([plain, large], options.repeats, rows, length)
            print(f"{size:>9}M {ours:>10.3f} {theirs:>10.3f} {theirs / ours:>8.2f}")
        finally:
            await asyncio.gather(plain.close(), large.close())


# ---- the stall of a sync ---------------------------------------------------------------------------------------------


async def stall(model: Path, options: argparse.Namespace) -> None:
    trainer = megatron(model, options.threads)
    own = VllmEnginesConfig(
        device="cpu", max_rows=16, max_model_len=1024, kv_cache_mb=256, threads=options.threads, start_timeout_s=START_S
    )
    shares, pauses, syncs, writes = [], [], [], []
    running = VllmEngines(own, model)
    try:
        await asyncio.gather(trainer.start(soon("the start of the rank")), running.start(soon("the start of vLLM")))
        client = EngineClient(running.urls[0])

        async def busy(n: int) -> None:
            dice = np.random.default_rng(n)
            params = SamplingParams(max_tokens=900, temperature=1.0, ignore_eos=True)
            while True:
                ids = PromptIds(dice.integers(0, VOCAB, PROMPT, dtype=np.int32))
                await client.generate(ids, params, session=f"s{n}", deadline=soon("a completion"))

        asking = [asyncio.create_task(busy(n)) for n in range(8)]
        await asyncio.sleep(2.0)
        for step in range(1, options.repeats + 2):
            began_s = time.perf_counter()
            await trainer.train_step(batch(step, 32, 256), temperature=1.0, deadline=soon("a step"))
            said = await running.update(trainer, step, soon("a sync"))
            took_s = time.perf_counter() - began_s
            if step > 1:
                shares.append(said["paused_s"] / took_s)
                pauses.append(said["paused_s"])
                syncs.append(said["sync_s"])
                writes.append(said["write_s"])
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await client.close()
    finally:
        await asyncio.gather(running.close(), trainer.close())
    middle = statistics.median
    print("\na weight sync from Megatron to vLLM with 8 requests in flight, 1M parameters, medians")
    print(f"gathered and written in {middle(writes):.3f} s, the whole sync {middle(syncs):.3f} s")
    print(f"vLLM stands still for {middle(pauses):.3f} s: {middle(shares):.1%} of the step (32 rows of 256 tokens)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 10], choices=sorted(SHAPES))
    parser.add_argument("--quick", action="store_true", help="one repeat of everything, 1M parameters alone")
    parts = ("training", "sampling", "sync")
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts, help="only these")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.sizes = 1, [1]
    with tempfile.TemporaryDirectory(prefix="envkit-backend-") as root:
        models = {size: Path(root) / f"{size}m" for size in sorted({1, *options.sizes})}
        counts = {size: make_model(size, model) for size, model in models.items()}
        print("parameters: " + ", ".join(f"{n:,}" for n in counts.values()) + f"; {options.threads} threads")
        if "training" in options.parts:
            asyncio.run(training({size: models[size] for size in options.sizes}, options))
        if "sampling" in options.parts:
            asyncio.run(engines(models[1], options))
        if "sync" in options.parts:
            asyncio.run(stall(models[1], options))


if __name__ == "__main__":
    main()
