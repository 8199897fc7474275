"""The tools that put a thing on a slide: add_image, insert_table, add_shape. Positions are in inches."""

from __future__ import annotations

import io
from typing import Any

from pptx.dml.color import RGBColor
from pptx.enum.shapes import MSO_SHAPE
from pptx.enum.text import MSO_ANCHOR, MSO_AUTO_SIZE, PP_ALIGN
from pptx.util import Emu, Inches, Pt

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.context import Context
from envkit.harnesses.archipelago.servers.slides import arguments as args
from envkit.harnesses.archipelago.servers.slides import placeholders, results, texts
from envkit.harnesses.archipelago.servers.slides.deckfile import DeckFile, all_shapes, inches, pictures
from envkit.harnesses.archipelago.servers.slides.filling import add_table, number_new_shape
from envkit.harnesses.archipelago.servers.slides.fitting import lines_needed
from envkit.harnesses.archipelago.servers.slides.placeholders import Area
from envkit.office.image import read_image

__all__ = ["add_image", "add_shape", "insert_table"]

_SHAPES = {
    "rectangle": MSO_SHAPE.RECTANGLE, "rounded_rectangle": MSO_SHAPE.ROUNDED_RECTANGLE, "oval": MSO_SHAPE.OVAL,
    "triangle": MSO_SHAPE.ISOSCELES_TRIANGLE, "right_arrow": MSO_SHAPE.RIGHT_ARROW,
    "left_arrow": MSO_SHAPE.LEFT_ARROW, "up_arrow": MSO_SHAPE.UP_ARROW, "down_arrow": MSO_SHAPE.DOWN_ARROW,
    "pentagon": MSO_SHAPE.REGULAR_PENTAGON, "hexagon": MSO_SHAPE.HEXAGON, "star": MSO_SHAPE.STAR_5_POINT,
    "heart": MSO_SHAPE.HEART, "lightning_bolt": MSO_SHAPE.LIGHTNING_BOLT, "cloud": MSO_SHAPE.CLOUD,
}  # fmt: skip


def _on_slide(deck: DeckFile, area: Area) -> list[str]:
    """What to say of an area that reaches beyond the slide. Raises `ToolError` where none of it is on the slide."""
    width, height = _slide_size(deck)
    size = f"the slide is {inches(width)} x {inches(height)} inches"
    if area.left >= width or area.top >= height or area.left + area.width <= 0 or area.top + area.height <= 0:
        place = f"x={inches(area.left)}, y={inches(area.top)}"
        raise ToolError(f"nothing of it would be seen: {place} puts it beside the slide; {size}")
    slack = 12_700
    over = area.left < -slack or area.top < -slack
    over = over or area.left + area.width > width + slack or area.top + area.height > height + slack
    return [f"it reaches beyond the edge ({size})"] if over else []


def _slide_size(deck: DeckFile) -> tuple[int, int]:
    return int(deck.presentation.slide_width or 9_144_000), int(deck.presentation.slide_height or 6_858_000)


def add_image(arguments: args.AddImage, context: Context) -> results.AddImageResult:
    """Puts a picture on a slide."""
    deck = DeckFile(arguments.file_path, context)
    slide = deck.slide(arguments.slide_index)
    source = context.path(arguments.image_path, must_exist=True)
    if source.suffix.lower() in (".svg", ".emf", ".wmf", ".pdf"):
        raise ToolError(f"{context.shown(source)} is no picture of points; convert it to png first")
    picture = context.parse(source, read_image)
    data = context.read(source)
    if picture.format == "webp":
        data = _as_png(data)
    said: list[str] = []
    left, top = Inches(arguments.x), Inches(arguments.y)
    width = None if arguments.width is None else Inches(arguments.width)
    height = None if arguments.height is None else Inches(arguments.height)
    context.file = deck.path
    shape = slide.shapes.add_picture(io.BytesIO(data), left, top, width, height)
    if width is None and height is None:
        said += _shrunk(deck, shape)
    number_new_shape(slide, shape)
    shape.name = f"Picture {shape.shape_id}"
    named: Any = next(shape._element.iter("{http://schemas.openxmlformats.org/presentationml/2006/main}cNvPr"))
    named.set("descr", texts.clean(source.stem.replace("_", " ")))
    said += _on_slide(deck, Area(int(shape.left), int(shape.top), int(shape.width), int(shape.height)))
    number = pictures(all_shapes(slide)).index(shape._element)
    deck.save()
    position, size = [inches(shape.left), inches(shape.top)], [inches(shape.width), inches(shape.height)]
    done = f"put {context.shown(source)} on slide {arguments.slide_index} at {position[0]}, {position[1]} inches, "
    done += f"{size[0]} x {size[1]} inches"
    return results.AddImageResult(
        slide_index=arguments.slide_index,
        position=position,
        size=size,
        annotation=f"slide{arguments.slide_index}_img{number}",
        message="; ".join([done, *said]),
    )


def _as_png(data: bytes) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    with Image.open(io.BytesIO(data)) as image:
        image.convert("RGBA").save(out, "PNG")
    return out.getvalue()


