"""The look of cells: number format, font, fill, borders and alignment, with colours resolved to RGB.

Colours come as RGB, as an index into a palette, or as a theme's colour with a tint; programs turn one into the other
when they save, so that only the resolved colour can be compared.
"""

from __future__ import annotations

import colorsys
from dataclasses import dataclass, field
from typing import Any

from envkit.office.package import Package
from envkit.office.workbook.formats import BUILTIN, format_class
from envkit.office.workbook.values import SerialKind, serial_kind

__all__ = ["PLAIN", "CellStyle", "Styles", "read_styles"]

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
#: Colours 8 to 63 of the palette that old files point into; 0 to 7 are 8 to 15.
_PALETTE_TEXT = (
    "000000 FFFFFF FF0000 00FF00 0000FF FFFF00 FF00FF 00FFFF 800000 008000 000080 808000 800080 008080 "
    "C0C0C0 808080 9999FF 993366 FFFFCC CCFFFF 660066 FF8080 0066CC CCCCFF 000080 FF00FF FFFF00 00FFFF "
    "800080 800000 008080 0000FF 00CCFF CCFFFF CCFFCC FFFF99 99CCFF FF99CC CC99FF FFCC99 3366FF 33CCCC "
    "99CC00 FFCC00 FF9900 FF6600 666699 969696 003366 339966 003300 333300 993300 993366 333399 333333"
)
_PALETTE = _PALETTE_TEXT.split(" ")
#: The order of a theme's colours in references to it: light and dark come swapped.
_THEME = (
    "lt1",
    "dk1",
    "lt2",
    "dk2",
    "accent1",
    "accent2",
    "accent3",
    "accent4",
    "accent5",
    "accent6",
    "hlink",
    "folHlink",
)


@dataclass(frozen=True)
class CellStyle:
    """How a cell looks. Colours are `RRGGBB`, "" where automatic; `size` is in points, 0 where unsaid; `borders` are
    the line styles top, right, bottom, left, "" for none. `vertical` is "" at the bottom; `rotation` in degrees,
    upwards to 90, downwards to -90, 255 for letters on top of each other."""

    number_format: str = "General"
    bold: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False
    font: str = ""
    size: float = 0.0
    color: str = ""
    fill: str = ""
    borders: tuple[str, str, str, str] = ("", "", "", "")
    horizontal: str = ""
    vertical: str = ""
    rotation: int = 0
    indent: int = 0
    wrap: bool = False
    locked: bool = True
    serial: SerialKind = field(default="", compare=False)

    @property
    def format_class(self) -> str:
        return format_class(self.number_format)


PLAIN = CellStyle()


@dataclass(frozen=True)
class Styles:
    """The styles of a workbook by index, and those of conditional formats."""

    cells: tuple[CellStyle, ...] = ()
    differential: tuple[CellStyle, ...] = ()

    def cell(self, index: int) -> CellStyle:
        return self.cells[index] if 0 <= index < len(self.cells) else PLAIN

    def conditional(self, index: int | None) -> CellStyle:
        return self.differential[index] if index is not None and 0 <= index < len(self.differential) else PLAIN


def read_styles(package: Package) -> Styles:
    """Raises `Unreadable`."""
    part = next(package.related(package.main, "styles"), None)
    if part is None:
        return Styles()
    root = package.xml(part)
    colors = _Colors(package, root)
    codes = dict(BUILTIN)
    for element in root.iterfind(f"{_MAIN}numFmts/{_MAIN}numFmt"):
        codes[number(element.get("numFmtId"))] = element.get("formatCode", "General")
    fonts = [_font(e, colors) for e in root.iterfind(f"{_MAIN}fonts/{_MAIN}font")]
    fills = [_fill(e, colors) for e in root.iterfind(f"{_MAIN}fills/{_MAIN}fill")]
    borders = [_borders(e) for e in root.iterfind(f"{_MAIN}borders/{_MAIN}border")]

    def entry(table: list[Any], index: str | None) -> Any:
        place = number(index)
        return table[place] if 0 <= place < len(table) else {}

    seen: dict[CellStyle, CellStyle] = {}
    cells: list[CellStyle] = []
    for xf in root.iterfind(f"{_MAIN}cellXfs/{_MAIN}xf"):
        code = codes.get(number(xf.get("numFmtId")), "General")
        look = {
            **entry(fonts, xf.get("fontId")),
            **entry(fills, xf.get("fillId")),
            **entry(borders, xf.get("borderId")),
            **_alignment(xf),
        }
        style = CellStyle(number_format=code, serial=serial_kind(code), **look)
        cells.append(seen.setdefault(style, style))
    return Styles(tuple(cells), tuple(_differential(e, colors) for e in root.iterfind(f"{_MAIN}dxfs/{_MAIN}dxf")))


def number(text: str | None, default: int = 0) -> int:
    """An attribute as a whole number; the default where it is none."""
    try:
        return int(text or default)
    except ValueError:
        return default


def _on(element: Any) -> bool:
    return element is not None and element.get("val", "1") not in ("0", "false", "none")


