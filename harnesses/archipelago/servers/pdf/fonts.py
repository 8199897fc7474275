"""Fonts for new PDFs: every character in a font that has it, as far as this machine has one.

The basic family is DejaVu Sans where it is found (system folders, matplotlib), else Bitstream Vera, which ReportLab
brings along. Characters that it lacks are looked for in the machine's other TrueType fonts, and Chinese, Japanese and
Korean ones at last in the viewers' own (Adobe's Asian fonts). What nobody has is told. Used by `creating.py`.
"""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

__all__ = ["Fonts"]

_FOLDERS = (
    "/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts", "/Library/Fonts",
    "/System/Library/Fonts/Supplemental",
)  # fmt: skip
_STYLES = ("", "Bold", "Oblique", "BoldOblique")
_VERA = ("Vera.ttf", "VeraBd.ttf", "VeraIt.ttf", "VeraBI.ttf")
#: Fonts of other scripts that are tried before all others.
_KNOWN = ("NotoSans", "DejaVuSans", "FreeSans", "LiberationSans", "Symbola", "wqy", "DroidSansFallback", "unifont")
_MAX_TRIED = 300


@lru_cache(maxsize=1)
def _installed() -> tuple[Path, ...]:
    """The machine's TrueType files, those known to hold much first."""
    found: list[Path] = []
    for name in _FOLDERS:
        folder = Path(name).expanduser()
        if folder.is_dir():
            found += sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".ttf", ".ttc"))
    spec = importlib.util.find_spec("matplotlib")
    if spec is not None and spec.origin is not None:
        found += sorted((Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf").glob("*.ttf"))

    def rank(path: Path) -> tuple[int, str]:
        return next((i for i, n in enumerate(_KNOWN) if path.name.startswith(n)), len(_KNOWN)), path.name

    return tuple(sorted(found, key=rank))


def _astral(match: re.Match[str]) -> str:
    return f"{match[1]} <{chr(int(match[2], 16)).encode('utf-16-be').hex().upper()}>"


@lru_cache(maxsize=1)
def _mend_reportlab() -> None:
    """ReportLab writes characters beyond U+FFFF into a font's table of texts with five digits, where UTF-16 is meant:
    they look right but are read, copied and found as others."""
    from reportlab.pdfbase import ttfonts

    plain = ttfonts.makeToUnicodeCMap

    def made(name: str, subset: Any) -> str:
        return re.sub(r"(<[0-9A-F]{2}>) <([0-9A-F]{5,6})>", _astral, plain(name, subset))

    ttfonts.makeToUnicodeCMap = made


class Fonts:
    """The fonts of one new PDF.

    Attributes:
        missing: The characters met that no font has.
        borrowed: Characters left to fonts of the viewer, which are not in the file.
    """

    def __init__(self) -> None:
        from reportlab.pdfbase import pdfmetrics
        from reportlab.pdfbase.ttfonts import TTFError, TTFont

        _mend_reportlab()
        self._metrics: Any = pdfmetrics
        self._make: Any = TTFont
        self._error: Any = TTFError
        self.missing: dict[str, None] = {}
        self.borrowed: dict[str, None] = {}
        self.names = self._basic()
        self._covers = {name: self._coverage(name) for name in self.names}
        self._others: list[tuple[str, Any]] = []
        self._untried = iter(_installed()[:_MAX_TRIED])
        self._asian: dict[str, str] = {}
        self._chosen: dict[tuple[str, int], str | None] = {}

    def _basic(self) -> tuple[str, str, str, str]:
        """Regular, bold, italic, bold italic."""
        by_name = {p.name: p for p in reversed(_installed())}
        wanted = [f"DejaVuSans{'-' + s if s else ''}.ttf" for s in _STYLES]
        if all(name in by_name for name in wanted):
            files: list[Path | str] = [by_name[name] for name in wanted]
        else:
            files = list(_VERA)  # found by ReportLab in its own folder
        names = []
        for style, file in zip(_STYLES, files, strict=True):
            name = f"Envkit{style or 'Regular'}"
            self._metrics.registerFont(self._make(name, str(file)))
            names.append(name)
        regular, bold, italic, both = names
        self._metrics.registerFontFamily(regular, normal=regular, bold=bold, italic=italic, boldItalic=both)
        return regular, bold, italic, both

    def _coverage(self, name: str) -> Any:
        return self._metrics.getFont(name).face.charToGlyph

    def name(self, bold: bool = False, italic: bool = False) -> str:
        return self.names[bold + 2 * italic]

    def marked(self, text: str, bold: bool = False, italic: bool = False) -> str:
        """A text in ReportLab's markup: escaped, line feeds as breaks, stretches in other fonts where needed."""
        base = self.name(bold, italic)
        text = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4))
        out: list[str] = []
        for font, piece in self._stretches(text, base):
            marked = escape(piece).replace("\n", "<br/>")
            out.append(marked if font == base else f'<font name="{font}">{marked}</font>')
        return "".join(out)

    def _stretches(self, text: str, base: str) -> Iterator[tuple[str, str]]:
        current, held = base, ""
        for char in text:
            if unicodedata.category(char) in ("Cc", "Cs") and char != "\n":
                self.missing[char] = None
                char = "\ufffd"
            font = base if char.isspace() else self._font(char, base)
            if font is None:
                self.missing[char] = None
                char, font = ("?" if self._font("\ufffd", base) != base else "\ufffd"), base
            if char.isspace() and held:
                font = current
            if font != current:
                if held:
                    yield current, held
                current, held = font, ""
            held += char
        if held:
            yield current, held

    def _font(self, char: str, base: str) -> str | None:
        code = ord(char)
        if code in self._covers[base] or unicodedata.category(char) == "Cf":
            return base
        key = (base, code)
        if key not in self._chosen:
            self._chosen[key] = self._other(char)
        return self._chosen[key]

    def _other(self, char: str) -> str | None:
        code = ord(char)
        for name, covers in self._others:
            if code in covers:
                return name
        for path in self._untried:
            name = f"Envkit{len(self._others)}-{path.stem}"
            try:
                font = self._make(name, str(path))
            except (self._error, OSError, ValueError, KeyError, IndexError, AssertionError):
                continue  # outlines of a kind that ReportLab doesn't embed
            self._metrics.registerFont(font)
            self._others.append((name, font.face.charToGlyph))
            if code in font.face.charToGlyph:
                return name
        return self._viewers(char)

    def _viewers(self, char: str) -> str | None:
        """A font that viewers have for themselves, for East Asian characters."""
        name = unicodedata.name(char, "")
        if "HANGUL" in name:
            face = "HYSMyeongJo-Medium"
        elif "HIRAGANA" in name or "KATAKANA" in name:
            face = "HeiseiMin-W3"
        elif name.startswith(("CJK", "IDEOGRAPHIC", "FULLWIDTH")):
            face = "STSong-Light"
        else:
            return None
        if face not in self._asian:
            from reportlab.pdfbase.cidfonts import UnicodeCIDFont

            self._metrics.registerFont(UnicodeCIDFont(face))
            self._asian[face] = face
        self.borrowed[char] = None
        return face
