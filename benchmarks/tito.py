"""Tokens in, tokens out: what the bookkeeping of a turn costs, and how fast the embedded engine samples.

    python benchmarks/tito.py bookkeeping                 # per turn at 1k, 16k and 160k tokens of history
    python benchmarks/tito.py engine --threads 1          # against transformers.generate, in the same run
    python benchmarks/tito.py bookkeeping --tokenizer DIR --renderer qwen3

Bookkeeping: one turn is a tool result of about 200 tokens and an answer of about 60: observe (bridge, trace, prompt as
JSON), record (parse, trace, journal on disk). Its rival renders and tokenises the whole history, as a loop that keeps
messages does; both run in turn, on the same conversation. Medians over the turns.

Engine: a Qwen3 of about a million parameters with random weights, float32, on the CPU. "equal": one batch, equal
lengths. "ragged": 32 conversations of 4 turns whose answers differ in length; `generate` has to read the whole history
again every turn and every row waits for the longest; only tokens that somebody wanted are counted, on both sides.

Needs torch, transformers, tokenizers and renderers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

WORDS = [w for w in Path(__file__).read_text().split() if "<" not in w]  # without this file's own control tokens


def text(words: int, seed: int) -> str:
    return " ".join(WORDS[(seed * 31 + i * 7) % len(WORDS)] + str((seed + i) % 97) for i in range(words))


def small_tokenizer() -> Any:
    """A byte-level BPE over this project's sources, with the control tokens of ChatML models."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    sources = sorted((Path(__file__).resolve().parents[1] / "envkit").rglob("*.py"))[:80]
    inner.train_from_iterator(
        (p.read_text() for p in sources),
        trainers.BpeTrainer(vocab_size=4000, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
    )
    tags = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
    inner.add_tokens([AddedToken(t, special=False, normalized=False) for t in tags])
    inner.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|endoftext|>", chat_template=CHATML)


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def bookkeeping(options: argparse.Namespace) -> list[dict[str, Any]]:
    from envkit.messages import Message, Observation
    from envkit.tokens.conversation import Conversation
    from envkit.tokens.render import load_renderer, load_tokenizer
    from envkit.tokens.store import open_trace

    tokenizer: Any = load_tokenizer(options.tokenizer) if options.tokenizer else small_tokenizer()
    names = [options.renderer] if options.renderer else ["qwen3", "template"]
    rows: list[dict[str, Any]] = []
    for name in names:
        renderer = load_renderer(tokenizer, name, {"stop_tokens": ["<|im_end|>"]} if name == "template" else None)
        for history in options.history:
            with tempfile.TemporaryDirectory() as folder:
                trace, writer = open_trace(Path(folder), {})
                talk = Conversation(renderer, trace)
                turn = talk.observe(Observation(messages=(Message(role="user", content="Go."),)))
                number = 0
                ours: list[float] = []
                theirs: list[float] = []
                while len(ours) < options.turns:
                    number += 1
                    measured = len(turn.prompt) >= history
                    call = json.dumps({"name": "read", "arguments": {"path": text(3, number)}})
                    said = f"<think>\n{text(8, number)}\n</think>\n\n<tool_call>\n{call}\n</tool_call><|im_end|>"
                    ids = tokenizer.encode(said, add_special_tokens=False)
                    result = text(60 if measured else min(options.message, history // 3 + 20), number)
                    started = time.perf_counter()
                    talk.record(turn, ids, [-0.5] * len(ids), [0] * len(ids), finish="stop")
                    turn = talk.observe(
                        Observation(messages=(Message(role="tool", content=result, tool_call_id="c", name="read"),))
                    )
                    sent = turn.prompt.json
                    took = time.perf_counter() - started
                    assert sent
                    if measured:
                        ours.append(took)
                        everything = trace.messages(len(trace) - 1)
                        started = time.perf_counter()
                        json.dumps(renderer.render(everything, ()).ids)
                        theirs.append(time.perf_counter() - started)
                assert not any(n.note for n in trace), "the bridge branched; this would measure something else"
                writer.close()
                a, b = statistics.median(ours), statistics.median(theirs)
                row = {"renderer": name, "history": len(turn.prompt), "turn_ms": a * 1e3, "rerender_ms": b * 1e3}
                rows.append(row | {"times": b / a})
                print(
                    f"{name:10} {len(turn.prompt):>8,} tokens: {a * 1e3:8.2f} ms a turn, "
                    f"{b * 1e3:9.1f} ms to render and tokenise it all: {b / a:6.0f}x",
                    flush=True,
                )
    return rows


def model_of(vocabulary: int = 2048) -> Any:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=vocabulary,
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            max_position_embeddings=4096,
            eos_token_id=None,
            pad_token_id=0,
        )
    ).eval()


def engine(options: argparse.Namespace) -> list[dict[str, Any]]:
    import torch

    torch.set_num_threads(options.threads)
    model = model_of()
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters / 1e6:.1f} M parameters, {options.threads} thread(s)", flush=True)
    rows: list[dict[str, Any]] = []
    for batch in options.batch:
        rows.append(compare(f"equal, batch {batch}", options, equal_loop, equal_generate, model, batch))
    rows.append(
        compare(f"ragged, {options.rows} conversations", options, ragged_loop, ragged_generate, model, options.rows)
    )
    return rows


