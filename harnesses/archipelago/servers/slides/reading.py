"""The reading tools: whole deck, one slide with its parts, a stretch of the deck's text, one picture.

All that a slide says is read: tables, grouped shapes, charts with their series and values, diagrams, notes. Pictures
have keys `slide{i}_img{j}` that are worked out from the file each time, so that they hold in a fresh process.
"""

from __future__ import annotations

import io
import re
from typing import Any

from envkit.harnesses.archipelago.servers.app import Image, ToolError
from envkit.harnesses.archipelago.servers.context import Context
from envkit.harnesses.archipelago.servers.slides import arguments as args
from envkit.harnesses.archipelago.servers.slides import results
from envkit.harnesses.archipelago.servers.slides.deckfile import deck_path, pictures
from envkit.office.deck import Deck, Shape, Slide, read_deck
from envkit.office.deck.looks import A, P, R
from envkit.office.deck.shapes import found_shapes
from envkit.office.drawing import Part
from envkit.office.gate import identify
from envkit.office.package import Package

__all__ = ["read_completedeck", "read_image", "read_individualslide", "read_slides"]

#: Characters of one answer of read_slides.
WINDOW = 10_000
_POINTS = 72.0
#: The longest side and the most bytes of a picture that is shown as it is.
_LONGEST, _LARGEST = 2048, 4 << 20
_SHOWN = {"png": "image/png", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
_KEY = re.compile(r"\s*slide(\d{1,5})_img(\d{1,5})\s*$", re.IGNORECASE)


def read_completedeck(arguments: args.ReadDeck, context: Context) -> results.DeckResult:
    """Every slide: its title and all it says."""
    path = deck_path(arguments.file_path, context)
    deck = context.parse(path, read_deck)
    slides = [
        results.SlideEntry(
            slide_index=i,
            title=slide.title,
            layout=slide.layout,
            section=slide.section,
            hidden=slide.hidden,
            content="\n".join(_content(slide, i)),
            notes=slide.notes.strip(),
        )
        for i, slide in enumerate(deck.slides)
    ]
    hidden = sum(s.hidden for s in slides)
    message = f"{_count(len(slides), 'slide')}" + (f", {hidden} of them hidden" if hidden else "")
    return results.DeckResult(
        file_path=context.shown(path), total_slides=len(slides), slides=slides, message=f"{message}; indices from 0"
    )


def read_slides(arguments: args.ReadRange, context: Context) -> results.RangeResult:
    """A stretch of the deck's text, by characters."""
    path = deck_path(arguments.file_path, context)
    text = _whole(context.parse(path, read_deck))
    start = arguments.start or 0
    if arguments.end is not None and arguments.end <= start:
        raise ToolError(f"end must lie after start: found start {start} and end {arguments.end}")
    if start and start >= len(text):
        raise ToolError(f"start {start} lies beyond the deck's text, which has {len(text):,} characters")
    end = min(arguments.end or start + WINDOW, start + WINDOW, len(text))
    message = f"characters {start:,} to {end:,} of {len(text):,}"
    if end < len(text):
        message += f"; go on with start={end}"
    return results.RangeResult(content=text[start:end], start=start, end=end, total_length=len(text), message=message)


def read_individualslide(arguments: args.ReadSlide, context: Context) -> results.SlideResult:
    """One slide with every shape on it."""
    path = deck_path(arguments.file_path, context)
    deck, package = context.parse(path, _both)
    index = arguments.slide_index
    if index >= len(deck.slides):
        raise ToolError(_no_slide(index, deck, context.shown(path)))
    slide = deck.slides[index]
    root = package.xml(_slide_parts(package)[index])
    elements = [element for element, _ in found_shapes(root.find(f"{P}cSld/{P}spTree"))]
    parts = _Components(index)
    # Controls come after the shapes and have no element among them.
    elements += [None] * (len(slide.shapes) - len(elements))
    components = [parts.component(shape, element) for shape, element in zip(slide.shapes, elements, strict=True)]
    images = parts.images
    said = [_count(len(components), "shape")]
    said += [_count(len(images), "picture")] if images else []
    return results.SlideResult(
        slide_index=index,
        total_slides=len(deck.slides),
        title=slide.title,
        layout=slide.layout,
        section=slide.section,
        hidden=slide.hidden,
        components=components,
        images=images,
        notes=slide.notes.strip(),
        comments=[results.Comment(author=c.author, text=c.text, reply_to=c.reply_to) for c in slide.comments],
        message=f"slide {index} of {len(deck.slides)} (indices from 0): {', '.join(said)}; positions in inches",
    )


def read_image(arguments: args.ReadImage, context: Context) -> Image:
    """One picture of the deck."""
    path = deck_path(arguments.file_path, context)
    match = _KEY.match(arguments.annotation)
    if match is None:
        raise ToolError(
            f"{arguments.annotation!r} is no key of a picture; expected slide{{i}}_img{{j}}, e.g. slide0_img0, as "
            "read_individualslide lists them"
        )
    slide_index, image_index = int(match[1]), int(match[2])
    deck, package = context.parse(path, _both)
    if slide_index >= len(deck.slides):
        raise ToolError(_no_slide(slide_index, deck, context.shown(path)))
    part = Part(package, _slide_parts(package)[slide_index])
    tree = part.root().find(f"{P}cSld/{P}spTree")
    found = pictures(element for element, _ in found_shapes(tree))
    if image_index >= len(found):
        keys = ", ".join(f"slide{slide_index}_img{j}" for j in range(len(found))) or "none"
        raise ToolError(f"slide {slide_index} has no picture {image_index}; its pictures: {keys}")
    blip = found[image_index].find(f"{P}blipFill/{A}blip")
    target = part.target(blip.get(f"{R}embed")) if blip is not None else None
    if target is None:
        where = part.external(blip.get(f"{R}link")) if blip is not None else ""
        raise ToolError("the picture is not in the file" + (f"; it is linked from {where}" if where else ""))
    return _shown(package.read(target), target)


def _shown(data: bytes, name: str) -> Image:
    """A picture as a model can see it: its own bytes where they will do, else made smaller or turned into a PNG."""
    from PIL import Image as Pillow
    from PIL import UnidentifiedImageError

    kind = identify(data)
    if kind not in ("png", "jpeg", "gif", "webp", "bmp", "tiff"):
        suffix = name.rpartition(".")[2].lower()
        raise ToolError(
            f"the picture is a drawing of type {suffix}, which can't be shown; convert the deck with "
            "`soffice --convert-to pdf` and look at the page"
        )
    try:
        with Pillow.open(io.BytesIO(data)) as image:
            if kind in _SHOWN and max(image.size) <= _LONGEST and len(data) <= _LARGEST:
                image.load()
                return Image(data, _SHOWN[kind])
            if image.width * image.height > 80_000_000:
                raise ToolError(f"the picture is too large to be shown: {image.width} x {image.height} pixels")
            plain = image.convert("RGBA" if "A" in image.mode or image.mode == "P" else "RGB")
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Pillow.DecompressionBombError) as error:
        raise ToolError(f"the picture is broken and can't be shown: {error}") from error
    plain.thumbnail((_LONGEST, _LONGEST))
    out = io.BytesIO()
    if plain.mode == "RGB":
        plain.save(out, "JPEG", quality=88)
        return Image(out.getvalue(), "image/jpeg")
    plain.save(out, "PNG")
    return Image(out.getvalue(), "image/png")


