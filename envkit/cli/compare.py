"""`envkit compare`: runs side by side, paired by task: harness x policy x pack, behaviour, what of a gain transfers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from envkit.cli import options
from envkit.cli.scores import interval_text, print_table, signed
from envkit.failure import UserError
from envkit.report.comparison import Comparison, compare

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="[NAME=]RUN",
        help="run folders of `envkit eval`; NAME is what its policy is called, e.g. before=runs/a after=runs/b",
    )
    parser.add_argument("--base", metavar="POLICY", help="the policy to compare with (default: the first)")
    options.add_regraded(parser)
    parser.add_argument(
        "--under", metavar="HARNESS", help="the harness that a gain was made under (default: the first)"
    )


def run(args: argparse.Namespace) -> int:
    folders: list[Path] = []
    names: dict[Path, str] = {}
    for text in args.runs:
        name, equals, path = text.partition("=")
        folder = Path(path) if equals and not Path(text).exists() else Path(text)
        if folder in folders:
            raise UserError(f"the run {folder} is named twice")
        if folder != Path(text):
            if not name:
                raise UserError(f"expected NAME=RUN, found {text!r}")
            names[folder] = name
        folders.append(folder)
    found = compare(folders, names, base=args.base, here=args.under, regraded=args.regraded)
    if args.json:
        options.dump(found.model_dump(mode="json"))
    else:
        _print(found)
        for note in found.notes:
            print(note, file=sys.stderr)
    return 0


def _print(found: Comparison) -> None:
    print_table(
        ["pack", "policy", "harness", "tasks", "worlds", "scored", "excluded", "mean reward", "if 0 / if 1", "pass@1"],
        [
            [c.pack, c.policy, c.harness, str(c.row.tasks), str(c.row.worlds), f"{c.row.scored}/{c.row.trials}",
             str(c.row.excluded), interval_text(c.row.mean.estimate),
             f"{_number(c.row.mean.lower_bound, 3)} / {_number(c.row.mean.upper_bound, 3)}",
             interval_text(c.row.pass_at[1].estimate) if 1 in c.row.pass_at else "-"]
            for c in found.cells
        ],
    )  # fmt: skip
    print()
    print_table(
        ["pack", "policy", "harness", "turns", "tokens/turn", "tool success", "code share", "context full", "USD"],
        [
            [c.pack, c.policy, c.harness, _number(c.behaviour.turns, 1), _number(c.behaviour.tokens_per_turn, 0),
             _percent(c.behaviour.tool_success), _percent(c.behaviour.code_share),
             _percent(c.behaviour.context_exhausted), _number(c.row.cost_usd, 4)]
            for c in found.cells
        ],
    )  # fmt: skip
    if found.pairs:
        print()
        print_table(
            ["pack", "within", "compared", "tasks", "difference", ""],
            [
                [p.pack, p.within, f"{p.second} less {p.first}", str(p.difference.tasks),
                 signed(p.difference.estimate), p.difference.verdict]
                for p in found.pairs
            ],
        )  # fmt: skip
    if found.transfers:
        print()
        print_table(
            ["pack", "gain of", "under", "gain", "elsewhere", "gain there", "share that transfers"],
            [
                [t.pack, f"{t.trained} over {t.base}", t.here, signed(t.gain_here), t.there, signed(t.gain_there),
                 t.note if t.share is None else f"{t.share:.0%} [{_end(t.lower)}, {_end(t.upper)}]"]
                for t in found.transfers
            ],
        )  # fmt: skip
    print("\nintervals: 95 %, clustered by world; differences are paired by task")


def _end(value: float | None) -> str:
    return "?" if value is None else f"{value:.0%}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
