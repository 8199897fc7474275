"""Reading a pptx file into the canonical model."""

from __future__ import annotations

from typing import Any

from envkit.office.chart import Chart
from envkit.office.deck.looks import A, Looks, Master, P, R, placeholder_of
from envkit.office.deck.model import Deck, Shape, Slide, SlideComment
from envkit.office.deck.shapes import MAX_SHAPES, ShapeReader, controls_of, found_shapes
from envkit.office.deck.tables import table_styles
from envkit.office.drawing import Part
from envkit.office.package import Package
from envkit.office.problem import Problem, Unreadable
from envkit.office.properties import read_properties

__all__ = ["read_deck"]

_P14 = "{http://schemas.microsoft.com/office/powerpoint/2010/main}"
_P188 = "{http://schemas.microsoft.com/office/powerpoint/2018/8/main}"
_EMU = 12_700
#: Tags of one slide beyond which a file is not parsed.
MAX_TAGS = 2_000_000
_NO_NOTES = ("sldNum", "dt", "hdr", "ftr", "sldImg")


class _Reader:
    def __init__(self, package: Package) -> None:
        self.package = package
        self.part = Part(package, package.main)
        self.root = self.part.root()
        self.defaults = self.root.find(f"{P}defaultTextStyle")
        self.masters: dict[str, Master] = {}
        self.shapes = MAX_SHAPES
        self.authors = self._authors()
        self.table_styles = table_styles(package)

    def _authors(self) -> dict[str, str]:
        out: dict[str, str] = {}
        for kind, tag in (("commentAuthors", f"{P}cmAuthor"), ("authors", f"{_P188}author")):
            for part in self.package.related(self.package.main, kind):
                for element in self.package.xml(part).iter(tag):
                    out[element.get("id", "")] = element.get("name", "")
        return out

    def master(self, part: str | None) -> Master | None:
        if part is None:
            return None
        if part not in self.masters:
            self.masters[part] = Master.read(Part(self.package, part))
        return self.masters[part]

    def slide(self, name: str, number: int, section: str) -> Slide:
        if self.package.read(name).count(b"<") > MAX_TAGS:
            raise Unreadable(Problem.TOO_BIG, f"slide {number} has more than {MAX_TAGS} tags")
        part = Part(self.package, name)
        root = part.root()
        layout_name = next(self.package.related(name, "slideLayout"), None)
        layout = self.master(layout_name)
        above = next(self.package.related(layout_name, "slideMaster"), None) if layout_name is not None else None
        looks = Looks(layout, self.master(above), self.defaults)
        reader = ShapeReader(part, looks, self.table_styles)
        shapes: list[Shape] = []
        for element, frame in found_shapes(root.find(f"{P}cSld/{P}spTree")):
            self.shapes -= 1
            if self.shapes < 0:
                raise Unreadable(Problem.TOO_BIG, f"it has more than {MAX_SHAPES} shapes")
            shapes.append(reader.read(element, frame))
        shapes += [reader.control(element) for element in controls_of(root)]
        notes = "\n".join(_notes(self.package.xml(other)) for other in self.package.related(name, "notesSlide"))
        titles = (" ".join(s.text.split()) for s in shapes if s.placeholder == "title" and s.kind == "text")
        tables = tuple(tuple(tuple(cell.text for cell in row) for row in s.table) for s in shapes if s.kind == "table")
        return Slide(
            number=number,
            title=next((t for t in titles if t), ""),
            texts=tuple(text for s in shapes for text in _texts(s)),
            tables=tables,
            charts=sum(s.kind == "chart" for s in shapes),
            pictures=sum(s.kind in ("picture", "media") for s in shapes),
            notes=notes,
            hidden=root.get("show") in ("0", "false"),
            layout=layout.name if layout is not None else "",
            shapes=tuple(shapes),
            comments=self._comments(name),
            background=_background(root, part, looks),
            section=section,
        )

    def _comments(self, name: str) -> tuple[SlideComment, ...]:
        out: list[SlideComment] = []
        for part in self.package.related(name, "comments"):
            root = self.package.xml(part)
            for element in root.iter(f"{P}cm"):
                text = element.find(f"{P}text")
                said = (text.text or "").strip() if text is not None else ""
                out.append(
                    SlideComment(said, self.authors.get(element.get("authorId", ""), ""), "", element.get("dt", ""))
                )
            for element in root.iter(f"{_P188}cm"):
                first = self._modern(element, "")
                out.append(first)
                out += [self._modern(reply, first.text) for reply in element.iter(f"{_P188}reply")]
        return tuple(out)

    def _modern(self, element: Any, parent: str) -> SlideComment:
        body = element.find(f"{_P188}txBody")
        text = "\n".join(_plain(body)).strip()
        author = self.authors.get(element.get("authorId", ""), "")
        return SlideComment(text, author, parent, element.get("created", ""))


