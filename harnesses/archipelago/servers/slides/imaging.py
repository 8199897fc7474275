"""modify_image: one picture of a slide turned, flipped, made brighter, given more contrast, or cropped.

A turn is the shape's, as in PowerPoint. The others change the points of the picture, which get a part of their own:
another picture that showed the same file stays as it is. A crop keeps the scale: the shape shrinks to what stays.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

from pptx.slide import Slide

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.context import Context
from envkit.harnesses.archipelago.servers.slides import arguments as args
from envkit.harnesses.archipelago.servers.slides import results
from envkit.harnesses.archipelago.servers.slides.deckfile import DeckFile, all_shapes, pictures
from envkit.office.gate import identify
from envkit.office.image import read_image
from envkit.office.problem import Unreadable

__all__ = ["modify_image"]

_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_SVG = "{http://schemas.microsoft.com/office/drawing/2016/SVG/main}svgBlip"
_PILLOW = {"png": "PNG", "jpeg": "JPEG", "gif": "GIF", "bmp": "BMP", "tiff": "TIFF"}


def modify_image(arguments: args.ModifyImage, context: Context) -> results.ModifyImageResult:
    """Changes one picture and says how."""
    deck = DeckFile(arguments.file_path, context)
    slide = deck.slide(arguments.slide_index)
    found = pictures(all_shapes(slide))
    index = arguments.image_index
    if index >= len(found):
        has = f"pictures 0 to {len(found) - 1}" if found else "no pictures"
        raise ToolError(f"slide {arguments.slide_index} has no picture {index}; it has {has}")
    picture = found[index]
    match arguments.operation:
        case "rotate":
            said = _rotate(slide, picture, arguments.rotation or 0.0)
        case "crop":
            said = _crop(slide, picture, arguments)
        case _:
            said = _repaint(slide, picture, arguments)
    deck.save()
    return results.ModifyImageResult(
        image_index=index,
        slide_index=arguments.slide_index,
        operation=arguments.operation,
        message=f"picture {index} of slide {arguments.slide_index}: {said}",
    )


def _rotate(slide: Slide, picture: Any, degrees: float) -> str:
    xfrm = _own_place(slide, picture)
    turn = (int(xfrm.get("rot", "0")) + round(degrees * 60_000)) % 21_600_000
    if turn:
        xfrm.set("rot", str(turn))
    else:
        xfrm.attrib.pop("rot", None)
    return f"turned by {degrees:g} degrees clockwise; it now stands at {turn / 60_000:g} degrees"


def _own_place(slide: Slide, picture: Any) -> Any:
    """The picture's own position, written down where it came from the layout. Raises `ToolError`."""
    xfrm = picture.find(f"{_P}spPr/{_A}xfrm")
    if xfrm is not None and xfrm.find(f"{_A}ext") is not None and xfrm.find(f"{_A}off") is not None:
        return xfrm
    shape = next((s for s in slide.placeholders if s.element is picture), None)
    if shape is None or not shape.width or not shape.height:
        raise ToolError("the picture has no position of its own, and its layout gives none")
    # A picture in a placeholder stands where the layout says.
    left, top, width, height = shape.left, shape.top, shape.width, shape.height
    shape.left, shape.top, shape.width, shape.height = left, top, width, height
    return picture.find(f"{_P}spPr/{_A}xfrm")


def _bytes(slide: Slide, picture: Any) -> tuple[Any, bytes]:
    """The element that names the picture's file, and that file. Raises `ToolError`."""
    blip = picture.find(f"{_P}blipFill/{_A}blip")
    relation = slide.part.rels.get(blip.get(f"{_R}embed")) if blip is not None else None
    if relation is None or relation.is_external:
        raise ToolError("the picture is not in the file but linked; only its rotation can be changed")
    data: bytes = relation.target_part.blob
    if identify(data) not in _PILLOW:
        raise ToolError("the picture is a drawing (emf, wmf or svg), not made of points; only rotate works on it")
    try:
        read_image(data)
    except Unreadable as error:
        raise ToolError(f"the picture in the deck can't be read: {error}") from error
    return blip, data


def _repaint(slide: Slide, picture: Any, arguments: args.ModifyImage) -> str:
    from PIL import Image, ImageEnhance

    match arguments.operation:
        case "flip":
            across = arguments.flip == "horizontal"
            way = Image.Transpose.FLIP_LEFT_RIGHT if across else Image.Transpose.FLIP_TOP_BOTTOM
            _redraw(slide, picture, lambda image: image.transpose(way))
            _mirror_crop(picture, across)
            return f"flipped {arguments.flip}ly"
        case "brightness":
            factor = arguments.brightness if arguments.brightness is not None else 1.0
            _redraw(slide, picture, lambda image: ImageEnhance.Brightness(image).enhance(factor))
            return f"brightness times {factor:g}"
        case _:
            factor = arguments.contrast if arguments.contrast is not None else 1.0
            _redraw(slide, picture, lambda image: ImageEnhance.Contrast(image).enhance(factor))
            return f"contrast times {factor:g}"


