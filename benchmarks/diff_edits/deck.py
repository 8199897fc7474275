"""Single edits of slide decks, made in the XML of their parts.

Samples are a generated deck that has one of everything, and a third of the decks of the corpus where it is present
(`ENVKIT_CORPUS`). Re-saves are by python-pptx, by LibreOffice, and a rewrite of everything that is noise (ids and names
of shapes, runs cut to pieces, languages, proofing marks, transitions).
"""

from __future__ import annotations

import copy
import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lxml import etree
from pptx import Presentation

from diff_edits.deck_sample import build, picture
from diff_edits.zipped import edit_part, part_names, read_part

SUFFIX = "pptx"
Expected = list[tuple[str, str | None]]
Edit = Callable[[bytes], "tuple[bytes, Expected] | None"]
Change = Callable[[Any], "str | list[str] | None"]
P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "pptx"


def samples() -> dict[str, bytes]:
    out = {"generated": build()}
    for path in sorted(_CORPUS.glob("*.pptx"))[1::3] if _CORPUS.is_dir() else ():
        data = path.read_bytes()
        try:
            if "ppt/slides/slide1.xml" in part_names(data):
                out[path.name] = data
        except Exception:  # noqa: BLE001 - a broken archive, as zipfile sees it
            continue
    return out


def _in(part: str, change: Change) -> Edit:
    """An edit of one part; `change` gives the kinds of findings to expect, None where there is nothing to edit."""

    def edit(data: bytes) -> tuple[bytes, Expected] | None:
        kinds: list[str] = []

        def edited(content: bytes) -> bytes:
            root = etree.fromstring(content)
            kind = change(root)
            if kind is None:
                return content
            kinds.extend([kind] if isinstance(kind, str) else kind)
            return etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)

        out = edit_part(data, part, edited)
        return (out, [(kind, None) for kind in kinds]) if out is not None and kinds else None

    return edit


def _somewhere(change: Change) -> Edit:
    """An edit of the first slide that has something to edit."""

    def edit(data: bytes) -> tuple[bytes, Expected] | None:
        names = [n for n in part_names(data) if n.startswith("ppt/slides/slide") and n.endswith(".xml")]
        shown = _shown(data)
        for name in sorted((n for n in names if n in shown), key=lambda n: (len(n), n)):
            done = _in(name, change)(data)
            if done is not None:
                return done
        return None

    return edit


def _shown(data: bytes) -> set[str]:
    """Parts of the slides that are in the list of slides."""
    relations = {
        e.get("Id"): e.get("Target", "") for e in etree.fromstring(read_part(data, "ppt/_rels/presentation.xml.rels"))
    }
    root = etree.fromstring(read_part(data, "ppt/presentation.xml"))
    targets = (relations.get(e.get(f"{R}id"), "") for e in root.iterfind(f"{P}sldIdLst/{P}sldId"))
    return {("ppt/" + t).replace("ppt//ppt/", "ppt/") for t in targets}


# --- finding something to edit ---


def _texts(root: Any) -> list[Any]:
    """Shapes of the slide's own tree with some text in plain runs."""
    tree = root.find(f"{P}cSld/{P}spTree")
    return [s for s in tree.iterfind(f"{P}sp") if len(_text(s).strip()) > 6 and next(s.iter(f"{A}fld"), None) is None]


def _text(element: Any) -> str:
    return "".join(t.text or "" for t in element.iter(f"{A}t"))


def _paragraph(root: Any) -> Any:
    for shape in _texts(root):
        for p in shape.iterfind(f"{P}txBody/{A}p"):
            if len(_text(p).strip()) > 6:
                return p
    return None


def _several(root: Any) -> Any:
    """A text body with three paragraphs or more, all with different text."""
    for shape in _texts(root):
        found = shape.findall(f"{P}txBody/{A}p")
        texts = [_text(p).strip() for p in found]
        if len(found) > 2 and all(texts) and len(set(texts)) == len(texts):
            return found
    return None


def _own(root: Any) -> Any:
    """A shape with text and a place of its own, that is no placeholder."""
    for shape in _texts(root):
        if shape.find(f"{P}nvSpPr/{P}nvPr/{P}ph") is None and shape.find(f"{P}spPr/{A}xfrm/{A}off") is not None:
            return shape
    return None


