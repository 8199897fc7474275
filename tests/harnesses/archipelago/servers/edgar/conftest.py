"""Two invented companies in the SEC's file formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.calling import call_meta, call_tool, context_for, text_of
from envkit.harnesses.archipelago.servers.edgar import APP

ACCESSION = "0000000111-24-000009"


def fact(end: str, value: float, accession: str = ACCESSION, start: str | None = None, **more: Any) -> dict[str, Any]:
    out = {"end": end, "val": value, "accn": accession, "fy": 2024, "fp": "FY", "form": "10-K", "filed": "2025-02-01"}
    return {**out, **({"start": start} if start else {}), **more}


def companies() -> dict[str, Any]:
    names = [(111, "BRLO", "Birlow Tools Inc."), (222, "CNDR", "Cinder Works Corp"), (333, "CNDB", "Cinder Bank")]
    return {str(i): {"cik_str": cik, "ticker": t, "title": n} for i, (cik, t, n) in enumerate(names)}


def write(folder: Path) -> None:
    for name in ("submissions", "companyfacts", f"filings/{ACCESSION}"):
        (folder / name).mkdir(parents=True)
    (folder / "company_tickers.json").write_text(json.dumps(companies()))
    recent = {
        "accessionNumber": ["0000000111-23-000004", ACCESSION, "0000000111-24-000020"],
        "filingDate": ["2024-02-03", "2025-02-01", "2025-05-01"],
        "reportDate": ["2023-12-31", "2024-12-31", "2025-03-31"],
        "form": ["10-K", "10-K", "10-Q"],
        "primaryDocument": ["old.htm", "main.htm", "q1.htm"],
        "primaryDocDescription": ["10-K", "Annual report", "10-Q"],
    }
    submissions = {
        "cik": "0000000111", "name": "Birlow Tools Inc.", "sic": "3420", "sicDescription": "Hand tools",
        "exchanges": ["NYSE"], "filings": {"recent": recent, "files": []},
    }  # fmt: skip
    (folder / "submissions/CIK0000000111.json").write_text(json.dumps(submissions))
    revenue = {"label": "Revenues", "description": "d", "units": {"USD": [
        fact("2024-12-31", 900.0, start="2024-01-01", frame="CY2024"),
        fact("2023-12-31", 800.0, "0000000111-23-000004", start="2023-01-01"),
    ]}}  # fmt: skip
    debt = {"units": {"USD": [fact("2024-12-31", 55.0), fact("2023-12-31", 44.0)]}}
    options = {"units": {"shares": [fact("2024-12-31", 12.0)]}}
    name = "ShareBasedCompensationArrangementByShareBasedPaymentAwardOptionsOutstandingNumber"
    facts = {"cik": 111, "entityName": "Birlow Tools Inc.", "facts": {
        "us-gaap": {"Revenues": revenue, "LongTermDebtNoncurrent": debt, name: options},
        "dei": {"EntityCommonStockSharesOutstanding": {"units": {"shares": [fact("2025-01-15", 1000.0)]}}},
    }}  # fmt: skip
    (folder / "companyfacts/CIK0000000111.json").write_text(json.dumps(facts))
    other = {"label": "Revenues", "units": {"USD": [fact("2024-12-31", 1200.0, "0000000222-24-1", start="2024-01-01")]}}
    facts = {"cik": 222, "entityName": "Cinder Works Corp", "facts": {"us-gaap": {"Revenues": other}}}
    (folder / "companyfacts/CIK0000000222.json").write_text(json.dumps(facts))
    (folder / f"filings/{ACCESSION}/main.htm").write_text(
        "<html><head><title>x</title><style>p{}</style></head><body><p>Part I</p><p>Sales of <b>tools</b> rose.</p>"
        "<p>Segment results</p><table><tr><th>Segment</th><th>Sales</th></tr>"
        "<tr><td>Hammers</td><td>600</td></tr></table>"
        "<table><tr><td>Other</td><td>1</td></tr></table></body></html>"
    )
    (folder / f"filings/{ACCESSION}/ex21.txt").write_text("Subsidiaries:\n  Birlow GmbH\n")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "apps_data" / "edgar"
    write(folder)
    return folder


@pytest.fixture
def call(tmp_path: Path):
    """`call("get_frames", ...)` or `call("edgar_filings", action=...)`; returns the outcome and its object."""
    (tmp_path / "filesystem").mkdir(exist_ok=True)
    context = context_for(APP, tmp_path / "filesystem", tmp_path / "apps_data")

    def run(name: str, /, **arguments: Any) -> Any:
        run_it = call_meta if name in {m.name for m in APP.metas} or name == "edgar_schema" else call_tool
        outcome = run_it(APP, name, arguments, context)
        assert outcome.fault is None, outcome.fault
        return outcome.text if outcome.error else text_of(outcome)

    return run
