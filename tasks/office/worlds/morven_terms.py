"""Term sheets of the lenders and Morven's house papers."""

# ruff: noqa: E501 - the prose of documents stays on one line

from __future__ import annotations

from datetime import datetime

from envkit.tasks.office.facts import morven as facts
from envkit.tasks.office.render import pdf
from envkit.tasks.office.render.docx import Bullets, H, Numbered, P, document
from envkit.tasks.office.worldfiles import WorldFiles

__all__ = ["add_files"]

FIRM = "Morven Capital Advisers LLP"


def add_files(world: WorldFiles) -> None:
    for terms in facts.TERMS:
        world.file(f"Term sheets/{terms.lender}.pdf", _sheet(terms))
    world.file("House/Method note all-in cost.docx", _method())
    world.file("House/Method note loan to value.docx", _loan_to_value())
    world.file("House/Rates.csv", _rates())
    world.file("House/Slides guide.docx", _guide())


def _sheet(t: facts.Terms) -> bytes:
    index = "SONIA"
    # Banks write margins in basis points, funds in percent; discounts come as an issue price.
    margin = f"{index} + {t.margin * 100:.0f} basis points" if t.kind == "Bank" else f"{index} + {t.margin:.2f}% p.a."
    floor = f"{t.floor:.2f}%" if t.floor else "none (zero floor)"
    rows = [
        ["Lender", t.lender],
        ["Borrower", "Strathallan Cold Storage Group plc"],
        ["Amount", f"GBP {t.amount:.1f} million"],
        ["Tenor", f"{t.tenor} years"],
        ["Margin", margin],
        [f"{index} floor", floor],
        ["Arrangement fee", f"{t.fee:.2f}% of the amount"],
        ["Issue price", f"{100 - t.oid:.2f}"],
        ["Leverage covenant", f"{t.leverage:.2f} : 1"],
        ["Other", t.note],
    ]
    return pdf.report(
        [
            pdf.Heading("Summary of terms", 0),
            pdf.Para(f"Project Curlew. {t.lender}, 5 May 2026. For discussion, subject to credit approval."),
            pdf.Rows(rows, "ll", (45, 120), ruled=t.kind != "Bank", head=False),
            pdf.Columns(2),
            pdf.Heading("Conditions"),
            pdf.Para(
                "Satisfactory due diligence, valuation not older than six months, no material adverse change, documents in form and substance satisfactory to the lender."
            ),
            pdf.Heading("Costs"),
            pdf.Para("Legal costs of the lender are borne by the borrower, also if no facility is signed."),
            pdf.Heading("Confidentiality"),
            pdf.Para("These terms are for the borrower and its adviser only."),
        ],
        title=f"Terms {t.lender}",
        author=t.lender,
        letterhead=t.lender,
        footer="Not binding",
    )


def _method() -> bytes:
    m = facts.METHOD
    return document(
        [
            H("Method note: all-in cost", 0),
            P("House view of April 2026. For comparisons of term loans in sterling."),
            Numbered(
                [
                    f"Base rate: the five-year swap rate against SONIA, at present {m['swap']:.2f}%. Where a lender's floor is higher, the floor counts.",
                    "Margin: as in the latest terms of the lender.",
                    f"Fees: arrangement fee and discount (100 less the issue price) in percent of the amount, added up and spread evenly over an expected life of {m['life']:.1f} years, whatever the tenor.",
                    "All-in cost is the sum of the three, in percent a year with two decimals.",
                ]
            ),
            P(
                f"Project Curlew needs GBP {m['amount']:.0f} million from one lender. A lender that offers less is shown in a comparison, but ranked after all that offer enough, whatever its cost. Lenders that have declined are left out."
            ),
        ],
        title="Method note all-in cost",
        author="Fraser Dunn",
        when=datetime(2026, 4, 20),
        header=FIRM,
        footer="House papers",
    )


def _loan_to_value() -> bytes:
    return document(
        [
            H("Method note: loan to value", 0),
            Bullets(
                [
                    "Loan: drawn term loans and revolving facility as they stand on the day of the report, before cash. Euro amounts at the last closing rate at a quarter's end.",
                    "Value: market value of the sites that are charged to the lenders. Sold sites and sites that are not charged don't count. A newer letter of the valuer replaces the report.",
                    "Loan to value is loan over value, in percent with one decimal.",
                ]
            ),
        ],
        title="Method note loan to value",
        author="Fraser Dunn",
        when=datetime(2026, 3, 2),
        header=FIRM,
        footer="House papers",
    )


def _rates() -> str:
    return (
        "name,period,value\n"
        f"GBP per EUR average,FY26,{facts.FX['average']}\nGBP per EUR closing,2026-03-31,{facts.FX['closing']}\n"
        "GBP per EUR average,FY25,0.8391\nGBP per EUR closing,2025-03-31,0.8354\n"
        f"SONIA swap 5y,2026-05-18,{facts.METHOD['swap']}\nSONIA swap 3y,2026-05-18,3.71\nSONIA,2026-05-18,3.97\n"
    )


def _guide() -> bytes:
    return document(
        [
            H("Slides: house rules", 0),
            Bullets(
                [
                    "One message a slide, said in the title or the first line.",
                    "Figures carry unit and date.",
                    "Tables have a head row; best offer first.",
                    "No more than five bullets.",
                ]
            ),
            P("Questions: Catriona Orr."),
        ],
        title="Slides guide",
        author="Catriona Orr",
        when=datetime(2025, 11, 3),
        header=FIRM,
        footer="House papers",
    )