def _table(root: Any, rows: int = 2) -> Any:
    for table in root.iter(f"{A}tbl"):
        lines = table.findall(f"{A}tr")
        cells = [c for line in lines for c in line.iterfind(f"{A}tc")]
        merged = any(c.get(k) for c in cells for k in ("gridSpan", "rowSpan", "hMerge", "vMerge"))
        if (
            len(lines) >= rows
            and not merged
            and len(lines[0].findall(f"{A}tc")) > 1
            and all(_text(c).strip() for c in cells)
        ):
            return table
    return None


def _run_properties(p: Any) -> Any:
    run = max(p.iterfind(f"{A}r"), key=lambda r: len(_text(r)))
    found = run.find(f"{A}rPr")
    if found is None:
        found = etree.Element(f"{A}rPr")
        run.insert(0, found)
    return found


def _paragraph_properties(p: Any) -> Any:
    found = p.find(f"{A}pPr")
    if found is None:
        found = etree.Element(f"{A}pPr")
        p.insert(0, found)
    return found


# --- edits ---


def _word(root: Any) -> str | None:
    p = _paragraph(root)
    if p is None:
        return None
    t = max(p.iter(f"{A}t"), key=lambda e: len(e.text or ""))
    t.text = (t.text or "") + " otherwise"
    return "text"


def _insert(root: Any) -> str | None:
    found = _several(root)
    if found is None:
        return None
    new = copy.deepcopy(found[0])
    for t in list(new.iter(f"{A}t"))[1:]:
        t.text = ""
    next(new.iter(f"{A}t")).text = "Zebras live in the zoo"
    found[0].addnext(new)
    return "text.paragraph"


def _delete(root: Any) -> str | None:
    found = _several(root)
    if found is None:
        return None
    found[1].getparent().remove(found[1])
    return "text.paragraph"


def _swap(root: Any) -> str | None:
    found = _several(root)
    if found is None:
        return None
    found[-1].addnext(found[0])
    return "text.paragraph"


def _level(root: Any) -> list[str] | None:
    for shape in _texts(root):
        holder = shape.find(f"{P}nvSpPr/{P}nvPr/{P}ph")
        if holder is not None and holder.get("type") is None:
            p = next((p for p in shape.iterfind(f"{P}txBody/{A}p") if _text(p).strip()), None)
            if p is not None and _paragraph_properties(p).get("lvl") is None:
                _paragraph_properties(p).set("lvl", "1")
                _paragraph_properties(p).set("algn", "r")
                return ["text.level", "text.align"]
    return None


def _look(**attributes: str) -> Change:
    def change(root: Any) -> str | None:
        p = _paragraph(root)
        if p is None or p.find(f"{A}r") is None:
            return None
        properties = _run_properties(p)
        for name, value in attributes.items():
            properties.set(name, value)
        return "text.format"

    return change


def _colour(root: Any) -> str | None:
    p = _paragraph(root)
    if p is None or p.find(f"{A}r") is None:
        return None
    properties = _run_properties(p)
    if properties.find(f"{A}hlinkClick") is not None:
        return None
    for fill in properties.findall(f"{A}solidFill"):
        properties.remove(fill)
    properties.insert(0, etree.fromstring(f'<a:solidFill xmlns:a="{A[1:-1]}"><a:srgbClr val="C000AB"/></a:solidFill>'))
    return "text.format"


def _align(root: Any) -> str | None:
    p = _paragraph(root)
    if p is None:
        return None
    _paragraph_properties(p).set("algn", "just")
    return "text.align"


def _bullet(root: Any) -> str | None:
    p = _paragraph(root)
    if p is None:
        return None
    properties = _paragraph_properties(p)
    for child in list(properties):
        if str(child.tag).startswith(f"{A}bu"):
            properties.remove(child)
    properties.append(etree.fromstring(f'<a:buAutoNum xmlns:a="{A[1:-1]}" type="romanUcPeriod"/>'))
    return "text.bullet"


def _cell(root: Any) -> str | None:
    table = _table(root)
    if table is None:
        return None
    next(t for t in table.findall(f"{A}tr")[1].iter(f"{A}t") if (t.text or "").strip()).text += " revised"
    return "cell.text"


