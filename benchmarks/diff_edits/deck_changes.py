"""The single edits of `deck.py`: each finds something to edit, edits it, and says what the diff has to find."""

from __future__ import annotations

import copy
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lxml import etree
from pptx import Presentation

from diff_edits.deck_sample import picture
from diff_edits.deck_targets import (
    own_shape,
    paragraph_of,
    paragraph_properties,
    run_properties,
    several_paragraphs,
    shapes_with_text,
    table_of,
    text_of,
)
from diff_edits.edit import Change, Edit, Expected
from diff_edits.zipped import edit_part, in_part, part_names, read_part

SUFFIX = "pptx"
P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "pptx"


def somewhere_edit(change: Change) -> Edit:
    """An edit of the first slide that has something to edit."""

    def edit(data: bytes) -> tuple[bytes, Expected] | None:
        names = [n for n in part_names(data) if n.startswith("ppt/slides/slide") and n.endswith(".xml")]
        shown = shown_edit(data)
        for name in sorted((n for n in names if n in shown), key=lambda n: (len(n), n)):
            done = in_part(name, change)(data)
            if done is not None:
                return done
        return None

    return edit


def shown_edit(data: bytes) -> set[str]:
    """Parts of the slides that are in the list of slides."""
    relations = {
        e.get("Id"): e.get("Target", "") for e in etree.fromstring(read_part(data, "ppt/_rels/presentation.xml.rels"))
    }
    root = etree.fromstring(read_part(data, "ppt/presentation.xml"))
    targets = (relations.get(e.get(f"{R}id"), "") for e in root.iterfind(f"{P}sldIdLst/{P}sldId"))
    return {("ppt/" + t).replace("ppt//ppt/", "ppt/") for t in targets}


# --- edits ---


def word_edit(root: Any) -> str | None:
    p = paragraph_of(root)
    if p is None:
        return None
    t = max(p.iter(f"{A}t"), key=lambda e: len(e.text or ""))
    t.text = (t.text or "") + " otherwise"
    return "text"


def insert_edit(root: Any) -> str | None:
    found = several_paragraphs(root)
    if found is None:
        return None
    new = copy.deepcopy(found[0])
    for t in list(new.iter(f"{A}t"))[1:]:
        t.text = ""
    next(new.iter(f"{A}t")).text = "Zebras live in the zoo"
    found[0].addnext(new)
    return "text.paragraph"


def delete_edit(root: Any) -> str | None:
    found = several_paragraphs(root)
    if found is None:
        return None
    found[1].getparent().remove(found[1])
    return "text.paragraph"


def swap_edit(root: Any) -> str | None:
    found = several_paragraphs(root)
    if found is None:
        return None
    found[-1].addnext(found[0])
    return "text.paragraph"


def level_edit(root: Any) -> list[str] | None:
    for shape in shapes_with_text(root):
        holder = shape.find(f"{P}nvSpPr/{P}nvPr/{P}ph")
        if holder is not None and holder.get("type") is None:
            p = next((p for p in shape.iterfind(f"{P}txBody/{A}p") if text_of(p).strip()), None)
            if p is not None and paragraph_properties(p).get("lvl") is None:
                paragraph_properties(p).set("lvl", "1")
                paragraph_properties(p).set("algn", "r")
                return ["text.level", "text.align"]
    return None


def look_edit(**attributes: str) -> Change:
    def change(root: Any) -> str | None:
        p = paragraph_of(root)
        if p is None or p.find(f"{A}r") is None:
            return None
        properties = run_properties(p)
        for name, value in attributes.items():
            properties.set(name, value)
        return "text.format"

    return change


def colour_edit(root: Any) -> str | None:
    p = paragraph_of(root)
    if p is None or p.find(f"{A}r") is None:
        return None
    properties = run_properties(p)
    if properties.find(f"{A}hlinkClick") is not None:
        return None
    for fill in properties.findall(f"{A}solidFill"):
        properties.remove(fill)
    properties.insert(0, etree.fromstring(f'<a:solidFill xmlns:a="{A[1:-1]}"><a:srgbClr val="C000AB"/></a:solidFill>'))
    return "text.format"


def align_edit(root: Any) -> str | None:
    p = paragraph_of(root)
    if p is None:
        return None
    paragraph_properties(p).set("algn", "just")
    return "text.align"


def bullet_edit(root: Any) -> str | None:
    p = paragraph_of(root)
    if p is None:
        return None
    properties = paragraph_properties(p)
    for child in list(properties):
        if str(child.tag).startswith(f"{A}bu"):
            properties.remove(child)
    properties.append(etree.fromstring(f'<a:buAutoNum xmlns:a="{A[1:-1]}" type="romanUcPeriod"/>'))
    return "text.bullet"


def cell_edit(root: Any) -> str | None:
    table = table_of(root)
    if table is None:
        return None
    next(t for t in table.findall(f"{A}tr")[1].iter(f"{A}t") if (t.text or "").strip()).text += " revised"
    return "cell.text"


