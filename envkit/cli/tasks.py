"""`envkit tasks`: lists task ids, or shows one task whole."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from envkit import plugins, registry
from envkit.task import Task

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("patterns", nargs="*", default=["*"], help="ids or globs, e.g. 'office/*'; or a path")
    parser.add_argument("--split", help="only tasks of this split")
    parser.add_argument("--show", action="store_true", help="show each task: instruction, limits, metadata")


def run(args: argparse.Namespace) -> int:
    ids = registry.expand(args.patterns, split=args.split)
    if args.show:
        shown = [_describe(registry.load_task(id)) for id in ids]
        if args.json:
            print(json.dumps(shown, ensure_ascii=False, indent=1))
        else:
            print("\n\n".join(_text(task) for task in shown))
        return 0
    if args.json:
        print(json.dumps(ids, ensure_ascii=False))
        return 0
    for id in ids:
        print(id)
    if sys.stdout.isatty():
        print(f"{len(ids)} tasks; packs: {', '.join(plugins.names('tasks')) or 'none'}", file=sys.stderr)
    return 0


def _describe(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "digest": task.digest,
        "dir": str(task.dir),
        "metadata": task.metadata.model_dump(mode="json", exclude_none=True),
        "steps": [
            {
                "name": step.name,
                "instruction": step.instruction,
                "agent_timeout_s": step.agent.timeout_sec,
                "verifier_timeout_s": step.verifier.timeout_sec,
            }
            for step in task.steps
        ],
    }


def _text(task: dict[str, Any]) -> str:
    fields = {"folder": task["dir"], **task["metadata"]}
    width = max(map(len, fields))
    lines = [f"{task['id']}", *(f"  {key:<{width}}  {value}" for key, value in fields.items())]
    for step in task["steps"]:
        lines += ["", *(f"  {line}" for line in step["instruction"].strip().splitlines())]
    return "\n".join(lines)