def _row_insert(root: Any) -> str | None:
    table = _table(root)
    if table is None:
        return None
    row = table.findall(f"{A}tr")[1]
    new = copy.deepcopy(row)
    for number, t in enumerate(new.iter(f"{A}t")):
        t.text = f"zebra {number}"
    row.addnext(new)
    return "table.row"


def _row_delete(root: Any) -> str | None:
    table = _table(root, 3)
    if table is None:
        return None
    table.remove(table.findall(f"{A}tr")[1])
    return "table.row"


def _column_insert(root: Any) -> str | None:
    table = _table(root)
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


def _merge(root: Any) -> str | None:
    table = _table(root)
    if table is None:
        return None
    cells = table.findall(f"{A}tr")[0].findall(f"{A}tc")
    cells[0].set("gridSpan", "2")
    cells[1].set("hMerge", "1")
    return "cell.merge"


def _move(root: Any) -> str | None:
    shape = _own(root)
    if shape is None:
        return None
    offset = shape.find(f"{P}spPr/{A}xfrm/{A}off")
    offset.set("y", str(int(offset.get("y")) + 400_000))
    return "shape.position"


def _resize(root: Any) -> str | None:
    shape = _own(root)
    body = shape.find(f"{P}txBody/{A}bodyPr") if shape is not None else None
    if shape is None or (body is not None and body.get("wrap") == "none"):
        return None
    extent = shape.find(f"{P}spPr/{A}xfrm/{A}ext")
    extent.set("cx", str(int(extent.get("cx")) + 500_000))
    return "shape.size"


def _rotate(root: Any) -> str | None:
    shape = _own(root)
    if shape is None:
        return None
    shape.find(f"{P}spPr/{A}xfrm").set("rot", "2700000")
    return "shape.rotation"


def _fill(root: Any) -> str | None:
    for shape in _texts(root):
        colour = shape.find(f"{P}spPr/{A}solidFill/{A}srgbClr")
        if colour is not None:
            colour.set("val", "12AB9F")
            return "shape.fill"
    return None


def _geometry(root: Any) -> str | None:
    shape = _own(root)
    found = shape.find(f"{P}spPr/{A}prstGeom") if shape is not None else None
    if found is None:
        return None
    found.set("prst", "hexagon")
    return "shape.geometry"


def _shape_insert(root: Any) -> str | None:
    shape = _own(root)
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


def _shape_delete(root: Any) -> str | None:
    shape = _own(root)
    if shape is None:
        return None
    shape.getparent().remove(shape)
    return "shape"


def _grouped(root: Any) -> str | None:
    for t in root.iterfind(f".//{P}grpSp//{A}t"):
        if len((t.text or "").strip()) > 6:
            t.text += " today"
            return "text"
    return None


def _hide(root: Any) -> str | None:
    root.set("show", "1" if root.get("show") == "0" else "0")
    return "slide.hidden"


def _alt(root: Any) -> str | None:
    for named in root.iterfind(f".//{P}pic/{P}nvPicPr/{P}cNvPr"):
        named.set("descr", "Another description")
        return "shape.alt"
    return None


def _notes(root: Any) -> str | None:
    for shape in root.iter(f"{P}sp"):
        holder = shape.find(f"{P}nvSpPr/{P}nvPr/{P}ph")
        t = next(shape.iter(f"{A}t"), None)
        if holder is not None and holder.get("type") == "body" and t is not None and (t.text or "").strip():
            t.text += " And smile."
            return "notes"
    return None


def _slides(change: Callable[[list[Any], Any], str | None]) -> Edit:
    """An edit of the list of slides."""

    def edited(root: Any) -> str | None:
        holder = root.find(f"{P}sldIdLst")
        return change(list(holder), holder) if holder is not None else None

    return _in("ppt/presentation.xml", edited)


def _slide_move(slides: list[Any], holder: Any) -> str | None:
    if len(slides) < 4:
        return None
    holder.insert(0, slides[-1])
    return "slide"


def _slide_delete(slides: list[Any], holder: Any) -> str | None:
    if len(slides) < 2:
        return None
    holder.remove(slides[1])
    return "slide"


def _slide_insert(data: bytes) -> tuple[bytes, Expected] | None:
    deck = Presentation(io.BytesIO(data))
    if (
        not deck.slides
        or len(deck.slide_layouts) < 2
        or deck.slide_layouts[1].placeholders[0].placeholder_format.type is None
    ):
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


