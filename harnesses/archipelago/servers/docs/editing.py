"""Adding, changing and deleting text in place.

What a result says is taken from the document after the change: old and new text, and which identifiers name something
else now.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.docs.declared import AddText, DeleteText, EditText
from envkit.harnesses.archipelago.servers.docs.edited import Edited
from envkit.harnesses.archipelago.servers.docs.names import PPR_ORDER, W, element, local, placed, run_content, value
from envkit.harnesses.archipelago.servers.docs.opened import Writing, for_writing
from envkit.harnesses.archipelago.servers.docs.places import Place, blocks_of, is_table
from envkit.harnesses.archipelago.servers.docs.removing import removed
from envkit.harnesses.archipelago.servers.docs.rewriting import copied_look, insert, rewrite
from envkit.harnesses.archipelago.servers.docs.words import groups, leaves, text_of

__all__ = ["add_content_text", "delete_content_text", "edit_content_text", "quoted"]

_LINKS = ("hyperlink", "fldSimple")
_BLANK = re.compile(r"\n[ \t]*\n\s*")


def quoted(text: str) -> str:
    """A text for a result, cut in the middle when it is long."""
    return repr(text if len(text) <= 800 else f"{text[:500]} [... {len(text) - 700} characters ...] {text[-200:]}")


# --- adding


def add_content_text(arguments: AddText, context: Context) -> str:
    """Adds text, and new paragraphs at blank lines."""
    writing = for_writing(context, arguments.file_path)
    place = writing.places.find(arguments.identifier)
    at_end = arguments.position in ("end", "after")
    said = _added(writing, place, arguments.text, at_end)
    return f"{said}{writing.save(place)}"


def _added(writing: Writing, place: Place, text: str, at_end: bool) -> str:
    match place.kind:
        case "paragraph":
            return _to_paragraph(writing.edited, place, text, at_end)
        case "run":
            assert place.group is not None
            _need_text(place)
            insert(place.node, text, at_end, place.group.leaves)
            now = text_of(place.node)
            where = f"at the {'end' if at_end else 'start'} of {place.label}"
            return f"Added {quoted(text)} {where}; the paragraph is now {quoted(now)}."
        case "cell" | "area":
            found = list(blocks_of(place.node))
            which = [b for b in found if not is_table(b)]
            if not which:
                raise ToolError(f"{place.label} has no paragraph to add text to")
            number = len(which) - 1 if at_end else 0
            inner = Place(f"{place.label}.p.{number}", "paragraph", which[number], place.part, notes=place.notes)
            return _to_paragraph(writing.edited, inner, text, at_end)
        case "table":
            texts = [t for t in _BLANK.split(text.strip("\n")) if t]
            made = _paragraphs(writing.edited, place.node, texts, at_end)
            return _new_told(place, made, f"{'behind' if at_end else 'in front of'} {place.label}")
    raise ToolError(f"{place.label} is a {place.kind}: add text to one of its cells, {place.label}.c.0 and so on")


def _to_paragraph(edited: Edited, place: Place, text: str, at_end: bool) -> str:
    _need_plain(place)
    pieces = _BLANK.split(text)
    if len(pieces) == 1:
        insert(place.node, text, at_end)
        where = f"at the {'end' if at_end else 'start'} of {place.label}"
        return f"Added {quoted(text)} {where}, which is now {quoted(text_of(place.node))}."
    if at_end:
        own, rest = pieces[0], [p for p in pieces[1:] if p]
    else:
        own, rest = pieces[-1], [p for p in pieces[:-1] if p]
    if own:
        insert(place.node, own, at_end)
    made = _paragraphs(edited, place.node, rest, at_end)
    said = _new_told(place, made, f"{'behind' if at_end else 'in front of'} {place.label}")
    if own:
        said = f"Added {quoted(own)} at the {'end' if at_end else 'start'} of {place.label}. {said}"
    return said


def _new_told(place: Place, made: Sequence[Any], where: str) -> str:
    """What the new paragraphs are called, and what has moved on."""
    if not made:
        raise ToolError("the text is blank: nothing to add")
    holder = place.label.rsplit(".", 2)[0] if place.kind in ("paragraph", "table") else place.label
    siblings = [b for b in blocks_of(_area_node(made[0])) if not is_table(b)]
    first = next(n for n, b in enumerate(siblings) if b is made[0])
    names = [f"{holder}.p.{first + n}" for n in range(len(made))]
    said = f"Added {len(made)} paragraph{'s' * (len(made) != 1)} {where}: {', '.join(names)}."
    if first + len(made) < len(siblings):
        said += f" What was {names[0]} is now {holder}.p.{first + len(made)}, and so on for those below it."
    return said


def _area_node(node: Any) -> Any:
    """The element whose paragraphs are counted together: body, cell, text box, header, note."""
    return next(a for a in node.iterancestors() if local(a) in _AREAS)


_AREAS = ("body", "tc", "txbxContent", "hdr", "ftr", "footnote", "endnote", "comment")


def _paragraphs(edited: Edited, anchor: Any, texts: Sequence[str], at_end: bool) -> list[Any]:
    """New paragraphs beside a paragraph or table, laid out as their neighbour; behind a heading, in its next style."""
    model = anchor if local(anchor) == "p" else None
    made = []
    for text in texts:
        paragraph = element("p")
        properties, look = _laid_out(edited, model)
        if properties is not None:
            paragraph.append(properties)
        run = element("r")
        if look is not None:
            run.append(look)
        run.extend(run_content(text))
        paragraph.append(run)
        made.append(paragraph)
    if at_end:
        for paragraph in reversed(made):
            anchor.addnext(paragraph)
        section = anchor.find(f"{W}pPr/{W}sectPr") if model is not None else None
        if section is not None and made:
            # A section ends with its last paragraph, which is now another.
            last = made[-1]
            properties = last.find(f"{W}pPr")
            if properties is None:
                properties = element("pPr")
                last.insert(0, properties)
            placed(properties, section, PPR_ORDER)
    else:
        for paragraph in made:
            anchor.addprevious(paragraph)
    return made


def _laid_out(edited: Edited, model: Any) -> tuple[Any, Any]:
    """Properties of a new paragraph beside a model, and the look of its run."""
    own = model.find(f"{W}pPr") if model is not None else None
    style = value(own, "pStyle")
    following = _next_style(edited, style)
    if following is not None and following != style:
        if not following:
            return None, None
        return element("pPr", element("pStyle", val=following)), None
    copied = element("pPr")
    for item in own if own is not None else ():
        if local(item) not in ("sectPr", "pPrChange", "pageBreakBefore", "rPr", ""):
            copied.append(etree.fromstring(etree.tostring(item, with_tail=False)))
    runs = [leaf.run for leaf in leaves(model) if leaf.text.strip()] if model is not None else []
    plain = [r for r in runs if r is not None and not any(local(a) in _LINKS for a in r.iterancestors())]
    mark = own.find(f"{W}rPr") if own is not None else None
    look = copied_look(plain[-1].find(f"{W}rPr") if plain else mark)
    return (copied if len(copied) else None), look


def _next_style(edited: Edited, style: str) -> str | None:
    """The style that follows a heading's: "" for the default one; None for other styles, which go on."""
    part = edited.related(edited.main, "styles")
    if part is None or not style:
        return None
    root = edited.xml(part)
    found = next((s for s in root.iterfind(f"{W}style") if s.get(f"{W}styleId") == style), None)
    if found is None:
        return None
    name = value(found, "name").lower()
    if not (name.startswith("heading") or name in ("title", "subtitle") or value(found, "pPr/outlineLvl")):
        return None
    following = value(found, "next")
    default = next(
        (s.get(f"{W}styleId", "") for s in root.iterfind(f"{W}style")
         if s.get(f"{W}type") == "paragraph" and s.get(f"{W}default") in ("1", "true")), "",
    )  # fmt: skip
    return "" if following in ("", default, style) else following


