"""Comments: read, added to a place, deleted with their answers and everything that refers to them."""

from __future__ import annotations

from typing import Any

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.docs.declared import Comments
from envkit.harnesses.archipelago.servers.docs.drawn import paragraphs_below
from envkit.harnesses.archipelago.servers.docs.edited import Edited
from envkit.harnesses.archipelago.servers.docs.names import W14, W15, W, element, local
from envkit.harnesses.archipelago.servers.docs.opened import Reading, Writing, for_reading, for_writing
from envkit.harnesses.archipelago.servers.docs.places import Place, blocks_of, body_of, is_table
from envkit.harnesses.archipelago.servers.docs.words import text_of

__all__ = ["comments", "drop_comments"]

_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.comments+xml"
_MARKS = ("commentRangeStart", "commentRangeEnd", "commentReference")
_CID = "{http://schemas.microsoft.com/office/word/2016/wordml/cid}"
_CEX = "{http://schemas.microsoft.com/office/word/2018/wordml/cex}"


def comments(arguments: Comments, context: Context) -> str:
    """Reads, adds or deletes."""
    if arguments.action == "read":
        _refuse(arguments, "read", ("identifier", "text", "author", "comment_id"))
        return _read(for_reading(context, arguments.file_path))
    if arguments.action == "add":
        _refuse(arguments, "add", ("comment_id",))
        if not arguments.identifier or not (arguments.text or "").strip():
            raise ToolError("action add takes identifier (what the comment is about) and text, neither empty")
        writing = for_writing(context, arguments.file_path)
        return _add(writing, arguments, context)
    _refuse(arguments, "delete", ("identifier", "text", "author"))
    if arguments.comment_id is None:
        raise ToolError("action delete takes comment_id, as action read shows it")
    return _delete(for_writing(context, arguments.file_path), arguments.comment_id)


def _refuse(arguments: Comments, action: str, names: tuple[str, ...]) -> None:
    given = [n for n in names if getattr(arguments, n) not in (None, "")]
    if given:
        raise ToolError(f"action {action} does not take {' and '.join(given)}")


def _read(reading: Reading) -> str:
    remarks = reading.model.remarks
    if not remarks:
        return f"{reading.shown} has no comments."
    labels = [label for label, _ in paragraphs_below(body_of(reading.edited), "body")]
    numbers = {number: label for number, label in zip(_numbers(reading), labels, strict=True)}
    out = [f"{reading.shown}: {len(remarks)} comment{'s' * (len(remarks) != 1)}"]
    for remark in remarks:
        where = numbers.get(remark.first) or numbers.get(remark.paragraph) or "no place in the body"
        date = f", {remark.date}" if remark.date else ""
        out.append(f"id {remark.id} by {remark.author or '(nobody)'}{date}, at {where}"
                   + (f" on {remark.anchor!r}" if remark.anchor else "")
                   + (f", in reply to {remark.reply_to!r}" if remark.reply_to else "")
                   + (", resolved" if remark.resolved else "") + f": {remark.text}")  # fmt: skip
    return "\n".join(out)


def _numbers(reading: Reading) -> list[int]:
    from envkit.harnesses.archipelago.servers.docs.reading import _in_order

    return [p.number for p in _in_order(reading.model.blocks)]


# --- adding


def _add(writing: Writing, arguments: Comments, context: Context) -> str:
    edited = writing.edited
    place = writing.places.find(arguments.identifier or "")
    if place.part != edited.main:
        raise ToolError(f"{place.label} is not in the body: Word knows comments on the body alone")
    part = _part(edited)
    root = edited.xml(part)
    known = [i for c in root.iterfind(f"{W}comment") if (i := c.get(f"{W}id", "")).isdecimal()]
    number = max((int(i) for i in known), default=-1) + 1
    marks = [e.get(f"{W}id", "") for m in _MARKS for e in edited.xml(edited.main).iter(W + m)]
    number = max([number, *(int(i) + 1 for i in marks if i.isdecimal())])
    author = (arguments.author or "").strip()
    about = _anchor(place, number)
    now = context.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    initials = "".join(word[0] for word in author.split())[:4].upper()
    made = element("comment", id=number, author=author, date=now, initials=initials or None)
    for line_number, line in enumerate((arguments.text or "").strip("\n").split("\n")):
        paragraph = element("p")
        if line_number == 0:
            paragraph.append(element("r", element("annotationRef")))
        paragraph.append(element("r", element("t", text=line)))
        made.append(paragraph)
    root.append(made)
    edited.changed(part)
    return (
        f"Added comment id {number}{f' by {author}' if author else ''} to {place.label}, about {about!r}: "
        f"{arguments.text!r}.{writing.save(place)}"
    )


