"""A workbook's zip package, open for editing part by part: what is not touched is written back byte for byte.

Libraries that load a workbook and save it again drop what they don't model (charts, pivots, macros, sparklines,
threaded comments). Here only the parts that an edit touches are parsed and written anew; every other member keeps its
bytes, its order and its date. Files in the "Strict" variety are edited in the usual namespaces and written back strict.
Used by `book.py` and by the modules of the single operations.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lxml import etree

from envkit.office.gate import open_zip
from envkit.office.package import Package
from envkit.office.problem import Problem, Unreadable

__all__ = ["MAIN", "OFFICE_REL", "REL", "Parts", "Relation", "serialised"]

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
REL = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
#: What the types of relations begin with.
OFFICE_REL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
_PACKAGE_REL = "{http://schemas.openxmlformats.org/package/2006/relationships}"
_TYPES = "{http://schemas.openxmlformats.org/package/2006/content-types}"
_CONTENT_TYPES = "[Content_Types].xml"
_STRICT = b"http://purl.oclc.org/ooxml/"
_FAMILIES = b"officeDocument|drawingml|spreadsheetml|wordprocessingml|presentationml|schemaLibrary"
_USUAL = re.compile(rb"http://schemas\.openxmlformats\.org/(" + _FAMILIES + rb")/2006/")


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of a part. `kind` is the last word of its type; `target` a part's name, or as written if external."""

    id: str
    kind: str
    target: str
    external: bool


def serialised(root: Any) -> bytes:
    """A tree as the bytes of a part."""
    data: bytes = etree.tostring(root.getroottree(), xml_declaration=True, encoding="UTF-8", standalone=True)
    return data


