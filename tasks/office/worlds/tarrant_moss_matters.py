"""Brightwater's supply agreement with its amendments and charges, and the disclosure papers of Corrigan v Hallmark."""

# ruff: noqa: E501 - the prose of documents stays on one line

from __future__ import annotations

import csv
import io
from datetime import date, datetime
from typing import Any

from envkit.tasks.office.facts import tarrant_moss as facts
from envkit.tasks.office.render import pdf
from envkit.tasks.office.render.docx import H, P, Table, document
from envkit.tasks.office.render.xlsx import Bold, F, Sheet, workbook
from envkit.tasks.office.worldfiles import WorldFiles
from envkit.tasks.office.worlds import tarrant_moss_messages as messages

__all__ = ["add_files"]

FIRM = "Tarrant Moss LLP"


def add_files(world: WorldFiles) -> None:
    world.file("Brightwater/Supply agreement.docx", _agreement())
    world.file("Brightwater/Amendment No 1.pdf", _amendment_one())
    world.file("Brightwater/Amendment No 2 draft v2.docx", _amendment_two(2))
    world.file("Brightwater/Amendment No 2 draft v3.docx", _amendment_two(3))
    world.file("Brightwater/Osterley charges.xlsx", _charges())
    world.file("Corrigan/Disclosure protocol.pdf", _protocol())
    world.file("Corrigan/Order 6 February 2026.pdf", _order())
    world.file("Corrigan/Document index.csv", _index())
    world.file("Corrigan/People.xlsx", _people())
    world.file("Corrigan/Case summary.docx", _summary())


def _agreement() -> bytes:
    a = facts.AGREED
    clauses = [
        ("1 Definitions", [
            "In this agreement: **Supplier** is Brightwater Packaging Ltd; **Customer** is Osterley Foods plc; **Products** are the cartons and trays in schedule 1; **Contract Year** is a period of twelve months from 1 July to 30 June.",
            "**Charges** are the prices of Products and of freight invoiced for deliveries in a period, without VAT and without deposits for pallets, less credit notes that relate to deliveries in that period, whenever issued.",
            "**Business Day** is a day other than a Saturday, a Sunday or a bank holiday in England.",
        ]),
        ("2 Supply", ["2.1 The Supplier supplies Products as ordered by the Customer."]),
        ("3 Forecasts", ["3.1 The Customer gives a forecast each quarter. It binds nobody."]),
        ("4 Orders", ["4.1 Orders are accepted or refused within two Business Days."]),
        ("5 Delivery", ["5.1 Delivery is to the Customer's works at Taunton.", "5.2 Pallets are lent against a deposit."]),
        ("6 Charges", ["6.1 Prices are in schedule 1.", "6.2 Prices change on 1 July with the index in schedule 2."]),
        ("7 Payment", ["7.1 Invoices are paid within 45 days.", "7.2 Disputed sums may be held back.", "7.3 Late payments bear interest of 4% a year above base rate."]),
        ("8 Rebates", ["8.1 There are no rebates unless agreed in writing."]),
        ("9 Quality", ["9.1 Products meet the specification in schedule 3.", "9.2 The Customer inspects within five Business Days."]),
        ("10 Confidentiality", ["10.1 Each party keeps the other's secrets for five years."]),
        ("11 Liability", [
            "11.1 Nothing limits liability for death, injury or fraud.",
            f"11.2 Otherwise the Supplier's total liability for claims that arise in a Contract Year is limited to the greater of GBP {a['floor_old']:,} and {a['cap_old']}% of the Charges of the Contract Year before it.",
            "11.3 Neither party is liable for lost profit.",
        ]),
        ("12 Term and termination", [
            "12.1 This agreement runs from 1 July 2023 until it is ended.",
            f"12.2 Either party may end it without cause by {facts.NOTICE['old']}' written notice.",
            f"12.3 Either party may end it at once if the other doesn't cure a serious breach within {facts.CURE['old']} Business Days after notice.",
        ]),
        ("13 Force majeure", ["13.1 Nobody is liable for what nobody can help."]),
        ("14 Notices", ["14.1 Notices are in writing and sent by courier or recorded post."]),
        ("15 General", ["15.1 A variation is valid only in writing, signed by both parties.", "15.2 Nobody may assign without consent."]),
        ("16 Law", ["16.1 The law of England and Wales applies; the courts of Bristol have jurisdiction."]),
    ]  # fmt: skip
    blocks: list[Any] = [H("Supply agreement", 0), P("1 June 2023. Brightwater Packaging Ltd and Osterley Foods plc.")]
    for head, paragraphs in clauses:
        blocks += [H(head, 2), *map(P, paragraphs)]
    blocks += [H("Schedule 1", 2), Table([["Product", "Price per thousand (GBP)"], ["Carton C12", "214.00"], ["Carton C24", "331.50"], ["Tray T4", "96.20"]])]  # fmt: skip
    blocks.append(P("Signed for the Supplier by A. Kemp; signed for the Customer by L. Dray."))
    return document(
        blocks, title="Supply agreement", author=messages.GARETH[0], when=datetime(2023, 6, 1), header="Signed version", footer=FIRM
    )  # fmt: skip


