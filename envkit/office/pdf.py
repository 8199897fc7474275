"""PDFs as text in two reading orders: by lines across the page, and by blocks (columns).

No order is right for every page: a table wants lines, a two-column page wants blocks. Whoever looks for a phrase
looks in both. Words hyphenated at a line's end are joined in the block order. A page without text but with pictures
is flagged as scanned. Used by verifiers and the tool servers.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from envkit.office.problem import Problem, Unreadable

__all__ = ["Page", "Pdf", "read_pdf"]

MAX_PAGES = 500


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its text `by_lines` and `by_blocks` (form feeds between blocks, and between pages); `scanned` when it
    shows pictures and hardly any text."""

    number: int
    by_lines: str
    by_blocks: str
    scanned: bool = False


@dataclass(frozen=True, slots=True)
class Pdf:
    pages: tuple[Page, ...]

    @property
    def by_lines(self) -> str:
        return "\f".join(p.by_lines for p in self.pages)

    @property
    def by_blocks(self) -> str:
        return "\f".join(p.by_blocks for p in self.pages)


def read_pdf(data: bytes) -> Pdf:
    """Reads a PDF. Raises `Unreadable`."""
    if not data:
        raise Unreadable(Problem.EMPTY, "it has 0 bytes")
    if b"%PDF-" not in data[:1024]:
        raise Unreadable(Problem.NOT_THIS_FORMAT, f"it is not a PDF: the content begins with {data[:12]!r}")
    import struct
    import zlib

    from pdfminer.high_level import extract_pages
    from pdfminer.layout import LAParams
    from pdfminer.pdfdocument import PDFPasswordIncorrect, PDFTextExtractionNotAllowed
    from pdfminer.pdfexceptions import PDFException
    from pdfminer.psexceptions import PSException

    pages: list[Page] = []
    try:
        for layout in extract_pages(io.BytesIO(data), laparams=LAParams(all_texts=True)):
            pages.append(_page(layout, len(pages) + 1))
            if len(pages) > MAX_PAGES:
                raise Unreadable(Problem.TOO_BIG, f"it has more than {MAX_PAGES} pages")
    except (PDFPasswordIncorrect, PDFTextExtractionNotAllowed) as error:
        raise Unreadable(Problem.ENCRYPTED, "it is protected with a password") from error
    except (
        PDFException,
        PSException,
        struct.error,
        zlib.error,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
    ) as error:
        # The parser meets broken objects with whatever exception their use raises.
        raise Unreadable(Problem.CORRUPT, f"it is broken: {type(error).__name__}: {error}") from error
    if not pages:
        raise Unreadable(Problem.CORRUPT, "it has no pages; it may be cut off")
    return Pdf(tuple(pages))


def _page(layout: Any, number: int) -> Page:
    from pdfminer.layout import LTFigure, LTImage, LTTextBox

    blocks: list[str] = []
    pictures = 0
    for item in _walk(layout):
        if isinstance(item, LTTextBox):
            blocks.append(_dehyphenated(item.get_text()))
        elif isinstance(item, LTImage):
            pictures += 1
        elif isinstance(item, LTFigure):
            pass
    lines = _lines(_text_lines(layout))
    letters = sum(len(b.strip()) for b in blocks)
    return Page(number, lines, "\f".join(blocks), scanned=pictures > 0 and letters < 10)


def _walk(layout: Iterable[Any]) -> Iterator[Any]:
    from pdfminer.layout import LTFigure

    for item in layout:
        yield item
        if isinstance(item, LTFigure):
            yield from _walk(item)


def _text_lines(layout: Iterable[Any]) -> Iterator[Any]:
    from pdfminer.layout import LTTextBox, LTTextLine

    for item in _walk(layout):
        if isinstance(item, LTTextBox):
            yield from (line for line in item if isinstance(line, LTTextLine))
        elif isinstance(item, LTTextLine):
            yield item


def _lines(items: Iterable[Any]) -> str:
    """Pieces of text at the same height as one line, left to right; lines from top to bottom."""
    rows: list[list[Any]] = []
    for item in sorted(items, key=lambda i: (-(i.y0 + i.y1) / 2, i.x0)):
        middle = (item.y0 + item.y1) / 2
        if rows:
            first = rows[-1][0]
            if abs((first.y0 + first.y1) / 2 - middle) <= 0.4 * max(min(first.height, item.height), 1.0):
                rows[-1].append(item)
                continue
        rows.append([item])
    return "\n".join("  ".join(i.get_text().strip() for i in sorted(row, key=lambda i: i.x0)) for row in rows)


def _dehyphenated(text: str) -> str:
    import re

    return re.sub(r"(?<=[a-zà-ÿ])-\n(?=[a-zà-ÿ])", "", text)
