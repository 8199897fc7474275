"""What a PDF holds. Boxes are (left, top, right, bottom) in points from the page's top left corner, as it is shown."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "Annotation", "Attachment", "Block", "Box", "FormField", "OutlineItem", "Page", "Pdf", "PdfTable", "Picture",
    "Word", "packed",
]  # fmt: skip

Box = tuple[float, float, float, float]


class Word(NamedTuple):
    """One word and where it stands."""

    text: str
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading, list item or other stretch of lines that belong together, its lines joined by spaces."""

    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class PdfTable:
    """A table; cells covered by a merged one are empty. `ruled`: found by its lines, not by how its words stand."""

    rows: tuple[tuple[str, ...], ...]
    box: Box
    ruled: bool


@dataclass(frozen=True, slots=True)
class Picture:
    box: Box


@dataclass(frozen=True, slots=True)
class Annotation:
    """A note, highlight, link and so on: `kind` in lower case, `target` the address of a link to the web."""

    kind: str
    text: str
    author: str
    target: str
    box: Box


@dataclass(frozen=True, slots=True)
class FormField:
    """A form's field: `kind` is `text`, `checkbox`, `radio`, `combo`, `list`, `button` or `signature`."""

    name: str
    kind: str
    value: str
    page: int


@dataclass(frozen=True, slots=True)
class OutlineItem:
    """An entry of the outline (bookmarks): its level from 1, the number of the page it leads to (None: nowhere)."""

    level: int
    title: str
    page: int | None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file inside the PDF. `data` is None where it is too large to be taken out."""

    name: str
    size: int
    sha256: str
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    Attributes:
        by_lines: Its text by lines across the page, two spaces where there is a wide gap.
        by_blocks: Its text in reading order, columns one after the other, form feeds between paragraphs; words
            hyphenated at a line's end are joined.
        blocks: Its paragraphs in reading order, without what stands in tables.
        scanned: It shows pictures and hardly any text: it needs OCR.
        order: How blocks and tables follow each other: `n` is block n, `-n - 1` is table n; see `parts`.
        word_texts, word_boxes: Its words in reading order, packed; see `words`.
    """

    number: int
    width: float
    height: float
    by_lines: str
    by_blocks: str
    blocks: tuple[Block, ...] = ()
    tables: tuple[PdfTable, ...] = ()
    pictures: tuple[Picture, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    scanned: bool = False
    order: tuple[int, ...] = ()
    word_texts: str = ""
    word_boxes: bytes = b""

    @property
    def words(self) -> tuple[Word, ...]:
        """Its words with their boxes, in reading order."""
        texts = self.word_texts.split("\n") if self.word_texts else []
        boxes = struct.iter_unpack("<4i", self.word_boxes)
        return tuple(Word(t, *(v / 100 for v in box)) for t, box in zip(texts, boxes, strict=True))

    @property
    def parts(self) -> tuple[Block | PdfTable, ...]:
        """Blocks and tables together, in reading order."""
        return tuple(self.blocks[n] if n >= 0 else self.tables[-n - 1] for n in self.order)

    @property
    def needs_ocr(self) -> bool:
        return self.scanned


def packed(words: list[Word]) -> tuple[str, bytes]:
    """Words in the form that a page keeps: a hundredth of the memory of as many tuples."""
    texts = "\n".join(w.text for w in words)
    return texts, b"".join(struct.pack("<4i", *(round(max(-2e7, min(2e7, v)) * 100) for v in w[1:])) for w in words)


@dataclass(frozen=True, slots=True)
class Pdf:
    """A PDF. `metadata` holds what people wrote (Title, Author, Subject, Keywords), filled entries alone. `count` is
    how many pages the file has: `pages` holds fewer where only some were asked for."""

    pages: tuple[Page, ...]
    metadata: tuple[tuple[str, str], ...] = ()
    outline: tuple[OutlineItem, ...] = ()
    fields: tuple[FormField, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    count: int = 0

    @property
    def by_lines(self) -> str:
        return "\f".join(p.by_lines for p in self.pages)

    @property
    def by_blocks(self) -> str:
        return "\f".join(p.by_blocks for p in self.pages)

    @property
    def needs_ocr(self) -> tuple[int, ...]:
        """The numbers of the pages that are pictures without text."""
        return tuple(p.number for p in self.pages if p.scanned)
