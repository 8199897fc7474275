"""The invoice ledger of Harrow & Pike: invoices, credit notes, rates, ageing and the posting rules, with live formulas."""

# ruff: noqa: E501 - the prose of documents stays on one line

from __future__ import annotations

from datetime import date

from envkit.tasks.office.facts import harrow_pike as facts
from envkit.tasks.office.facts.rounding import half_up
from envkit.tasks.office.render.xlsx import Bold, F, Sheet, workbook

__all__ = ["ledger", "open_gbp"]

MONEY = "#,##0.00"


def serial(day: date) -> int:
    """A date as a workbook counts it."""
    return (day - date(1899, 12, 30)).days


INVOICE_HEAD = (
    "Invoice",
    "Issued",
    "Engagement",
    "Client",
    "Currency",
    "Net",
    "VAT rate",
    "VAT",
    "Gross",
    "Terms (days)",
    "Due",
    "Paid on",
    "Status",
    "Open, GBP",
    "Bank charges",
)


def open_gbp(bill: facts.Bill) -> float:
    """What is open of an invoice in GBP at the closing rate of December 2025."""
    rate = 1.0 if bill.currency == "GBP" else facts.FX["2025-12"][bill.currency]
    return 0.0 if bill.paid else half_up(bill.gross * rate, 2)


def ledger() -> bytes:
    clients = {e.code: e.client for e in facts.ENGAGEMENTS}
    rows: list[list[object]] = [
        [Bold("Invoice ledger FY26")],
        ["Open amounts are gross, in GBP, at the December 2025 closing rate (sheet FX)."],
        [],
        list(INVOICE_HEAD),
    ]
    for n, bill in enumerate(facts.INVOICES, start=5):
        rows.append(
            [
                bill.number,
                bill.issued,
                bill.code,
                clients[bill.code],
                bill.currency,
                bill.net,
                bill.vat_rate,
                F(f"=ROUND(F{n}*G{n},2)", round(bill.gross - bill.net, 2)),
                F(f"=F{n}+H{n}", bill.gross),
                bill.terms,
                F(f"=B{n}+J{n}", serial(bill.due)),
                bill.paid,
                F(f'=IF(L{n}="","Open","Paid")', "Paid" if bill.paid else "Open"),
                F(f'=IF(M{n}="Open",ROUND(I{n}*IF(E{n}="EUR",FX!$B$8,IF(E{n}="USD",FX!$C$8,1)),2),0)', open_gbp(bill)),
                None,
            ]
        )
    last = 4 + len(facts.INVOICES)
    rows.append([])
    total = round(sum(map(open_gbp, facts.INVOICES)), 2)
    rows.append([Bold("Total open"), *[None] * 12, Bold(F(f"=SUM(N5:N{last})", total))])
    credits: list[list[object]] = [
        [Bold("Credit notes FY26")],
        ["One line per credit note; VAT and gross as formulas; all in GBP."],
        [],
        ["Credit note", "Date", "Invoice", "Client", "Net", "VAT", "Gross", "Reason"],
        [
            "CN-0017",
            date(2025, 10, 20),
            "INV-0281",
            clients["HP-2419"],
            1800.0,
            F("=ROUND(E5*0.2,2)", 360.0),
            F("=E5+F5", 2160.0),
            "Workshop cancelled, settled with payment",
        ],
        [
            "CN-0018",
            date(2025, 11, 24),
            "INV-0287",
            clients["HP-2417"],
            940.5,
            F("=ROUND(E6*0.2,2)", 188.1),
            F("=E6+F6", 1128.6),
            "Hotel booked twice, settled with payment",
        ],
    ]
    fx: list[list[object]] = [
        [Bold("Month-end closing rates")],
        ["GBP for one unit of the currency"],
        [],
        ["Month", "EUR", "USD"],
        *[[month, r["EUR"], r["USD"]] for month, r in facts.FX.items()],
    ]
    ageing: list[list[object]] = [
        [Bold("Ageing by client, GBP")],
        ["As at", date(2026, 1, 14)],
        [],
        ["Client", "Open", "of which overdue", "Credit notes not yet settled", "Net open"],
    ]
    for n, e in enumerate(facts.ENGAGEMENTS, start=5):
        mine = [b for b in facts.INVOICES if b.code == e.code]
        open_, late = (
            round(sum(open_gbp(b) for b in mine if late_only is False or b.due < date(2026, 1, 14)), 2)
            for late_only in (False, True)
        )
        ageing.append(
            [
                e.client,
                F(f"=SUMIFS(Invoices!$N$5:$N${last},Invoices!$D$5:$D${last},A{n})", open_),
                F(
                    f'=SUMIFS(Invoices!$N$5:$N${last},Invoices!$D$5:$D${last},A{n},Invoices!$K$5:$K${last},"<"&$B$2)',
                    late,
                ),
                F(f"=SUMIFS('Credit notes'!$G$7:$G$40,'Credit notes'!$D$7:$D$40,A{n})", 0),
                F(f"=B{n}-D{n}", open_),
            ]
        )
    end = 4 + len(facts.ENGAGEMENTS)
    late_all = round(sum(open_gbp(b) for b in facts.INVOICES if b.due < date(2026, 1, 14)), 2)
    ageing.append(
        [
            Bold("Total"),
            *[Bold(F(f"=SUM({c}5:{c}{end})", v)) for c, v in zip("BCDE", (total, late_all, 0, total), strict=True)],
        ]
    )
    rules: list[list[object]] = [
        [Bold("Posting rules")],
        [
            "1",
            "Paid on is the value date on our bank account, not the date of the remittance advice or of a promise to pay.",
        ],
        [
            "2",
            "A shortfall of up to 50 units of the invoice currency that stems from bank charges is written off: the invoice counts as paid, the shortfall goes to Bank charges, as a positive number in invoice currency.",
        ],
        ["3", "Columns H, I, K, M and N are formulas. Don't type over them."],
        [
            "4",
            "Credit notes get their own line on sheet Credit notes; the invoice's own line stays as it is. CN-0017 and CN-0018 were settled with the payments.",
        ],
        ["5", "Announced payments are not posted."],
    ]
    return workbook(
        [
            Sheet(
                "Invoices",
                rows,
                header=3,
                formats={5: MONEY, 6: "0%", 7: MONEY, 8: MONEY, 10: "yyyy-mm-dd", 13: MONEY, 14: MONEY},
                widths={0: 12, 3: 27},
            ),
            Sheet("Credit notes", credits, header=3, formats={4: MONEY, 5: MONEY, 6: MONEY}, widths={0: 12}),
            Sheet("FX", fx, header=3, formats={1: "0.0000", 2: "0.0000"}),
            Sheet(
                "Ageing", ageing, header=3, formats=dict.fromkeys(range(1, 5), MONEY), cell_formats={"B2": "yyyy-mm-dd"}
            ),
            Sheet("Rules", rules, widths={0: 4, 1: 110}),
        ],
        title="Invoice ledger FY26",
        author="Gwen Talbot",
        when=facts.NOW,
    )
