"""What a file holds, as plain values that a page can lay out: a grid of cells, lines of text, or a picture.

`render` is called in a confined child, since files are an agent's (`envkit.office.parse`). What it gives is bounded: so
many cells, so many lines, so many pages as pictures; what is left out is counted. `align` puts the lines of two
versions side by side. Used by the viewer's worker.
"""

from __future__ import annotations

import base64
import difflib
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from envkit.office.gate import admit
from envkit.office.problem import Problem, Unreadable

__all__ = ["align", "render"]

Content = dict[str, Any]
#: (role, text): what a line is, and says.
Line = tuple[str, str]

_CELLS, _LINES, _LINE, _CELL, _PAGES = 40_000, 20_000, 4_000, 2_000, 12
_ALIGNED = 6_000
_SIDE = 1_400


def render(name: str, data: bytes) -> Content:
    """A file's content. Its name decides what it is read as.

    Raises:
        Unreadable: It is broken, too much to unpack, or not of a kind that can be shown.
    """
    admit(data)
    if not data:
        return {"kind": "lines", "lines": [], "more": 0}
    suffix = name.rsplit("/", 1)[-1].rpartition(".")[2].lower()
    return _READERS.get(suffix, _text)(data)


def align(before: Sequence[Line], after: Sequence[Line]) -> list[tuple[int | None, int | None, str]]:
    """Rows of a side-by-side view: an index into each side or None, and `same`, `changed`, `removed` or `added`."""
    if max(len(before), len(after)) > _ALIGNED:
        return [
            (i if i < len(before) else None, i if i < len(after) else None, _told(before, after, i))
            for i in range(max(len(before), len(after)))
        ]
    out: list[tuple[int | None, int | None, str]] = []
    matcher = difflib.SequenceMatcher(None, [t for _, t in before], [t for _, t in after], autojunk=False)
    for tag, i, k, j, m in matcher.get_opcodes():
        if tag == "equal":
            out += [(i + n, j + n, "same") for n in range(k - i)]
            continue
        paired = min(k - i, m - j)
        out += [(i + n, j + n, "changed") for n in range(paired)]
        out += [(n, None, "removed") for n in range(i + paired, k)]
        out += [(None, n, "added") for n in range(j + paired, m)]
    return out


def _told(before: Sequence[Line], after: Sequence[Line], i: int) -> str:
    if i >= len(after):
        return "removed"
    if i >= len(before):
        return "added"
    return "same" if before[i][1] == after[i][1] else "changed"


def _lines(lines: Iterator[Line]) -> Content:
    kept: list[Line] = []
    more = 0
    for role, text in lines:
        if len(kept) >= _LINES:
            more += 1
            continue
        kept.append((role, text if len(text) <= _LINE else f"{text[:_LINE]}… ({len(text):,} characters)"))
    return {"kind": "lines", "lines": kept, "more": more}


def _text(data: bytes) -> Content:
    from envkit.office.table import decode_text

    return _lines(("line", line) for line in decode_text(data).splitlines())


def _grid(data: bytes) -> Content:
    from envkit.office.workbook import read_workbook

    book = read_workbook(data)
    sheets = []
    left = _CELLS
    for sheet in book.sheets:
        cells = []
        for address in sheet.ordered[:left]:
            cell = sheet.cells[address]
            shown = _value(book.value(sheet, address))
            formula = None if cell.formula is None else "=" + cell.formula.lstrip("=")[:_CELL]
            cells.append([address[0], address[1], shown, formula])
        left -= len(cells)
        sheets.append(
            {
                "name": sheet.name,
                "state": "" if sheet.visible else str(sheet.state),
                "cells": cells,
                "more": len(sheet.cells) - len(cells),
            }
        )
    return {"kind": "grid", "sheets": sheets}


def _table(data: bytes) -> Content:
    from envkit.office.table import read_table

    table = read_table(data)
    cells: list[list[Any]] = []
    total = 0
    for r, row in enumerate((table.header, *table.rows), start=1):
        for c, value in enumerate(row, start=1):
            total += 1
            if value and len(cells) < _CELLS:
                cells.append([r, c, value[:_CELL], None])
    more = max(0, total - _CELLS) if len(cells) >= _CELLS else 0
    return {"kind": "grid", "sheets": [{"name": "", "state": "", "cells": cells, "more": more}]}


def _value(value: Any) -> str:
    import datetime as dt

    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return f"{value:.12g}"
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if value.time() == dt.time.min else value.isoformat(" ", "seconds")
    return str(value)[:_CELL]


