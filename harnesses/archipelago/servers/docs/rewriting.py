"""Changing a paragraph's text with as little change to its XML as possible.

`rewrite` makes the text another one: only letters that differ go and come, each newcomer takes the look of what it
replaces or follows, and whatever isn't text (pictures, notes, bookmarks, what is tracked as deleted) stays where it is.
Text put in at the edge of a link, a field or a content control stays out of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.docs.names import W, element, local, run_content
from envkit.harnesses.archipelago.servers.docs.words import Leaf, leaves, shown

__all__ = ["copied_look", "insert", "rewrite"]

#: Wrappers that go when nothing is left in them.
_EMPTIED = ("hyperlink", "ins", "moveTo", "smartTag", "fldSimple", "customXml")
_CLOSED = ("hyperlink", "fldSimple", "sdt")
_TOKENS = (re.compile(r"\w+|\s|[^\w\s]"), re.compile(r"\w+ ?|\s|[^\w\s] ?"))
#: Pairs of equal words in what differs beyond which it is replaced as a whole: finding what is kept takes too long.
_MAX_PAIRS = 20_000
Hunk = tuple[int, int, str]


def rewrite(paragraph: Any, new: str, within: Sequence[Leaf] | None = None) -> None:
    """Makes the text of a paragraph (or of some leaves of it) another one. Raises `ToolError` where an equation would
    have to change."""
    held = list(leaves(paragraph) if within is None else within)
    letters = [shown(letter) for leaf in held for letter in leaf.letters]
    # What fills a link or a content control stays in it; what is added beside one does not.
    inside = within is not None or len({_home(leaf) for leaf in held}) == 1
    ends = list(accumulate((len(letter) for letter in letters), initial=0))
    for start, end, text in reversed(_hunks("".join(letters), unicodedata.normalize("NFC", new))):
        first = next((n for n, letter in enumerate(letters) if ends[n + 1] > start and letter), len(letters))
        last = next((n for n in range(first, len(ends)) if ends[n] >= end), len(letters))
        _splice(paragraph, held, first, max(first, last) if end > start else first, text, inside)
    _finish(held)


def insert(paragraph: Any, text: str, at_end: bool, within: Sequence[Leaf] | None = None) -> None:
    """Puts a text at the start or the end of a paragraph (or of some leaves of it)."""
    held = list(leaves(paragraph) if within is None else within)
    place = sum(len(leaf.letters) for leaf in held) if at_end else 0
    _splice(paragraph, held, place, place, text, within is not None)
    _finish(held)


def copied_look(properties: Any) -> Any:
    """A copy of a run's (or a paragraph mark's) properties without what is tracked; None where nothing is left."""
    copied = element("rPr")
    for item in properties if properties is not None else ():
        if local(item) not in ("ins", "del", "moveFrom", "moveTo", "rPrChange", ""):
            copied.append(etree.fromstring(etree.tostring(item, with_tail=False)))
    return copied if len(copied) else None


# --- what differs


def _hunks(before: str, goal: str) -> list[Hunk]:
    """What to replace by what, from left to right."""
    if "\u00a0" not in goal:
        # Non-breaking blanks look like blanks: where the new text has a blank, nothing was meant to change.
        before = before.replace("\u00a0", " ")
    if before == goal:
        return []
    found = _trimmed(0, before, goal)
    if not found:
        return []
    # Whole words around what differs, so that a word is no half of another.
    start, end, _ = found[0]
    while start and _in_word(before, start) and _in_word(goal, start):
        start -= 1
    tail = len(before) - end
    while tail and _in_word(before, len(before) - tail) and _in_word(goal, len(goal) - tail):
        tail -= 1
    middle, wanted = before[start : len(before) - tail], goal[start : len(goal) - tail]
    for pattern in _TOKENS:
        old, new = pattern.findall(middle), pattern.findall(wanted)
        counts = Counter(new)
        if sum(counts[token] for token in old) <= _MAX_PAIRS:
            break
    else:
        return found
    starts = list(accumulate((len(token) for token in old), initial=0))
    out: list[Hunk] = []
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            out += _trimmed(start + starts[i1], middle[starts[i1] : starts[i2]], "".join(new[j1:j2]))
    return out


def _in_word(text: str, place: int) -> bool:
    """Whether a place in a text is within a word."""
    return 0 < place < len(text) and text[place - 1].isalnum() and text[place].isalnum()


def _trimmed(start: int, old: str, new: str) -> list[Hunk]:
    """A replacement without what both sides begin and end with."""
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    tail = next((n for n in range(shorter - head) if old[-1 - n] != new[-1 - n]), shorter - head)
    middle = new[head : len(new) - tail]
    if len(old) == head + tail and not middle:
        return []
    return [(start + head, start + len(old) - tail, middle)]


# --- into the leaves


def _splice(paragraph: Any, held: list[Leaf], start: int, end: int, text: str, inside: bool) -> None:
    """Replaces letters `start` to `end` of the leaves by a text. `inside`: it stays within them, whatever they are."""
    passed = 0
    anchor: tuple[Leaf, int] | None = None
    before: tuple[Leaf, int] | None = None
    after: tuple[Leaf, int] | None = None
    for leaf in held:
        count = len(leaf.letters)
        if not leaf.kept:
            leaf.kept = list(leaf.letters)
        first, last = max(start - passed, 0), min(end - passed, count)
        if first < last:
            if leaf.fixed:
                raise ToolError(
                    f"{leaf.text!r} is an equation, which can't be changed as text: leave it in the text as it stands"
                )
            leaf.kept[first:last] = [""] * (last - first)
            anchor = anchor or (leaf, first)
        if passed < start <= passed + count:
            before = (leaf, start - passed)
        if after is None and passed <= start < passed + count:
            after = (leaf, start - passed)
        passed += count
    if not text:
        return
    found = anchor or _neighbour(before, after, inside)
    if found is None:
        _run_of_its_own(paragraph, text, before and before[0], after and after[0])
        return
    leaf, index = found
    if index < len(leaf.kept):
        leaf.kept[index] = text + leaf.kept[index]
    else:
        leaf.kept[-1] += text


def _neighbour(
    before: tuple[Leaf, int] | None, after: tuple[Leaf, int] | None, inside: bool
) -> tuple[Leaf, int] | None:
    """Where a text goes that replaces nothing: to the letter before it or the one after it; None where both are fixed
    or in something that ends (begins) here."""
    if before is not None and after is not None and _home(before[0]) == _home(after[0]):
        inside = True
    for place in (before, after):
        if place is not None and not place[0].fixed and (inside or not _closed(place[0])):
            return place
    return None


def _home(leaf: Leaf) -> tuple[Any, ...]:
    return (*(w for w in leaf.wrappers if local(w) in _CLOSED), leaf.instruction)


def _closed(leaf: Leaf) -> bool:
    return leaf.fixed or bool(leaf.instruction) or any(local(w) in _CLOSED for w in leaf.wrappers)


def _run_of_its_own(paragraph: Any, text: str, before: Leaf | None, after: Leaf | None) -> None:
    made = element("r")
    plain = next((leaf for leaf in reversed(leaves(paragraph)) if not _closed(leaf)), None)
    look = copied_look(plain.run.find(f"{W}rPr") if plain is not None else paragraph.find(f"{W}pPr/{W}rPr"))
    if look is not None:
        made.append(look)
    made.extend(run_content(text))
    if before is not None:
        _edge(before, forward=True).addnext(made)
    elif after is not None:
        _edge(after, forward=False).addprevious(made)
    else:
        holder = next((s for s in paragraph.iter(f"{W}sdtContent") if s.find(f"{W}r") is not None), paragraph)
        holder.append(made)


def _edge(leaf: Leaf, forward: bool) -> Any:
    """The outermost element that a leaf is in; for a field made of runs, its last (first) one."""
    node = leaf.wrappers[0] if leaf.wrappers else leaf.run if leaf.run is not None else leaf.node
    if not leaf.instruction or any(local(w) == "fldSimple" for w in leaf.wrappers):
        return node
    wanted, other = ("end", "begin") if forward else ("begin", "end")
    open_fields = 0
    for sibling in node.itersiblings(preceding=not forward):
        for char in sibling.iter(f"{W}fldChar"):
            kind = char.get(f"{W}fldCharType")
            if kind == other:
                open_fields += 1
            elif kind == wanted:
                if not open_fields:
                    return sibling
                open_fields -= 1
    return node


# --- into the XML


def _finish(held: list[Leaf]) -> None:
    touched = []
    for leaf in held:
        kept, leaf.kept = leaf.kept, []
        if kept and kept != leaf.letters:
            touched.append(leaf)
            _replace(leaf, "".join(kept))
    for leaf in touched:
        _tidy(leaf)


def _replace(leaf: Leaf, text: str) -> None:
    node = leaf.node
    if local(node) == "t":
        if text and not any(c in text for c in "\t\n\f"):
            node.text = text
            node.attrib.update(element("t", text=text).attrib)
            return
        for made in run_content(text):
            node.addprevious(made)
        node.getparent().remove(node)
        return
    # A tab, a break, a symbol: it stays where its sign is still there.
    before, found, after = text.partition(leaf.text)
    for made in run_content(before if found else text):
        node.addprevious(made)
    if found:
        for made in reversed(run_content(after)):
            node.addnext(made)
    else:
        node.getparent().remove(node)


def _tidy(leaf: Leaf) -> None:
    """Takes out the run, and what is around it, where nothing is left."""
    run = leaf.run
    if run is None or run.getparent() is None or any(local(c) != "rPr" for c in run if isinstance(c.tag, str)):
        return
    parent = run.getparent()
    if local(parent) == "sdtContent" and len(parent) == 1:
        return  # a content control needs something to hold
    parent.remove(run)
    for wrapper in reversed(leaf.wrappers):
        if local(wrapper) not in _EMPTIED or wrapper.getparent() is None:
            break
        if any(isinstance(c.tag, str) and not local(c).endswith("Pr") for c in wrapper):
            break
        wrapper.getparent().remove(wrapper)