class Parts:
    """The parts of a package. Raises `Unreadable` where the reader's gate does.

    Args:
        data: The file's bytes.
    """

    def __init__(self, data: bytes) -> None:
        package = Package(data, "spreadsheetml")
        self.main = package.main
        self._package = package
        self._zip = open_zip(data)
        self._infos: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            self._infos.setdefault(info.filename.lstrip("/").lower(), info)
        self._order = [info.filename.lstrip("/") for info in self._infos.values()]
        self._trees: dict[str, Any] = {}
        self._changed: set[str] = set()
        self._new: dict[str, bytes] = {}
        self._gone: set[str] = set()
        self.strict = _STRICT in self._zip.read(self._infos[self.main.lower()])[:4096]

    # What there is.

    def has(self, name: str) -> bool:
        key = name.lower()
        return key not in self._gone and (key in self._new or key in self._trees or key in self._infos)

    def names(self) -> list[str]:
        """The names of all parts, in the order of the file."""
        return [name for name in self._order if name.lower() not in self._gone and not name.endswith("/")]

    def read(self, name: str) -> bytes:
        """The bytes of a part as it now is. Raises `Unreadable` when it is missing or broken."""
        key = name.lower()
        if key in self._changed:
            return serialised(self._trees[key])
        if key in self._new:
            return self._new[key]
        if key in self._gone:
            raise Unreadable(Problem.CORRUPT, f"part {name!r} is missing from the package")
        return self._package.read(name)

    def xml(self, name: str) -> Any:
        """The tree of a part, to look at. Raises `Unreadable`."""
        key = name.lower()
        if key not in self._trees:
            self._trees[key] = _parsed(self.read(name), name)
        return self._trees[key]

    def edit(self, name: str) -> Any:
        """The tree of a part, to change: the part will be written from it. Raises `Unreadable`."""
        root = self.xml(name)
        self._changed.add(name.lower())
        return root

    # What is added and removed.

    def free_name(self, pattern: str) -> str:
        """A name that no part has yet: `xl/media/image{}.png` with the lowest number that is free."""
        number = 1
        while self.has(pattern.format(number)):
            number += 1
        return pattern.format(number)

    def add(self, name: str, data: bytes, content_type: str = "") -> None:
        """Adds a part. Without a content type, the one that stands for its extension must be declared."""
        key = name.lower()
        self._new[key] = data
        self._gone.discard(key)
        self._trees.pop(key, None)
        self._changed.discard(key)
        if name not in self._order:
            self._order.append(name)
        if content_type:
            root = self.edit(_CONTENT_TYPES)
            for element in _overrides(root, name):
                root.remove(element)
            etree.SubElement(root, f"{_TYPES}Override", PartName=f"/{name}", ContentType=content_type)

    def declare(self, extension: str, content_type: str) -> None:
        """Declares the content type of all parts with an extension, where it is not yet."""
        root = self.edit(_CONTENT_TYPES)
        for element in root.iter(f"{_TYPES}Default"):
            if element.get("Extension", "").lower() == extension.lower():
                return
        default = etree.Element(f"{_TYPES}Default", Extension=extension, ContentType=content_type)
        root.insert(0, default)

    def remove(self, name: str) -> None:
        """Removes a part with its own relations and its content type."""
        for key in (name, _relations_name(name)):
            lower = key.lower()
            self._gone.add(lower)
            self._new.pop(lower, None)
            self._trees.pop(lower, None)
            self._changed.discard(lower)
            self._order = [n for n in self._order if n.lower() != lower]
        root = self.edit(_CONTENT_TYPES)
        for element in _overrides(root, name):
            root.remove(element)

    # Relations.

    def relations(self, part: str) -> list[Relation]:
        """The relations of a part, of the package itself for ""."""
        name = _relations_name(part)
        if not self.has(name):
            return []
        folder = posixpath.dirname(part)
        out = []
        for element in self.xml(name).iter(f"{_PACKAGE_REL}Relationship"):
            external = element.get("TargetMode") == "External"
            target = element.get("Target", "")
            if not external:
                path = target if target.startswith("/") else posixpath.join(folder, target)
                target = posixpath.normpath(path).lstrip("/")
            out.append(Relation(element.get("Id", ""), element.get("Type", "").rsplit("/", 1)[-1], target, external))
        return out

    def related(self, part: str, kind: str) -> Iterator[str]:
        """The existing parts to which a part has a relation of a kind."""
        for relation in self.relations(part):
            if relation.kind == kind and not relation.external and self.has(relation.target):
                yield relation.target

    def relate(self, part: str, kind: str, target: str, type_base: str = OFFICE_REL) -> str:
        """Adds a relation to a part and returns its id; an equal one that exists is used."""
        for relation in self.relations(part):
            if relation.kind == kind and relation.target.lower() == target.lower() and not relation.external:
                return relation.id
        name = _relations_name(part)
        if not self.has(name):
            self.add(name, f'<Relationships xmlns="{_PACKAGE_REL[1:-1]}"/>'.encode())
            self.declare("rels", "application/vnd.openxmlformats-package.relationships+xml")
        root = self.edit(name)
        taken = {element.get("Id") for element in root}
        number = len(root) + 1
        while f"rId{number}" in taken:
            number += 1
        relative = posixpath.relpath(target, posixpath.dirname(part) or ".")
        etree.SubElement(root, f"{_PACKAGE_REL}Relationship", Id=f"rId{number}", Type=type_base + kind, Target=relative)
        return f"rId{number}"

    def unrelate(self, part: str, relation_id: str) -> None:
        """Removes a relation of a part."""
        root = self.edit(_relations_name(part))
        for element in list(root):
            if element.get("Id") == relation_id:
                root.remove(element)

    def drop(self, part: str) -> None:
        """Removes a part and all that only it led to (a sheet's drawing, its charts, its comments)."""
        targets = [r.target for r in self.relations(part) if not r.external and self.has(r.target)]
        self.remove(part)
        for target in targets:
            if self.has(target) and not self._needed(target):
                self.drop(target)

    def _needed(self, target: str) -> bool:
        """Whether some part still leads to this one."""
        for name in self.names():
            if not name.endswith(".rels"):
                continue
            folder, base = posixpath.split(name)
            source = posixpath.join(posixpath.dirname(folder), base.removesuffix(".rels")) if base != ".rels" else ""
            if source and not self.has(source):
                continue
            if any(r.target.lower() == target.lower() and not r.external for r in self.relations(source)):
                return True
        return False

    def save(self, *, packed: bool = True) -> bytes:
        """The whole package as bytes; not packed where it is only to be read again at once."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, allowZip64=False) as archive:
            for name in self._order:
                key = name.lower()
                if key in self._gone:
                    continue
                info = self._infos.get(key)
                entry = zipfile.ZipInfo(name, info.date_time if info else (1980, 1, 1, 0, 0, 0))
                entry.compress_type = info.compress_type if info else zipfile.ZIP_DEFLATED
                if not packed:
                    entry.compress_type = zipfile.ZIP_STORED
                if info is not None:
                    entry.external_attr = info.external_attr
                archive.writestr(entry, self._bytes(key, info))
        return out.getvalue()

    def _bytes(self, key: str, info: zipfile.ZipInfo | None) -> bytes:
        if key in self._changed:
            data = serialised(self._trees[key])
        elif key in self._new:
            data = self._new[key]
        else:
            assert info is not None
            return self._raw(info)
        return _USUAL.sub(rb"http://purl.oclc.org/ooxml/\1/", data) if self.strict else data

    def _raw(self, info: zipfile.ZipInfo) -> bytes:
        if info.is_dir():
            return b""
        self._package.read(info.filename.lstrip("/"))  # checks size and soundness, and says what is wrong
        return self._zip.read(info)


def _relations_name(part: str) -> str:
    folder, base = posixpath.split(part)
    return posixpath.join(folder, "_rels", base + ".rels")


def _overrides(root: Any, name: str) -> list[Any]:
    return [e for e in root.iter(f"{_TYPES}Override") if e.get("PartName", "").lstrip("/").lower() == name.lower()]


def _parsed(data: bytes, name: str) -> Any:
    """Like the reader's, but processing instructions are kept: they belong to the file."""
    if b"<!DOCTYPE" in data[:4096] or b"<!ENTITY" in data[:65536]:
        raise Unreadable(Problem.CORRUPT, f"part {name!r} declares a document type or entities")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise Unreadable(Problem.CORRUPT, f"part {name!r} is not well-formed XML: {error}") from error
