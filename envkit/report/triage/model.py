"""Signs in how the model spoke and went about its work: calls nobody can read, cut turns, loops, limits, giving up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from envkit.messages import StopReason
from envkit.report.triage.case import Case, Evidence, Sign, shorten

__all__ = ["signs"]

#: Calls that the model wrote into its text, where nobody reads them as calls.
_CALL_IN_TEXT = re.compile(
    r"<tool_call>|</tool_call>|<function=|<invoke name=|\[TOOL_CALLS\]|<\|tool_calls?(?:_begin|_section_begin)?\|>"
    r"|<｜tool▁call|^[ \t]*```(?:tool_code|tool_call)"
    r"|^[ \t]*\{\s{0,20}\"(?:name|tool|function)\"\s{0,20}:.{0,4000}\"(?:arguments|parameters)\"",
    re.M | re.S,
)
_REFUSAL = re.compile(
    r"\bI(?:'m| am) (?:sorry|(?:unable|not able) to (?:help|assist|comply))"
    r"|\bI (?:can(?:no|')t|can not|won't|will not) (?:help|assist|comply|do that|fulfil|participate|support|provide)"
    r"|\bI (?:must|have to|need to) (?:decline|refuse)"
    r"|\bagainst (?:my|our|the) (?:guidelines|polic(?:y|ies)|principles)",
    re.I,
)
_GIVING_UP = re.compile(
    r"\bI (?:was|am|have been) (?:unable|not able) to"
    r"|\bI (?:could not|couldn't|cannot|can't) (?:find|complete|access|open|locate|read|finish|proceed)"
    r"|\b(?:giving up|not possible for me)\b|\bplease (?:provide|upload|share|attach)\b",
    re.I,
)
_CUT = ("length", "max_tokens")
_REFUSED = ("content_filter", "refusal", "safety")
_LIMITS = {StopReason.TURNS: "turns", StopReason.TOKENS: "tokens", StopReason.WORKING_TIME: "working time"}

#: Characters of a message that are looked at.
_MAX_TEXT = 20_000

LOOP = 5
FEW_CALLS = 2


def signs(case: Case) -> Iterator[Sign]:
    yield from _unparsable(case)
    yield from _turn_length(case)
    yield from _loop(case)
    yield from _context(case)
    yield from _ran_out(case)
    yield from _refused_or_gave_up(case)


def _unparsable(case: Case) -> Iterator[Sign]:
    bad = [(t.number, c) for t in case.turns for c in t.message.tool_calls if c.arguments is None]
    if case.result.stop is StopReason.UNPARSABLE or len(bad) >= 2:
        strong = case.result.stop is StopReason.UNPARSABLE or (len(bad) >= 3 and 3 * len(bad) >= case.calls)
        if not bad:
            yield Sign("unparsable", strong, Evidence(case.last_turn, "turns that could not be read ended it"))
            return
        turn, call = bad[0]
        said = f"{len(bad)} of {case.calls} calls: {call.name} {call.raw_arguments or ''} -> {call.error or ''}"
        yield Sign("unparsable", strong, Evidence(turn, shorten(said)), call.name)
        return
    for each in case.turns:
        found = None if each.message.tool_calls else _CALL_IN_TEXT.search(each.message.text[:_MAX_TEXT])
        if found:
            last = each.number == case.last_turn
            text = "a call stands in the text, where it is not read: " + each.message.text[found.start() :][:400]
            yield Sign("unparsable", last, Evidence(each.number, shorten(text)), "in the text")
            return


def _turn_length(case: Case) -> Iterator[Sign]:
    cut = [t for t in case.turns if t.message.finish in _CUT]
    ended = case.result.stop is StopReason.TURN_LENGTH
    if not cut and not ended:
        return
    turn = cut[-1] if cut else case.turns[-1] if case.turns else None
    if turn is None:
        yield Sign("turn_length", True, Evidence(None, "a turn ran into its length limit"))
        return
    message = turn.message
    size = message.usage.completion_tokens
    text = message.text or message.reasoning or message.raw or " ".join(c.arguments_text for c in message.tool_calls)
    length = f"{size} tokens" if size is not None else f"{len(text)} characters"
    excerpt = (
        f"cut after {length}: {text[:100]} ... {text[-150:]}" if len(text) > 250 else f"cut after {length}: {text}"
    )
    yield Sign("turn_length", ended or turn.number == case.last_turn, Evidence(turn.number, shorten(excerpt)))


def _loop(case: Case) -> Iterator[Sign]:
    """The same call with the same answer, or the same words without a call, in whatever rhythm."""
    counts: Counter[tuple[str, str, str]] = Counter()
    at: dict[tuple[str, str, str], list[int]] = {}
    for turn in case.turns:
        keys = {(*a.key, a.text) for a in turn.answered}
        if not turn.message.tool_calls and turn.message.text.strip():
            keys.add(("", turn.message.text.strip(), ""))
        for key in keys:
            counts[key] += 1
            at.setdefault(key, []).append(turn.number)
    if not counts:
        return
    key, times = counts.most_common(1)[0]
    if times < 3:
        return
    strong = (times >= LOOP and 3 * times >= len(case.turns)) or 2 * times > len(case.turns)
    row = _longest_row(at[key])
    if not strong and row < 3:
        return
    what = f"{key[0]} {shorten(key[1], 140)} -> {shorten(key[2], 80)}" if key[0] else f"the same words: {key[1]}"
    excerpt = f"{times} times the same in {len(case.turns)} turns: {what}"
    yield Sign("loop", strong, Evidence(at[key][0], shorten(excerpt)), key[0] or "words")


def _longest_row(numbers: list[int]) -> int:
    longest = row = 1
    for before, after in pairwise(numbers):
        row = row + 1 if after == before + 1 else 1
        longest = max(longest, row)
    return longest


def _context(case: Case) -> Iterator[Sign]:
    usages = [(t.number, t.message.usage) for t in case.turns]
    sizes = [(u.context_tokens, n, u.context_limit) for n, u in usages if u.context_tokens is not None]
    if case.result.stop is StopReason.CONTEXT:
        most = max(sizes, key=lambda size: size[0], default=None)
        longest = max((a for t in case.turns for a in t.answered), key=lambda a: len(a.text), default=None)
        parts = [f"{most[0]} tokens" + (f" of {most[2]}" if most[2] else "")] if most else []
        if longest is not None:
            whose = f"of {longest.call.name} in turn {longest.turn}"
            parts.append(f"the longest tool result: {len(longest.text)} characters, {whose}")
        yield Sign("context", True, Evidence(case.last_turn, shorten("the context was full; " + "; ".join(parts))))
        return
    for size, number, limit in sizes:
        if limit and size >= 0.95 * limit:
            yield Sign("context", False, Evidence(number, f"{size} of {limit} tokens"))
            return


def _ran_out(case: Case) -> Iterator[Sign]:
    what = _LIMITS.get(case.result.stop) if case.result.stop is not None else None
    if what is None:
        return
    last = case.turns[-1] if case.turns else None
    doing = ""
    if last is not None:
        call = last.message.tool_calls[0] if last.message.tool_calls else None
        doing = (
            f"; the last turn: {call.name} {call.arguments_text}" if call else f"; the last turn: {last.message.text}"
        )
    yield Sign(
        "ran_out", True, Evidence(case.last_turn, shorten(f"out of {what} after {len(case.turns)} turns{doing}")), what
    )


def _refused_or_gave_up(case: Case) -> Iterator[Sign]:
    last = case.turns[-1] if case.turns else None
    if last is None:
        return
    text = case.final_text
    if last.message.finish in _REFUSED:
        yield Sign("refused", True, Evidence(last.number, shorten(f"finish {last.message.finish!r}: {text}")))
        return
    if case.result.stop is not StopReason.ANSWERED:
        return
    few = case.calls <= FEW_CALLS
    refusal = _REFUSAL.search(text[:1500])
    if refusal:
        yield Sign("refused", few, Evidence(last.number, shorten(text)))
        if few:
            return
    status = case.result.answer_status
    if status in ("blocked", "failed"):
        yield Sign("gave_up", True, Evidence(last.number, shorten(f"it called its work {status}: {text}")), status)
    elif case.calls == 0:
        said = text.strip() or "(nothing)"
        yield Sign("gave_up", True, Evidence(last.number, shorten(f"no tool was called; it said: {said}")), "no tool")
    elif _GIVING_UP.search(text[:2000]):
        yield Sign("gave_up", few, Evidence(last.number, shorten(text)), "said so")
    elif case.calls <= FEW_CALLS and len(case.turns) <= 2:
        yield Sign("gave_up", False, Evidence(last.number, shorten(f"{case.calls} calls, then: {text}")), "few calls")
