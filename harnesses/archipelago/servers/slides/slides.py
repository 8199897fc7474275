"""Slides as a whole: made by layout, put in their place, deleted without trace, copied with all that is theirs.

A deleted slide leaves no relation behind: sections, custom shows, links and views that name it are changed with it. A
copied slide shares with its original only what never changes by editing a slide (layout, pictures, media).
"""

from __future__ import annotations

import re
import uuid
from copy import deepcopy
from typing import Any

from lxml import etree
from pptx.opc.constants import RELATIONSHIP_TARGET_MODE as MODE
from pptx.opc.constants import RELATIONSHIP_TYPE as RT
from pptx.opc.package import Part, XmlPart, _Relationship
from pptx.opc.packuri import PackURI
from pptx.parts.slide import SlidePart
from pptx.presentation import Presentation
from pptx.slide import Slide, SlideLayout

from envkit.harnesses.archipelago.servers.app import ToolError

__all__ = ["delete_slide", "duplicate_slide", "find_layout", "new_slide", "notes_body", "slide_elements"]

_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_P14 = "{http://schemas.microsoft.com/office/powerpoint/2010/main}"
_P188 = "http://schemas.microsoft.com/office/powerpoint/2018/8/main"
#: Relations whose targets a copy shares: nothing that edits one slide changes them.
_SHARED = frozenset({
    "slideLayout", "slideMaster", "notesMaster", "theme", "image", "media", "video", "audio", "slide", "font",
    "hdphoto", "model3d", "vbaProject", "presProps", "viewProps", "commentAuthors", "authors",
})  # fmt: skip
#: What our word for a layout is in the file (`type`), the best first, and in its name.
_TYPES = {
    "title": (("title",), ("title slide", "title")),
    "title_and_content": (("obj", "tx", "objOnly"), ("title and content", "title, content", "content")),
    "section_header": (("secHead",), ("section header", "section", "divider")),
    "two_content": (("twoObj", "twoColTx", "twoTxTwoObj"), ("two content", "two columns", "comparison")),
    "title_only": (("titleOnly",), ("title only",)),
    "blank": (("blank",), ("blank", "empty")),
}


def slide_elements(presentation: Presentation) -> list[Any]:
    """The entries of the list of slides."""
    return list(presentation.element.iterfind(f"{_P}sldIdLst/{_P}sldId"))


def find_layout(presentation: Presentation, word: str, beside: Slide | None) -> SlideLayout:
    """The layout that a word means, of the master of a neighbouring slide first; where the deck has none such, one
    that leaves most room. Raises `ToolError` where it has no layouts at all."""
    masters: list[Any] = list(presentation.slide_masters)
    if beside is not None:
        own = beside.slide_layout.slide_master
        masters.sort(key=lambda m: m.part is not own.part)
    types, names = _TYPES[word]
    every: list[SlideLayout] = [layout for master in masters for layout in master.slide_layouts]
    for master in masters:
        layouts: list[SlideLayout] = list(master.slide_layouts)
        for kind in types:
            for layout in layouts:
                if layout.element.get("type") == kind:
                    return layout
        for name in names:
            for exact in (True, False):
                for layout in layouts:
                    said = re.sub(r"^\d+_", "", layout.name.strip().casefold())
                    if said == name or (not exact and name in said and len(name) > 5):
                        return layout
        for layout in layouts:
            if _shape_of(layout) == word:
                return layout
    if not every:
        raise ToolError("the deck has no slide layouts, so no slide can be added")
    return min(every, key=lambda layout: (len(list(layout.placeholders)), len(layout.shapes)))


def _shape_of(layout: SlideLayout) -> str:
    """What a layout is good for by its placeholders."""
    kinds = [e.get("type", "obj") for e in layout.element.iter(f"{_P}ph")]
    titles = sum(k in ("title", "ctrTitle") for k in kinds)
    content = sum(k in ("obj", "body", "tbl", "chart") for k in kinds)
    if "subTitle" in kinds:
        return "title"
    table = {(1, 1): "title_and_content", (1, 2): "two_content", (1, 0): "title_only", (0, 0): "blank"}
    return table.get((titles, content), "")


def new_slide(presentation: Presentation, layout: SlideLayout, index: int) -> Slide:
    """An empty slide of a layout at a place."""
    part = presentation.part
    name = part.package.next_partname("/ppt/slides/slide%d.xml")
    made: Any = SlidePart.new(name, part.package, layout.part)  # type: ignore[no-untyped-call]
    _list(presentation, made, index)
    slide: Slide = made.slide
    slide.shapes.clone_layout_placeholders(layout)
    return slide


def _list(presentation: Presentation, part: SlidePart, index: int) -> None:
    """Puts a slide into the list of slides, and into the section of the slide before it."""
    relation = presentation.part.relate_to(part, RT.SLIDE)
    listed = presentation.element.get_or_add_sldIdLst()
    element = listed.add_sldId(relation)
    before = slide_elements(presentation)
    listed.remove(element)
    listed.insert(index, element)
    others = [e for e in before if e is not element]
    sections = presentation.element.find(f".//{_P14}sectionLst")
    if sections is None:
        return
    entry = etree.Element(f"{_P14}sldId", id=element.get("id"))
    neighbour = others[index - 1].get("id") if index else others[0].get("id") if others else ""
    for known in sections.iter(f"{_P14}sldId"):
        if known.get("id") == neighbour:
            at = known.getparent().index(known)
            known.getparent().insert(at + (1 if index else 0), entry)
            return
    holder = next(sections.iter(f"{_P14}sldIdLst"), None)
    if holder is not None:
        holder.append(entry)