# --- changing


def edit_content_text(arguments: EditText, context: Context) -> str:
    """Replaces text; only what differs changes."""
    writing = for_writing(context, arguments.file_path)
    place = writing.places.find(arguments.identifier)
    old = _text_at(place)
    if old == arguments.new_text:
        return f"{place.label} is {quoted(old)} already; nothing was changed."
    more = _edited(writing.edited, place, arguments.new_text)
    now = arguments.new_text if place.kind == "run" else _text_at(place)
    said = f"Changed {place.label}: {quoted(old)} -> {quoted(now)}."
    if place.kind == "run":
        said += f" The paragraph is now {quoted(text_of(place.node))}; it has {len(groups(place.node))} runs."
    return f"{said}{more}{writing.save(place)}"


def _text_at(place: Place) -> str:
    match place.kind:
        case "paragraph":
            return text_of(place.node)
        case "run":
            assert place.group is not None
            return place.group.text
        case "cell":
            return "\n".join(text_of(b) for b in blocks_of(place.node) if not is_table(b))
    raise ToolError(
        f"{place.label} is {_article(place.kind)}: name a paragraph, a run or a cell in it, such as {place.label}"
        + {"table": ".r.0.c.0", "row": ".c.0", "area": ".p.0"}.get(place.kind, "")
    )


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _edited(edited: Edited, place: Place, text: str) -> str:
    if place.kind == "run":
        assert place.group is not None
        _need_text(place)
        rewrite(place.node, text, place.group.leaves)
        return ""
    if place.kind == "paragraph":
        _need_plain(place)
        return _edit_paragraph(edited, place, place.node, text)
    found = [b for b in blocks_of(place.node) if local(b) == "p"]
    if not found:
        raise ToolError(f"{place.label} has no paragraph")
    if len(found) == 1:
        inner = Place(f"{place.label}.p.0", "paragraph", found[0], place.part)
        return _edit_paragraph(edited, inner, found[0], text)
    parts = re.split(r"\n+", text) if text.count("\n") + 1 != len(found) else text.split("\n")
    for node, part in zip(found, parts, strict=False):
        rewrite(node, part)
    if len(parts) > len(found):
        _paragraphs(edited, found[-1], parts[len(found) :], at_end=True)
    for node in found[len(parts) :]:
        removed(edited, Place(place.label, "paragraph", node, place.part))
    return "" if len(parts) == len(found) else f" The cell has {len(parts)} paragraphs now."


