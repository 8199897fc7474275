"""Numbers as people write them: found in text, read with sign, separators, scale and unit, and compared.

`find_numbers` cuts a text into candidates; `judge_number` decides whether a text *states* an expected number, as
`values.NumberSpec` defines it. Pure functions. Used by every kind of check that looks for numbers, and for table cells.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from envkit.verifiers.phrases import MAX_CHARACTERS, Miss
from envkit.verifiers.values import SCALES, NumberSpec

__all__ = ["Candidate", "find_numbers", "judge_number", "misses_of_number", "read_number"]

Decimal = Literal["auto", ".", ","]

_CURRENCIES: dict[str, tuple[str, ...]] = {
    "EUR": ("€", "eur", "euro", "euros"),
    "USD": ("US$", "$", "usd", "dollar", "dollars", "us dollar", "us dollars"),
    "GBP": ("£", "gbp", "pound", "pounds", "pound sterling", "pounds sterling"),
    "CHF": ("chf", "sfr", "swiss francs", "swiss franc", "francs"),
    "JPY": ("¥", "jpy", "yen"),
    "CNY": ("cny", "rmb", "yuan"),
    "CAD": ("C$", "CA$", "cad", "canadian dollars"),
    "AUD": ("A$", "AU$", "aud", "australian dollars"),
    "HKD": ("HK$", "hkd"),
    "SGD": ("S$", "sgd"),
    "NZD": ("NZ$", "nzd"),
    "INR": ("₹", "inr", "rupees", "rupee"),
    "KRW": ("₩", "krw", "won"),
    "SEK": ("sek",),
    "NOK": ("nok",),
    "DKK": ("dkk",),
    "PLN": ("pln", "zł"),
    "BRL": ("R$", "brl"),
    "ZAR": ("zar",),
    "MXN": ("mxn",),
}
#: A bare `$` may be any dollar, a bare `¥` yen or yuan.
_AMBIGUOUS = {"$": {"USD", "CAD", "AUD", "HKD", "SGD", "NZD", "MXN"}, "¥": {"JPY", "CNY"}}
_SPELLED = {spelling.lower(): code for code, all_ in _CURRENCIES.items() for spelling in all_}

_SCALE_WORDS: dict[str, str] = {
    "k": "thousand", "thousand": "thousand", "thousands": "thousand", "tsd": "thousand", "000s": "thousand",
    "m": "million", "mm": "million", "mn": "million", "mln": "million", "mio": "million", "million": "million",
    "millions": "million", "millionen": "million",
    "b": "billion", "bn": "billion", "bln": "billion", "billion": "billion", "billions": "billion", "mrd": "billion",
    "milliarden": "billion", "milliarde": "billion",
    "tn": "trillion", "trn": "trillion", "trillion": "trillion", "trillions": "trillion",
}  # fmt: skip
_RATIO_WORDS: dict[str, str] = {
    "%": "percent", "percent": "percent", "per cent": "percent", "pct": "percent", "percentage points": "percent",
    "percentage point": "percent", "pp": "percent", "ppt": "percent", "ppts": "percent", "prozent": "percent",
    "bps": "bps", "bp": "bps", "basis points": "bps", "basis point": "bps",
}  # fmt: skip
#: Words for quantities that are certainly no money.
_OTHER_UNITS = frozenset(
    word + plural
    for word in ("day", "week", "month", "year", "hour", "minute", "second", "page")
    for plural in ("", "s")
) | {"x"}


def _any_of(words: Sequence[str]) -> str:
    return "|".join(re.escape(w) for w in sorted(words, key=len, reverse=True))


_SYMBOLS = [s for s in _SPELLED if not s.isalpha() or not s.isascii()]
_CODES = [s for s in _SPELLED if s.isalpha() and s.isascii() and len(s) == 3]
_BEFORE = re.compile(
    rf"(?:(?<![a-z0-9])({_any_of([s for s in _SYMBOLS + _CODES if ' ' not in s])}))\s?$", re.IGNORECASE
)
_SCALE = re.compile(rf"(\s?)({_any_of(list(_SCALE_WORDS))})\.?(?![a-z0-9])", re.IGNORECASE)
_RATIO = re.compile(rf"(?:\s?[- ]?)({_any_of(list(_RATIO_WORDS))})(?![a-z0-9])", re.IGNORECASE)
_MONEY_WORDS = [s for s in _SPELLED if s[0].isascii() and s[0].isalpha()]
_AFTER = re.compile(
    rf"\s?[-]?(?:({_any_of(_SYMBOLS)})|({_any_of(_MONEY_WORDS)})(?![a-z0-9]))",
    re.IGNORECASE,
)
_WORD = re.compile(r"\s?-?([a-z]+)", re.IGNORECASE)

_SPACE = r"[ \u00a0\u2007\u2009\u202f]"
_CORES: dict[str, re.Pattern[str]] = {
    "auto": re.compile(
        rf"(?:\d{{1,3}}(?:{_SPACE}\d{{3}})+(?:[.,]\d+)?|\d{{1,3}}(?:'\d{{3}})+(?:[.,]\d+)?|\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?"
        rf"|\d{{1,3}}(?:\.\d{{3}})+,\d+|\d{{1,3}}(?:\.\d{{3}}){{2,}}|\d{{1,2}}(?:,\d{{2}})+,\d{{3}}(?:\.\d+)?"
        rf"|\d+(?:[.,]\d+)?|\.\d+)(?:e[+-]?\d{{1,3}})?(?!\d)",
        re.IGNORECASE,
    ),
    ".": re.compile(
        rf"(?:\d{{1,3}}(?:{_SPACE}\d{{3}})+(?:\.\d+)?|\d{{1,3}}(?:'\d{{3}})+(?:\.\d+)?|\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?"
        rf"|\d{{1,2}}(?:,\d{{2}})+,\d{{3}}(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d{{1,3}})?(?!\d)",
        re.IGNORECASE,
    ),
    ",": re.compile(
        rf"(?:\d{{1,3}}(?:{_SPACE}\d{{3}})+(?:,\d+)?|\d{{1,3}}(?:'\d{{3}})+(?:,\d+)?|\d{{1,3}}(?:\.\d{{3}})+(?:,\d+)?"
        rf"|\d+(?:,\d+)?)(?:e[+-]?\d{{1,3}})?(?!\d)",
        re.IGNORECASE,
    ),
}

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
#: What looks like numbers and states none: replaced by spaces before candidates are sought.
_MASKS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        r"https?://\S+",
        r"\b\d{4}-\d{1,2}-\d{1,2}(?:[t ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?(?:z\b|[+-]\d{2}:?\d{2}\b)?",
        r"(?<![\d.,])\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d{2})(?![\d.,]*\d)",
        rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}\b\.?(?:,?\s+\d{{4}}\b)?",
        rf"\b{_MONTH}\b\.?\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?![.,]?\d)(?:,?\s+\d{{4}}\b)?",
        rf"\b{_MONTH}\b\.?,?\s+\d{{4}}\b",
        r"\b\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]\.?m\b\.?)?",
        r"\b\d{1,2}\s?[ap]\.?m\b",
        r"(?<![\d.,])\d{1,4}/\d{1,4}(?![\d.,/]*\d)",
        r"\b\d+(?:st|nd|rd|th)\b",
    )
)
_VERSION = re.compile(r"(?<![\d.,])v?\d+(?:\.\d+){2,}(?!\d)", re.IGNORECASE)
_GROUPED = re.compile(r"\d{1,3}(?:\.\d{3})+")
_MARKER = re.compile(
    rf"^[ \t]*(?:[-+•·–—]\s+)?(\d{{1,3}}[.)])[ \t]+(?=\S)(?!(?:{_any_of([*_SCALE_WORDS, *_RATIO_WORDS])})\b)",
    re.IGNORECASE | re.MULTILINE,
)
#: Words after which a number in parentheses is a negative one ("a result of (12.4)") and not an aside ("profit
#: (12.4)").
_LEADS = re.compile(
    r"(?:^|[:=|\t~≈]|\b(?:is|was|are|were|of|at|to|be|by|from|and|or|about|approximately|roughly))\s*$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A number found in a text.

    Attributes:
        text: As written, with sign, scale and unit.
        value: In units of one: `€12.4m` is 12,400,000, `5%` is 0.05.
        literal: The figure alone, with its sign.
        scaled: Whether a scale word or a percent sign stood with it.
        ratio: Whether it is a percentage or basis points.
        currencies: The currencies that it may be in; empty where none is written.
        unit: The expected unit or a known quantity word behind it, in lower case.
        bare_year: A year and nothing else, as far as one can see.
        part: One group of a number that may also be read as a whole with spaces as separators.
    """

    text: str
    start: int
    end: int
    value: float
    literal: float
    scaled: bool = False
    ratio: bool = False
    currencies: frozenset[str] = frozenset()
    unit: str = ""
    bare_year: bool = False
    part: bool = False


