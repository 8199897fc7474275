"""The canonical model of a slide deck: slides in the order shown, their shapes through groups, and what they say.

Frozen and comparable. Formatting is effective: what layouts, masters, themes and defaults give is already in it. Names
and numbers that only say where something stands take no part in equality.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from envkit.office.chart import Chart
from envkit.office.drawing import Diagram, Embedded, Image
from envkit.office.rich import PLAIN, Format

__all__ = ["Box", "Deck", "Shape", "Slide", "SlideCell", "SlideComment", "SlideParagraph", "TextRun"]


@dataclass(frozen=True, slots=True)
class TextRun:
    """A stretch of text of one look. `link` is where it leads ("#slide" for a place in the deck); `field` is the kind
    of the field whose saved result this is (`slidenum`, `datetime1`)."""

    text: str
    format: Format = PLAIN
    link: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True)
class SlideParagraph:
    """A paragraph of a shape. `level` counts from 0; `bullet` is its character, the kind of its number
    (`arabicPeriod`), or ""."""

    runs: tuple[TextRun, ...] = ()
    level: int = 0
    align: str = "left"
    bullet: str = ""

    @property
    def text(self) -> str:
        return "".join(run.text for run in self.runs)


@dataclass(frozen=True, slots=True)
class Box:
    """Where a shape stands on its slide, in points, groups and layouts resolved. Rotation in degrees."""

    x: float
    y: float
    width: float
    height: float
    rotation: float = 0.0


@dataclass(frozen=True, slots=True)
class SlideCell:
    """A table cell. `rows` and `columns` say how far it reaches; one that another reaches over has both 0. `styled` is
    what of its look comes from the table's style: `fill`, and attributes of a `Format`."""

    paragraphs: tuple[SlideParagraph, ...]
    rows: int = 1
    columns: int = 1
    fill: str = ""
    styled: tuple[tuple[str, Any], ...] = field(default=(), compare=False)

    @property
    def text(self) -> str:
        return "\n".join(p.text for p in self.paragraphs).strip()


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape, picture, table, chart, diagram, object or connector.

    Attributes:
        kind: `text` (any shape that can hold text), `picture`, `table`, `chart`, `diagram`, `object`, `media`,
            `connector`, `control`.
        placeholder: Its role (`title`, `body`, `ftr`, ...), "" for a shape of the slide's own.
        groups: How many groups it is in.
        object: Of an embedded object, its program and the digest of what it holds; `inside` is the file in it.
        table_style: The name of a table's style; `table_look` what it treats apart (`firstRow`, `bandRow`, ...).
        autofit: Which of its sizes follow its text: `height`, `both` or "".
        fill: The colour it is filled with, `none`, or "" when the file leaves it open or fills it otherwise.
    """

    kind: str
    name: str = field(default="", compare=False)
    placeholder: str = ""
    paragraphs: tuple[SlideParagraph, ...] = ()
    table: tuple[tuple[SlideCell, ...], ...] = ()
    chart: Chart | None = None
    diagram: Diagram | None = None
    image: Image | None = None
    object: str = ""
    inside: Embedded | None = field(default=None, compare=False)
    table_style: str = ""
    table_look: tuple[str, ...] = ()
    alt: str = ""
    box: Box | None = None
    groups: int = 0
    geometry: str = ""
    fill: str = ""
    link: str = ""
    autofit: str = ""
    hidden: bool = False

    @property
    def text(self) -> str:
        return "\n".join(p.text for p in self.paragraphs)


@dataclass(frozen=True, slots=True)
class SlideComment:
    """A comment on a slide; `reply_to` is the text of the comment it answers, "" for none."""

    text: str
    author: str = ""
    reply_to: str = ""
    date: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Slide:
    """One slide. `number` counts from 1 over all slides; `texts` holds a text per shape, table row, chart and diagram;
    `shapes` are in the order in which they are drawn; `section` is the name of the section it is in."""

    number: int = field(compare=False)
    title: str
    texts: tuple[str, ...]
    tables: tuple[tuple[tuple[str, ...], ...], ...]
    charts: int
    pictures: int
    notes: str
    hidden: bool
    layout: str = ""
    shapes: tuple[Shape, ...] = ()
    comments: tuple[SlideComment, ...] = ()
    background: str = ""
    section: str = ""

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


@dataclass(frozen=True, slots=True)
class Deck:
    """A deck; `shown` leaves hidden slides out. `size` is that of a slide, in points.

    `sections` are the names of its sections, empty ones included. `keeps_layouts` says whether the program that saved
    it keeps the layouts of slides; LibreOffice gives every slide one of its own, named by what it takes it for.
    """

    slides: tuple[Slide, ...]
    size: tuple[float, float] = (0.0, 0.0)
    sections: tuple[str, ...] = ()
    keeps_layouts: bool = field(default=True, compare=False)
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> tuple[Slide, ...]:
        return tuple(s for s in self.slides if not s.hidden)
