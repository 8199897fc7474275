"""Reads a PDF with pdfium: characters with their boxes, drawn rules, pictures, annotations, forms, outline, files.

pdfium is quick and forgiving but native: what nobody vouches for is read in a child (`envkit.office.parse`), and never
in two threads of one process at once. Entry point `read_pdf`.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

from envkit.office.pdf.characters import words_of
from envkit.office.pdf.layout import Region, bands_of, blocks_of, line_text, regions_of
from envkit.office.pdf.marks import annotations_of, fields_of, rules_of
from envkit.office.pdf.model import Attachment, Block, Box, OutlineItem, Page, Pdf, PdfTable, Picture, Word, packed
from envkit.office.pdf.tables import borderless_tables, ruled_tables
from envkit.office.problem import Problem, Unreadable

__all__ = ["MAX_PAGES", "Turned", "opened", "read_pdf"]

MAX_PAGES = 3_000
#: Objects of one page beyond which the rest of it is not looked at.
MAX_OBJECTS = 50_000
MAX_ATTACHMENT_BYTES = 16 << 20
MAX_OUTLINE = 20_000
_PASSWORD = 4
_WRITTEN = ("Title", "Author", "Subject", "Keywords")


@contextlib.contextmanager
def opened(data: bytes) -> Iterator[Any]:
    """pdfium's document of a PDF's bytes, closed at the end. Raises `Unreadable`."""
    if not data:
        raise Unreadable(Problem.EMPTY, "it has 0 bytes")
    if b"%PDF-" not in data[:1024]:
        raise Unreadable(Problem.NOT_THIS_FORMAT, f"it is not a PDF: the content begins with {data[:12]!r}")
    import pypdfium2 as pdfium
    import pypdfium2.raw as raw

    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if raw.FPDF_GetLastError() == _PASSWORD or "password" in str(error).lower():
            raise Unreadable(Problem.ENCRYPTED, "it is protected with a password") from error
        raise Unreadable(Problem.CORRUPT, f"it is broken: {error}") from error
    try:
        count = len(document)
        if count < 1:
            raise Unreadable(Problem.CORRUPT, "it has no pages; it may be cut off")
        if count > MAX_PAGES:
            raise Unreadable(Problem.TOO_BIG, f"it has {count} pages; at most {MAX_PAGES} are read")
        yield document
    except pdfium.PdfiumError as error:
        raise Unreadable(Problem.CORRUPT, f"it is broken: {error}") from error
    finally:
        document.close()


def read_pdf(data: bytes, numbers: Collection[int] | None = None) -> Pdf:
    """Reads a PDF, or only the pages of some numbers (from 1; those it doesn't have are passed over). Raises
    `Unreadable`."""
    with opened(data) as document:
        import pypdfium2 as pdfium

        forms = _init_forms(document)
        pages: list[Page] = []
        fields: list[Any] = []
        for index in range(len(document)):
            if numbers is not None and index + 1 not in numbers:
                continue
            try:
                page = document.get_page(index)
            except pdfium.PdfiumError as error:
                raise Unreadable(Problem.CORRUPT, f"page {index + 1} is broken: {error}") from error
            try:
                pages.append(_page(page, index + 1))
                if forms:
                    fields += fields_of(document, page, index + 1)
            finally:
                page.close()
        metadata = {key: _text(partial(document.get_metadata_value, key)) for key in _WRITTEN}
        return Pdf(
            tuple(pages),
            tuple((key, _clean(metadata[key])) for key in _WRITTEN if _clean(metadata[key])),
            _outline(document),
            tuple(fields),
            _attachments(document),
            len(document),
        )


def _text(read: Callable[[], str]) -> str:
    """A text of pdfium, which is UTF-16: "" where the file holds half of a surrogate pair."""
    try:
        return read()
    except UnicodeDecodeError:
        return ""


def _clean(text: str) -> str:
    return " ".join(text.replace("\0", " ").split())


def _init_forms(document: Any) -> bool:
    if document.get_formtype() == 0:
        return False
    document.init_forms()
    return document.formenv is not None


def _outline(document: Any) -> tuple[OutlineItem, ...]:
    out: list[OutlineItem] = []
    for item in document.get_toc(max_depth=15):
        dest = item.get_dest()
        index = dest.get_index() if dest is not None else None
        number = None if index is None or index < 0 else index + 1
        out.append(OutlineItem(item.level + 1, _clean(_text(item.get_title)), number))
        if len(out) >= MAX_OUTLINE:
            break
    return tuple(out)


def _attachments(document: Any) -> tuple[Attachment, ...]:
    import pypdfium2 as pdfium

    out: list[Attachment] = []
    for index in range(min(document.count_attachments(), 1_000)):
        held = document.get_attachment(index)
        try:
            data = bytes(held.get_data())
        except pdfium.PdfiumError:
            data = b""  # named, but empty
        kept = data if len(data) <= MAX_ATTACHMENT_BYTES else None
        out.append(Attachment(_clean(_text(held.get_name)), len(data), hashlib.sha256(data).hexdigest(), kept))
    return tuple(out)


class Turned:
    """From a page's own coordinates (up from the bottom left, unturned) to those of the page as it is shown."""

    def __init__(self, page: Any) -> None:
        self.x0, self.y0, self.x1, self.y1 = page.get_cropbox()
        if self.x1 < self.x0:
            self.x0, self.x1 = self.x1, self.x0
        if self.y1 < self.y0:
            self.y0, self.y1 = self.y1, self.y0
        self.rotation = page.get_rotation() % 360

    def __call__(self, left: float, bottom: float, right: float, top: float) -> Box:
        match self.rotation:
            case 90:
                return bottom - self.y0, left - self.x0, top - self.y0, right - self.x0
            case 180:
                return self.x1 - right, bottom - self.y0, self.x1 - left, top - self.y0
            case 270:
                return self.y1 - top, self.x1 - right, self.y1 - bottom, self.x1 - left
            case _:
                return left - self.x0, self.y1 - top, right - self.x0, self.y1 - bottom


def _page(page: Any, number: int) -> Page:
    turned = Turned(page)
    words = words_of(page, turned, turned.rotation in (0, 180))
    bands = bands_of(words)
    rules, pictures = rules_of(page, turned, MAX_OBJECTS)
    ruled = ruled_tables(rules, words)
    blocks: list[Block] = []
    texts: list[str] = []
    ordered: list[Word] = []
    tables: list[PdfTable] = []
    order: list[int] = []
    for part in _stripes(words, ruled):
        if isinstance(part, PdfTable):
            tables.append(part)
            order.append(-len(tables))
            texts.append(_table_text(part))
            ordered += [w for w in words if _inside(w, part.box)]
            continue
        for region in regions_of(bands if part is words else bands_of(part)):
            found = borderless_tables(region.bands)
            for piece in _around_tables(region, found):
                if isinstance(piece, PdfTable):
                    tables.append(piece)
                    order.append(-len(tables))
                    texts.append(_table_text(piece))
                    ordered += next(held for table, held in found if table is piece)
                    continue
                more, paragraphs = blocks_of([piece])
                order += range(len(blocks), len(blocks) + len(more))
                blocks += more
                texts += paragraphs
                ordered += [w for band in piece.bands for w in band.words]
    by_lines = "\n".join(line_text(band.words) for band in bands)
    word_texts, word_boxes = packed(ordered)
    width, height = page.get_size()
    return Page(
        number=number,
        width=round(width, 2),
        height=round(height, 2),
        by_lines=by_lines,
        by_blocks="\f".join(texts),
        blocks=tuple(blocks),
        tables=tuple(tables),
        pictures=tuple(Picture(box) for box in pictures),
        annotations=annotations_of(page, turned),
        scanned=bool(pictures) and sum(len(w.text) for w in words) < 10,
        order=tuple(order),
        word_texts=word_texts,
        word_boxes=word_boxes,
    )


def _inside(word: Word, box: Box) -> bool:
    x, y = (word.left + word.right) / 2, (word.top + word.bottom) / 2
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _table_text(table: PdfTable) -> str:
    return "\n".join("  ".join(cell for cell in row if cell) for row in table.rows)


def _stripes(words: list[Word], tables: Sequence[PdfTable]) -> list[list[Word] | PdfTable]:
    """The page from top to bottom: stretches of words, and the ruled tables between them."""
    if not tables:
        return [words] if words else []
    free = [w for w in words if not any(_inside(w, t.box) for t in tables)]
    # A table beside text in another column splits nothing: it follows the stretch that it stands in.
    out: list[list[Word] | PdfTable] = []
    for table in tables:
        top, bottom = table.box[1], table.box[3]
        beside = any(top < (w.top + w.bottom) / 2 < bottom for w in free)
        limit = bottom if beside else top
        above = [w for w in free if (w.top + w.bottom) / 2 <= limit]
        if above:
            out.append(above)
            free = [w for w in free if (w.top + w.bottom) / 2 > limit]
        out.append(table)
    if free:
        out.append(free)
    return out


def _around_tables(region: Region, found: Sequence[tuple[PdfTable, list[Word]]]) -> list[Region | PdfTable]:
    """A region cut at the tables in it."""
    out: list[Region | PdfTable] = []
    owner = {id(w): table for table, held in found for w in held}
    for band in region.bands:
        table = owner.get(id(band.words[0]))
        if table is not None:
            if not out or out[-1] is not table:
                out.append(table)
        elif out and isinstance(out[-1], Region):
            out[-1].bands.append(band)
        else:
            out.append(Region([band]))
    return out
