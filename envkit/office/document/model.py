"""The canonical model of a Word document: blocks in reading order, with everything that a reader of it would notice.

Frozen and comparable. Positions that only say where something stands (`number`, `list.group`, dates) take no part in
equality. Tracked changes are kept on the runs, so that one model gives three views: `original` (nothing accepted),
`final` (everything accepted) and `marked` (both, with marks).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from envkit.office.chart import Chart
from envkit.office.drawing import Diagram, Embedded, Image
from envkit.office.rich import PLAIN, Format

__all__ = [
    "Block", "Bookmark", "Cell", "Comment", "Control", "Document", "ListItem", "Note", "Paragraph", "ParagraphFormat",
    "Run", "Section", "SideText", "Style", "Table", "Tracked", "View",
]  # fmt: skip

View = Literal["original", "final", "marked"]


@dataclass(frozen=True, slots=True)
class Tracked:
    """A tracked change: `inserted`, `deleted`, `moved to` or `moved from`."""

    kind: str
    author: str = ""
    date: str = field(default="", compare=False)

    @property
    def adds(self) -> bool:
        return self.kind in ("inserted", "moved to")


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of text of one look.

    Attributes:
        text: Tabs are "\\t", breaks "\\n", page and column breaks "\\f". An equation is its linear text.
        link: Where a hyperlink leads, `#name` for a place in the document; "" without one.
        field: The instruction of the field whose result this is, blanks folded.
        tracked: The tracked changes it is part of; a deletion inside an insertion has both.
    """

    text: str
    format: Format = PLAIN
    link: str = ""
    field: str = ""
    tracked: tuple[Tracked, ...] = ()

    def shown(self, view: View) -> bool:
        if view == "final":
            return all(t.adds for t in self.tracked)
        return view == "marked" or not any(t.adds for t in self.tracked)


@dataclass(frozen=True, slots=True)
class ListItem:
    """A list label. `label` is as printed ("2.1", "b)", "•"); `kind` (`bullet`, `decimal`, ...) and `pattern` say how
    it is made, and don't change when items before it come and go. `group` tells runs of one counter apart."""

    label: str = field(compare=False)
    level: int
    kind: str
    pattern: str
    ordinal: int = field(default=0, compare=False)
    group: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ParagraphFormat:
    """The effective layout of a paragraph. Lengths in points; `line` is the line spacing as a multiple when positive
    and as points, negated, when fixed; `before` and `after` are -1 when left to the program."""

    align: str = "left"
    left: float = 0.0
    right: float = 0.0
    first: float = 0.0
    before: float = 0.0
    after: float = 0.0
    line: float = 1.0
    page_break: bool = False


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph. `text` is its final view; `level` is 1-9 for a heading, 0 for a title, None for other text; `style`
    is the style's name. `mark` is what is tracked about its end; `boxes` are the text boxes anchored in it. `objects`
    are embedded objects, each its program and the digest of what it holds; `insides` the files in them. `framed` says
    that it stands in a frame beside the text. `number` counts all paragraphs of the document in reading order."""

    text: str
    style: str = "Normal"
    level: int | None = None
    in_table: bool = False
    runs: tuple[Run, ...] = ()
    list: ListItem | None = None
    format: ParagraphFormat = ParagraphFormat()
    mark: tuple[Tracked, ...] = ()
    images: tuple[Image, ...] = ()
    charts: tuple[Chart, ...] = ()
    diagrams: tuple[Diagram, ...] = ()
    objects: tuple[str, ...] = ()
    insides: tuple[Embedded | None, ...] = field(default=(), compare=False)
    boxes: tuple[tuple[Block, ...], ...] = ()
    format_changes: tuple[Tracked, ...] = ()
    ends_section: bool = field(default=False, compare=False)
    framed: bool = field(default=False, compare=False)
    number: int = field(default=0, compare=False)

    def view(self, view: View) -> str:
        """The paragraph's own text in one view; in `marked`, insertions stand as `{+...+}`, deletions as `[-...-]`."""
        pieces: list[str] = []
        for run in self.runs:
            if run.shown(view):
                text = run.text
                if view == "marked":
                    for change in reversed(run.tracked):
                        text = f"{{+{text}+}}" if change.adds else f"[-{text}-]"
                pieces.append(text)
        return "".join(pieces)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as it stands in the grid: its place (from 0) and how far it reaches. `fill` is its background, ""
    without; `styled` is what of its look comes from the table's style: `fill`, and attributes of a `Format`."""

    blocks: tuple[Block, ...]
    row: int
    column: int
    columns: int = 1
    rows: int = 1
    fill: str = ""
    styled: tuple[tuple[str, Any], ...] = field(default=(), compare=False)

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.blocks).strip()


