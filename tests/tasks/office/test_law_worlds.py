"""The two law worlds: how days and sums are counted in the facts, and each task when one step of its work is left out.

Hasty work is the task's own solution with one step changed, so that it falls for one trap; it must lose the main point.
"""

# ruff: noqa: E501 - one answer, one line

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

import pytest

from envkit.tasks.office.facts import tarrant_moss, vermeulen_roche
from envkit.tasks.office.jobs.dates import said

#: Task, a step of its solution, what stands there instead.
HASTY = [
    ("osterley-termination-notice", "{clause.group(2)} days'", "six months'"),
    ("brightwater-liability-cap", "total -= money(late.group(2))", "pass"),
    ("brightwater-liability-cap", '"2024-07", "2025-06"', '"2025-01", "2025-12"'),
    ("brightwater-liability-cap", "total += row[1] + row[2]", "total += row[4]"),
    ("brightwater-liability-cap", "first <= row[2] <= last", "2024 <= row[1].year <= 2025"),
    ("chippenham-break-notice", "and day not in closed", ""),
    ("chippenham-break-notice", "while left < 2", "while left < 1"),
    ("pellow-key-dates", "site == gone.group(1)", "False"),
    ("pellow-key-dates", "site in waived", "False"),
    ("pellow-key-dates", "and last >= TODAY", ""),
    ("pellow-key-dates", 'site == "Chippenham" and', "False and"),
    ("pellow-key-dates", "schedule 2025-12", "schedule 2024-06"),
    ("amendment-two-conform", 'text.replace(f"{call.group(2)}%", f"{call.group(1)}%")', "text"),
    ("amendment-two-conform", "number + shift if first <= number <= last else number", "number"),
    ("corrigan-privilege-log", 'doc["doc_id"] in given_up or', ""),
    ("corrigan-privilege-log", 'doc["doc_id"] == slip[0]', "False"),
    ("corrigan-privilege-log", "and (end is None or day <= end.date())", ""),
    ("corrigan-privilege-log", "day >= since", "day >= date(2025, 6, 3)"),
    ("corrigan-privilege-log", "all(s in ours for s in sides)", "True"),
    ("charge-out-rates-2026", "rises[fix.group(1).lower()] = float(fix.group(2))", ""),
    ("hallmark-exchange-mail", "left -= day.weekday() < 5 and day not in closed", "left -= day.weekday() < 5"),
    ("hallmark-exchange-mail", "[new.group(1)]", '["mark.tolley@sefton-grieve.example"]'),
    ("kade-delay-damages", "continue  # nobody has signed", "pass"),
    ("kade-delay-damages", 'if "price goes up" in text', "if False"),
    ("kade-defence-deadline", "day += timedelta(days=1)\n    received", "pass\n    received"),
    ("kade-defence-deadline", ", days=int(extension.group(1))", ""),
    ("kade-defence-deadline", "or day in closed", ""),
    ("kade-august-fees", "matter = moved[2]", "pass"),
    ("kade-august-fees", 'activity = "Work"', "pass"),
    ("kade-august-fees", "min(hours, max(0.0, limit - used))", "hours"),
    ("kade-august-fees", "disbursements - free", "disbursements"),
    ("kade-august-fees", 'and r["kind"] != "Meal"', ""),
    ("kade-chronology", 'row["handed_over"]', 'row["collected"]'),
    ("kade-chronology", r'_day(r"on \w+ (\d+ \w+ \d{4}), not", mail)', 'date.fromisoformat(failed["date"])'),
    ("kade-chronology", 'if text.split("For the Seller | For the Buyer")[1].strip(" |\\n")', "if True"),
    ("brasser-offers", 'del offers["Dorn Claims"]', "pass"),
    ("brasser-offers", "amount * counted / (1 + rate) ** (apart / 12)", "amount"),
    ("oostwind-claims-register", 'and "can\'t bind them" not in body', ""),
    ("kade-exposure-slide", 'claim -= first_number(r"storage', 'claim -= 0 * first_number(r"storage'),
    ("kade-exposure-slide", "continue", "pass"),
    ("kade-hearing-event", 'ZoneInfo("Europe/Amsterdam")', 'ZoneInfo("Etc/GMT-2")'),
    ("brasser-missing-documents", 'if row["Status"] != "Placeholder"', ""),
    ("brasser-missing-documents", 'have |= set(re.findall(r"R-\\d+", ', 'have |= set(re.findall(r"never", '),
    ("brasser-missing-documents", "not in have | dropped", "not in have"),
]

