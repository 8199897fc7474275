"""The reference of the command line as Markdown, from the parsers that the program itself uses."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from envkit import plugins
from envkit.cli.main import COMMANDS, parser_of

__all__ = ["commands"]


def commands() -> str:
    """Every command and verb: usage, what it is for, its arguments. Those that plug-ins bring are ours here."""
    parts: list[str] = []
    for name in sorted({*COMMANDS, *plugins.names("commands")}):
        parts += _parser(parser_of(name), f"envkit {name}", "##")
    return "\n\n".join(parts) + "\n"


def _parser(parser: argparse.ArgumentParser, name: str, mark: str) -> Iterator[str]:
    yield f"{mark} `{name}`"
    about = (parser.description or "").strip().removeprefix(f"`{name}`").lstrip(": ")
    if about:
        yield about[0].upper() + about[1:] + ("" if about.endswith((".", "`", ":")) or "\n" in about else ".")
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    rows = [row for action in parser._actions if action not in inner and (row := _row(action))]
    if not inner:
        yield f"```text\n{_usage(parser, name)}\n```"
    if rows and not inner:
        yield "\n".join(["| argument | |", "|---|---|", *rows])
    for action in inner:
        for verb, made in action.choices.items():
            yield from _parser(made, f"{name} {verb}", mark + "#")


def _usage(parser: argparse.ArgumentParser, name: str) -> str:
    words = [name]
    for action in parser._actions:
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction):
            shown = _value(action)
            many = {"+": f"{shown} [{shown} ...]", "*": f"[{shown} ...]", "?": f"[{shown}]"}
            words.append(many.get(str(action.nargs), shown))
    return " ".join([*words, "[options]"])


def _row(action: argparse.Action) -> str:
    if isinstance(action, argparse._HelpAction):
        return ""
    if action.option_strings:
        value = "" if action.nargs == 0 else f" {_value(action)}"
        name = ", ".join(f"`{option}{value}`" for option in action.option_strings)
    else:
        name = f"`{_value(action)}`"
    text = (action.help or "") % {"default": action.default, "prog": ""} if action.help else ""
    extras = []
    if action.choices is not None and action.metavar is not None:
        extras.append(f"one of {', '.join(map(str, action.choices))}")
    if action.option_strings and action.required:
        extras.append("required")
    default = action.default
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    if default not in (None, False, [], argparse.SUPPRESS) and f"({shown})" not in text and "default" not in text:
        extras.append(f"default: {shown}")
    told = "; ".join([part for part in (text, *extras) if part])
    return f"| {name.replace('|', chr(92) + '|')} | {told.replace('<', '&lt;').replace('|', chr(92) + '|')} |"


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()