def _prepared(text: str) -> str:
    """The text in plain characters: full-width digits and the like folded, superscripts and Markdown emphasis gone."""
    out: list[str] = []
    for char in text[:MAX_CHARACTERS]:
        if char == "\u2014":
            out.append(";")  # an em dash is punctuation, never a sign
        elif char in "\u2212\u2012\u2013\ufe63\uff0d":
            out.append("-")
        elif char in "\u2018\u2019\u02bc":
            out.append("'")
        elif ord(char) < 128 or char in "\u00a0\u2007\u2009\u202f":
            out.append(char)
        elif "<super>" in unicodedata.decomposition(char) or "<sub>" in unicodedata.decomposition(char):
            out.append(" ")
        elif "<fraction>" in unicodedata.decomposition(char):
            out.append("?")
        else:
            out.append(unicodedata.normalize("NFKC", char))
    plain = "".join(out)
    plain = re.sub(r"`+|\*{2,}|(?<![A-Za-z0-9)])\*(?=\S)|(?<=\S)\*(?![A-Za-z0-9(])|\\(?=[%$&#_])", "", plain)
    return plain


def _masked(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        return " " * len(match[0])

    for mask in _MASKS:
        text = mask.sub(blank, text)
    text = _VERSION.sub(lambda m: m[0] if _GROUPED.fullmatch(m[0]) else blank(m), text)
    return _MARKER.sub(blank, text)


def find_numbers(text: str, decimal: Decimal = "auto", unit: str | None = None) -> list[Candidate]:
    """The numbers that a text states, in order. `unit` is a word to be recognised as a unit behind a number."""
    masked = _masked(_prepared(text))
    out: list[Candidate] = []
    for match in _CORES[decimal].finditer(masked):
        found = _candidate(masked, match.start(), match.end(), decimal, unit)
        if found is None:
            continue
        out.append(found)
        if re.search(rf"\d{_SPACE}\d", match[0]):
            # "2 500 800" may be one number with spaces as separators or a row of three.
            for piece in re.finditer(r"[\d.,]*\d", match[0]):
                at = match.start() + piece.start()
                one = _candidate(masked, at, at + len(piece[0]), decimal, unit)
                if one is not None:
                    out.append(Candidate(**{**{f: getattr(one, f) for f in one.__slots__}, "part": True}))
    return out


def _candidate(text: str, start: int, end: int, decimal: Decimal, unit: str | None) -> Candidate | None:
    if start and (
        text[start - 1].isalnum() or text[start - 1] == "_" or re.search(r"\d[.,']$", text[max(0, start - 2) : start])
    ):
        return None
    literal = _read(text[start:end], decimal)
    if literal is None or not math.isfinite(literal):
        return None
    currencies: frozenset[str] = frozenset()
    left, right = start, end
    negative = opened = False

    def take_sign(at: int) -> int:
        nonlocal negative
        # A dash with spaces around it separates ("Revenue - 12.4m", "- 5 items", "10 - 12"); it is a sign only where
        # a value is announced.
        sign = re.search(r"(?:(?<![0-9A-Za-z)%.,])|(?<=[(:=|])\s*)([-+])$", text[max(0, at - 6) : at])
        spaced = None if sign else re.search(r"(?<=[(:=|])\s?([-+])\s$", text[max(0, at - 6) : at])
        found = sign or spaced
        if found:
            negative = negative or found[1] == "-"
            return max(0, at - 6) + found.start(1)
        return at

    def take_currency(at: int) -> int:
        nonlocal currencies
        found = _BEFORE.search(text, max(0, at - 8), at)
        if found and not currencies:
            currencies = _codes(found[1])
            return found.start()
        return at

    left = take_sign(left)
    left = take_currency(left)
    left = take_sign(left)
    if left and text[left - 1] == "(":
        opened = True
        inner = left - 1
        outer = take_currency(inner)
        left = take_sign(outer)
    closed_early = opened and text.startswith(")", right)
    if closed_early:
        right += 1
    factor, scaled, ratio, right, currencies, word = _suffix(text, right, currencies, unit)
    if right == end and right < len(text) and text[right].isalpha():
        return None  # glued to letters that mean nothing here: 3D, 12th
    enclosed = closed_early or (opened and text.startswith(")", right))
    if opened and enclosed and not negative:
        symbol_before = left < start - 1 and text[left] != "("
        negative = symbol_before or bool(_LEADS.search(text[max(0, left - 20) : left].rpartition("\n")[2]))
    if opened and not closed_early and text.startswith(")", right):
        right += 1
    if re.search(r"\b(?:minus|negative)\s*$", text[max(0, left - 10) : left], re.IGNORECASE):
        negative = True
    figure = -literal if negative else literal
    core = text[start:end]
    year = len(core) == 4 and core.isdigit() and 1900 <= literal < 2100
    bare_year = year and not (scaled or currencies or word or negative)
    return Candidate(
        text[left:right].strip().rstrip("."),
        left,
        right,
        figure * factor,
        figure,
        scaled,
        ratio,
        currencies,
        word,
        bare_year,
    )


def _suffix(
    text: str, at: int, currencies: frozenset[str], unit: str | None
) -> tuple[float, bool, bool, int, frozenset[str], str]:
    """Scale, ratio and unit behind a figure: factor, scaled, ratio, where it ends, currencies, unit word."""
    factor, scaled = 1.0, False
    wanted = unit.lower() if unit else ""
    ratio = _RATIO.match(text, at)
    if ratio and ratio[1].lower() != wanted:
        return SCALES[_RATIO_WORDS[ratio[1].lower()]], True, True, ratio.end(), currencies, ""
    scale = _SCALE.match(text, at)
    # A single letter apart from its figure is a scale only next to a currency: "EUR 12 m", but not "12 m" (metres).
    if scale and scale[2].lower() != wanted and (len(scale[2]) > 1 or not scale[1] or currencies):
        factor, scaled, at = SCALES[_SCALE_WORDS[scale[2].lower()]], True, scale.end()
    if not currencies:
        of = re.match(r"\s(?:of\s)?", text[at : at + 4])
        money = _AFTER.match(text, at) or (_AFTER.match(text, at + of.end() - 1) if of and of.end() > 1 else None)
        if money:
            return factor, scaled, False, money.end(), _codes(money[1] or money[2]), ""
    word = _WORD.match(text, at)
    if word and wanted and word[1].lower() in (wanted, wanted + "s", wanted.removesuffix("s")):
        return factor, scaled, False, word.end(), currencies, wanted
    if word and word[1].lower() in _OTHER_UNITS:
        return factor, scaled, False, word.end(), currencies, word[1].lower()
    return factor, scaled, False, at, currencies, ""


def _codes(spelling: str) -> frozenset[str]:
    if spelling in _AMBIGUOUS:
        return frozenset(_AMBIGUOUS[spelling])
    return frozenset({_SPELLED[spelling.lower()]})


def _read(core: str, decimal: Decimal) -> float | None:
    """A figure as a number, by its shape and the settled decimal mark."""
    mantissa, _, exponent = core.lower().partition("e")
    plain = re.sub(rf"{_SPACE}|'", "", mantissa)
    if decimal == "auto":
        comma, dot = plain.rfind(","), plain.rfind(".")
        if comma >= 0 and dot >= 0:
            mark = "," if comma > dot else "."
        elif plain.count(",") == 1:
            whole, _, rest = plain.partition(",")
            mark = "." if len(rest) == 3 and 1 <= len(whole) <= 3 and whole != "0" else ","
        elif plain.count(".") > 1:
            mark = ","
        else:
            mark = "."
    else:
        mark = decimal
    plain = plain.replace("," if mark == "." else ".", "").replace(mark, ".")
    try:
        return float(plain + ("e" + exponent if exponent else ""))
    except ValueError:
        return None


def read_number(text: str, decimal: Decimal = "auto") -> float | None:
    """A table cell's text as one number (`EUR 12.4m` is 12,400,000, `(3.1)` is -3.1, `5%` is 0.05), None if it isn't
    one."""
    found = [c for c in find_numbers(text, decimal) if not c.part]
    if len(found) != 1:
        return None
    rest = (_prepared(text).strip())[: found[0].start] if found[0].start else ""
    outside = rest + _prepared(text)[found[0].end :]
    return found[0].value if not re.search(r"[A-Za-z0-9]{4,}", outside) else None


def judge_number(spec: NumberSpec, text: str, default_cap: int | None = 8) -> tuple[bool, str, str]:
    """Whether `text` states the number: (passed, what was found, why not)."""
    unit = spec.unit if spec.unit and spec.unit.lower() not in _SPELLED else None
    prepared = _prepared(text)
    found = [c for c in find_numbers(text, spec.decimal, unit) if _compatible(spec, c)]
    if spec.label is not None:
        labels = list(re.finditer(spec.label, prepared, re.IGNORECASE))
        if not labels:
            return False, "", f"nothing in it matches the label /{spec.label}/"
        found = _near(found, labels, prepared, spec.near)
        default_cap = default_cap or 8
    values = {v for c in found if not c.part for v in _readings(spec, c)[:1]}
    shown = ", ".join(c.text for c in found[:8]) + (", ..." if len(found) > 8 else "")
    where = f" near /{spec.label}/" if spec.label else ""
    if not found:
        return False, "", f"it states no such number{where}"
    cap = spec.max_candidates or default_cap
    if cap is not None and len(values) > cap:
        return False, shown, f"it gives {len(values)} different numbers{where}; a stated answer gives at most {cap}"
    for candidate in found:
        if any(_matches(spec, value) for value in _readings(spec, candidate)):
            return True, candidate.text, ""
    return False, shown, f"none of its numbers{where} is within {spec.tolerance:g} of {spec.canonical:g}"


def _readings(spec: NumberSpec, candidate: Candidate) -> list[float]:
    if spec.assume_scale and not candidate.scaled:
        return [candidate.literal * SCALES[spec.scale], candidate.value]
    return [candidate.value]


def _matches(spec: NumberSpec, value: float) -> bool:
    expected = spec.canonical
    if spec.sign == "any":
        value, expected = abs(value), abs(expected)
    # A hair of slack for what binary floating point does to decimal tolerances (12.45 against 12.4 +- 0.05).
    return abs(value - expected) <= spec.tolerance * (1 + 1e-9) + abs(expected) * 1e-12


def _compatible(spec: NumberSpec, candidate: Candidate) -> bool:
    expects_ratio = spec.scale in ("percent", "bps")
    if candidate.bare_year and not (spec.canonical == int(spec.canonical) and 1900 <= spec.canonical < 2100):
        return False
    if candidate.ratio:
        return expects_ratio
    if expects_ratio and (candidate.currencies or candidate.unit):
        return False
    if spec.unit is None:
        return True
    code = _SPELLED.get(spec.unit.lower(), "")
    if code:
        if candidate.currencies:
            return code in candidate.currencies
        return not candidate.unit and not spec.require_unit
    if candidate.currencies or (candidate.unit and candidate.unit != spec.unit.lower()):
        return False
    return bool(candidate.unit) or not spec.require_unit


def _near(found: list[Candidate], labels: list[re.Match[str]], text: str, near: int) -> list[Candidate]:
    """The candidates on a label's line within reach; where that line has none, those that follow it within reach."""
    kept: dict[tuple[int, int], Candidate] = {}
    for label in labels:
        line_start = text.rfind("\n", 0, label.start()) + 1
        line_end = text.find("\n", label.end())
        line_end = len(text) if line_end < 0 else line_end
        first, last = max(line_start, label.start() - near), min(line_end, label.end() + near)
        on_line = [
            c for c in found if first <= c.start and c.end <= last + 12 and c.start <= last and c.end <= line_end
        ]
        if not on_line:
            # What follows may be lines away, but in the same block of a page.
            block_end = text.find("\f", label.end())
            last = min(label.end() + near, len(text) if block_end < 0 else block_end)
            on_line = [c for c in found if label.end() <= c.start <= last]
        kept.update({(c.start, c.end): c for c in on_line})
    return [kept[key] for key in sorted(kept)]


def misses_of_number(
    spec: NumberSpec, views: Sequence[str], what: str, default_cap: int | None
) -> tuple[list[Miss], str]:
    """What is amiss with one expected number over all views of a text; and how it was stated where it was."""
    best: Miss | None = None
    for view in views:
        passed, found, why = judge_number(spec, view, default_cap)
        if passed:
            return [], found
        if best is None or found:
            best = Miss(_expected(spec), found or "no such number", f"{what}: {why}")
    return [best or Miss(_expected(spec), "nothing", f"{what} is empty")], ""


def _expected(spec: NumberSpec) -> str:
    scale = {"one": "", "percent": "%", "bps": " bps"}.get(spec.scale, " " + spec.scale)
    unit = f" {spec.unit}" if spec.unit else ""
    tolerance = f" ± {spec.tolerance / SCALES[spec.scale]:g}" if spec.tolerance else ""
    return f"{spec.value:g}{scale}{unit}{tolerance}"
