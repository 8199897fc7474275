"""The Unicode classes of `\\p{...}`, which Python's `re` has no words for, as ranges for its brackets.

General categories are exact; scripts are told by the characters' names, which is right for all but a few signs. Made
on demand (a tenth of a second), only for expressions that use them. Used by `rust_regex`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

_LONG_NAMES = {
    "letter": "L",
    "alphabetic": "L",
    "alpha": "L",
    "casedletter": "LC",
    "uppercaseletter": "Lu",
    "uppercase": "Lu",
    "lowercaseletter": "Ll",
    "lowercase": "Ll",
    "titlecaseletter": "Lt",
    "modifierletter": "Lm",
    "otherletter": "Lo",
    "mark": "M",
    "number": "N",
    "decimalnumber": "Nd",
    "digit": "Nd",
    "letternumber": "Nl",
    "othernumber": "No",
    "punctuation": "P",
    "punct": "P",
    "dashpunctuation": "Pd",
    "symbol": "S",
    "mathsymbol": "Sm",
    "currencysymbol": "Sc",
    "othersymbol": "So",
    "separator": "Z",
    "spaceseparator": "Zs",
    "whitespace": "Z",
    "other": "C",
    "control": "Cc",
}
_CATEGORIES: tuple[str, ...] = (
    *("L", "Lu", "Ll", "Lt", "Lm", "Lo", "LC", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No"),
    *("P", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp"),
    *("C", "Cc", "Cf", "Cn", "Co"),
)
#: The code points, without surrogates; each end excluded. The long empty stretches are blocks of their own.
_BLOCKS = (
    (0, 0xD800),
    (0xE000, 0x40000),
    (0x40000, 0xE0000),
    (0xE0000, 0xE1000),
    (0xE1000, 0xF0000),
    (0xF0000, 0x110000),
)
_SCRIPTS = {
    "latin": ("LATIN ",),
    "greek": ("GREEK ",),
    "cyrillic": ("CYRILLIC ",),
    "arabic": ("ARABIC ",),
    "hebrew": ("HEBREW ",),
    "thai": ("THAI ",),
    "devanagari": ("DEVANAGARI ",),
    "hangul": ("HANGUL ",),
    "hiragana": ("HIRAGANA ",),
    "katakana": ("KATAKANA ",),
    "han": ("CJK UNIFIED ", "CJK COMPATIBILITY IDEOGRAPH", "CJK RADICAL ", "KANGXI RADICAL "),
}


@lru_cache(maxsize=None)  # noqa: UP033 (Python 3.8)
def members(name: str) -> str | None:
    """The class's characters as the inside of a bracket expression, the line break left out; None if unknown."""
    import unicodedata

    plain = name.rsplit("=", 1)[-1].replace("_", "").replace("-", "").replace(" ", "")
    if plain.lower() == "any":
        return "\\x00-\\x09\\x0b-\\U0010ffff"
    category = plain if plain in _CATEGORIES else _LONG_NAMES.get(plain.lower())
    if category is None:
        matching = [c for c in _CATEGORIES if c.lower() == plain.lower()]
        category = matching[0] if matching else None
    if category == "LC":
        return _ranges(lambda char: unicodedata.category(char) in ("Lu", "Ll", "Lt"))
    if category:
        wanted = category
        return _ranges(lambda char: unicodedata.category(char).startswith(wanted))
    prefixes = _SCRIPTS.get(plain.lower())
    if prefixes:
        starts = prefixes
        return _ranges(
            lambda char: unicodedata.category(char)[0] in "LM" and unicodedata.name(char, "").startswith(starts)
        )
    return None


def _ranges(belongs: Callable[[str], bool]) -> str:
    out: list[str] = []
    for low, high in _BLOCKS:
        alike = low >= 0x40000 and low != 0xE0000  # nothing but one category in there: ask about one of them
        start = -1
        for code in (low, high) if alike else range(low, high + 1):
            if code < high and code != 10 and belongs(chr(low if alike else code)):
                start = code if start < 0 else start
            elif start >= 0:
                out.append(f"\\U{start:08x}-\\U{code - 1:08x}")
                start = -1
    return "".join(out)
