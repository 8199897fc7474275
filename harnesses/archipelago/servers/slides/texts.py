"""Changing text in a slide without losing how it looks.

New text takes the look of what stood in its place: a paragraph that of the paragraph of its number (the last one's
beyond that), its run the look of that paragraph's first run. Works on the XML, so that whatever else a paragraph
carries (language, effects, list styles) stays. Used by the edit operations and by what makes slides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.app import ToolError

__all__ = [
    "A",
    "append_paragraphs",
    "clean",
    "clear",
    "format_runs",
    "paragraphs",
    "replace_in",
    "run_texts",
    "set_paragraphs",
]

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_MC_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
#: What XML can't hold.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_TAIL = ("endParaRPr",)
#: The order of what may stand in run properties.
_RUN_ORDER = (
    "ln", "noFill", "solidFill", "gradFill", "blipFill", "pattFill", "grpFill", "effectLst", "effectDag", "highlight",
    "uLnTx", "uLn", "uFillTx", "uFill", "latin", "ea", "cs", "sym", "hlinkClick", "hlinkMouseOver", "rtl", "extLst",
)  # fmt: skip
_FILLS = ("noFill", "solidFill", "gradFill", "blipFill", "pattFill", "grpFill")


def clean(text: str) -> str:
    """A text without the characters that XML can't hold; PowerPoint's own line break becomes a usual one."""
    return _CONTROL.sub("", text.replace("\v", "\n").replace("\r\n", "\n"))


def paragraphs(body: Any) -> list[Any]:
    return list(body.iterfind(f"{A}p"))


def run_texts(paragraph: Any) -> list[str]:
    return ["".join(t.text or "" for t in run.iterfind(f"{A}t")) for run in paragraph.iterfind(f"{A}r")]


def _said(paragraph: Any) -> bool:
    return any((t.text or "").strip() for t in paragraph.iter(f"{A}t"))


def _look(paragraph: Any) -> Any:
    """The run properties that new text in a paragraph takes; None for none. Links stay behind."""
    source = next((e for e in paragraph.iterfind(f"{A}r/{A}rPr")), None)
    if source is None:
        source = paragraph.find(f"{A}endParaRPr")
    if source is None:
        return None
    look = deepcopy(source)
    look.tag = f"{A}rPr"
    for name in ("hlinkClick", "hlinkMouseOver"):
        for link in look.findall(f"{A}{name}"):
            look.remove(link)
    return look


def _fill(paragraph: Any, text: str, look: Any) -> None:
    """Puts text into a paragraph that holds at most its properties and its end; line breaks become breaks."""
    tail = paragraph.find(f"{A}endParaRPr")
    at = len(paragraph) if tail is None else paragraph.index(tail)
    for number, line in enumerate(clean(text).split("\n")):
        if number:
            piece = etree.Element(f"{A}br")
            if look is not None:
                piece.append(deepcopy(look))
            paragraph.insert(at, piece)
            at += 1
        if line:
            run = etree.Element(f"{A}r")
            run.append(deepcopy(look) if look is not None else etree.Element(f"{A}rPr"))
            etree.SubElement(run, f"{A}t").text = line
            paragraph.insert(at, run)
            at += 1


def _new(model: Any, text: str, levels: bool) -> Any:
    """A paragraph with the properties of another."""
    look = _look(model)
    made = etree.Element(f"{A}p", nsmap={"a": A[1:-1]})
    properties = model.find(f"{A}pPr")
    if properties is not None:
        made.append(deepcopy(properties))
    if levels:
        depth = _depth(text)
        text = text.lstrip("\t")
        if depth != _level(model):
            holder = made.find(f"{A}pPr")
            if holder is None:
                holder = etree.SubElement(made, f"{A}pPr")
            holder.set("lvl", str(depth))
            for name in ("marL", "indent"):  # those of another depth
                holder.attrib.pop(name, None)
    end = model.find(f"{A}endParaRPr")
    if end is not None:
        made.append(deepcopy(end))
    _fill(made, text, look)
    return made


def _depth(text: str) -> int:
    return min(len(text) - len(text.lstrip("\t")), 8)


def set_paragraphs(body: Any, texts: Sequence[str], *, levels: bool = False) -> None:
    """Replaces the text of a body. With `levels`, leading tabs of a text say how deep its paragraph is."""
    old = paragraphs(body)
    models = [p for p in old if _said(p)] or old[:1] or [etree.Element(f"{A}p")]
    made = []
    for number, text in enumerate(texts or [""]):
        model = models[min(number, len(models) - 1)]
        if levels and (number >= len(models) or _level(model) != _depth(text)):
            # What stood there was deeper or less deep: the look comes from a point of the same depth.
            model = next((m for m in reversed(models) if _level(m) == _depth(text)), models[0])
        made.append(_new(model, text, levels))
    for paragraph in old:
        body.remove(paragraph)
    body.extend(made)


def _level(paragraph: Any) -> int:
    properties = paragraph.find(f"{A}pPr")
    value = properties.get("lvl", "0") if properties is not None else "0"
    return int(value) if value.isdecimal() else 0


def append_paragraphs(body: Any, texts: Sequence[str]) -> None:
    """Adds points after those of a body; they look like its last top point."""
    old = paragraphs(body)
    said = [p for p in old if _said(p)]
    if not said:
        set_paragraphs(body, texts, levels=True)
        return
    model = next((p for p in reversed(said) if _level(p) == 0), said[-1])
    at = body.index(said[-1])
    for number, text in enumerate(texts):
        body.insert(at + 1 + number, _new(model, text, True))
    # Blank paragraphs that stood at the end would part nothing any more: they stay behind the new points.


def clear(body: Any) -> None:
    """Takes all text out; one empty paragraph stays, with the look that new text will have."""
    old = paragraphs(body)
    if not old:
        body.append(etree.Element(f"{A}p"))
        return
    first = old[0]
    look = _look(first)
    for paragraph in old[1:]:
        body.remove(paragraph)
    for child in list(first):
        if child.tag not in (f"{A}pPr", f"{A}endParaRPr"):
            first.remove(child)
    if look is not None and first.find(f"{A}endParaRPr") is None:
        look.tag = f"{A}endParaRPr"
        first.append(look)


# --- search and replace ---


def replace_in(root: Any, search: str, replace: str, match_case: bool) -> int:
    """Replaces a text in every paragraph below an element, across runs; what is inserted takes the look of the run
    in which the found text began. Returns how many were replaced (copies for old programs aren't counted)."""
    pattern = re.compile(re.escape(search.replace("\n", "\v")), 0 if match_case else re.IGNORECASE)
    found = 0
    for paragraph in list(root.iter(f"{A}p")):
        number = _replace(paragraph, pattern, clean(replace))
        if number and not any(parent.tag == _MC_FALLBACK for parent in paragraph.iterancestors()):
            found += number
    return found


def _replace(paragraph: Any, pattern: re.Pattern[str], replace: str) -> int:
    pieces: list[tuple[Any, str]] = []
    for child in paragraph:
        if child.tag == f"{A}r":
            holder = child.find(f"{A}t")
            pieces.append((holder, (holder.text or "") if holder is not None else ""))
        elif child.tag == f"{A}br":
            pieces.append((None, "\v"))
        elif child.tag == f"{A}fld":
            pieces.append((None, "\ufffc"))  # what a program fills in is not ours to change
    whole = "".join(text for _, text in pieces)
    matches = list(pattern.finditer(whole))
    # A match that reaches over a line break is found but not torn apart.
    matches = [m for m in matches if "\v" not in m[0]]
    if not matches:
        return 0
    texts = [text for _, text in pieces]
    starts = [sum(map(len, texts[:i])) for i in range(len(texts))]
    for match in reversed(matches):
        first = True
        for i, (holder, _) in enumerate(pieces):
            low, high = max(match.start(), starts[i]), min(match.end(), starts[i] + len(pieces[i][1]))
            if holder is None or low >= high:
                continue
            text = texts[i]
            inserted = replace if first else ""
            texts[i] = text[: low - starts[i]] + inserted + text[high - starts[i] :]
            first = False
    for (holder, old), text in zip(pieces, texts, strict=True):
        if holder is not None and text != old:
            holder.text = text
            if not text:
                run = holder.getparent()
                run.getparent().remove(run)
            elif "\n" in text:
                _split(holder.getparent(), text)
    return len(matches)


def _split(run: Any, text: str) -> None:
    """A run whose text has line breaks as runs with breaks between."""
    look, parent, at = run.find(f"{A}rPr"), run.getparent(), run.getparent().index(run)
    made: list[Any] = []
    for number, line in enumerate(text.split("\n")):
        if number:
            made.append(etree.Element(f"{A}br"))
            if look is not None:
                made[-1].append(deepcopy(look))
        if line:
            copy = deepcopy(run)
            copy.find(f"{A}t").text = line
            made.append(copy)
    parent.remove(run)
    for number, element in enumerate(made):
        parent.insert(at + number, element)


# --- looks ---


def format_runs(
    body: Any,
    *,
    paragraph_index: int | None = None,
    run_index: int | None = None,
    bold: bool | None = None,
    italic: bool | None = None,
    underline: bool | None = None,
    size: float | None = None,
    colour: str | None = None,
    font: str | None = None,
    align: str | None = None,
) -> str:
    """Changes the look of all text of a body, of one paragraph or of one run; returns what that was. Raises
    `ToolError`."""
    found = chosen(body, paragraph_index)
    if run_index is not None and paragraph_index is None:
        found = found[:1]
    for paragraph in found:
        holders = _holders(paragraph, run_index)
        for holder in holders:
            for name, value in (("b", bold), ("i", italic)):
                if value is not None:
                    holder.set(name, "1" if value else "0")
            if underline is not None:
                holder.set("u", "sng" if underline else "none")
            if size is not None:
                holder.set("sz", str(round(size * 100)))
            if colour is not None:
                fill = etree.Element(f"{A}solidFill")
                etree.SubElement(fill, f"{A}srgbClr", val=colour)
                _put(holder, fill, _FILLS)
            if font is not None:
                for name in ("latin", "cs"):
                    _put(holder, etree.Element(f"{A}{name}", typeface=font), (name,))
        if align is not None:
            properties = paragraph.find(f"{A}pPr")
            if properties is None:
                properties = etree.Element(f"{A}pPr")
                paragraph.insert(0, properties)
            properties.set("algn", {"left": "l", "center": "ctr", "right": "r", "justify": "just"}[align])
    if run_index is not None:
        return f"run {run_index} ({run_texts(found[0])[run_index]!r})"
    return f"paragraph {paragraph_index}" if paragraph_index is not None else "all of its text"


def chosen(body: Any, paragraph_index: int | None) -> list[Any]:
    """The paragraphs meant. Raises `ToolError`."""
    found = paragraphs(body)
    if paragraph_index is None:
        return found
    if paragraph_index >= len(found):
        texts = "; ".join(f"{i}: {''.join(run_texts(p))[:40]!r}" for i, p in enumerate(found[:10]))
        raise ToolError(f"there is no paragraph {paragraph_index}; paragraphs are {texts or 'none'}")
    return [found[paragraph_index]]


def _holders(paragraph: Any, run_index: int | None) -> list[Any]:
    """The run properties to change, made where they are missing."""
    runs = list(paragraph.iterfind(f"{A}r"))
    if run_index is not None:
        if run_index >= len(runs):
            texts = "; ".join(f"{i}: {text[:40]!r}" for i, text in enumerate(run_texts(paragraph)))
            raise ToolError(f"there is no run {run_index}; the paragraph's runs are {texts or 'none'}")
        return [_properties(runs[run_index])]
    out = [_properties(e) for e in paragraph if e.tag in (f"{A}r", f"{A}fld", f"{A}br")]
    end = paragraph.find(f"{A}endParaRPr")
    if end is None and not runs:
        end = etree.SubElement(paragraph, f"{A}endParaRPr")
    return [*out, *([end] if end is not None else [])]


def _properties(run: Any) -> Any:
    found = run.find(f"{A}rPr")
    if found is None:
        found = etree.Element(f"{A}rPr")
        run.insert(0, found)
    return found


def run_properties(run: Any) -> Any:
    """The properties of a run, made where they are missing."""
    return _properties(run)


def put_in_run(holder: Any, element: Any, replaces: Sequence[str]) -> None:
    """Puts an element into run properties in its place, for those it replaces."""
    _put(holder, element, replaces)


def _put(holder: Any, element: Any, replaces: Sequence[str]) -> None:
    for old in [e for e in holder if e.tag in {f"{A}{name}" for name in replaces}]:
        holder.remove(old)
    order = {f"{A}{name}": i for i, name in enumerate(_RUN_ORDER)}
    rank = order[element.tag]
    at = next((i for i, e in enumerate(holder) if order.get(e.tag, len(order)) > rank), len(holder))
    holder.insert(at, element)
