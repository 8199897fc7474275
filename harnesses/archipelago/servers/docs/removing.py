"""Taking elements out of a document so that what is left is sound.

Marks of ranges that reach further (bookmarks, comments, permissions) stay; a section's end moves to the paragraph
before; comments that lie wholly in what goes, go with it. What can't go without harm is refused, saying why. Used by
`editing.py`.
"""

from __future__ import annotations

from typing import Any

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.docs.edited import Edited
from envkit.harnesses.archipelago.servers.docs.names import PPR_ORDER, W, element, local, placed
from envkit.harnesses.archipelago.servers.docs.places import Cell, Place, blocks_of, grid_of, is_table
from envkit.harnesses.archipelago.servers.docs.remarks import drop_comments
from envkit.harnesses.archipelago.servers.docs.words import groups, text_of

__all__ = ["removed"]

#: Starts of ranges and their ends.
_RANGES = {
    "bookmarkStart": "bookmarkEnd", "commentRangeStart": "commentRangeEnd", "permStart": "permEnd",
    "moveFromRangeStart": "moveFromRangeEnd", "moveToRangeStart": "moveToRangeEnd",
}  # fmt: skip
_ENDS = {end: start for start, end in _RANGES.items()}


def removed(edited: Edited, place: Place) -> str:
    """Takes out what an identifier names; says what is gone. Raises `ToolError` where that would do harm."""
    match place.kind:
        case "paragraph":
            return _paragraph(edited, place)
        case "run":
            return _run(edited, place)
        case "table":
            return _table(edited, place)
        case "row":
            return _row(edited, place)
        case "cell":
            raise ToolError(
                f"{place.label} is a cell, which can't be deleted by itself: clear it with scope content, or delete "
                f"its row {place.area}.r.{place.label.rsplit('.', 3)[1]}"
            )
    raise ToolError(f"{place.label} can't be deleted as a whole: name its paragraphs and tables one by one")


def _paragraph(edited: Edited, place: Place) -> str:
    node = place.node
    _whole_fields(node, place.label)
    holder = node.getparent()
    before, after = _neighbour(node, -1), _neighbour(node, 1)
    if after is None and (before is None or is_table(before)) and _needs_paragraph(holder):
        raise ToolError(
            f"{place.label} can't go: {_what(holder)} ends with a paragraph. Clear its text with scope content"
        )
    if before is not None and after is not None and is_table(before) and is_table(after):
        raise ToolError(
            f"{place.label} stands between two tables, which would become one without it: clear its text with scope "
            "content"
        )
    old = text_of(node) if local(node) == "p" else "an equation"
    section = node.find(f"{W}pPr/{W}sectPr")
    if section is not None:
        if before is None or is_table(before) or before.find(f"{W}pPr/{W}sectPr") is not None:
            raise ToolError(f"{place.label} ends a section and nothing else could: clear its text with scope content")
        properties = before.find(f"{W}pPr")
        if properties is None:
            properties = element("pPr")
            before.insert(0, properties)
        placed(properties, section, PPR_ORDER)
    gone = _taken_out(edited, node)
    return _told(place, f"Deleted {place.label}: {old!r}.", gone, "p")


def _run(edited: Edited, place: Place) -> str:
    assert place.group is not None
    for run in place.group.runs:
        if any(local(c) == "fldChar" for c in run):
            raise ToolError(f"{place.label} is part of a field: clear its text with scope content")
    text = place.group.text or "a drawing"
    for run in place.group.runs:
        parent = run.getparent()
        keep = [c for c in run if local(c) in ("footnoteReference", "endnoteReference", "commentReference")]
        if keep:
            for child in list(run):
                if child not in keep and local(child) != "rPr":
                    run.remove(child)
        elif local(parent) == "sdtContent" and len(parent) == 1:
            parent.replace(run, element("r"))
        else:
            parent.remove(run)
    for wrapper in reversed(place.group.wrappers):
        if local(wrapper) in ("hyperlink", "ins", "moveTo", "smartTag") and not len(wrapper):
            wrapper.getparent().remove(wrapper)
    now = text_of(place.node)
    return f"Deleted {place.label}: {text!r}. The paragraph is now {now!r}; it has {len(groups(place.node))} runs."


def _table(edited: Edited, place: Place) -> str:
    _whole_fields(place.node, place.label)
    before, after = _neighbour(place.node, -1), _neighbour(place.node, 1)
    between = before is not None and after is not None and is_table(before) and is_table(after)
    if between:
        raise ToolError(f"{place.label} stands between two tables, which would become one without it")
    rows = grid_of(place.node)
    first = " | ".join(_texts(rows[0][1])) if rows else ""
    gone = _taken_out(edited, place.node)
    return _told(place, f"Deleted {place.label} with its {len(rows)} rows (first row: {first[:200]!r}).", gone, "tbl")


