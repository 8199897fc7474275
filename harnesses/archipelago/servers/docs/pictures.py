"""Pictures of a document: put in, changed, shown."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.app import Context, Image, ToolError
from envkit.harnesses.archipelago.servers.docs.declared import AddImage, ModifyImage
from envkit.harnesses.archipelago.servers.docs.drawn import Drawn, drawn_in, pictures
from envkit.harnesses.archipelago.servers.docs.edited import Edited
from envkit.harnesses.archipelago.servers.docs.names import PIC, WP, A, R, V, W, element, local
from envkit.harnesses.archipelago.servers.docs.opened import for_writing
from envkit.harnesses.archipelago.servers.docs.pages import section_at, text_width
from envkit.harnesses.archipelago.servers.docs.places import Place, blocks_of, sections_of

__all__ = ["add_image", "modify_image", "shown_image"]

_EMU = 914_400
_MAX_SIDE = 2_000
_MAX_PIXELS = 120_000_000
#: Formats that documents hold: Pillow's name -> ending and media type.
_KEPT = {"PNG": ("png", "image/png"), "JPEG": ("jpg", "image/jpeg"), "GIF": ("gif", "image/gif"),
         "BMP": ("bmp", "image/bmp"), "TIFF": ("tiff", "image/tiff")}  # fmt: skip
_SVG = "{http://schemas.microsoft.com/office/drawing/2016/SVG/main}svgBlip"


def _opened(data: bytes, what: str) -> Any:
    """Pillow's image. Raises `ToolError`."""
    from PIL import Image as Pillow
    from PIL import UnidentifiedImageError

    try:
        image = Pillow.open(io.BytesIO(data))
        if image.width * image.height > _MAX_PIXELS:
            raise ToolError(f"{what} has {image.width} x {image.height} pixels; at most {_MAX_PIXELS:,} are unpacked")
        image.load()
    except ToolError:
        raise
    except UnidentifiedImageError as error:
        kind = "an SVG drawing" if b"<svg" in data[:2000] else "no picture that can be read"
        if data[:4] == b"\xd7\xcd\xc6\x9a" or data[40:44] == b" EMF":
            kind = "a Windows metafile (emf, wmf), which is not read"
        raise ToolError(f"{what} is {kind}; png, jpg, gif, bmp, tiff and webp are") from error
    except OSError as error:
        if image.format in ("WMF", "EMF"):
            raise ToolError(f"{what} is a Windows metafile ({image.format.lower()}), which is not read") from error
        raise ToolError(f"{what} is broken: {error}") from error
    except (ValueError, SyntaxError, EOFError, Pillow.DecompressionBombError) as error:
        raise ToolError(f"{what} is broken: {error}") from error
    return image


def shown_image(data: bytes, part: str, annotation: str) -> Image:
    """A picture for the model: PNG or JPEG, no side longer than 2,000 pixels."""
    image = _opened(data, f"the picture {annotation} ({part.rpartition('/')[2]})")
    small = max(image.size) <= _MAX_SIDE and len(data) < 4 << 20
    if small and image.format in ("PNG", "JPEG", "GIF") and image.mode != "CMYK":
        return Image(data, _KEPT[image.format][1])
    if max(image.size) > _MAX_SIDE:
        image = image if image.mode in ("L", "RGB", "RGBA") else image.convert("RGBA")
        image.thumbnail((_MAX_SIDE, _MAX_SIDE))
    return Image(_saved(image if image.mode in ("L", "RGB", "RGBA", "P") else image.convert("RGB"), "PNG"), "image/png")


def _saved(image: Any, kind: str) -> bytes:
    out = io.BytesIO()
    options: dict[str, Any] = {}
    dpi = image.info.get("dpi")
    if kind in ("PNG", "JPEG", "TIFF") and isinstance(dpi, tuple) and all(d > 0 for d in dpi):
        options["dpi"] = tuple(float(d) for d in dpi)
    if kind == "JPEG":
        options |= {"quality": 92, "subsampling": 0}
        if icc := image.info.get("icc_profile"):
            options["icc_profile"] = icc
    image.save(out, kind, **options)
    return out.getvalue()


# --- adding


@dataclass(frozen=True)
class _New:
    data: bytes
    ending: str
    mime: str
    width: int
    height: int
    dpi: tuple[float, float]