def _edit_paragraph(edited: Edited, place: Place, node: Any, text: str) -> str:
    pieces = [text] if _BLANK.search(text_of(node)) else _BLANK.split(text.strip("\n"))
    rewrite(node, pieces[0])
    rest = [p for p in pieces[1:] if p]
    if not rest:
        return ""
    return " " + _new_told(place, _paragraphs(edited, node, rest, at_end=True), f"behind {place.label}")


def _need_text(place: Place) -> None:
    if place.group is None or not place.group.leaves:
        raise ToolError(f"{place.label} holds a drawing, not text")


def _need_plain(place: Place) -> None:
    if local(place.node) != "p":
        raise ToolError(f"{place.label} is an equation or a drawing, which can't be changed as text")


# --- deleting


def delete_content_text(arguments: DeleteText, context: Context) -> str:
    """Deletes text, or what holds it."""
    writing = for_writing(context, arguments.file_path)
    place = writing.places.find(arguments.identifier)
    if arguments.scope == "element":
        said = removed(writing.edited, place)
    else:
        said = _cleared(writing.edited, place, arguments.collapse_whitespace)
    return f"{said}{writing.save(place)}"


def _cleared(edited: Edited, place: Place, collapse: bool) -> str:
    if place.kind == "run":
        assert place.group is not None
        _need_text(place)
        old = place.group.text
        rewrite(place.node, "", place.group.leaves)
        return (
            f"Deleted the text of {place.label}: {quoted(old)}. The paragraph is now {quoted(text_of(place.node))}; "
            f"it has {len(groups(place.node))} runs."
        )
    nodes = [place.node] if place.kind == "paragraph" else _all_paragraphs(place.node)
    old = "\n".join(text_of(n) for n in nodes)
    for node in nodes:
        for leaf in leaves(node):
            if leaf.fixed:
                leaf.node.getparent().remove(leaf.node)
        if local(node) == "p":
            rewrite(node, "")
    said = f"Deleted the text of {place.label}: {quoted(old)}."
    if collapse and place.kind == "cell":
        blocks = [b for b in blocks_of(place.node)]
        gone = [b for b in blocks if local(b) == "p"][1:]
        for node in gone:
            removed(edited, Place(f"{place.label}.p.1", "paragraph", node, place.part))
        if gone:
            said += f" {len(gone)} empty paragraph{'s' * (len(gone) != 1)} of it went too; one is left."
            return said
    return f"{said} It stays, empty; identifiers are as before."


def _all_paragraphs(node: Any) -> list[Any]:
    out: list[Any] = []
    for block in blocks_of(node):
        out += _all_paragraphs(block) if is_table(block) else [block]
    return out