def _shrunk(deck: DeckFile, shape: Any) -> list[str]:
    """Makes a picture of its own size no larger than the slide has room for from where it begins."""
    slide_width, slide_height = _slide_size(deck)
    room = slide_width - max(int(shape.left), 0), slide_height - max(int(shape.top), 0)
    if room[0] <= 0 or room[1] <= 0 or not shape.width or not shape.height:
        return []
    scale = min(room[0] * 0.95 / shape.width, room[1] * 0.95 / shape.height)
    if scale >= 1 or (shape.width <= room[0] and shape.height <= room[1]):
        return []
    shape.width, shape.height = Emu(int(shape.width * scale)), Emu(int(shape.height * scale))
    return ["made smaller to fit the slide"]


def insert_table(arguments: args.InsertTable, context: Context) -> results.InsertTableResult:
    """Puts a table on a slide."""
    deck = DeckFile(arguments.file_path, context)
    slide = deck.slide(arguments.slide_index)
    free = placeholders.clear_area(slide)
    slide_width, slide_height = _slide_size(deck)
    left = free.left if arguments.x is None else int(Inches(arguments.x))
    top = free.top if arguments.y is None else int(Inches(arguments.y))
    width = int(Inches(arguments.width)) if arguments.width is not None else slide_width - free.left - max(left, 0)
    if arguments.width is None and width < slide_width // 10:
        width = slide_width // 3
    height = int(Inches(arguments.height)) if arguments.height is not None else slide_height - top - slide_height // 12
    area = Area(left, top, width, max(height, slide_height // 10))
    said = _on_slide(deck, area)
    frame, fits = add_table(slide, arguments.rows, arguments.header, area, exact=arguments.height is not None)
    if not fits:
        said.append("its text may need more height than there is; use fewer rows or a larger height")
    deck.save()
    rows, cols = len(arguments.rows), len(arguments.rows[0])
    done = f"put a table of {rows} rows and {cols} columns on slide {arguments.slide_index} at {inches(frame.left)}, "
    done += f"{inches(frame.top)} inches, {inches(frame.width)} wide"
    return results.InsertTableResult(
        slide_index=arguments.slide_index, rows=rows, cols=cols, message="; ".join([done, *said])
    )


def add_shape(arguments: args.AddShape, context: Context) -> results.AddShapeResult:
    """Puts a shape on a slide, with text if it is given."""
    for name in ("text_color", "font_size"):
        if arguments.text is None and getattr(arguments, name) is not None:
            raise ToolError(f"{name} needs a text; give text too, or leave {name} out")
    deck = DeckFile(arguments.file_path, context)
    slide = deck.slide(arguments.slide_index)
    box = [int(Inches(n)) for n in (arguments.x, arguments.y, arguments.width, arguments.height)]
    said = _on_slide(deck, Area(*box))
    shape: Any = slide.shapes.add_shape(_SHAPES[arguments.shape_type], *(Emu(n) for n in box))
    number_new_shape(slide, shape)
    if arguments.fill_color is not None:
        shape.fill.solid()
        shape.fill.fore_color.rgb = _rgb(arguments.fill_color)
    if arguments.line_color is not None:
        shape.line.color.rgb = _rgb(arguments.line_color)
    if arguments.line_width == 0:
        shape.line.fill.background()
    elif arguments.line_width is not None:
        shape.line.width = Pt(arguments.line_width)
    if arguments.text is not None:
        said += _label(shape, arguments)
    deck.save()
    done = f"put a {arguments.shape_type} on slide {arguments.slide_index} at {arguments.x:g}, {arguments.y:g} inches"
    return results.AddShapeResult(
        slide_index=arguments.slide_index,
        shape_type=arguments.shape_type,
        position=[arguments.x, arguments.y],
        message="; ".join([done, *said]),
    )


def _rgb(digits: str) -> RGBColor:
    return RGBColor(*bytes.fromhex(digits))  # type: ignore[no-untyped-call]


def _label(shape: Any, arguments: args.AddShape) -> list[str]:
    """Text in the middle of a shape, in lines that fit; as small as need be where no size is asked for."""
    frame = shape.text_frame
    frame.word_wrap = True
    frame.vertical_anchor = MSO_ANCHOR.MIDDLE
    text = arguments.text or ""
    texts.set_paragraphs(frame._txBody, text.split("\n"))
    for paragraph in frame.paragraphs:
        paragraph.alignment = PP_ALIGN.CENTER
    # The text of what is not a rectangle has about two thirds of it.
    share = 1.0 if "rectangle" in arguments.shape_type else 0.65
    width, height = arguments.width * 72 * share - 14.4, arguments.height * 72 * share - 7.2

    def fits(size: float) -> bool:
        return lines_needed(text, size, max(width, 1.0)) * size * 1.2 <= height

    size = arguments.font_size
    if size is None and not fits(18.0):
        size = next((s for s in (16.0, 14.0, 12.0, 11.0, 10.0, 9.0) if fits(s)), 8.0)
    texts.format_runs(frame._txBody, size=size, colour=arguments.text_color)
    frame.auto_size = MSO_AUTO_SIZE.NONE
    return [] if fits(size or 18.0) else ["its text is longer than the shape has room for"]
