"""The source text of macros (VBA) in an office file.

A macro project is a compound file whose modules hold their source compressed, beside what was compiled from it. Only
the source says what a macro does; the rest differs with each program, and each time, that saves it. Used by the
workbook reader.
"""

from __future__ import annotations

import re
import struct

from envkit.office.compound import BrokenFile, streams

__all__ = ["macro_sources"]

_CODEPAGE, _STREAM, _OFFSET, _MODULE_END = 0x0003, 0x001A, 0x0031, 0x002B
_NAME = 0x0019
#: `Attribute VB_Name = ...` of a module, `Attribute Total.VB_Description = ...` of one of its procedures.
_ATTRIBUTE = re.compile(r"Attribute (?:[\w$%&!#@]+\.)?VB_")
#: Source beyond this size is cut: a compressed chunk can be some 2,000 times as large as it looks.
_MAX_SOURCE = 8 << 20


def macro_sources(project: bytes) -> dict[str, str] | None:
    """The modules of a `vbaProject.bin` by name, each as its lines of code, without blanks at line ends and without the
    attributes that programs add; modules without code are left out. None where the project can't be read."""
    try:
        found = streams(project)
        folder = {path.rpartition("/")[2].casefold(): data for path, data in found.items() if "/VBA/" in path}
        return _modules(_inflated(folder["dir"]), folder)
    except (BrokenFile, KeyError, struct.error, IndexError, LookupError, UnicodeDecodeError):
        return None


def _modules(directory: bytes, folder: dict[str, bytes]) -> dict[str, str]:
    out: dict[str, str] = {}
    codepage, name, stream, offset = "cp1252", "", "", 0
    at = 0
    while at + 6 <= len(directory):
        kind, size = struct.unpack_from("<HI", directory, at)
        if kind == 0x0009:  # the version, which gives a size of its own
            size = 6
        data = directory[at + 6 : at + 6 + size]
        at += 6 + size
        if kind == _CODEPAGE and len(data) >= 2:
            codepage = f"cp{struct.unpack_from('<H', data)[0]}"
        elif kind == _NAME:
            name = data.decode(codepage, "replace")
        elif kind == _STREAM:
            stream = data.decode(codepage, "replace")
        elif kind == _OFFSET and len(data) >= 4:
            offset = struct.unpack_from("<I", data)[0]
        elif kind == _MODULE_END and (stream or name):
            source = _inflated(folder[(stream or name).casefold()][offset:]).decode(codepage, "replace")
            code = _code(source)
            if code:
                out[name or stream] = code
            name, stream, offset = "", "", 0
    return out


def _code(source: str) -> str:
    lines = [line.rstrip() for line in source.splitlines()]
    return "\n".join(line for line in lines if not _ATTRIBUTE.match(line)).strip("\n")


def _inflated(data: bytes) -> bytes:
    """A compressed container of a macro project, unpacked."""
    if not data or data[0] != 1:
        raise BrokenFile("a macro's stream is not compressed as it should be")
    out = bytearray()
    at = 1
    while at + 2 <= len(data) and len(out) < _MAX_SOURCE:
        header = struct.unpack_from("<H", data, at)[0]
        end = min(at + (header & 0x0FFF) + 3, len(data))
        at += 2
        start = len(out)
        if not header & 0x8000:
            out += data[at : at + 4096]
            at += 4096
            continue
        while at < end:
            flags = data[at]
            at += 1
            for bit in range(8):
                if at >= end:
                    break
                if not flags >> bit & 1:
                    out.append(data[at])
                    at += 1
                    continue
                token = struct.unpack_from("<H", data, at)[0]
                at += 2
                bits = max((len(out) - start - 1).bit_length(), 4)
                length = (token & (0xFFFF >> bits)) + 3
                source = len(out) - (token >> (16 - bits)) - 1
                if source < start:
                    raise BrokenFile("a macro's stream copies what is not there")
                for step in range(length):
                    out.append(out[source + step])
    return bytes(out)
