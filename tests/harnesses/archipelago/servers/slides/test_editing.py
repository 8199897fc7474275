"""edit_slides: every operation does what it says and nothing else, all or none."""

from __future__ import annotations

import hashlib

import pptx
import pytest
from pydantic import ValidationError

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.slides.operations import VARIANTS
from envkit.office.deck import read_deck
from envkit.office.problem import Unreadable
from envkit.verifiers.diff import diff_bytes


@pytest.fixture
def edit(call, deck):
    """Applies operations; returns the result and what changed as (where, kind, change)."""

    def run(*operations, **rest):
        before = deck.read_bytes()
        done = call("edit_slides", file_path="/deck.pptx", operations=list(operations), **rest)
        found = diff_bytes("deck.pptx", before, deck.read_bytes())
        return done, [(f.where, f.kind, f.change.value) for f in found]

    return run


def body(deck, index=1):
    return next(s for s in read_deck(deck.read_bytes()).slides[index].shapes if s.placeholder == "body")


def test_titles_keep_their_look(edit, deck) -> None:
    done, found = edit(
        {"type": "update_slide_title", "index": 2, "title": "Areas"},
        {"type": "update_slide_subtitle", "index": 0, "subtitle": "Second line"},
    )
    assert found == [('slide 1 / "Subtitle 2"', "text", "changed"), ('slide 3 / "Title 1"', "text", "changed")]
    assert done.operations_applied == 2
    assert "'Regions' is now 'Areas'" in done.changes[0]


def test_bullets_keep_the_look_of_what_stood_there(edit, deck) -> None:
    edit({"type": "set_bullets", "index": 1, "items": ["new first", "\tnew below", "third", "fourth"]})
    shape = body(deck)
    assert [(p.text, p.level) for p in shape.paragraphs] == [
        ("new first", 0), ("new below", 1), ("third", 0), ("fourth", 0),
    ]  # fmt: skip
    first = shape.paragraphs[0].runs[0]
    assert (first.format.colour, first.format.size) == ("FF0000", 22.0)
    assert not any(r.link for p in shape.paragraphs for r in p.runs), "links belonged to the old text"
    _, found = edit({"type": "append_bullets", "index": 1, "items": "fifth"})
    assert [f[1:] for f in found] == [("text.paragraph", "added")]
    done, _ = edit({"type": "clear_placeholder", "index": 1, "placeholder": "body"})
    assert body(deck).text == ""
    assert "new first" in done.changes[0]


def test_text_is_replaced_across_runs_in_tables_and_groups(edit, deck) -> None:
    done, _found = edit({"type": "replace_text", "search": "REVENUE ROSE", "replace": "Sales fell"})
    paragraph = body(deck).paragraphs[0]
    assert paragraph.text == "Sales fell by 12 %"
    assert [r.format.colour for r in paragraph.runs] == ["FF0000", "0000FF"], "each rest keeps its look"
    assert "1 times" in done.changes[0]
    edit(
        {"type": "replace_text", "search": "North", "replace": "Far North", "match_case": True},
        {"type": "replace_text", "search": "grouped", "replace": "joined"},
    )
    slide = read_deck(deck.read_bytes()).slides[2]
    assert slide.tables[0][1][0] == "Far North"
    assert "joined words" in slide.texts
    cell = next(s for s in slide.shapes if s.kind == "table").table[1][0]
    assert cell.paragraphs[0].runs[0].format.italic


def test_what_replace_text_leaves_alone_is_told(edit) -> None:
    with pytest.raises(ToolError, match="notes of slide 1"):
        edit({"type": "replace_text", "search": "Speak slowly", "replace": "x"})
    with pytest.raises(ToolError, match=r"operations\[0\] \(replace_text\).*on no slide.*unchanged"):
        edit({"type": "replace_text", "search": "north", "replace": "x", "match_case": True})


def test_tables(edit, deck) -> None:
    _, found = edit({"type": "update_table_cell", "index": 2, "table_idx": 0, "row": 1, "column": 0, "text": "East"})
    assert found == [('slide 3 / "Table 2" R2C1', "cell.text", "changed")]
    edit({
        "type": "format_table_cell", "index": 2, "table_idx": 0, "row": 2, "column": 1, "bold": True,
        "bg_color": "#00ff00", "font_size": 9,
    })  # fmt: skip
    shape = next(s for s in read_deck(deck.read_bytes()).slides[2].shapes if s.kind == "table")
    assert shape.table[1][0].paragraphs[0].runs[0].format.italic, "the look of the cell stays"
    cell = shape.table[2][1]
    assert (cell.fill, cell.paragraphs[0].runs[0].format.bold) == ("00FF00", True)
    _, found = edit({"type": "append_table", "index": 4, "rows": [["a", 1], ["b", None]]})
    assert [f[1:] for f in found] == [("shape", "added")]
    assert read_deck(deck.read_bytes()).slides[4].tables == ((("a", "1"), ("b", "")),)
    with pytest.raises(ToolError, match="3 rows and 2 columns"):
        edit({"type": "update_table_cell", "index": 2, "table_idx": 0, "row": 3, "column": 0, "text": "x"})
    with pytest.raises(ToolError, match="no table 1"):
        edit({"type": "format_table_cell", "index": 2, "table_idx": 1, "row": 0, "column": 0, "bold": True})


