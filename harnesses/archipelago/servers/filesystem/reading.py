"""Text and images. What is no text is never given as garbage: the answer says what the file is and which tool reads it.

An encoding is found out by its mark, then as UTF-8, then as what Windows writes. A cut never splits a character.
"""

from __future__ import annotations

import codecs
import io

from envkit.harnesses.archipelago.servers.app import Context, Image, ToolError
from envkit.harnesses.archipelago.servers.filesystem import ReadImageFile, ReadTextFile

__all__ = ["read_image_file", "read_text_file"]

#: The most bytes that are read of a text where nothing is said.
_DEFAULT = 1_000_000
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
#: Ending -> the tool that reads it.
_TOOLS = {
    "sheets (action read_tab or list_tabs)": (".xlsx", ".xlsm", ".xltx", ".xltm", ".xls", ".xlsb", ".ods"),
    "docs (action read_content)": (".docx", ".docm", ".dotx", ".doc", ".odt", ".rtf"),
    "slides (action read_deck or read_slide)": (".pptx", ".pptm", ".potx", ".ppt", ".odp"),
    "pdf (action read_pages or search)": (".pdf",),
    "read_image_file": (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"),
}
_MAGIC = (
    (b"%PDF-", "a PDF", "pdf (action read_pages or search)"),
    (b"\x89PNG", "a PNG image", "read_image_file"),
    (b"\xff\xd8\xff", "a JPEG image", "read_image_file"),
    (b"GIF8", "a GIF image", "read_image_file"),
    (b"SQLite format 3\0", "a SQLite database", "code_exec (python3 with the sqlite3 module)"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an older Office file", "code_exec (LibreOffice, where it is installed)"),
    (b"PK\x03\x04", "a zip archive", "code_exec (unzip, or python3 with the zipfile module)"),
    (b"\x1f\x8b", "gzip data", "code_exec (gunzip, or tar for .tar.gz)"),
)
_MIMES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
#: Longer sides are scaled down: no model sees more.
_MAX_SIDE = 2_000
_MAX_PIXELS = 80_000_000
_MAX_SENT = 4 << 20


def read_text_file(arguments: ReadTextFile, context: Context) -> str:
    path = context.path(arguments.file_path, must_exist=True)
    limit = _DEFAULT if arguments.max_size is None else arguments.max_size
    shown = context.shown(path)
    for tool, endings in _TOOLS.items():
        if path.suffix.casefold() in endings and path.is_file() and not _is_text(path.open("rb").read(4096)):
            raise ToolError(f"{shown} is not a text file; read it with {tool}")
    data = context.read(path)
    if not data:
        return f"{shown} is empty (0 bytes)"
    for magic, what, tool in _MAGIC:
        if data.startswith(magic):
            raise ToolError(f"{shown} is not a text file but {what}; read it with {tool}")
    encoding = arguments.encoding or _encoding(data)
    if encoding is None:
        raise ToolError(
            f"{shown} is not a text file ({len(data):,} bytes of binary data); look at it with code_exec, or give its "
            "`encoding` if it is text after all"
        )
    text = _decoded(data[:limit], encoding, shown, cut=len(data) > limit)
    if len(data) > limit:
        how = "raise max_size" if arguments.max_size is not None else "give a larger max_size"
        text += f"\n[the first {limit:,} of {len(data):,} bytes; {how} or read parts of it with code_exec]"
    return text


def _is_text(head: bytes) -> bool:
    return b"\0" not in head and not any(head.startswith(magic) for magic, _, _ in _MAGIC)


def _encoding(data: bytes) -> str | None:
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    if b"\0" in data[:65536]:
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, False)
    except UnicodeDecodeError:
        control = sum(byte < 9 or 13 < byte < 32 for byte in data[:65536])
        return None if control > len(data[:65536]) // 100 else "cp1252"
    return "utf-8"


def _decoded(data: bytes, encoding: str, shown: str, *, cut: bool) -> str:
    try:
        decoder = codecs.getincrementaldecoder(encoding)("strict" if encoding != "cp1252" else "replace")
        return decoder.decode(data, not cut)
    except LookupError as error:
        raise ToolError(f"{encoding!r} is no encoding that is known; try utf-8, latin-1, cp1252 or utf-16") from error
    except (UnicodeError, NotImplementedError) as error:
        raise ToolError(
            f"{shown} is not {encoding}: {str(error)[:200]}. Leave `encoding` out to have it found out"
        ) from error


def read_image_file(arguments: ReadImageFile, context: Context) -> Image | list[Image | str]:
    from PIL import Image as Pillow
    from PIL import UnidentifiedImageError

    path = context.path(arguments.file_path, must_exist=True)
    data = context.read(path)
    shown = context.shown(path)
    if not data:
        raise ToolError(f"{shown} is empty (0 bytes)")
    if path.suffix.casefold() == ".svg" or b"<svg" in data[:1024]:
        raise ToolError(f"{shown} is an SVG drawing, which is text: read it with read_text_file")
    Pillow.MAX_IMAGE_PIXELS = _MAX_PIXELS
    try:
        with Pillow.open(io.BytesIO(data)) as image:
            kind, size = image.format or "", image.size
            if size[0] * size[1] > _MAX_PIXELS:
                raise ToolError(f"{shown} has {size[0]}x{size[1]} pixels, more than are decoded ({_MAX_PIXELS:,})")
            image.load()
            if kind in _MIMES and max(size) <= _MAX_SIDE and len(data) <= _MAX_SENT:
                return Image(data, _MIMES[kind])
            image.thumbnail((_MAX_SIDE, _MAX_SIDE))
            out = io.BytesIO()
            if image.mode in ("RGBA", "LA", "P", "PA"):
                image.convert("RGBA").save(out, "PNG")
                mime = "image/png"
            else:
                image.convert("RGB").save(out, "JPEG", quality=88)
                mime = "image/jpeg"
            note = f"{shown}: {kind}, {size[0]}x{size[1]} pixels"
            if image.size != size:
                note += f", shown at {image.size[0]}x{image.size[1]}"
            return [Image(out.getvalue(), mime), note]
    except UnidentifiedImageError as error:
        raise ToolError(f"{shown} is not an image that can be read (png, jpg, gif, webp, bmp, tiff)") from error
    except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError) as error:
        raise ToolError(f"{shown} is a damaged image: {str(error)[:200]}") from error
