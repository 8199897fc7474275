"""What counts as a verdict in a judge's answer, and what does not."""

from __future__ import annotations

import pytest

from envkit.verifiers.judge.verdict import Ballot, Unparsable, answer_schema, parse_ballot

GOOD = [
    ('{"rationale": "r", "verdict": "pass"}', 1.0),
    ('{"verdict": "FAIL", "rationale": "r"}', 0.0),
    ('{"verdict": true, "rationale": "r"}', 1.0),
    ('Here it is:\n```json\n{"rationale": "r", "verdict": "fail"}\n```\nBye.', 0.0),
    ('```\n{"rationale": "r", "verdict": "pass"}\n```', 1.0),
    ('<think>maybe {"verdict": "fail"} hm</think>{"rationale": "r", "verdict": "pass"}', 1.0),
    ('I weigh {this} and {"that": 1}. {"rationale": "r", "verdict": "pass"}', 1.0),
    ('{"rationale": "r", "verdict": "pass"} {"rationale": "r", "verdict": "pass"}', 1.0),
]

BAD = [
    "",
    "pass",
    "The criterion is met.",
    '{"rationale": "r"}',
    '{"rationale": "r", "verdict": "probably"}',
    '{"rationale": "r", "verdict": 1}',
    '{"rationale": "r", "verdict": null}',
    '{"rationale": "r", "verdict": "pa',
    '["pass"]',
    '{"verdict": "pass"} {"verdict": "fail"}',
    '{"verdict": "fail", "verdict": "pass"}',
    '<think>{"verdict": "pass"}',
    '{"a": ' * 5000,
    "{" * 100_000,
]


@pytest.mark.parametrize(("text", "score"), GOOD)
def test_a_verdict_is_found(text: str, score: float) -> None:
    assert parse_ballot(text, "pass_fail") == Ballot(score, "r")


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_no_verdict_is_read_into_anything_else(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_ballot(text, "pass_fail")


@pytest.mark.parametrize(("given", "score"), [("0.25", 0.25), ("1", 1.0), ("0", 0.0)])
def test_a_score(given: str, score: float) -> None:
    assert parse_ballot(f'{{"rationale": "", "score": {given}}}', "score").score == score


@pytest.mark.parametrize("given", ["1.01", "-0.1", '"0.5"', "true", "NaN", "Infinity", "null", "80"])
def test_what_is_no_score(given: str) -> None:
    with pytest.raises(Unparsable):
        parse_ballot(f'{{"rationale": "", "score": {given}}}', "score")


def test_the_rationale_comes_before_the_verdict() -> None:
    for scale, name in (("pass_fail", "verdict"), ("score", "score")):
        assert list(answer_schema(scale)["properties"]) == ["rationale", name]  # type: ignore[arg-type]
