"""Hasty work on tasks whose result is a file or a message: the task's own solution with one step left out.

Each entry takes one step out of a solution, so that it falls for one trap of its world: a superseded file, a correction
that came by mail, a unit, a promise taken for a payment. Such work must not score 1.0 and must fail the checks named,
among them, for the first trap of each task, one of the heaviest.
"""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.slow

CAP = 'min(total["of which exceptional items"] / 1000, cap * reported)'
NO_CAP = 'total["of which exceptional items"] / 1000'
POST_IT = '    invoices.cell(row_of["INV-0297"], 12).value = date(2026, 1, 12)\n    book.save(PATH)'

#: Task, what is replaced in its solution and by what, and which checks that must cost.
TRAPS: list[tuple[str, str, str, set[str]]] = [
    # Harrow & Pike
    ("lantern-november-invoice", 'rates["Senior Manager"] = first', "_ = first", {"senior-manager", "fees", "total"}),
    ("lantern-november-invoice", 'row["Person"] == "Leo Marchetti"', "False", {"analyst-hours", "fees", "total"}),
    ("lantern-november-invoice", ' or row["Kind"] == "Client entertainment"', "", {"expenses", "total"}),
    ("lantern-november-invoice", "net = min(net, food)", "pass", {"expenses", "total"}),
    ("lantern-november-invoice", "net = min(net, int", "_ = min(net, int", {"expenses", "total"}),
    ("lantern-november-invoice", "Rate card FY26.pdf", "Archive/Rate card FY25.pdf", {"fees", "total"}),
    ("store-closure-shortlist", "Store benchmark v3.xlsx", "Store benchmark v2.xlsx", {"stores", "lincoln-margin"}),
    ("store-closure-shortlist", 'rents.get(store, row["Rent"] * 1000.0)', 'row["Rent"] * 1000.0', {"stores", "rents"}),
    ("store-closure-shortlist", "and deadline > notice_after", "", {"stores", "rents"}),
    ("steerco-deck-refresh", 'rents.get(row["Store"], row["Rent"])', 'row["Rent"]', {"contribution", "regions"}),
    ("steerco-deck-refresh", "Store benchmark v3.xlsx", "Store benchmark v2.xlsx", {"contribution", "headline"}),
    ("ledger-january-postings", "    book.save(PATH)", POST_IT, {"promise", "net-open"}),
    ("ledger-january-postings", "billed - received", "0", {"oberland-charges"}),
    ("overdue-reminder-mail", "total -= money", "_ = money", {"amount"}),
    ("overdue-reminder-mail", "address.group(1)", 'engagement["Contact e-mail"]', {"recipients"}),
    ("overdue-reminder-mail", " and due.date() < today.date()", "", {"amount", "invoices"}),
    # Nordhavn
    (
        "capex-ranking",
        '0.0 if key == refused.group(1) else row["Subsidy"]',
        'row["Subsidy"]',
        {"order", "dalby", "total"},
    ),
    ("capex-ranking", " or key in dropped", "", {"order", "total"}),
    ("capex-ranking", "Capex programme v5.xlsx", "Archive/Capex programme v4.xlsx", {"order", "total"}),
    ("capex-ranking", 'min(row["Life (years)"], horizon)', 'row["Life (years)"]', {"order", "dalby"}),
    (
        "aalsund-price-schedule",
        "full[takes] if name == full[leaves] and",
        "full[takes] if False and",
        {"hours-b", "total"},
    ),
    (
        "aalsund-price-schedule",
        r'^{c} [A-Z][a-z ]+ ([\d,]+)$", pdf_lines("Aalsund/Addendum 2.pdf")',
        r'{c} [A-Z][a-z ]+ ([\d,]+)$", pdf_lines("Aalsund/Tender notice.pdf")',
        {"rate-b", "total"},
    ),
    ("fjord-budget-postings", "sorted(lines)", "sorted(lines)[:1]", {"wp3", "left"}),
    ("fjord-budget-postings", "page.cell(row, 5).value = moved.group(2)", "pass", {"wp2", "wp3"}),
    ("fjord-status-memo", "spent += round", "_ = round", {"spent", "share"}),
    ("fjord-status-memo", 'if row["Status"] != "Open" or row["Risk"] in closed:', "if False:", {"risk"}),
    ("fjord-steering-invite", ".astimezone(UTC)", "", {"time"}),
    # Calder Lane
    ("ioi-comparison", '== "2026-02-27"', '== "2026-01-30"', {"order", "halden"}),
    ("ioi-comparison", "amount = int(fix.group(2))", "pass", {"lakeshore"}),
    ("ioi-comparison", "address == raised_by and raised_to", "False", {"order", "ridgemont"}),
    ("nwc-peg-schedule", "value -= int(fix.group(1))", "pass", {"december", "peg"}),
    ("nwc-peg-schedule", "[-12:]", "", {"months", "peg"}),
    ("comps-price-refresh", "if page.cell(row, 2).value.startswith(out):", "if False:", {"veltrix", "median"}),
    ("comps-price-refresh", '(100 if line["unit"] == "pence" else 1)', "1", {"flowline", "mean"}),
    ("cim-pages-update", "amount = int(fix.group(2))", "pass", {"year", "margins"}),
    ("nda-status-post", 'and row["E-mail"] not in done', "", {"names"}),
    # Morven
    ("term-sheet-grid", 'if lender == "Banca Lariana":', "if False:", {"lariana"}),
    ("term-sheet-grid", "float(floor.group(1)) if floor else 0.0", "0.0", {"dunedin", "floor"}),
    ("term-sheet-grid", "amount < needed", "False", {"order"}),
    ("board-terms-slides", CAP, NO_CAP, {"ratios"}),
    ("board-terms-slides", 'if lender == "Banca Lariana":', "if False:", {"table", "recommendation"}),
    ("compliance-certificate-fix", CAP, NO_CAP, {"exceptional", "ebitda", "ratios"}),
    (
        "compliance-certificate-fix",
        'average" and r["period"] == "FY26"',
        'closing"',
        {"term-loan-b", "ratios"},
    ),
    ("lender-log-update", ' or "decided not to put in" in body', "", {"declined-2", "updated", "still-in"}),
    ("lender-call-event", "SUMMER = timezone(timedelta(hours=1))", "SUMMER = UTC", {"time"}),
]


@pytest.mark.parametrize(("name", "step", "instead", "costs"), TRAPS, ids=[f"{t[0]}-{n}" for n, t in enumerate(TRAPS)])
def test_hasty_work_loses_what_it_got_wrong(desk: Any, name: str, step: str, instead: str, costs: set[str]) -> None:
    def change(source: str) -> str:
        assert step in source, "the solution has changed; adapt the trap"
        return source.replace(step, instead)

    verdict = desk.judge(name, desk.on_a_copy(name, change))
    lost = {c.id for c in verdict.criteria if c.score != 1.0}
    assert costs <= lost
    assert verdict.reward is not None
    assert verdict.reward < 1.0
    if name not in [t[0] for t in TRAPS[: TRAPS.index((name, step, instead, costs))]]:
        heaviest = max(c.weight for c in verdict.criteria)
        assert any(c.id in lost for c in verdict.criteria if c.weight == heaviest)
