"""Signs that what the agent was given did not work: missing packages, tools that return nothing, break or run out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from envkit.report.triage.case import Answered, Case, Evidence, Sign, shorten

__all__ = ["signs"]

#: What programs say where another program or a package is missing; the group is its name.
_MISSING = tuple(
    re.compile(pattern)
    for pattern in (
        r"ModuleNotFoundError: No module named ['\"]([\w.]+)",
        r"ImportError: No module named ['\"]?([\w.]+)",
        r"(?:^|[\s:])([\w.+-]+): (?:command )?not found\b",
        r"Cannot find module ['\"]([^'\"./][^'\"]*)['\"]",
        r"FileNotFoundError: \[Errno 2\] No such file or directory: ['\"]([\w.+-]+)['\"]$",
        r"there is no package called [‘'\"]([\w.]+)",
        r"error while loading shared libraries: ([\w.+-]+):",
        r"exec: \"([\w.+-]+)\": executable file not found",
        r"Missing optional dependency ['\"]([\w.-]+)",
        r"No matching distribution found for ([\w.\[\]-]+)",
    )
)
#: Words of which one is in every text that a pattern above matches: most texts have none, and a look is cheap.
_WORDS = ("No module named", "not found", "Cannot find module", "No such file", "no package called", "shared libraries",
          "Missing optional", "No matching distribution")  # fmt: skip
#: Files, not programs: what open() of a relative path says looks the same.
_FILE_NAME = re.compile(r"\.(?:xlsx?|docx?|pptx?|pdf|csv|txt|json|md|py|sh|png|jpe?g|html?|xml|zip|eml|ics|db)$", re.I)

#: Commands that are run for what they print.
_ASKS = re.compile(
    r"^\s*(?:cd\s+\S+\s*(?:&&|;)\s*)?(?:cat|ls|head|tail|e?grep|rg|find|wc|pdftotext|strings|file|stat|tree|du"
    r"|unzip -[lp]|awk|jq|sed -n|sqlite3|diff)\b"
)

STORM = 5
_SIMPLE = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'|\"[^\"]*\"|/\S+")


def signs(case: Case) -> Iterator[Sign]:
    answered = case.answered
    missing = [(a, name) for a in answered if a.runs_programs and (name := _missing(a))]
    yield from _packages(answered, missing)
    yield from _nothing(answered)
    yield from _limits(answered)
    yield from _errors(answered)


# -- missing packages ------------------------------------------------------------------------------------------------


def _missing(answer: Answered) -> str | None:
    """What a program's output names as missing."""
    text = answer.text[-20_000:]
    if not any(word in text for word in _WORDS):
        return None
    for line in text.splitlines():
        if not any(word in line for word in _WORDS):
            continue
        for pattern in _MISSING:
            found = pattern.search(line.strip())
            if found and not _FILE_NAME.search(found[1]):
                return found[1].removesuffix(".")
    return None


def _packages(answered: Sequence[Answered], missing: list[tuple[Answered, str]]) -> Iterator[Sign]:
    if not missing:
        return
    last = max(answered.index(answer) for answer, _ in missing)
    runs = sum(a.runs_programs for a in answered)
    went_on = any(a.runs_programs and not a.failed for a in answered[last + 1 :])
    strong = not went_on or 2 * len(missing) >= runs
    name = Counter(name for _, name in missing).most_common(1)[0][0]
    first = next(answer for answer, found in missing if found == name)
    line = next((x for x in first.text.splitlines() if name in x and _missing_in(x)), first.text)
    yield Sign("missing_package", strong, Evidence(first.turn, shorten(line)), name)


def _missing_in(line: str) -> bool:
    return any(pattern.search(line.strip()) for pattern in _MISSING)


# -- nothing ---------------------------------------------------------------------------------------------------------