def _first(part: str, path: str, value: str, kind: str) -> Edit:
    def change(root: Any) -> str | None:
        found = next((e for e in root.iterfind(path) if (e.text or "").strip()), None)
        if found is None:
            return None
        found.text = value
        return kind

    def edit(data: bytes) -> tuple[bytes, Expected] | None:
        name = next((n for n in sorted(part_names(data)) if n.startswith(part) and n.endswith(".xml")), None)
        return _in(name, change)(data) if name is not None else None

    return edit


def _chart_type(data: bytes) -> tuple[bytes, Expected] | None:
    def change(root: Any) -> str | None:
        found = next(root.iter(f"{_C}barDir"), None)
        if found is None:
            return None
        found.set("val", "col" if found.get("val") == "bar" else "bar")
        return "chart.type"

    name = next((n for n in sorted(part_names(data)) if n.startswith("ppt/charts/chart")), None)
    return _in(name, change)(data) if name is not None else None


def _series_delete(data: bytes) -> tuple[bytes, Expected] | None:
    def change(root: Any) -> str | None:
        found = list(root.iter(f"{_C}ser"))
        if len(found) < 2:
            return None
        found[-1].getparent().remove(found[-1])
        return "chart.series"

    name = next((n for n in sorted(part_names(data)) if n.startswith("ppt/charts/chart")), None)
    return _in(name, change)(data) if name is not None else None


def _link(data: bytes) -> tuple[bytes, Expected] | None:
    def change(relations: Any) -> str | None:
        for element in relations:
            if element.get("TargetMode") == "External" and element.get("Target") == "https://example.com/report":
                element.set("Target", "https://example.org/elsewhere")
                return "link"
        return None

    names = [n for n in part_names(data) if n.startswith("ppt/slides/_rels/")]
    return next((done for n in names if (done := _in(n, change)(data)) is not None), None)


def _image(data: bytes) -> tuple[bytes, Expected] | None:
    name = next((n for n in part_names(data) if n == "ppt/media/image1.png"), None)
    uses = [
        e for n in part_names(data) if n.endswith(".rels")
        for e in etree.fromstring(read_part(data, n)) if e.get("Target", "").endswith("media/image1.png")
    ]  # fmt: skip
    out = edit_part(data, name, lambda _: picture(200)) if name is not None and len(uses) == 1 else None
    return (out, [("image.content", None)]) if out is not None and "slides" in str(_owner(data)) else None


def _owner(data: bytes) -> str:
    for n in part_names(data):
        if n.endswith(".rels") and b"media/image1.png" in read_part(data, n):
            return (
                n
                if b"blip" in read_part(data, n.replace("_rels/", "").removesuffix(".rels")) and "slideL" not in n
                else ""
            )
    return ""


def _comment_add(root: Any) -> str | None:
    first = root.find(f"{P}cm")
    if first is None:
        return None
    new = copy.deepcopy(first)
    new.set("idx", "99")
    new.find(f"{P}text").text = "Where does the zebra come from?"
    root.append(new)
    return "comment"


EDITS: dict[str, Edit] = {
    "words of a shape": _somewhere(_word),
    "paragraph inserted": _somewhere(_insert),
    "paragraph deleted": _somewhere(_delete),
    "paragraph moved": _somewhere(_swap),
    "level and alignment": _somewhere(_level),
    "underline": _somewhere(_look(u="heavy")),
    "size": _somewhere(_look(sz="6100")),
    "strike": _somewhere(_look(strike="sngStrike")),
    "superscript": _somewhere(_look(baseline="31000")),
    "colour": _somewhere(_colour),
    "alignment": _somewhere(_align),
    "bullet": _somewhere(_bullet),
    "table cell": _somewhere(_cell),
    "table row inserted": _somewhere(_row_insert),
    "table row deleted": _somewhere(_row_delete),
    "table column inserted": _somewhere(_column_insert),
    "cells merged": _somewhere(_merge),
    "shape moved": _somewhere(_move),
    "shape resized": _somewhere(_resize),
    "shape rotated": _somewhere(_rotate),
    "shape filled": _somewhere(_fill),
    "shape's form": _somewhere(_geometry),
    "shape inserted": _somewhere(_shape_insert),
    "shape deleted": _somewhere(_shape_delete),
    "text in a group": _somewhere(_grouped),
    "slide hidden or shown": _somewhere(_hide),
    "slide moved": _slides(_slide_move),
    "slide deleted": _slides(_slide_delete),
    "slide inserted": _slide_insert,
    "alternative text": _somewhere(_alt),
    "picture replaced": _image,
    "link target": _link,
    "notes": lambda data: _notes_edit(data),
    "comment added": lambda data: _comments_edit(data, _comment_add),
    "comment text": _first("ppt/comments/comment", f".//{P}text", "Something else entirely?", "comment.text"),
    "diagram text": _first("ppt/diagrams/data", f".//{A}t", "Plan the work anew", "diagram.text"),
    "chart value": _first("ppt/charts/chart", f".//{_C}val//{_C}v", "99.5", "chart.value"),
    "chart title": _first("ppt/charts/chart", f".//{_C}title//{A}t", "By another thing", "chart.title"),
    "chart series name": _first("ppt/charts/chart", f".//{_C}ser/{_C}tx//{_C}v", "Turnover", "chart.series"),
    "chart series deleted": _series_delete,
    "chart type": _chart_type,
    "title property": _in("docProps/core.xml", lambda root: _title(root)),
}