def _both(data: bytes) -> tuple[Deck, Package]:
    """The deck and its package, of the same bytes."""
    return read_deck(data), Package(data, "presentationml")


def _slide_parts(package: Package) -> list[str]:
    """The parts of the slides in order, as the reader takes them."""
    relations = package.relations(package.main)
    out: list[str] = []
    for element in package.xml(package.main).iterfind(f"{P}sldIdLst/{P}sldId"):
        kind, part = relations.get(element.get(f"{R}id", ""), ("", ""))
        if kind.endswith("/slide") and package.has(part):
            out.append(part)
    return out


def _no_slide(index: int, deck: Deck, shown: str) -> str:
    has = f"{len(deck.slides)} slides (0 to {len(deck.slides) - 1})" if deck.slides else "no slides"
    return f"there is no slide with index {index}: {shown} has {has}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


class _Components:
    """The shapes of one slide as objects; pictures and tables are numbered as the writing tools count them."""

    def __init__(self, slide_index: int) -> None:
        self.slide_index = slide_index
        self.images: list[results.ImageEntry] = []
        self.tables = 0

    def component(self, shape: Shape, element: Any) -> results.Component:
        place = _placed(shape)
        if shape.kind == "picture":
            number = len(self.images)
            key = f"slide{self.slide_index}_img{number}"
            linked = shape.image is not None and not shape.image.hash
            note = f"not in the file; linked from {shape.image.source}" if linked and shape.image is not None else ""
            self.images.append(
                results.ImageEntry(
                    annotation=key,
                    slide_index=self.slide_index,
                    image_index=number,
                    width=place["width"],
                    height=place["height"],
                    alt=shape.alt,
                    note=note,
                )
            )
            return results.PictureComponent(annotation=key, image_index=number, **place)
        if shape.kind == "table":
            self.tables += 1
            merged = [
                f"row {r} column {c}: {cell.rows} rows x {cell.columns} columns"
                for r, row in enumerate(shape.table)
                for c, cell in enumerate(row)
                if cell.rows > 1 or cell.columns > 1
            ]
            rows = [[cell.text for cell in row] for row in shape.table]
            return results.TableComponent(table_idx=self.tables - 1, rows=rows, merged=merged, **place)
        if shape.chart is not None:
            chart = shape.chart
            series = [
                results.ChartSeries(name=s.name, kind=s.kind, categories=list(s.categories), values=list(s.values))
                for s in chart.series
            ]
            return results.ChartComponent(
                chart_types=list(chart.kinds),
                title=chart.title,
                axis_titles=[t for t in chart.axis_titles if t],
                series=series,
                **place,
            )
        if shape.diagram is not None:
            return results.DiagramComponent(texts=list(shape.diagram.texts), **place)
        if shape.kind == "text" and element is not None:
            paragraphs = _paragraphs(shape, element)
            if len(paragraphs) == 1 and not (paragraphs[0].level or paragraphs[0].bullet or paragraphs[0].link):
                paragraphs = paragraphs if paragraphs[0].runs else []  # the text says it all
            return results.TextComponent(text=shape.text, shape=shape.geometry, paragraphs=paragraphs, **place)
        kind: Any = shape.kind if shape.kind in ("media", "connector", "control") else "object"
        return results.DrawnComponent(type=kind, shape=shape.geometry, object=shape.object, **place)