#: Right answers, as a careful person might write them in other words.
RIGHT = [
    ("osterley-termination-notice", "120 days (clause 13.2). The 150 days are only in an unsigned draft."),
    ("osterley-termination-notice", "Under cl. 13.2 (formerly 12.2), as amended: 120 calendar days' written notice."),
    (
        "brightwater-liability-cap",
        "**Maximum exposure: £2,777,262** under clause 12.2\n\n- Charges July 2024 to June 2025: £1,851,508\n- 150% of these",
    ),
    (
        "brightwater-liability-cap",
        "The cap under clause 12.2 (formerly 11.2) is £2,777,262.00, being 150% of Charges of £1,851,508.00 for the Contract Year "
        "to 30 June 2025, which is above the floor of £1.5 million.",
    ),
    (
        "chippenham-break-notice",
        "**Post by:** Wednesday, 1 April 2026\n**Received on:** Tuesday, 7 April 2026\n"
        "**Address:** Lacock Estates, 41 Queen Square, Bath, BA1 2HN",
    ),
    ("kade-delay-damages", "Complete weeks of delay: 8 (2 March to 28 April 2026); 8 x 0.75% x EUR 11.86m = EUR 711,600."),
    ("kade-delay-damages", "€711,600, for eight complete weeks."),
    ("kade-defence-deadline", "Claim received: Monday, 10 August 2026\nDefence due: Tuesday, 6 October 2026"),
    (
        "kade-august-fees",
        "Fees after discount: €41,544.82\nDisbursements: €8,808.35\nTotal: €59,583.34 (VAT of €9,230.17 included)",
    ),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), RIGHT)
def test_a_right_answer_in_other_words_scores_one(desk: Any, name: str, text: str) -> None:
    verdict = desk.judge(name, desk.only_answers(name, text))
    assert verdict.reward == 1.0, [c for c in verdict.criteria if c.score != 1.0]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "step", "instead"), HASTY)
def test_hasty_work_loses_the_main_point(desk: Any, name: str, step: str, instead: str) -> None:
    def change(text: str) -> str:
        assert step in text, "the solution has changed; name another step"
        return text.replace(step, instead)

    verdict = desk.judge(name, desk.on_a_copy(name, change))
    heaviest = max(c.weight for c in verdict.criteria)
    assert any(c.score == 0 for c in verdict.criteria if c.weight == heaviest), verdict.criteria
    assert verdict.reward is not None
    assert verdict.reward < 0.8


def test_business_days_skip_easter() -> None:
    assert tarrant_moss.add_business(date(2026, 4, 1), 2) == date(2026, 4, 7)
    assert not tarrant_moss.business(date(2026, 4, 3))


def test_the_break_notice_posted_one_business_day_later_is_too_late() -> None:
    last = tarrant_moss.chippenham_posting()
    assert tarrant_moss.add_business(last, 2) <= tarrant_moss.chippenham_receipt()
    assert tarrant_moss.add_business(tarrant_moss.add_business(last, 1), 2) > tarrant_moss.chippenham_receipt()


@pytest.mark.parametrize(
    ("day", "months", "expected"),
    [
        (date(2027, 1, 31), 9, date(2026, 4, 30)),
        (date(2027, 2, 28), 6, date(2026, 8, 28)),
        (date(2026, 3, 31), 1, date(2026, 2, 28)),
        (date(2026, 12, 25), 12, date(2025, 12, 25)),
    ],
)
def test_months_are_counted_back_to_the_last_day_of_a_short_month(day: date, months: int, expected: date) -> None:
    assert tarrant_moss.months_before(day, months) == expected


def test_the_limit_rests_on_the_percentage_and_not_on_the_fixed_amount() -> None:
    assert tarrant_moss.liability_cap() > tarrant_moss.AGREED["floor"]
    assert tarrant_moss.liability_cap() != tarrant_moss.contract_year_charges(False) * 1.5


def test_each_planted_document_turns_on_its_own_fact() -> None:
    logged = {document.id for document, _ in tarrant_moss.privilege_log()}
    assert {"CJ-007", "CJ-016", "CJ-024", "CJ-031", "CJ-047"} <= logged
    assert not {"CJ-012", "CJ-015", "CJ-018", "CJ-021", "CJ-027", "CJ-036", "CJ-044"} & logged


def test_the_defence_is_due_on_a_day_on_which_the_chamber_is_open() -> None:
    due = vermeulen_roche.defence_due()
    assert vermeulen_roche.open_day(due)
    raw = vermeulen_roche.claim_received() + timedelta(days=54)
    assert raw < due
    assert not any(vermeulen_roche.open_day(raw + timedelta(days=n)) for n in range((due - raw).days))


def test_no_day_but_the_planted_one_reaches_the_limit_of_hours() -> None:
    hours: dict[tuple[date, str], float] = {}
    for entry in vermeulen_roche.entries():
        if entry.matter == "VR-311":
            key = (entry.day, entry.person)
            hours[key] = hours.get(key, 0.0) + entry.hours
    long = [key for key, total in hours.items() if total > vermeulen_roche.DAY_LIMIT]
    assert long == [vermeulen_roche.LONG_DAY[:2]]


def test_offers_rank_otherwise_by_nominal_than_by_present_value() -> None:
    ranked = vermeulen_roche.ranked_offers()
    assert [o.bidder for o in ranked] != [o.bidder for o in sorted(ranked, key=lambda o: -o.nominal)]


@pytest.mark.parametrize(
    "text",
    ["7 April 2026", "7th of Apr 2026", "April 7, 2026", "2026-04-07", "07/04/2026", "Tuesday, 7 April 2026"],
)
def test_dates_are_found_as_people_write_them(text: str) -> None:
    assert re.search(said(date(2026, 4, 7)), text, re.IGNORECASE)
    assert not re.search(said(date(2026, 4, 17)), text, re.IGNORECASE)
    assert not re.search(said(date(2026, 4, 7)), text.replace("7", "27"), re.IGNORECASE)
