"""Finding a text in a PDF: over line ends, hyphenation and ligatures, in reading order, with an honest count.

Each page becomes one text, its words in reading order, lines ended by line feeds. The query becomes a pattern in which
blanks match any white space, a hyphen at a line's end is passed over, and typographic and plain quotes and dashes are
the same. Also searched: form fields' values, annotations' texts.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.pdf.declared import SearchPdf
from envkit.harnesses.archipelago.servers.pdf.reading import _count, _numbers
from envkit.office.pdf import Page, Pdf, read_pdf

__all__ = ["Found", "found_in", "page_lines", "pattern_of", "search_pdf"]

_MAX_QUERY = 1_000
_FOLDED = str.maketrans(
    {"‘": "'", "’": "'", "‚": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"', "‐": "-", "‑": "-", "‒": "-",
     "–": "-", "—": "-", "−": "-", "\u00ad": "-", "\u00a0": " ", "\u200b": ""}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """A match: its page, where on it (`line 3, characters 5-9`, or a field's name), its surroundings."""

    page: int
    where: str
    shown: str


def search_pdf(arguments: SearchPdf, context: Context) -> str:
    """Every match is counted; the first `max_results` are shown."""
    query = " ".join(_folded(arguments.query).split())
    if not query:
        raise ToolError("the query is empty; give the text to find")
    if len(query) > _MAX_QUERY:
        raise ToolError(f"the query has {len(query)} characters, more than {_MAX_QUERY}; give a part of it")
    path = context.path(arguments.file_path, must_exist=True)
    pdf = context.parse(path, read_pdf)
    pattern = pattern_of(query, arguments.case_sensitive, arguments.whole_word)
    matches: list[Found] = []
    total = 0
    pages: set[int] = set()
    for match in found_in(pdf, pattern, arguments.context_chars):
        total += 1
        pages.add(match.page)
        if len(matches) < arguments.max_results:
            matches.append(match)
    lines = [_summary(arguments, pdf, context.shown(path), total, pages)]
    if total > len(matches):
        lines[0] += f"; showing the first {len(matches)} (raise max_results for more)"
    lines += [f"{n}. [Page {m.page}, {m.where}]: {m.shown}" for n, m in enumerate(matches, 1)]
    if pdf.needs_ocr:
        which = f"Page {_numbers(pdf.needs_ocr)} is a scan" if len(pdf.needs_ocr) == 1 else (
            f"Pages {_numbers(pdf.needs_ocr)} are scans"
        )  # fmt: skip
        lines.append(f"{which} without text (needs OCR) and could not be searched; read_page_as_image shows it.")
    return "\n".join(lines)


def _summary(arguments: SearchPdf, pdf: Pdf, shown: str, total: int, pages: set[int]) -> str:
    if not total:
        how = [h for h in ("case_sensitive" * arguments.case_sensitive, "whole_word" * arguments.whole_word) if h]
        hint = f" (with {' and '.join(how)})" if how else ""
        return f"Found 0 matches for {arguments.query!r}{hint} in {_count(pdf.count, 'page')} of {shown}"
    match = "match" if total == 1 else "matches"
    return f"Found {total:,} {match} for {arguments.query!r} on {_count(len(pages), 'page')} of {shown}"


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text.translate(_FOLDED)).translate(_FOLDED)


def page_lines(page: Page) -> str:
    """A page's words in reading order, folded; a line feed where the next word stands on another line."""
    out: list[str] = []
    last = None
    for word in page.words:
        if last is not None:
            same = min(last.bottom, word.bottom) - max(last.top, word.top) > 0.3 * min(
                last.bottom - last.top, word.bottom - word.top
            )
            # Right to left, words of one line go back; else a word further left begins a line.
            back = word.left < last.left and not _rtl(word.text)
            out.append(" " if same and not back else "\n")
        out.append(_folded(word.text))
        last = word
    return "".join(out)


def _rtl(text: str) -> bool:
    return any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)


def _cjk(char: str) -> bool:
    return unicodedata.east_asian_width(char) in ("W", "F")


def pattern_of(query: str, case_sensitive: bool, whole_word: bool) -> re.Pattern[str]:
    """The pattern for a folded query."""
    pieces: list[str] = []
    before = ""
    for char in query:
        if char == " ":
            pieces.append(r"\s+")
        else:
            if before and before != " ":
                if _cjk(before) or _cjk(char):
                    pieces.append(r"\s?")
                elif before == "-":
                    pieces.append(r"\n?")
                elif char != "-":
                    pieces.append(r"(?:-\n)?")
            pieces.append(re.escape(char))
        before = char
    text = "".join(pieces)
    if whole_word:
        text = (r"(?<!\w)" if query[0].isalnum() else "") + text + (r"(?!\w)" if query[-1].isalnum() else "")
    return re.compile(text, 0 if case_sensitive else re.IGNORECASE)


def found_in(pdf: Pdf, pattern: re.Pattern[str], around: int) -> Iterator[Found]:
    """The matches page by page; on a page, its text first, then its fields and annotations."""
    for page in pdf.pages:
        text = page_lines(page)
        starts = [0, *(m.end() for m in re.finditer("\n", text))]
        for match in pattern.finditer(text):
            line = bisect_right(starts, match.start())
            at = match.start() - starts[line - 1]
            end = bisect_right(starts, max(match.end() - 1, 0))
            if end > line:
                where = f"Lines {line}-{end}"
            else:
                where = f"Line {line}, Chars {at + 1}-{at + match.end() - match.start()}"
            yield Found(page.number, where, _context(text, match, around))
        for field in (f for f in pdf.fields if f.page == page.number):
            value = _folded(field.value)
            for match in pattern.finditer(value):
                yield Found(page.number, f"form field {field.name!r}", _context(value, match, around))
        for note in page.annotations:
            value = _folded(note.text)
            for match in pattern.finditer(value):
                yield Found(page.number, f"{note.kind} annotation", _context(value, match, around))


def _context(text: str, match: re.Match[str], around: int) -> str:
    start, end = max(0, match.start() - around), min(len(text), match.end() + around)
    shown = text[start : match.start()] + "**" + match[0] + "**" + text[match.end() : end]
    return ("..." if start else "") + " ".join(shown.split()) + ("..." if end < len(text) else "")
