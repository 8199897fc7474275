"""Text that fits: how large a text may be in its area, by an estimate of how wide characters are.

Fonts aren't measured (the machine that shows the deck has its own); the estimate is on the safe side. Used where text
is put into placeholders and tables.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.slides.texts import A

__all__ = ["fit_body", "fit_table", "lines_needed"]

_EMU_POINT = 12_700
#: Average width of a character in parts of its size, and height of a line.
_WIDE, _LINE = 0.52, 1.2
#: Above and below the text of a table's cell, in points.
_CELL_MARGINS = 7.4
_SCALES = (100.0, 90.0, 80.0, 70.0, 62.5, 55.0, 47.5, 40.0, 32.5, 25.0)


def _width(text: str) -> float:
    return sum(1.0 if unicodedata.east_asian_width(c) in "WF" else _WIDE for c in text)


def lines_needed(text: str, size: float, width: float) -> int:
    """Lines of a text of a size (points) in a width (points), words kept whole."""
    total = 0
    for line in text.replace("\v", "\n").split("\n"):
        used, lines = 0.0, 1
        for word in line.split(" "):
            long = _width(word + " ") * size
            if used and used + long - size * _WIDE > width:
                lines, used = lines + 1, 0.0
            if long > width:
                lines += math.ceil(long / width) - 1
                long = long % width
            used += long
        total += lines
    return total


def fit_body(body: Any, size: float, width: int, height: int, *, spacing: float = 0.3, indent: float = 20.0) -> bool:
    """Lets the text of a placeholder shrink to its area (EMU), as PowerPoint does it itself. Returns whether it fits.

    Args:
        size: The size that the text has unless it is shrunk, in points.
        spacing: Space before a paragraph, in parts of the size.
        indent: What bullets take of the width, in points.
    """
    inner, room = width / _EMU_POINT - 14.4 - indent, height / _EMU_POINT - 7.2
    texts = ["".join(t.text or "" if t.tag == f"{A}t" else "\n" for t in p.iter(f"{A}t", f"{A}br"))
             for p in body.iterfind(f"{A}p")]  # fmt: skip

    def tall(scale: float) -> float:
        points = size * scale / 100
        return sum(lines_needed(text, points, max(inner, 20.0)) * points * _LINE + points * spacing for text in texts)

    scale = next((s for s in _SCALES if tall(s) <= room), _SCALES[-1])
    properties = body.find(f"{A}bodyPr")
    for name in ("noAutofit", "normAutofit", "spAutoFit"):
        for old in properties.findall(f"{A}{name}"):
            properties.remove(old)
    fit = etree.Element(f"{A}normAutofit")
    if scale < 100:
        fit.set("fontScale", str(round(scale * 1000)))
    warp = properties.find(f"{A}prstTxWarp")
    properties.insert(0 if warp is None else 1, fit)
    return tall(scale) <= room


def fit_table(rows: Sequence[Sequence[str]], width: int, height: int, largest: float = 18.0) -> tuple[float, int, bool]:
    """The size of a table's text (points) and the height of its rows (EMU) in an area (EMU), and whether it fits. The
    text gets no smaller than 8 points: a longer table then reaches beyond the area."""
    column = width / max(len(rows[0]), 1) / _EMU_POINT - 14.4
    room = height / _EMU_POINT

    def tall(size: float) -> float:
        lines = [max(lines_needed(cell, size, max(column, 10.0)) for cell in row) for row in rows]
        return sum(n * size * _LINE + _CELL_MARGINS for n in lines)

    size = next((s for s in (18.0, 16.0, 14.0, 12.0, 11.0, 10.0, 9.0) if s <= largest and tall(s) <= room), 8.0)
    natural = int((size * _LINE + _CELL_MARGINS) * _EMU_POINT)
    return size, max(natural, min(height // len(rows), int(natural * 1.35))), tall(size) <= room
