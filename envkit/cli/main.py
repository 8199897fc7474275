"""Entry point of `envkit`: parses, dispatches, and turns errors into exit codes.

Exit codes: 0 for success, 1 for work that was done and failed, 2 for the user's mistakes, 130 after Ctrl-C. With
`--json`, standard output is exactly one JSON value, errors included; everything for people goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from envkit import __version__, plugins
from envkit.failure import EnvkitError, UserError, did_you_mean

__all__ = ["main", "parser_of"]

#: Command, module below `envkit.cli`, one line of help. A module has `add_arguments(parser)` and `run(args) -> int`.
COMMANDS = {
    "tasks": "list tasks, or show one",
    "run": "one trial, with its transcript and verdict",
    "eval": "many trials: policies on tasks, with a table of results",
    "compare": "runs side by side, paired by task: harness x policy x pack, and what of a gain transfers",
    "preflight": "the whole set at training's concurrency: error rate against a gate, slowest stages",
    "triage": "why trials of a run got little reward, grouped by cause, with the evidence",
    "select": "tasks of a run to train on: those whose rewards vary",
    "check": "self-test of tasks: oracle, noop, forged verdicts",
    "regrade": "judge the stored trials of a run anew, and compare the rewards",
    "report": "one HTML file about a run: results with intervals, tasks, failures, behaviour",
    "view": "a local web page over runs: trials, conversations, files, criteria, tokens, comparison",
    "tokens": "audit the token traces of trials",
    "export": "a run's trials for other tools: ATIF, conversations, parquet, Tinker, TRL",
    "doctor": "what this machine can run, and what to install for the rest",
    "gc": "remove what dead runs left behind",
}


class _Parser(argparse.ArgumentParser):
    """argparse with errors as exceptions, so that `--json` holds for them too."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}\n{self.format_usage().strip()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    _open_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in arguments
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader (`head`, say) has had enough; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except EnvkitError as error:
        code = 2 if isinstance(error, UserError) else 1
        if as_json:
            print(json.dumps({"error": {"kind": str(error.kind), "message": str(error)}}, ensure_ascii=False))
        else:
            print(f"envkit: {error}", file=sys.stderr)
        return code
    except OSError as error:
        if as_json:
            print(json.dumps({"error": {"kind": "os_error", "message": str(error)}}, ensure_ascii=False))
        else:
            print(f"envkit: {error}", file=sys.stderr)
        return 1


def _open_streams() -> None:
    """Opens the standard streams that whoever started us has closed. The next file opened would get the number of
    one, and a child that is given both would lose the file."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115  for good


def _help_of(name: str) -> str:
    """The line of help of a command that a package brings: the first of its module's documentation."""
    try:
        text = (plugins.resolve("commands", name).__doc__ or "").strip().partition("\n")[0]
    except UserError as error:
        return f"can't be loaded: {error}"
    return text.removeprefix(f"`envkit {name}`").lstrip(": ").rstrip(".")


def _dispatch(arguments: list[str]) -> int:
    help_asked = not arguments or arguments[0] in ("-h", "--help")
    # What others bring is loaded for the help text only.
    texts = {**COMMANDS, **({name: _help_of(name) for name in plugins.names("commands")} if help_asked else {})}
    parser = _Parser(
        prog="envkit",
        description="The practice ground on which language models learn office work.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands:\n" + "\n".join(f"  {name:<9} {text}" for name, text in texts.items()),
        usage="envkit COMMAND [options]",
    )
    parser.add_argument("--version", action="version", version=f"envkit {__version__}")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    if help_asked:
        parser.print_help()
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"envkit {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    command = parser_of(name)
    code: int = _command(name).run(command.parse_args(rest))
    return code


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of one command; the reference is made from it. Raises `UserError` for an unknown one."""
    module = _command(name)
    parser = _Parser(prog=f"envkit {name}", description=COMMANDS.get(name) or module.__doc__)
    module.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON value instead of text")
    return parser


def _command(name: str) -> Any:
    """The module of a command: ours, or one that an installed package brings (entry points `envkit.commands`)."""
    if name in COMMANDS:
        return import_module(f"envkit.cli.{name}")
    brought = plugins.names("commands")
    if name in brought:
        return plugins.resolve("commands", name)
    known = [*COMMANDS, *brought]
    raise UserError(f"no command {name!r}{did_you_mean(name, known)}; commands: {', '.join(known)}")


if __name__ == "__main__":
    sys.exit(main())