def _texts(cells: list[Cell]) -> list[str]:
    return [" ".join(text_of(b) for b in blocks_of(c.node) if not is_table(b)) for c in cells]


def _row(edited: Edited, place: Place) -> str:
    table = next(a for a in place.node.iterancestors(f"{W}tbl"))
    rows = grid_of(table)
    if len(rows) == 1:
        raise ToolError(f"{place.label} is the only row of {place.area}: delete the table, {place.area}")
    _whole_fields(place.node, place.label)
    number = place.number
    texts = _texts(rows[number][1])
    if number + 1 < len(rows):
        # Cells merged downwards begin in the next row now.
        for cell in rows[number + 1][1]:
            if cell.top == number:
                merge = cell.node.find(f"{W}tcPr/{W}vMerge")
                further = number + 2 < len(rows) and any(
                    c.column == cell.column and c.top == number for c in rows[number + 2][1]
                )
                if further:
                    merge.set(f"{W}val", "restart")
                else:
                    merge.getparent().remove(merge)
    gone = _taken_out(edited, place.node)
    return _told(place, f"Deleted row {place.label}: {' | '.join(texts)!r}.", gone, "r")


# --- what is around


def _neighbour(node: Any, step: int) -> Any:
    """The block before or after among those counted together; None at the edge."""
    area = next(a for a in node.iterancestors() if local(a) in _AREAS)
    found = list(blocks_of(area))
    index = next(n for n, b in enumerate(found) if b is node) + step
    return found[index] if 0 <= index < len(found) else None


_AREAS = ("body", "tc", "txbxContent", "hdr", "ftr", "footnote", "endnote", "comment")


def _needs_paragraph(holder: Any) -> bool:
    area = holder if local(holder) in _AREAS else next(a for a in holder.iterancestors() if local(a) in _AREAS)
    return local(area) != "body"


def _what(holder: Any) -> str:
    area = holder if local(holder) in _AREAS else next(a for a in holder.iterancestors() if local(a) in _AREAS)
    names = {"tc": "a cell", "txbxContent": "a text box", "hdr": "a header", "ftr": "a footer"}
    return names.get(local(area), "a note")


def _whole_fields(node: Any, label: str) -> None:
    """Raises `ToolError` where a field begins or ends outside of what is to go."""
    depth = 0
    for char in node.iter(f"{W}fldChar"):
        kind = char.get(f"{W}fldCharType")
        depth += (kind == "begin") - (kind == "end")
        if depth < 0:
            break
    if depth:
        raise ToolError(
            f"{label} holds one end of a field that reaches further (such as a table of contents): clear its text with "
            "scope content"
        )


def _taken_out(edited: Edited, node: Any) -> list[str]:
    """Takes a block out, leaving what marks ranges that reach further. The ids of comments that are gone with it."""
    starts: dict[tuple[str, str], Any] = {}
    ends: dict[tuple[str, str], Any] = {}
    for item in node.iter(*(W + t for t in (*_RANGES, *_ENDS))):
        tag = local(item)
        key = (_ENDS.get(tag, tag), str(item.get(f"{W}id", "")))
        (ends if tag in _ENDS else starts)[key] = item
    outside = [i for k, i in (*starts.items(), *ends.items()) if not (k in starts and k in ends)]
    comments = [k[1] for k in starts if k[0] == "commentRangeStart" and k in ends]
    references = [str(r.get(f"{W}id", "")) for r in node.iter(f"{W}commentReference")]
    reaching = {str(i.get(f"{W}id", "")) for i in outside if "comment" in local(i)}
    # A comment that is about more than this keeps its reference, in a run of its own.
    moved = [r for r in references if r in reaching]
    comments += [r for r in references if r not in reaching and r not in comments]
    beside = local(node) != "tr"
    target = _neighbour(node, 1) if beside else None
    previous = _neighbour(node, -1) if beside else None
    for item in outside:
        node.addprevious(item)
    for name in moved:
        run = element("r", element("commentReference", id=name))
        if target is not None and local(target) == "p":
            properties = target.find(f"{W}pPr")
            target.insert(0 if properties is None else 1, run)
        elif previous is not None and local(previous) == "p":
            previous.append(run)
        else:
            comments.append(name)
    node.getparent().remove(node)
    return drop_comments(edited, comments) if comments else []


def _told(place: Place, said: str, gone: list[str], step: str) -> str:
    if gone:
        said += f" With it went comment{'s' * (len(gone) != 1)} {', '.join(gone)}."
    number = place.number
    holder = place.area
    return f"{said} What was {holder}.{step}.{number + 1} is now {holder}.{step}.{number}, and so on below it."
