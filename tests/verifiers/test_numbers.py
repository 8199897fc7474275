"""What counts as stating a number: extraction, scale, unit, sign, separators, and the cap on how many are given."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envkit.verifiers.numbers import find_numbers, judge_number, read_number
from envkit.verifiers.values import NumberSpec


def values(text: str, **options: str) -> list[float]:
    return [c.value for c in find_numbers(text, **options) if not c.part]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("€12.4m", 12_400_000),
        ("EUR 12,400,000", 12_400_000),
        ("12,4 Mio. €", 12_400_000),
        ("12.4 million euros", 12_400_000),
        ("**12.4** million", 12_400_000),
        ("US$ 3.2bn", 3_200_000_000),
        ("$12.4k", 12_400),
        ("1 234 567,89", 1_234_567.89),
        ("1\u202f234\u202f567.5", 1_234_567.5),
        ("1'234.50", 1234.5),
        ("1.234.567", 1_234_567),
        ("1.234,56", 1234.56),
        ("12,34,567", 1_234_567),
        ("0,123", 0.123),
        ("1e6", 1e6),
        (".5", 0.5),
        ("１２", 12),
        ("12.4%", 0.124),
        ("12.4 per cent", 0.124),
        ("124 bps", 0.0124),
        ("3 percentage points", 0.03),
        ("-5.5%", -0.055),
        ("−5", -5),
        ("$-5", -5),
        ("-$5", -5),
        ("minus 3", -3),
        ("(12.4)", -12.4),
        ("$(1,234.5)k", -1_234_500),
        ("a loss of €(3.1)m", -3_100_000),
        ("EBITDA: (12.4) million", -12_400_000),
        ("profit was up (12.4%)", 0.124),  # an aside
        ("Revenue - 12.4m", 12_400_000),  # a dash, not a sign
        ("Revenue —12.4m", 12_400_000),
        ("- 5 items", 5),
        ("12.4² as noted", 12.4),  # a footnote mark
        ("3.2x", 3.2),
    ],
)
def test_a_number_is_read_as_it_is_written(text: str, value: float) -> None:
    found = values(text)
    assert len(found) == 1
    assert math.isclose(found[0], value, rel_tol=1e-12)


@pytest.mark.parametrize(
    "text",
    ["2025-09-30", "30.09.2025", "9/30/2025", "September 30, 2025", "30 Sept. 2025", "at 10:30 am", "10 pm", "v1.2.3",
     "Q3", "FY25", "cell B7", "1. Introduction", "2) Next", "3D", "the 12th", "https://x.org/12/34", "24/7",
     "May 2025"],
)  # fmt: skip
def test_dates_versions_markers_and_names_are_no_numbers(text: str) -> None:
    assert values(text) == []


def test_a_year_is_a_candidate_only_for_years() -> None:
    assert not judge_number(NumberSpec(value=20), "In 2025 it was 2024.")[0]
    assert judge_number(NumberSpec(value=2025), "It ends in 2025.")[0]
    # Ten years don't use up the cap.
    text = " ".join(str(2010 + i) for i in range(12)) + " and 42"
    assert judge_number(NumberSpec(value=42), text)[0]


def test_the_decimal_mark_can_be_settled() -> None:
    assert values("1,234") == [1234]
    assert values("1,234", decimal=",") == [1.234]
    assert values("1.234", decimal=",") == [1234]
    assert values("1.234", decimal=".") == [1.234]
    assert values("1,23", decimal=".") == [1, 23] or values("1,23", decimal=".") == [1]


def eur(**more: object) -> NumberSpec:
    return NumberSpec.model_validate({"value": 12.4, "unit": "EUR", "scale": "million", "rel_tol": 0.005, **more})


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("Q3 revenue was EUR 12.4 million, up from EUR 10.1 million in 2024 (+22.8%).", True),
        ("12,430,000", True),
        ("EUR 12.4", False),  # the scale is lost
        ("12.4", False),
        ("$12.4m", False),  # another currency
        ("12.4%", False),
        ("EUR 12.5m", False),
        ("EUR -12.4m", False),
        ("", False),
    ],
)
def test_scale_unit_and_sign_count(text: str, passes: bool) -> None:
    assert judge_number(eur(), text)[0] is passes


def test_a_bare_figure_can_be_allowed_and_a_unit_required() -> None:
    assert judge_number(eur(assume_scale=True), "12.4")[0]
    assert judge_number(eur(assume_scale=True), "12,400,000")[0]
    assert not judge_number(eur(require_unit=True), "12.4 million")[0]
    assert judge_number(eur(value=-12.4, sign="any"), "a loss of EUR 12.4 million")[0]


def test_percent_accepts_points_and_ratios_but_not_the_bare_figure() -> None:
    margin = NumberSpec(value=12.4, scale="percent", abs_tol=0.05)
    assert judge_number(margin, "12.4%")[0]
    assert judge_number(margin, "1240 bps")[0]
    assert judge_number(margin, "0.124")[0]
    assert not judge_number(margin, "12.4")[0]
    assert not judge_number(margin, "EUR 0.124")[0]
    assert judge_number(margin, "12.45%")[0]  # exactly at the edge of a decimal tolerance
    assert not judge_number(margin, "12.46%")[0]


def test_scattered_guesses_state_nothing() -> None:
    guesses = ", ".join(f"EUR {n / 10:.1f}m" for n in range(100, 150))
    passed, _, why = judge_number(eur(), guesses)
    assert not passed
    assert "50 different numbers" in why
    assert judge_number(eur(max_candidates=50), guesses)[0]
    # The same number often is one number.
    assert judge_number(eur(), "EUR 12.4m. " * 20)[0]


def test_a_label_chooses_the_number() -> None:
    text = "| Revenue | EUR 12.4m |\n| Costs | EUR 9.1m |\n\n### Net debt\n\nEUR 33m"
    assert judge_number(eur(label="revenue"), text)[0]
    assert not judge_number(eur(label="costs"), text)[0]
    assert not judge_number(eur(label="ebitda"), text)[0]
    assert judge_number(eur(value=33, label="net debt"), text)[0]
    far = "Revenue" + " and so on" * 20 + " EUR 12.4m"
    assert not judge_number(eur(label="revenue", near=80), far)[0]


def test_units_of_other_things() -> None:
    shares = NumberSpec(value=1500, unit="shares", require_unit=True)
    assert judge_number(shares, "1,500 shares")[0]
    assert judge_number(shares, "1.5k shares")[0]
    assert not judge_number(shares, "1,500 options")[0]
    assert not judge_number(NumberSpec(value=12, unit="EUR"), "12 months")[0]


def test_groups_with_spaces_may_be_one_number_or_several() -> None:
    assert judge_number(NumberSpec(value=2_500_800), "2 500 800")[0]
    assert judge_number(NumberSpec(value=500), "2 500 800")[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [("EUR 12.4m", 12_400_000), ("(3.1)", -3.1), ("5%", 0.05), ("1,234", 1234), ("n/a", None), ("12 or 13", None),
     ("about twelve", None), ("Total 12 for everything", None)],
)  # fmt: skip
def test_a_table_cell_is_one_number_or_none(text: str, value: float | None) -> None:
    assert read_number(text) == value


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_integers_survive_every_way_of_grouping(number: int) -> None:
    for text in (f"{number}", f"{number:,}", f"{number:,}".replace(",", "'"), f"{number:,}".replace(",", "\u202f")):
        spec = NumberSpec(value=number, abs_tol=0)
        assert judge_number(spec, f"It is {text}.")[0], text


@given(st.decimals(min_value=-999_999, max_value=999_999, places=2))
def test_decimals_survive_both_locales(number: object) -> None:
    english = f"{number:,}"
    german = english.translate(str.maketrans(",.", ".,"))
    spec = {"value": float(number), "abs_tol": 0.001}  # type: ignore[arg-type]
    assert judge_number(NumberSpec(**spec, decimal="."), f"it is EUR {english} now")[0]  # type: ignore[arg-type]
    assert judge_number(NumberSpec(**spec, decimal=","), f"it is EUR {german} now")[0]  # type: ignore[arg-type]
    assert judge_number(NumberSpec(**spec), f"it is EUR {english} now")[0]  # type: ignore[arg-type]


@given(st.text(max_size=200))
def test_any_text_yields_finite_numbers_inside_of_it(text: str) -> None:
    for candidate in find_numbers(text):
        assert math.isfinite(candidate.value)
        assert 0 <= candidate.start < candidate.end


@given(
    st.floats(min_value=0.1, max_value=999, allow_nan=False),
    st.sampled_from(["thousand", "million", "billion"]),
    st.sampled_from(["EUR", "USD", "GBP"]),
)
def test_a_stated_amount_is_found_and_its_neighbours_are_not(value: float, scale: str, unit: str) -> None:
    value = round(value, 1)
    text = f"The figure is {unit} {value} {scale}."
    spec = {"unit": unit, "scale": scale, "rel_tol": 0.001}
    assert judge_number(NumberSpec(value=value, **spec), text)[0]  # type: ignore[arg-type]
    assert not judge_number(NumberSpec(value=value * 1.01 + 0.01, **spec), text)[0]  # type: ignore[arg-type]
    assert not judge_number(NumberSpec(value=value * 1000, **spec), text)[0]  # type: ignore[arg-type]