def test_looks_and_links_of_one_run(edit, deck) -> None:
    done, found = edit({
        "type": "apply_text_formatting", "index": 1, "paragraph_index": 0, "run_index": 1, "italic": True,
        "font_name": "Georgia", "font_color": "00AA00",
    })  # fmt: skip
    runs = body(deck).paragraphs[0].runs
    assert [(r.format.italic, r.format.font == "Georgia") for r in runs] == [(False, False), (True, True)]
    assert {kind for _, kind, _ in found} <= {"text.format", "text.typography"}
    assert "rose by" in done.changes[0]
    edit({"type": "apply_text_formatting", "index": 1, "paragraph_index": 1, "alignment": "right", "font_size": 30})
    assert [p.align for p in body(deck).paragraphs] == ["left", "right", "left"]
    edit({"type": "add_hyperlink", "index": 1, "paragraph_index": 1, "url": "https://example.org/x"})
    assert [r.link for p in body(deck).paragraphs[1:] for r in p.runs] == [
        "https://example.org/x", "https://example.com/details",
    ]  # fmt: skip
    with pytest.raises(ToolError, match=r"no run 5; .*0: 'Revenue '"):
        edit({"type": "apply_text_formatting", "index": 1, "paragraph_index": 0, "run_index": 5, "bold": True})
    with pytest.raises(ToolError, match="whole address"):
        edit({"type": "add_hyperlink", "index": 1, "url": "example"})


def test_notes_are_made_and_changed(edit, deck) -> None:
    _, found = edit(
        {"type": "set_notes", "index": 3, "notes": "one\ntwo"}, {"type": "set_notes", "index": 1, "notes": ""}
    )
    assert sorted(found) == [("slide 2 / notes", "notes", "removed"), ("slide 4 / notes", "notes", "added")]
    assert read_deck(deck.read_bytes()).slides[3].notes == "one\ntwo"


def test_notes_in_a_deck_without_any_are_listed_in_the_deck(call, world) -> None:
    fresh = pptx.Presentation()
    fresh.slides.add_slide(fresh.slide_layouts[6])
    fresh.save(world.filesystem / "plain.pptx")
    call("edit_slides", file_path="/plain.pptx", operations=[{"type": "set_notes", "index": 0, "notes": "n"}])
    root = pptx.Presentation(world.filesystem / "plain.pptx").element
    assert len(root.findall("{*}notesMasterIdLst/{*}notesMasterId")) == 1, "PowerPoint repairs a deck without it"


def test_all_or_none(call, deck) -> None:
    before = hashlib.sha256(deck.read_bytes()).hexdigest()
    operations = [
        {"type": "update_slide_title", "index": 0, "title": "Changed"},
        {"type": "delete_slide", "index": 5},
        {"type": "update_slide_title", "index": 5, "title": "gone"},
    ]
    with pytest.raises(ToolError, match=r"operations\[2\] \(update_slide_title\).*5 slides"):
        call("edit_slides", file_path="/deck.pptx", operations=operations)
    assert hashlib.sha256(deck.read_bytes()).hexdigest() == before


def test_operations_are_typed(call, deck) -> None:
    for bad in ({}, {"type": "nonsense"}, {"type": "delete_slide"}, {"type": "delete_slide", "index": 0, "extra": 1}):
        with pytest.raises(ValidationError):
            call("edit_slides", file_path="/deck.pptx", operations=[bad])
    with pytest.raises(ValidationError, match="nothing to change"):
        call("edit_slides", file_path="/deck.pptx", operations=[{"type": "apply_text_formatting", "index": 0}])
    with pytest.raises(ValidationError, match="six hex digits"):
        call("edit_slides", file_path="/deck.pptx", operations=[
            {"type": "apply_text_formatting", "index": 0, "font_color": "reddish"}])  # fmt: skip
    names = {v.model_fields["type"].annotation.__args__[0] for v in VARIANTS}
    assert names == {
        "update_slide_title", "update_slide_subtitle", "set_bullets", "append_bullets", "clear_placeholder",
        "replace_text", "append_table", "update_table_cell", "format_table_cell", "apply_text_formatting",
        "add_hyperlink", "set_notes", "delete_slide", "duplicate_slide", "add_slide",
    }  # fmt: skip


def test_metadata_and_where_things_are_not(edit, deck, call, broken) -> None:
    _, found = edit({"type": "add_slide", "index": 0, "title": "New"}, metadata={"author": "Ann"})
    assert ("properties", "property.creator") in [f[:2] for f in found]
    with pytest.raises(ToolError, match="has no place for subtitle; it has title"):
        edit({"type": "update_slide_subtitle", "index": 3, "subtitle": "x"})
    with pytest.raises(ToolError, match="has no place for body"):
        edit({"type": "set_bullets", "index": 5, "items": ["x"]})
    with pytest.raises(Unreadable):
        call("edit_slides", file_path=broken, operations=[{"type": "delete_slide", "index": 0}])
