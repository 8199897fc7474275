"""Pictures and charts on sheets: added to the drawing that the sheet has, or to a new one.

Used by the operation that adds an image and by `charts.py`.
"""

from __future__ import annotations

import io
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.sheets.areas import cell_of
from envkit.harnesses.archipelago.servers.sheets.book import Book, SheetEntry
from envkit.harnesses.archipelago.servers.sheets.grid import insert
from envkit.harnesses.archipelago.servers.sheets.operations import AddImage
from envkit.harnesses.archipelago.servers.sheets.parts import MAIN, REL
from envkit.office.workbook import Address, show_address

__all__ = ["XDR", "A", "add_image", "anchored", "drawing_of"]

XDR = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_TYPE = "application/vnd.openxmlformats-officedocument.drawing+xml"
#: English metric units of a pixel at 96 to the inch.
PIXEL = 9525
_KINDS = {
    "PNG": ("png", "image/png"),
    "JPEG": ("jpeg", "image/jpeg"),
    "GIF": ("gif", "image/gif"),
    "BMP": ("bmp", "image/bmp"),
}
MAX_IMAGE = 20 << 20


def drawing_of(book: Book, entry: SheetEntry) -> str:
    """The part with the drawings of a sheet, made where there is none."""
    found = next(book.parts.related(entry.part, "drawing"), None)
    if found is not None:
        return found
    part = book.parts.free_name("xl/drawings/drawing{}.xml")
    book.parts.add(part, f'<xdr:wsDr xmlns:xdr="{XDR[1:-1]}" xmlns:a="{A[1:-1]}"/>'.encode(), _TYPE)
    relation = book.parts.relate(entry.part, "drawing", part)
    root = book.parts.edit(entry.part)
    element = etree.Element(f"{MAIN}drawing")
    element.set(f"{REL}id", relation)
    insert(root, element)
    return part


def anchored(book: Book, part: str, at: Address, width: int, height: int) -> tuple[Any, str]:
    """An anchor at a cell, of a size in pixels, and a free id for what it holds."""
    root = book.parts.edit(part)
    taken = [int(e.get("id", "0")) for e in root.iter(f"{XDR}cNvPr") if e.get("id", "0").isdecimal()]
    anchor = etree.SubElement(root, f"{XDR}oneCellAnchor")
    start = etree.SubElement(anchor, f"{XDR}from")
    for name, value in (("col", at[1] - 1), ("colOff", 0), ("row", at[0] - 1), ("rowOff", 0)):
        etree.SubElement(start, f"{XDR}{name}").text = str(value)
    etree.SubElement(anchor, f"{XDR}ext", cx=str(width * PIXEL), cy=str(height * PIXEL))
    return anchor, str(max(taken, default=1) + 1)


def add_image(book: Book, op: AddImage, context: Context) -> str:
    entry = book.find(op.sheet)
    if entry.kind != "worksheet":
        raise ToolError(f"{entry.name!r} is a {entry.kind}; choose a worksheet")
    at = cell_of(op.cell, entry.name)
    data, extension, mime, size = _image(context, op.image_path)
    width, height = _size(op, size)
    part = drawing_of(book, entry)
    media = book.parts.free_name("xl/media/image{}." + extension)
    book.parts.add(media, data)
    book.parts.declare(extension, mime)
    relation = book.parts.relate(part, "image", media)
    anchor, identity = anchored(book, part, at, width, height)
    picture = etree.SubElement(anchor, f"{XDR}pic")
    about = etree.SubElement(picture, f"{XDR}nvPicPr")
    etree.SubElement(about, f"{XDR}cNvPr", id=identity, name=f"Picture {identity}")
    lock = etree.SubElement(etree.SubElement(about, f"{XDR}cNvPicPr"), f"{A}picLocks")
    lock.set("noChangeAspect", "1")
    fill = etree.SubElement(picture, f"{XDR}blipFill")
    etree.SubElement(fill, f"{A}blip").set(f"{REL}embed", relation)
    etree.SubElement(etree.SubElement(fill, f"{A}stretch"), f"{A}fillRect")
    shape = etree.SubElement(picture, f"{XDR}spPr")
    frame = etree.SubElement(shape, f"{A}xfrm")
    etree.SubElement(frame, f"{A}off", x="0", y="0")
    etree.SubElement(frame, f"{A}ext", cx=str(width * PIXEL), cy=str(height * PIXEL))
    etree.SubElement(etree.SubElement(shape, f"{A}prstGeom", prst="rect"), f"{A}avLst")
    etree.SubElement(anchor, f"{XDR}clientData")
    return f"picture {op.image_path} on {entry.name} at {show_address(at)}, {width} x {height} pixels"


def _image(context: Context, path: str) -> tuple[bytes, str, str, tuple[int, int]]:
    from PIL import Image, UnidentifiedImageError

    place = context.path(path, must_exist=True)
    data = context.read(place, max_bytes=MAX_IMAGE)
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.verify()
        with Image.open(io.BytesIO(data)) as image:
            size, kind = image.size, image.format or ""
            if kind not in _KINDS:
                out = io.BytesIO()
                image.convert("RGBA").save(out, "PNG")
                data, kind = out.getvalue(), "PNG"
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ToolError(f"{path} is no picture that can be read (png, jpg, gif, bmp, webp): {error}") from error
    extension, mime = _KINDS[kind]
    return data, extension, mime, size


def _size(op: AddImage, size: tuple[int, int]) -> tuple[int, int]:
    width, height = size
    if op.width is not None and op.height is not None:
        return max(1, round(op.width)), max(1, round(op.height))
    factor = op.width / width if op.width is not None else op.height / height if op.height is not None else 1.0
    return max(1, round(width * factor)), max(1, round(height * factor))