def _placed(shape: Shape) -> dict[str, Any]:
    box = shape.box
    numbers = (box.x, box.y, box.width, box.height) if box is not None else (0.0,) * 4
    x, y, width, height = (round(n / _POINTS, 2) for n in numbers)
    return {
        "name": shape.name, "placeholder": shape.placeholder, "x": x, "y": y, "width": width, "height": height,
        "rotation": box.rotation if box is not None else 0.0, "groups": shape.groups, "hidden": shape.hidden,
        "alt": shape.alt, "link": shape.link,
    }  # fmt: skip


def _paragraphs(shape: Shape, element: Any) -> list[results.ParagraphEntry]:
    """The paragraphs with the runs as the file has them: what run_index counts."""
    stored = element.findall(f"{P}txBody/{A}p")
    out: list[results.ParagraphEntry] = []
    for paragraph, source in zip(shape.paragraphs, stored, strict=True):
        runs = ["".join(t.text or "" for t in run.iterfind(f"{A}t")) for run in source.iterfind(f"{A}r")]
        link = next((r.link for r in paragraph.runs if r.link), "")
        out.append(
            results.ParagraphEntry(
                text=paragraph.text, level=paragraph.level, bullet=paragraph.bullet if paragraph.text.strip() else "",
                link=link, runs=runs if len(runs) > 1 else [],
            )
        )  # fmt: skip
    return out


# --- text for reading ---


def _whole(deck: Deck) -> str:
    lines: list[str] = []
    for index, slide in enumerate(deck.slides):
        head = f"# Slide {index + 1} of {len(deck.slides)} (slide_index {index})"
        lines += [head + (" [hidden]" if slide.hidden else ""), *_content(slide, index)]
        if slide.notes.strip():
            lines += ["Notes:", *(f"> {line}" for line in slide.notes.strip().splitlines())]
        lines += [f"Comment by {c.author or 'somebody'}: {c.text}" for c in slide.comments]
        lines.append("")
    return "\n".join(lines).strip() or "(the deck has no slides)"


def _content(slide: Slide, index: int) -> list[str]:
    """What a slide says, shape by shape."""
    out: list[str] = []
    picture = table = 0
    for shape in slide.shapes:
        if shape.kind == "picture":
            out.append(f"[picture slide{index}_img{picture}" + (f": {shape.alt}]" if shape.alt else "]"))
            picture += 1
        elif shape.kind == "table":
            out += [f"[table {table}]", *_table(shape)]
            table += 1
        elif shape.chart is not None:
            out += _chart(shape)
        elif shape.diagram is not None:
            out += ["[diagram]", *(f"- {text}" for text in shape.diagram.texts)]
        elif shape.kind in ("object", "media", "control"):
            out.append(f"[{shape.kind}" + (f": {shape.alt or shape.name}]" if shape.alt or shape.name else "]"))
        elif shape.placeholder == "title" and shape.text.strip():
            out.append(f"## {' '.join(shape.text.split())}")
        else:
            out += _text(shape)
    return out


def _text(shape: Shape) -> list[str]:
    if shape.placeholder in ("sldNum", "dt"):
        return []
    out: list[str] = []
    for paragraph in shape.paragraphs:
        if not paragraph.text.strip():
            continue
        mark = "- " if paragraph.bullet else ""
        links = [f" ({r.link})" for r in paragraph.runs if r.link and not r.link.startswith("#")]
        out.append("  " * paragraph.level + mark + paragraph.text.replace("\n", " ") + "".join(dict.fromkeys(links)))
    return out


def _table(shape: Shape) -> list[str]:
    lines = ["| " + " | ".join(_cell(c.text) for c in row) + " |" for row in shape.table]
    if shape.table:
        lines.insert(1, "|" + " --- |" * len(shape.table[0]))
    return lines


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _chart(shape: Shape) -> list[str]:
    chart = shape.chart
    if chart is None:
        return []
    out = [f"[chart: {', '.join(chart.kinds) or 'unknown kind'}]" + (f" {chart.title}" if chart.title else "")]
    out += [f"axis: {title}" for title in chart.axis_titles if title]
    for series in chart.series:
        pairs = [
            f"{series.categories[i] if i < len(series.categories) else i + 1} = {value or '(none)'}"
            for i, value in enumerate(series.values)
        ]
        out.append(f"- {series.name or 'series'}: " + "; ".join(pairs))
    return out