# --- deleting ---


def delete_slide(presentation: Presentation, index: int) -> None:
    """Takes a slide out with everything that names it."""
    element = slide_elements(presentation)[index]
    number, relation = element.get("id"), element.get(f"{_R}id")
    target = presentation.part.related_part(relation)
    element.getparent().remove(element)
    sections = presentation.element.find(f".//{_P14}sectionLst")
    for entry in list(sections.iter(f"{_P14}sldId")) if sections is not None else ():
        if entry.get("id") == number:
            entry.getparent().remove(entry)
    # Notes and comments of the slide itself go with it; everything else forgets it.
    own = {id(target)} | {id(r.target_part) for r in target.rels.values() if not r.is_external and _kind(r) in _OWN}
    for part in list(presentation.part.package.iter_parts()):
        if id(part) in own:
            continue
        leading = [r.rId for r in part.rels.values() if not r.is_external and r.target_part is target]
        if leading:
            _forget(part, leading)


_OWN = ("notesSlide", "comments")


def _kind(relation: _Relationship) -> str:
    return relation.reltype.rsplit("/", 1)[-1]


def _forget(part: Part, relations: list[str]) -> None:
    """Drops relations of a part with the elements that use them."""
    root = part._element if isinstance(part, XmlPart) else None
    blob = root is None and part.blob.lstrip()[:1] == b"<"
    if blob:
        root = etree.fromstring(part.blob, etree.XMLParser(resolve_entities=False, no_network=True))
    for element in list(root.iter()) if root is not None else ():
        if any(element.get(name) in relations for name in (f"{_R}id", f"{_R}embed", f"{_R}link")):
            parent = element.getparent()
            if parent is not None:
                parent.remove(element)
    if blob:
        part._blob = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)
    for relation in relations:
        part.rels.pop(relation)


# --- copying ---


def duplicate_slide(presentation: Presentation, index: int, at: int) -> Slide:
    """A copy of a slide at a place, with its notes, charts, diagrams, objects and comments as parts of its own."""
    source = presentation.part.related_part(slide_elements(presentation)[index].get(f"{_R}id"))
    package = presentation.part.package
    name = package.next_partname("/ppt/slides/slide%d.xml")
    assert isinstance(source, SlidePart)
    made = SlidePart(name, source.content_type, package, deepcopy(source._element))
    _list(presentation, made, at)
    copies: dict[int, Part] = {id(source): made}
    _copy_relations(source, made, copies)
    for element in made._element.iter(f"{_P14}creationId"):
        element.set("val", str(uuid.uuid4().int % (1 << 32)))
    slide: Slide = made.slide
    return slide


def _copy_relations(source: Part, made: Part, copies: dict[int, Part]) -> None:
    for key, relation in source.rels.items():
        if relation.is_external:
            made.rels._rels[key] = _Relationship(
                made.partname.baseURI, key, relation.reltype, MODE.EXTERNAL, relation.target_ref
            )
            continue
        target = relation.target_part
        if id(target) in copies:
            own = copies[id(target)]
        elif _kind(relation) in _SHARED:
            own = target
        else:
            own = _copied(target)
        fresh = own is not target and id(target) not in copies
        made.rels._rels[key] = _Relationship(made.partname.baseURI, key, relation.reltype, MODE.INTERNAL, own)
        if fresh:
            # Listed first, so that names of parts made further down are found free or taken as they are.
            copies[id(target)] = own
            _copy_relations(target, own, copies)


def _copied(part: Part) -> Part:
    stem, extension = part.partname.rsplit(".", 1)
    pattern = re.sub(r"\d+$", "", stem).replace("%", "%%") + "%d." + extension.replace("%", "%%")
    name: PackURI = part.package.next_partname(pattern)
    if isinstance(part, XmlPart):
        return type(part)(name, part.content_type, part.package, deepcopy(part._element))
    blob = part.blob
    if _P188.encode() in blob[:4096]:
        # Comments are told apart by these throughout the deck.
        blob = re.sub(rb'(?<= id=")\{[0-9A-Fa-f-]{36}\}', lambda m: b"{%s}" % str(uuid.uuid4()).upper().encode(), blob)
    return type(part)(name, part.content_type, part.package, blob)


# --- notes ---


def notes_body(slide: Slide) -> Any:
    """The text body of a slide's notes, made (with the deck's notes master) where there is none."""
    presentation = slide.part.package.presentation_part.presentation
    had = any(r.reltype == RT.NOTES_MASTER for r in presentation.part.rels.values())
    page: Any = slide.notes_slide
    if not had:
        _list_notes_master(presentation)
    frame = page.notes_text_frame
    if frame is None:
        for holder in page.part.notes_master.placeholders:
            if holder.element.find(f".//{_P}ph").get("type") == "body":
                page.shapes.clone_placeholder(holder)
        frame = page.notes_text_frame
    if frame is None:
        raise ToolError("the notes pages of this deck have no place for text")
    return frame._txBody


def _list_notes_master(presentation: Presentation) -> None:
    """Names the new notes master in the deck, which PowerPoint expects."""
    root = presentation.element
    relation = next((r.rId for r in presentation.part.rels.values() if r.reltype == RT.NOTES_MASTER), None)
    if relation is None or root.find(f"{_P}notesMasterIdLst") is not None:
        return
    listed = etree.Element(f"{_P}notesMasterIdLst")
    etree.SubElement(listed, f"{_P}notesMasterId").set(f"{_R}id", relation)
    masters = root.find(f"{_P}sldMasterIdLst")
    masters.addnext(listed)
