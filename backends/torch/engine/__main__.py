"""Serves a model folder: `python -m envkit.backends.torch.engine FOLDER --port 8000`."""

from __future__ import annotations

import argparse
import asyncio
import signal

from envkit.backends.torch.engine import EngineServer, TokenLoop


async def serve(options: argparse.Namespace) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        options.model, dtype=getattr(torch, options.dtype), attn_implementation="sdpa"
    ).to(options.device)
    loop = TokenLoop(model, max_rows=options.max_rows, max_model_len=options.max_model_len)
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    async with EngineServer(loop, name=options.model, host=options.host, port=options.port) as server:
        print(f"ready at {server.url}", flush=True)
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m envkit.backends.torch.engine", description=__doc__)
    parser.add_argument("model", help="a Hugging Face model folder")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 for any free port")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--max-rows", type=int, default=64, help="sequences sampled at a time")
    parser.add_argument("--max-model-len", type=int, default=None, help="longest sequence in tokens")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
