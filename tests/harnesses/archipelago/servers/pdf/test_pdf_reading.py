"""Reading PDFs: layout, tables, pictures, forms, scans; wrong pages, wrong keys, broken files."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Picture
from reportlab.pdfgen.canvas import Canvas

from envkit.harnesses.archipelago.servers.calling import call_tool, context_for
from envkit.harnesses.archipelago.servers.pdf import APP

LEFT = [
    "The left column tells how the", "harvest of the year was brought", "in before the rains had come to",
    "the valley and its many farms.",
]  # fmt: skip
RIGHT = [
    "The right column is about money", "and how much of it was paid for", "seed, for fuel and for the hands",
    "that worked through the nights.",
]  # fmt: skip


def columns(page: Canvas) -> None:
    for index, (left, right) in enumerate(zip(LEFT, RIGHT, strict=True)):
        page.drawString(72, 700 - 14 * index, left)
        page.drawString(330, 700 - 14 * index, right)


def ruled(page: Canvas) -> None:
    page.drawString(72, 740, "Above the table stands a sentence of its own.")
    page.grid([72, 200, 330, 460], [720, 700, 680, 660])
    for row, texts in enumerate((("Item", "Q1", "Q2"), ("Rent", "100", "110"), ("Fuel", "", "7|8"))):
        for column, text in enumerate(texts):
            page.drawString(76 + 128 * column, 706 - 20 * row, text)
    page.drawString(72, 620, "Below it another one.")


def borderless(page: Canvas) -> None:
    page.drawString(72, 740, "Sales by region in the last three months of the year were as follows here.")
    rows = (("Region", "Oct", "Nov"), ("North", "1,200", "1,310"), ("South", "940", "1,015"), ("West", "18", "22"))
    for row, texts in enumerate(rows):
        for column, text in enumerate(texts):
            page.drawString(72 + 150 * column, 700 - 16 * row, text)


def test_columns_are_read_one_after_the_other(pdf: Any, make_pdf: Any) -> None:
    """The original flattened pages: columns ran into each other line by line."""
    text = pdf.text("read_pdf_pages", {"input": {"file_path": pdf.put("a.pdf", make_pdf(columns))}})
    assert text.index("many farms.") < text.index("The right column")
    assert " ".join(LEFT) in " ".join(text.split())
    plain = pdf.text("read_pdf_pages", {"input": {"file_path": "/a.pdf", "layout": "text"}})
    line = next(x for x in plain.splitlines() if LEFT[0] in x)
    assert RIGHT[0] in line
    # Aligned: the right column begins at one place.
    assert len({x.index(r) for r in RIGHT for x in plain.splitlines() if r in x}) == 1


def test_ruled_and_borderless_tables_are_tables_in_place(pdf: Any, make_pdf: Any) -> None:
    text = pdf.text("read_pdf_pages", {"input": {"file_path": pdf.put("t.pdf", make_pdf(ruled, borderless))}})
    one, two = text.split("=== Page 2 of 2 ===")
    assert "| Item | Q1 | Q2 |\n|---|---|---|\n| Rent | 100 | 110 |\n| Fuel |  | 7\\|8 |" in one
    assert one.index("of its own.") < one.index("| Item") < one.index("Below it")
    assert "| Region | Oct | Nov |\n|---|---|---|\n| North | 1,200 | 1,310 |" in two


def test_pages_outline_metadata_and_what_stands_beside_the_text(pdf: Any, make_pdf: Any) -> None:
    def first(page: Canvas) -> None:
        page.setTitle("Annual report")
        page.bookmarkPage("start")
        page.addOutlineEntry("Overview", "start", 0)
        page.bookmarkPage("more")
        page.addOutlineEntry("Details", "more", 1)
        page.drawString(72, 700, "Visit our site today")
        page.linkURL("https://example.org/x", (72, 695, 180, 712))
        page.textAnnotation("Check this figure", (300, 700, 320, 720))
        page.acroForm.textfield(name="client", value="Acme Ltd", x=72, y=600, width=200, height=20)
        page.acroForm.checkbox(name="agreed", checked=True, x=72, y=560)

    text = pdf.text("read_pdf_pages", {"file_path": pdf.put("r.pdf", make_pdf(first, ruled)), "pages": [1]})
    assert text.startswith("/r.pdf: 2 pages; showing 1")
    assert "=== Page 1 of 2 ===" in text
    assert "=== Page 2" not in text
    assert "Title: Annual report" in text
    assert "Outline:\n  Overview (page 1)\n    Details (page 1)" in text
    assert "client [text] = 'Acme Ltd'" in text
    assert "agreed [checkbox] = 'Yes'" in text
    assert "Visit our site today -> https://example.org/x" in text
    assert "Check this figure" in text.split("Annotations:")[1]


def test_a_scan_is_named_as_such(pdf: Any, make_pdf: Any, scanned: Any) -> None:
    text = pdf.text("read_pdf_pages", {"file_path": pdf.put("s.pdf", make_pdf(columns, scanned))})
    assert "Page 2 has no text: it is a scan (needs OCR); use read_page_as_image" in text
    assert "@page2_img0" in text
    assert "Page 1 has no text" not in text


def test_pages_may_be_given_as_people_write_them(pdf: Any, make_pdf: Any) -> None:
    path = pdf.put("p.pdf", make_pdf(*[columns] * 5))
    for given, shown in ((2, "2"), ("1-2, 5", "1-2, 5"), ([3, 3], "3"), ("4", "4")):
        assert f"showing {shown}\n" in pdf.text("read_pdf_pages", {"file_path": path, "pages": given})
    assert "There is no page 9" in pdf.text("read_pdf_pages", {"file_path": path, "pages": [1, 9]})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"pages": [0]}, "has 1 page, numbered from 1; asked for 0"),
        ({"pages": [7]}, "asked for 7"),
        ({"pages": "last"}, "pages"),
        ({"file_path": "/nope.pdf"}, "there is no /nope.pdf"),
        ({"file_path": "/../../etc/passwd"}, "leads out of the file system"),
        ({"file_path": "/"}, "is a folder"),
        ({"page": 1}, "pages"),
    ],
)
def test_mistakes_are_told(pdf: Any, make_pdf: Any, arguments: dict[str, Any], told: str) -> None:
    path = pdf.put("a.pdf", make_pdf(columns))
    assert told in pdf.error("read_pdf_pages", {"input": {"file_path": path, **arguments}})


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("read_pdf_pages", {}),
        ("read_image", {"annotation": "page1_img0"}),
        ("read_page_as_image", {"page_number": 1}),
        ("search_pdf", {"query": "a"}),
    ],
)
def test_broken_files_are_named_in_words(
    pdf: Any, make_pdf: Any, corpus: Path, tool: str, more: dict[str, Any]
) -> None:
    whole = make_pdf(columns)
    cut = pdf.put("cut.pdf", whole[:60])
    assert "can't be read (corrupt)" in pdf.error(tool, {"file_path": cut, **more})
    other = pdf.put("other.pdf", b"plain text, no pdf at all")
    assert "can't be read (not this format)" in pdf.error(tool, {"file_path": other, **more})
    empty = pdf.put("empty.pdf", b"")
    assert "can't be read (empty)" in pdf.error(tool, {"file_path": empty, **more})
    locked = pdf.put("locked.pdf", (corpus / "pdfplumber--password-example.pdf").read_bytes())
    assert "can't be read (encrypted)" in pdf.error(tool, {"file_path": locked, **more})


def test_pictures_by_key(pdf: Any, make_pdf: Any, dot: Any) -> None:
    def pictures(page: Canvas) -> None:
        page.drawString(72, 740, "Two pictures, the second of them blue.")
        page.drawImage(dot((250, 0, 0)), 72, 600, 60, 60)
        page.drawImage(dot((0, 0, 250)), 200, 600, 60, 60)

    path = pdf.put("i.pdf", make_pdf(columns, pictures))
    listed = pdf.text("read_pdf_pages", {"file_path": path, "pages": [2]})
    assert "@page2_img0: 60 x 60 pt" in listed
    assert "@page2_img1" in listed
    for key in ("page2_img1", "@page2_img1"):
        (block,) = pdf.outcome("read_image", {"file_path": path, "annotation": key}).blocks
        assert block["type"] == "image"
        image = Picture.open(io.BytesIO(base64.b64decode(block["data"])))
        assert image.convert("RGB").getpixel((5, 5)) == (0, 0, 250)
    assert "page 2 has 2 pictures: page2_img0 to page2_img1" in pdf.error(
        "read_image", {"file_path": path, "annotation": "page2_img2"}
    )
    assert "page 1 has no pictures" in pdf.error("read_image", {"file_path": path, "annotation": "page1_img0"})
    assert "it has 2 pages" in pdf.error("read_image", {"file_path": path, "annotation": "page3_img0"})
    assert "no key of a picture" in pdf.error("read_image", {"file_path": path, "annotation": "the blue one"})


def test_a_key_holds_in_a_new_process(pdf: Any, make_pdf: Any, dot: Any) -> None:
    """The original kept pictures in the memory of one session."""
    path = pdf.put("i.pdf", make_pdf(lambda page: page.drawImage(dot((0, 200, 0)), 72, 600, 60, 60)))
    program = (
        "import sys, json, pathlib\n"
        "from envkit.harnesses.archipelago.servers.calling import call_tool, context_for\n"
        "from envkit.harnesses.archipelago.servers.pdf import APP\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "made = call_tool(APP, 'read_image', json.loads(sys.argv[2]), context_for(APP, root, root))\n"
        "print(made.error, made.blocks[0]['type'])\n"
    )
    asked = json.dumps({"file_path": path, "annotation": "page1_img0"})
    ran = subprocess.run(
        [sys.executable, "-c", program, str(pdf.root), asked], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["False", "image"]


def test_a_page_as_a_picture(pdf: Any, make_pdf: Any) -> None:
    path = pdf.put("a.pdf", make_pdf(columns, ruled))
    (block,) = pdf.outcome("read_page_as_image", {"file_path": path, "page_number": "2"}).blocks
    assert block["mimeType"] == "image/png"
    image = Picture.open(io.BytesIO(base64.b64decode(block["data"])))
    assert image.size == (1224, 1584)
    assert len(image.convert("L").getcolors(256) or []) > 2  # something is drawn
    assert "has 2 pages, numbered from 1; asked for 3" in pdf.error(
        "read_page_as_image", {"file_path": path, "page_number": 3}
    )
    huge = io.BytesIO()
    canvas = Canvas(huge, pagesize=(14_000, 9_000))
    canvas.drawString(100, 100, "A very large page")
    canvas.save()
    (block,) = pdf.outcome(
        "read_page_as_image", {"file_path": pdf.put("h.pdf", huge.getvalue()), "page_number": 1}
    ).blocks
    assert max(Picture.open(io.BytesIO(base64.b64decode(block["data"]))).size) <= 2000


def test_the_meta_tool_gives_its_payloads(pdf: Any, make_pdf: Any, dot: Any) -> None:
    path = pdf.put("a.pdf", make_pdf(ruled, lambda page: page.drawImage(dot((1, 2, 3)), 72, 600, 60, 60)))
    made = pdf.meta({"request": {"action": "read_pages", "file_path": path, "pages": [1]}}).structured
    assert "| Rent | 100 | 110 |" in made["read_pages"]["raw_output"]
    made = pdf.meta({"request": {"action": "search", "file_path": path, "query": "another one"}}).structured
    assert "Found 1 match" in made["search"]["raw_output"]
    for request in (
        {"action": "read_image", "file_path": path, "annotation": "page2_img0"},
        {"action": "page_as_image", "file_path": path, "page_number": 1},
    ):
        assert [b["type"] for b in pdf.meta({"request": request}).blocks][-1] == "image"
    refused = pdf.meta({"request": {"action": "search", "file_path": path}})
    assert refused.error
    assert "query" in refused.text


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["reading", "text"])
def test_every_pdf_of_the_corpus_is_read_or_refused(tmp_path: Path, corpus: Path, layout: str) -> None:
    context = context_for(APP, corpus, tmp_path)
    refused = []
    for path in sorted(corpus.iterdir()):
        made = call_tool(APP, "read_pdf_pages", {"file_path": f"/{path.name}", "layout": layout}, context)
        assert made.fault is None, (path.name, made.fault)
        if made.error:
            refused.append(path.name)
            continue
        for key in [w.strip("@:") for w in made.text.split() if w.startswith("@page")][:3]:
            shown = call_tool(APP, "read_image", {"file_path": f"/{path.name}", "annotation": key}, context)
            assert not shown.error, (path.name, key, shown.text)
        found = call_tool(APP, "search_pdf", {"file_path": f"/{path.name}", "query": "the"}, context)
        assert not found.error, path.name
    assert all("password" in name for name in refused), refused
