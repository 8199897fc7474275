"""Serves a model folder: `python -m envkit.backends.torch.engine FOLDER --port 8000`.

A trainer's engines are started with `--lease`: such a process ends when its standard input does, so that none outlives
whoever started it. `--weights` and `--version` bring a restarted one to the weights that the others have.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import threading

from envkit.backends.torch import no_model
from envkit.backends.torch.engine import EngineServer, TokenLoop


async def serve(options: argparse.Namespace) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            options.model, dtype=getattr(torch, options.dtype), attn_implementation="sdpa"
        ).to(options.device)
    except (OSError, ValueError) as error:
        raise SystemExit(no_model(options.model, error)) from error
    loop = TokenLoop(
        model,
        max_rows=options.max_rows,
        max_model_len=options.max_model_len,
        stash_tokens=options.stash_tokens,
        kv_tokens=options.kv_tokens,
        version=options.version,
    )
    if options.weights is not None:
        from safetensors.torch import load_file

        loop.load(load_file(options.weights), options.version)
    stop = asyncio.Event()
    if options.lease:
        threading.Thread(target=_end_with_stdin, args=(asyncio.get_running_loop(), stop), daemon=True).start()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    async with EngineServer(loop, name=options.model, host=options.host, port=options.port) as server:
        print(f"ready at {server.url}", flush=True)
        await stop.wait()


def _end_with_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    while os.read(0, 4096):
        pass
    loop.call_soon_threadsafe(stop.set)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m envkit.backends.torch.engine", description=__doc__)
    parser.add_argument("model", help="a Hugging Face model folder")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 for any free port")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--max-rows", type=int, default=64, help="sequences sampled at a time")
    parser.add_argument("--max-model-len", type=int, default=None, help="longest sequence in tokens")
    parser.add_argument("--stash-tokens", type=int, default=262_144, help="budget of the prefix cache")
    parser.add_argument("--kv-tokens", type=int, default=None, help="room of running sequences: rows times the longest")
    parser.add_argument("--threads", type=int, default=None, help="threads of a step on a CPU")
    parser.add_argument("--weights", default=None, help="a safetensors file to load over the folder's weights")
    parser.add_argument("--version", type=int, default=0, help="the version of the weights")
    parser.add_argument("--lease", action="store_true", help="end when standard input ends")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
