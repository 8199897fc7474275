"""A docx package that is edited part by part: what isn't touched stays byte for byte what it was.

Parts are parsed when asked for and written back only when said to have changed; new parts get their relationship and
content type. Files saved as "Strict Open XML" are edited in the usual namespaces and written back in theirs. Used by
every tool of the docs app that writes.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from lxml import etree

from envkit.office.package import Package
from envkit.office.problem import Problem, Unreadable

__all__ = ["Edited"]

_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_KINDS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
_CONTENT_TYPES = "[Content_Types].xml"
_STRICT = b"http://purl.oclc.org/ooxml/"
_USUAL = re.compile(
    rb"http://schemas\.openxmlformats\.org/(officeDocument|drawingml|wordprocessingml|spreadsheetml)/2006/([A-Za-z/]+)"
)


class Edited:
    """An opened document.

    Attributes:
        main: The name of its main part.
        notes: What a person should be told about the edit as a whole.
    """

    def __init__(self, data: bytes) -> None:
        self.package = Package(data, "wordprocessingml")
        self.main = self.package.main
        self.notes: list[str] = []
        self._zip = zipfile.ZipFile(io.BytesIO(data))
        self._names = {i.filename.lstrip("/").lower(): i.filename for i in reversed(self._zip.infolist())}
        self._roots: dict[str, Any] = {}
        self._strict: set[str] = set()
        self._changed: set[str] = set()
        self._new: dict[str, bytes] = {}
        self._removed: set[str] = set()
        self._all_strict = _STRICT in self._raw(self.main)[:65536]
        if any(name.startswith("_xmlsignatures/") for name in self._names):
            self.notes.append("It was signed digitally; the signature does not fit what was changed.")

    # -- parts

    def xml(self, part: str) -> Any:
        """The root of a part, to be changed in place; `changed` says that it was."""
        key = part.lower()
        if key not in self._roots:
            data = self._new[key] if key in self._new else self.package.read(part)
            if key not in self._new and _STRICT in self._raw(part)[:65536]:
                self._strict.add(key)
            if b"<!DOCTYPE" in data[:4096]:
                raise Unreadable(
                    Problem.CORRUPT, f"part {part!r} declares a document type, which office files never do"
                )
            parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False)
            try:
                self._roots[key] = etree.fromstring(data, parser)
            except etree.XMLSyntaxError as error:
                raise Unreadable(Problem.CORRUPT, f"part {part!r} is not well-formed XML: {error}") from error
        return self._roots[key]

    def _raw(self, part: str) -> bytes:
        try:
            return self._zip.read(self._names[part.lower()])
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError, RuntimeError) as error:
            raise Unreadable(Problem.CORRUPT, f"part {part!r} can't be unpacked: {error}") from error

    def changed(self, part: str) -> None:
        self._changed.add(part.lower())

    def has(self, part: str) -> bool:
        key = part.lower()
        return key not in self._removed and (key in self._new or key in self._names)

    def data(self, part: str) -> bytes:
        key = part.lower()
        return self._new[key] if key in self._new else self.package.read(part)

    def put(self, part: str, data: bytes, content_type: str | None = None) -> None:
        """Replaces a part's bytes, or adds a part of a content type."""
        key = part.lower()
        self._removed.discard(key)
        self._new[key] = data
        self._names.setdefault(key, part)
        self._roots.pop(key, None)
        if content_type is not None:
            self._declare(part, content_type)

    def remove(self, part: str) -> None:
        """Takes a part out, with its relationships and its content type."""
        for name in (part, _relations_of(part)):
            key = name.lower()
            self._removed.add(key)
            self._new.pop(key, None)
            self._roots.pop(key, None)
        types = self.xml(_CONTENT_TYPES)
        for entry in types.findall(f"{{{_TYPES}}}Override"):
            if entry.get("PartName", "").lstrip("/").lower() == part.lower():
                types.remove(entry)
                self.changed(_CONTENT_TYPES)

    def free_name(self, pattern: str) -> str:
        """A part name that isn't taken, from a pattern such as `word/media/image{}.png`."""
        number = 1
        while self.has(pattern.format(number)):
            number += 1
        return pattern.format(number)

    def _declare(self, part: str, content_type: str) -> None:
        types = self.xml(_CONTENT_TYPES)
        extension = part.rpartition(".")[2].lower()
        media = content_type.startswith("image/")
        for entry in types:
            if media and entry.get("Extension", "").lower() == extension:
                if entry.get("ContentType", "").lower() == content_type:
                    return
                break
            if entry.get("PartName", "").lstrip("/").lower() == part.lower():
                entry.set("ContentType", content_type)
                self.changed(_CONTENT_TYPES)
                return
        else:
            if media:
                made = etree.Element(f"{{{_TYPES}}}Default", Extension=extension, ContentType=content_type)
                types.insert(0, made)
                self.changed(_CONTENT_TYPES)
                return
        types.append(etree.Element(f"{{{_TYPES}}}Override", PartName=f"/{part}", ContentType=content_type))
        self.changed(_CONTENT_TYPES)

    # -- relationships

    def _relations(self, part: str) -> Any:
        name = _relations_of(part)
        if not self.has(name):
            self.put(name, f'<Relationships xmlns="{_RELATIONS}"/>'.encode())
        return self.xml(name)

    def relations(self, part: str) -> Iterator[tuple[str, str, str]]:
        """Those within the package: id, last word of the type, target part."""
        if not self.has(_relations_of(part)):
            return
        folder = posixpath.dirname(part)
        for entry in self._relations(part).iter(f"{{{_RELATIONS}}}Relationship"):
            if entry.get("TargetMode") != "External":
                target = unquote(entry.get("Target", ""))
                full = target[1:] if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
                yield entry.get("Id", ""), entry.get("Type", "").rpartition("/")[2], full

    def target(self, part: str, relation: str | None) -> str | None:
        """The part that a relationship leads to, if it is there."""
        return next((t for i, _, t in self.relations(part) if i == relation and self.has(t)), None)

    def related(self, part: str, kind: str) -> str | None:
        """The first existing part of a kind (`comments`, `styles`)."""
        return next((t for _, k, t in self.relations(part) if k == kind and self.has(t)), None)

    def relate(self, part: str, kind: str, target: str) -> str:
        """Relates a part to another; returns the id. `kind` is the last word of the type, or a whole type."""
        root = self._relations(part)
        used = {entry.get("Id", "") for entry in root}
        number = len(used) + 1
        while f"rId{number}" in used:
            number += 1
        name = f"rId{number}"
        etree.SubElement(
            root, f"{{{_RELATIONS}}}Relationship", Id=name, Type=kind if ":" in kind else _KINDS + kind,
            Target=posixpath.relpath(target, posixpath.dirname(part) or "."),
        )  # fmt: skip
        self.changed(_relations_of(part))
        return name

    def unrelate(self, part: str, relation: str) -> None:
        root = self._relations(part)
        for entry in list(root):
            if entry.get("Id") == relation:
                root.remove(entry)
                self.changed(_relations_of(part))

    def copy_relations(self, source: str, target: str) -> None:
        """Gives a part in the same folder the relationships of another."""
        name = _relations_of(source)
        if self.has(name):
            self.put(_relations_of(target), etree.tostring(self.xml(name), xml_declaration=True, encoding="UTF-8",
                                                           standalone=True))  # fmt: skip

    def referred(self, target: str) -> int:
        """How many relationships of all parts lead to a part."""
        count = 0
        names = [n for n in (*self._names, *self._new) if n.endswith(".rels") and n not in self._removed]
        for name in dict.fromkeys(names):
            folder, _, base = name.rpartition("_rels/")
            part = folder + base.removesuffix(".rels")
            count += sum(t.lower() == target.lower() for _, _, t in self.relations(part))
        return count

    # -- the whole

    def written(self) -> bytes:
        """The package with its changes. Raises `Unreadable` where an untouched part is broken."""
        fresh: dict[str, bytes] = {k: v for k, v in self._new.items() if k not in self._removed}
        if self._all_strict:
            self._strict |= {k for k in fresh if k.endswith((".xml", ".rels"))}
            fresh = {k: _USUAL.sub(_STRICT + rb"\1/\2", v) if k in self._strict else v for k, v in fresh.items()}
        for key in self._changed - self._removed:
            if key in self._roots:
                fresh[key] = self._serialised(key)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
            for info in self._zip.infolist():
                key = info.filename.lstrip("/").lower()
                if key in self._removed:
                    continue
                if info.filename == self._names.get(key) and key in fresh:
                    data = fresh.pop(key)
                else:
                    data = self._raw(key) if info.filename == self._names.get(key) else self._zip.read(info)
                entry = zipfile.ZipInfo(info.filename, info.date_time)
                entry.compress_type = zipfile.ZIP_STORED if info.compress_type == 0 else zipfile.ZIP_DEFLATED
                entry.external_attr = info.external_attr
                made.writestr(entry, data)
            for key, data in fresh.items():
                entry = zipfile.ZipInfo(self._names[key], (1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o600 << 16
                made.writestr(entry, data)
        return out.getvalue()

    def _serialised(self, key: str) -> bytes:
        data: bytes = etree.tostring(
            self._roots[key].getroottree(), xml_declaration=True, encoding="UTF-8", standalone=True
        )
        return _USUAL.sub(_STRICT + rb"\1/\2", data) if key in self._strict else data


def _relations_of(part: str) -> str:
    folder, base = posixpath.split(part)
    return posixpath.join(folder, "_rels", base + ".rels")