def _notes_edit(data: bytes) -> tuple[bytes, Expected] | None:
    names = sorted(n for n in part_names(data) if n.startswith("ppt/notesSlides/notesSlide"))
    return next((done for n in names if (done := _in(n, _notes)(data)) is not None), None)


def _comments_edit(data: bytes, change: Change) -> tuple[bytes, Expected] | None:
    names = sorted(n for n in part_names(data) if n.startswith("ppt/comments/comment"))
    return next((done for n in names if (done := _in(n, change)(data)) is not None), None)


def _title(root: Any) -> str | None:
    found = root.find("{http://purl.org/dc/elements/1.1/}title")
    if found is None or not (found.text or "").strip():
        return None
    found.text = "New"
    return "property.title"


# --- programs that open and save ---


def _python_pptx(data: bytes) -> bytes:
    try:
        deck = Presentation(io.BytesIO(data))
    except Exception:  # noqa: BLE001 - python-pptx gives up on these in many ways; there is nothing to compare
        return data
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def _noise(data: bytes) -> bytes:
    """The same deck with other ids and names of shapes, runs cut to pieces, languages, proofing marks, transitions."""

    def noisy(content: bytes) -> bytes:
        root = etree.fromstring(content)
        for number, named in enumerate(root.iter(f"{P}cNvPr"), start=700):
            named.set("id", str(number))
            named.set("name", f"Object {number}")
        for run in list(root.iter(f"{A}r")):
            t = run.find(f"{A}t")
            if t is None or len(t.text or "") < 4:
                continue
            tail = copy.deepcopy(run)
            tail.tail = None
            half = len(t.text) // 2
            t.text, tail.find(f"{A}t").text = t.text[:half], t.text[half:]
            properties = run.find(f"{A}rPr")
            if properties is None:
                properties = etree.Element(f"{A}rPr")
                run.insert(0, properties)
            for name, value in (("lang", "nl-NL"), ("dirty", "0"), ("err", "1"), ("noProof", "1")):
                properties.set(name, value)
            run.addnext(tail)
        for old in root.findall(f"{P}transition"):
            root.remove(old)
        return etree.tostring(root)

    out = data
    for name in part_names(data):
        if name.startswith("ppt/slides/slide") and name.endswith(".xml"):
            out = edit_part(out, name, noisy) or out
    return out


def _libreoffice(data: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in", "file.pptx"), Path(folder, "out")
        source.parent.mkdir()
        source.write_bytes(data)
        kind = "pptx:Impress MS PowerPoint 2007 XML"
        command = ["soffice", f"-env:UserInstallation=file://{folder}/profile", "--headless", "--convert-to", kind]
        subprocess.run([*command, "--outdir", str(target), str(source)], capture_output=True, timeout=120, check=False)
        saved = target / "file.pptx"
        return saved.read_bytes() if saved.exists() else data


RESAVES: dict[str, Callable[[bytes], bytes]] = {"python-pptx": _python_pptx, "noise in the XML": _noise}
if shutil.which("soffice"):
    RESAVES["LibreOffice"] = _libreoffice
