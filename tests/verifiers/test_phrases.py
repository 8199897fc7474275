"""Phrases, patterns and names in texts."""

from __future__ import annotations

import pytest

from envkit.verifiers.phrases import find_phrase, fold, misses_of_names, misses_of_rules, normalise
from envkit.verifiers.values import NamesSpec, TextRules


@pytest.mark.parametrize(
    ("text", "phrase", "found"),
    [
        ("It rose in 2012.", "12", False),
        ("It is 12.4 now", "12", False),
        ("It is 12, now", "12", True),
        ("again", "gain", False),
        ("Acme\u2019s offer", "Acme's", True),
        ("Acme's offer", "ACME", True),
        ("the ﬁnal oﬀer", "final offer", True),
        ("cost\u00adcutting", "costcutting", True),
        ("net\n  income", "net income", True),
        ("mark\u2013up", "mark-up", True),
        ("café", "cafe\u0301", True),
        ("C++ code", "C++", True),
    ],
)
def test_phrases_match_as_whole_words_after_normalisation(text: str, phrase: str, found: bool) -> None:
    assert (find_phrase(normalise(text), phrase) >= 0) is found


def test_every_rule_must_hold_and_says_what_it_missed() -> None:
    rules = TextRules(
        contains=("alpha", ("beta", "gamma")), contains_any=("x", "y"), not_contains=("delta",), regex=("^Total: 5$",)
    )
    assert misses_of_rules(rules, ["Alpha gamma y\nTotal: 5"]) == []
    messages = [m.message for m in misses_of_rules(rules, ["delta"])]
    assert len(messages) == 5
    assert "'beta' or 'gamma'" in messages[1]


def test_views_help_what_must_be_said_and_not_what_must_not() -> None:
    assert misses_of_rules(TextRules(contains=("one two",)), ["one x two", "one two"]) == []
    assert misses_of_rules(TextRules(not_contains=("one two",)), ["one x two", "one two"])


def test_case_counts_only_when_asked() -> None:
    assert misses_of_rules(TextRules(contains=("IT",), case_sensitive=True), ["it"])
    assert not misses_of_rules(TextRules(contains=("IT",)), ["it"])


def test_names_must_be_complete_exact_and_in_order() -> None:
    spec = NamesSpec(expected=("Acme", ("Bolt Ltd", "Bolt")), distractors=("Cargo",), ordered=True)
    assert misses_of_names(spec, ["Acme, then Bolt"]) == []
    assert "does not name Bolt Ltd" in misses_of_names(spec, ["Acme"])[0].message
    assert "also names Cargo" in misses_of_names(spec, ["Acme, Bolt, Cargo"])[0].message
    assert "another order" in misses_of_names(spec, ["Bolt, Acme"])[0].message


def test_labels_fold_case_colon_and_space() -> None:
    assert fold(" Net\u00a0Debt : ") == "net debt"
