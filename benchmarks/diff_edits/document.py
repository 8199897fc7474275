"""Single edits of Word documents, made in the XML of their parts.

Samples are a generated document that has one of everything, and a third of the documents of the corpus where it is
present (`ENVKIT_CORPUS`). Re-saves are by python-docx, by LibreOffice, and a rewrite of everything that is noise (revision ids,
runs cut to pieces, proofing marks, languages, ids).
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx
from lxml import etree

from diff_edits.document_sample import DECLARED, build, picture
from diff_edits.zipped import edit_part, part_names

SUFFIX = "docx"
Expected = list[tuple[str, str | None]]
Edit = Callable[[bytes], "tuple[bytes, Expected] | None"]
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "docx"
#: Documents that no reader can open, or that have neither a paragraph of some length nor a table to edit.
_LONG = 25


def samples() -> dict[str, bytes]:
    out = {"generated": build()}
    for path in sorted(_CORPUS.glob("*.docx"))[::3] if _CORPUS.is_dir() else ():
        data = path.read_bytes()
        try:
            if "word/document.xml" in part_names(data):
                out[path.name] = data
        except Exception:  # noqa: BLE001 - a broken archive, as zipfile sees it
            continue
    return out


def _in(part: str, change: Callable[[Any], str | list[str] | None], where: str | None = None) -> Edit:
    """An edit of one part; `change` gives the kind of finding to expect, None where there is nothing to edit."""

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
        return (out, [(kind, where) for kind in kinds]) if out is not None and kinds else None

    return edit


def _body(change: Callable[[Any], str | list[str] | None], where: str | None = None) -> Edit:
    return _in("word/document.xml", lambda root: change(root.find(f"{W}body")), where)


def _make(xml: str) -> Any:
    head, _, rest = xml.partition(">")
    slash = "/" if head.endswith("/") else ""
    return etree.fromstring(f"{head.removesuffix('/')} {DECLARED}{slash}>{rest}")


# --- finding something to edit ---


def _plain(body: Any, skip: int = 0) -> Any:
    """A top-level paragraph of some length that holds nothing but runs of text."""
    found = [p for p in body.iterfind(f"{W}p") if _simple(p)]
    return found[skip] if len(found) > skip else None


def _simple(p: Any) -> bool:
    allowed = {f"{W}{n}" for n in ("pPr", "r", "proofErr")}
    inside = {f"{W}{n}" for n in ("rPr", "t", "lastRenderedPageBreak")}
    text = "".join(t.text or "" for t in p.iter(f"{W}t"))
    runs = list(p.iterfind(f"{W}r"))
    return (
        all(c.tag in allowed for c in p)
        and all(c.tag in inside for r in runs for c in r)
        and len(text) > _LONG
        and p.find(f"{W}pPr/{W}sectPr") is None
        and p.find(f"{W}pPr/{W}rPr/{W}ins") is None
        and p.find(f"{W}pPr/{W}numPr") is None
    )


def _styled(body: Any, style: str) -> list[Any]:
    return [
        p
        for p in body.iterfind(f"{W}p")
        if (s := p.find(f"{W}pPr/{W}pStyle")) is not None and s.get(f"{W}val") == style
    ]


def _table(body: Any, rows: int = 2) -> Any:
    """A table of the body without merged cells, with text in each cell of its second row."""
    for table in body.iterfind(f"{W}tbl"):
        lines = table.findall(f"{W}tr")
        merged = next(table.iter(f"{W}gridSpan", f"{W}vMerge", f"{W}gridBefore", f"{W}gridAfter"), None)
        if len(lines) >= rows and merged is None and all(_text(c).strip() for c in lines[1].iterfind(f"{W}tc")):
            return table
    return None


def _text(element: Any) -> str:
    return "".join(t.text or "" for t in element.iter(f"{W}t"))


def _properties(element: Any, name: str = "rPr") -> Any:
    found = element.find(f"{W}{name}")
    if found is None:
        found = etree.Element(f"{W}{name}")
        element.insert(0, found)
    return found


def _set(properties: Any, name: str, **attributes: str) -> None:
    for old in properties.findall(f"{W}{name}"):
        properties.remove(old)
    etree.SubElement(properties, f"{W}{name}", {f"{W}{k}": v for k, v in attributes.items()})


# --- edits ---


def _word(body: Any) -> str | None:
    p = _plain(body)
    if p is None:
        return None
    t = max(p.iter(f"{W}t"), key=lambda e: len(e.text or ""))
    words = (t.text or "").split(" ")
    words[len(words) // 2] = "otherwise"
    t.text = " ".join(words)
    return "paragraph.text"


def _insert(body: Any) -> str | None:
    p = _plain(body)
    if p is None:
        return None
    p.addprevious(_make("<w:p><w:r><w:t>A wholly new paragraph about zebras in zoos.</w:t></w:r></w:p>"))
    return "paragraph"


def _delete(body: Any) -> str | None:
    p = _plain(body, 1)
    if p is None:
        return None
    p.getparent().remove(p)
    return "paragraph"


def _move(body: Any) -> str | None:
    first, last = _plain(body), _plain(body, 4)
    texts = [_text(p) for p in body.iterfind(f"{W}p")]
    if last is None or texts.count(_text(first)) > 1:
        return None
    last.addnext(first)
    return "paragraph"


def _heading_text(body: Any) -> str | None:
    found = _styled(body, "Heading1")
    if not found or next(found[0].iter(f"{W}t"), None) is None:
        return None
    next(found[0].iter(f"{W}t")).text += " and more"
    return "paragraph.text"


def _heading_level(body: Any) -> str | None:
    found = _styled(body, "Heading1")
    if not found or not _styled(body, "Heading2"):
        return None
    found[-1].find(f"{W}pPr/{W}pStyle").set(f"{W}val", "Heading2")
    return "paragraph.style"


def _look(name: str, **attributes: str) -> Callable[[Any], str | list[str] | None]:
    def change(body: Any) -> str | None:
        p = _plain(body)
        if p is None:
            return None
        run = max(p.iterfind(f"{W}r"), key=lambda r: len(_text(r)))
        _set(_properties(run), name, **attributes)
        return "paragraph.format"

    return change


def _layout(name: str, **attributes: str) -> Callable[[Any], str | list[str] | None]:
    def change(body: Any) -> str | None:
        p = _plain(body)
        if p is None:
            return None
        _set(_properties(p, "pPr"), name, **attributes)
        return "paragraph.layout"

    return change


def _typography(body: Any) -> str | None:
    p = _plain(body)
    t = next((t for t in p.iter(f"{W}t") if " " in (t.text or "").strip()), None) if p is not None else None
    if t is None:
        return None
    lead = len(t.text) - len(t.text.lstrip())
    t.text = t.text[:lead] + t.text[lead:].replace(" ", "\u00a0", 1)
    return "paragraph.typography"


def _tracked(kind: str) -> Callable[[Any], str | list[str] | None]:
    def change(body: Any) -> str | None:
        p = _plain(body)
        if p is None:
            return None
        stamp = 'w:id="7001" w:author="Reviewer" w:date="2025-02-03T10:00:00Z"'
        run = p.find(f"{W}r")
        if kind == "inserted":
            run.addprevious(_make(f"<w:ins {stamp}><w:r><w:t xml:space='preserve'>Quite new. </w:t></w:r></w:ins>"))
        else:
            holder = _make(f"<w:del {stamp}/>")
            run = next(r for r in p.iterfind(f"{W}r") if _text(r).strip())
            run.addprevious(holder)
            holder.append(run)
            for t in run.iter(f"{W}t"):
                t.tag = f"{W}delText"
        return f"tracked.{kind}"

    return change


def _cell_text(body: Any) -> str | None:
    table = _table(body)
    if table is None:
        return None
    cell = table.findall(f"{W}tr")[1].find(f"{W}tc")
    t = next(t for t in cell.iter(f"{W}t") if (t.text or "").strip())
    t.text += " revised"
    return "cell.text"


def _row_insert(body: Any) -> str | None:
    table = _table(body)
    if table is None:
        return None
    row = table.findall(f"{W}tr")[1]
    width = len(row.findall(f"{W}tc"))
    cell = "<w:tc><w:p><w:r><w:t>zebra</w:t></w:r></w:p></w:tc>"
    row.addnext(_make(f"<w:tr>{cell * width}</w:tr>"))
    return "table.row"


def _row_delete(body: Any) -> str | None:
    table = _table(body, 3)
    if table is None:
        return None
    table.remove(table.findall(f"{W}tr")[1])
    return "table.row"


def _column_insert(body: Any) -> str | None:
    table = _table(body)
    if table is None or any(len(r.findall(f"{W}tc")) < 2 for r in table.iterfind(f"{W}tr")):
        return None
    for number, row in enumerate(table.iterfind(f"{W}tr")):
        first = row.find(f"{W}tc")
        first.addnext(_make(f"<w:tc><w:p><w:r><w:t>new column {number}</w:t></w:r></w:p></w:tc>"))
    return "table.column"


def _merge(body: Any) -> list[str] | None:
    table = _table(body)
    if table is None:
        return None
    cells = table.findall(f"{W}tr")[0].findall(f"{W}tc")
    if len(cells) < 2 or _text(cells[1]).strip() == "" or len(cells[1].findall(f"{W}p")) > 1:
        return None
    for t in cells[1].iter(f"{W}t"):
        t.text = ""
    cells[0].getparent().remove(cells[1])
    _set(_properties(cells[0], "tcPr"), "gridSpan", val="2")
    return ["cell.merge", "cell.text"]


def _fill(body: Any) -> str | None:
    table = _table(body)
    if table is None:
        return None
    cell = table.findall(f"{W}tr")[1].find(f"{W}tc")
    _set(_properties(cell, "tcPr"), "shd", val="clear", color="auto", fill="12AB9F")
    return "cell.fill"


def _nested(body: Any) -> str | None:
    for t in body.iterfind(f"{W}tbl//{W}tbl//{W}t"):
        t.text = "changed deep inside"
        return "cell.text"
    return None


def _attribute(path: str, name: str, value: str, kind: str) -> Callable[[Any], str | list[str] | None]:
    def change(root: Any) -> str | None:
        found = root.find(path)
        if found is None or found.get(name) == value:
            return None
        found.set(name, value)
        return kind

    return change


def _first_text(path: str, value: str, kind: str) -> Callable[[Any], str | list[str] | None]:
    def change(root: Any) -> str | None:
        found = next((e for e in root.iterfind(path) if (e.text or "").strip()), None)
        if found is None:
            return None
        found.text = value
        return kind

    return change


def _alt(body: Any) -> str | None:
    for drawing in body.iter(f"{W}drawing"):
        if next(drawing.iter(f"{_A}blip"), None) is not None:
            next(drawing.iter(f"{_WP}docPr")).set("descr", "Another description")
            return "image.alt"
    return None


def _image(data: bytes) -> tuple[bytes, Expected] | None:
    names = [n for n in part_names(data) if n == "word/media/image1.png"]
    if not names:
        return None
    root = etree.fromstring(_read(data, "word/document.xml"))
    relations = _read(data, "word/_rels/document.xml.rels")
    ids = [e.get("Id") for e in etree.fromstring(relations) if e.get("Target") == "media/image1.png"]
    uses = [e for e in root.iter(f"{_A}blip") if e.get(f"{R}embed") in ids]
    out = edit_part(data, names[0], lambda _: picture(200))
    return (out, [("image.content", None)]) if out is not None and len(uses) == 1 else None


def _read(data: bytes, name: str) -> bytes:
    from diff_edits.zipped import read_part

    return read_part(data, name)


def _image_delete(body: Any) -> str | None:
    for run in body.iterfind(f"{W}p/{W}r"):
        if run.find(f"{W}drawing") is not None and next(run.iter(f"{_A}blip"), None) is not None:
            run.getparent().remove(run)
            return "image"
    return None


def _bullet(body: Any) -> str | None:
    found = _styled(body, "ListNumber")
    if not found:
        return None
    found[0].find(f"{W}pPr/{W}pStyle").set(f"{W}val", "ListBullet")
    return "paragraph.style"


def _numbering(body: Any) -> str | None:
    found = _styled(body, "ListNumber")
    if len(found) < 2:
        return None
    properties = _properties(found[1], "pPr")
    numbers = _make('<w:numPr><w:ilvl w:val="0"/><w:numId w:val="0"/></w:numPr>')
    properties.append(numbers)
    return "paragraph.list"


def _list_insert(body: Any) -> str | None:
    found = _styled(body, "ListNumber")
    if not found:
        return None
    new = '<w:p><w:pPr><w:pStyle w:val="ListNumber"/></w:pPr><w:r><w:t>Feed the zebra</w:t></w:r></w:p>'
    found[0].addprevious(_make(new))
    return "paragraph"


def _comment(data: bytes) -> tuple[bytes, Expected] | None:
    if "word/comments.xml" not in part_names(data):
        return None

    def more(content: bytes) -> bytes:
        root = etree.fromstring(content)
        root.append(
            _make('<w:comment w:id="7009" w:author="Cy" w:date="2025-01-01T00:00:00Z"><w:p><w:r><w:t>Who says so?'
                  "</w:t></w:r></w:p></w:comment>")
        )  # fmt: skip
        return etree.tostring(root)

    def anchored(content: bytes) -> bytes:
        root = etree.fromstring(content)
        p = _plain(root.find(f"{W}body"), 1)
        if p is None:
            return content
        p.find(f"{W}r").addprevious(_make('<w:commentRangeStart w:id="7009"/>'))
        p.append(_make('<w:commentRangeEnd w:id="7009"/>'))
        p.append(_make('<w:r><w:commentReference w:id="7009"/></w:r>'))
        return etree.tostring(root)

    first = edit_part(data, "word/document.xml", anchored)
    out = edit_part(first, "word/comments.xml", more) if first is not None else None
    return (out, [("comment", None)]) if out is not None else None


def _comment_delete(root: Any) -> str | None:
    found = root.find(f"{W}comment")
    if found is None:
        return None
    root.remove(found)
    return "comment"


def _landscape(body: Any) -> str | None:
    size = body.find(f"{W}sectPr/{W}pgSz")
    if size is None or size.get(f"{W}w") == size.get(f"{W}h"):
        return None
    width, height = size.get(f"{W}w"), size.get(f"{W}h")
    size.set(f"{W}w", height)
    size.set(f"{W}h", width)
    return "section.page"


def _margins(body: Any) -> str | None:
    margins = body.find(f"{W}sectPr/{W}pgMar")
    if margins is None:
        return None
    margins.set(f"{W}left", "2900")
    return "section.margins"


def _page_break(body: Any) -> str | None:
    p = _plain(body)
    if p is None:
        return None
    p.append(_make('<w:r><w:br w:type="page"/></w:r>'))
    return "paragraph.text"


def _style(root: Any) -> str | None:
    for style in root.iterfind(f"{W}style"):
        if style.get(f"{W}styleId") == "Heading1":
            _set(_properties(style), "color", val="AA00BB")
            return "style.format"
    return None


def _uses_heading(data: bytes) -> bool:
    return bool(_styled(etree.fromstring(_read(data, "word/document.xml")).find(f"{W}body"), "Heading1"))


def _bookmark(body: Any) -> str | None:
    p = _plain(body)
    if p is None:
        return None
    p.find(f"{W}r").addprevious(_make('<w:bookmarkStart w:id="7100" w:name="new_place"/>'))
    p.append(_make('<w:bookmarkEnd w:id="7100"/>'))
    return "bookmark"


def _link(data: bytes) -> tuple[bytes, Expected] | None:
    root = etree.fromstring(_read(data, "word/document.xml"))
    used = [e.get(f"{R}id") for e in root.iter(f"{W}hyperlink") if _text(e).strip() and e.get(f"{R}id")]

    def change(relations: Any) -> str | None:
        for element in relations:
            if used.count(element.get("Id")) == 1 and element.get("TargetMode") == "External":
                element.set("Target", "https://example.org/elsewhere")
                return "link"
        return None

    return _in("word/_rels/document.xml.rels", change)(data)


def _paragraph_alone(body: Any) -> str | None:
    """A paragraph that is inserted by a tracked change, its end included."""
    p = _plain(body)
    if p is None:
        return None
    stamp = 'w:id="7002" w:author="Reviewer"'
    p.addnext(
        _make(f"<w:p><w:pPr><w:rPr><w:ins {stamp}/></w:rPr></w:pPr><w:ins {stamp}><w:r><w:t>Zebras were added here."
              "</w:t></w:r></w:ins></w:p>")
    )  # fmt: skip
    return "tracked.inserted"


EDITS: dict[str, Edit] = {
    "word of a paragraph": _body(_word),
    "paragraph inserted": _body(_insert),
    "paragraph deleted": _body(_delete),
    "paragraph moved": _body(_move),
    "heading text": _body(_heading_text),
    "heading level": _body(_heading_level),
    "bold": _body(_look("u", val="double")),
    "colour": _body(_look("color", val="C000AB")),
    "size": _body(_look("sz", val="61")),
    "strike": _body(_look("strike")),
    "font": _body(_look("rFonts", ascii="Wingold", hAnsi="Wingold")),
    "highlight": _body(_look("highlight", val="magenta")),
    "alignment": _body(_layout("jc", val="distribute")),
    "indent": _body(_layout("ind", left="2222")),
    "page break before": _body(_layout("pageBreakBefore")),
    "page break": _body(_page_break),
    "no-break space": _body(_typography),
    "tracked insertion": _body(_tracked("inserted")),
    "tracked deletion": _body(_tracked("deleted")),
    "tracked new paragraph": _body(_paragraph_alone),
    "tracked insertion accepted": _body(lambda body: _accepted(body)),
    "table cell": _body(_cell_text),
    "table row inserted": _body(_row_insert),
    "table row deleted": _body(_row_delete),
    "table column inserted": _body(_column_insert),
    "cells merged": _body(_merge),
    "cell fill": _body(_fill),
    "nested table cell": _body(_nested),
    "comment added": _comment,
    "comment deleted": _in("word/comments.xml", _comment_delete),
    "comment text": _in(
        "word/comments.xml", _first_text(f"{W}comment//{W}t", "Something else entirely?", "comment.text")
    ),
    "footnote text": _in("word/footnotes.xml", lambda root: _note(root)),
    "header text": _in("word/header1.xml", _first_text(f"{W}p/{W}r/{W}t", "Company public", "header.text")),
    "footer text": _in("word/footer1.xml", _first_text(f"{W}p/{W}r/{W}t", "Open use", "footer.text")),
    "link target": _link,
    "field": _body(_first_text(f".//{W}instrText", " DOCPROPERTY Company ", "field")),
    "bookmark": _body(_bookmark),
    "picture replaced": _image,
    "picture deleted": _body(_image_delete),
    "alternative text": _body(_alt),
    "list kind": _body(_bullet),
    "list left": _body(_numbering),
    "list item inserted": _body(_list_insert),
    "check box": _body(_attribute(f".//{_W14}checkbox/{_W14}checked", f"{_W14}val", "1", "control.checked")),
    "text box": _body(_first_text(f".//{W}txbxContent//{W}t", "Words elsewhere in the box", "paragraph.text")),
    "equation": _body(_first_text(f".//{_M}den//{_M}t", "c", "paragraph.text")),
    "chart value": _in("word/charts/chart1.xml", _first_text(f".//{_C}val//{_C}v", "99.5", "chart.value")),
    "chart series name": _in(
        "word/charts/chart1.xml", _first_text(f".//{_C}ser/{_C}tx//{_C}v", "Turnover", "chart.series")
    ),
    "landscape": _body(_landscape),
    "margins": _body(_margins),
    "style definition": lambda data: _in("word/styles.xml", _style)(data) if _uses_heading(data) else None,
    "title property": _in(
        "docProps/core.xml", _first_text("{http://purl.org/dc/elements/1.1/}title", "New", "property.title")
    ),
}


def _accepted(body: Any) -> str | None:
    for change in body.iterfind(f"{W}p/{W}ins"):
        if _text(change).strip() and len(body.findall(f"{W}p/{W}ins")) < 4:
            for child in list(change):
                change.addprevious(child)
            change.getparent().remove(change)
            return "tracked.inserted"
    return None


def _note(root: Any) -> str | None:
    for note in root.iterfind(f"{W}footnote"):
        texts = [t for t in note.iter(f"{W}t") if len((t.text or "").strip()) > 8]
        if texts and note.get(f"{W}type") is None:
            texts[0].text += " Or so"
            return "footnote.text"
    return None


# --- programs that open and save ---


def _python_docx(data: bytes) -> bytes:
    try:
        document = docx.Document(io.BytesIO(data))
    except Exception:  # noqa: BLE001 - python-docx gives up on these in many ways; there is nothing to compare
        return data
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def _noise(data: bytes) -> bytes:
    """The same document with other revision ids, runs cut to pieces, proofing marks, languages and ids."""

    def noisy(content: bytes) -> bytes:
        root = etree.fromstring(content)
        for p in root.iter(f"{W}p"):
            p.set(f"{W}rsidR", "00AB12CD")
            p.set(f"{_W14}paraId", "1A2B3C4D")
            for run in list(p.iterfind(f"{W}r")):
                texts = run.findall(f"{W}t")
                if (
                    len(texts) == 1
                    and len(texts[0].text or "") > 3
                    and len(run) == 1 + (run.find(f"{W}rPr") is not None)
                ):
                    tail = etree.fromstring(etree.tostring(run))
                    tail.tail = None
                    half = len(texts[0].text) // 2
                    second = tail.find(f"{W}t")
                    texts[0].text, second.text = texts[0].text[:half], texts[0].text[half:]
                    for t in (texts[0], second):
                        t.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
                    run.set(f"{W}rsidRPr", "00FFFFFF")
                    _set(_properties(run), "lang", val="nl-NL")
                    run.addnext(tail)
                    run.addnext(_make('<w:proofErr w:type="spellStart"/>'))
        for element in root.iter(f"{_WP}docPr"):
            element.set("id", str(int(element.get("id", "1")) + 5000))
        return etree.tostring(root)

    return edit_part(data, "word/document.xml", noisy) or data


def _libreoffice(data: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in", "file.docx"), Path(folder, "out")
        source.parent.mkdir()
        source.write_bytes(data)
        kind = "docx:MS Word 2007 XML"
        command = ["soffice", f"-env:UserInstallation=file://{folder}/profile", "--headless", "--convert-to", kind]
        subprocess.run([*command, "--outdir", str(target), str(source)], capture_output=True, timeout=120, check=False)
        saved = target / "file.docx"
        return saved.read_bytes() if saved.exists() else data


RESAVES: dict[str, Callable[[bytes], bytes]] = {"python-docx": _python_docx, "noise in the XML": _noise}
if shutil.which("soffice"):
    RESAVES["LibreOffice"] = _libreoffice
