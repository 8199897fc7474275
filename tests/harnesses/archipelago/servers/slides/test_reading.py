"""The reading tools see all that a deck says, and say what is wrong with what can't be read."""

from __future__ import annotations

import io
from pathlib import Path

import pptx
import pytest
from lxml import etree
from PIL import Image as Pillow

from envkit.harnesses.archipelago.servers.app import Image, ToolError
from envkit.office.problem import Problem, Unreadable

READERS = ["read_completedeck", "read_slides", "read_individualslide", "read_image"]
EXTRA = {"read_individualslide": {"slide_index": 0}, "read_image": {"annotation": "slide0_img0"}}


def test_the_overview_has_tables_groups_charts_diagrams_notes_and_hidden_slides(call, deck) -> None:
    read = call("read_completedeck", file_path="/deck.pptx")
    assert read.total_slides == 6
    by_index = {s.slide_index: s for s in read.slides}
    assert by_index[0].title == "Quarterly report"
    assert "Board meeting" in by_index[0].content
    assert "  - mostly services" in by_index[1].content
    assert "https://example.com/details" in by_index[1].content
    assert by_index[1].notes == "Speak slowly"
    assert "| North | 10 |" in by_index[2].content
    assert "grouped words" in by_index[2].content
    assert "Sales: Q1 = 3; Q2 = 4.5" in by_index[3].content
    assert "line" in by_index[3].content
    assert "slide4_img1" in by_index[4].content
    assert by_index[5].hidden
    assert "- Build" in by_index[5].content
    assert not by_index[0].hidden


def test_a_slide_is_read_as_objects_with_places_and_no_nulls(call, deck) -> None:
    read = call("read_individualslide", file_path="deck.pptx", slide_index=2)
    kinds = {c.type: c for c in read.components}
    assert kinds["table"].rows == [["Region", "Sales"], ["North", "10"], ["South", "7"]]
    assert (kinds["table"].x, kinds["table"].y, kinds["table"].width) == (1.0, 2.0, 5.0)
    grouped = next(c for c in read.components if c.type == "text" and c.text == "grouped words")
    assert grouped.groups == 1
    assert "null" not in read.model_dump_json()
    chart = call("read_individualslide", file_path="/deck.pptx", slide_index=3).components[-1]
    assert (chart.series[0].categories, chart.series[0].values) == (["Q1", "Q2"], ["3", "4.5"])
    bullets = call("read_individualslide", file_path="/deck.pptx", slide_index=1).components[1]
    assert bullets.paragraphs[0].runs == ["Revenue ", "rose by 12 %"], "what run_index counts"
    assert bullets.paragraphs[2].link == "https://example.com/details"


def test_controls_and_sections_are_read_too(call, deck) -> None:
    made = pptx.Presentation(deck)
    r = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
    p14 = "http://schemas.microsoft.com/office/powerpoint/2010/main"
    data = made.slides[0].element.find("{*}cSld")
    controls = etree.SubElement(data, data.tag.replace("cSld", "controls"))
    etree.SubElement(controls, data.tag.replace("cSld", "control"), name="TextBox1").set(f"{r}id", "rId99")
    number = made.element.find("{*}sldIdLst")[0].get("id")
    made.element.append(etree.fromstring(
        f'<p:extLst xmlns:p="{data.tag[1:].partition("}")[0]}" xmlns:p14="{p14}"><p:ext '
        'uri="{521415D9-36F7-43E2-AB2F-B90AF26B5E84}"><p14:sectionLst><p14:section name="Opening" id="{0}">'
        f'<p14:sldIdLst><p14:sldId id="{number}"/></p14:sldIdLst></p14:section></p14:sectionLst></p:ext></p:extLst>'
    ))  # fmt: skip
    made.save(deck)
    slide = call("read_individualslide", file_path="/deck.pptx", slide_index=0)
    assert [(c.type, c.name) for c in slide.components][-1] == ("control", "TextBox1")
    assert slide.section == "Opening"
    first = call("read_completedeck", file_path="/deck.pptx").slides[0]
    assert "[control: TextBox1]" in first.content
    assert first.section == "Opening"


def test_keys_of_pictures_need_no_memory(call, deck) -> None:
    images = call("read_individualslide", file_path="/deck.pptx", slide_index=4).images
    assert [(i.annotation, i.image_index, i.width) for i in images] == [
        ("slide4_img0", 0, 4.0),
        ("slide4_img1", 1, 4.0),
    ]
    found = call("read_image", file_path="/deck.pptx", annotation="slide4_img1")
    assert isinstance(found, Image)
    assert found.mime == "image/png"
    assert Pillow.open(io.BytesIO(found.data)).size == (40, 20)


def test_a_stretch_of_text_says_how_to_go_on(call, deck) -> None:
    first = call("read_slides", file_path="/deck.pptx", start=0, end=40)
    rest = call("read_slides", file_path="/deck.pptx", start=first.end)
    whole = call("read_slides", file_path="/deck.pptx")
    assert first.content + rest.content == whole.content
    assert len(whole.content) == whole.total_length
    assert "start=40" in first.message
    assert "start=" not in rest.message
    with pytest.raises(ToolError, match="after start"):
        call("read_slides", file_path="/deck.pptx", start=10, end=10)
    with pytest.raises(ToolError, match="beyond"):
        call("read_slides", file_path="/deck.pptx", start=100_000)


@pytest.mark.parametrize("name", READERS)
def test_every_reader_tells_what_is_wrong_with_a_broken_file(call, broken, name) -> None:
    with pytest.raises(Unreadable) as found:
        call(name, file_path=broken, **EXTRA.get(name, {}))
    assert found.value.problem == Problem.CORRUPT


@pytest.mark.parametrize("name", READERS)
def test_every_reader_tells_what_is_wrong_with_a_path(call, deck, name) -> None:
    with pytest.raises(ToolError, match=r"did you mean /deck\.pptx"):
        call(name, file_path="/dek.pptx", **EXTRA.get(name, {}))
    with pytest.raises(ToolError, match="leads out"):
        call(name, file_path="/../../etc/passwd.pptx", **EXTRA.get(name, {}))


def test_indices_and_keys_beyond_the_deck_are_told(call, deck) -> None:
    with pytest.raises(ToolError, match=r"6 slides \(0 to 5\)"):
        call("read_individualslide", file_path="/deck.pptx", slide_index=6)
    with pytest.raises(ToolError, match="slide4_img0, slide4_img1"):
        call("read_image", file_path="/deck.pptx", annotation="slide4_img7")
    with pytest.raises(ToolError, match="slide0_img0"):
        call("read_image", file_path="/deck.pptx", annotation="page1_img1")


def test_other_files_are_told_apart(call, world) -> None:
    root: Path = world.filesystem
    (root / "old.ppt").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600)
    (root / "text.pptx").write_text("not a deck")
    with pytest.raises(ToolError, match="soffice --convert-to pptx"):
        call("read_completedeck", file_path="/old.ppt")
    with pytest.raises(Unreadable) as found:
        call("read_completedeck", file_path="/text.pptx")
    assert found.value.problem == Problem.NOT_THIS_FORMAT
