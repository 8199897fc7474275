"""Every TOML example of the documentation loads by the model that it belongs to."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import docs_pages as pages
import pytest

from envkit.backends.run.plan import make_plan
from envkit.verifiers.judge.config import JudgeConfig
from envkit.verifiers.schema import parse_checks

#: What a plan can't do without, for examples that show a part of one.
_PLAN = {"tasks": {"include": ["office/*"]}, "loop": {"steps": 1}, "trainer": {"model": "model"}}
_VERSION = 'schema_version = "1"\n'
_CHECK = '[[check]]\nid = "one"\nkind = "answer"\nnumber = { value = 1 }\n'


def _with(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    return {**base, **{k: _with(base[k], v) if isinstance(base.get(k), dict) else v for k, v in over.items()}}


def load(text: str) -> None:
    """Reads an example as what it is: checks, a part of a check, a judge's configuration, or a plan."""
    table = tomllib.loads(text)
    checks = text if "schema_version" in table else _VERSION + text
    if "check" in table:
        parse_checks(checks)
    elif "scoring" in table:
        parse_checks(checks + _CHECK)
    elif set(table) == {"examples"}:
        parse_checks(f'{_VERSION}[[check]]\nid = "one"\nkind = "judge"\ncriterion = "It is so."\n{text}')
    elif "model" in table:
        JudgeConfig.model_validate(table)
    else:
        make_plan(_with(_PLAN, table))


WITH_TOML = [page.name for page in pages.PAGES if pages.blocks(page, "toml")]


@pytest.mark.parametrize("name", WITH_TOML)
def test_every_toml_example_of_a_page_loads(name: str) -> None:
    [page] = [page for page in pages.PAGES if page.name == name and pages.blocks(page, "toml")]
    for text in pages.blocks(page, "toml"):
        load(text)
