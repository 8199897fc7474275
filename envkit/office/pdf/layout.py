"""From words on a page to lines, columns and paragraphs.

Words that overlap in height are a line. Lines that keep a gap free between two stretches of prose are columns and are
read one after the other; all else is read across. A paragraph ends at a wider gap, at a bullet, and where the next
line's first word would still have fitted on the line. Pure; used by `read.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median

from envkit.office.pdf.model import Block, Box, Word

__all__ = [
    "BULLET", "Band", "Region", "Strip", "around", "bands_of", "blocks_of", "dehyphenated", "inner",
    "kept_free", "line_text", "regions_of",
]  # fmt: skip

BULLET = re.compile(r"^(?:[•‣▪●○◦·∙\-–—*]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})[.)])$")
_HYPHEN = re.compile(r"(?<=[a-zà-ÿ])-\n(?=[a-zà-ÿ])")
#: Free width between columns, points; and between stretches of one line, in heights of a word.
_GUTTER = 8.0
_WIDE = 1.1
_VERY_WIDE = 2.5
_NARROW = 5.0
#: Lines within which two columns must show.
_PATIENCE = 12
_INF = float("inf")
Strip = tuple[float, float]


def around(words: Sequence[Word]) -> Box:
    """The box that holds all the words."""
    left, top = min(w.left for w in words), min(w.top for w in words)
    return left, top, max(w.right for w in words), max(w.bottom for w in words)


@dataclass
class Band:
    """Words at one height, left to right (right to left in such scripts)."""

    words: list[Word]
    top: float
    bottom: float

    @property
    def height(self) -> float:
        return max(self.bottom - self.top, 1.0)

    @cached_property
    def free(self) -> list[Strip]:
        """The strips that no word of it touches, the margins too, as far as they are wide enough for anything."""
        spans = sorted((w.left, w.right) for w in self.words)
        out: list[Strip] = [(-_INF, spans[0][0])]
        right = spans[0][1]
        for left, end in spans[1:]:
            if left - right >= _NARROW:
                out.append((right, left))
            right = max(right, end)
        return [*out, (right, _INF)]

    def pieces(self, wide: float = _WIDE) -> list[list[Word]]:
        """The band cut at gaps wider than so many heights of a word, left to right."""
        ordered = sorted(self.words, key=lambda w: w.left)
        out = [[ordered[0]]]
        right = ordered[0].right
        for word in ordered[1:]:
            if word.left - right > wide * (word.bottom - word.top):
                out.append([])
            out[-1].append(word)
            right = max(right, word.right)
        return out


def bands_of(words: Iterable[Word]) -> list[Band]:
    """Words as lines across their area, from top to bottom."""
    bands: list[Band] = []
    last = Band([], 0.0, 0.0)
    for word in sorted(words, key=_middle_first):
        top, bottom = word.top, word.bottom
        height = bottom - top
        if bands:
            tall = last.bottom - last.top
            shared = (bottom if bottom < last.bottom else last.bottom) - (top if top > last.top else last.top)
            lower, taller = (height, tall) if height < tall else (tall, height)
            # Half of the lower one, and some of the higher one, unless that is a letter over several lines.
            if shared >= 0.5 * max(lower, 1.0) and (shared >= 0.3 * taller or height >= 3 * tall):
                last.words.append(word)
                if height > 0.8 * tall:
                    # Bounded, so that a chain of offset words can't drag a line down.
                    last.bottom = max(last.bottom, min(bottom, last.top + 1.3 * height))
                    last.top = min(last.top, top)
                continue
        last = Band([word], top, max(bottom, top + 1.0))
        bands.append(last)
    for band in bands:
        band.words = _ordered(band.words)
    return bands


def _middle_first(word: Word) -> tuple[float, float]:
    return word.top + word.bottom, word.left


def _ordered(words: list[Word]) -> list[Word]:
    ordered = sorted(words, key=lambda w: w.left)
    if any(ord(w.text[0]) > 0x590 for w in words):
        rtl = sum(unicodedata.bidirectional(w.text[0]) in ("R", "AL") for w in words)
        if 2 * rtl > len(words):
            ordered.reverse()
    return ordered


def line_text(words: Sequence[Word]) -> str:
    """A line's words, two spaces where there is a wide gap."""
    out = [words[0].text]
    for last, word in pairwise(words):
        gap = max(word.left - last.right, last.left - word.right)
        out.append(("  " if gap > _WIDE * (word.bottom - word.top) else " ") + word.text)
    return "".join(out)