def add_image(arguments: AddImage, context: Context) -> str:
    """Puts a picture, inline with the text, into a paragraph."""
    source = context.path(arguments.image_path, must_exist=True)
    new = _new(context.read(source), context.shown(source))
    writing = for_writing(context, arguments.file_path)
    place = writing.places.find(arguments.identifier)
    at_end = arguments.position in ("end", "after")
    paragraph, label = _paragraph(place, at_end)
    edited = writing.edited
    width, height, fitted = _size(edited, place, new, arguments.width, arguments.height)
    folder = edited.main.rpartition("/")[0]
    part = edited.free_name(f"{folder}/media/image{{}}.{new.ending}".lstrip("/"))
    edited.put(part, new.data, new.mime)
    relation = edited.relate(place.part, "image", part)
    run = element("r", element("drawing", _inline(edited, place.part, relation, source.name, width, height)))
    _put(place, paragraph, run, at_end)
    more = writing.save(Place(place.label, place.kind, paragraph, place.part, notes=place.notes))
    found = next((d for d in pictures(edited) if d.part == place.part and d.relation == relation), None)
    key = f"; it is image {found.index}, annotation @{found.annotation}" if found is not None else ""
    return (
        f"Added {context.shown(source)} at the {'end' if at_end else 'start'} of {label}, "
        f"{width / _EMU:.2f} x {height / _EMU:.2f} in{fitted}{key}.{more}"
    )


def _new(data: bytes, shown: str) -> _New:
    image = _opened(data, shown)
    given = image.info.get("dpi")
    dpi = (96.0, 96.0)
    if isinstance(given, tuple) and len(given) == 2 and all(float(d) >= 10 for d in given):
        dpi = (float(given[0]), float(given[1]))
    if image.format in _KEPT:
        ending, mime = _KEPT[image.format]
        return _New(data, ending, mime, image.width, image.height, dpi)
    return _New(_saved(image.convert("RGBA"), "PNG"), "png", "image/png", image.width, image.height, dpi)


def _paragraph(place: Place, at_end: bool) -> tuple[Any, str]:
    if place.kind in ("paragraph", "run"):
        if local(place.node) != "p":
            raise ToolError(f"{place.label} is an equation; name a paragraph")
        return place.node, place.label
    if place.kind in ("cell", "area"):
        found = [b for b in blocks_of(place.node) if local(b) == "p"]
        if found:
            number = len(found) - 1 if at_end else 0
            return found[number], f"{place.label}.p.{number}"
    raise ToolError(f"{place.label} is a {place.kind}: name a paragraph or a cell, such as {place.label}.r.0.c.0")


def _size(edited: Edited, place: Place, new: _New, width: float | None, height: float | None) -> tuple[int, int, str]:
    """In EMU. A picture whose size isn't given is shown as large as it is, but no wider than the text."""
    if width is not None or height is not None:
        ratio = new.height / new.width
        wide = width if width is not None else (height or 0) / ratio
        high = height if height is not None else (width or 0) * ratio
        return max(round(wide * _EMU), 1), max(round(high * _EMU), 1), ""
    wide, high = new.width / new.dpi[0], new.height / new.dpi[1]
    room = text_width(_section_of(edited, place)) / 1440
    if wide <= room:
        return round(wide * _EMU), round(high * _EMU), ""
    return round(room * _EMU), max(round(high * room / wide * _EMU), 1), " (made to fit the width of the text)"


def _section_of(edited: Edited, place: Place) -> Any:
    """The section that a place of the body is in; the first for all else."""
    found = sections_of(edited)
    if place.part != edited.main or not found:
        return section_at(edited, 0)
    node = place.node
    for outer in [node, *node.iterancestors()]:
        for sibling in [outer, *outer.itersiblings()]:
            section = sibling.find(f"{W}pPr/{W}sectPr") if local(sibling) == "p" else None
            if section is not None and local(sibling.getparent()) == "body":
                return section
        if local(outer) == "body":
            break
    return found[-1]


