"""Which of the agent's work a judge is shown, and how much of each piece: pure functions.

The final answer always comes first. Then files that the check or the criterion's own words name, then references, then
whatever else the agent changed. What does not fit is cut from the middle or left out, and the prompt says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envkit.snapshot import Changes, Snapshot, shown
from envkit.verifiers.judge.prompt import Exhibit, Material
from envkit.verifiers.judge.reading import Reading, Source
from envkit.verifiers.judge.schema import JudgeCheck
from envkit.verifiers.patterns import matches

__all__ = ["Choice", "choose", "estimate_tokens", "material"]

#: Share of the budget that the final answer may take, and the references where there are files too.
_ANSWER_SHARE, _REFERENCE_SHARE = 0.4, 0.3
#: A piece that would get less, in tokens, is left out.
_LEAST_TOKENS = 60
_HEAVY = re.compile(r"[^A-Za-z\s]+")


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to be shown for one check, the most important first.

    Attributes:
        named: Files that the check or its criterion names.
        references: Files of the initial state.
        others: Further changed files.
        beyond: Changed files beyond the bound on their number.
        status: `created`, `modified`, `renamed from ...` or `unchanged`, by path.
        deleted: Paths that are gone.
        nothing: The check asks for files, and none is there.
    """

    named: tuple[Source, ...] = ()
    references: tuple[Source, ...] = ()
    others: tuple[Source, ...] = ()
    beyond: tuple[str, ...] = ()
    status: Mapping[str, str] = None  # type: ignore[assignment]
    deleted: tuple[str, ...] = ()
    nothing: bool = False

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.named + self.references + self.others


def choose(check: JudgeCheck, final: Snapshot, initial: Snapshot | None, changed: Changes, max_files: int) -> Choice:
    """Chooses the files for a check."""
    status = dict.fromkeys(changed.created, "created") | dict.fromkeys(changed.modified, "modified")
    before = {path: path for path in changed.modified}
    for rename in changed.renamed:
        status[rename.new] = f"renamed from /{shown(rename.old)}"
        before[rename.new] = rename.old
    patterns = check.files if isinstance(check.files, tuple) else ()
    if patterns:
        touched = frozenset(changed.outputs)
        named = [p for p in final.paths() if matches(p, patterns) and (p in touched or not check.changed_only)]
        others: list[str] = []
    elif check.files == "changed":
        words = (check.criterion + "\n" + check.explanation).casefold()
        ours = changed.outputs
        named = [path for path in ours if _is_named(path, words)]
        named += [path for path in final.paths() if path not in status and "/" + path.casefold() in words]
        taken = set(named)
        # What people work on before the state of apps, as paths sort otherwise.
        others = sorted((p for p in ours if p not in taken), key=lambda p: (not p.startswith("filesystem/"), p))
    else:
        named, others = [], []
    references = [] if initial is None else [path for path in initial.paths() if matches(path, check.references)]

    def sources(paths: Sequence[str]) -> tuple[Source, ...]:
        return tuple(Source(path, before=before.get(path)) for path in paths)

    room = max_files - len(named[:max_files])
    return Choice(
        named=sources(named[:max_files]),
        references=tuple(Source(path, initial=True) for path in references[:max_files]),
        others=sources(others[:room]),
        beyond=(*named[max_files:], *others[room:], *references[max_files:]),
        status=status,
        deleted=changed.deleted if check.files == "changed" else (),
        nothing=bool(patterns) and not named,
    )


