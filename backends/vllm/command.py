"""`envkit engine`: makes an engine's environment, says what is there, or serves a model for a trainer elsewhere.

    envkit engine install vllm
    envkit engine where vllm
    envkit engine serve MODEL --host 0.0.0.0 --port 8000

`serve` starts vLLM as a training run starts it: with the token endpoint, the routes for weights, and the gate that
stays closed until a trainer has labelled its weights. A run names it in `engines.urls`. It has no access control:
whoever reaches the port can replace the weights.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envkit.backends.vllm.config import VllmEnginesConfig
from envkit.backends.vllm.engines import server_settings
from envkit.backends.vllm.install import find_vllm, install
from envkit.backends.vllm.server import VllmServer
from envkit.cli import options
from envkit.failure import EnvkitError, UserError, did_you_mean
from envkit.policy.options import describe_faults

__all__ = ["add_arguments", "run"]

ENGINES = ("vllm",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, what in (
        ("install", "make the engine's environment where it is missing (minutes, 2.5 GB); prints its Python"),
        ("where", "print the Python that has the engine"),
    ):
        one = verbs.add_parser(verb, help=what)
        one.add_argument("engine", help=", ".join(ENGINES))
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
    serve = verbs.add_parser("serve", help="serve a model with vLLM, for a trainer that may be elsewhere")
    serve.add_argument("model", help="a Hugging Face model folder")
    serve.add_argument("--host", default="127.0.0.1", help="0.0.0.0 to be reached from other hosts")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--name", default="policy", help="what the model is called in answers")
    serve.add_argument("--log", type=Path, help="where vLLM's output goes (default: a temporary file)")
    serve.add_argument(
        "--set", action="append", default=[], metavar="k=v", dest="sets", help="a key of [engines], e.g. max_rows=256"
    )
    serve.add_argument("--json", action="store_true", default=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.verb == "serve":
        return _serve(args)
    if args.engine not in ENGINES:
        known = ", ".join(ENGINES)
        raise UserError(f"no engine named {args.engine!r}{did_you_mean(args.engine, ENGINES)}; there are: {known}")
    python = install() if args.verb == "install" else find_vllm()
    if getattr(args, "json", False):
        options.dump({"engine": args.engine, "python": str(python)})
    else:
        print(python)
    return 0


def _serve(args: argparse.Namespace) -> int:
    if not (Path(args.model) / "config.json").exists():
        raise UserError(f"{args.model} is no model folder: it has no config.json")
    config = _config(args.sets)
    arguments, environment = server_settings(config)
    server = VllmServer(
        args.model,
        name=args.name,
        arguments=arguments,
        environment=environment,
        python=config.python,
        cpu=config.on_cpu,
        port=args.port,
        host=args.host,
        log=args.log,
        start_timeout_s=config.start_timeout_s,
        lease=True,
    )
    return asyncio.run(_until_signal(server, getattr(args, "json", False)))


async def _until_signal(server: VllmServer, as_json: bool) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    starting = asyncio.ensure_future(server.start())
    asked = asyncio.ensure_future(stop.wait())
    ended: asyncio.Future[None] | None = None
    try:
        await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            return 130
        starting.result()
        if as_json:
            options.dump({"url": server.url})
        else:
            print(f"ready at {server.url}; it samples once a trainer has opened it", flush=True)
        ended = asyncio.ensure_future(server.ended())
        await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return 0
        print(f"vLLM ended by itself; the end of its log:\n{server.log_tail()}", file=sys.stderr)
        return 1
    finally:
        for task in (starting, asked, ended):
            if task is not None:
                task.cancel()
        with contextlib.suppress(asyncio.CancelledError, EnvkitError):
            await starting
        await server.stop()


def _config(sets: list[str]) -> VllmEnginesConfig:
    from envkit.backends.run.plan import assigned

    table: dict[str, Any] = assigned(sets)
    try:
        return VllmEnginesConfig.model_validate(table)
    except ValidationError as error:
        raise UserError(f"--set: {describe_faults(error, VllmEnginesConfig)}") from None
