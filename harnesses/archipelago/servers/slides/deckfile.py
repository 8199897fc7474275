"""A deck opened for changing, and written back whole.

What the file holds beyond what is changed comes back as it was: python-pptx keeps every part that anything leads to,
relations that lead nowhere (programs leave such behind) are set aside and put back, and a "Strict Open XML" deck is
saved as the usual kind. Before a deck replaces the old one it is read once more, so that a broken file is never
written. Used by all tools that write.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lxml import etree
from pptx.opc.constants import RELATIONSHIP_TYPE as RT
from pptx.package import Package as PptxPackage
from pptx.parts.presentation import PresentationPart
from pptx.presentation import Presentation
from pptx.slide import Slide

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.context import Context
from envkit.harnesses.archipelago.servers.slides.fields import Metadata
from envkit.harnesses.archipelago.servers.slides.texts import clean
from envkit.office.deck import read_deck
from envkit.office.deck.shapes import found_shapes
from envkit.office.package import Package
from envkit.office.problem import Problem, Unreadable

__all__ = ["EDITABLE", "DeckFile", "all_shapes", "deck_path", "inches", "pictures", "set_metadata"]

#: Extensions that are read and written; others are named in the error.
EDITABLE = (".pptx", ".pptm", ".potx", ".ppsx")
_REL = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"
_ASIDE = "envkit-aside:"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_EMU = 914_400


def inches(emu: int | float | None) -> float:
    """A length of the file (EMU) in inches, to two decimals."""
    return round((emu or 0) / _EMU, 2)


def deck_path(text: str, context: Context, *, must_exist: bool | None = True) -> Path:
    """The path of a deck. Raises `ToolError` for a file that by its name is none."""
    path = context.path(text, must_exist=must_exist)
    suffix = path.suffix.lower()
    if suffix not in EDITABLE:
        what = "an old PowerPoint file; convert it with `soffice --convert-to pptx`" if suffix == ".ppt" else "no deck"
        raise ToolError(f"{context.shown(path)} is {what}: expected a .pptx file")
    return path


class DeckFile:
    """An opened deck: `presentation` is python-pptx's view of it.

    Raises:
        ToolError, Unreadable: There is none, or it can't be read.
    """

    def __init__(self, text: str, context: Context) -> None:
        self.context = context
        self.path = deck_path(text, context)
        self.presentation = context.parse(self.path, _opened)

    @property
    def shown(self) -> str:
        return self.context.shown(self.path)

    def slide(self, index: int, name: str = "slide_index") -> Slide:
        """A slide by its index from 0. Raises `ToolError`."""
        slides = self.slides
        if index >= len(slides):
            has = f"{len(slides)} slides (0 to {len(slides) - 1})" if slides else "no slides; add one first"
            raise ToolError(f"there is no slide with {name} {index}: {self.shown} has {has}")
        return slides[index]

    @property
    def slides(self) -> list[Slide]:
        """The slides in order, their parts named as they were (python-pptx's own list renames them)."""
        part = self.presentation.part
        out: list[Slide] = []
        listed = self.presentation.element.find(f"{_P}sldIdLst")
        for element in listed if listed is not None else ():
            out.append(part.related_slide(element.get(f"{_R}id")))
        return out

    def set_metadata(self, metadata: Metadata | None) -> list[str]:
        """Sets the given properties of the file and returns their names."""
        return set_metadata(self.presentation, metadata)

    def save(self) -> None:
        """Writes the deck in the place of the old one. Raises `ToolError`."""
        out = io.BytesIO()
        self.presentation.save(out)
        data = _put_back(out.getvalue())
        read_deck(data)
        self.context.write(self.path, data)


def set_metadata(presentation: Presentation, metadata: Metadata | None) -> list[str]:
    """Sets the given properties of a deck and returns their names."""
    names = [n for n in ("title", "subject", "author", "comments") if getattr(metadata, n, None) is not None]
    if not names:
        return []
    package = presentation.part.package
    fresh = all(relation.reltype != RT.CORE_PROPERTIES for relation in package._rels.values())
    properties = presentation.core_properties
    if fresh:  # python-pptx signs what it makes
        properties.title = properties.last_modified_by = ""
    for name in names:
        setattr(properties, name, clean(getattr(metadata, name)))
    return names


def all_shapes(slide: Slide) -> Iterator[Any]:
    """The elements of a slide's shapes in drawing order, through groups, as the readers count them."""
    tree = slide.element.find(f"{_P}cSld/{_P}spTree")
    return (element for element, _ in found_shapes(tree))


def pictures(elements: Iterator[Any]) -> list[Any]:
    """The pictures among the elements of shapes: what `image_index` counts."""
    media = (f"{_A}videoFile", f"{_A}audioFile", f"{_A}wavAudioFile")
    return [e for e in elements if e.tag == f"{_P}pic" and next(e.iter(*media), None) is None]


def _opened(data: bytes) -> Presentation:
    package = Package(data, "presentationml")
    try:
        part = PptxPackage.open(io.BytesIO(_set_aside(data, package))).main_document_part
    except (KeyError, ValueError, AttributeError, TypeError, etree.XMLSyntaxError, zipfile.BadZipFile) as error:
        raise Unreadable(Problem.CORRUPT, f"its parts don't fit together: {error}") from error
    if not isinstance(part, PresentationPart):
        raise Unreadable(Problem.NOT_THIS_FORMAT, f"its main part is no deck but {part.content_type}")
    for slide in _listed(part, "sldIdLst", RT.SLIDE):
        layout = _related(slide, RT.SLIDE_LAYOUT)
        if layout is None or _related(layout, RT.SLIDE_MASTER) is None:
            raise Unreadable(Problem.CORRUPT, f"slide {slide.partname} has no layout or no master")
    for master in _listed(part, "sldMasterIdLst", RT.SLIDE_MASTER):
        _listed(master, "sldLayoutIdLst", RT.SLIDE_LAYOUT)
    presentation: Presentation = part.presentation
    return presentation


def _listed(part: Any, name: str, kind: str) -> list[Any]:
    """The parts that a list of a part names. Raises `Unreadable` where one is missing or of another kind."""
    out: list[Any] = []
    for element in part._element.iterfind(f"{_P}{name}/*"):
        relation = part.rels.get(element.get(f"{_R}id"))
        if relation is None or relation.is_external or relation.reltype != kind:
            what = {"sldIdLst": "slides", "sldMasterIdLst": "masters"}.get(name, "layouts")
            raise Unreadable(Problem.CORRUPT, f"its list of {what} names one that is not in the file")
        out.append(relation.target_part)
    return out


def _related(part: Any, kind: str) -> Any:
    """The part that another leads to by a kind of relation; None where it leads to none."""
    return next((r.target_part for r in part.rels.values() if r.reltype == kind and not r.is_external), None)


def _set_aside(data: bytes, package: Package) -> bytes:
    """The file as python-pptx can open it: relations that lead nowhere are marked, strict namespaces mapped, the case
    of names made one."""
    names = {name.lower(): name for name in package.names()}
    changed: dict[str, bytes] = {}
    for name in package.names():
        content = package.read(name) if name.lower().endswith((".rels", ".xml")) else b""
        if name.lower().endswith(".rels"):
            content = _marked(content, name, names)
        if content:
            changed[name] = content
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        infos = {info.filename.lstrip("/"): info for info in source.infolist()}
        if all(n in infos and source.read(infos[n]) == content for n, content in changed.items()):
            return data
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as target:
            for name in package.names():
                target.writestr(name, changed.get(name) or package.read(name))
    return out.getvalue()


def _marked(content: bytes, name: str, names: dict[str, str]) -> bytes:
    root = etree.fromstring(content, etree.XMLParser(resolve_entities=False, no_network=True))
    folder = posixpath.dirname(posixpath.dirname(name))
    found = False
    for element in root.iter(_REL):
        if element.get("TargetMode") == "External":
            continue
        target = element.get("Target", "")
        plain = unquote(target.partition("#")[0])
        full = plain[1:] if plain.startswith("/") else posixpath.normpath(posixpath.join(folder, plain))
        there = names.get(full.lower())
        if there is None:
            element.set("Target", _ASIDE + target)
            element.set("TargetMode", "External")
            found = True
        elif there != full or "#" in target:
            element.set("Target", f"/{there}")
            found = True
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True) if found else content


def _put_back(data: bytes) -> bytes:
    """Makes the relations that were set aside what they were."""
    marker = _ASIDE.encode()
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        infos = source.infolist()
        marked = {i.filename for i in infos if i.filename.endswith(".rels") and marker in source.read(i)}
        if not marked:
            return data
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
            for info in infos:
                content = source.read(info)
                if info.filename in marked:
                    root = etree.fromstring(content)
                    for element in root.iter(_REL):
                        if element.get("Target", "").startswith(_ASIDE):
                            element.set("Target", element.get("Target", "").removeprefix(_ASIDE))
                            element.attrib.pop("TargetMode", None)
                    content = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)
                target.writestr(info.filename, content)
    return out.getvalue()
