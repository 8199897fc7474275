"""Headers and footers of sections: read, set, cleared, linked to the section before or made independent of it."""

from __future__ import annotations

import copy
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.docs.building import Builder
from envkit.harnesses.archipelago.servers.docs.declared import HeaderFooter
from envkit.harnesses.archipelago.servers.docs.edited import Edited
from envkit.harnesses.archipelago.servers.docs.names import R, W, element, is_on
from envkit.harnesses.archipelago.servers.docs.opened import Writing, for_reading, for_writing
from envkit.harnesses.archipelago.servers.docs.pages import section_at, text_width
from envkit.harnesses.archipelago.servers.docs.places import blocks_of, is_table, sections_of, side_part
from envkit.harnesses.archipelago.servers.docs.reading import Listing
from envkit.harnesses.archipelago.servers.docs.words import text_of

__all__ = ["header_footer"]

_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.{}+xml"


def header_footer(arguments: HeaderFooter, context: Context) -> str:
    """One action on the header or footer of a section's usual pages."""
    action, side, index = arguments.action, arguments.area, arguments.section_index
    for name, of in (("content", "set"), ("link_to_previous", "link")):
        given = getattr(arguments, name)
        if action != of and given not in (None, []):
            raise ToolError(f"action {action} does not take {name}")
    if action == "read":
        return _read(arguments, context)
    if action == "set" and not arguments.content:
        raise ToolError('action set takes content: blocks such as {"type": "paragraph", "text": "Draft"}')
    if action == "link" and arguments.link_to_previous is None:
        raise ToolError("action link takes link_to_previous: true or false")
    writing = for_writing(context, arguments.file_path)
    section = section_at(writing.edited, index, make=True)
    if action == "link":
        return _link(writing, side, index, section, bool(arguments.link_to_previous))
    before = _text(writing.edited, side, index)
    if action == "clear" and side_part(writing.edited, side, index)[0] is None:
        return f"Section {index} has no {side}; nothing was changed."
    part, told = _own_part(writing.edited, side, index, section, copied=False)
    root = writing.edited.xml(part)
    made = []
    if action == "set":
        builder = Builder(writing.edited, text_width(section), plain=side)
        made = builder.build(arguments.content or [])
        writing.edited.notes += builder.notes
    if not made or made[-1].tag == f"{W}tbl":
        made.append(element("p"))  # a header ends with a paragraph
    root[:] = made
    writing.edited.changed(part)
    writing.edited.changed(writing.edited.main)
    after = _text(writing.edited, side, index)
    verb = "Set" if action == "set" else "Cleared"
    said = (
        f"{verb} the {side} of section {index}: {before!r} -> {after!r}.{told}{_others(writing.edited, side, section)}"
    )
    return said + writing.save()


def _read(arguments: HeaderFooter, context: Context) -> str:
    reading = for_reading(context, arguments.file_path)
    side, index = arguments.area, arguments.section_index
    section = section_at(reading.edited, index)
    out = []
    listing = Listing(reading)
    for pages in ("default", "first", "even") if section.getparent() is not None else ():
        lines = listing.side(index, side, pages)
        if not lines:
            continue
        _, owner = side_part(reading.edited, side, index, pages)
        kind = "" if pages == "default" else f" for {pages} pages"
        linked = "" if owner == index else f" (linked to section {owner}'s)"
        out += [f"The {side} of section {index}{kind}{linked}:", *lines]
    if not out:
        return f"Section {index} of {reading.shown} has no {side}."
    return "\n".join(out) + _others(reading.edited, side, section)


def _others(edited: Edited, side: str, section: Any) -> str:
    """What shows on first and even pages instead."""
    said = ""
    if is_on(section.find(f"{W}titlePg")):
        said += f" Its first page has a {side} of its own."
    settings = edited.related(edited.main, "settings")
    if settings is not None and is_on(edited.xml(settings).find(f"{W}evenAndOddHeaders")):
        said += f" Even pages have a {side} of their own."
    return said


def _text(edited: Edited, side: str, index: int) -> str:
    part, _ = side_part(edited, side, index)
    if part is None:
        return ""
    blocks = blocks_of(edited.xml(part))
    return "\n".join("(table)" if is_table(b) else text_of(b) for b in blocks).strip()


def _reference(section: Any, side: str) -> Any:
    return next((r for r in section.iterfind(f"{W}{side}Reference") if r.get(f"{W}type", "default") == "default"), None)


def _own_part(edited: Edited, side: str, index: int, section: Any, *, copied: bool) -> tuple[str, str]:
    """A part that this section alone refers to: its own, or a new one (with a copy of what shows now). What is to be
    told."""
    part, owner = side_part(edited, side, index)
    shared = part is not None and _users(edited, part) > 1
    if part is not None and owner == index and not shared:
        return part, ""
    folder = edited.main.rpartition("/")[0]
    name = edited.free_name(f"{folder}/{side}{{}}.xml".lstrip("/"))
    tag = "hdr" if side == "header" else "ftr"
    edited.put(name, f'<w:{tag} xmlns:w="{W[1:-1]}"/>'.encode(), _TYPE.format(side))
    root = edited.xml(name)
    if part is not None:
        # The root carries the prefixes that what is copied may need.
        fresh = copy.deepcopy(edited.xml(part))
        if not copied:
            del fresh[:]
        root = _replace_root(edited, name, fresh)
        if copied:
            edited.copy_relations(part, name)
    if not len(root):
        root.append(element("p"))
    edited.changed(name)
    relation = edited.relate(edited.main, side, name)
    reference = _reference(section, side)
    if reference is None:
        reference = element(f"{side}Reference", type="default")
        section.insert(0, reference)
    reference.set(f"{R}id", relation)
    edited.changed(edited.main)
    later = index + 1 < len(sections_of(edited)) and side_part(edited, side, index + 1) == (name, index)
    following = " Sections after it that are linked to it show the same." if later else ""
    return name, following


def _replace_root(edited: Edited, name: str, fresh: Any) -> Any:
    edited.put(name, etree.tostring(fresh, xml_declaration=True, encoding="UTF-8", standalone=True))
    return edited.xml(name)


def _users(edited: Edited, part: str) -> int:
    """How many sections refer to a part themselves."""
    root = edited.xml(edited.main)
    count = 0
    for kind in ("header", "footer"):
        for reference in root.iter(f"{W}{kind}Reference"):
            count += edited.target(edited.main, reference.get(f"{R}id")) == part
    return count


def _link(writing: Writing, side: str, index: int, section: Any, link: bool) -> str:
    edited = writing.edited
    if index == 0:
        raise ToolError(f"section 0 has no section before it that its {side} could be linked to")
    reference = _reference(section, side)
    if link:
        if reference is None:
            return f"The {side} of section {index} is linked to the section before already; nothing was changed."
        before = _text(edited, side, index)
        relation = reference.get(f"{R}id")
        part = edited.target(edited.main, relation)
        section.remove(reference)
        edited.changed(edited.main)
        if part is not None and _users(edited, part) == 0:
            edited.unrelate(edited.main, relation)
            if edited.referred(part) == 0:
                edited.remove(part)
        return (
            f"The {side} of section {index} shows that of the section before now: {before!r} -> "
            f"{_text(edited, side, index)!r}.{writing.save()}"
        )
    if reference is not None:
        return f"The {side} of section {index} is its own already; nothing was changed."
    _, told = _own_part(edited, side, index, section, copied=True)
    return (
        f"The {side} of section {index} is its own now, a copy of what showed before: "
        f"{_text(edited, side, index)!r}.{told}{writing.save()}"
    )
