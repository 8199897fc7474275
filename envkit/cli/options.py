"""Options shared by the commands that run trials, and how they become `TrialSpec`s."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envkit.failure import UserError, did_you_mean
from envkit.harness import Limits
from envkit.trial.result import Plugin, TrialSpec

__all__ = [
    "add_trial_options",
    "base_spec",
    "default_concurrency",
    "dump",
    "new_run_folder",
    "plugin",
    "policies",
    "value",
]


def add_trial_options(parser: argparse.ArgumentParser, *, policy: bool = True) -> None:
    """Adds harness, sandbox, limits and (unless the command has its own) policy options."""
    parser.add_argument("--harness", default="opencode", metavar="NAME[:k=v,...]", help="default: opencode")
    parser.add_argument("--sandbox", default="local", metavar="NAME[:k=v,...]", help="default: local")
    if policy:
        parser.add_argument(
            "--policy",
            action="append",
            metavar="NAME[:k=v,...]",
            help="oracle, noop, replay, chat or module:Class; eval takes several, run takes one (default: oracle). "
            "Example: --policy chat:model=m,base_url=http://127.0.0.1:8000/v1",
        )
        parser.add_argument("--model", help="short for --policy chat:model=MODEL")
        parser.add_argument("--base-url", help="of the chat endpoint, with --model")
        parser.add_argument("--api-key-env", help="names of environment variables with keys, with --model; a,b,c")
    parser.add_argument("--limit", action="append", default=[], metavar="k=v", help="an agent limit, e.g. max_turns=50")
    parser.add_argument("--timeout-s", type=float, default=3600.0, help="wall-clock budget of one attempt (3600)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--training", action="store_true", help="turn training-only behaviours on")


def value(text: str) -> Any:
    """A value as TOML reads it; anything that TOML refuses is a string."""
    try:
        read = tomllib.loads(f"v = {text}")
    except (ValueError, RecursionError):
        return text
    return read["v"] if len(read) == 1 else text


def _pairs(text: str, where: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for part in re.split(r",(?=[A-Za-z_]\w*=)", text):
        key, equals, raw = part.partition("=")
        if not equals or not key:
            raise UserError(f"{where}: expected k=v, found {part!r}")
        out[key.strip()] = value(raw)
    return out


def plugin(text: str, option: str) -> Plugin:
    """Reads `NAME`, `NAME:k=v,...`, `module:Class` or `module:Class:k=v,...`."""
    match = re.match(r"^(?P<name>[^:=]+(?::[A-Za-z_]\w*)?)(?::(?P<options>[A-Za-z_]\w*=.*))?$", text, re.S)
    if match is None:
        raise UserError(f"{option}: expected NAME, NAME:k=v,... or module:Class, found {text!r}")
    return Plugin(name=match["name"], options=_pairs(match["options"], option) if match["options"] else {})


def policies(args: argparse.Namespace, default: list[str] | None = None) -> list[Plugin]:
    """The policies asked for; `--model` is short for a chat policy."""
    chosen = [plugin(text, "--policy") for text in args.policy or []]
    if args.model:
        options: dict[str, Any] = {"model": args.model}
        if args.base_url:
            options["base_url"] = args.base_url
        if args.api_key_env:
            options["api_key_env"] = [name for name in args.api_key_env.split(",") if name]
        chosen.append(Plugin(name="chat", options=options))
    elif args.base_url or args.api_key_env:
        raise UserError("--base-url and --api-key-env go with --model")
    if not chosen:
        chosen = [Plugin(name=name) for name in default or []]
    if not chosen:
        raise UserError("no policy: give --policy NAME or --model NAME")
    return chosen


def base_spec(args: argparse.Namespace, *, task: str = "-", policy: Plugin | None = None) -> TrialSpec:
    """A spec with everything but task and policy filled in."""
    limits: dict[str, Any] = {}
    for pair in args.limit:
        limits.update(_pairs(pair, "--limit"))
    for name in limits:
        if name not in Limits.model_fields:
            raise UserError(f"--limit: no limit {name!r}{did_you_mean(name, list(Limits.model_fields))}")
    try:
        return TrialSpec(
            task=task,
            policy=policy or Plugin(name="noop"),
            harness=plugin(args.harness, "--harness"),
            sandbox=plugin(args.sandbox, "--sandbox"),
            limits=Limits(**limits),
            timeout_s=args.timeout_s,
            verify_reserve_s=min(300.0, args.timeout_s / 4),
            seed=args.seed,
            training=args.training,
        )
    except ValidationError as error:
        raise UserError(_readable(error)) from error


def _readable(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'options'}: {e['msg']}" for e in error.errors())


def default_concurrency() -> int:
    """As many trials at once as there are cores this process may use."""
    return max(1, len(os.sched_getaffinity(0)))


def new_run_folder(command: str) -> Path:
    """A fresh folder `runs/<command>-<time>` below the working directory; not created yet."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise UserError(
            "the working directory was removed: go to another one, or give --out an absolute path"
        ) from None
    stem = f"{command}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in range(1000):
        folder = Path("runs", stem if number == 0 else f"{stem}-{number}")
        if not folder.exists():
            return folder
    raise UserError(f"can't find a free name for runs/{stem}; give --out DIR")


def dump(value: Any) -> None:
    """Prints one JSON value."""
    print(json.dumps(value, ensure_ascii=False, indent=1))


def add_regraded(parser: argparse.ArgumentParser) -> None:
    """Of commands that read a run's rewards."""
    parser.add_argument(
        "--regraded",
        action="store_true",
        help="take the newest verdicts of `envkit regrade`; a trial without one keeps its first",
    )
