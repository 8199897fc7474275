"""Pictures out of a PDF, and pages as pictures: what a model that sees is shown. Used by the tool servers.

A picture comes as the JPEG that it is stored as where it is one and plain (upright, no mask, grey or RGB), else as PNG
with its mask applied. No side is longer than `MAX_PIXELS`: larger ones are scaled down, keeping their proportions.
"""

from __future__ import annotations

import io
from typing import Any

from envkit.office.pdf.marks import pictures_of
from envkit.office.pdf.read import MAX_OBJECTS, Turned, opened
from envkit.office.problem import Problem, Unreadable

__all__ = ["MAX_PIXELS", "picture", "rendered"]

#: Longest side of what is given out, in pixels.
MAX_PIXELS = 2_000
#: Bytes of a stored JPEG that is handed on as it is.
_MAX_JPEG = 4 << 20
#: Pixels of a stored picture beyond which it is not unpacked.
_MAX_AREA = 120_000_000


def rendered(data: bytes, number: int, dpi: float = 144.0) -> tuple[bytes, int, int]:
    """A page (from 1) as a PNG, with form fields and annotations; its width and height in pixels.

    Raises:
        Unreadable: The file can't be read, or the page can't be drawn.
        IndexError: There is no such page.
    """
    with opened(data) as document:
        if not 1 <= number <= len(document):
            raise IndexError(number)
        if document.get_formtype():
            document.init_forms()
        page = document.get_page(number - 1)
        try:
            width, height = page.get_size()
            if width <= 0 or height <= 0:
                raise Unreadable(Problem.CORRUPT, f"page {number} has no size")
            scale = min(dpi / 72, (MAX_PIXELS - 1) / max(width, height))
            image = page.render(scale=scale).to_pil()
        finally:
            page.close()
        return _png(image), image.width, image.height


def picture(data: bytes, number: int, index: int) -> tuple[bytes, str]:
    """A picture of a page: number of the page from 1, index in its `Page.pictures` from 0. Bytes and media type.

    Raises:
        Unreadable: The file or the picture can't be read.
        IndexError: There is no such page or picture.
    """
    with opened(data) as document:
        if not 1 <= number <= len(document):
            raise IndexError(number)
        page = document.get_page(number - 1)
        try:
            found = pictures_of(page, Turned(page), MAX_OBJECTS)
            if not 0 <= index < len(found):
                raise IndexError(index)
            return _taken(document, page, found[index][1])
        finally:
            page.close()


def _taken(document: Any, page: Any, item: Any) -> tuple[bytes, str]:
    import pypdfium2 as pdfium

    held = pdfium.PdfImage(item, page=page, pdf=document)
    width, height = held.get_px_size()
    if width * height > _MAX_AREA:
        raise Unreadable(Problem.TOO_BIG, f"the picture has {width} x {height} pixels")
    if held.get_filters() == ["DCTDecode"]:
        stored = bytes(held.get_data())
        if len(stored) <= _MAX_JPEG and max(width, height) <= MAX_PIXELS and _plain_jpeg(stored):
            return stored, "image/jpeg"
    try:
        bitmap = held.get_bitmap(render=True)
    except pdfium.PdfiumError:
        try:
            bitmap = held.get_bitmap(render=False)
        except pdfium.PdfiumError as error:
            raise Unreadable(Problem.CORRUPT, f"the picture can't be unpacked: {error}") from error
    return _png(_bounded(bitmap.to_pil())), "image/png"


def _plain_jpeg(data: bytes) -> bool:
    """Whether any program shows it rightly: grey or RGB (inverted CMYK is not)."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.format == "JPEG" and image.mode in ("L", "RGB")
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError):
        return False


def _bounded(image: Any) -> Any:
    longest = max(image.width, image.height)
    if longest <= MAX_PIXELS:
        return image
    scale = MAX_PIXELS / longest
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return (image if image.mode in ("L", "RGB", "RGBA") else image.convert("RGB")).resize(size)


def _png(image: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG", optimize=False, compress_level=6)
    return out.getvalue()