def _asks(answer: Answered) -> bool:
    """Whether a call is made for its answer, so that an empty one is worth nothing."""
    arguments = answer.call.arguments or {}
    command = next((v for k, v in arguments.items() if k in ("command", "code", "cmd") and isinstance(v, str)), None)
    if command is None and isinstance(arguments.get("request"), dict):
        inner = arguments["request"].get("code") or arguments["request"].get("command")
        command = inner if isinstance(inner, str) else None
    if command is None:
        return True
    return bool(_ASKS.match(command)) and ">" not in command.replace("2>", "")


def _nothing(answered: Sequence[Answered]) -> Iterator[Sign]:
    asked = [a for a in answered if _asks(a)]
    empty = [a for a in asked if not a.failed and a.is_empty]
    if not empty:
        return
    tool, times = Counter(a.call.name for a in empty).most_common(1)[0]
    of_tool = [a for a in asked if a.call.name == tool]
    silent = [a for a in of_tool if a.is_mute]
    dead = len(silent) >= 2 and len(silent) == len(of_tool)
    strong = dead or (len(empty) >= 3 and 2 * len(empty) >= len(asked))
    if not strong and len(empty) < 3:
        return
    first = next(a for a in empty if a.call.name == tool)
    said = first.raw.strip() or "(empty)"
    text = f"{times} of {len(of_tool)} calls of {tool} returned nothing; {_call(first)} -> {said}"
    yield Sign("tool_nothing", strong, Evidence(first.turn, shorten(text)), tool)


# -- limits and errors -----------------------------------------------------------------------------------------------


def _limits(answered: Sequence[Answered]) -> Iterator[Sign]:
    hit = [a for a in answered if a.timed_out or (a.no_memory and a.runs_programs)]
    if not hit:
        return
    # Once is met and worked around; again and again, or at the very end, it decided.
    strong = len(hit) >= 3 or 2 * len(hit) >= len(answered) or (hit[-1] is answered[-1] and len(hit) > 1)
    first = hit[0]
    what = "time" if first.timed_out else "memory"
    yield Sign(
        "tool_limits",
        strong,
        Evidence(first.turn, shorten(f"{_call(first)} -> {first.text[-300:]}")),
        f"{what}: {first.call.name}",
    )


def _errors(answered: Sequence[Answered]) -> Iterator[Sign]:
    failed = [a for a in answered if a.failed]
    # The same call again and again is a loop, not a storm.
    distinct = {a.key for a in failed}
    if len(distinct) < 3:
        return
    share = len(failed) / len(answered)
    row = longest = 0
    for answer in answered:
        row = row + 1 if answer.failed else 0
        longest = max(longest, row)
    strong = len(failed) == len(answered) or (len(failed) >= STORM and (share >= 0.5 or longest >= STORM))
    if not strong and (len(failed) < STORM or share < 0.3):
        return
    kinds = Counter((a.call.name, _kind(a.text)) for a in failed)
    (tool, kind), times = kinds.most_common(1)[0]
    first = next(a for a in failed if (a.call.name, _kind(a.text)) == (tool, kind))
    text = f"{len(failed)} of {len(answered)} calls failed, {times} like this: {_call(first)} -> {_telling(first.text)}"
    yield Sign("tool_errors", strong, Evidence(first.turn, shorten(text)), f"{tool}: {kind}"[:160])


def _telling(text: str) -> str:
    """The line of an error that says most: the last of a traceback, else the first."""
    lines = [line.strip() for line in text[-20_000:].splitlines() if line.strip()]
    if not lines:
        return "(empty)"
    named = [line for line in lines if re.match(r"[\w.]*(?:Error|Exception|Fault|Failure)\b", line)]
    return named[-1] if named else lines[0]


def _kind(text: str) -> str:
    """An error without its particulars, so that two of a kind are equal."""
    return _SIMPLE.sub("*", _telling(text))[:120]


def _call(answer: Answered) -> str:
    return f"{answer.call.name} {shorten(answer.call.arguments_text, 120)}"
