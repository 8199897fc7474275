"""Deleting leaves no trace, copying shares nothing that can change; the rest of the package comes back as it was."""

from __future__ import annotations

import io
import re
import zipfile

import pptx
import pytest
from lxml import etree
from pptx.util import Inches

from envkit.office.deck import read_deck
from envkit.office.problem import Problem, Unreadable

P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
SECTIONS = "{521415D9-36F7-43E2-AB2F-B90AF26B5E84}"
P14 = "{http://schemas.microsoft.com/office/powerpoint/2010/main}"


def parts(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def dangling(data: bytes) -> list[str]:
    """Ids in XML that no relation of their part has, and relations whose target is missing."""
    found, files = [], parts(data)
    for name, content in files.items():
        if not name.endswith(".xml") or name.startswith("["):
            continue
        folder, _, base = name.rpartition("/")
        relations = files.get(f"{folder}/_rels/{base}.rels".lstrip("/"), b"<x/>")
        known = {e.get("Id") for e in etree.fromstring(relations)}
        used = {v for e in etree.fromstring(content).iter() for k, v in e.attrib.items() if k.startswith(R)}
        found += [f"{name}: {i}" for i in used - known if i]
    return found


@pytest.fixture
def rich(deck):
    """The deck with a section per slide, a custom show, and a link from slide 0 to slide 2."""
    made = pptx.Presentation(deck)
    entries = list(made.element.iterfind(f"{P}sldIdLst/{P}sldId"))
    box = made.slides[0].shapes.add_textbox(Inches(1), Inches(1), Inches(2), Inches(1))
    box.text_frame.text = "jump"
    box.click_action.target_slide = made.slides[2]
    sections = "".join(
        f'<p14:section name="S{i}" id="{{00000000-0000-0000-0000-00000000000{i}}}"><p14:sldIdLst>'
        f'<p14:sldId id="{e.get("id")}"/></p14:sldIdLst></p14:section>'
        for i, e in enumerate(entries)
    )
    shows = "".join(f'<p:sld r:id="{e.get(f"{R}id")}"/>' for e in entries[:3])
    ns = f'xmlns:p="{P[1:-1]}" xmlns:r="{R[1:-1]}" xmlns:p14="{P14[1:-1]}"'
    custom = f'<p:custShow name="Short" id="0"><p:sldLst>{shows}</p:sldLst></p:custShow>'
    listed = f'<p:ext uri="{SECTIONS}"><p14:sectionLst>{sections}</p14:sectionLst></p:ext>'
    made.element.find(f"{P}notesSz").addnext(etree.fromstring(f"<p:custShowLst {ns}>{custom}</p:custShowLst>"))
    made.element.append(etree.fromstring(f"<p:extLst {ns}>{listed}</p:extLst>"))
    made.save(deck)
    return deck


def operations(call, *found):
    return call("edit_slides", file_path="/deck.pptx", operations=list(found))


def test_a_deleted_slide_is_gone_from_everything(call, rich) -> None:
    before = parts(rich.read_bytes())
    operations(call, {"type": "delete_slide", "index": 2})
    data = rich.read_bytes()
    after = parts(data)
    gone = [n for n in before if n not in after]
    assert sorted(re.sub(r"\d+", "N", n) for n in gone) == ["ppt/slides/_rels/slideN.xml.rels", "ppt/slides/slideN.xml"]
    assert dangling(data) == []
    root = etree.fromstring(after["ppt/presentation.xml"])
    assert len(root.findall(f".//{P14}sldId")) == 5
    assert len(root.findall(f".//{P}custShow/{P}sldLst/{P}sld")) == 2
    first = read_deck(data).slides[0]
    assert [s.link for s in first.shapes if s.text == "jump"] == [""], "nothing leads to it"


def test_notes_go_with_their_slide(call, deck) -> None:
    operations(call, {"type": "delete_slide", "index": 1})
    assert not [n for n in parts(deck.read_bytes()) if "notesSlides/" in n]
    assert dangling(deck.read_bytes()) == []


def test_every_slide_may_go(call, deck) -> None:
    operations(call, *[{"type": "delete_slide", "index": 0}] * 6)
    assert read_deck(deck.read_bytes()).slides == ()
    assert dangling(deck.read_bytes()) == []


@pytest.mark.parametrize("index", range(6))
def test_a_copy_says_the_same(call, rich, index) -> None:
    operations(call, {"type": "duplicate_slide", "index": index})
    data = rich.read_bytes()
    slides = read_deck(data).slides
    assert len(slides) == 7
    assert slides[index] == slides[index + 1]
    assert dangling(data) == []
    ids = [e.get("id") for e in etree.fromstring(parts(data)["ppt/presentation.xml"]).iter(f"{P}sldId")]
    assert len(set(ids)) == 7
    listed = [e.get("id") for e in etree.fromstring(parts(data)["ppt/presentation.xml"]).iter(f"{P14}sldId")]
    assert listed == ids, "the copy is in the section of its original, after it"


def test_a_copy_shares_nothing_that_changes(call, deck) -> None:
    operations(
        call,
        {"type": "duplicate_slide", "index": 1, "position": "end"},
        {"type": "duplicate_slide", "index": 3, "position": "end"},
        {"type": "duplicate_slide", "index": 5, "position": "end"},
        {"type": "set_notes", "index": 6, "notes": "other notes"},
    )
    files = parts(deck.read_bytes())
    count = {k: sum(n.startswith(f"ppt/{k}") for n in files) for k in ("charts/chart", "embeddings/", "diagrams/data")}
    assert count == {"charts/chart": 2, "embeddings/": 2, "diagrams/data": 2}
    slides = read_deck(deck.read_bytes()).slides
    assert (slides[1].notes, slides[6].notes) == ("Speak slowly", "other notes")
    assert slides[7].charts == 1
    made = pptx.Presentation(deck)
    made.slides[7].shapes[1].chart.replace_data(_data())
    out = io.BytesIO()
    made.save(out)
    again = read_deck(out.getvalue())
    assert again.slides[3].shapes[1].chart.series[0].values == ("3", "4.5"), "the original's chart is its own"


def _data():
    from pptx.chart.data import CategoryChartData

    data = CategoryChartData()
    data.categories = ["A"]
    data.add_series("S", (9,))
    return data


def test_a_copy_of_a_copy_that_is_deleted_again_leaves_the_deck_as_it_was(call, deck) -> None:
    before, names = read_deck(deck.read_bytes()), len(parts(deck.read_bytes()))
    operations(call, {"type": "duplicate_slide", "index": 3}, {"type": "duplicate_slide", "index": 4})
    assert len(parts(deck.read_bytes())) > names + 6, "slide, chart, workbook and their relations, twice"
    operations(call, {"type": "delete_slide", "index": 4}, {"type": "delete_slide", "index": 4})
    assert read_deck(deck.read_bytes()) == before
    assert len(parts(deck.read_bytes())) == names


def test_other_parts_come_back_byte_for_byte(call, deck) -> None:
    """Macros, custom data, a relation that leads nowhere: nothing of it is python-pptx's business."""
    files = parts(deck.read_bytes())
    relations = files["ppt/slides/_rels/slide1.xml.rels"].replace(
        b"</Relationships>",
        b'<Relationship Id="rId77" Type="http://x/image" Target="../media/NULL"/></Relationships>',
    )
    files["ppt/slides/_rels/slide1.xml.rels"] = relations
    files["ppt/_rels/presentation.xml.rels"] = files["ppt/_rels/presentation.xml.rels"].replace(
        b"</Relationships>",
        b'<Relationship Id="rId88" Type="http://schemas.microsoft.com/office/2006/relationships/vbaProject" '
        b'Target="vbaProject.bin"/></Relationships>',
    )
    files["ppt/vbaProject.bin"] = bytes(range(256)) * 4
    files["[Content_Types].xml"] = files["[Content_Types].xml"].replace(
        b"<Override ", b'<Default Extension="bin" ContentType="application/vnd.ms-office.vbaProject"/><Override ', 1
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    deck.write_bytes(out.getvalue())
    operations(call, {"type": "update_slide_title", "index": 0, "title": "Changed"})
    after = parts(deck.read_bytes())
    assert after["ppt/vbaProject.bin"] == files["ppt/vbaProject.bin"]
    kept = [e for e in etree.fromstring(after["ppt/slides/_rels/slide1.xml.rels"]) if e.get("Id") == "rId77"]
    assert [(e.get("Target"), e.get("TargetMode")) for e in kept] == [("../media/NULL", None)]
    assert set(after) == set(files)
    same = [n for n in files if n.startswith(("ppt/media", "ppt/embeddings", "ppt/diagrams", "ppt/theme"))]
    assert same
    assert all(after[n] == files[n] for n in same)


def test_a_strict_deck_can_be_edited(call, world, deck) -> None:
    from envkit.office.package import Package

    files = parts(deck.read_bytes())
    pairs = [
        (
            b"http://schemas.openxmlformats.org/presentationml/2006/main",
            b"http://purl.oclc.org/ooxml/presentationml/main",
        ),
        (b"http://schemas.openxmlformats.org/drawingml/2006/", b"http://purl.oclc.org/ooxml/drawingml/"),
        (b"http://schemas.openxmlformats.org/officeDocument/2006/", b"http://purl.oclc.org/ooxml/officeDocument/"),
    ]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            if name.endswith((".xml", ".rels")) and not name.startswith("["):
                for usual, strict in pairs:
                    content = content.replace(usual, strict)
            archive.writestr(name, content)
    deck.write_bytes(out.getvalue())
    assert b"purl.oclc.org" in parts(deck.read_bytes())["ppt/presentation.xml"]
    before = read_deck(deck.read_bytes())
    operations(call, {"type": "update_slide_title", "index": 0, "title": "Changed"})
    after = read_deck(deck.read_bytes())
    assert after.slides[0].title == "Changed"
    assert after.slides[1:] == before.slides[1:]
    Package(deck.read_bytes(), "presentationml")


@pytest.mark.parametrize(
    "lost", ["slideLayouts/slideLayout2.xml", "slides/slide2.xml", "slideMasters/slideMaster1.xml"]
)
def test_a_deck_whose_parts_do_not_fit_together_is_corrupt(call, deck, lost) -> None:
    files = parts(deck.read_bytes())
    del files[f"ppt/{lost}"]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    deck.write_bytes(out.getvalue())
    with pytest.raises(Unreadable) as found:
        operations(call, {"type": "set_notes", "index": 1, "notes": "x"})
    assert found.value.problem == Problem.CORRUPT
    assert deck.read_bytes() == out.getvalue()


def test_characters_that_xml_cannot_hold_are_left_out(call, deck, book) -> None:
    odd = "a\x00b\ud800c\x0bd"
    operations(
        call,
        {"type": "update_slide_title", "index": 0, "title": odd},
        {"type": "set_notes", "index": 0, "notes": odd},
        {"type": "replace_text", "search": "Regions", "replace": odd},
        {"type": "append_table", "index": 4, "rows": [[odd]]},
    )
    call(
        "edit_slides",
        file_path="/deck.pptx",
        operations=[{"type": "delete_slide", "index": 5}],
        metadata={"title": "a\x00b"},
    )
    call("insert_chart", presentation_path="/deck.pptx", slide_index=4, spreadsheet_path=book, sheet_name="Data",
         data_range="A1:B4", title=odd)  # fmt: skip
    slides = read_deck(deck.read_bytes()).slides
    assert (slides[0].title, slides[2].title) == ("abc d", "abc d")
    assert slides[0].notes == "abc\nd"
