"""Right answers in the words of different people pass, and near misses don't: the checks of answer tasks are fair."""

# ruff: noqa: E501 - one answer, one line

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.slow

#: Task and right answers, as a careful person might write them.
RIGHT: list[tuple[str, str]] = [
    (
        "june-leverage-gap",
        "Based on the March 2026 figures:\n- **Consolidated EBITDA:** £27.83m (reported 29.29 + exceptional items capped at 1.46 + "
        "Forth Chill 1.35 − rents 4.27)\n- **Consolidated Net Debt:** £106.41m\n- **Leverage:** 3.82x\n\nAt the 3.75x covenant the "
        "required EBITDA would be £28.38m, so there is a **shortfall of £0.54m**.",
    ),
    (
        "june-leverage-gap",
        "Consolidated EBITDA GBP 27.83m, Consolidated Net Debt GBP 106.41m, leverage 3.82:1. EBITDA falls short of the £28.38m "
        "required by £0.54 million.",
    ),
    (
        "ltm-adjusted-ebitda",
        "| Item | USD thousand |\n|---|---|\n| Reported EBITDA | 21,006 |\n| Accepted adjustments | 2,760 |\n| **Adjusted EBITDA** | **23,766** |",
    ),
    ("ltm-adjusted-ebitda", "LTM reported EBITDA is $21,006k; accepted adjustments total $2,760k; LTM adjusted EBITDA is $23,766k."),
    (
        "success-fee-estimate",
        "Fee before credit: $2,485,000 (1.10% × $200m + 3% × $9.5m). Credit: $120,000 (Jan–Mar 2026). Net fee at closing: $2,365,000.",
    ),
    ("success-fee-estimate", "Success fee before credit: USD 2.485 million; credit: USD 0.12 million; net: USD 2.365 million"),
    (
        "lantern-payment-terms",
        "Invoices must be paid within 45 days of their date (changed from 30 days by change order 1), and late payment bears "
        "interest at 4% p.a. above base.",
    ),
    ("lantern-payment-terms", "45 calendar days; 4 percentage points above the Bank of England base rate. The 60 days are only a draft."),
    ("manager-utilisation-q3", "Manager utilisation was 75.3% (627.0 billable hours / 832.5 available hours)."),
    (
        "manager-utilisation-q3",
        "Utilisation: 75.3%\n- Billable hours: 627.0\n- Available hours: 832.5 (61 working days × 7.5 × 2 = 915 less 82.5 leave)",
    ),
    ("heat-loss-2024-25", "1. Omø – 28.2%\n2. Mosede\n3. Fårup\n\nAll plants together: 20.6%"),
    ("aalsund-tender-deadline", "27 February 2026 at 10:00, via Udbudsnet (moved from 20 February 12:00)."),
    ("aalsund-tender-deadline", "By 10:00 on Friday 27 Feb 2026 through the Udbudsnet portal."),
    ("portfolio-loan-to-value", "LTV = 58.0% (loan £111.1m / value £191.6m)"),
    ("curlew-maturity-dates", "RCF: 30 September 2027 (extended from 30 September 2026); term loans A and B: 31 March 2028."),
    ("customer-consents", "- City of Ashford Water\n- Osprey Semiconductors\n- Pacific Desalination\n\nTogether: 19.8 % of FY25 revenue"),
]  # fmt: skip

#: Answers that must not earn the heaviest check.
WRONG: list[tuple[str, str]] = [
    ("june-leverage-gap", "Consolidated EBITDA 27.83m, net debt 106.41m, leverage 3.82x: a surplus of 0.54m."),
    ("ltm-adjusted-ebitda", "Reported EBITDA 21,006; adjustments 2,830; adjusted EBITDA 23,836 (USD thousand)."),
    ("manager-utilisation-q3", "Utilisation of managers was 72.6%: 604.5 billable hours of 832.5 available hours."),
    ("heat-loss-2024-25", "Omø (28.4%), Fårup and Sandby; all plants together 20.3%."),
    ("customer-consents", "City of Ashford Water, Meridian Breweries, Osprey Semiconductors and Pacific Desalination: 19.8%."),
    ("portfolio-loan-to-value", "LTV is 55.0% (loan 113.3m, value 205.8m)."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), RIGHT, ids=[f"{name}-{n}" for n, (name, _) in enumerate(RIGHT)])
def test_a_right_answer_passes_in_anybodys_words(desk: Any, name: str, answer: str) -> None:
    verdict = desk.judge(name, desk.only_answers(name, answer))
    assert verdict.reward == 1.0, [c for c in verdict.criteria if c.score != 1.0]


@pytest.mark.parametrize(("name", "answer"), WRONG, ids=[name for name, _ in WRONG])
def test_a_near_miss_loses_the_main_point(desk: Any, name: str, answer: str) -> None:
    verdict = desk.judge(name, desk.only_answers(name, answer))
    heaviest = max(c.weight for c in verdict.criteria)
    assert any(c.score == 0 for c in verdict.criteria if c.weight == heaviest)