def _amendment_one() -> bytes:
    a = facts.AGREED
    return pdf.report(
        [
            pdf.Columns(2),
            pdf.Heading("Amendment No 1", 0),
            pdf.Para(
                "28 November 2024. Brightwater Packaging Ltd (the Supplier) and Osterley Foods plc (the Customer), to the supply agreement of 1 June 2023 (the Agreement). In force from 1 January 2025."
            ),
            pdf.Heading("1 Sustainability"),
            pdf.Para(
                "1.1 A new clause 9 is inserted after clause 8 of the Agreement: <i>9 Sustainability. 9.1 Products are made of certified board. 9.2 The Supplier reports its emissions once a year.</i>"
            ),
            pdf.Para(
                "1.2 The clauses that were numbered 9 to 16 are numbered 10 to 17 from then on, their sub-clauses likewise. References in the Agreement are read accordingly."
            ),
            pdf.Heading("2 Liability"),
            pdf.Para(
                f"2.1 In the clause about limits of liability, which by then is clause 12.2, \"GBP {a['floor_old']:,} and {a['cap_old']}%\" becomes \"GBP {a['floor']:,} and {a['cap']}%\"."
            ),
            pdf.Heading("3 Ending without cause"),
            pdf.Para(
                f"3.1 In what is then clause 13.2, \"{facts.NOTICE['old']}' written notice\" becomes \"{facts.NOTICE['new']} days' written notice\"."
            ),
            pdf.Heading("4 Otherwise"),
            pdf.Para("4.1 The Agreement stays as it is."),
            pdf.Rows([["Supplier", "Customer"], ["signed A. Kemp", "signed L. Dray"], ["28 Nov 2024", "28 Nov 2024"]], "ll"),
        ],
        title="Amendment No 1",
        author=FIRM,
        letterhead="Executed copy",
        footer="Brightwater / Osterley - Amendment No 1",
    )  # fmt: skip


