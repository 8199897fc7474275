"""The judge of Word documents, and of cells in tables of documents and decks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envkit.office.document import Document, read_document
from envkit.verifiers.compare import misses_of_cell
from envkit.verifiers.judging import Context, Finding, text_misses
from envkit.verifiers.kinds.texts import count_misses
from envkit.verifiers.phrases import Miss, find_phrase, fold, normalise
from envkit.verifiers.places import locate, place_text
from envkit.verifiers.schema import DocumentCheck, TableCell
from envkit.verifiers.values import Alternatives

__all__ = ["judge_document", "ordered_misses", "table_misses"]

Rows = Sequence[Sequence[str]]


def table_misses(cells: Sequence[TableCell], tables: Sequence[Rows], where: str) -> list[Miss]:
    """What is amiss with cells that a check asks for: each is sought in the first table that has its labels."""
    grids = [
        {(r, c): text for r, row in enumerate(rows) for c, text in enumerate(row) if text.strip()} for rows in tables
    ]
    out: list[Miss] = []
    for cell in cells:
        for number, grid in enumerate(grids, start=1):
            address = locate(grid, cell)
            if address is not None:
                place = f"{where} table {number} ({place_text(cell)})"
                out += misses_of_cell(cell, grid.get(address), place, typed=False)
                break
        else:
            label = place_text(cell)
            out.append(Miss(f"a table with {label}", f"{len(grids)} tables", f"{where} has no table with {label}"))
    return out


def _unnumbered(heading: str) -> str:
    return re.sub(r"^(?:\d+(?:\.\d+)*[.)]?|[ivxlc]+\.|[a-z][.)])\s+", "", fold(heading))


def ordered_misses(
    wanted: Sequence[Alternatives], found: Sequence[str], in_order: bool, what: str, where: str
) -> list[Miss]:
    """Which of the wanted headings or titles are not among those found, or not in order."""
    have = [fold(f) for f in found]
    plain = [_unnumbered(f) for f in found]
    places: list[int] = []
    out: list[Miss] = []
    for entry in wanted:
        spellings = [fold(s) for s in ((entry,) if isinstance(entry, str) else entry)]
        at = next((i for i in range(len(have)) if have[i] in spellings or plain[i] in spellings), None)
        if at is None:
            shown = entry if isinstance(entry, str) else entry[0]
            out.append(Miss(f"{what} {shown!r}", "; ".join(found)[:300], f"{where} has no {what} {shown!r}"))
        else:
            places.append(at)
    if in_order and not out and places != sorted(places):
        out.append(Miss(f"{what}s in order", "; ".join(found)[:300], f"the {what}s of {where} stand in another order"))
    return out


def _text_within(document: Document, within: str) -> str:
    match within:
        case "headings":
            return "\n".join(p.text for p in document.headings)
        case "tables":
            return "\n".join(" | ".join(row) for table in document.tables for row in table.rows)
        case "headers_footers":
            return "\n".join(document.headers_footers)
        case "comments":
            return "\n".join(document.comments)
        case "footnotes":
            return "\n".join(document.footnotes)
        case "all":
            others = (*document.headers_footers, *document.footnotes, *document.comments)
            return "\n".join([document.body, *others])
        case _:
            return document.body


def judge_document(check: DocumentCheck, context: Context) -> Finding:
    document = context.load(check.path, read_document)
    where = "/" + check.path
    text = _text_within(document, check.within)
    place = where if check.within == "body" else f"{where} ({check.within.replace('_', ' and ')})"
    misses, stated = text_misses(check, [text], place, None)
    misses += ordered_misses(
        check.headings, [p.text for p in document.headings], check.headings_in_order, "heading", where
    )
    misses += count_misses(len(document.tables), "tables", None, check.min_tables, None)
    misses += table_misses(check.tables, [t.rows for t in document.tables], where)
    for wanted in check.styles:
        holders = [p for p in document.paragraphs if find_phrase(normalise(p.text), wanted.contains) >= 0]
        if not any(p.style.casefold() == wanted.style.casefold() for p in holders):
            found = ", ".join(sorted({p.style for p in holders})) or "no such paragraph"
            expected = f"{wanted.contains!r} in style {wanted.style!r}"
            misses.append(Miss(expected, found, f"{where} has no paragraph {expected} (found: {found})"))
    misses += count_misses(len(document.body.split()), "words", None, check.min_words, check.max_words)
    tracked = bool(document.insertions or document.deletions)
    if check.tracked_changes is not None and tracked != check.tracked_changes:
        wanted_text = "tracked changes" if check.tracked_changes else "no tracked changes"
        misses.append(Miss(wanted_text, str(tracked), f"{where} must have {wanted_text}"))
    return Finding(misses, actual=stated or None, where=where)
