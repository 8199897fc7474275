"""What documents and decks embed alike: pictures, charts, diagrams, objects, and links that lead outside.

Used by the readers of both. Pictures are known by the hash of their bytes, never by the name of their part; a diagram
(SmartArt) by the texts of its points in order.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from envkit.office.chart import Chart, read_chart
from envkit.office.compound import content_digest
from envkit.office.package import Package

__all__ = ["Diagram", "Embedded", "Image", "Part", "linear_maths"]

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_DGM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_REL = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"
_MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Image:
    """A picture. `hash` is the SHA-256 of its bytes, "" when it is linked and not in the file (`source` says where
    to) or missing. Sizes in points, as shown; 0.0 when the file doesn't say."""

    hash: str
    alt: str = ""
    width: float = 0.0
    height: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class Diagram:
    """A diagram: the texts of its points."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Embedded:
    """The file inside of an embedded object, where it is of a kind that can be read: its extension and its bytes."""

    suffix: str
    data: bytes = field(repr=False)


#: Files inside of objects that are kept to be read, and their largest size.
_READABLE = ("xlsx", "xlsm", "docx", "pptx", "pdf")
_MAX_EMBEDDED = 16 << 20
_MAIN_PARTS = (("xlsx", b"xl/workbook.xml"), ("docx", b"word/document.xml"), ("pptx", b"ppt/presentation.xml"))


class Part:
    """One part of a package with everything it refers to; each thing is read once."""

    def __init__(self, package: Package, name: str) -> None:
        self.package = package
        self.name = name
        self._relations = package.relations(name)
        self._external: dict[str, str] | None = None
        self._hashes: dict[str, str] = {}

    def root(self) -> Any:
        return self.package.xml(self.name)

    def target(self, relation: str | None) -> str | None:
        """The existing part that a relation of this one leads to."""
        _, target = self._relations.get(relation or "", ("", ""))
        return target if target and self.package.has(target) else None

    def external(self, relation: str | None) -> str:
        """Where a relation leads outside the file; "" when it doesn't."""
        if self._external is None:
            self._external = {}
            folder, _, base = self.name.rpartition("/")
            name = f"{folder}/_rels/{base}.rels".lstrip("/")
            if self.package.has(name):
                for element in self.package.xml(name).iter(_REL):
                    if element.get("TargetMode") == "External":
                        self._external[element.get("Id", "")] = str(element.get("Target", ""))
        return self._external.get(relation or "", "")

    def hash(self, relation: str | None) -> str:
        """SHA-256 of the related part's bytes; "" when there is none."""
        target = self.target(relation)
        if target is None:
            return ""
        if target not in self._hashes:
            self._hashes[target] = hashlib.sha256(self.package.read(target)).hexdigest()
        return self._hashes[target]

    def object(self, relation: str | None) -> tuple[str, Embedded | None]:
        """The digest of what an embedded object holds ("" when there is none), and the file in it."""
        target = self.target(relation)
        if target is None:
            return "", None
        data = self.package.read(target)
        suffix = target.rpartition(".")[2].lower()
        if suffix not in _READABLE and data.startswith(b"PK\x03\x04"):
            # Names of parts stand uncompressed in the archive's directory.
            suffix = next((s for s, name in _MAIN_PARTS if name in data[-65_536:]), suffix)
        kept = suffix in _READABLE and len(data) <= _MAX_EMBEDDED
        return content_digest(data), Embedded(suffix, data) if kept else None

    def image(self, relation: str | None, link: str | None, alt: str, width: float, height: float) -> Image:
        return Image(self.hash(relation), alt, width, height, self.external(relation) or self.external(link))

    def chart(self, element: Any) -> Chart | None:
        """The chart that a `c:chart` (or its newer kind) refers to."""
        target = self.target(element.get(f"{_R}id"))
        return None if target is None else read_chart(self.package.xml(target))

    def diagram(self, element: Any) -> Diagram | None:
        """The diagram that a `dgm:relIds` refers to."""
        target = self.target(element.get(f"{_R}dm"))
        if target is None:
            return None
        texts: list[str] = []
        for point in self.package.xml(target).iter(f"{_DGM}pt"):
            if point.get("type", "node") not in ("node", "asst", "doc"):
                continue
            lines = ["".join(t.text or "" for t in p.iter(f"{_A}t")) for p in point.iter(f"{_A}p")]
            text = "\n".join(lines).strip()
            if text:
                texts.append(text)
        return Diagram(tuple(texts))


def linear_maths(element: Any, depth: int = 0) -> str:
    """An equation (`m:oMath`) on one line: `(a+b)/(c)`, `x^(2)`, `√(x)`, `∑_(i=1)^(n) (i)`."""
    if depth > _MAX_DEPTH:
        return ""

    def part(name: str) -> str:
        found = element.find(f"{_M}{name}")
        return "" if found is None else linear_maths(found, depth + 1)

    match element.tag.removeprefix(_M):
        case "t":
            return (element.text or "").replace("\u2212", "-")  # a hyphen is shown as a minus here
        case "f":
            return f"({part('num')})/({part('den')})"
        case "sSup":
            return f"{part('e')}^({part('sup')})"
        case "sSub":
            return f"{part('e')}_({part('sub')})"
        case "sSubSup":
            return f"{part('e')}_({part('sub')})^({part('sup')})"
        case "rad":
            degree = part("deg")
            return f"√[{degree}]({part('e')})" if degree else f"√({part('e')})"
        case "nary":
            symbol = element.find(f"{_M}naryPr/{_M}chr")
            sign = symbol.get(f"{_M}val", "∫") if symbol is not None else "∫"
            return f"{sign}_({part('sub')})^({part('sup')}) ({part('e')})"
        case "d":
            opening, closing = element.find(f"{_M}dPr/{_M}begChr"), element.find(f"{_M}dPr/{_M}endChr")
            inner = ",".join(linear_maths(e, depth + 1) for e in element.iterfind(f"{_M}e"))
            left = opening.get(f"{_M}val", "(") if opening is not None else "("
            return left + inner + (closing.get(f"{_M}val", ")") if closing is not None else ")")
        case "func":
            return f"{part('fName')}({part('e')})"
        case "m":
            rows = [
                ",".join(linear_maths(e, depth + 1) for e in row.iterfind(f"{_M}e"))
                for row in element.iterfind(f"{_M}mr")
            ]
            return "[" + ";".join(rows) + "]"
        case _:
            inside = (linear_maths(child, depth + 1) for child in element if isinstance(child.tag, str))
            return "".join(inside)
