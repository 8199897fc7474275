"""Reading PDFs for the model: pages as text with their layout, pictures, pages as pictures.

Pictures have keys (`page3_img0`) that are worked out from the file at every call, so that they hold in a new process as
well. All reading goes through `envkit.office.pdf`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from statistics import median

from envkit.harnesses.archipelago.servers.app import Context, Image, ToolError
from envkit.harnesses.archipelago.servers.pdf.declared import ReadImage, ReadPageAsImage, ReadPages
from envkit.office.pdf import Annotation, Page, Pdf, PdfTable, picture, read_pdf, rendered
from envkit.office.pdf.layout import bands_of

__all__ = ["aligned", "page_text", "read_image", "read_page_as_image", "read_pdf_pages", "table_text"]

_KEY = re.compile(r"@?page_?(\d{1,6})_?img_?(\d{1,6})", re.I)
_MAX_OUTLINE = 200
_MAX_COLUMNS = 400


def read_pdf_pages(arguments: ReadPages, context: Context) -> str:
    """Pages as text."""
    path = context.path(arguments.file_path, must_exist=True)
    wanted = None if not arguments.pages else set(arguments.pages)
    pdf = context.parse(path, partial(read_pdf, numbers=wanted))
    shown = context.shown(path)
    missing = sorted(n for n in wanted or () if not 1 <= n <= pdf.count)
    if wanted and not pdf.pages:
        raise ToolError(f"{shown} has {_count(pdf.count, 'page')}, numbered from 1; asked for {_numbers(missing)}")
    out = [_head(shown, pdf, wanted)]
    if missing:
        out.append(f"There is no page {_numbers(missing)}.")
    out += _about(pdf)
    for page in pdf.pages:
        out.append("\n".join([f"=== Page {page.number} of {pdf.count} ===", *_page(page, pdf, arguments.layout)]))
    return "\n\n".join(out)


def _head(shown: str, pdf: Pdf, wanted: set[int] | None) -> str:
    part = "" if wanted is None else f"; showing {_numbers([p.number for p in pdf.pages])}"
    return f"{shown}: {_count(pdf.count, 'page')}{part}"


def _about(pdf: Pdf) -> Iterator[str]:
    if pdf.metadata:
        yield "\n".join(f"{key}: {value}" for key, value in pdf.metadata)
    if pdf.outline:
        lines = [
            f"{'  ' * item.level}{item.title}" + (f" (page {item.page})" if item.page else "")
            for item in pdf.outline[:_MAX_OUTLINE]
        ]
        more = len(pdf.outline) - _MAX_OUTLINE
        yield "\n".join(["Outline:", *lines, *([f"  ... and {more} more entries"] if more > 0 else [])])
    if pdf.attachments:
        held = ", ".join(f"{a.name} ({a.size:,} bytes)" for a in pdf.attachments)
        yield f"Files attached to it: {held}"
    if len(pdf.needs_ocr) > 1:
        yield (
            f"Pages {_numbers(pdf.needs_ocr)} have no text: they are scans (need OCR); use read_page_as_image "
            "(action page_as_image) to look at them."
        )


def _page(page: Page, pdf: Pdf, layout: str) -> Iterator[str]:
    text = aligned(page) if layout == "text" else page_text(page)
    if page.scanned:
        yield (
            f"Page {page.number} has no text: it is a scan (needs OCR); use read_page_as_image (action page_as_image) "
            f"with page_number={page.number}."
        )
    if text:
        yield text
    elif not page.scanned:
        also = "" if page.pictures else " and no pictures"
        yield f"Page {page.number} has no text{also}; if something is drawn on it, read_page_as_image shows it."
    fields = [f for f in pdf.fields if f.page == page.number]
    if fields:
        yield "\nForm fields:"
        for field in fields:
            yield f"  {field.name or '(no name)'} [{field.kind}] = {field.value!r}"
    notes = [a for a in page.annotations if a.kind != "link"]
    if notes:
        yield "\nAnnotations:"
        for note in notes:
            yield "  " + _note(note, page)
    links = list(dict.fromkeys((_under(a, page), a.target) for a in page.annotations if a.kind == "link" and a.target))
    if links:
        yield "\nLinks:"
        for words, target in links:
            yield f"  {words or '(no text)'} -> {target}"
    if page.pictures:
        yield "\nImages (read_image shows one by its key):"
        for index, image in enumerate(page.pictures):
            left, top, right, bottom = image.box
            yield (
                f"  @page{page.number}_img{index}: {right - left:.0f} x {bottom - top:.0f} pt, at {left:.0f} pt from "
                f"the left and {top:.0f} pt from the top of a page of {page.width:.0f} x {page.height:.0f} pt"
            )


def _note(note: Annotation, page: Page) -> str:
    by = f" by {note.author}" if note.author else ""
    about = _under(note, page) if note.kind in ("highlight", "underline", "strikeout", "squiggly") else ""
    names = {"strikeout": "strikethrough", "text": "note", "freetext": "text"}
    pieces = [names.get(note.kind, note.kind) + by]
    if about:
        pieces.append(f"over {about!r}")
    if note.text.strip():
        pieces.append(f": {note.text.strip()}")
    return " ".join(pieces).replace(" :", ":")


def _under(note: Annotation, page: Page) -> str:
    """The words below an annotation."""
    left, top, right, bottom = note.box
    held = [
        w.text for w in page.words
        if left - 1 <= (w.left + w.right) / 2 <= right + 1 and top - 1 <= (w.top + w.bottom) / 2 <= bottom + 1
    ]  # fmt: skip
    return " ".join(held)[:300]


def page_text(page: Page) -> str:
    """A page's paragraphs and tables in reading order, tables with bars between cells."""
    return "\n\n".join(table_text(p) if isinstance(p, PdfTable) else p.text for p in page.parts)


