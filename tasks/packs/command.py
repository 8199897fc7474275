"""`envkit pack`: task packs of your own: scaffold, check, split, compare for contamination, import and export."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from envkit import check, registry
from envkit.cli import jobs, options
from envkit.directory_pack import DirectoryPack
from envkit.failure import UserError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, help: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=help, description=help)
        made.set_defaults(run_verb=run)
        made.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON value")
        return made

    new = verb("new", "write an installable package with a pack that works", _new)
    new.add_argument("name")
    new.add_argument("--dir", type=Path, default=Path(), help="the folder it is written into (default: here)")

    checked = verb("check", "licences, sizes, secrets, and the self-test of every task", _check)
    checked.add_argument("patterns", nargs="+", help="a pack, ids or globs, or paths of task directories")
    checked.add_argument("--static", action="store_true", help="without the self-test, which runs trials")
    checked.add_argument("--max-file-mb", type=float, default=100.0)
    checked.add_argument("--max-task-mb", type=float, default=50.0, help="a task's directory, without its world")
    checked.add_argument("--max-world-mb", type=float, default=2048.0)
    options.add_trial_options(checked, policy=False)
    jobs.add_job_options(checked)

    taken = verb("import", "take tasks of others into a folder of task directories", _import)
    taken.add_argument("form", choices=("harbor", "verifiers", "apex"))
    taken.add_argument("source", type=Path, help="task directories; a JSONL or parquet file; a copy of the dataset")
    taken.add_argument("target", type=Path, help="the pack's folder of tasks")
    taken.add_argument("--task", action="append", default=[], help="apex: only this task; may be repeated")
    taken.add_argument("--lenient", action="store_true", help="harbor: overlook what Harbor overlooks")

    given = verb("export", "write tasks as directories that Harbor runs", _export)
    given.add_argument("form", choices=("harbor",))
    given.add_argument("patterns", nargs="+", metavar="PATTERN")
    given.add_argument("target", type=Path)

    split = verb("split", "split a pack by world into train and eval", _split)
    split.add_argument("pack", help="a pack's name, or the path of its folder")
    split.add_argument("--eval", type=float, default=0.2, dest="share", help="share of tasks to evaluate with (0.2)")
    split.add_argument("--seed", type=int, default=0)
    split.add_argument("--write", action="store_true", help="write it into the pack's pack.toml and its tasks")

    overlap = verb("overlap", "find tasks that two packs (or a pack's splits) share, whole or nearly", _overlap)
    overlap.add_argument("first", help="a pattern; of one pack alone its train split")
    overlap.add_argument("second", nargs="?", help="a pattern; without it the first one's eval split")
    overlap.add_argument("--threshold", type=float, default=0.8, help="similarity of a near duplicate (0.8)")
    overlap.add_argument("--allow-leaks", action="store_true", help="tell of overlaps, but don't fail of them")


def run(args: argparse.Namespace) -> int:
    code: int = args.run_verb(args)
    return code


def _new(args: argparse.Namespace) -> int:
    from envkit.tasks.packs.scaffold import new_pack

    folder = new_pack(args.name, args.dir)
    if args.json:
        options.dump({"pack": args.name, "folder": str(folder)})
    else:
        print(f"{folder}\nnext: pip install -e {folder} && envkit pack check {args.name}")
    return 0


def _check(args: argparse.Namespace) -> int:
    from envkit.tasks.packs.inspection import Limits, inspect_tasks

    ids = registry.expand(args.patterns)
    if not ids:
        raise UserError(f"no task matches {' '.join(args.patterns)}")
    limits = Limits(file_mb=args.max_file_mb, task_mb=args.max_task_mb, world_mb=args.max_world_mb)
    findings = inspect_tasks(ids, limits)
    checks, interrupted, evidence = ([], False, None) if args.static else _self_test(ids, args)
    fine = not findings and not interrupted and all(item.sound for item in checks)
    if args.json:
        options.dump({
            "fine": fine,
            "tasks": len(ids),
            "findings": [finding.model_dump(mode="json") for finding in findings],
            "self_test": [{"sound": item.sound, **item.model_dump(mode="json")} for item in checks],
        })  # fmt: skip
    else:
        for finding in findings:
            print(f"{finding.task}: {finding.what}: {finding.text}")
        for item in checks:
            print(f"{item.task}: {'sound' if item.sound else 'UNSOUND'}")
            for problem in item.problems:
                print(f"  {problem}")
        unsound = sum(not item.sound for item in checks)
        tested = "not self-tested" if args.static else f"{len(checks) - unsound} sound, {unsound} unsound"
        print(f"{len(ids)} tasks, {tested}; {len(findings)} findings (licences, sizes, secrets)")
        if evidence is not None:
            print(f"evidence: {evidence}", file=sys.stderr)
    return 130 if interrupted else 0 if fine else 1


def _self_test(ids: Sequence[str], args: argparse.Namespace) -> tuple[list[check.TaskCheck], bool, Path | None]:
    kept = args.out is not None
    folder = args.out if kept else Path(tempfile.mkdtemp(prefix="envkit-pack-check-"))
    try:
        outcome = jobs.run_job(check.plan(ids, options.base_spec(args)), folder, args)
        examined = asyncio.run(_examine(ids)) if not outcome.interrupted else {}
        checks = check.judge(ids, outcome.results, examined)
        kept = kept or not all(item.sound for item in checks)
        return checks, outcome.interrupted, folder if kept else None
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


async def _examine(ids: Sequence[str]) -> dict[str, check.Examined]:
    return {task: await check.examine(task) for task in ids}


def _import(args: argparse.Namespace) -> int:
    from envkit.tasks.packs import exchange

    if not args.source.exists():
        raise UserError(f"there is no {args.source}")
    if args.task and args.form != "apex":
        raise UserError("--task goes with apex")
    if args.form == "harbor":
        taken, left = exchange.import_harbor(args.source, args.target, lenient=args.lenient)
    elif args.form == "verifiers":
        taken, left = exchange.import_verifiers(args.source, args.target)
    else:
        taken, left = exchange.import_apex(args.source, args.target, args.task)
    if args.json:
        options.dump({"imported": taken, "left_out": left, "folder": str(args.target)})
    else:
        print(f"{len(taken)} tasks imported into {args.target}")
        for text in left:
            print(f"left out: {text}", file=sys.stderr)
    return 1 if left else 0


def _export(args: argparse.Namespace) -> int:
    from envkit.tasks.packs.exchange import export_harbor

    written, problems = export_harbor(registry.expand(args.patterns), args.target)
    if args.json:
        options.dump({"written": [str(path) for path in written], "problems": problems})
    else:
        print(f"{len(written)} tasks written to {args.target}")
        for text in problems:
            print(f"Harbor can't run it: {text}", file=sys.stderr)
    return 1 if problems else 0


def _split(args: argparse.Namespace) -> int:
    from envkit.tasks.packs.splitting import split_by_world, write_splits

    ids = registry.expand([args.pack])
    worlds: dict[str, str] = {}
    pack: Any = None
    for id in ids:
        pack, task = registry.find(id)
        worlds[task.name] = task.metadata.world or f"(own) {task.name}"
    splits = split_by_world(worlds, args.share, args.seed)
    written = None
    if args.write:
        if not isinstance(pack, DirectoryPack):
            raise UserError(f"pack {pack.name!r} is no folder of task directories; its splits are its own code")
        written = write_splits(pack, splits)
    if args.json:
        options.dump({"splits": splits, "written": None if written is None else str(written)})
    else:
        for split, names in splits.items():
            count = len({worlds[name] for name in names})
            print(f"{split}: {len(names)} of {len(ids)} tasks in {count} worlds: {', '.join(names)}")
        print(f"written: {written}" if written is not None else "nothing written; --write puts it into pack.toml")
    return 0


def _overlap(args: argparse.Namespace) -> int:
    from envkit.overlap import compare

    if not 0 < args.threshold <= 1:
        raise UserError(f"--threshold must be above 0 and at most 1, found {args.threshold:g}")
    first = registry.expand([args.first], split=None if args.second else "train")
    second = registry.expand([args.second]) if args.second else registry.expand([args.first], split="eval")
    found, unread = compare(first, second, threshold=args.threshold)
    if args.json:
        options.dump({
            "compared": [len(first), len(second)],
            "overlaps": [item.model_dump(mode="json") for item in found],
            "unread": unread,
        })  # fmt: skip
    else:
        for item in found:
            print(item)
        print(f"{len(first)} against {len(second)} tasks: {len(found)} pairs overlap")
        for text in unread:
            print(f"can't be compared: {text}", file=sys.stderr)
        if found and not args.allow_leaks:
            print(
                "these tasks can't be on both sides of training and evaluation; --allow-leaks accepts it",
                file=sys.stderr,
            )
    return 1 if unread or (found and not args.allow_leaks) else 0