def _part(edited: Edited) -> str:
    part = edited.related(edited.main, "comments")
    if part is None:
        folder = edited.main.rpartition("/")[0]
        part = edited.free_name(f"{folder}/comments{{}}.xml".lstrip("/"))
        if not edited.has(part.replace("comments1", "comments")):
            part = part.replace("comments1", "comments")
        root = f'<w:comments xmlns:w="{W[1:-1]}"/>'
        edited.put(part, f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n{root}'.encode(), _TYPE)
        edited.relate(edited.main, "comments", part)
    return part


def _anchor(place: Place, number: int) -> str:
    """Puts the marks round a place; the text that they hold."""
    start, end = element("commentRangeStart", id=number), element("commentRangeEnd", id=number)
    reference = element("r", element("commentReference", id=number))
    if place.kind == "run":
        assert place.group is not None
        first = _in_paragraph(place.group.runs[0], place.node)
        last = _in_paragraph(place.group.runs[-1], place.node)
        first.addprevious(start)
        last.addnext(end)
        end.addnext(reference)
        return place.group.text or "a drawing"
    if place.kind == "paragraph":
        nodes = [place.node]
    else:
        area = place.kind in ("cell", "area")
        nodes = [p for _, p in paragraphs_below(place.node, "x")] if area else _of_table(place)
    nodes = [n for n in nodes if local(n) == "p"]
    if not nodes:
        raise ToolError(f"{place.label} has no paragraph that a comment could be about")
    first_node, last_node = nodes[0], nodes[-1]
    properties = first_node.find(f"{W}pPr")
    first_node.insert(0 if properties is None else first_node.index(properties) + 1, start)
    last_node.append(end)
    last_node.append(reference)
    return "\n".join(text_of(n) for n in nodes)[:500]


def _in_paragraph(run: Any, paragraph: Any) -> Any:
    """The child of the paragraph that a run is in."""
    node = run
    while node.getparent() is not paragraph:
        node = node.getparent()
    return node


def _of_table(place: Place) -> list[Any]:
    out = []
    for cell in place.node.iter(f"{W}tc"):
        out += [b for b in blocks_of(cell) if not is_table(b)]
    return out


# --- deleting


def _delete(writing: Writing, number: int) -> str:
    edited = writing.edited
    part = edited.related(edited.main, "comments")
    known = [] if part is None else [c.get(f"{W}id", "") for c in edited.xml(part).iterfind(f"{W}comment")]
    if str(number) not in known:
        have = f"it has {', '.join(known)}" if known else "it has none"
        raise ToolError(f"{writing.shown} has no comment {number}; {have}")
    assert part is not None
    held = next(c for c in edited.xml(part).iterfind(f"{W}comment") if c.get(f"{W}id") == str(number))
    text = "\n".join(text_of(p) for p in held.iterfind(f"{W}p"))
    gone = drop_comments(edited, [str(number)])
    answers = [g for g in gone if g != str(number)]
    said = f"Deleted comment id {number} by {held.get(f'{W}author') or '(nobody)'}: {text!r}."
    if answers:
        said += f" With it went its answers, {', '.join(answers)}."
    return said + writing.save()


def drop_comments(edited: Edited, numbers: list[str]) -> list[str]:
    """Takes comments out, their answers, their marks, and what other parts say of them. The ids that are gone."""
    part = edited.related(edited.main, "comments")
    if part is None:
        return []
    root = edited.xml(part)
    held = {c.get(f"{W}id", ""): c for c in root.iterfind(f"{W}comment")}
    names = {i: _paragraph_name(c) for i, c in held.items()}
    gone = [n for n in numbers if n in held]
    extended = edited.related(edited.main, "commentsExtended")
    parents: dict[str, str] = {}
    if extended is not None:
        for entry in edited.xml(extended).iterfind(f"{W15}commentEx"):
            parents[entry.get(f"{W15}paraId", "")] = entry.get(f"{W15}paraIdParent", "")
    growing = True
    while growing:
        dead = {names[g] for g in gone if names[g]}
        more = [i for i, name in names.items() if i not in gone and parents.get(name) in dead and parents.get(name)]
        gone += more
        growing = bool(more)
    dead = {names[g] for g in gone if names[g]}
    for number in gone:
        root.remove(held[number])
    edited.changed(part)
    _drop_entries(edited, "commentsExtended", f"{W15}paraId", dead)
    durable = _drop_entries(edited, "commentsIds", f"{_CID}paraId", dead)
    _drop_entries(edited, "commentsExtensible", f"{_CEX}durableId", durable)
    body = edited.xml(edited.main)
    for mark in [m for t in _MARKS for m in body.iter(W + t) if m.get(f"{W}id") in gone]:
        parent = mark.getparent()
        parent.remove(mark)
        if local(parent) == "r" and all(local(c) == "rPr" for c in parent):
            parent.getparent().remove(parent)
    edited.changed(edited.main)
    return gone


def _paragraph_name(comment: Any) -> str:
    names = [p.get(f"{W14}paraId", "") for p in comment.iter(f"{W}p")]
    return str(names[-1]) if names else ""


def _drop_entries(edited: Edited, kind: str, attribute: str, names: set[str]) -> set[str]:
    """Entries of a part about comments; the durable ids of those that went."""
    part = edited.related(edited.main, kind)
    out: set[str] = set()
    if part is None or not names:
        return out
    root = edited.xml(part)
    for entry in [e for e in root if isinstance(e.tag, str) and e.get(attribute) in names]:
        out.add(entry.get(f"{_CID}durableId", ""))
        root.remove(entry)
        edited.changed(part)
    return out - {""}