def _font(element: Any, colors: _Colors) -> dict[str, Any]:
    size = element.find(f"{_MAIN}sz")
    name = element.find(f"{_MAIN}name")
    try:
        points = float(size.get("val", "0")) if size is not None else 0.0
    except ValueError:
        points = 0.0
    return {
        "bold": _on(element.find(f"{_MAIN}b")),
        "italic": _on(element.find(f"{_MAIN}i")),
        "underline": _on(element.find(f"{_MAIN}u")),
        "strike": _on(element.find(f"{_MAIN}strike")),
        "font": name.get("val", "") if name is not None else "",
        "size": points,
        "color": colors.resolve(element.find(f"{_MAIN}color")),
    }


def _fill(element: Any, colors: _Colors) -> dict[str, Any]:
    pattern = element.find(f"{_MAIN}patternFill")
    if pattern is None:
        stop = element.find(f"{_MAIN}gradientFill/{_MAIN}stop/{_MAIN}color")
        return {"fill": colors.resolve(stop)}
    kind = pattern.get("patternType", "none")
    if kind == "none":
        return {"fill": ""}
    found = colors.resolve(pattern.find(f"{_MAIN}fgColor"))
    return {"fill": found if kind == "solid" else f"{kind} {found}".strip()}


def _borders(element: Any) -> dict[str, Any]:
    sides = []
    for side in ("top", "right", "bottom", "left"):
        line = element.find(f"{_MAIN}{side}")
        style = line.get("style", "") if line is not None else ""
        sides.append("" if style == "none" else style)
    return {"borders": tuple(sides)}


def _alignment(xf: Any) -> dict[str, Any]:
    alignment, protection = xf.find(f"{_MAIN}alignment"), xf.find(f"{_MAIN}protection")
    horizontal = alignment.get("horizontal", "") if alignment is not None else ""
    vertical = alignment.get("vertical", "") if alignment is not None else ""
    turn = number(alignment.get("textRotation")) if alignment is not None else 0
    return {
        "horizontal": "" if horizontal == "general" else horizontal,
        "vertical": "" if vertical == "bottom" else vertical,
        "rotation": 90 - turn if 90 < turn <= 180 else turn,
        "indent": number(alignment.get("indent")) if alignment is not None else 0,
        "wrap": alignment is not None and alignment.get("wrapText") in ("1", "true"),
        "locked": protection is None or protection.get("locked") not in ("0", "false"),
    }


def _differential(element: Any, colors: _Colors) -> CellStyle:
    font, fill = element.find(f"{_MAIN}font"), element.find(f"{_MAIN}fill")
    look: dict[str, Any] = _font(font, colors) if font is not None else {}
    if fill is not None:
        # In a conditional format the background colour is what shows of a solid fill.
        pattern = fill.find(f"{_MAIN}patternFill")
        shown = None if pattern is None else pattern.find(f"{_MAIN}bgColor")
        look["fill"] = colors.resolve(shown) if shown is not None else _fill(fill, colors)["fill"]
    code = element.find(f"{_MAIN}numFmt")
    if code is not None:
        look["number_format"] = code.get("formatCode", "General")
    look.pop("font", None)
    look.pop("size", None)
    return CellStyle(**look)


class _Colors:
    """Resolves colour elements."""

    def __init__(self, package: Package, styles: Any) -> None:
        self._theme: list[str] = []
        part = next(package.related(package.main, "theme"), None)
        scheme = None if part is None else package.xml(part).find(f"{_A}themeElements/{_A}clrScheme")
        if scheme is not None:
            for name in _THEME:
                slot = scheme.find(f"{_A}{name}")
                color = slot[0] if slot is not None and len(slot) else None
                rgb = "" if color is None else color.get("lastClr") or color.get("val", "")
                self._theme.append(rgb.upper() if len(rgb) == 6 else "")
        own = [
            e.get("rgb", "")[-6:].upper()
            for e in styles.iterfind(f"{_MAIN}colors/{_MAIN}indexedColors/{_MAIN}rgbColor")
        ]
        self._palette = own if len(own) >= 64 else [*_PALETTE[:8], *_PALETTE]

    def resolve(self, element: Any) -> str:
        if element is None or element.get("auto") in ("1", "true"):
            return ""
        if element.get("rgb"):
            found = element.get("rgb")[-6:].upper()
        elif element.get("theme") is not None:
            index = number(element.get("theme"), -1)
            found = self._theme[index] if 0 <= index < len(self._theme) else ""
        elif element.get("indexed") is not None:
            index = number(element.get("indexed"), 64)
            found = self._palette[index] if 0 <= index < len(self._palette) else ""
        else:
            return ""
        try:
            tint = float(element.get("tint", "0"))
        except ValueError:
            tint = 0.0
        return _tinted(found, tint) if tint and found else found


def _tinted(rgb: str, tint: float) -> str:
    try:
        red, green, blue = (int(rgb[i : i + 2], 16) / 255 for i in (0, 2, 4))
    except ValueError:
        return rgb
    hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
    tint = max(-1.0, min(1.0, tint))
    light = light * (1 + tint) if tint < 0 else light * (1 - tint) + tint
    return "".join(f"{round(c * 255):02X}" for c in colorsys.hls_to_rgb(hue, light, saturation))
