"""The tools of edgar as data: names, arguments, and what each one looks at.

A tool is one row: its published name and arguments, the file of the data folder it reads (`source`), and the shape its
answer takes (`view`). The generic handler in `query.py` carries out every row; the models of the arguments are made
from here too. `*` after a name: required. Types: `s` text, `i` whole number, `n` number, `b` yes or no, `[s]` texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["COMPANY", "DEBT", "DESCRIPTIONS", "EQUITY", "METAS", "TOOLS", "Concept", "Row"]

Source = Literal["", "company_tickers", "submissions", "companyfacts", "filings"]
View = Literal[
    "cik", "filings", "facts", "concept", "frames", "documents", "text", "debt", "equity", "tables", "health", "info"
]
#: How a company is named: any one of the three.
COMPANY = "cik:s, ticker:s, name:s"


@dataclass(frozen=True, slots=True)
class Row:
    """One tool. `outer` are arguments beside the envelope."""

    name: str
    arguments: str
    source: Source
    view: View
    description: str
    outer: str = ""


TOOLS: tuple[Row, ...] = (
    Row("get_company_submissions", f"{COMPANY}, limit:i, page:i, form_types:[s], summary_only:b", "submissions",
        "filings", "The filings of a company, newest first, with counts by form; pages from 1."),
    Row("get_company_facts", f"{COMPANY}, limit_concepts:i", "companyfacts", "facts",
        "What a company has reported, by concept: its newest values of each (at most 100 concepts a taxonomy)."),
    Row("get_company_concept", f"{COMPANY}, taxonomy*:s, tag*:s", "companyfacts", "concept",
        "Every value that a company has reported of one concept."),
    Row("get_frames", "taxonomy*:s, tag*:s, unit*:s, period*:s, min_value:n, sort_descending:b, max_results:i",
        "companyfacts", "frames", "One concept in one period across all companies.", outer="page_number:i, limit:i"),
    Row("lookup_cik", "ticker:s, name:s", "company_tickers", "cik", "The CIK of a company by its ticker or name."),
    Row("health_check", "", "", "health", "Whether the data are there, and of how many companies."),
    Row("list_filing_documents", f"{COMPANY}, filing_accession*:s", "filings", "documents",
        "The documents of one filing.", outer="page_number:i, limit:i"),
    Row("get_filing_document", f"{COMPANY}, filing_accession*:s, document:s", "filings", "text",
        "The text of one document of a filing; without a name, of its main document."),
    Row("get_debt_schedule", f"{COMPANY}, filing_accession*:s", "companyfacts", "debt",
        "The debt that a filing reports: current, non-current, and its instruments."),
    Row("get_equity_compensation", f"{COMPANY}, filing_accession*:s", "companyfacts", "equity",
        "What a filing reports of stock options, restricted and performance units, and the purchase plan."),
    Row("extract_html_table", f"{COMPANY}, filing_accession*:s, table_keyword*:s", "filings", "tables",
        "The tables of a filing's main document that hold a word."),
    Row("server_info", "input:d", "", "info", "What this server is and can do."),
)  # fmt: skip

#: Meta tool -> its description and action -> tool.
METAS: dict[str, tuple[str, dict[str, str]]] = {
    "edgar_filings": ("Filings and reported values of companies (SEC EDGAR).", {
        "submissions": "get_company_submissions", "facts": "get_company_facts", "concept": "get_company_concept",
        "frames": "get_frames",
    }),
    "edgar_analysis": ("Debt, stock compensation and tables of a filing.", {
        "debt_schedule": "get_debt_schedule", "equity_compensation": "get_equity_compensation",
        "html_table": "extract_html_table",
    }),
    "edgar_documents": ("The documents of a filing.", {
        "list": "list_filing_documents", "get_text": "get_filing_document",
    }),
    "edgar_lookup": ("Companies by ticker or name, and the state of the data.", {
        "cik": "lookup_cik", "health": "health_check",
    }),
}  # fmt: skip

DESCRIPTIONS: dict[str, str] = {
    "cik": "CIK of the company, with or without leading zeros, e.g. 320193",
    "ticker": "Ticker of the company, e.g. AAPL",
    "name": "Name of the company or a part of it",
    "limit": "How many entries a page has",
    "page": "Page, from 1",
    "page_number": "Page, from 1",
    "form_types": "Only these forms, e.g. 10-K, 8-K",
    "summary_only": "Only counts by form, no filings",
    "limit_concepts": "How many concepts of each taxonomy, at most 100",
    "taxonomy": "Taxonomy of the concept: us-gaap, dei, ifrs-full ...",
    "tag": "Name of the concept, e.g. Revenues",
    "unit": "Unit of the values, e.g. USD, shares, USD-per-shares",
    "period": "Period: CY2023 (a year), CY2023Q1 (a quarter), CY2023Q1I (a day at its end)",
    "min_value": "Only values of at least this",
    "sort_descending": "Largest value first",
    "max_results": "How many values at most",
    "filing_accession": "Accession number of the filing, e.g. 0000320193-24-000123",
    "document": "Name of the document, as list_filing_documents gives it",
    "table_keyword": "A word that the table or its caption holds",
    "input": "Nothing is needed",
}

#: Field of an answer -> concepts that hold it, the first reported one counts.
Concept = tuple[str, tuple[str, ...]]
DEBT: tuple[Concept, ...] = (
    ("total_current_debt", ("DebtCurrent", "LongTermDebtCurrent", "LongTermDebtAndCapitalLeaseObligationsCurrent")),
    ("total_noncurrent_debt", ("LongTermDebtNoncurrent", "LongTermDebtAndCapitalLeaseObligations")),
    ("short_term_borrowings", ("ShortTermBorrowings", "CommercialPaper")),
    ("total_long_term_debt", ("LongTermDebt",)),
    ("maturities_year_1", ("LongTermDebtMaturitiesRepaymentsOfPrincipalInNextTwelveMonths",)),
    ("maturities_year_2", ("LongTermDebtMaturitiesRepaymentsOfPrincipalInYearTwo",)),
    ("maturities_year_3", ("LongTermDebtMaturitiesRepaymentsOfPrincipalInYearThree",)),
    ("maturities_year_4", ("LongTermDebtMaturitiesRepaymentsOfPrincipalInYearFour",)),
    ("maturities_year_5", ("LongTermDebtMaturitiesRepaymentsOfPrincipalInYearFive",)),
    ("maturities_after_year_5", ("LongTermDebtMaturitiesRepaymentsOfPrincipalAfterYearFive",)),
)
_OPTIONS = "ShareBasedCompensationArrangementByShareBasedPaymentAwardOptions"
_UNITS = "ShareBasedCompensationArrangementByShareBasedPaymentAwardEquityInstrumentsOtherThanOptions"
EQUITY: dict[str, tuple[Concept, ...]] = {
    "stock_options": (
        ("outstanding", (f"{_OPTIONS}OutstandingNumber",)),
        ("granted", (f"{_OPTIONS}GrantsInPeriodGross", f"{_OPTIONS}GrantsInPeriod")),
        ("exercised", ("StockIssuedDuringPeriodSharesStockOptionsExercised", f"{_OPTIONS}Exercised")),
        ("exercisable", (f"{_OPTIONS}ExercisableNumber",)),
        ("weighted_avg_exercise_price", (f"{_OPTIONS}OutstandingWeightedAverageExercisePrice",)),
    ),
    "rsus": (
        ("unvested", (f"{_UNITS}NonvestedNumber",)),
        ("granted", (f"{_UNITS}GrantsInPeriod",)),
        ("vested", (f"{_UNITS}VestedInPeriod",)),
        ("forfeited", (f"{_UNITS}ForfeitedInPeriod",)),
        ("weighted_avg_grant_date_fair_value", (f"{_UNITS}NonvestedWeightedAverageGrantDateFairValue",)),
    ),
    "espp": (
        ("shares_purchased", ("StockIssuedDuringPeriodSharesEmployeeStockPurchasePlans",)),
    ),
}  # fmt: skip