def _inline(edited: Edited, part: str, relation: str, name: str, width: int, height: int) -> Any:
    number = 1 + max(
        (int(i) for e in edited.xml(part).iter(f"{WP}docPr") if (i := e.get("id", "")).isdecimal() and len(i) < 10),
        default=0,
    )  # fmt: skip
    spaces = {"wp": WP[1:-1], "a": A[1:-1], "pic": PIC[1:-1], "r": R[1:-1]}
    inline = etree.Element(f"{WP}inline", nsmap=spaces, distT="0", distB="0", distL="0", distR="0")
    etree.SubElement(inline, f"{WP}extent", cx=str(width), cy=str(height))
    etree.SubElement(inline, f"{WP}docPr", id=str(number), name=f"Picture {number}", descr=name)
    frame = etree.SubElement(inline, f"{WP}cNvGraphicFramePr")
    etree.SubElement(frame, f"{A}graphicFrameLocks", noChangeAspect="1")
    data = etree.SubElement(etree.SubElement(inline, f"{A}graphic"), f"{A}graphicData", uri=PIC[1:-1])
    picture = etree.SubElement(data, f"{PIC}pic")
    about = etree.SubElement(picture, f"{PIC}nvPicPr")
    etree.SubElement(about, f"{PIC}cNvPr", id=str(number), name=name)
    etree.SubElement(about, f"{PIC}cNvPicPr")
    fill = etree.SubElement(picture, f"{PIC}blipFill")
    etree.SubElement(fill, f"{A}blip").set(f"{R}embed", relation)
    etree.SubElement(etree.SubElement(fill, f"{A}stretch"), f"{A}fillRect")
    shape = etree.SubElement(picture, f"{PIC}spPr")
    placed = etree.SubElement(shape, f"{A}xfrm")
    etree.SubElement(placed, f"{A}off", x="0", y="0")
    etree.SubElement(placed, f"{A}ext", cx=str(width), cy=str(height))
    etree.SubElement(etree.SubElement(shape, f"{A}prstGeom", prst="rect"), f"{A}avLst")
    return inline


def _put(place: Place, paragraph: Any, run: Any, at_end: bool) -> None:
    if place.kind == "run":
        assert place.group is not None
        node = place.group.runs[-1 if at_end else 0]
        while node.getparent() is not paragraph:
            node = node.getparent()
        if at_end:
            node.addnext(run)
        else:
            node.addprevious(run)
    elif at_end:
        paragraph.append(run)
    else:
        properties = paragraph.find(f"{W}pPr")
        paragraph.insert(0 if properties is None else paragraph.index(properties) + 1, run)


# --- changing


def modify_image(arguments: ModifyImage, context: Context) -> str:
    """Changes the one picture, also where its file is shown elsewhere too."""
    given = {n: getattr(arguments, n) for n in ("rotation", "flip", "brightness", "contrast")}
    needed = {"rotate": "rotation"}.get(arguments.operation, arguments.operation)
    if given[needed] is None:
        raise ToolError(f"operation {arguments.operation} takes {needed}")
    others = [n for n, v in given.items() if v is not None and n != needed]
    if others:
        raise ToolError(f"operation {arguments.operation} does not take {' and '.join(others)}; one operation a call")
    writing = for_writing(context, arguments.file_path)
    edited = writing.edited
    found = pictures(edited)
    if arguments.image_index >= len(found):
        have = f"it has {len(found)}, 0 to {len(found) - 1}" if found else "it has none"
        raise ToolError(f"{writing.shown} has no image {arguments.image_index}; {have}")
    drawn = found[arguments.image_index]
    target = edited.target(drawn.part, drawn.relation)
    if target is None:
        raise ToolError(f"image {drawn.index} ({drawn.annotation}) is linked to and not in the document")
    image = _opened(edited.data(target), f"image {drawn.index} ({drawn.annotation})")
    changed = _changed(image, arguments)
    kind = image.format if image.format in _KEPT else "PNG"
    if kind == "JPEG" and changed.mode not in ("L", "RGB"):
        changed = changed.convert("RGB")
    changed.info.update({k: v for k, v in image.info.items() if k in ("dpi", "icc_profile")})
    split = _replace(edited, drawn, found, target, _saved(changed, kind), kind)
    _drop_svg(writing.edited, drawn)
    if changed.size != image.size:
        _resize(drawn, changed.width / image.width, changed.height / image.height)
    size = f"{image.width} x {image.height} -> {changed.width} x {changed.height} pixels"
    how = {
        "rotate": f"rotated by {arguments.rotation} degrees clockwise",
        "flip": f"flipped {arguments.flip}ly",
        "brightness": f"brightness times {arguments.brightness:g}" if arguments.brightness else "",
        "contrast": f"contrast times {arguments.contrast:g}" if arguments.contrast else "",
    }[arguments.operation]
    place = Place(drawn.paragraph, "paragraph", drawn.node, drawn.part)
    return f"Image {drawn.index} (@{drawn.annotation}): {how}, {size}.{split}{writing.save(place)}"


