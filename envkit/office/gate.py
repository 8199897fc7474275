"""The gate before every parser: what a file says it is, and whether its archive directory is within bounds.

Nothing is unpacked here. A zip's directory is looked at before it is loaded (its own size, the number of entries) and
then entry by entry: unpacked sizes, ratio, encryption, names that lead out. A directory can lie, so whoever unpacks
still counts. Used by `parse.py` for every file and by `package.py` and `archive.py` for zips.
"""

from __future__ import annotations

import io
import struct
import zipfile

from envkit.office.problem import Problem, Unreadable

__all__ = [
    "MAX_FILE_BYTES", "MAX_PARTS", "MAX_PART_BYTES", "MAX_RATIO", "MAX_TOTAL_BYTES", "OLE", "admit", "check_directory",
    "identify", "open_zip",
]  # fmt: skip

#: The largest file that is parsed.
MAX_FILE_BYTES = 64 << 20
MAX_PARTS = 5_000
MAX_PART_BYTES = 96 << 20
MAX_TOTAL_BYTES = 200 << 20
#: Highest ratio of unpacked to packed size of one part, once it is beyond a megabyte. Sheets of zeros reach some 60.
MAX_RATIO = 200
#: Size of a zip's directory, before it is loaded: some 2 kB for each of the entries allowed.
MAX_DIRECTORY_BYTES = 10 << 20

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_END, _END64_LOCATOR, _END64 = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "zip"),
    (_END, "zip"),
    (OLE, "ole"),
    (b"SQLite format 3\0", "sqlite"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"BM", "bmp"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
    (b"\x1f\x8b", "gzip"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
    (b"{\\rtf", "rtf"),
)


def identify(data: bytes) -> str:
    """What the first bytes say that a file is: `zip`, `ole`, `pdf`, `png`, ...; "" for text and the unknown."""
    for magic, name in _MAGIC:
        if data.startswith(magic):
            return name
    if data[8:12] == b"WEBP" and data.startswith(b"RIFF"):
        return "webp"
    return "pdf" if b"%PDF-" in data[:1024] else ""


def admit(data: bytes, max_bytes: int = MAX_FILE_BYTES) -> None:
    """Lets a file pass to its parser or raises `Unreadable`: too large, a zip bomb, a zip that needs a password."""
    if len(data) > max_bytes:
        raise Unreadable(Problem.TOO_BIG, f"it has {len(data)} bytes; at most {max_bytes} are read")
    if data.startswith(b"PK\x03\x04"):
        open_zip(data).close()


def open_zip(data: bytes) -> zipfile.ZipFile:
    """A zip whose directory was found within bounds. Raises `Unreadable`."""
    _check_end(data)
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as error:
        raise Unreadable(Problem.CORRUPT, f"its zip directory is broken or cut off: {error}") from error
    check_directory(archive)
    return archive


def _check_end(data: bytes) -> None:
    """Reads the size of the directory from the record at the archive's end, so that a huge one is never loaded."""
    at = data.rfind(_END, max(0, len(data) - 65_557))
    if at < 0 or len(data) < at + 22:
        raise Unreadable(Problem.CORRUPT, "its zip directory is missing; the file may be cut off")
    count, size = struct.unpack_from("<HL", data, at + 10)
    if at >= 20 and data[at - 20 : at - 16] == _END64_LOCATOR:
        (place,) = struct.unpack_from("<Q", data, at - 12)
        if data[place : place + 4] == _END64 and len(data) >= place + 56:
            count, size = struct.unpack_from("<QQ", data, place + 32)
    if count > MAX_PARTS:
        raise Unreadable(Problem.TOO_BIG, f"it has {count} parts; at most {MAX_PARTS} are read")
    if size > MAX_DIRECTORY_BYTES:
        raise Unreadable(Problem.TOO_BIG, f"its zip directory has {size} bytes; at most {MAX_DIRECTORY_BYTES} are read")


def check_directory(archive: zipfile.ZipFile) -> None:
    """Raises `Unreadable` for a directory beyond the bounds: too much, packed too well, encrypted, names that lead
    out."""
    infos = archive.infolist()
    if len(infos) > MAX_PARTS:
        raise Unreadable(Problem.TOO_BIG, f"it has {len(infos)} parts; at most {MAX_PARTS} are read")
    total = sum(info.file_size for info in infos)
    if total > MAX_TOTAL_BYTES:
        raise Unreadable(Problem.TOO_BIG, f"it unpacks to {total} bytes; at most {MAX_TOTAL_BYTES} are read")
    for info in infos:
        if not info.filename:
            raise Unreadable(Problem.CORRUPT, "it has a part without a name")
        if info.flag_bits & 1:
            raise Unreadable(Problem.ENCRYPTED, "its zip members are encrypted")
        if info.file_size > MAX_PART_BYTES:
            raise Unreadable(Problem.TOO_BIG, f"part {info.filename!r} unpacks to {info.file_size} bytes")
        if info.file_size > 1 << 20 and info.file_size > MAX_RATIO * max(info.compress_size, 1):
            raise Unreadable(Problem.TOO_BIG, f"part {info.filename!r} is packed {MAX_RATIO}:1 or more: a zip bomb")
        if ".." in info.filename.replace("\\", "/").split("/"):
            raise Unreadable(Problem.CORRUPT, f"part {info.filename[:200]!r} has a name that leads out of the archive")
