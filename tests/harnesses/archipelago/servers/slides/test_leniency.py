"""What models mix up harmlessly: the two published names of an index, a plain table, the fields of add_slide."""

from __future__ import annotations

from typing import Any

from envkit.harnesses.archipelago.servers.calling import call_meta, call_tool
from envkit.harnesses.archipelago.servers.context import Context
from envkit.harnesses.archipelago.servers.results import Outcome
from envkit.harnesses.archipelago.servers.slides import APP

SLIDES = [
    {"title": "One", "bullets": ["a", "b"]},
    {"layout": "title_only", "title": "Two", "table": [["Lender", "Cost"], ["A", 9.87]]},
    {"title": "Three", "content": "Take A"},
]


def test_plain_tables_and_contents(world: Context) -> None:
    made = call_tool(APP, "create_deck", {"directory": "/", "file_name": "a", "slides": SLIDES}, world)
    assert not made.error, made.text
    text = _read(world).text
    assert "9.87" in text
    assert "Take A" in text


def test_either_name_of_an_index(world: Context) -> None:
    call_tool(APP, "create_deck", {"directory": "/", "file_name": "a.pptx", "slides": SLIDES}, world)
    operation = {"type": "update_table_cell", "slide_index": 1, "table_index": 0, "row": 1, "col": 1, "text": 9.5}
    for tool, more in (
        ("edit_slides", {"operations": [operation]}),
        ("add_slide", {"slide_index": 3, "title": "Four"}),
        ("read_individualslide", {"index": 0}),
        ("insert_table", {"index": 0, "rows": [["x"]]}),
    ):
        made = call_tool(APP, tool, {"file_path": "/a.pptx", **more}, world)
        assert not made.error, made.text
    text = _read(world).text
    assert "9.5" in text
    assert "9.87" not in text
    assert "Four" in text


def test_add_slide_takes_its_fields_beside_the_action(world: Context) -> None:
    call_tool(APP, "create_deck", {"directory": "/", "file_name": "a.pptx", "slides": SLIDES}, world)
    for more in (
        {"slide_index": 1, "title": "Flat", "bullets": ["x"]},
        {"input_data": {"file_path": "/a.pptx", "index": 0, "title": "Nested"}},
    ):
        made = call_meta(APP, "slides", {"action": "add_slide", "file_path": "/a.pptx", **more}, world)
        assert not made.error, made.text
    titles = [slide["title"] for slide in _read(world).structured["slides"]]  # type: ignore[index]
    assert titles == ["Nested", "One", "Flat", "Two", "Three"]


def test_what_is_missing_is_still_said(world: Context) -> None:
    made: Any = call_meta(APP, "slides", {"action": "add_slide", "file_path": "/a.pptx", "title": "x"}, world)
    assert made.error
    assert "`index` is required" in made.text


def _read(world: Context) -> Outcome:
    return call_tool(APP, "read_completedeck", {"file_path": "/a.pptx"}, world)
