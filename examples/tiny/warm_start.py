r"""Makes the tiny policy from nothing: vocabulary, recording, imitation. The weights shipped beside it came from here.

    python -m examples.tiny.warm_start --out first --steps 160
    python -m examples.tiny.warm_start --out examples/tiny/policy --start first --steps 75 --lr 2e-3 --seed 1
    python -m examples.tiny.warm_start --set overfit-32 --out runs/overfit-32-policy --start examples/tiny/policy \
        --steps 480 --rows 1 --tasks-per-step 16

1. Every demonstration is played once in the real environment, to record what a policy is shown on the way.
2. A byte-level BPE is trained on those texts, on the pack's instructions and on the demonstrations.
3. A Qwen3 model of a million parameters learns to continue as the clerk would: each step imitates freshly drawn
   demonstrations, hasty ones included, by the embedded trainer and its supervised loss.

The result knows how the tools are called and what results look like, and gets facts right about as often as the clerk:
it has something left to learn from rewards. Ctrl-C ends the imitation after its step and writes what there is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from envkit.backend import StepMetrics
from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.algorithms.config import Supervised
from envkit.backends.data import Example, imitate
from envkit.backends.torch.config import OptimizerConfig, TorchTrainerConfig
from envkit.backends.torch.saving import write_tensors
from envkit.backends.torch.trainer import TorchTrainer
from envkit.deadline import Deadline
from envkit.tasks.office import OfficePack
from envkit.tokens.render import load_renderer, load_tokenizer, template_tools
from examples.tiny import vocabulary
from examples.tiny.demonstrations import DEMONSTRATIONS, OVERFIT_32, take
from examples.tiny.recording import Seen, record, stream

__all__ = ["CONTEXT", "SETS", "imitation", "new_model", "texts"]

#: Longest sequence of the policy.
CONTEXT = 2048

#: Which demonstrations there are to imitate.
SETS = {"quickstart": DEMONSTRATIONS, "overfit-32": OVERFIT_32}


def texts(seen: Seen, tasks: Sequence[str] = tuple(DEMONSTRATIONS), seed: int = 0) -> list[str]:
    """What the vocabulary is made from."""
    pack = OfficePack()
    out = [pack.load(name).steps[0].instruction for name in pack.ids()]
    for turns in seen.values():
        out += [message.content for observation in turns for message in observation.messages]
        out += [json.dumps(template_tools([tool])) for observation in turns for tool in observation.tools or ()]
    rng = random.Random(seed)
    for task in tasks:
        for _ in range(20):
            shown = take(task, rng)
            out += [shown.answer, json.dumps({"name": shown.call[0], "arguments": shown.call[1]})]
    return out


def new_model(tokenizer: Any, seed: int = 0) -> Qwen3ForCausalLM:
    """The model before it has seen anything. Head size 32, which vLLM takes."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


async def imitation(
    trainer: TorchTrainer,
    renderer: Any,
    seen: Seen,
    *,
    steps: int,
    rows_per_task: int,
    seed: int = 0,
    tasks: Sequence[str] = tuple(DEMONSTRATIONS),
    tasks_per_step: int | None = None,
    stop: asyncio.Event | None = None,
) -> list[StepMetrics]:
    """Imitates `rows_per_task` fresh demonstrations of each task of a step.

    A step has all `tasks`, or `tasks_per_step` of them: the next ones of a shuffled deck, shuffled anew when it is out.
    Ends before its time, after a whole step, once `stop` is set.
    """
    rng, deal = random.Random(seed), random.Random(f"deck/{seed}")
    deck: list[str] = []
    history: list[StepMetrics] = []
    for step in range(1, steps + 1):
        chosen = list(tasks)
        if tasks_per_step is not None:
            while len(deck) < tasks_per_step:
                deck += deal.sample(chosen, len(chosen))
            chosen, deck = deck[:tasks_per_step], deck[tasks_per_step:]
        examples = []
        for place, task in enumerate(chosen):
            for number in range(rows_per_task):
                sample = stream(renderer, seen, task, take(task, rng))
                examples.append(Example(sample.ids, sample.mask, task, f"{task}/{place}/{number}"))
        batch = imitate(examples, step=step, ranks=1, tokens_per_micro_batch=1 << 20)
        history.append(await trainer.train_step(batch, temperature=1.0, deadline=Deadline.never()))
        if step % 20 == 0 or step == steps:
            print(f"step {step}: loss {history[-1]['loss']:.4f}, {history[-1]['step_s']:.2f} s", flush=True)
        if stop is not None and stop.is_set():
            print(f"stopped after step {step}", flush=True)
            break
    return history


async def main(options: argparse.Namespace) -> None:
    began_s, cpu_s = time.monotonic(), time.process_time()
    tasks = tuple(SETS[options.set])
    seen = await record(tasks)
    print(f"recorded {len(seen)} demonstrations in {time.monotonic() - began_s:.1f} s", flush=True)
    work = options.out.with_name(f".{options.out.name}.start")
    shutil.rmtree(work, ignore_errors=True)
    if options.start is None:
        tokenizer = vocabulary.build(texts(seen, tasks), options.vocabulary)
        model = new_model(tokenizer, options.seed)
        model.save_pretrained(work)
        tokenizer.save_pretrained(work)
    else:
        tokenizer = load_tokenizer(str(options.start))
        model = Qwen3ForCausalLM.from_pretrained(options.start)
        shutil.copytree(options.start, work)
    print(f"{model.num_parameters():,} parameters, {len(tokenizer)} tokens", flush=True)
    optimizer = OptimizerConfig(
        lr=options.lr,
        betas=(0.9, 0.98),
        weight_decay=0.01,
        schedule="cosine",
        warmup_steps=min(10, options.steps),
        total_steps=options.steps,
        final_share=0.1,
    )
    trainer = TorchTrainer(
        TorchTrainerConfig(model=work, optimizer=optimizer, seed=options.seed), AlgorithmConfig(loss=Supervised())
    )
    renderer = load_renderer(tokenizer, "qwen3")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    await imitation(
        trainer,
        renderer,
        seen,
        steps=options.steps,
        rows_per_task=options.rows,
        seed=options.seed,
        tasks=tasks,
        tasks_per_step=options.tasks_per_step,
        stop=stop,
    )
    write_tensors(work / "model.safetensors", {name: t.to(torch.bfloat16) for name, t in trainer.weights()})
    config = json.loads((work / "config.json").read_text())
    (work / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}, indent=2) + "\n")
    await trainer.close()
    shutil.rmtree(options.out, ignore_errors=True)
    work.rename(options.out)
    print(f"{time.monotonic() - began_s:.0f} s in all, {time.process_time() - cpu_s:.0f} s of CPU time")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the model folder to write; replaced if it is there")
    parser.add_argument("--start", type=Path, help="go on from this policy instead of from nothing")
    parser.add_argument("--set", choices=sorted(SETS), default="quickstart", help="which demonstrations to imitate")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--tasks-per-step", type=int, help="as many tasks of the set in a step, not all")
    parser.add_argument("--rows", type=int, default=2, help="demonstrations of each task in a step")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--vocabulary", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=0)
    asyncio.run(main(parser.parse_args()))