def _redraw(slide: Slide, picture: Any, change: Callable[[Any], Any]) -> None:
    """Gives a picture changed points, in a part of its own, in the format it had."""
    from PIL import Image, ImageSequence

    blip, data = _bytes(slide, picture)
    with Image.open(io.BytesIO(data)) as image:
        kind = image.format or "PNG"
        info = {k: image.info[k] for k in ("dpi", "icc_profile", "exif") if image.info.get(k)}
        frames = [_changed(frame, change) for frame in ImageSequence.Iterator(image)]
        if image.mode == "CMYK":
            info.pop("icc_profile", None)  # it was for other inks
        if len(frames) > 1:
            info |= {"save_all": True, "append_images": frames[1:]}
            info |= {k: image.info[k] for k in ("duration", "loop") if k in image.info}
            info |= {"disposal": 2} if kind == "GIF" else {}
    first = frames[0]
    if kind in ("JPEG", "MPO"):
        kind, info = "JPEG", {k: v for k, v in info.items() if k in ("dpi", "icc_profile", "exif")} | {"quality": 95}
        first = first.convert("RGB") if first.mode not in ("RGB", "L") else first
    elif kind == "BMP":
        kind = "PNG"
    out = io.BytesIO()
    first.save(out, kind, **info)
    _, relation = slide.part.get_or_add_image_part(io.BytesIO(out.getvalue()))
    old = blip.get(f"{_R}embed")
    blip.set(f"{_R}embed", relation)
    # The drawing that newer programs show in place of the points would hide the change.
    for vector in list(blip.iter(_SVG)):
        extension = vector.getparent()
        extension.getparent().remove(extension)
        _drop(slide, vector.get(f"{_R}embed"))
    _drop(slide, old)


def _changed(frame: Any, change: Callable[[Any], Any]) -> Any:
    """One frame changed; transparency stays as it is."""
    if frame.mode in ("RGB", "L"):
        return change(frame.copy())
    if frame.mode in ("CMYK", "YCbCr", "LAB", "HSV", "I", "I;16", "F", "1"):
        return change(frame.convert("L" if frame.mode in ("I", "I;16", "F", "1") else "RGB"))
    clear = frame.convert("RGBA")
    return change(clear)


def _drop(slide: Slide, relation: str | None) -> None:
    """Drops a relation that nothing on the slide uses any more."""
    if relation is None:
        return
    names = (f"{_R}embed", f"{_R}link", f"{_R}id")
    if not any(e.get(name) == relation for e in slide.element.iter() for name in names if isinstance(e.tag, str)):
        slide.part.rels.pop(relation)


# --- cropping ---


def _rect(picture: Any) -> list[int]:
    """What the picture's crop hides at left, top, right and bottom, in thousandths of a per cent."""
    found = picture.find(f"{_P}blipFill/{_A}srcRect")
    values = [found.get(k, "0") if found is not None else "0" for k in ("l", "t", "r", "b")]
    return [int(v) if v.lstrip("-").isdecimal() else 0 for v in values]


def _mirror_crop(picture: Any, across: bool) -> None:
    rect = picture.find(f"{_P}blipFill/{_A}srcRect")
    if rect is None:
        return
    one, two = ("l", "r") if across else ("t", "b")
    values = {one: rect.get(two), two: rect.get(one)}
    for name, value in values.items():
        rect.attrib.pop(name, None)
        if value is not None:
            rect.set(name, value)


def _crop(slide: Slide, picture: Any, arguments: args.ModifyImage) -> str:
    _, data = _bytes(slide, picture)
    size = read_image(data)
    left, top, right, bottom = (
        arguments.crop_left or 0, arguments.crop_top or 0, arguments.crop_right or 0, arguments.crop_bottom or 0,
    )  # fmt: skip
    whole = f"the picture is {size.width} x {size.height} pixels"
    if left >= right or top >= bottom:
        raise ToolError(f"crop_left must be less than crop_right, crop_top less than crop_bottom; {whole}")
    if right > size.width or bottom > size.height:
        raise ToolError(f"the crop reaches beyond the picture: right {right}, bottom {bottom}, but {whole}")
    hidden = [n / 100_000 for n in _rect(picture)]
    seen = (
        size.width * hidden[0], size.height * hidden[1],
        size.width * (1 - hidden[2]), size.height * (1 - hidden[3]),
    )  # fmt: skip
    xfrm = _own_place(slide, picture)
    offset, extent = xfrm.find(f"{_A}off"), xfrm.find(f"{_A}ext")
    x, y, width, height = (int(e.get(k)) for e, k in ((offset, "x"), (offset, "y"), (extent, "cx"), (extent, "cy")))
    scale_x, scale_y = width / max(seen[2] - seen[0], 1.0), height / max(seen[3] - seen[1], 1.0)
    new_width, new_height = max(round((right - left) * scale_x), 1), max(round((bottom - top) * scale_y), 1)
    # How far the middle moves in the picture's own directions, then on the slide.
    across = ((left + right) - (seen[0] + seen[2])) / 2 * scale_x
    down = ((top + bottom) - (seen[1] + seen[3])) / 2 * scale_y
    across *= -1 if xfrm.get("flipH") in ("1", "true") else 1
    down *= -1 if xfrm.get("flipV") in ("1", "true") else 1
    angle = math.radians(int(xfrm.get("rot", "0")) / 60_000)
    middle_x = x + width / 2 + across * math.cos(angle) - down * math.sin(angle)
    middle_y = y + height / 2 + across * math.sin(angle) + down * math.cos(angle)
    _redraw(slide, picture, lambda image: image.crop((left, top, right, bottom)))
    rect = picture.find(f"{_P}blipFill/{_A}srcRect")
    if rect is not None:
        rect.getparent().remove(rect)
    offset.set("x", str(round(middle_x - new_width / 2)))
    offset.set("y", str(round(middle_y - new_height / 2)))
    extent.set("cx", str(new_width))
    extent.set("cy", str(new_height))
    return f"cropped to {right - left} x {bottom - top} of {size.width} x {size.height} pixels"