def _amendment_two(version: int) -> bytes:
    offered = facts.AGREED["offered"] if version == 3 else 225
    cure = 25 if version == 3 else 45
    return document(
        [
            H("Amendment No 2", 0),
            P(f"Draft v{version}, not signed. Brightwater Packaging Ltd (the **Vendor**) and Osterley Foods plc (the **Purchaser**)."),
            H("Background", 2),
            P("(A) The Vendor and the Purchaser are parties to a supply agreement of 1 June 2023, amended by Amendment No 1 of 28 October 2024 (the Agreement)."),
            P("(B) The Purchaser wants a higher limit of liability. The Vendor agrees to it in return for longer notice."),
            H("1 Words", 2),
            P("1.1 Words defined in the Agreement mean the same in this amendment."),
            H("2 Liability", 2),
            P(f"2.1 In clause 11.2 of the Agreement \"{facts.AGREED['cap_old']}%\" becomes \"{offered}%\"."),
            P("2.2 Clause 11.1 of the Agreement is not affected. The Vendor insures the limit."),
            H("3 Ending the Agreement", 2),
            P("3.1 In clause 12.2 of the Agreement \"120 days\" becomes \"150 days\"."),
            P(f"3.2 The cure period in clause 12.3 of the Agreement becomes {cure} Business Days."),
            H("4 Payment", 2),
            P("4.1 Clause 7.3 of the Agreement (interest) applies to sums that the Purchaser holds back without reason."),
            H("5 Effect", 2),
            P("5.1 Clauses 2 and 3 of this amendment take effect on 1 July 2026. They don't apply to claims that arose before."),
            P("5.2 Notices under this amendment are given under clause 14 of the Agreement. Clause 15.1 of the Agreement applies to changes of this amendment."),
            P("For the Vendor: ____________    For the Purchaser: ____________"),
        ],
        title=f"Amendment No 2 draft v{version}",
        author=messages.JONAH[0],
        when=datetime(2026, 2, 10 if version == 2 else 26),
        header=f"Draft v{version} - subject to contract",
        footer=FIRM,
    )  # fmt: skip


def _charges() -> bytes:
    rows: list[list[Any]] = [["Month", "Goods", "Freight", "Pallet deposits", "Net invoiced", "VAT", "Invoiced"]]
    for n, c in enumerate(facts.charges(), start=2):
        vat = round(c.net * 0.2, 2)
        rows.append(
            [c.month, c.goods, c.freight, c.deposits, F(f"=SUM(B{n}:D{n})", c.net), F(f"=ROUND(E{n}*0.2,2)", vat), F(f"=E{n}+F{n}", c.net + vat)]
        )  # fmt: skip
    last = len(rows)
    years: list[list[Any]] = [["Calendar year", "Net invoiced"]]
    for n, year in enumerate(("2023", "2024", "2025", "2026"), start=2):
        value = sum(c.net for c in facts.charges() if c.month.startswith(year))
        years.append([year, F(f'=SUMIF(Charges!A$2:A${last},A{n}&"-*",Charges!E$2:E${last})', value)])
    credits: list[list[Any]] = [["Number", "Issued", "Deliveries of", "Net amount"], *[list(c) for c in facts.CREDITS]]
    total = sum(c[3] for c in facts.CREDITS)
    credits.append([Bold("Total"), None, None, Bold(F(f"=SUM(D2:D{len(facts.CREDITS) + 1})", total))])
    money = dict.fromkeys(range(1, 7), "#,##0.00")
    return workbook(
        [
            Sheet("Charges", rows, header=0, formats=money),
            Sheet("Credit notes", credits, header=0, formats={3: "#,##0.00"}),
            Sheet("By year", years, header=0, formats={1: "#,##0.00"}),
        ],
        title="Osterley charges",
        author=messages.KEMP[0],
        when=datetime(2026, 2, 23),
    )


def _protocol() -> bytes:
    return pdf.report(
        [
            pdf.Columns(2),
            pdf.Heading("Disclosure protocol", 0),
            pdf.Para("Corrigan Joinery Ltd v Hallmark Estates plc. For the team that acts for Corrigan. January 2026."),
            pdf.Heading("1 Our side"),
            pdf.Para(
                "1.1 Our side is the staff of Corrigan Joinery Ltd and the lawyers of Tarrant Moss LLP. Everybody else, experts included, is a third party."
            ),
            pdf.Para(
                "1.2 Whether somebody is a lawyer is decided by the sheet People for the date of the document. In-house lawyers count while they hold that post."
            ),
            pdf.Heading("2 Advice privilege (LAP)"),
            pdf.Para(
                "2.1 A document is privileged as LAP if its purpose in the index is legal advice, everybody who wrote or got it (copies included) belongs to our side, and at least one of them was a lawyer on its date."
            ),
            pdf.Heading("3 Litigation privilege (LP)"),
            pdf.Para(
                "3.1 A document is privileged as LP if its purpose in the index is the proceedings and it was made on or after the day on which proceedings were in reasonable contemplation. Third parties do no harm."
            ),
            pdf.Para(f"3.2 That day is 3 June {facts.CONTEMPLATED['protocol'].year}, the date of the letter before claim."),
            pdf.Heading("4 Loss"),
            pdf.Para(
                "4.1 Nothing is privileged that anybody at Hallmark Estates plc wrote or got, or that we have disclosed on purpose."
            ),
            pdf.Heading("5 The log"),
            pdf.Para("5.1 The log holds the privileged documents only, by number. Where both grounds apply, LAP is shown."),
            pdf.Rows([["Ground", "In the log"], ["Advice privilege", "LAP"], ["Litigation privilege", "LP"]], "ll"),
        ],
        title="Disclosure protocol",
        author=messages.HELENA[0],
        letterhead=FIRM,
        footer="Corrigan v Hallmark - privileged",
    )  # fmt: skip