def _plain(body: Any) -> list[str]:
    """The paragraphs of a text body as plain text."""
    out: list[str] = []
    for paragraph in body.iter(f"{A}p") if body is not None else ():
        pieces = ["\n" if e.tag == f"{A}br" else e.text or "" for e in paragraph.iter(f"{A}t", f"{A}br")]
        out.append("".join(pieces))
    return out


def _texts(shape: Shape) -> list[str]:
    """What a shape says, as `Slide.texts` holds it."""
    if shape.kind == "table":
        return [" | ".join(" ".join(cell.text.split()) for cell in row) for row in shape.table]
    if shape.chart is not None:
        return [_chart(shape.chart)]
    if shape.diagram is not None:
        return ["\n".join(shape.diagram.texts)]
    return [shape.text] if shape.text.strip() else []


def _chart(chart: Chart) -> str:
    """A chart's words and numbers: titles, then a line per series with its name, categories and values as saved."""
    lines = [" ".join(t.split()) for t in (chart.title, *chart.axis_titles)]
    lines += [" | ".join([s.name, *s.categories, *s.values]) for s in chart.series]
    return "\n".join(line for line in lines if line)


def _notes(root: Any) -> str:
    """The text of a notes page without slide numbers, dates and the like."""
    lines: list[str] = []
    for shape, _ in found_shapes(root.find(f"{P}cSld/{P}spTree")):
        holder = placeholder_of(shape)
        if holder is None or holder.get("type") not in _NO_NOTES:
            lines += _plain(shape.find(f"{P}txBody"))
    return "\n".join(lines)


def _background(root: Any, part: Part, looks: Looks) -> str:
    """A slide's own background: a colour, or the hash of its picture; "" when it is the master's or drawn otherwise."""
    properties = root.find(f"{P}cSld/{P}bg/{P}bgPr")
    if properties is None:
        return ""
    blip = properties.find(f"{A}blipFill/{A}blip")
    if blip is not None:
        return part.hash(blip.get(f"{R}embed"))
    return looks.colour(properties.find(f"{A}solidFill")) or ""


def read_deck(data: bytes) -> Deck:
    """Reads a pptx file. Raises `Unreadable`."""
    package = Package(data, "presentationml")
    reader = _Reader(package)
    relations = package.relations(package.main)
    slides: list[Slide] = []
    sections, members = _sections(reader.root)
    for element in reader.root.iterfind(f"{P}sldIdLst/{P}sldId"):
        kind, part = relations.get(element.get(f"{R}id", ""), ("", ""))
        if kind.endswith("/slide") and package.has(part):
            section = members.get(element.get("id", ""), "")
            slides.append(reader.slide(part, len(slides) + 1, section))
    size = reader.root.find(f"{P}sldSz")
    numbers = [size.get(k, "0") if size is not None else "0" for k in ("cx", "cy")]
    width, height = (int(n) / _EMU if n.isdecimal() and len(n) < 12 else 0.0 for n in numbers)
    measured = (round(width, 1), round(height, 1))
    return Deck(tuple(slides), measured, sections, _keeps_layouts(package), read_properties(package))


def _sections(root: Any) -> tuple[tuple[str, ...], dict[str, str]]:
    """The names of a deck's sections in order, and by a slide's id the one it is in."""
    names: list[str] = []
    members: dict[str, str] = {}
    for element in root.iter(f"{_P14}section"):
        names.append(element.get("name", ""))
        for slide in element.iter(f"{_P14}sldId"):
            members.setdefault(slide.get("id", ""), names[-1])
    return tuple(names), members


def _keeps_layouts(package: Package) -> bool:
    for part in package.related("", "extended-properties"):
        for element in package.xml(part):
            if str(element.tag).endswith("}Application"):
                return not (element.text or "").strip().startswith(("LibreOffice", "OpenOffice"))
    return True