def _changed(image: Any, arguments: ModifyImage) -> Any:
    from PIL import Image as Pillow
    from PIL import ImageEnhance

    match arguments.operation:
        case "rotate":
            turn = (arguments.rotation or 0) % 360
            way = Pillow.Transpose
            quarter = {90: way.ROTATE_270, 180: way.ROTATE_180, 270: way.ROTATE_90}
            if turn == 0:
                return image.copy()
            if turn in quarter:
                return image.transpose(quarter[turn])
            if image.format == "JPEG":
                base = image if image.mode in ("L", "RGB") else image.convert("RGB")
                white = 255 if base.mode == "L" else (255, 255, 255)
                return base.rotate(-turn, Pillow.Resampling.BICUBIC, expand=True, fillcolor=white)
            return image.convert("RGBA").rotate(-turn, Pillow.Resampling.BICUBIC, expand=True)
        case "flip":
            across = arguments.flip == "horizontal"
            return image.transpose(Pillow.Transpose.FLIP_LEFT_RIGHT if across else Pillow.Transpose.FLIP_TOP_BOTTOM)
    # Of a transparent picture, the colours alone.
    see_through = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    alpha = image.convert("RGBA").getchannel("A") if see_through else None
    plain = image if image.mode in ("L", "RGB") else image.convert("RGB")
    if arguments.operation == "brightness":
        plain = ImageEnhance.Brightness(plain).enhance(arguments.brightness or 1.0)
    else:
        plain = ImageEnhance.Contrast(plain).enhance(arguments.contrast or 1.0)
    if alpha is not None:
        plain = plain.convert("RGBA")
        plain.putalpha(alpha)
    return plain


def _replace(edited: Edited, drawn: Drawn, found: list[Drawn], target: str, data: bytes, kind: str) -> str:
    """Gives the picture its new file: in place of the old one, or beside it where others show that too."""
    same_relation = sum(d.part == drawn.part and d.relation == drawn.relation for d in found)
    others = edited.referred(target) + same_relation - 2
    in_place = others <= 0 and _uses(edited, drawn) <= 1
    ending, mime = _KEPT[kind]
    if in_place and target.lower().endswith(("." + ending, ".jpeg" if ending == "jpg" else "." + ending,
                                             ".tif" if ending == "tiff" else "." + ending)):  # fmt: skip
        edited.put(target, data)
        return ""
    folder = edited.main.rpartition("/")[0]
    part = edited.free_name(f"{folder}/media/image{{}}.{ending}".lstrip("/"))
    edited.put(part, data, mime)
    relation = edited.relate(drawn.part, "image", part)
    drawn.node.set(f"{R}embed" if drawn.node.tag == f"{A}blip" else f"{R}id", relation)
    _follow_fallback(drawn, relation)
    return "" if in_place else " Its file is shown elsewhere too; there it is as before."


def _uses(edited: Edited, drawn: Drawn) -> int:
    """How often a part refers to the picture's relationship, fallbacks for old programs aside."""
    root = edited.xml(drawn.part)
    count = 0
    for node in root.iter():
        if isinstance(node.tag, str) and any(v == drawn.relation and k.startswith(R) for k, v in node.attrib.items()):
            count += not any(local(a) == "" and a.tag.endswith("}Fallback") for a in node.iterancestors())
    return count


def _follow_fallback(drawn: Drawn, relation: str) -> None:
    for outer in drawn.node.iterancestors():
        if not str(outer.tag).endswith("}AlternateContent"):
            continue
        for node in outer.iter(f"{V}imagedata"):
            node.set(f"{R}id", relation)


def _drop_svg(edited: Edited, drawn: Drawn) -> None:
    """A picture that is kept as a drawing as well would be shown as that, unchanged."""
    for node in list(drawn.node.iter(_SVG)):
        extension = node.getparent()
        extension.getparent().remove(extension)
        edited.notes.append(
            "It was kept as an SVG drawing too, which programs preferred to show; that is not used now."
        )


def _resize(drawn: Drawn, wide: float, high: float) -> None:
    """The frame keeps the picture's new proportions at its scale."""
    for outer in drawn.node.iterancestors():
        if outer.tag in (f"{WP}inline", f"{WP}anchor"):
            frames = [outer.find(f"{WP}extent")]
            if len(drawn_in(outer)) <= 1:
                frames += [f.find(f"{A}ext") for f in outer.iter(f"{A}xfrm")]
            for frame in frames:
                if frame is None:
                    continue
                for name, factor in (("cx", wide), ("cy", high)):
                    text = frame.get(name, "")
                    if text.isdecimal():
                        frame.set(name, str(max(round(int(text) * factor), 1)))
            return
