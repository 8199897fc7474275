"""create_deck, delete_deck, add_slide."""

from __future__ import annotations

import re
import subprocess
import zipfile

import pdfplumber
import pptx
import pytest
from pydantic import ValidationError

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.office.deck import read_deck
from envkit.office.problem import Unreadable

BLOCKS = [
    {"layout": "title", "title": "Results", "subtitle": "October"},
    {"title": "Points", "bullets": {"items": ["one", "\tdeeper"]}, "notes": "say\nthis"},
    {"title": "Numbers", "table": {"rows": [["Region", "Sales"], ["North", "10"]], "header": True}},
    {"layout": "two_content", "title": "Both", "columns": {"left": {"items": ["l"]}, "right": {"items": ["r"]}}},
    {"layout": "section_header", "title": "Part two", "subtitle": "what next"},
    {"layout": "title_only", "title": "Only"},
    {"layout": "blank"},
]


def test_a_deck_of_every_layout_and_block(call, world) -> None:
    made = call(
        "create_deck", directory="/out/new", file_name="q3", slides=BLOCKS, metadata={"title": "T", "author": "Ann"}
    )
    assert (made.file_path, made.file_name, made.slides) == ("/out/new/q3.pptx", "q3.pptx", 7)
    deck = read_deck((world.filesystem / "out/new/q3.pptx").read_bytes())
    assert [s.title for s in deck.slides] == ["Results", "Points", "Numbers", "Both", "Part two", "Only", ""]
    assert deck.size == (960.0, 540.0), "16:9"
    assert dict(deck.properties) == {"title": "T", "creator": "Ann"}
    points = next(s for s in deck.slides[1].shapes if s.placeholder == "body")
    assert [(p.text, p.level) for p in points.paragraphs] == [("one", 0), ("deeper", 1)]
    assert deck.slides[1].notes == "say\nthis"
    assert deck.slides[2].tables == ((("Region", "Sales"), ("North", "10")),)
    assert not [s for s in deck.slides[2].shapes if s.kind == "text" and s.placeholder == "body"], "no empty box below"
    halves = [s.box.x for s in deck.slides[3].shapes if s.placeholder == "body"]
    assert halves[0] < halves[1]
    for slide in deck.slides:
        for shape in slide.shapes:
            assert shape.box.x >= 0
            assert shape.box.x + shape.box.width <= 960
            assert shape.box.y + shape.box.height <= 540


def test_long_text_is_made_to_fit_and_what_does_not_fit_is_said(call, world) -> None:
    long = ["a point that goes on for rather more than one line of the slide, whatever its size may be " * 2] * 8
    call("create_deck", directory="/", file_name="a.pptx", slides=[{"title": "T", "bullets": long}])
    body = pptx.Presentation(world.filesystem / "a.pptx").slides[0].placeholders[1]
    fit = body._element.find(".//{*}normAutofit")
    assert 25_000 <= int(fit.get("fontScale")) < 100_000
    rows = [["r"]] * 80
    made = call("create_deck", directory="/", file_name="a.pptx", slides=[{"title": "T", "table": {"rows": rows}}])
    assert "replaced" in made.message
    assert "80 rows" in made.message


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"layout": "blank", "title": "T"}, "no title"),
        ({"title": "T", "subtitle": "s"}, "no subtitle"),
        ({"layout": "title", "title": "T", "bullets": ["a"]}, "no bullets"),
        ({"title": "T", "columns": {"left": ["a"]}}, "two_content"),
        ({"layout": "title", "table": {"rows": [["a"]]}}, "no place for a table"),
    ],
)
def test_what_a_layout_has_no_place_for_is_an_error_that_names_the_slide(call, world, block, said) -> None:
    with pytest.raises(ToolError, match=rf"slides\[1\].*{said}"):
        call("create_deck", directory="/", file_name="a.pptx", slides=[{"title": "ok"}, block])
    assert not (world.filesystem / "a.pptx").exists()


def test_bad_names_and_rows_are_refused(call, world) -> None:
    for name in ("../a.pptx", "a.docx", ""):
        with pytest.raises(ToolError):
            call("create_deck", directory="/", file_name=name, slides=[{"title": "T"}])
    with pytest.raises(ToolError, match="leads out"):
        call("create_deck", directory="/../..", file_name="a.pptx", slides=[{"title": "T"}])
    with pytest.raises(ValidationError, match="same number of cells"):
        call("create_deck", directory="/", file_name="a.pptx", slides=[{"table": {"rows": [["a"], ["b", "c"]]}}])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_libreoffice_shows_a_page_for_every_slide(call, world, tmp_path) -> None:
    call("create_deck", directory="/", file_name="a.pptx", slides=BLOCKS)
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    command = ["soffice", "--headless", profile, "--convert-to", "pdf", "--outdir", str(tmp_path)]
    subprocess.run([*command, str(world.filesystem / "a.pptx")], check=True, capture_output=True, timeout=500)
    assert len(pdfplumber.open(tmp_path / "a.pdf").pages) == len(BLOCKS)


def test_metadata_of_a_deck_that_has_none(call, deck) -> None:
    with zipfile.ZipFile(deck) as archive:
        files = {n: archive.read(n) for n in archive.namelist() if n != "docProps/core.xml"}
    files["_rels/.rels"] = re.sub(rb"<Relationship [^>]*core-properties[^>]*/>", b"", files["_rels/.rels"])
    with zipfile.ZipFile(deck, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    note = {"type": "set_notes", "index": 0, "notes": "n"}
    call("edit_slides", file_path="/deck.pptx", operations=[note], metadata={"author": "Ann"})
    assert read_deck(deck.read_bytes()).properties == (("creator", "Ann"),), "and nothing of the library's"


def test_delete(call, deck, broken, world) -> None:
    assert "6 slides" in call("delete_deck", file_path="/deck.pptx").message
    assert not deck.exists()
    with pytest.raises(ToolError, match="there is no"):
        call("delete_deck", file_path="/deck.pptx")
    call("delete_deck", file_path=broken)
    assert not (world.filesystem / "broken.pptx").exists(), "what can't be read can be deleted"
    (world.filesystem / "notes.txt").write_text("x")
    with pytest.raises(ToolError, match="no deck"):
        call("delete_deck", file_path="/notes.txt")


def test_add_slide_by_the_deck_own_layouts(call, deck, broken) -> None:
    made = call("add_slide", file_path="/deck.pptx", index=6, title="Last", bullets="one point")
    assert (made.index, made.total_slides) == (6, 7)
    slide = read_deck(deck.read_bytes()).slides[6]
    assert (slide.title, slide.layout, slide.texts[1]) == ("Last", "Title and Content", "one point")
    with pytest.raises(ToolError, match="may be 0 to 7"):
        call("add_slide", file_path="/deck.pptx", index=9)
    with pytest.raises(Unreadable):
        call("add_slide", file_path=broken, index=0)


def test_a_deck_without_a_fitting_layout_takes_slides_all_the_same(call, world) -> None:
    deck = pptx.Presentation()
    for layout in list(deck.slide_layouts)[:-1]:
        if layout.name != "Blank":
            deck.slide_layouts.remove(layout)
    deck.slide_layouts.remove(next(x for x in deck.slide_layouts if x.name != "Blank"))
    deck.save(world.filesystem / "bare.pptx")
    made = call("add_slide", file_path="/bare.pptx", index=0, title="Named", bullets=["a", "b"])
    assert "no layout" in made.message
    slide = read_deck((world.filesystem / "bare.pptx").read_bytes()).slides[0]
    assert slide.title == "Named"
    assert "a\nb" in slide.texts
