"""What a judge's answer says: one verdict, or none. Pure.

Endpoints that force a form give plain JSON; others wrap it in prose, a fence, or their thoughts. An answer with two
objects that contradict each other says nothing: one of them may be a quotation from the agent's file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Ballot", "Unparsable", "answer_schema", "parse_ballot"]

Scale = Literal["pass_fail", "score"]

MAX_RATIONALE = 4000
_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_WORDS = {"pass": 1.0, "passed": 1.0, "fail": 0.0, "failed": 0.0}
_MAX_OBJECTS = 200


class Unparsable(Exception):
    """An answer without a verdict."""


@dataclass(frozen=True, slots=True)
class Ballot:
    """One vote: 1.0 or 0.0, or a score between them, and why."""

    score: float
    rationale: str


def answer_schema(scale: Scale) -> dict[str, Any]:
    """The JSON schema of an answer. The rationale comes first, so that the verdict follows from it."""
    verdict: dict[str, Any] = (
        {"type": "string", "enum": ["pass", "fail"]} if scale == "pass_fail" else {"type": "number"}
    )
    name = "verdict" if scale == "pass_fail" else "score"
    return {
        "type": "object",
        "properties": {"rationale": {"type": "string"}, name: verdict},
        "required": ["rationale", name],
        "additionalProperties": False,
    }


def parse_ballot(text: str, scale: Scale) -> Ballot:
    """Reads an answer. Raises `Unparsable` with what was found instead."""
    spoken = _THOUGHTS.sub(" ", text).strip()
    if not spoken:
        raise Unparsable("the judge's answer is empty")
    whole = _object(spoken)
    found = [whole] if whole is not None else _objects(spoken)
    ballots: list[Ballot] = []
    problem = ""
    for value in found:
        try:
            ballot = _ballot(value, scale)
        except Unparsable as error:
            problem = str(error)
            continue
        if ballot is not None:
            ballots.append(ballot)
    if not ballots:
        head = " ".join(spoken.split())[:200]
        raise Unparsable(problem or f"the judge's answer holds no JSON object with a verdict; it begins: {head}")
    if len({ballot.score for ballot in ballots}) > 1:
        raise Unparsable(f"the judge's answer holds {len(ballots)} verdicts that contradict each other")
    return ballots[-1]


def _ballot(value: dict[str, Any], scale: Scale) -> Ballot | None:
    name = "verdict" if scale == "pass_fail" else "score"
    if name not in value:
        return None
    given = value[name]
    score: float | None = None
    if scale == "pass_fail":
        if isinstance(given, bool):
            score = float(given)
        elif isinstance(given, str):
            score = _WORDS.get(given.strip().lower())
        expected = "'pass' or 'fail'"
    else:
        if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 <= given <= 1:
            score = float(given)
        expected = "a number from 0 to 1"
    if score is None:
        raise Unparsable(f"the judge's {name} is {str(given)[:100]!r}; expected {expected}")
    rationale = value.get("rationale")
    return Ballot(score, rationale[:MAX_RATIONALE] if isinstance(rationale, str) else "")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys stand once: readers disagree about which of two equal keys counts."""
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects in a text, in order, outermost ones only."""
    decoder = json.JSONDecoder(object_pairs_hook=_once)
    out: list[dict[str, Any]] = []
    at = text.find("{")
    for _ in range(_MAX_OBJECTS):
        if at < 0:
            break
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(value, dict):
                out.append(value)
        at = text.find("{", end)
    return out