def table_text(table: PdfTable) -> str:
    """A table in the manner of Markdown; lines of a cell are joined."""
    if not table.rows:
        return ""
    width = max(len(row) for row in table.rows)
    rows = [[_cell(c) for c in row] + [""] * (width - len(row)) for row in table.rows]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * width)
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def aligned(page: Page) -> str:
    """A page's lines as they stand: words at their places, as on paper seen with letters of one width."""
    words = page.words
    if not words:
        return ""
    wide = [(w.right - w.left) / len(w.text) for w in words if w.right > w.left]
    unit = max(median(wide) if wide else 5.0, page.width / _MAX_COLUMNS, 1.0)
    left = min(w.left for w in words)
    lines: list[str] = []
    last = None
    for band in bands_of(words):
        if last is not None and band.top - last > 1.2 * band.height:
            lines.append("")
        last = band.bottom
        line = ""
        for word in sorted(band.words, key=lambda w: w.left):
            column = int((word.left - left) / unit)
            gap = column - len(line)
            line += " " * max(gap, 1 if line else 0) + word.text
        lines.append(line)
    return "\n".join(lines)


def read_image(arguments: ReadImage, context: Context) -> Image:
    """One picture by its key."""
    path = context.path(arguments.file_path, must_exist=True)
    found = _KEY.fullmatch(arguments.annotation.strip())
    if found is None:
        raise ToolError(
            f"{arguments.annotation!r} is no key of a picture: they look like page1_img0, as read_pdf_pages lists them"
        )
    number, index = int(found[1]), int(found[2])
    made = context.parse(path, partial(_picture, number=number, index=index))
    if isinstance(made, str):
        raise ToolError(f"{context.shown(path)}: {made}")
    return Image(*made)


def _picture(data: bytes, number: int, index: int) -> tuple[bytes, str] | str:
    """The picture, or in words why there is none of that key."""
    try:
        return picture(data, number, index)
    except IndexError:
        pdf = read_pdf(data, (number,))
    if not pdf.pages:
        return f"there is no page {number}; it has {_count(pdf.count, 'page')}, numbered from 1"
    count = len(pdf.pages[0].pictures)
    if not count:
        return f"page {number} has no pictures; read_page_as_image shows all of the page"
    keys = f"page{number}_img0" + (f" to page{number}_img{count - 1}" if count > 1 else "")
    return f"page {number} has {_count(count, 'picture')}: {keys}"


def read_page_as_image(arguments: ReadPageAsImage, context: Context) -> Image:
    """One page, rendered."""
    path = context.path(arguments.file_path, must_exist=True)
    made = context.parse(path, partial(_rendered, number=arguments.page_number))
    if isinstance(made, int):
        raise ToolError(
            f"{context.shown(path)} has {_count(made, 'page')}, numbered from 1; asked for {arguments.page_number}"
        )
    return Image(made, "image/png")


def _rendered(data: bytes, number: int) -> bytes | int:
    try:
        return rendered(data, number)[0]
    except IndexError:
        return read_pdf(data, ()).count


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _numbers(numbers: list[int] | tuple[int, ...]) -> str:
    """`1-3, 7`."""
    out: list[str] = []
    ordered = sorted(set(numbers))
    start = 0
    for index, number in enumerate(ordered):
        if index + 1 == len(ordered) or ordered[index + 1] != number + 1:
            first = ordered[start]
            out.append(str(first) if first == number else f"{first}-{number}")
            start = index + 1
    return ", ".join(out) or "none"