def compare(name: str, options: argparse.Namespace, ours: Any, theirs: Any, model: Any, rows: int) -> dict[str, Any]:
    """Ours and theirs in alternating rounds, the first ones unmeasured, so that other load meets both alike."""
    ours(model, rows), theirs(model, rows)
    sides: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
    started = time.perf_counter()
    rounds = 0
    while rounds < options.repeat or time.perf_counter() - started < options.seconds:
        order = [("ours", ours), ("theirs", theirs)]
        for side, run in order if rounds % 2 else reversed(order):
            wall, cpu = time.perf_counter(), time.process_time()
            tokens = run(model, rows)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            sides[side].append((tokens / wall, tokens / cpu))
        rounds += 1
    best = {side: tuple(map(max, zip(*seen, strict=True))) for side, seen in sides.items()}
    a, b = best["ours"], best["theirs"]
    median = statistics.median(x[0] / y[0] for x, y in zip(sides["ours"], sides["theirs"], strict=True))
    print(
        f"{name:26} {a[0]:8.0f} tok/s, generate {b[0]:8.0f} tok/s: {a[0] / b[0]:5.2f}x at best, "
        f"{median:5.2f}x in the median of {rounds} rounds, {a[1] / b[1]:5.2f}x by CPU time",
        flush=True,
    )
    return {
        "case": name,
        "engine": a[0],
        "generate": b[0],
        "times": a[0] / b[0],
        "times_median": median,
        "times_cpu": a[1] / b[1],
    }


PROMPT, NEW = 64, 128


def equal_loop(model: Any, batch: int) -> int:
    """Samples; gives the number of tokens."""
    import numpy as np

    from envkit.backends.torch.engine import Request, TokenLoop
    from envkit.tokens.generation import SamplingParams

    rng = np.random.default_rng(0)
    loop = TokenLoop(model, max_rows=batch)
    for i in range(batch):
        params = SamplingParams(max_tokens=NEW, ignore_eos=True)
        loop.add(Request(str(i), rng.integers(1, 2048, PROMPT).astype(np.int32), params))
    sampled = 0
    while loop.busy:
        sampled += sum(len(d.ids) for d in loop.step())
    return sampled


def equal_generate(model: Any, batch: int) -> int:
    import torch

    prompt = torch.randint(1, 2048, (batch, PROMPT))
    out = generate(model, prompt, torch.ones_like(prompt), NEW)
    return int(out.shape[1] - PROMPT) * batch


def generate(model: Any, prompt: Any, mask: Any, new: int) -> Any:
    import torch

    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.generate(
            input_ids=prompt,
            attention_mask=mask,
            do_sample=True,
            top_k=0,
            max_new_tokens=new,
            min_new_tokens=new,
            pad_token_id=0,
        )


TURNS, RESULT = 4, 24


def lengths(rows: int) -> Any:
    """Answer lengths, (rows, turns): most short, some long."""
    import numpy as np

    return np.clip(np.random.default_rng(1).lognormal(3.2, 0.9, (rows, TURNS)), 4, 256).astype(int)


def ragged_loop(model: Any, rows: int) -> int:
    import numpy as np

    from envkit.backends.torch.engine import Request, TokenLoop
    from envkit.tokens.generation import SamplingParams

    wanted = lengths(rows)
    rng = np.random.default_rng(0)
    loop = TokenLoop(model, max_rows=rows)
    prompts = [rng.integers(1, 2048, PROMPT + 8 * (i % 9)).astype(np.int32) for i in range(rows)]

    def ask(i: int, turn: int) -> None:
        params = SamplingParams(max_tokens=int(wanted[i, turn]), ignore_eos=True)
        loop.add(Request(f"{i}:{turn}", prompts[i], params, salt=str(i)))

    for i in range(rows):
        ask(i, 0)
    sampled = 0
    while loop.busy:
        for done in loop.step():
            sampled += len(done.ids)
            i, turn = map(int, done.id.split(":"))
            prompts[i] = np.concatenate([prompts[i], done.ids, rng.integers(1, 2048, RESULT)]).astype(np.int32)
            if turn + 1 < TURNS:
                ask(i, turn + 1)
    assert sampled == int(wanted.sum())
    return sampled


def ragged_generate(model: Any, rows: int) -> int:
    import torch

    wanted = lengths(rows)
    histories = [torch.randint(1, 2048, (PROMPT + 8 * (i % 9),)) for i in range(rows)]
    for turn in range(TURNS):
        width = max(len(h) for h in histories)
        prompt = torch.zeros((rows, width), dtype=torch.long)
        mask = torch.zeros((rows, width), dtype=torch.long)
        for i, h in enumerate(histories):
            prompt[i, width - len(h) :] = h
            mask[i, width - len(h) :] = 1
        out = generate(model, prompt, mask, int(wanted[:, turn].max()))
        for i, h in enumerate(histories):
            said = out[i, width : width + int(wanted[i, turn])]
            histories[i] = torch.cat([h, said, torch.randint(1, 2048, (RESULT,))])
    return int(wanted.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bookkeeping", "engine"])
    parser.add_argument("--history", type=int, nargs="+", default=[1_000, 16_000, 160_000], help="tokens")
    parser.add_argument("--turns", type=int, default=15, help="measured turns at each length")
    parser.add_argument("--message", type=int, default=4000, help="words of the results that fill the history, at most")
    parser.add_argument("--tokenizer", help="a Hugging Face tokenizer folder; default: a small one, trained now")
    parser.add_argument("--renderer", help="default: qwen3, then template")
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 8, 32], help="none: only the ragged case")
    parser.add_argument("--rows", type=int, default=32, help="conversations of the ragged case")
    parser.add_argument("--repeat", type=int, default=3, help="rounds at least; the best of each side counts")
    parser.add_argument("--seconds", type=float, default=20.0, help="rounds go on for so long in each case")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    rows = bookkeeping(options) if options.what == "bookkeeping" else engine(options)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
