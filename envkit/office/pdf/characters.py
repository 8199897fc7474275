"""A page's words with their boxes, from pdfium's characters. Used by `read.py`.

A word's box is that of its first and last character where those stand as in a line of print; only other words
(overprinted to look bold, turned, spread) are walked character by character.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

from envkit.office.pdf.model import Box, Word

__all__ = ["words_of"]

#: Characters of one page beyond which the rest of it is not looked at.
MAX_CHARS = 200_000
_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
_SPACES = frozenset([*map(ord, "\0\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"), *range(0x2000, 0x200C)])
#: pdfium marks a hyphen at a line's end with 2 or U+FFFE; control characters and soft hyphens are nothing to see.
_PLAIN = {**_LIGATURES, 2: "-", 0xFFFE: "-", 0xAD: None, **{n: None for n in range(1, 32) if n != 2}}
_WORD = re.compile("[^" + "".join(f"\\u{code:04x}" for code in sorted(_SPACES)) + "]+")
_SURROGATES = re.compile("[\ud800-\udfff]")
_DOUBLED = re.compile(r"(.)\1")


def words_of(page: Any, turned: Callable[[float, float, float, float], Box], upright: bool) -> list[Word]:
    """The page's words in the order of the file.

    Args:
        turned: From (left, bottom, right, top) of the page's own coordinates to the box as shown.
        upright: Lines of print run level in the page's own coordinates.
    """
    import pypdfium2.raw as raw

    text = page.get_textpage()
    try:
        count = min(raw.FPDFText_CountChars(text), MAX_CHARS)
        if count < 1:
            return []
        walk = _Walk(text, turned, upright)
        buffer = (ctypes.c_ushort * (count + 1))()
        written = raw.FPDFText_GetText(text, 0, count, buffer)
        whole = bytes(buffer)[: 2 * max(written - 1, 0)].decode("utf-16-le", "surrogatepass")
        if len(whole) != count or _SURROGATES.search(whole) or not upright:
            walk.slowly(0, count)
        else:
            for match in _WORD.finditer(whole):
                walk.quickly(match[0], match.start(), match.end())
        return walk.words
    finally:
        text.close()


class _Walk:
    """Words found so far on one page."""

    def __init__(self, text: Any, turned: Callable[[float, float, float, float], Box], upright: bool) -> None:
        import pypdfium2.raw as raw

        self.text, self.turned, self.upright = text, turned, upright
        self.words: list[Word] = []
        self.seen: set[tuple[str, int, int]] = set()
        self.rect = raw.FS_RECTF()
        self.reference = ctypes.byref(self.rect)
        self.get_unicode, self.get_box = raw.FPDFText_GetUnicode, raw.FPDFText_GetLooseCharBox

    def add(self, text: str, left: float, bottom: float, right: float, top: float) -> None:
        """Adds a word; one that was drawn twice to look bold is one."""
        text = text.translate(_PLAIN)
        if _SURROGATES.search(text):
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if not text:
            return
        x0, y0, x1, y1 = self.turned(left, bottom, right, top)
        key = (text, round(x0 / 3), round(y0 / 3))
        if key not in self.seen:
            self.seen.add(key)
            self.words.append(Word(text, round(x0, 2), round(y0, 2), round(x1, 2), round(y1, 2)))

    def quickly(self, word: str, start: int, end: int) -> None:
        """A word by its two ends; character by character where those are not what print looks like."""
        rect, length = self.rect, end - start
        self.get_box(self.text, start, self.reference)
        left, bottom, right, top = rect.left, rect.bottom, rect.right, rect.top
        height = max(top - bottom, 1.0)
        if length > 1:
            self.get_box(self.text, end - 1, self.reference)
            odd = abs(rect.bottom + rect.top - bottom - top) > 0.3 * height
            odd = odd or not 0.1 * length * height < rect.right - left < (length + 1) * height
            if odd or 2 * len(_DOUBLED.findall(word)) > 0.6 * length:
                self.slowly(start, end)
                return
            bottom, right, top = min(bottom, rect.bottom), rect.right, max(top, rect.top)
        self.add(word, left, bottom, right, top)

    def slowly(self, start: int, end: int) -> None:
        """Words character by character, cut at gaps and jumps too."""
        letters: list[str] = []
        left = bottom = right = top = last = 0.0
        rect = self.rect
        for index in range(start, end):
            code = self.get_unicode(self.text, index)
            if code in _SPACES:
                if letters:
                    self.add("".join(letters), left, bottom, right, top)
                    letters = []
                continue
            self.get_box(self.text, index, self.reference)
            x0, y0, x1, y1 = rect.left, rect.bottom, rect.right, rect.top
            if letters:
                if self.upright:
                    size = max(top - bottom, 1.0)
                    apart = x0 - right > 0.35 * size or x0 < left - 0.5 * size
                    apart = apart or abs((y0 + y1) - (bottom + top)) > 1.2 * size
                else:
                    size = max(right - left, 1.0)
                    apart = abs((x0 + x1) - (left + right)) > 1.2 * size
                    apart = apart or y0 - top > 0.35 * size or bottom - y1 > 0.35 * size
                if apart:
                    self.add("".join(letters), left, bottom, right, top)
                    letters = []
                elif chr(code) == letters[-1] and abs(x0 - last) < 0.15 * size and self.upright:
                    continue
            if letters:
                left, bottom, right, top = min(x0, left), min(y0, bottom), max(x1, right), max(y1, top)
            else:
                left, bottom, right, top = x0, y0, x1, y1
            last = x0
            letters.append(chr(code))
        if letters:
            self.add("".join(letters), left, bottom, right, top)