def row_insert_edit(root: Any) -> str | None:
    table = table_of(root)
    if table is None:
        return None
    row = table.findall(f"{A}tr")[1]
    new = copy.deepcopy(row)
    for number, t in enumerate(new.iter(f"{A}t")):
        t.text = f"zebra {number}"
    row.addnext(new)
    return "table.row"


def row_delete_edit(root: Any) -> str | None:
    table = table_of(root, 3)
    if table is None:
        return None
    table.remove(table.findall(f"{A}tr")[1])
    return "table.row"


def column_insert_edit(root: Any) -> str | None:
    table = table_of(root)
    if table is None:
        return None
    for number, row in enumerate(table.iterfind(f"{A}tr")):
        cell = row.find(f"{A}tc")
        new = copy.deepcopy(cell)
        for t in new.iter(f"{A}t"):
            t.text = f"new column {number}"
        cell.addnext(new)
    grid = table.find(f"{A}tblGrid")
    # As programs do, the table keeps its width.
    first = grid.find(f"{A}gridCol")
    half = int(first.get("w")) // 2
    new = copy.deepcopy(first)
    new.set("w", str(half))
    first.set("w", str(int(first.get("w")) - half))
    first.addnext(new)
    return "table.column"


def merge_edit(root: Any) -> str | None:
    table = table_of(root)
    if table is None:
        return None
    cells = table.findall(f"{A}tr")[0].findall(f"{A}tc")
    cells[0].set("gridSpan", "2")
    cells[1].set("hMerge", "1")
    return "cell.merge"


def move_edit(root: Any) -> str | None:
    shape = own_shape(root)
    if shape is None:
        return None
    offset = shape.find(f"{P}spPr/{A}xfrm/{A}off")
    offset.set("y", str(int(offset.get("y")) + 400_000))
    return "shape.position"


def resize_edit(root: Any) -> str | None:
    shape = own_shape(root)
    body = shape.find(f"{P}txBody/{A}bodyPr") if shape is not None else None
    if shape is None or (body is not None and body.get("wrap") == "none"):
        return None
    extent = shape.find(f"{P}spPr/{A}xfrm/{A}ext")
    extent.set("cx", str(int(extent.get("cx")) + 500_000))
    return "shape.size"


def rotate_edit(root: Any) -> str | None:
    shape = own_shape(root)
    if shape is None:
        return None
    shape.find(f"{P}spPr/{A}xfrm").set("rot", "2700000")
    return "shape.rotation"


def fill_edit(root: Any) -> str | None:
    for shape in shapes_with_text(root):
        colour = shape.find(f"{P}spPr/{A}solidFill/{A}srgbClr")
        if colour is not None:
            colour.set("val", "12AB9F")
            return "shape.fill"
    return None


def geometry_edit(root: Any) -> str | None:
    shape = own_shape(root)
    found = shape.find(f"{P}spPr/{A}prstGeom") if shape is not None else None
    if found is None:
        return None
    found.set("prst", "hexagon")
    return "shape.geometry"


def shape_insert_edit(root: Any) -> str | None:
    shape = own_shape(root)
    if shape is None:
        return None
    new = copy.deepcopy(shape)
    named = next(new.iter(f"{P}cNvPr"))
    named.set("id", "987")
    named.set("name", "Zebra")
    texts = list(new.iter(f"{A}t"))
    for t in texts[1:]:
        t.text = ""
    texts[0].text = "A zebra came in"
    offset = new.find(f"{P}spPr/{A}xfrm/{A}off")
    offset.set("x", str(int(offset.get("x")) + 3_000_000))
    root.find(f"{P}cSld/{P}spTree").append(new)
    return "shape"


def shape_delete_edit(root: Any) -> str | None:
    shape = own_shape(root)
    if shape is None:
        return None
    shape.getparent().remove(shape)
    return "shape"


def grouped_edit(root: Any) -> str | None:
    for t in root.iterfind(f".//{P}grpSp//{A}t"):
        if len((t.text or "").strip()) > 6:
            t.text += " today"
            return "text"
    return None


def hide_edit(root: Any) -> str | None:
    root.set("show", "1" if root.get("show") == "0" else "0")
    return "slide.hidden"


def alt_edit(root: Any) -> str | None:
    for named in root.iterfind(f".//{P}pic/{P}nvPicPr/{P}cNvPr"):
        named.set("descr", "Another description")
        return "shape.alt"
    return None


def notes_edit(root: Any) -> str | None:
    for shape in root.iter(f"{P}sp"):
        holder = shape.find(f"{P}nvSpPr/{P}nvPr/{P}ph")
        t = next(shape.iter(f"{A}t"), None)
        if holder is not None and holder.get("type") == "body" and t is not None and (t.text or "").strip():
            t.text += " And smile."
            return "notes"
    return None


