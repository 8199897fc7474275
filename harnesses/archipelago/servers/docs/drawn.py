"""The pictures of a document: found in reading order, with the keys by which tools name them.

A picture's index counts through the body (tables and text boxes in place), then headers, footers and notes. Its
annotation is the identifier of the run that holds it with underscores: `body_p_3_r1`. Used by reading and by the tools
for pictures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.docs.edited import Edited
from envkit.harnesses.archipelago.servers.docs.names import A, R, V, local
from envkit.harnesses.archipelago.servers.docs.places import (
    Places,
    blocks_of,
    body_of,
    boxes_of,
    grid_of,
    is_table,
    sections_of,
    side_part,
)
from envkit.harnesses.archipelago.servers.docs.words import groups
from envkit.office.document.pieces import children

__all__ = ["Drawn", "drawn_in", "paragraphs_below", "pick", "pictures"]

_SKIPPED = ("pPr", "rPr", "sdtPr", "sdtEndPr", "sectPr", "customXmlPr")


@dataclass(frozen=True)
class Drawn:
    """A picture: its index, its key, the paragraph it is in, the part, and the `a:blip` or `v:imagedata` that shows
    it."""

    index: int
    annotation: str
    paragraph: str
    part: str
    node: Any

    @property
    def relation(self) -> str | None:
        """The relationship to its file; None for one that is only linked."""
        name = self.node.get(f"{R}embed") if self.node.tag == f"{A}blip" else self.node.get(f"{R}id")
        return None if name is None else str(name)


def drawn_in(paragraph: Any) -> list[Any]:
    """What shows the pictures of a paragraph, in the order of the model's `images`; not those in its text boxes."""
    out: list[Any] = []

    def walk(node: Any, depth: int) -> None:
        for item in children(node):
            if local(item) in _SKIPPED or local(item) == "txbxContent" or depth > 80:
                continue
            if item.tag == f"{A}blip":
                out.append(item)
            elif item.tag == f"{V}imagedata":
                if local(item.getparent()) != "object":
                    out.append(item)
            else:
                walk(item, depth + 1)

    walk(paragraph, 0)
    return out


def paragraphs_below(area: Any, label: str) -> Iterator[tuple[str, Any]]:
    """All paragraphs of an area with their identifiers, in reading order, those of tables and text boxes included."""
    paragraphs = tables = 0
    for block in blocks_of(area):
        if is_table(block):
            name = f"{label}.tbl.{tables}"
            tables += 1
            for number, (_, cells) in enumerate(grid_of(block)):
                for cell in cells:
                    if cell.top is None:
                        yield from paragraphs_below(cell.node, f"{name}.r.{number}.c.{cell.column}")
            continue
        name = f"{label}.p.{paragraphs}"
        paragraphs += 1
        yield name, block
        for number, box in enumerate(boxes_of(block)):
            yield from paragraphs_below(box, f"{name}.box.{number}")


def areas(edited: Edited) -> Iterator[tuple[str, str, Any]]:
    """All that holds text: identifier, part, element. A header stands once, for the section that it belongs to."""
    yield "body", edited.main, body_of(edited)
    for section in range(len(sections_of(edited))):
        for side in ("header", "footer"):
            for pages in ("default", "first", "even"):
                part, owner = side_part(edited, side, section, pages)
                if part is not None and owner == section:
                    label = f"{side}.s.{section}" + ("" if pages == "default" else f".{pages}")
                    yield label, part, edited.xml(part)
    for kind in ("footnote", "endnote"):
        part = edited.related(edited.main, f"{kind}s")
        if part is not None:
            for number, note in enumerate(Places(edited).notes(kind), 1):
                yield f"{kind}.{number}", part, note


def pictures(edited: Edited) -> list[Drawn]:
    """All pictures."""
    out: list[Drawn] = []
    seen: set[str] = set()
    for label, part, area in areas(edited):
        if part != edited.main:
            if label.startswith(("header", "footer")) and part in seen:
                continue
            seen.add(part)
        for name, paragraph in paragraphs_below(area, label):
            found = drawn_in(paragraph)
            if not found:
                continue
            holders = [(number, o) for number, group in enumerate(groups(paragraph)) for o in group.objects]
            keys: dict[int | None, int] = {}
            for node in found:
                around = list(node.iterancestors())
                group = next((number for number, o in holders if any(o is a for a in around)), None)
                key = name.replace(".", "_") + (f"_r{group}" if group is not None else "_deleted")
                keys[group] = keys.get(group, 0) + 1
                if keys[group] > 1:
                    key += f"_img{keys[group] - 1}"
                out.append(Drawn(len(out), key, name, part, node))
    return out


def pick(found: list[Drawn], annotation: str) -> Drawn:
    """The picture of a key: an annotation, or an index. Raises `ToolError`."""
    wanted = re.sub(r"[.\s]+", "_", annotation.strip().lstrip("@").lower())
    plain = re.sub(r"_r_?(\d+)(?=$|_img)", r"_r\1", wanted)
    for drawn in found:
        if drawn.annotation == plain:
            return drawn
    number = re.fullmatch(r"(?:image|img|picture)?_?(\d{1,6})", wanted)
    if number is not None and int(number[1]) < len(found):
        return found[int(number[1])]
    # The paragraph is enough where it holds only one.
    within = [d for d in found if d.paragraph.replace(".", "_") == wanted]
    if len(within) == 1:
        return within[0]
    if not found:
        raise ToolError(f"there is no picture {annotation!r}: the document has none")
    some = ", ".join(d.annotation for d in found[:20]) + (f" and {len(found) - 20} more" if len(found) > 20 else "")
    raise ToolError(f"there is no picture {annotation!r}; the document has {some}")