@dataclass
class Region:
    """A stretch of the page read from top to bottom: its lines."""

    bands: list[Band]

    def paragraphs(self) -> list[list[list[Band]]]:
        """Its lines in visual paragraphs, and those in blocks (a paragraph, an item of a list, a line by itself)."""
        bands = self.bands
        right = max(max(w.right for w in band.words) for band in bands)
        gaps = [max(b.top - a.bottom, 0.0) for a, b in pairwise(bands)]
        usual = self._usual_gap(gaps)
        out = [[[bands[0]]]]
        for last, band, gap in zip(bands, bands[1:], gaps, strict=False):
            taller, lower = max(band.height, last.height), min(band.height, last.height)
            if gap > min(usual, 1.2 * lower) + 0.3 * lower or taller > 1.25 * lower:
                out.append([[band]])
            elif (
                BULLET.match(band.words[0].text)
                or len(band.pieces(_VERY_WIDE)) > 1
                or len(last.pieces(_VERY_WIDE)) > 1
                or max(w.right for w in last.words) + 0.3 * band.height + _width(band.words[0]) < right
            ):
                out[-1].append([band])
            else:
                out[-1][-1].append(band)
        return out

    def _usual_gap(self, gaps: list[float]) -> float:
        """The gap between lines of one paragraph: the smallest, unless that is wide and most lines end a sentence, so
        that every line is a paragraph."""
        if not gaps:
            return 0.0
        usual = min(gaps)
        ends = sum(band.words[-1].text.endswith((".", "!", "?", ":", ";")) for band in self.bands)
        wide = usual > 0.45 * median(band.height for band in self.bands)
        return 0.0 if wide and 2 * ends > len(self.bands) else usual


def _width(word: Word) -> float:
    return word.right - word.left


def regions_of(bands: Sequence[Band]) -> list[Region]:
    """An area's lines in reading order: columns one after the other, the rest across."""
    out: list[Region] = []
    plain: list[Band] = []
    start = 0
    while start < len(bands):
        end, gutters = _columns(bands, start)
        if not gutters:
            plain.append(bands[start])
            start += 1
            continue
        if plain:
            out.append(Region(plain))
            plain = []
        edges = [*(sum(g) / 2 for g in gutters), _INF]
        inside = [w for band in bands[start:end] for w in band.words]
        left = -_INF
        for edge in edges:
            column = [w for w in inside if left <= (w.left + w.right) / 2 < edge]
            if column:
                out.append(Region(bands_of(column)))
            left = edge
        start = end
    if plain:
        out.append(Region(plain))
    return out


def kept_free(gaps: Sequence[Strip], band: Band, least: float) -> list[Strip]:
    """The parts of free strips that a further line leaves free, those at least so wide."""
    cut = ((max(a[0], b[0]), min(a[1], b[1])) for a in gaps for b in band.free)
    return [(left, right) for left, right in cut if right - left >= least]


def inner(gaps: Sequence[Strip]) -> list[Strip]:
    """The strips with words on both sides."""
    return [g for g in gaps if g[0] > -_INF and g[1] < _INF]


def _columns(bands: Sequence[Band], start: int) -> tuple[int, list[Strip]]:
    """How far the bands from `start` on are columns of prose, and the gaps between them; no gaps where they are not."""
    gaps: list[Strip] = [(-_INF, _INF)]
    steps: list[list[Strip]] = []
    for band in bands[start:]:
        gaps = kept_free(gaps, band, _GUTTER)
        if not gaps or (steps and inner(steps[-1]) and not inner(gaps)):
            break
        steps.append(gaps)
        if len(steps) == _PATIENCE and not any(map(inner, steps)):
            break
    ends = [n for n in range(3, len(steps) + 1) if inner(steps[n - 1])]
    # The whole stretch, or its first part: the end may hold what is no column any more.
    for n in dict.fromkeys([*ends[-1:], *ends[len(ends) // 2 : len(ends) // 2 + 1]]):
        prose = _prose(bands[start : start + n], inner(steps[n - 1]))
        if prose:
            return start + n, prose
    return start + 1, []


def _prose(bands: Sequence[Band], gaps: list[Strip]) -> list[Strip]:
    """The gaps with prose on both sides: several words a line, several lines, no sliver."""
    kept: list[Strip] = []
    words = [w for band in bands for w in band.words]
    extent = max(w.right for w in words) - min(w.left for w in words)
    edges = [-_INF, *(sum(g) / 2 for g in gaps), _INF]
    good: list[bool] = []
    for left, right in pairwise(edges):
        lines = bands_of([w for w in words if left <= (w.left + w.right) / 2 < right])
        if len(lines) < 3 or median(len(b.words) for b in lines) < 3:
            good.append(False)
            continue
        width = max(w.right for b in lines for w in b.words) - min(w.left for b in lines for w in b.words)
        good.append(width >= 0.15 * extent)
    for gap, before, after in zip(gaps, good, good[1:], strict=False):
        if before and after:
            kept.append(gap)
    return kept


def dehyphenated(text: str) -> str:
    """Lines with the words cut at their ends joined."""
    return _HYPHEN.sub("", text)


def blocks_of(regions: Iterable[Region]) -> tuple[list[Block], list[str]]:
    """Blocks in reading order, and the text of each visual paragraph."""
    blocks: list[Block] = []
    texts: list[str] = []
    for region in regions:
        for paragraph in region.paragraphs():
            for lines in paragraph:
                words = [w for band in lines for w in band.words]
                text = dehyphenated("\n".join(line_text(band.words) for band in lines)).replace("\n", " ")
                blocks.append(Block(text, around(words)))
            whole = "\n".join(line_text(band.words) for lines in paragraph for band in lines)
            texts.append(dehyphenated(whole))
    return blocks, texts
