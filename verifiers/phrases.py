"""Whether a text says what it must: phrases, patterns and names, after normalisation.

Pure functions over strings. A text may be given in several views (a PDF by lines and by columns): what must be said may
stand in any of them, what must not be said in none. Used by every kind of check that looks at text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from envkit.verifiers.values import NamesSpec, TextRules

__all__ = ["Miss", "find_phrase", "fold", "misses_of_names", "misses_of_rules", "normalise", "same_text"]

#: Characters of a text that patterns and phrases look at; what lies beyond is not seen.
MAX_CHARACTERS = 2_000_000

_PLAIN = str.maketrans(
    {
        "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u2032": "'", "\u00b4": "'",
        "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u201f": '"', "\u2033": '"', "\u00ab": '"', "\u00bb": '"',
        "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\u2015": "-", "\u2212": "-",
        "\u00ad": None, "\u200b": None, "\u200c": None, "\u200d": None, "\u2060": None, "\ufeff": None,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Miss:
    """One thing that is not as it must be."""

    expected: str
    actual: str
    message: str
    where: str | None = None


def normalise(text: str) -> str:
    """NFKC, straight quotes, plain hyphens, no invisible characters, white space runs as one space."""
    text = unicodedata.normalize("NFKC", text[:MAX_CHARACTERS].translate(_PLAIN)).translate(_PLAIN)
    return " ".join(text.split())


def fold(text: str) -> str:
    """The form in which labels, headings and cell texts are compared: normalised, without case and a trailing colon."""
    return normalise(text).casefold().rstrip(":").strip()


def same_text(left: str, right: str) -> bool:
    return fold(left) == fold(right)


def find_phrase(text: str, phrase: str, case_sensitive: bool = False) -> int:
    """Where `phrase` stands in `text` as whole words, or -1. `text` must be normalised; the phrase is normalised
    here."""
    wanted = normalise(phrase)
    if not wanted:
        return -1
    before = r"(?<![^\W_])" if wanted[0].isalnum() else ""
    after = r"(?![^\W_])" if wanted[-1].isalnum() else ""
    if wanted[0].isdigit():
        before = r"(?<![^\W_])(?<!\d[.,])"
    if wanted[-1].isdigit():
        after = r"(?![^\W_])(?![.,]\d)"
    found = re.search(before + re.escape(wanted) + after, text, 0 if case_sensitive else re.IGNORECASE)
    return found.start() if found else -1


def _spellings(entry: str | tuple[str, ...]) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else entry


def _shown(entry: str | tuple[str, ...]) -> str:
    return " or ".join(repr(s) for s in _spellings(entry))


def misses_of_rules(rules: TextRules, views: Sequence[str], what: str = "the text") -> list[Miss]:
    """What of the rules does not hold. `what` names the text in messages."""
    if not rules.has_rules:
        return []
    texts = [normalise(v) for v in views]
    case = rules.case_sensitive
    excerpt = _excerpt(texts[0] if texts else "")

    def said(entry: str | tuple[str, ...]) -> bool:
        return any(find_phrase(t, s, case) >= 0 for t in texts for s in _spellings(entry))

    out: list[Miss] = []
    for entry in rules.contains:
        if not said(entry):
            out.append(Miss(_shown(entry), excerpt, f"{what} does not contain {_shown(entry)}"))
    if rules.contains_any and not any(said(entry) for entry in rules.contains_any):
        out.append(Miss(_shown(rules.contains_any), excerpt, f"{what} contains none of {_shown(rules.contains_any)}"))
    for entry in rules.not_contains:
        if said(entry):
            out.append(Miss(f"no {entry!r}", entry, f"{what} contains {entry!r}"))
    # Patterns see the lines as they are as well as the folded text, so that both `^Total` and `net income` work.
    originals = [*texts, *(v[:MAX_CHARACTERS].translate(_PLAIN) for v in views)]
    flags = re.MULTILINE | (0 if case else re.IGNORECASE)
    for pattern in rules.regex:
        if not any(re.search(pattern, t, flags) for t in originals):
            out.append(Miss(f"/{pattern}/", excerpt, f"{what} does not match /{pattern}/"))
    for pattern in rules.not_regex:
        found = next((m for t in originals if (m := re.search(pattern, t, flags))), None)
        if found:
            out.append(Miss(f"no /{pattern}/", found[0][:200], f"{what} matches /{pattern}/"))
    return out


def misses_of_names(spec: NamesSpec, views: Sequence[str], what: str = "the text") -> list[Miss]:
    """What of the names is missing, too much or out of order."""
    texts = [normalise(v) for v in views]

    def place(entry: str | tuple[str, ...], text: str) -> int:
        found = [at for s in _spellings(entry) if (at := find_phrase(text, s)) >= 0]
        return min(found, default=-1)

    expected = ", ".join(_spellings(e)[0] for e in spec.expected)
    best: list[Miss] | None = None
    for text in texts:
        places = [place(entry, text) for entry in spec.expected]
        missing = [_spellings(e)[0] for e, at in zip(spec.expected, places, strict=True) if at < 0]
        out: list[Miss] = []
        if missing:
            out.append(Miss(expected, _excerpt(text), f"{what} does not name {', '.join(missing)}"))
        elif spec.ordered and places != sorted(places):
            out.append(Miss(expected, _excerpt(text), f"{what} gives the names in another order"))
        best = out if best is None or len(out) < len(best) else best
    misses = best or []
    wrong = [_spellings(d)[0] for d in spec.distractors if any(place(d, t) >= 0 for t in texts)]
    if wrong:
        misses.append(Miss(expected, ", ".join(wrong), f"{what} also names {', '.join(wrong)}"))
    return misses


def _excerpt(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else text[: limit - 60] + " ... " + text[-50:]