def slides_edit(change: Callable[[list[Any], Any], str | None]) -> Edit:
    """An edit of the list of slides."""

    def edited(root: Any) -> str | None:
        holder = root.find(f"{P}sldIdLst")
        return change(list(holder), holder) if holder is not None else None

    return in_part("ppt/presentation.xml", edited)


def slide_move_edit(slides: list[Any], holder: Any) -> str | None:
    if len(slides) < 4:
        return None
    holder.insert(0, slides[-1])
    return "slide"


def slide_delete_edit(slides: list[Any], holder: Any) -> str | None:
    if len(slides) < 2:
        return None
    holder.remove(slides[1])
    return "slide"


def slide_insert_edit(data: bytes) -> tuple[bytes, Expected] | None:
    deck = Presentation(io.BytesIO(data))
    if not deck.slides or len(deck.slide_layouts) < 2:
        return None
    holders = list(deck.slide_layouts[1].placeholders)
    if not holders or holders[0].placeholder_format.type is None:
        return None
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    if slide.shapes.title is None:
        return None
    slide.shapes.title.text = "Zebras of the world"
    slides = deck.slides._sldIdLst
    slides.insert(0, slides[-1])
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue(), [("slide", None)]


def first_edit(part: str, path: str, value: str, kind: str) -> Edit:
    def change(root: Any) -> str | None:
        found = next((e for e in root.iterfind(path) if (e.text or "").strip()), None)
        if found is None:
            return None
        found.text = value
        return kind

    def edit(data: bytes) -> tuple[bytes, Expected] | None:
        name = next((n for n in sorted(part_names(data)) if n.startswith(part) and n.endswith(".xml")), None)
        return in_part(name, change)(data) if name is not None else None

    return edit


def chart_type_edit(data: bytes) -> tuple[bytes, Expected] | None:
    def change(root: Any) -> str | None:
        found = next(root.iter(f"{_C}barDir"), None)
        if found is None:
            return None
        found.set("val", "col" if found.get("val") == "bar" else "bar")
        return "chart.type"

    name = next((n for n in sorted(part_names(data)) if n.startswith("ppt/charts/chart")), None)
    return in_part(name, change)(data) if name is not None else None


def series_delete_edit(data: bytes) -> tuple[bytes, Expected] | None:
    def change(root: Any) -> str | None:
        found = list(root.iter(f"{_C}ser"))
        if len(found) < 2:
            return None
        found[-1].getparent().remove(found[-1])
        return "chart.series"

    name = next((n for n in sorted(part_names(data)) if n.startswith("ppt/charts/chart")), None)
    return in_part(name, change)(data) if name is not None else None


def link_edit(data: bytes) -> tuple[bytes, Expected] | None:
    def change(relations: Any) -> str | None:
        for element in relations:
            if element.get("TargetMode") == "External" and element.get("Target") == "https://example.com/report":
                element.set("Target", "https://example.org/elsewhere")
                return "link"
        return None

    names = [n for n in part_names(data) if n.startswith("ppt/slides/_rels/")]
    return next((done for n in names if (done := in_part(n, change)(data)) is not None), None)


def image_edit(data: bytes) -> tuple[bytes, Expected] | None:
    name = next((n for n in part_names(data) if n == "ppt/media/image1.png"), None)
    uses = [
        e for n in part_names(data) if n.endswith(".rels")
        for e in etree.fromstring(read_part(data, n)) if e.get("Target", "").endswith("media/image1.png")
    ]  # fmt: skip
    out = edit_part(data, name, lambda _: picture(200)) if name is not None and len(uses) == 1 else None
    return (out, [("image.content", None)]) if out is not None and "slides" in str(owner_edit(data)) else None


def owner_edit(data: bytes) -> str:
    for n in part_names(data):
        if n.endswith(".rels") and b"media/image1.png" in read_part(data, n):
            return (
                n
                if b"blip" in read_part(data, n.replace("_rels/", "").removesuffix(".rels")) and "slideL" not in n
                else ""
            )
    return ""


def comment_add_edit(root: Any) -> str | None:
    first = root.find(f"{P}cm")
    if first is None:
        return None
    new = copy.deepcopy(first)
    new.set("idx", "99")
    new.find(f"{P}text").text = "Where does the zebra come from?"
    root.append(new)
    return "comment"


def notes_edit_edit(data: bytes) -> tuple[bytes, Expected] | None:
    names = sorted(n for n in part_names(data) if n.startswith("ppt/notesSlides/notesSlide"))
    return next((done for n in names if (done := in_part(n, notes_edit)(data)) is not None), None)


def comments_edit_edit(data: bytes, change: Change) -> tuple[bytes, Expected] | None:
    names = sorted(n for n in part_names(data) if n.startswith("ppt/comments/comment"))
    return next((done for n in names if (done := in_part(n, change)(data)) is not None), None)


def title_edit(root: Any) -> str | None:
    found = root.find("{http://purl.org/dc/elements/1.1/}title")
    if found is None or not (found.text or "").strip():
        return None
    found.text = "New"
    return "property.title"
