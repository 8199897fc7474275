"""The single edits of `document.py`: each finds something to edit, edits it, and says what the diff has to find."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lxml import etree

from diff_edits.document_sample import DECLARED, picture
from diff_edits.document_targets import (
    paragraphs_styled,
    plain_paragraph,
    properties_of,
    set_property,
    table_of,
    text_of,
)
from diff_edits.edit import Change, Edit, Expected
from diff_edits.zipped import edit_part, in_part, part_names, read_part

SUFFIX = "docx"
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "docx"


def body_edit(change: Change, where: str | None = None) -> Edit:
    return in_part("word/document.xml", lambda root: change(root.find(f"{W}body")), where)


def make_edit(xml: str) -> Any:
    head, _, rest = xml.partition(">")
    slash = "/" if head.endswith("/") else ""
    return etree.fromstring(f"{head.removesuffix('/')} {DECLARED}{slash}>{rest}")


# --- edits ---


def word_edit(body: Any) -> str | None:
    p = plain_paragraph(body)
    if p is None:
        return None
    t = max(p.iter(f"{W}t"), key=lambda e: len(e.text or ""))
    words = (t.text or "").split(" ")
    words[len(words) // 2] = "otherwise"
    t.text = " ".join(words)
    return "paragraph.text"


def insert_edit(body: Any) -> str | None:
    p = plain_paragraph(body)
    if p is None:
        return None
    p.addprevious(make_edit("<w:p><w:r><w:t>A wholly new paragraph about zebras in zoos.</w:t></w:r></w:p>"))
    return "paragraph"


def delete_edit(body: Any) -> str | None:
    p = plain_paragraph(body, 1)
    if p is None:
        return None
    p.getparent().remove(p)
    return "paragraph"


def move_edit(body: Any) -> str | None:
    first, last = plain_paragraph(body), plain_paragraph(body, 4)
    texts = [text_of(p) for p in body.iterfind(f"{W}p")]
    if last is None or texts.count(text_of(first)) > 1:
        return None
    last.addnext(first)
    return "paragraph"


def heading_text_edit(body: Any) -> str | None:
    found = paragraphs_styled(body, "Heading1")
    if not found or next(found[0].iter(f"{W}t"), None) is None:
        return None
    next(found[0].iter(f"{W}t")).text += " and more"
    return "paragraph.text"


def heading_level_edit(body: Any) -> str | None:
    found = paragraphs_styled(body, "Heading1")
    if not found or not paragraphs_styled(body, "Heading2"):
        return None
    found[-1].find(f"{W}pPr/{W}pStyle").set(f"{W}val", "Heading2")
    return "paragraph.style"


def look_edit(name: str, **attributes: str) -> Change:
    def change(body: Any) -> str | None:
        p = plain_paragraph(body)
        if p is None:
            return None
        run = max(p.iterfind(f"{W}r"), key=lambda r: len(text_of(r)))
        set_property(properties_of(run), name, **attributes)
        return "paragraph.format"

    return change


def layout_edit(name: str, **attributes: str) -> Change:
    def change(body: Any) -> str | None:
        p = plain_paragraph(body)
        if p is None:
            return None
        old = properties_of(p, "pPr").find(f"{W}{name}")
        new = dict(attributes)
        if name == "jc" and old is not None and old.get(f"{W}val") in ("both", "distribute"):
            new["val"] = "right"  # which the two are not
        set_property(properties_of(p, "pPr"), name, **new)
        return "paragraph.layout"

    return change


def typography_edit(body: Any) -> str | None:
    p = plain_paragraph(body)
    t = next((t for t in p.iter(f"{W}t") if " " in (t.text or "").strip()), None) if p is not None else None
    if t is None:
        return None
    lead = len(t.text) - len(t.text.lstrip())
    t.text = t.text[:lead] + t.text[lead:].replace(" ", "\u00a0", 1)
    return "paragraph.typography"


def tracked_edit(kind: str) -> Change:
    def change(body: Any) -> str | None:
        p = plain_paragraph(body)
        if p is None:
            return None
        stamp = 'w:id="7001" w:author="Reviewer" w:date="2025-02-03T10:00:00Z"'
        run = p.find(f"{W}r")
        if kind == "inserted":
            run.addprevious(make_edit(f"<w:ins {stamp}><w:r><w:t xml:space='preserve'>Quite new. </w:t></w:r></w:ins>"))
        else:
            holder = make_edit(f"<w:del {stamp}/>")
            run = next(r for r in p.iterfind(f"{W}r") if text_of(r).strip())
            run.addprevious(holder)
            holder.append(run)
            for t in run.iter(f"{W}t"):
                t.tag = f"{W}delText"
        return f"tracked.{kind}"

    return change


def cell_text_edit(body: Any) -> str | None:
    table = table_of(body)
    if table is None:
        return None
    cell = table.findall(f"{W}tr")[1].find(f"{W}tc")
    t = next(t for t in cell.iter(f"{W}t") if (t.text or "").strip())
    t.text += " revised"
    return "cell.text"


def row_insert_edit(body: Any) -> str | None:
    table = table_of(body)
    if table is None:
        return None
    row = table.findall(f"{W}tr")[1]
    width = len(row.findall(f"{W}tc"))
    cell = "<w:tc><w:p><w:r><w:t>zebra</w:t></w:r></w:p></w:tc>"
    row.addnext(make_edit(f"<w:tr>{cell * width}</w:tr>"))
    return "table.row"


def row_delete_edit(body: Any) -> str | None:
    table = table_of(body, 3)
    if table is None:
        return None
    table.remove(table.findall(f"{W}tr")[1])
    return "table.row"


def column_insert_edit(body: Any) -> str | None:
    table = table_of(body)
    if table is None or any(len(r.findall(f"{W}tc")) < 2 for r in table.iterfind(f"{W}tr")):
        return None
    for number, row in enumerate(table.iterfind(f"{W}tr")):
        first = row.find(f"{W}tc")
        first.addnext(make_edit(f"<w:tc><w:p><w:r><w:t>new column {number}</w:t></w:r></w:p></w:tc>"))
    return "table.column"


def merge_edit(body: Any) -> list[str] | None:
    table = table_of(body)
    if table is None:
        return None
    cells = table.findall(f"{W}tr")[0].findall(f"{W}tc")
    if len(cells) < 2 or text_of(cells[1]).strip() == "" or len(cells[1].findall(f"{W}p")) > 1:
        return None
    for t in cells[1].iter(f"{W}t"):
        t.text = ""
    cells[0].getparent().remove(cells[1])
    set_property(properties_of(cells[0], "tcPr"), "gridSpan", val="2")
    return ["cell.merge", "cell.text"]


def fill_edit(body: Any) -> str | None:
    table = table_of(body)
    if table is None:
        return None
    cell = table.findall(f"{W}tr")[1].find(f"{W}tc")
    set_property(properties_of(cell, "tcPr"), "shd", val="clear", color="auto", fill="12AB9F")
    return "cell.fill"


def nested_edit(body: Any) -> str | None:
    for t in body.iterfind(f"{W}tbl//{W}tbl//{W}t"):
        t.text = "changed deep inside"
        return "cell.text"
    return None


def attribute_edit(path: str, name: str, value: str, kind: str) -> Change:
    def change(root: Any) -> str | None:
        found = root.find(path)
        if found is None or found.get(name) == value:
            return None
        found.set(name, value)
        return kind

    return change


def first_text_edit(path: str, value: str, kind: str) -> Change:
    def change(root: Any) -> str | None:
        found = next((e for e in root.iterfind(path) if (e.text or "").strip()), None)
        if found is None:
            return None
        found.text = value
        return kind

    return change


def alt_edit(body: Any) -> str | None:
    for drawing in body.iter(f"{W}drawing"):
        if next(drawing.iter(f"{_A}blip"), None) is not None:
            next(drawing.iter(f"{_WP}docPr")).set("descr", "Another description")
            return "image.alt"
    return None


def image_edit(data: bytes) -> tuple[bytes, Expected] | None:
    names = [n for n in part_names(data) if n == "word/media/image1.png"]
    if not names:
        return None
    root = etree.fromstring(read_part(data, "word/document.xml"))
    relations = read_part(data, "word/_rels/document.xml.rels")
    ids = [e.get("Id") for e in etree.fromstring(relations) if e.get("Target") == "media/image1.png"]
    uses = [e for e in root.iter(f"{_A}blip") if e.get(f"{R}embed") in ids]
    out = edit_part(data, names[0], lambda _: picture(200))
    return (out, [("image.content", None)]) if out is not None and len(uses) == 1 else None


def image_delete_edit(body: Any) -> str | None:
    for run in body.iterfind(f"{W}p/{W}r"):
        if run.find(f"{W}drawing") is not None and next(run.iter(f"{_A}blip"), None) is not None:
            run.getparent().remove(run)
            return "image"
    return None


def bullet_edit(body: Any) -> str | None:
    found = paragraphs_styled(body, "ListNumber")
    if not found:
        return None
    found[0].find(f"{W}pPr/{W}pStyle").set(f"{W}val", "ListBullet")
    return "paragraph.style"


def numbering_edit(body: Any) -> str | None:
    found = paragraphs_styled(body, "ListNumber")
    if len(found) < 2:
        return None
    properties = properties_of(found[1], "pPr")
    numbers = make_edit('<w:numPr><w:ilvl w:val="0"/><w:numId w:val="0"/></w:numPr>')
    properties.append(numbers)
    return "paragraph.list"


def list_insert_edit(body: Any) -> str | None:
    found = paragraphs_styled(body, "ListNumber")
    if not found:
        return None
    new = '<w:p><w:pPr><w:pStyle w:val="ListNumber"/></w:pPr><w:r><w:t>Feed the zebra</w:t></w:r></w:p>'
    found[0].addprevious(make_edit(new))
    return "paragraph"


def comment_edit(data: bytes) -> tuple[bytes, Expected] | None:
    if "word/comments.xml" not in part_names(data):
        return None

    def more(content: bytes) -> bytes:
        root = etree.fromstring(content)
        root.append(
            make_edit('<w:comment w:id="7009" w:author="Cy" w:date="2025-01-01T00:00:00Z"><w:p><w:r><w:t>Who says so?'
                  "</w:t></w:r></w:p></w:comment>")
        )  # fmt: skip
        return etree.tostring(root)

    def anchored(content: bytes) -> bytes:
        root = etree.fromstring(content)
        p = plain_paragraph(root.find(f"{W}body"), 1)
        if p is None:
            return content
        p.find(f"{W}r").addprevious(make_edit('<w:commentRangeStart w:id="7009"/>'))
        p.append(make_edit('<w:commentRangeEnd w:id="7009"/>'))
        p.append(make_edit('<w:r><w:commentReference w:id="7009"/></w:r>'))
        return etree.tostring(root)

    first = edit_part(data, "word/document.xml", anchored)
    out = edit_part(first, "word/comments.xml", more) if first is not None else None
    return (out, [("comment", None)]) if out is not None else None


def comment_delete_edit(root: Any) -> str | None:
    found = root.find(f"{W}comment")
    if found is None:
        return None
    root.remove(found)
    return "comment"


def landscape_edit(body: Any) -> str | None:
    size = body.find(f"{W}sectPr/{W}pgSz")
    if size is None or size.get(f"{W}w") == size.get(f"{W}h"):
        return None
    width, height = size.get(f"{W}w"), size.get(f"{W}h")
    size.set(f"{W}w", height)
    size.set(f"{W}h", width)
    return "section.page"


def margins_edit(body: Any) -> str | None:
    margins = body.find(f"{W}sectPr/{W}pgMar")
    if margins is None:
        return None
    margins.set(f"{W}left", "2900")
    return "section.margins"


def page_break_edit(body: Any) -> str | None:
    p = plain_paragraph(body)
    if p is None:
        return None
    following = p.getnext()
    p.append(make_edit('<w:r><w:br w:type="page"/></w:r>'))
    # A break at the end of a paragraph is one before the next; before a table, it stays what it is.
    return "paragraph.layout" if following is not None and following.tag == f"{W}p" else "paragraph.text"


def style_edit(root: Any) -> str | None:
    for style in root.iterfind(f"{W}style"):
        if style.get(f"{W}styleId") == "Heading1":
            set_property(properties_of(style), "color", val="AA00BB")
            return "style.format"
    return None


def uses_heading_edit(data: bytes) -> bool:
    return bool(paragraphs_styled(etree.fromstring(read_part(data, "word/document.xml")).find(f"{W}body"), "Heading1"))


def bookmark_edit(body: Any) -> str | None:
    p = plain_paragraph(body)
    if p is None:
        return None
    p.find(f"{W}r").addprevious(make_edit('<w:bookmarkStart w:id="7100" w:name="new_place"/>'))
    p.append(make_edit('<w:bookmarkEnd w:id="7100"/>'))
    return "bookmark"


def link_edit(data: bytes) -> tuple[bytes, Expected] | None:
    root = etree.fromstring(read_part(data, "word/document.xml"))
    used = [e.get(f"{R}id") for e in root.iter(f"{W}hyperlink") if text_of(e).strip() and e.get(f"{R}id")]

    def change(relations: Any) -> str | None:
        for element in relations:
            if used.count(element.get("Id")) == 1 and element.get("TargetMode") == "External":
                element.set("Target", "https://example.org/elsewhere")
                return "link"
        return None

    return in_part("word/_rels/document.xml.rels", change)(data)


def paragraph_alone_edit(body: Any) -> str | None:
    """A paragraph that is inserted by a tracked change, its end included."""
    p = plain_paragraph(body)
    if p is None:
        return None
    stamp = 'w:id="7002" w:author="Reviewer"'
    p.addnext(
        make_edit(f"<w:p><w:pPr><w:rPr><w:ins {stamp}/></w:rPr></w:pPr><w:ins {stamp}><w:r><w:t>Zebras were added here."
              "</w:t></w:r></w:ins></w:p>")
    )  # fmt: skip
    return "tracked.inserted"


def accepted_edit(body: Any) -> str | None:
    for change in body.iterfind(f"{W}p/{W}ins"):
        if text_of(change).strip() and len(body.findall(f"{W}p/{W}ins")) < 4:
            for child in list(change):
                change.addprevious(child)
            change.getparent().remove(change)
            return "tracked.inserted"
    return None


def note_edit(root: Any) -> str | None:
    for note in root.iterfind(f"{W}footnote"):
        texts = [t for t in note.iter(f"{W}t") if len((t.text or "").strip()) > 8]
        if texts and note.get(f"{W}type") is None:
            texts[0].text += " Or so"
            return "footnote.text"
    return None