def _is_named(path: str, words: str) -> bool:
    base = path.rsplit("/", 1)[-1].casefold()
    stem = base.rpartition(".")[0] or base
    return re.search(rf"(?<!\w){re.escape(base)}(?!\w)", words) is not None or (
        len(stem) >= 4 and re.search(rf"(?<![\w.]){re.escape(stem)}(?![\w])", words) is not None
    )


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, rather too many than too few: letters four to a token, digits and signs two,
    anything beyond ASCII one."""
    foreign = len(text) - len(text.encode("ascii", "ignore"))
    heavy = sum(len(match) for match in _HEAVY.findall(text)) - foreign
    light = len(text) - foreign - heavy
    return math.ceil(light / 4 + heavy / 2 + foreign)


def material(
    check: JudgeCheck, choice: Choice, readings: Mapping[Source, Reading], answer: str | None, budget: int
) -> Material:
    """What is shown within a budget of tokens, and what is not."""
    exhibits: list[Exhibit] = []
    left_out: list[dict[str, Any]] = [
        {"path": "/" + shown(path), "why": "there are too many files"} for path in choice.beyond
    ]
    left = float(budget)
    if check.answer:
        exhibits.append(_answer(answer, left * _ANSWER_SHARE))
        left -= estimate_tokens(exhibits[0].text)
    classes = (
        (choice.named, 1.0),
        (choice.references, _REFERENCE_SHARE if choice.named or choice.others else 1.0),
        (choice.others, 1.0),
    )
    for sources, share in classes:
        pieces = [_Piece.of(source, readings[source], choice.status) for source in sources]
        fitting = _fitting([piece.tokens for piece in pieces], max(0.0, left * share))
        for piece, room in zip(pieces, fitting, strict=False):
            exhibit = piece.cut(room)
            exhibits.append(exhibit)
            left -= estimate_tokens(exhibit.text)
        too_long = [piece.about["path"] for piece in pieces[len(fitting) :]]
        left_out += [{"path": path, "why": "the evidence would be too long"} for path in too_long]
    return Material(tuple(exhibits), tuple(left_out), tuple("/" + shown(path) for path in choice.deleted))


def _answer(answer: str | None, room: float) -> Exhibit:
    if not answer or not answer.strip():
        return Exhibit("the agent's final answer", {"empty": True}, "", 0, 0)
    text, kept = _cut(answer, len(answer), len(answer), room)
    return Exhibit("the agent's final answer", {}, text, len(answer), kept)


@dataclass(frozen=True, slots=True)
class _Piece:
    label: str
    about: dict[str, Any]
    reading: Reading
    diff: str
    tokens: int

    @classmethod
    def of(cls, source: Source, reading: Reading, status: Mapping[str, str]) -> _Piece:
        about: dict[str, Any] = {"path": "/" + shown(source.path)}
        if source.initial:
            label = "a reference file, as it was before the agent began"
        else:
            label = "a file as the agent left it"
            about["change"] = status.get(source.path, "unchanged")
        diff = f"What changed:\n{reading.diff}\n\nThe whole:\n" if reading.diff else ""
        if reading.text is None:
            about["not readable"] = reading.problem
        return cls(label, about, reading, diff, estimate_tokens(diff + (reading.text or "")) + 1)

    def cut(self, room: float) -> Exhibit:
        reading = self.reading
        if reading.text is None:
            return Exhibit(self.label, self.about, "", 0, 0)
        # What changed says more than the whole: it is cut only to half of the room.
        diff, _ = _cut(self.diff, len(self.diff), len(self.diff), max(room / 2, room - estimate_tokens(reading.text)))
        text, kept = _cut(reading.text, reading.total_chars, reading.head_chars, room - estimate_tokens(diff))
        return Exhibit(self.label, self.about, diff + text, reading.total_chars, kept)


def _cut(text: str, total: int, head: int, room: float) -> tuple[str, int]:
    """A text within `room` tokens, from both ends, and how many characters are kept.

    Args:
        total, head: Of the whole text, and how much of `text` is its beginning, where `text` itself is cut already.
    """
    tokens = estimate_tokens(text)
    if tokens <= room:
        if len(text) >= total:
            return text, len(text)
        return text[:head] + "\n[...]\n" + text[head:], len(text)
    keep = max(0, int(len(text) * max(room, 0.0) / max(tokens, 1) * 0.95))
    front = min(head, keep * 2 // 3)
    back = min(len(text) - front, keep - front)
    return text[:front] + "\n[...]\n" + (text[-back:] if back else ""), front + back


def _fitting(wanted: Sequence[int], total: float) -> list[float]:
    """The shares of the first pieces, as many as get enough to be of use."""
    for count in range(len(wanted), 0, -1):
        shares = _shares(wanted[:count], total)
        if all(share >= min(want, _LEAST_TOKENS) for want, share in zip(wanted, shares, strict=False)):
            return shares
    return []


def _shares(wanted: Sequence[int], total: float) -> list[float]:
    """Divides a budget: whoever wants little gets it, the rest is shared evenly."""
    out = [0.0] * len(wanted)
    left = total
    waiting = sorted(range(len(wanted)), key=lambda i: wanted[i])
    for position, index in enumerate(waiting):
        out[index] = min(float(wanted[index]), left / (len(waiting) - position))
        left -= out[index]
    return out
