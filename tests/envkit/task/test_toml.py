"""The TOML around the models: lines agree with the parser, writing loses nothing, edits keep what they don't touch."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.failure import UserError
from envkit.task import TaskConfig, edit_task_toml, parse_task_toml
from envkit.task.strict import parse_toml
from envkit.task.toml_lines import MAX_DEPTH, LineMap, scan_lines
from envkit.task.toml_write import dump_toml

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")

TRICKY = '''# a comment with [brackets] and = signs
title = "x # no comment [a]"   # yes, one
"quoted key" = 1
'single.quoted' = 2
a.b."c.d" = 3
multi = """
[not.a.table]
key = 1 \\
  """
literal = \'\'\'
"""
[x]
\'\'\'
ends = """two quotes""""" # right after
array = [ # comment ]
  1, [2,
  3], { inner = "}" , deep = { x = 1 } },
  "]",
]
date = 1979-05-27 07:32:00
"\\u0061\\tb" = true

[table]
x = 1
[table . sub]   # spaces
y = { z = [ { w = 1 } ] }
[[aot]]
name = "first"
[[aot.inner]]
v = 1
[[aot.inner]]
v = 2
[aot.plain]
k = 1
[[aot]]
name = "second"
'''


def test_lines_of_a_tricky_file() -> None:
    tomllib.loads(TRICKY)  # it is valid
    found = scan_lines(TRICKY)
    expected = {
        ("title",): 2, ("quoted key",): 3, ("single.quoted",): 4, ("a", "b", "c.d"): 5, ("multi",): 6, ("literal",): 10,
        ("ends",): 14, ("array",): 15, ("array", 1): 16, ("array", 1, 1): 17, ("array", 2, "inner"): 17,
        ("array", 2, "deep", "x"): 17, ("array", 3): 18, ("date",): 20, ("a\tb",): 21, ("table",): 23,
        ("table", "x"): 24,
        ("table", "sub", "y", "z", 0, "w"): 26, ("aot", 0, "name"): 28, ("aot", 0, "inner", 0, "v"): 30,
        ("aot", 0, "inner", 1, "v"): 32, ("aot", 0, "plain", "k"): 34, ("aot", 1, "name"): 36,
    }  # fmt: skip
    assert {path: found.line(path) for path in expected} == expected
    assert found.line(("aot", 1, "missing")) == 35


def _paths(data: Any, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    items: list[tuple[str | int, Any]] = []
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, list):
        items = list(enumerate(data))
    return {found for key, value in items for found in ({(*path, key)} | _paths(value, (*path, key)))}


def _agree(lines: LineMap, data: Any) -> None:
    """Every key has a line; array elements on the array's own line share its entry; nothing else is recorded."""
    paths = _paths(data)
    assert {path for path in paths if isinstance(path[-1], str)} <= set(lines.lines) <= paths
    assert all(lines.line(path) for path in paths)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_path_of_a_parsed_file_has_a_line(
    task_tables: st.SearchStrategy[dict[str, Any]], data: st.DataObject
) -> None:
    text = dump_toml(data.draw(task_tables))
    lines = scan_lines(text)
    _agree(lines, tomllib.loads(text))


@given(st.text(alphabet="[]{}=.,\"'# \n\\ab1u", max_size=60))
@settings(max_examples=300, deadline=None)
def test_text_that_is_no_toml_ends_in_an_error_of_ours_or_parses(text: str) -> None:
    try:
        data, lines = parse_toml(text.encode(), "f.toml")
    except UserError as error:
        assert str(error).startswith("f.toml")  # noqa: PT017
    else:
        assert data == tomllib.loads(text)
        _agree(lines, data)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=80, deadline=None)
def test_written_and_read_again_a_config_is_equal(
    task_tables: st.SearchStrategy[dict[str, Any]], data: st.DataObject
) -> None:
    table = data.draw(task_tables)
    config = parse_task_toml(dump_toml(table))

    again = parse_task_toml(config.to_toml())

    assert again == config
    assert again.stated() == config.stated()
    assert again.to_toml() == config.to_toml()


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_what_is_unset_stays_unset(task_tables: st.SearchStrategy[dict[str, Any]], data: st.DataObject) -> None:
    table = data.draw(task_tables)
    successors = {"memory": "memory_mb", "storage": "storage_mb", "allow_internet": "network_mode"}

    def keys(value: Any, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
        return {
            tuple(successors.get(str(p), p) if not isinstance(p, int) else p for p in found)
            for found in _paths(value, path)
        }

    stated = parse_task_toml(dump_toml(table)).stated()
    # An empty destination of an artifact says nothing, and is left out.
    assert {path for path in keys(table) if path[-1] != "destination"} == {
        path for path in keys(stated) if path[-1] != "destination"
    }


COMMENTED = """\
# who wrote this
schema_version = "1.4"  # the schema

[verifier]
# long, because of the recalculation
timeout_sec = 900.0

[environment]
memory = "2G"   # old spelling
cpus = 2

[[steps]]
name = "draft"  # first
[steps.agent]
timeout_sec = 60

[[steps]]
name = "final"
"""


def test_an_edit_changes_its_value_and_nothing_else() -> None:
    config = parse_task_toml(COMMENTED, lenient=True)
    assert edit_task_toml(COMMENTED, config) == COMMENTED
    steps = [config.steps[0].model_copy(update={"min_reward": 0.5}), config.steps[1]]  # type: ignore[index]
    changed = config.model_copy(
        update={"verifier": config.verifier.model_copy(update={"timeout_sec": 30.0}), "steps": steps}
    )

    edited = edit_task_toml(COMMENTED, changed)

    assert parse_task_toml(edited, lenient=True) == changed
    gone, new = (
        set(COMMENTED.splitlines()) - set(edited.splitlines()),
        set(edited.splitlines()) - set(COMMENTED.splitlines()),
    )
    assert (gone, new) == ({"timeout_sec = 900.0"}, {"timeout_sec = 30.0", "min_reward = 0.5"})


def test_an_edit_of_a_deprecated_key_writes_its_successor_and_removes_it() -> None:
    config = parse_task_toml(COMMENTED, lenient=True)
    changed = config.model_copy(update={"environment": config.environment.model_copy(update={"memory_mb": 4096})})
    edited = edit_task_toml(COMMENTED, changed)
    assert "memory_mb = 4096" in edited
    assert 'memory = "2G"' not in edited
    assert "# long, because of the recalculation" in edited


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_any_edit_ends_in_the_wanted_config(
    task_tables: st.SearchStrategy[dict[str, Any]], data: st.DataObject
) -> None:
    old = parse_task_toml(dump_toml(data.draw(task_tables)))
    new = parse_task_toml(dump_toml(data.draw(task_tables)))
    assert parse_task_toml(edit_task_toml(old.to_toml(), new)) == new


def test_a_config_made_in_python_is_checked_like_a_file() -> None:
    config = TaskConfig.model_validate(
        {"agent": {"timeout_sec": 5}, "metadata": {"envkit": {"world": "w"}, "free": [1]}}
    )
    assert parse_task_toml(config.to_toml()) == config
    with pytest.raises(ValueError, match="timeout_secs"):
        TaskConfig.model_validate({"agent": {"timeout_secs": 5}})


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 200_000,
        "a = " + "[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2),
        "a = " + "{b=" * 100_000,
        "a." * 300_000 + "a = 1",
        "[" + "a." * 300_000 + "a]",
    ],
)
def test_deep_nesting_is_refused_at_once(text: str) -> None:
    with pytest.raises(UserError, match="nested too deep"):
        parse_toml(text.encode(), "f.toml")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a = 1\nb = '\xff'\n", "f.toml:2: expected UTF-8 text, found the byte 0xff"),
        (b"\x7fELF\x02\x01\x00", "f.toml:1: expected text, found a NUL byte"),
        (b"# " + b"x" * (1 << 20), "f.toml has 1,048,578 bytes; expected at most 1,048,576"),
        (b"a = " + b"9" * 10_000, "f.toml: not valid TOML"),
        (b"a = 1\na = 2\n", "f.toml: not valid TOML"),
        (b"a = \n", "line 1"),
    ],
)
def test_bytes_that_are_no_toml_say_where(data: bytes, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_toml(data, "f.toml")
    assert message in str(caught.value)
