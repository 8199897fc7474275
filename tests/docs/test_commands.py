"""Every `envkit ...` that the documentation shows is one that the program takes: parsed by its own parsers, with the
options of harnesses and the keys of plans that the line names."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docs_pages as pages
import pytest

from envkit import plugins
from envkit.backends.run.ablate import arms_of
from envkit.backends.run.plan import make_plan, read_table
from envkit.cli import options
from envkit.cli.main import COMMANDS, parser_of

#: What ends a command in a line of shell.
_ENDS = {"&&", "||", "|", ";", "&", ">", "2>", ">>"}
#: A plan on which `--set` and `--arm` are tried.
_PLAN = pages.ROOT / "examples" / "quickstart.toml"


def lines_of(page: Path) -> list[str]:
    """The command lines of a page's shell examples, joined where they go on and freed of their prompts."""
    found = []
    for code in pages.blocks(page, "sh", "bash", "console", ""):
        for line in code.replace("\\\n", " ").splitlines():
            line = line.strip().removeprefix("$ ")
            found += [part for part in re.split(r"&& ", line) if part.strip().startswith("envkit ")]
    return found


def words_of(line: str) -> list[str]:
    words: list[str] = []
    for word in shlex.split(line, comments=True):
        if word in _ENDS:
            break
        if word != "...":
            words.append(word)
    return words[1:]


LINES = [(page.relative_to(pages.ROOT).as_posix(), line) for page in pages.PAGES for line in lines_of(page)]


@pytest.mark.parametrize("page", sorted({page for page, _ in LINES}))
def test_every_command_line_of_a_page_is_taken(page: str) -> None:
    for line in [line for of, line in LINES if of == page]:
        command, *rest = words_of(line)
        args = parser_of(command).parse_args(rest)
        _options_exist(args)
        if command in ("train", "ablate"):
            _keys_exist(args)


def _options_exist(args: argparse.Namespace) -> None:
    if hasattr(args, "harness") and hasattr(args, "limit"):
        spec = options.base_spec(args)
        plugins.resolve("harnesses", spec.harness.name)(**spec.harness.options)
        assert spec.sandbox.name in plugins.names("sandboxes") or ":" in spec.sandbox.name
    for text in getattr(args, "policy", None) or ():
        if isinstance(getattr(args, "policy", None), list):
            name = options.plugin(text, "--policy").name
            assert name in plugins.names("policies") or ":" in name


def _keys_exist(args: argparse.Namespace) -> None:
    arms: list[Any] = arms_of(args.arm, base=True) if getattr(args, "arm", None) else []
    make_plan(read_table(_PLAN, args.sets))
    for arm in arms:
        make_plan(read_table(_PLAN, [*args.sets, *arm.sets]))


def _spans() -> Iterator[tuple[str, str]]:
    for page in pages.PAGES:
        for span in re.findall(r"(?<!`)`(envkit [^`]+)`", pages.prose(page)):
            yield page.name, " ".join(span.split())


def test_commands_within_sentences_exist_with_their_verbs_and_options() -> None:
    known = {*COMMANDS, *plugins.names("commands")}
    for page, span in _spans():
        command, *rest = span.split()[1:]
        if command in ("...", "COMMAND"):
            continue
        assert command in known, f"{page}: `{span}`"
        parser = parser_of(command)
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for verb in (rest[0] if rest else "").split("|"):
                    assert verb in action.choices or verb in ("", "..."), f"{page}: `{span}`"
                parser = action.choices.get((rest or [""])[0].split("|")[0], parser)
        for word in rest:
            if word.startswith("--"):
                assert word.partition("=")[0] in parser._option_string_actions, f"{page}: `{span}`: {word}"