def _order() -> bytes:
    return pdf.report(
        [
            pdf.Heading("Order", 0),
            pdf.Para("Corrigan Joinery Ltd (claimant) and Hallmark Estates plc (defendant). 6 February 2026."),
            pdf.Rows(
                [
                    ["Paragraph", "Step", "By"],
                    ["3", "Exchange of lists of documents", "4 pm on Friday 20 March 2026"],
                    ["5", "Inspection of documents", "14 days after the day on which lists are to be exchanged"],
                    ["6", "Witness statements", "4 pm on 26 June 2026"],
                ],
                "lll",
                (22, 80, 70),
            ),
            pdf.Para(
                "7 The parties may by agreement in writing, for which e-mail is enough, put off a date in paragraphs 3 to 5 by up to 28 days without applying to the court, so long as the trial date isn't put at risk."
            ),
            pdf.Para(
                "8 Business days are days other than Saturdays, Sundays and bank holidays in England. A period of business days begins on the day after the date from which it runs."
            ),
            pdf.Para("9 The costs of the hearing are costs in the case."),
        ],
        title="Order of 6 February 2026",
        author="Clerk",
        letterhead="Business list, Bristol",
        footer="Sealed copy",
    )


def _index() -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["doc_id", "date", "kind", "from", "to", "cc", "purpose"])
    for d in facts.documents():
        writer.writerow([d.id, d.day.isoformat(), d.kind, d.sender, d.to, d.cc, d.purpose])
    return out.getvalue()


def _people() -> bytes:
    rows: list[list[Any]] = [["Name", "Organisation", "Role", "Lawyer from", "Lawyer until"]]
    rows += [[p.name, p.organisation, p.role, p.lawyer_from, p.lawyer_until] for p in facts.SOMEONE]
    sides: list[list[Any]] = [["Organisation", "People"]]
    for n, name in enumerate((facts.CLIENT, facts.OWN, facts.OTHER), start=2):
        count = sum(p.organisation == name for p in facts.SOMEONE)
        sides.append([name, F(f"=COUNTIF(People!B$2:B${len(rows)},A{n})", count)])
    return workbook(
        [Sheet("People", rows, header=0), Sheet("Sides", sides, header=0)],
        title="People in Corrigan v Hallmark",
        author=messages.JONAH[0],
        when=datetime(2026, 2, 16),
    )


def _summary() -> bytes:
    dates = [
        (date(2024, 9, 2), "Contract for the joinery at Wapping Wharf"),
        (date(2025, 3, 31), "Marian Voss leaves the legal department"),
        (date(2025, 5, 14), "Corrigan's board resolves to claim"),
        (date(2025, 6, 3), "Letter before claim"),
        (date(2025, 11, 20), "Claim issued"),
        (date(2026, 2, 6), "Order for directions"),
    ]
    return document(
        [
            H("Case summary", 0),
            P("Corrigan claims the price of extra work at Wapping Wharf, GBP 1.3 million; Hallmark says that none was ordered."),
            Table([["Date", "Event"], *[[f"{d.day} {d:%B %Y}", text] for d, text in dates]]),
        ],
        title="Case summary",
        author=messages.JONAH[0],
        when=datetime(2026, 2, 12),
        header=FIRM,
        footer="Corrigan v Hallmark",
    )  # fmt: skip
