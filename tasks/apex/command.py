"""`envkit apex`: fetch APEX-Agents data (gated, evaluation only), see what there is; Archipelago's run files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envkit.failure import UserError
from envkit.tasks.apex import licence
from envkit.tasks.apex.dataset import TaskRow
from envkit.tasks.apex.pack import ApexPack
from envkit.tasks.apex.source import REPOSITORY, TASKS, WORLDS, Hub, HubSource, HuggingFace, pin, pinned

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "fetch [TASK ...]   choose the dataset on the Hugging Face hub and fetch its index; worlds are fetched when\n"
        "                   they are used, or now for the tasks that are named (--all: everything, about 19 GB)\n"
        "info               where the data comes from, and what is in it\n"
        "export TASK DIR    write a task with its world as a Harbor directory\n"
        "import-runs DIR RUN   make a run of the files that Archipelago's runs left (trajectory.json, grades.json)\n"
        "export-runs RUN DIR   write the trials of a run as such files\n\n"
        f"{licence.TERMS}."
    )
    parser.add_argument("verb", choices=("fetch", "info", "export", "import-runs", "export-runs"), help="what to do")
    parser.add_argument("names", nargs="*", metavar="TASK", help="tasks by number, id or slug; for export also DIR")
    parser.add_argument("--repo", default=REPOSITORY, help=f"fetch: the dataset (default: {REPOSITORY})")
    parser.add_argument("--revision", default="main", help="fetch: branch, tag or commit (default: main)")
    parser.add_argument("--all", action="store_true", help="fetch: all worlds and files")
    parser.add_argument("--image", default="", help="export: the image that its archipelago.json names")


def run(args: argparse.Namespace, hub: Hub | None = None) -> int:
    names = [name.removeprefix("apex/") for name in args.names]
    if args.verb == "fetch":
        result = _fetch(args, names, hub or HuggingFace())
    elif args.verb == "info":
        if names:
            raise UserError(f"envkit apex info takes no names, found {' '.join(names)}")
        result = _info(ApexPack(hub=hub))
    elif args.verb in ("import-runs", "export-runs"):
        return _run_files(args)
    else:
        if len(names) != 2:
            raise UserError(
                "envkit apex export takes a task and a new directory: envkit apex export task-123 ./task-123"
            )
        path = ApexPack(hub=hub).export_task(names[0], Path(args.names[1]), image=args.image)
        result = {"exported": str(path)}
    if args.json:
        print(json.dumps(result, ensure_ascii=False))
    else:
        for key, value in result.items():
            print(f"{key}: {value}")
    return 0


def _run_files(args: argparse.Namespace) -> int:
    from envkit.tasks.apex.runfiles import export_run, import_runs

    if len(args.names) != 2:
        raise UserError(f"envkit apex {args.verb} takes two folders: where from, and a new one to write")
    source, target = Path(args.names[0]), Path(args.names[1])
    if args.verb == "import-runs":
        trials, problems = import_runs(source, target)
    else:
        trials, problems = [folder.name for folder in export_run(source, target)], []
    if args.json:
        print(json.dumps({"folder": str(target), "trials": trials, "problems": problems}, ensure_ascii=False))
    else:
        print(f"{len(trials)} trials written to {target}")
        for problem in problems:
            print(problem, file=sys.stderr)
    return 1 if problems else 0


def _fetch(args: argparse.Namespace, wanted: Sequence[str], hub: Hub) -> dict[str, Any]:
    print(licence.TERMS + ".", file=sys.stderr)
    commit = hub.commit(args.repo, args.revision)
    source = HubSource(args.repo, commit, hub)
    for name in (TASKS, WORLDS):
        source.file(name)
    pack = ApexPack(source=source)
    names = pack.ids()
    chosen = [pack.find(name)[1] for name in (names if args.all else wanted)]
    rows = [row for row in chosen if isinstance(row, TaskRow)]
    worlds = list(dict.fromkeys(row.world_id for row in rows))
    for number, world in enumerate(worlds, start=1):
        print(f"world {number} of {len(worlds)}: {world}", file=sys.stderr)
        source.file(f"world_files_zipped/{world}.zip")
    for row in rows:
        if row.has_overlay:
            source.files(f"task_files/{row.task_id}")
    kept = pin(args.repo, commit)
    return {"dataset": args.repo, "commit": commit, "tasks": len(names), "worlds fetched": len(worlds),
            "chosen in": str(kept)}  # fmt: skip


def _info(pack: ApexPack) -> dict[str, Any]:
    chosen = pinned()
    tasks = pack.ids()
    if not tasks:
        pack.explain(None)
    return {
        "source": pack.source.name,
        "form": "training" if pack.is_training_form else "published",
        "version": pack.version,
        "tasks": len(tasks),
        "worlds": len(pack.worlds),
        "pinned": f"{chosen[0]}@{chosen[1]}" if chosen else "nothing",
        "training": "acknowledged" if "train" in pack.splits() else "not permitted",
        "terms": licence.TERMS,
    }
