"""Differences of looks: number formats by class, fonts, fills, borders and alignment in words.

Programs turn theme colours into RGB with small errors, write defaults out or leave them away, and give automatic
colours as black: none of that is a difference.
"""

from __future__ import annotations

from envkit.office.workbook import CellStyle

__all__ = ["look_differences", "same_color"]

#: Largest difference of one channel (of 255) that rounding a tint explains.
_ROUNDING = 4
_LINES = {"hair": "thin", "mediumDashed": "medium", "mediumDashDot": "medium", "mediumDashDotDot": "medium"}


def look_differences(first: CellStyle, second: CellStyle, *, borders: bool = True) -> list[tuple[str, str, str]]:
    """What differs, as (kind, before, after)."""
    if first == second:
        return []
    out: list[tuple[str, str, str]] = []
    if first.format_class != second.format_class:
        out.append(("cell.format", first.format_class, second.format_class))
    before: list[str] = []
    after: list[str] = []
    for name, a, b in _aspects(first, second, borders):
        before.append(f"{name}: {a or 'none'}")
        after.append(f"{name}: {b or 'none'}")
    if before:
        out.append(("cell.style", "; ".join(before), "; ".join(after)))
    return out


def _aspects(first: CellStyle, second: CellStyle, borders: bool) -> list[tuple[str, str, str]]:
    out: list[tuple[str, str, str]] = []
    for name in ("bold", "italic", "underline", "strike", "wrap"):
        a, b = getattr(first, name), getattr(second, name)
        if a != b:
            out.append((name, "yes" if a else "no", "yes" if b else "no"))
    if first.font.casefold() != second.font.casefold() and first.font and second.font:
        out.append(("font", first.font, second.font))
    if first.size and second.size and abs(first.size - second.size) > 0.26:
        out.append(("size", f"{first.size:g}", f"{second.size:g}"))
    if not same_color(first.color or "000000", second.color or "000000"):
        out.append(("color", first.color, second.color))
    if not same_color(first.fill, second.fill):
        out.append(("fill", first.fill, second.fill))
    for side, a, b in zip(("top", "right", "bottom", "left"), first.borders, second.borders, strict=True):
        if borders and _LINES.get(a, a) != _LINES.get(b, b):
            out.append((f"{side} border", a, b))
    a, b = _horizontal(first), _horizontal(second)
    if a != b:
        out.append(("alignment", a, b))
    if first.vertical != second.vertical:
        out.append(("vertical alignment", first.vertical or "bottom", second.vertical or "bottom"))
    if first.rotation != second.rotation:
        out.append(("rotation", f"{first.rotation}°", f"{second.rotation}°"))
    if first.indent != second.indent:
        out.append(("indent", str(first.indent), str(second.indent)))
    if first.locked != second.locked:
        out.append(("locked", "yes" if first.locked else "no", "yes" if second.locked else "no"))
    return out


def _horizontal(style: CellStyle) -> str:
    """Text that is turned upwards, and not aligned, stands at the right: some programs write that out."""
    turned = 0 < style.rotation <= 90 or style.rotation == 255
    return style.horizontal or ("right" if turned else "")


def same_color(first: str, second: str) -> bool:
    """Whether two colours are the same but for rounding."""
    if first == second:
        return True
    if len(first) != 6 or len(second) != 6:
        return False
    try:
        return all(abs(int(first[i : i + 2], 16) - int(second[i : i + 2], 16)) <= _ROUNDING for i in (0, 2, 4))
    except ValueError:
        return False
