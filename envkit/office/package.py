"""The door through which every zipped office file (xlsx, docx, pptx) enters.

`Package` looks at the archive's directory before anything is unpacked: how many parts, how large unpacked, what
ratio, whether it is encrypted or something else altogether. Parts are unpacked one by one under a limit that is also
enforced while inflating, since a directory can lie. XML is parsed without entities, network or huge trees. Files
saved as "Strict Open XML" use other namespaces; they are mapped to the usual ones, so that readers know only one set.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from urllib.parse import unquote

from lxml import etree

from envkit.office.gate import MAX_PART_BYTES, MAX_PARTS, MAX_TOTAL_BYTES, OLE, open_zip
from envkit.office.problem import Problem, Unreadable

__all__ = ["MAX_PARTS", "MAX_PART_BYTES", "MAX_TOTAL_BYTES", "Package", "parse_xml"]

_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/([A-Za-z/]+)")
_RELATION = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"
_TRANSITIONAL = {
    b"spreadsheetml/main": b"http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    b"wordprocessingml/main": b"http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    b"presentationml/main": b"http://schemas.openxmlformats.org/presentationml/2006/main",
}


def _transitional(match: re.Match[bytes]) -> bytes:
    """The usual URI for a strict one: `drawingml/chart` -> `.../drawingml/2006/chart`."""
    rest = match[1]
    if rest in _TRANSITIONAL:
        return _TRANSITIONAL[rest]
    family, _, tail = rest.partition(b"/")
    return b"http://schemas.openxmlformats.org/" + family + b"/2006/" + tail


def parse_xml(data: bytes, what: str) -> etree._Element:
    """Parses XML that nobody vouches for. Raises `Unreadable`."""
    if b"<!DOCTYPE" in data[:4096] or b"<!ENTITY" in data[:65536]:
        raise Unreadable(Problem.CORRUPT, f"{what} declares a document type or entities, which office files never do")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False, remove_pis=True)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise Unreadable(Problem.CORRUPT, f"{what} is not well-formed XML: {error}") from error


class Package:
    """An opened zip package.

    Args:
        data: The file's bytes.
        main: The type of its main part: `spreadsheetml`, `wordprocessingml` or `presentationml`.

    Raises:
        Unreadable: It is empty, encrypted, something else, broken, or unpacks to too much.
    """

    def __init__(self, data: bytes, main: str) -> None:
        names = {"spreadsheetml": "an xlsx workbook", "wordprocessingml": "a docx document"}
        self._what = names.get(main, "a pptx deck")
        if not data:
            raise Unreadable(Problem.EMPTY, "it has 0 bytes")
        if data.startswith(OLE):
            if "EncryptedPackage".encode("utf-16-le") in data:
                raise Unreadable(Problem.ENCRYPTED, "it is protected with a password")
            raise Unreadable(Problem.UNSUPPORTED, f"it is a legacy Office file (xls, doc, ppt), not {self._what}")
        if not data.startswith(b"PK\x03\x04"):
            raise Unreadable(Problem.NOT_THIS_FORMAT, f"it is not {self._what}: the content begins with {data[:12]!r}")
        self._zip = open_zip(data)
        self._infos: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            # Part names are case-insensitive by the standard; the first of equals is the one programs open.
            self._infos.setdefault(info.filename.lstrip("/").lower(), info)
        self.main = self._main_part(main)

    def _main_part(self, main: str) -> str:
        for kind, target in self.relations("").values():
            if kind.endswith("/officeDocument"):
                content = self.read(target)[:4096] if self.has(target) else b""
                if main.encode() in content or main in self._content_type(target):
                    return target
                found = next(
                    (m for m in ("spreadsheetml", "wordprocessingml", "presentationml") if m.encode() in content), ""
                )
                raise Unreadable(
                    Problem.NOT_THIS_FORMAT, f"it is not {self._what}; its main part is {found or target!r}"
                )
        raise Unreadable(Problem.NOT_THIS_FORMAT, f"it is a zip archive, but not {self._what}: it has no main part")

    def _content_type(self, target: str) -> str:
        if not self.has("[Content_Types].xml"):
            return ""
        for element in self.xml("[Content_Types].xml"):
            if isinstance(element.tag, str) and element.get("PartName", "").lstrip("/").lower() == target.lower():
                return str(element.get("ContentType", ""))
        return ""

    def has(self, name: str) -> bool:
        return name.lower() in self._infos

    def names(self) -> tuple[str, ...]:
        return tuple(info.filename.lstrip("/") for info in self._infos.values())

    def read(self, name: str) -> bytes:
        """One part's bytes. Raises `Unreadable` when it is missing, broken or larger than it says."""
        info = self._infos.get(name.lower())
        if info is None:
            raise Unreadable(Problem.CORRUPT, f"part {name!r} is missing from the package")
        try:
            with self._zip.open(info) as stream:
                data = stream.read(info.file_size + 1)
        except (
            zipfile.BadZipFile,
            zlib.error,
            NotImplementedError,
            EOFError,
            OSError,
            RuntimeError,
            ValueError,
        ) as error:
            raise Unreadable(Problem.CORRUPT, f"part {name!r} can't be unpacked: {error}") from error
        if len(data) > info.file_size:
            raise Unreadable(Problem.CORRUPT, f"part {name!r} is larger than the zip directory says")
        if b"http://purl.oclc.org/ooxml/" in data[:65536]:
            data = _STRICT.sub(_transitional, data)
        return data

    def xml(self, name: str) -> etree._Element:
        return parse_xml(self.read(name), f"part {name!r}")

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """The relations of a part (the package's own for ""): id -> (type, target part). External ones are left out."""
        folder = posixpath.dirname(part)
        out: dict[str, tuple[str, str]] = {}
        for element in self._relation_elements(part):
            if element.get("TargetMode") == "External":
                continue
            target = unquote(element.get("Target", ""))
            full = target[1:] if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
            out[element.get("Id", "")] = (element.get("Type", ""), full)
        return out

    def external(self, part: str) -> dict[str, str]:
        """The relations of a part that lead out of the package (hyperlinks, linked files): id -> target as written."""
        return {
            element.get("Id", ""): element.get("Target", "")
            for element in self._relation_elements(part)
            if element.get("TargetMode") == "External"
        }

    def _relation_elements(self, part: str) -> Iterator[etree._Element]:
        folder, base = posixpath.split(part)
        name = posixpath.join(folder, "_rels", base + ".rels")
        return self.xml(name).iter(_RELATION) if self.has(name) else iter(())

    def related(self, part: str, kind: str) -> Iterator[str]:
        """Existing target parts of one relation type, given by its last word (`notesSlide`)."""
        for name, target in self.relations(part).values():
            if name.rsplit("/", 1)[-1] == kind and self.has(target):
                yield target