@dataclass(frozen=True, slots=True)
class Table:
    """A table: rows of cell texts. A horizontally merged cell stands once, followed by blanks for the columns it spans.

    A vertically merged cell keeps its text in its first row. `depth` is 0 for a table of the body. `cells` are the
    cells themselves, by row; `tracked` what is tracked about each row; `look` the kinds of cells that the style treats
    apart (`firstRow`, `bandRow`, ...).
    """

    rows: tuple[tuple[str, ...], ...]
    depth: int = 0
    cells: tuple[tuple[Cell, ...], ...] = ()
    style: str = ""
    tracked: tuple[tuple[Tracked, ...], ...] = ()
    look: tuple[str, ...] = ()
    number: int = field(default=0, compare=False)

    @property
    def text(self) -> str:
        return "\n".join(" | ".join(" ".join(c.split()) for c in row) for row in self.rows)


Block = Paragraph | Table


@dataclass(frozen=True, slots=True)
class Note:
    """A footnote or endnote (`kind`), in the order of its references; `paragraph` is the number of the one that refers
    to it."""

    kind: str
    blocks: tuple[Block, ...]
    paragraph: int = field(default=0, compare=False)

    @property
    def text(self) -> str:
        return "\n".join(b.text for b in self.blocks).strip()


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment. `anchor` is the text it is about, from paragraph number `first` to `paragraph`; `reply_to` the text of
    the comment it answers, "" for none; `id` the file's own name for it."""

    text: str
    author: str = ""
    anchor: str = ""
    reply_to: str = ""
    resolved: bool = False
    date: str = field(default="", compare=False)
    paragraph: int = field(default=0, compare=False)
    first: int = field(default=0, compare=False)
    id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Control:
    """A content control: its kind (`text`, `checkbox`, `date`, `dropdown`, ...), title, tag, text and, for a check box,
    state."""

    kind: str
    title: str
    tag: str
    text: str
    checked: bool | None = None
    paragraph: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A named place and the text it holds, from paragraph number `paragraph` to `last`. Those that Word makes for
    itself (`_Toc...`, `_GoBack`) are left out."""

    name: str
    text: str = ""
    paragraph: int = field(default=0, compare=False)
    last: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class SideText:
    """A header or footer: `side` is `header` or `footer`, `pages` is `default`, `first` or `even`."""

    side: str
    pages: str
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        return "\n".join(b.text for b in self.blocks if b.text.strip())


@dataclass(frozen=True, slots=True)
class Section:
    """A section. Lengths in points; `start` is how it begins (`nextPage`, `continuous`, ...); `sides` are the headers
    and footers that show in it, inherited ones included."""

    width: float = 0.0
    height: float = 0.0
    landscape: bool = False
    margins: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    columns: int = 1
    start: str = "nextPage"
    sides: tuple[SideText, ...] = ()
    paragraph: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Style:
    """A paragraph style in use: its effective look; `based_on` names the style it builds on."""

    name: str
    format: Format
    paragraph: ParagraphFormat
    based_on: str = ""


@dataclass(frozen=True)
class Document:
    """A document. `paragraphs` holds all of the body in order, those in tables and text boxes included; `blocks` the
    same as a tree."""

    paragraphs: tuple[Paragraph, ...]
    tables: tuple[Table, ...]
    headers_footers: tuple[str, ...] = ()
    footnotes: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    insertions: tuple[str, ...] = ()
    deletions: tuple[str, ...] = ()
    pictures: int = 0
    body: str = ""
    blocks: tuple[Block, ...] = ()
    notes: tuple[Note, ...] = ()
    remarks: tuple[Comment, ...] = ()
    controls: tuple[Control, ...] = ()
    bookmarks: tuple[Bookmark, ...] = ()
    sections: tuple[Section, ...] = ()
    styles: tuple[Style, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    protection: str = ""

    @property
    def headings(self) -> tuple[Paragraph, ...]:
        return tuple(p for p in self.paragraphs if p.level is not None and p.text.strip())

    @cached_property
    def images(self) -> tuple[Image, ...]:
        return tuple(image for p in self.paragraphs for image in p.images)

    def view(self, view: View) -> str:
        """The body's text in one view. Paragraphs that a tracked deletion joins stand joined in `final`, those that a
        tracked insertion split stand joined in `original`; rows tracked as deleted or inserted come and go likewise."""
        return "\n".join(_lines(self.blocks, view))


def _lines(blocks: tuple[Block, ...], view: View) -> Iterator[str]:
    held = ""
    for block in blocks:
        if isinstance(block, Table):
            if held:
                yield held
                held = ""
            for row, tracked in zip(block.cells, block.tracked, strict=True):
                if Run("", tracked=tracked).shown(view):
                    yield " | ".join(" ".join(" ".join(_lines(c.blocks, view)).split()) for c in row)
            continue
        text = held + block.view(view)
        if not Run("", tracked=block.mark).shown(view):
            held = text
            continue
        held = ""
        yield text
        for box in block.boxes:
            yield from _lines(box, view)
    if held:
        yield held
