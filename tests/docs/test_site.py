"""What the site's build finds: pages that are in no list, names and files that are not there."""

from __future__ import annotations

from pathlib import Path

import docs_pages as pages
import pytest
from checks import links_of, problems_of
from navigation import with_navigation
from reference import reference
from source import Source

SOURCE = Source(pages.ROOT)


def test_every_page_is_in_the_list_of_pages() -> None:
    docs = pages.ROOT / "docs"
    shown = with_navigation((docs / "README.md").read_text())
    listed = {line for block in shown.split("```{toctree}")[1:] for line in block.splitlines()}
    assert {page.relative_to(docs).with_suffix("").as_posix() for page in docs.rglob("*.md")} - listed == {"README"}


def test_sections_become_captions_and_a_page_is_listed_once() -> None:
    shown = with_navigation("# All\n\n## Start\n\n[a](a.md), [b](b.md#x)\n\n## More\n\n[a](a.md) [c](d/c.md)\n")
    assert shown.count("\na\n") == 1
    assert ":caption: Start\n\na\nb\n" in shown
    assert ":caption: More\n\nd/c\n" in shown


@pytest.mark.parametrize(
    "text",
    [
        "see `envkit/sandbox/base.py:12`, `tests/test.sh`, `envkit.failure.RETRIES` and `envkit.AsyncEnv.reset`",
        "plug-ins are found in `envkit.harnesses`",
        "```python\nfrom envkit.tokens import read_trace\nimport envkit.backends.algorithms\n```",
    ],
)
def test_what_is_there_is_no_problem(text: str) -> None:
    assert list(problems_of(text, SOURCE)) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("see `envkit/sandbox/basis.py`", "envkit/sandbox/basis.py"),
        ("see `tests/envkit/nothing`", "tests/envkit/nothing"),
        ("see `envkit.failure.RETRY`", "envkit.failure.RETRY"),
        ("see `envkit.env.AsyncEnv.begin(...)`", "envkit.env.AsyncEnv.begin"),
        ("```python\nfrom envkit.tokens import read_traces\n```", "envkit.tokens.read_traces"),
        ("```python\nfrom envkit import\n```", "no Python"),
    ],
)
def test_what_is_not_there_is_told(text: str, told: str) -> None:
    [problem] = problems_of(text, SOURCE)
    assert told in problem


def test_links_of_the_readme_must_lead_to_files_and_headings(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\n## Part\n")
    readme = tmp_path / "README.md"
    readme.write_text("[1](docs/a.md#part) [2](docs/a.md#parts) [3](docs/b.md) [4](https://example.com/x)")
    found = list(links_of(readme, {"docs/a.md": {"a", "part"}}))
    assert [problem.partition(":")[0] for problem in found] == ["docs/a.md#parts", "docs/b.md"]


def test_links_of_every_page_lead_to_files() -> None:
    told = [f"{page.name}: {problem}" for page in pages.PAGES for problem in links_of(page, {})]
    assert [problem for problem in told if "no such file" in problem] == []


def test_a_reference_has_signatures_fields_and_what_is_raised() -> None:
    text = reference(SOURCE, ["envkit.harness"])
    assert "async def step(message: AssistantMessage) -> Observation | End" in text
    assert "- `max_turns`: Assistant messages per step of the task." in text
    assert "(envkit.harness.limits)=" in text


def test_a_module_that_exports_nothing_has_no_reference() -> None:
    with pytest.raises(ValueError, match="__all__"):
        reference(SOURCE, ["envkit.nothing"])