def _document(data: bytes) -> Content:
    from envkit.office.document import Paragraph, read_document

    def lines() -> Iterator[Line]:
        document = read_document(data)
        for block in document.blocks:
            if isinstance(block, Paragraph):
                label = f"{block.list.label} " if block.list is not None else ""
                role = "text" if block.level is None else f"h{max(1, min(4, block.level or 1))}"
                if block.text.strip():
                    yield role, label + block.text
                if block.images or block.charts:
                    yield "note", f"({len(block.images)} pictures, {len(block.charts)} charts)"
            else:
                for row in block.rows:
                    yield "row", " │ ".join(row)
        for title, texts in (
            ("Headers and footers", document.headers_footers),
            ("Footnotes", document.footnotes),
            ("Comments", document.comments),
            ("Tracked insertions", document.insertions),
            ("Tracked deletions", document.deletions),
        ):
            if texts:
                yield "note", title
                yield from (("text", text) for text in texts)

    return _lines(lines())


def _deck(data: bytes) -> Content:
    from envkit.office.deck import read_deck

    def lines() -> Iterator[Line]:
        for slide in read_deck(data).slides:
            yield "h2", f"Slide {slide.number}" + (f": {slide.title}" if slide.title else "")
            if slide.hidden:
                yield "note", "hidden"
            for text in slide.texts:
                if text.strip() and text != slide.title:
                    yield from (("text", line) for line in text.splitlines() if line.strip())
            if slide.charts or slide.pictures:
                yield "note", f"({slide.charts} charts, {slide.pictures} pictures)"
            if slide.notes.strip():
                yield "note", "Notes"
                yield from (("text", line) for line in slide.notes.splitlines())

    return _lines(lines())


def _pdf(data: bytes) -> Content:
    from envkit.office.pdf import read_pdf

    def lines() -> Iterator[Line]:
        for page in read_pdf(data).pages:
            yield "h2", f"Page {page.number}" + (" (a picture without text)" if page.scanned else "")
            yield from (("line", line) for line in page.by_lines.splitlines() if line.strip())

    found = _lines(lines())
    return {**found, "pages": _pages(data)}


def _pages(data: bytes) -> list[str]:
    """The first pages as pictures."""
    import pypdfium2

    out = []
    document = pypdfium2.PdfDocument(data)
    for number in range(min(_PAGES, len(document))):
        page = document[number]
        width, height = page.get_size()
        scale = min(2.0, _SIDE / max(width, height, 1.0))
        out.append(_url(page.render(scale=scale).to_pil(), "JPEG"))
    return out


def _picture(data: bytes) -> Content:
    from PIL import Image

    from envkit.office.image import read_image

    about = read_image(data)
    with Image.open(io.BytesIO(data)) as image:
        image.draft("RGB", (_SIDE, _SIDE))
        shown = image.convert("RGBA" if about.transparent else "RGB")
        shown.thumbnail((_SIDE, _SIDE))
        url = _url(shown, "PNG" if about.transparent else "JPEG")
    told = f"{about.format}, {about.width} × {about.height}" + (f", {about.frames} frames" if about.frames > 1 else "")
    return {"kind": "picture", "url": url, "about": told}


def _url(image: Any, kind: str) -> str:
    out = io.BytesIO()
    image.save(out, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"


def _mailbox(data: bytes) -> Content:
    from envkit.office.mail import read_mbox

    return _mails(read_mbox(data))


def _message(data: bytes) -> Content:
    from envkit.office.mail import read_message

    return _mails((read_message(data),))


def _mails(found: Sequence[Any]) -> Content:
    def lines() -> Iterator[Line]:
        for mail in found:
            yield "h2", mail.subject or "(no subject)"
            yield "row", f"From: {mail.sender}"
            for name, people in (("To", mail.to), ("Cc", mail.cc), ("Bcc", mail.bcc)):
                if people:
                    yield "row", f"{name}: {', '.join(people)}"
            yield "row", f"Date: {mail.date}"
            if mail.attachments:
                yield "row", f"Attachments: {', '.join(mail.attachments)}"
            yield from (("text", line) for line in mail.body.splitlines())

    return _lines(lines())


def _database(data: bytes) -> Content:
    raise Unreadable(Problem.UNSUPPORTED, "a database is shown by what changed in it, not as a whole")


_READERS: dict[str, Callable[[bytes], Content]] = {
    **dict.fromkeys(("xlsx", "xlsm", "xltx", "xltm"), _grid),
    **dict.fromkeys(("csv", "tsv", "tab"), _table),
    **dict.fromkeys(("docx", "docm", "dotx", "dotm"), _document),
    **dict.fromkeys(("pptx", "pptm", "ppsx", "potx"), _deck),
    "pdf": _pdf,
    **dict.fromkeys(("png", "jpg", "jpeg", "gif", "bmp", "tif", "tiff", "webp"), _picture),
    **dict.fromkeys(("mbox", "mbx"), _mailbox),
    "eml": _message,
    **dict.fromkeys(("sqlite", "sqlite3", "db", "db3"), _database),
}
